// SPDX-License-Identifier: Apache-2.0
// One message of a digest: a buffer, and a session of the module for what the buffer cannot hold.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cryptodev/algorithms.h"
#include "backends/cryptodev/device.h"
#include "backends/kernel/keyed_session.h"

namespace sunxi::cryptodev {

// Used by one thread at a time. Destructible however a fork freezes it (see PerProcess).
//
// A message that fits into the buffer is one ioctl, at its end, which leaves no state in the session. A
// longer one is started there, and from then on the session's state is part of it. Pieces are sent only when
// more is known to follow, so that the last one is never empty: an update of no bytes would finish the
// digest.
class HashSession {
 public:
  HashSession(std::size_t algorithm, std::size_t digest_bytes, std::size_t place, Devices& devices) noexcept
      : algorithm_(algorithm), digest_bytes_(digest_bytes), place_(place), kernel_(devices) {}
  HashSession(const HashSession&) = delete;
  HashSession& operator=(const HashSession&) = delete;
  ~HashSession() = default;

  [[nodiscard]] std::size_t algorithm() const noexcept { return algorithm_; }
  [[nodiscard]] std::size_t place() const noexcept { return place_; }

  [[nodiscard]] KernelSession& kernel() noexcept { return kernel_; }
  [[nodiscard]] const KernelSession& kernel() const noexcept { return kernel_; }
  [[nodiscard]] Fault open(std::uint64_t now, Device* beside = nullptr) noexcept;

  // Whether the session of the module holds a part of the message.
  [[nodiscard]] bool is_started() const noexcept { return started_; }

  // Bytes that the buffer still takes.
  [[nodiscard]] std::size_t room() const noexcept { return chunk_ - used_; }
  // At most room() bytes. False: no memory.
  [[nodiscard]] bool keep(const std::uint8_t* in, std::size_t bytes) noexcept;

  // These need the module's session to be ready. After a fault the message is as it was, as far as it is in
  // the buffer.
  [[nodiscard]] Fault send() noexcept;                       // the full buffer, more to follow
  [[nodiscard]] Fault conclude(std::uint8_t* out) noexcept;  // digest_bytes; ready for the next message

  // Forgets the message. Nothing has to be said to the module: the next message resets its state.
  void abandon() noexcept;

  // The message of `from`; this one has none. Only the buffer if `from` is not started, else its session's
  // state as well. False: no memory.
  [[nodiscard]] bool copy_buffer(const HashSession& from) noexcept;
  [[nodiscard]] Fault copy_state(const HashSession& from) noexcept;

  // True if the file was not ours any more.
  bool close() noexcept { return kernel_.close(); }

 private:
  const std::size_t algorithm_;
  const std::size_t digest_bytes_;
  const std::size_t place_;
  KernelSession kernel_;
  kernel::Bounce buffer_;
  std::size_t chunk_ = kernel::most_chunk;
  std::size_t used_ = 0;
  std::size_t filled_ = 0;  // so much of the buffer holds data of this message
  bool started_ = false;
};

}  // namespace sunxi::cryptodev
