// SPDX-License-Identifier: Apache-2.0
// /dev/hwrng (Linux drivers/char/hw_random/core.c), read within a bound of time.
//
// O_NONBLOCK alone bounds nothing: the node's reads queue behind the kernel's own thread, which waits for the
// device, and poll always says "readable". A read was seen to take 270 ms that way, and with a device that
// never answers it never ends; nothing but a signal ends it. So the read is done in a child that ends itself:
// without SIGCHLD, unseen by wait(), with all signals blocked, making system calls only, and holding no
// descriptor but the device's.
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
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
#include <cstddef>
#include <cstring>
#include <ctime>
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
// What ends a child that has no timer and was forgotten by its parent: a second of waiting.
constexpr int most_tries = 1000;
// How long a read waits for its child's end; later reads look again.
constexpr std::uint64_t time_to_die = 5'000'000;
// The last look waits longer, for what is not seen to end then stays in the process table: on a busy machine
// a killed child needs a turn to end. Reached only where the kernel or a tracer holds it.
constexpr std::uint64_t longest_end = 1'000'000'000;

// Exchange::error, beside errno.
constexpr int end_of_file = -1;
constexpr int not_the_device = -2;

// Between the child and us; in a shared mapping, of its own for each read: one that is left behind writes to
// nobody.
struct Exchange {
  std::atomic<std::uint32_t> finished;
  std::atomic<std::uint32_t> size;
  int error;  // before `finished`
  std::array<std::uint8_t, startup_bytes + bytes_per_source> bytes;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

#define SUNXI_IN_CHILD __attribute__((no_sanitize("address", "thread", "undefined")))

// The child ends then, whether or not there still is somebody to end it: its parent may be another program
// by then.
SUNXI_IN_CHILD void end_after(std::uint64_t nanoseconds) noexcept {
#ifdef SYS_timer_settime
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  int timer = 0;  // the kernel's own type
  if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) != 0) return;
  const struct {
    KernelTime interval;
    KernelTime first;
  } when{
      {0, 0},
      {static_cast<long>(nanoseconds / 1'000'000'000), static_cast<long>(nanoseconds % 1'000'000'000 + 1)}};
  syscall(SYS_timer_settime, timer, 0, &when, nullptr);
#else
  static_cast<void>(nanoseconds);
#endif
}

// The entries of /proc/self/fd, as getdents64 gives them: from their start on to their name.
constexpr std::size_t entry_size_at = 16;
constexpr std::size_t entry_name_at = 19;

// Closes all but `kept`; before Linux 5.9.
SUNXI_IN_CHILD void close_listed(int kept) noexcept {
  const long folder = syscall(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY);
  if (folder < 0) return;
  alignas(8) char entries[1024];
  for (;;) {
    const long size = syscall(SYS_getdents64, folder, entries, sizeof entries);
    if (size <= 0) break;
    for (long at = 0; at < size;) {
      const char* entry = entries + at;
      at += static_cast<unsigned char>(entry[entry_size_at]) |
            static_cast<unsigned char>(entry[entry_size_at + 1]) << 8;
      int number = 0;
      const char* digit = entry + entry_name_at;
      if (*digit < '0' || *digit > '9') continue;
      for (; *digit != 0; ++digit) number = number * 10 + (*digit - '0');
      if (number != kept && number != folder) syscall(SYS_close, number);
    }
  }
  syscall(SYS_close, folder);
}

// The child is made with its parent's table of descriptors, so that nothing is held open until it runs. 0
// once it has a table of its own with nothing in it but `kept`, or an errno.
SUNXI_IN_CHILD int keep_only(int kept) noexcept {
  constexpr long close_range_call = 436;  // the same on all machines; C libraries may not know it
  constexpr unsigned int into_own_table = 2;
  const auto number = static_cast<unsigned int>(kept);
  // What is above is not even copied.
  if (syscall(close_range_call, number + 1, ~0U, into_own_table) == 0) {
    if (number != 0) syscall(close_range_call, 0U, number - 1, 0U);
    return 0;
  }
  if (syscall(SYS_unshare, CLONE_FILES) != 0) return errno;
  close_listed(kept);
  return 0;
}

