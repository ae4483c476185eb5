// SPDX-License-Identifier: Apache-2.0
// Descriptors that sessions of the kernel are used through: how many there may be, numbers that the
// application does not come across, and whether a number still is ours.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/process.h"

namespace sunxi::kernel {

// A sixteenth of the descriptors that the process may have now, from 4 to 1024. One system call.
[[nodiscard]] std::size_t descriptor_limit() noexcept;

// The descriptor at a number that the application's next ones will not get: after it has closed all that it
// does not know, the lowest free ones are taken. Never 0 to 2, to which code writes that believes in standard
// streams. Keeps the process's table of descriptors small. Takes `number`, which may be the -1 of a call that
// failed. -1: errno says why; EMFILE where there is no such number, for those below are the
// application's; where a filter refuses the move, the number stays.
[[nodiscard]] int out_of_the_way(int number) noexcept;

// A descriptor that is used again and again.
class KeptDescriptor {
 public:
  // All open files of one device have one identity. marked: what is adopted is marked itself, so that another
  // open file of the same device at its number is not taken for it.
  explicit KeptDescriptor(bool marked = false) noexcept;
  KeptDescriptor(const KeptDescriptor&) = delete;
  KeptDescriptor& operator=(const KeptDescriptor&) = delete;
  ~KeptDescriptor();

  enum class State : std::uint8_t { closed, ready, sandboxed };
  // Whether it still is ours; a number that the application took is `closed` from then on. A look at it costs
  // a twentieth of a small request, so that it is taken once per tick of the clock (some milliseconds), when
  // asked for, and when another object may have got the number. By any number of threads.
  [[nodiscard]] State state(std::uint64_t now, bool look) noexcept;
  [[nodiscard]] State look() noexcept { return state(looked_.load(std::memory_order_relaxed), true); }
  // As found by the last look.
  [[nodiscard]] bool is_lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  [[nodiscard]] int get() const noexcept { return file_.get(); }

  // By one thread, while no other uses the object.
  void adopt(int number, std::uint64_t now) noexcept;  // takes ownership
  bool close() noexcept;                               // true if it was not ours any more

 private:
  [[nodiscard]] Descriptor::State found() const noexcept;
  [[nodiscard]] bool is_taken() const noexcept;
  void drop() noexcept;

  Descriptor file_;
  std::atomic<bool> lost_{false};
  std::atomic<std::uint64_t> looked_{0};  // Process::now() of the last look at it
  const std::uint64_t serial_;
  const bool wants_mark_;
  bool marked_ = false;  // a filter may refuse it
};

}  // namespace sunxi::kernel
