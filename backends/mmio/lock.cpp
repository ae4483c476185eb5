// SPDX-License-Identifier: Apache-2.0
// The slow side of the lock: waiting, proof of death, the file.
#include "backends/mmio/lock.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace sunxi {
namespace {

// Far apart, so that two processes' users do not meet.
constinit std::atomic<std::uint64_t> locks_made{0};

constexpr std::uint64_t pid_mask = 0x7fffffff;
constexpr long wait_limit_ns = 1'000'000;
constexpr int spins = 200;  // some microseconds: a short request

static_assert(std::endian::native == std::endian::little, "the futex is the low half of the lock word");

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__arm__) || defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::int64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The kernel's own layout for SYS_futex, whatever the C library's time_t is.
struct FutexTimeout {
  long seconds;
  long nanoseconds;
};

std::uint32_t* futex_of(std::atomic<std::uint64_t>& word) noexcept {
  return reinterpret_cast<std::uint32_t*>(&word);
}

struct ProcessStatus {
  std::uint64_t pid = 0;
  char state = '?';
  std::uint64_t threads = 0;
  std::uint64_t start_time = 0;
};

// /proc/PID/stat as in proc(5): fields 1, 3, 20 and 22. The command in field 2 can hold anything.
bool read_status(const char* path, ProcessStatus& status) noexcept {
  std::array<char, 1024> text{};
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return false;
  const ssize_t size = read(file.get(), text.data(), text.size() - 1);
  if (size <= 0) return false;
  const char* at = std::strrchr(text.data(), ')');
  if (at == nullptr || at[1] != ' ' || at[2] == '\0') return false;
  status.pid = std::strtoull(text.data(), nullptr, 10);
  status.state = at[2];
  at += 3;
  for (int field = 4; field <= 22; ++field) {
    if (*at != ' ') return false;
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(at, &end, 10);
    if (end == at) return false;
    if (field == 20) status.threads = value;
    if (field == 22) status.start_time = value;
    at = end;
  }
  return true;
}

// Pids mean the same to both only in one pid namespace. A pid that exists is either a corpse that nobody
// has buried yet, or somebody else who came later and got the number.
bool proven_dead(std::uint64_t holder, std::uint64_t start_time, const LockIdentity& self) noexcept {
  const std::uint64_t space = holder >> 32;
  const auto pid = static_cast<pid_t>(holder & pid_mask);
  if (space == 0 || space != self.token >> 32 || pid == 0) return false;
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  if (self.start_time == 0) return false;
  std::array<char, 32> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(pid));
  ProcessStatus status;
  if (!read_status(path.data(), status)) return false;
  if ((status.state == 'Z' || status.state == 'X') && status.threads <= 1) return true;
  return start_time != 0 && status.start_time != start_time;
}

}  // namespace

LockIdentity::LockIdentity(const LockIdentity* /*inherited*/) noexcept {
  const ErrnoGuard guard;
  const auto pid = static_cast<std::uint64_t>(getpid());
  struct stat space {};
  if (stat("/proc/self/ns/pid", &space) == 0) token = static_cast<std::uint64_t>(space.st_ino) << 32;
  token |= pid & pid_mask;
  ProcessStatus status;
  // A /proc of another pid namespace numbers differently.
  if (read_status("/proc/self/stat", status) && status.pid == pid) start_time = status.start_time;
}