// The child: nothing but system calls, because it may be the copy of a process with threads.
[[noreturn]] SUNXI_IN_CHILD void read_in_child(const Descriptor& device, Exchange& exchange,
                                               std::size_t wanted, pid_t parent,
                                               std::uint64_t nanoseconds) noexcept {
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  end_after(nanoseconds);
  std::size_t have = 0;
  int error = keep_only(device.get());
  // Nobody else can change this table any more.
  if (error == 0 && device.state() != Descriptor::State::ours) error = not_the_device;
  for (int tries = 0; error == 0 && have < wanted && tries < most_tries && syscall(SYS_getppid) == parent;) {
    const long got = syscall(SYS_read, device.get(), &exchange.bytes[have], wanted - have);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
      exchange.size.store(static_cast<std::uint32_t>(have), std::memory_order_release);
    } else if (got < 0 && errno == EAGAIN) {
      const KernelTime time{0, pause_between_tries};
      syscall(SYS_nanosleep, &time, nullptr);
      ++tries;
    } else {
      error = got == 0 ? end_of_file : errno;
    }
  }
  exchange.error = error;
  exchange.finished.store(1, std::memory_order_release);
  syscall(SYS_futex, &exchange.finished, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  for (;;) syscall(SYS_exit_group, 0);
}

class SharedMemory {
 public:
  SharedMemory() noexcept {
    void* page = mmap(nullptr, sizeof(Exchange), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) exchange_ = new (page) Exchange{};
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    if (exchange_ == nullptr) return;
    wipe(exchange_->bytes.data(), exchange_->bytes.size());
    munmap(exchange_, sizeof(Exchange));
  }
  // Null without memory.
  [[nodiscard]] Exchange* get() const noexcept { return exchange_; }
  // Children that are made from now on do not have it.
  void hide() noexcept { madvise(exchange_, sizeof(Exchange), MADV_DONTFORK); }

 private:
  Exchange* exchange_ = nullptr;
};

class HwRng final : public Source {
 public:
  HwRng(Process& process, bool under_seccomp, const char* path) noexcept
      : process_(process), made_in_(process.generation()), under_seccomp_(under_seccomp), path_(path) {}
  ~HwRng() override {
    // In the process that made it; elsewhere there is no such child to wait for.
    const ErrnoGuard guard;
    if (child_ != 0 && process_.generation() == made_in_ && may_call())
      static_cast<void>(reap(fine_clock() + longest_end));
  }

  [[nodiscard]] const char* name() const noexcept override { return path_; }

  void let_go() noexcept override {
    if (let_go_.exchange(true)) return;
    const ErrnoGuard guard;
    device_.reset();
    status_.reset();
  }

  void tidy() noexcept override {
    if (child_ == 0) return;
    const ErrnoGuard guard;
    if (may_call()) static_cast<void>(reap(0));
  }

