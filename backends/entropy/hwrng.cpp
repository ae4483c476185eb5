// SPDX-License-Identifier: Apache-2.0
// /dev/hwrng (Linux drivers/char/hw_random/core.c), read within a bound of time.
//
// O_NONBLOCK alone bounds nothing: the node's reads queue behind the kernel's own thread, which waits for the
// device, and poll always says "readable". A read was seen to take 270 ms that way, and with a device that
// never answers it never ends; nothing but a signal ends it. So the read is done in a child that can be
// killed: without SIGCHLD, unseen by wait(), with all signals blocked, making system calls only.
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <new>

#include "backends/entropy/collector.h"
#include "backends/entropy/source.h"

namespace sunxi::entropy {
namespace {

// The kernel's own layout for these calls, whatever the C library's time_t is.
struct KernelTime {
  long seconds;
  long nanoseconds;
};

constexpr long pause_between_tries = 1'000'000;
// What ends a child whose parent has forgotten it: a second of waiting.
constexpr int most_tries = 1000;

// Between the child and us; in a shared mapping.
struct Exchange {
  std::atomic<std::uint32_t> finished;
  std::atomic<std::uint32_t> size;
  int error;  // 0, or errno, or -1 for an end of file; before `finished`
  std::array<std::uint8_t, startup_bytes + bytes_per_source> bytes;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// The child: nothing but system calls, because it may be the copy of a process with threads.
[[noreturn]] __attribute__((no_sanitize("address", "thread", "undefined"))) void read_in_child(
    int descriptor, Exchange& exchange, std::size_t wanted, pid_t parent) noexcept {
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  std::size_t have = 0;
  int error = 0;
  for (int tries = 0; have < wanted && tries < most_tries && syscall(SYS_getppid) == parent;) {
    const long got = syscall(SYS_read, descriptor, &exchange.bytes[have], wanted - have);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
      exchange.size.store(static_cast<std::uint32_t>(have), std::memory_order_release);
    } else if (got < 0 && errno == EAGAIN) {
      const KernelTime time{0, pause_between_tries};
      syscall(SYS_nanosleep, &time, nullptr);
      ++tries;
    } else {
      error = got == 0 ? -1 : errno;
      break;
    }
  }
  exchange.error = error;
  exchange.finished.store(1, std::memory_order_release);
  syscall(SYS_futex, &exchange.finished, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  for (;;) syscall(SYS_exit_group, 0);
}

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { unmap(); }
  // Not cleared: it is after each read, and a forked child that ends shares it with its parent.
  void unmap() noexcept {
    if (exchange_ != nullptr) munmap(exchange_, sizeof(Exchange));
    exchange_ = nullptr;
  }
  // Null without memory.
  Exchange* get() noexcept {
    if (exchange_ == nullptr) {
      void* page = mmap(nullptr, sizeof(Exchange), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      if (page == MAP_FAILED) return nullptr;
      exchange_ = new (page) Exchange{};
    }
    return exchange_;
  }
  void clear() noexcept { wipe(exchange_->bytes.data(), exchange_->bytes.size()); }

 private:
  Exchange* exchange_ = nullptr;
};

class HwRng final : public Source {
 public:
  HwRng(Process& process, bool under_seccomp, const char* path) noexcept
      : process_(process), under_seccomp_(under_seccomp), path_(path) {}
  ~HwRng() override {
    // In the process that made it; elsewhere there is no such child to wait for.
    const ErrnoGuard guard;
    if (child_ != 0 && !process_.sandboxed()) static_cast<void>(reap());
  }

  [[nodiscard]] const char* name() const noexcept override { return path_; }

  void let_go() noexcept override {
    if (let_go_.exchange(true)) return;
    const ErrnoGuard guard;
    device_.reset();
    status_.reset();
    memory_.unmap();
  }

  [[nodiscard]] ReadResult read(std::span<std::uint8_t> out, std::uint64_t deadline) noexcept override {
    const ErrnoGuard guard;
    if (process_.sandboxed()) return {Read::absent, 0, "the process is in a sandbox", 0};
    if (!under_seccomp_ && is_filtered())
      return {Read::absent, 0, "the process is under a seccomp filter, see under_seccomp", 0};
    if (const ReadResult opened = open_device(); opened.read != Read::done) return opened;
    if (!makes_children_here())
      return {Read::absent, 0, "children of the process are in another namespace", 0};
    // A reader that the kernel still holds may still write: the device counts as slow.
    if (child_ != 0 && !reap()) return {Read::done, 0, nullptr, 0};
    Exchange* exchange = memory_.get();
    if (exchange == nullptr) return {Read::absent, 0, "no memory", errno};
    exchange->finished.store(0, std::memory_order_relaxed);
    exchange->size.store(0, std::memory_order_relaxed);
    exchange->error = 0;
    const std::size_t wanted = std::min(out.size(), exchange->bytes.size());
    if (!start_child(*exchange, wanted))
      return {Read::absent, 0, "no child can be made to read the device", errno};
    await(*exchange, deadline);
    const bool finished = exchange->finished.load(std::memory_order_acquire) != 0;
    if (!finished) syscall(SYS_kill, child_, SIGKILL);
    // A reader that has finished only has to end; one that is killed may still write.
    if (!reap() && !finished) return {Read::done, 0, nullptr, 0};
    const std::size_t got = std::min<std::size_t>(exchange->size.load(std::memory_order_acquire), wanted);
    std::memcpy(out.data(), exchange->bytes.data(), got);
    memory_.clear();
    const int error = exchange->error;
    if (!finished || error == 0 || got != 0) return {Read::done, got, nullptr, 0};
    if (error == ENODEV) return {Read::absent, 0, "the kernel has no generator behind it", 0};
    if (error < 0) return {Read::failed, 0, "end of file", 0};
    return {Read::failed, 0, "read", error};
  }

