// SPDX-License-Identifier: Apache-2.0
// Fork generation, sandbox probe, owned descriptors, clock and log.
#include "backends/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <string_view>

namespace sunxi {
namespace {

// The number of a call that OpenSSH's filter knows as fstat, on each machine.
#if defined(SYS_fstat64)
constexpr long fstat_number = SYS_fstat64;
#else
constexpr long fstat_number = SYS_fstat;
#endif

// One write, so that lines of several processes do not mix. A reader that is slow, or gone, loses the line
// and does neither stop nor kill the program.
void write_without_harm(int descriptor, const char* line, std::size_t length) noexcept {
  pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, 0) != 1 || ready.revents != POLLOUT) return;
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  if (pthread_sigmask(SIG_BLOCK, &pipe_signal, &before) != 0) return;
  if (write(descriptor, line, length) < 0 && errno == EPIPE && sigismember(&pending, SIGPIPE) == 0) {
    const timespec at_once{};
    sigtimedwait(&pipe_signal, nullptr, &at_once);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Before Linux 4.14 there is no such advice. An emulator (qemu-user before 8.0) says yes to any, and does
// nothing: also to one that does not exist.
bool wipes_on_fork(void* page, std::size_t bytes) noexcept {
  constexpr int no_advice = -1;
  return madvise(page, bytes, no_advice) != 0 && madvise(page, bytes, MADV_WIPEONFORK) == 0;
}

}  // namespace

int raw_fstat(int descriptor, FileId& id) noexcept {
  const ErrnoGuard guard;
#if defined(SYS_fstat64)
  struct stat64 status {};
#else
  struct stat status {};
#endif
  if (syscall(fstat_number, descriptor, &status) != 0) return errno;
  id = {.device = static_cast<dev_t>(status.st_dev), .inode = static_cast<ino_t>(status.st_ino)};
  return 0;
}

Descriptor::Descriptor(int number) noexcept : number_(number) {
  if (number_ >= 0 && raw_fstat(number_, id_) != 0) id_ = {};  // never equal to an open file's identity
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = std::exchange(other.number_, -1);
    id_ = other.id_;
  }
  return *this;
}

Descriptor::State Descriptor::state() const noexcept {
  FileId now;
  const int error = raw_fstat(number_, now);
  if (error == 0) return now == id_ ? State::ours : State::stolen;
  // Only that a number is closed is an answer about it; all else is a filter's.
  return error == EBADF ? State::stolen : State::sandboxed;
}

void Descriptor::reset() noexcept {
  if (number_ >= 0 && state() == State::ours) {
    const ErrnoGuard guard;
    const CancelGuard no_cancel;
    close(number_);
  }
  number_ = -1;
}

Process::Process() noexcept {
  if (raw_fstat(STDERR_FILENO, standard_error_) != 0) standard_error_ = {};
}

Process::~Process() {
  if (std::atomic<std::uint64_t>* page = page_.load()) munmap(page, sizeof *page);
}

std::uint64_t Process::renew() noexcept {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free || sizeof(void*) == 4);
  const ErrnoGuard guard;
  std::atomic<std::uint64_t>* page = page_.load(std::memory_order_acquire);
  if (page == nullptr && !lacks_pages_.load(std::memory_order_relaxed) && !sandboxed()) {
    void* fresh = mmap(nullptr, sizeof *page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh != MAP_FAILED) {
      if (wipes_on_fork(fresh, sizeof *page)) {
        auto* made = new (fresh) std::atomic<std::uint64_t>(0);
        if (page_.compare_exchange_strong(page, made, std::memory_order_acq_rel)) {
          page = made;
          fresh = nullptr;
        }
      } else {
        lacks_pages_.store(true, std::memory_order_relaxed);
      }
      if (fresh != nullptr) munmap(fresh, sizeof *page);
    }
  }
  // Without such a page the process number itself tells parent and child apart.
  if (page == nullptr) return static_cast<std::uint64_t>(getpid()) << 32U;
  const std::uint64_t candidate = last_generation_.fetch_add(1, std::memory_order_relaxed) + 1;
  std::uint64_t found = 0;
  return page->compare_exchange_strong(found, candidate, std::memory_order_acq_rel) ? candidate : found;
}

