// SPDX-License-Identifier: Apache-2.0
// The lock of one engine, shared by all processes of the machine that drive it.
//
// A word of our own in a mapped file, because a robust pthread mutex in shared memory would let one user
// write into another's address space through its list pointers: here, whatever a peer stores in the file
// is only ever compared. The file has exactly the owner and mode of the device node, so that nobody can
// hold the lock who could not touch the engine anyway.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/process.h"

namespace sunxi {

// Who takes the lock: this process. Made anew in a forked child.
struct LockIdentity {
  // Reads /proc; not to be called in a sandbox. The parameter is for PerProcess.
  explicit LockIdentity(const LockIdentity* inherited = nullptr) noexcept;

  std::uint64_t token = 0;       // never 0
  std::uint64_t start_time = 0;  // clock ticks since boot, 0 where /proc is not there or not ours
};

// The content of the file. The word is 0 or the holder: bits 63..32 the inode of its pid namespace (0 if
// unknown), bit 31 "there may be waiters", bits 30..0 its pid. Namespace and pid belong to one atomic, so
// that a holder that dies at any point can be told from a living one.
struct LockWords {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint64_t> start_time;  // of the holder, 0 while it is not recorded
  std::atomic<std::uint64_t> last_user;   // who used the engine last, see EngineLock::changed_hands
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

class EngineLock {
 public:
  enum class Taken : std::uint8_t { no, yes, from_dead };

  explicit EngineLock(LockWords& words) noexcept;

  // Uncontended: one atomic operation. Else it waits for about a millisecond; then it takes the lock from
  // a holder that is proven dead (the engine may be in any state), or gives up.
  [[nodiscard]] Taken acquire(const LockIdentity& self, Process& process) noexcept {
    if (try_acquire(self)) [[likely]]
      return Taken::yes;
    return acquire_contended(self, process);
  }

  // False at once where acquire would have to wait.
  [[nodiscard]] bool try_acquire(const LockIdentity& self) noexcept {
    std::uint64_t expected = 0;
    if (!words_.word.compare_exchange_strong(expected, self.token, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
      return false;
    }
    words_.start_time.store(self.start_time, std::memory_order_relaxed);
    return true;
  }

  // True if others are waiting.
  bool release(Process& process) noexcept {
    words_.start_time.store(0, std::memory_order_relaxed);
    const std::uint64_t old = words_.word.exchange(0, std::memory_order_release);
    if ((old & waiters) == 0) [[likely]]
      return false;
    wake(process);
    return true;
  }

  // For the holder: whether somebody else used the engine after it did, or before it ever did. Somebody is
  // one object in one process: two providers in a process know nothing of each other's requests.
  [[nodiscard]] bool changed_hands(const LockIdentity& self) noexcept {
    const std::uint64_t user = self.token + salt_;
    if (words_.last_user.load(std::memory_order_relaxed) == user) [[likely]]
      return false;
    words_.last_user.store(user, std::memory_order_relaxed);
    return true;
  }

  // Lets a waiter have its turn: returns when somebody has taken the lock, or soon.
  void give_way(Process& process) const noexcept;

  static constexpr std::uint64_t waiters = std::uint64_t{1} << 31;

 private:
  Taken acquire_contended(const LockIdentity& self, Process& process) noexcept;
  void wake(Process& process) noexcept;

  LockWords& words_;
  const std::uint64_t salt_;  // of this object among those of the process
};

inline constexpr std::size_t lock_file_bytes = 4096;

// Opens or creates /run/sunxi-<engine base>.lock (under /var/run where there is no /run) for a device node
// of this status. The descriptor is empty if that cannot be done, or if the file is not exactly as it
// should be: then `why` points to static text.
[[nodiscard]] Descriptor open_lock_file(std::uint64_t engine_base, const struct stat& device,
                                        const char*& why) noexcept;

}  // namespace sunxi