 private:
  ReadResult open_device() noexcept {
    if (device_) {
      switch (device_.state()) {
        case Descriptor::State::ours:
          return {Read::done, 0, nullptr, 0};
        case Descriptor::State::sandboxed:
          return {Read::absent, 0, "the process is in a sandbox", 0};
        case Descriptor::State::stolen:
          device_.forget();
          break;
      }
    }
    const int number = open_apart(path_, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (number < 0) return {Read::absent, 0, "it cannot be opened", errno};
    device_ = Descriptor(number);
    return {Read::done, 0, nullptr, 0};
  }

  // Others write to the numbers up to 2 and believe in standard streams.
  static int open_apart(const char* path, int flags) noexcept {
    const int number = open(path, flags);
    if (number < 0 || number > STDERR_FILENO) return number;
    const int moved = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(number);
    return moved;
  }

  // Filters come while a process lives, and one that kills does not let a file be opened. So the file that
  // tells of it is kept open from the first use on.
  bool is_filtered() noexcept {
    if (status_ && status_.state() != Descriptor::State::ours) {
      status_.forget();
      lost_status_ = true;  // its number was taken; whether another may be opened, nobody tells
    }
    if (lost_status_) return true;
    if (!status_) {
      const int number = open_apart("/proc/self/status", O_RDONLY | O_CLOEXEC);
      if (number < 0) return true;
      status_ = Descriptor(number);
    }
    return Process::filtered(status_.get());
  }

  // After unshare or setns a child would be the first of a process namespace, and its end that namespace's.
  static bool makes_children_here() noexcept {
    std::array<char, 64> own{};
    std::array<char, 64> children{};
    const ssize_t own_size = readlink("/proc/self/ns/pid", own.data(), own.size());
    const ssize_t size = readlink("/proc/self/ns/pid_for_children", children.data(), children.size());
    return own_size > 0 && own_size == size && own == children;
  }

  bool start_child(Exchange& exchange, std::size_t wanted) noexcept {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
    const auto self = static_cast<pid_t>(syscall(SYS_getpid));
    // As fork, but without the handlers of pthread_atfork, which are others', and without a signal at the
    // end.
    const long child = syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (child == 0) read_in_child(device_.get(), exchange, wanted, self);
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    if (child < 0) return false;
    child_ = static_cast<pid_t>(child);
    return true;
  }

  static void await(Exchange& exchange, std::uint64_t deadline) noexcept {
    while (exchange.finished.load(std::memory_order_acquire) == 0) {
      const std::uint64_t now = fine_clock();
      if (now >= deadline) return;
      const std::uint64_t left = std::min<std::uint64_t>(deadline - now, 999'999'999);
      const KernelTime time{0, static_cast<long>(left)};
      syscall(SYS_futex, &exchange.finished, FUTEX_WAIT, 0, &time, nullptr, 0);
    }
  }

  // Waits a little for the child to be gone: it is at its end, or killed. False if the kernel holds it, or
  // the machine has no time for it.
  bool reap() noexcept {
    const std::uint64_t deadline = fine_clock() + patience;
    for (long pause = 50'000;; pause = std::min(2 * pause, pause_between_tries)) {
      const long gone = syscall(SYS_wait4, child_, nullptr, WNOHANG | __WCLONE, nullptr);
      if (gone == child_ || (gone < 0 && errno == ECHILD)) {
        child_ = 0;
        return true;
      }
      if (fine_clock() >= deadline) return false;
      const KernelTime time{0, pause};
      syscall(SYS_nanosleep, &time, nullptr);
    }
  }

  Process& process_;
  const bool under_seccomp_;
  const char* const path_;
  Descriptor device_;
  Descriptor status_;
  bool lost_status_ = false;
  std::atomic<bool> let_go_{false};
  SharedMemory memory_;
  pid_t child_ = 0;  // that has not been seen to end
};

}  // namespace

std::unique_ptr<Source> make_hwrng(Process& process, bool under_seccomp, const char* path) {
  return std::make_unique<HwRng>(process, under_seccomp, path);
}

}  // namespace sunxi::entropy