bool Process::sandboxed() noexcept {
  if (sandboxed_.load(std::memory_order_relaxed)) return true;
  FileId unused;
  const int error = raw_fstat(-1, unused);  // EBADF wherever the call is let through
  if (error == EBADF) return false;
  sandboxed_.store(true, std::memory_order_relaxed);
  return true;
}

bool Process::filtered() noexcept {
  const ErrnoGuard guard;
  // A filter may be one thread's alone. Before Linux 3.17 only the first thread's can be seen.
  int number = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
  if (number < 0 && errno == ENOENT) number = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (number < 0) return true;
  const Descriptor file(number);
  return filtered(number);
}

bool Process::filtered(int status) noexcept {
  const ErrnoGuard guard;
  constexpr std::string_view key = "\nSeccomp:\t";
  constexpr std::size_t whole = key.size() + 2;
  // Small, because a thread's stack may be; enough for all but processes in very many groups.
  std::array<char, 2048> buffer{};
  std::size_t kept = 0;
  for (off_t offset = 0;;) {
    const ssize_t have = pread(status, buffer.data() + kept, buffer.size() - kept, offset);
    if (have < 0 && errno == EINTR) continue;
    if (have < 0) return true;
    // A kernel that knows no filters shows no such line.
    if (have == 0) return offset == 0;
    offset += have;
    const std::string_view text(buffer.data(), kept + static_cast<std::size_t>(have));
    const std::size_t at = text.find(key);
    if (at != std::string_view::npos && at + whole <= text.size())
      return text.substr(at + key.size(), 2) != "0\n";
    // Its beginning may be at the end of this piece.
    kept = std::min(text.size(), whole - 1);
    std::memmove(buffer.data(), text.data() + text.size() - kept, kept);
  }
}

std::uint64_t Process::now() const noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

void Process::log(LogLevel level, const char* format, ...) noexcept {
  if (!logs(level) || level == LogLevel::off) return;
  constexpr std::uint64_t window = 10'000'000'000U;
  constexpr std::uint32_t most = 20;
  if (level == LogLevel::error) {
    const std::uint64_t time = now();
    std::uint64_t start = window_start_.load(std::memory_order_relaxed);
    if (start == 0 || time - start >= window) {
      if (window_start_.compare_exchange_strong(start, time | 1U, std::memory_order_relaxed))
        window_lines_.store(0, std::memory_order_relaxed);
    }
    const std::uint32_t lines = window_lines_.fetch_add(1, std::memory_order_relaxed);
    if (lines > most) return;
    if (lines == most) format = "further errors of the next seconds are not shown";
  }
  std::array<char, 512> line{"sunxi: "};
  constexpr std::size_t prefix = 7;
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line.data() + prefix, line.size() - prefix - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  const std::size_t end = std::min(prefix + static_cast<std::size_t>(length), line.size() - 2);
  // A value from outside may hold anything; a terminal would obey it.
  std::replace_if(
      line.begin() + prefix, line.begin() + static_cast<std::ptrdiff_t>(end),
      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, ' ');
  line[end] = '\n';
  write_line(line.data(), end + 1);
}

void Process::write_line(const char* line, std::size_t length) noexcept {
  const ErrnoGuard guard;
  const CancelGuard no_cancel;
  FileId now;
  const int error = raw_fstat(STDERR_FILENO, now);
  if (sandboxed_.load(std::memory_order_relaxed) || error == EACCES || error == EPERM) return;
  if (error == 0 && now == standard_error_) {
    write_without_harm(STDERR_FILENO, line, length);
    return;
  }
  if (filtered()) return;  // syslog opens a socket
  syslog(LOG_NOTICE, "%.*s", static_cast<int>(length - 1), line);
}

}  // namespace sunxi