  [[nodiscard]] ReadResult read(std::span<std::uint8_t> out, std::uint64_t deadline) noexcept override {
    const ErrnoGuard guard;
    if (process_.sandboxed()) return {Read::absent, 0, "the process is in a sandbox", 0};
    if (!under_seccomp_) {
      if (const Filter filter = look_for_filter(); filter != Filter::none) return refusal(filter);
    }
    if (const ReadResult opened = open_device(); opened.read != Read::done) return opened;
    if (const ReadResult here = makes_children_here(); here.read != Read::done) return here;
    // A reader that the kernel still holds: the device counts as slow.
    if (child_ != 0 && !reap(deadline)) return {Read::done, 0, nullptr, 0};
    SharedMemory memory;
    Exchange* const exchange = memory.get();
    if (exchange == nullptr) return {Read::absent, 0, "no memory", errno};
    const std::size_t wanted = std::min(out.size(), exchange->bytes.size());
    if (!start_child(*exchange, wanted, deadline))
      return {Read::absent, 0, "no child can be made to read the device", errno};
    memory.hide();
    await(*exchange, deadline);
    const bool finished = exchange->finished.load(std::memory_order_acquire) != 0;
    if (!finished) end_child();
    if (child_ != 0) static_cast<void>(reap(fine_clock() + time_to_die));
    // One that has not ended yet only ever adds to these.
    const std::size_t got = std::min<std::size_t>(exchange->size.load(std::memory_order_acquire), wanted);
    std::memcpy(out.data(), exchange->bytes.data(), got);
    if (!finished || got != 0) return {Read::done, got, nullptr, 0};
    switch (const int error = exchange->error; error) {
      case 0:
        return {Read::done, 0, nullptr, 0};
      case not_the_device:  // any more: what has its number is the application's, and the next read opens
                            // another
        device_.forget();
        return {Read::done, 0, nullptr, 0};
      case end_of_file:
        return {Read::failed, 0, "end of file", 0};
      case ENODEV:
        return {Read::absent, 0, "the kernel has no generator behind it", 0};
      default:
        return {Read::failed, 0, "read", error};
    }
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
  // tells of it is kept open from the first use on. An application that closes all of its descriptors closes
  // that one as well; it is then opened as at the first use.
  Filter look_for_filter() noexcept {
    if (status_) {
      switch (status_.state()) {
        case Descriptor::State::ours:
          break;
        case Descriptor::State::sandboxed:
          return Filter::present;
        case Descriptor::State::stolen:
          status_.forget();
          break;
      }
    }
    if (!status_) {
      const int number = open_apart("/proc/self/status", O_RDONLY | O_CLOEXEC);
      if (number < 0) return Filter::unknown;
      status_ = Descriptor(number);
    }
    if (Process::filtered(status_.get())) return Filter::present;
    // That is the first thread's, whose filters mostly are everybody's. Another may have more.
    if (syscall(SYS_gettid) == syscall(SYS_getpid)) return Filter::none;
    return Process::filtered() ? Filter::present : Filter::none;
  }

  // Whether a call may be made that no filter has to let through.
  bool may_call() noexcept {
    return !process_.sandboxed() && (under_seccomp_ || look_for_filter() == Filter::none);
  }

  // After unshare or setns, which are a thread's, a child would be the first of a process namespace, and its
  // end that namespace's.
  static ReadResult makes_children_here() noexcept {
    std::array<char, 64> own{};
    std::array<char, 64> children{};
    const ssize_t own_size = readlink("/proc/thread-self/ns/pid", own.data(), own.size());
    const int own_error = errno;
    const ssize_t size = readlink("/proc/thread-self/ns/pid_for_children", children.data(), children.size());
    if (own_size > 0 && own_size == size && own == children) return {Read::done, 0, nullptr, 0};
    if (own_size > 0 && size > 0)
      return {Read::absent, 0, "children of the process are in another process namespace", 0};
    return {Read::absent, 0, "/proc/thread-self/ns does not tell which process namespace a child would be in",
            own_size > 0 ? errno : own_error};
  }

  bool start_child(Exchange& exchange, std::size_t wanted, std::uint64_t deadline) noexcept {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
    const auto self = static_cast<pid_t>(syscall(SYS_getpid));
    const std::uint64_t now = fine_clock();
    const std::uint64_t left = deadline > now ? deadline - now : 0;
    // As fork, but without the handlers of pthread_atfork, which are others', without a signal at the end,
    // and without copies of the descriptors.
    const long child = syscall(SYS_clone, CLONE_FILES, 0, 0, 0, 0);
    if (child == 0) read_in_child(device_, exchange, wanted, self, left);
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

  // Its timer may have done so. Looked at first, because somebody else who waits for all kinds of children
  // may have had its end, and its number may be another's by now.
  void end_child() noexcept {
    if (!reap(0)) syscall(SYS_kill, child_, SIGKILL);
  }

  // Waits for the child to be gone: it is at its end, or killed. False if the kernel holds it, or the machine
  // has no time for it.
  bool reap(std::uint64_t deadline) noexcept {
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
  const std::uint64_t made_in_;  // the process whose child and files these are
  const bool under_seccomp_;
  const char* const path_;
  Descriptor device_;
  Descriptor status_;
  std::atomic<bool> let_go_{false};
  pid_t child_ = 0;  // that has not been seen to end
};

}  // namespace

std::unique_ptr<Source> make_hwrng(Process& process, bool under_seccomp, const char* path) {
  return std::make_unique<HwRng>(process, under_seccomp, path);
}

}  // namespace sunxi::entropy