EngineLock::EngineLock(LockWords& words) noexcept
    : words_(words), salt_(locks_made.fetch_add(0x9e37'79b9'7f4a'7c15U, std::memory_order_relaxed)) {}

EngineLock::Taken EngineLock::acquire_contended(const LockIdentity& self, Process& process) noexcept {
  for (int spin = 0; spin < spins; ++spin) {
    std::uint64_t expected = 0;
    if (words_.word.load(std::memory_order_relaxed) == 0 &&
        words_.word.compare_exchange_strong(expected, self.token, std::memory_order_acquire)) {
      words_.start_time.store(self.start_time, std::memory_order_relaxed);
      return Taken::yes;
    }
    relax();
  }
  const ErrnoGuard guard;
  if (process.sandboxed()) return Taken::no;

  const std::int64_t until = monotonic_ns() + wait_limit_ns;
  std::uint64_t holder = words_.word.load(std::memory_order_relaxed);
  for (std::int64_t left = wait_limit_ns; left > 0; left = until - monotonic_ns()) {
    if (holder == 0) {
      // With the bit, since there may be others who wait besides us.
      if (words_.word.compare_exchange_strong(holder, self.token | waiters, std::memory_order_acquire)) {
        words_.start_time.store(self.start_time, std::memory_order_relaxed);
        return Taken::yes;
      }
      continue;
    }
    if ((holder & waiters) == 0) {
      if (!words_.word.compare_exchange_strong(holder, holder | waiters, std::memory_order_relaxed)) continue;
      holder |= waiters;
    }
    const FutexTimeout timeout{0, static_cast<long>(left)};
    syscall(SYS_futex, futex_of(words_.word), FUTEX_WAIT, static_cast<std::uint32_t>(holder), &timeout,
            nullptr, 0);
    holder = words_.word.load(std::memory_order_relaxed);
  }

  std::uint64_t start_time = words_.start_time.load(std::memory_order_relaxed);
  holder = words_.word.load(std::memory_order_relaxed);
  if (!proven_dead(holder, start_time, self)) return Taken::no;
  // The dead holder's record goes before its word: were we to die in between, our pid must not be found
  // beside its start time.
  if (!words_.start_time.compare_exchange_strong(start_time, 0, std::memory_order_relaxed)) return Taken::no;
  if (!words_.word.compare_exchange_strong(holder, self.token | waiters, std::memory_order_acquire)) {
    return Taken::no;
  }
  words_.start_time.store(self.start_time, std::memory_order_relaxed);
  return Taken::from_dead;
}

void EngineLock::wake(Process& process) noexcept {
  const ErrnoGuard guard;
  if (process.sandboxed()) return;  // those who wait look again by themselves
  syscall(SYS_futex, futex_of(words_.word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void EngineLock::give_way(Process& process) const noexcept {
  if (process.sandboxed()) return;
  for (int turn = 0; turn < 16 && words_.word.load(std::memory_order_relaxed) == 0; ++turn) sched_yield();
}

namespace {

// Memory for its page, now: a hole that a full /run could not fill would end the program at its first access.
// Null, or why not.
const char* make_room(int file) noexcept {
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < lock_file_bytes)
    return "the limit on the size of files (ulimit -f) leaves no room for the lock file";
  const int error = posix_fallocate(file, 0, static_cast<off_t>(lock_file_bytes));
  if (error == 0) return nullptr;
  return error == ENOSPC || error == EDQUOT ? "no room for the lock file in /run"
                                            : "cannot make room for the lock file";
}

}  // namespace

Descriptor open_lock_file(std::uint64_t engine_base, const struct stat& device, const char*& why) noexcept {
  constexpr mode_t permissions = 07777;
  constexpr int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  for (const char* directory : {"/run", "/var/run"}) {
    std::array<char, 64> path{};
    std::snprintf(path.data(), path.size(), "%s/sunxi-%" PRIx64 ".lock", directory, engine_base);
    // Without any permission until it is complete: only root gets hold of an incomplete one, whose maker is
    // still at it or has died, and completes it; nothing of that harms if two do it.
    Descriptor file(open(path.data(), flags | O_CREAT | O_EXCL, 0));
    if (!file && errno == EEXIST) file = Descriptor(open(path.data(), flags));
    if (!file && errno == ENOENT) continue;
    if (!file) {
      why = errno == ELOOP ? "the lock file is a symbolic link" : "cannot open the lock file";
      return {};
    }
    struct stat status {};
    if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) {
      why = "the lock file is not a regular file with one name";
      return {};
    }
    if ((status.st_mode & permissions) == 0 &&
        (status.st_uid == geteuid() || status.st_uid == device.st_uid)) {
      if (const char* const problem = make_room(file.get())) {
        why = problem;
        return {};
      }
      if (fchown(file.get(), device.st_uid, device.st_gid) != 0 ||
          fchmod(file.get(), device.st_mode & permissions) != 0 || fstat(file.get(), &status) != 0) {
        why = "cannot give the lock file the owner and mode of the device";
        return {};
      }
    }
    if (status.st_uid != device.st_uid || status.st_gid != device.st_gid ||
        (status.st_mode & permissions) != (device.st_mode & permissions) ||
        status.st_size != static_cast<off_t>(lock_file_bytes)) {
      why = "the lock file has not the owner, mode and size that it should have";
      return {};
    }
    if (status.st_blocks == 0) {  // somebody else's way to make it
      if (const char* const problem = make_room(file.get())) {
        why = problem;
        return {};
      }
    }
    return file;
  }
  why = "there is no /run for the lock file";
  return {};
}

}  // namespace sunxi
