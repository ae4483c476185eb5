// SPDX-License-Identifier: Apache-2.0
// One AF_ALG operation socket of type "hash" with a message in it, or waiting for the next one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/afalg/socket.h"
#include "backends/process.h"

namespace sunxi::afalg {

inline constexpr std::size_t most_digest_bytes = 64;

// Used by one thread at a time; but several may look at one, and open sessions with its state, at once.
// Destructible however a fork freezes it (see PerProcess).
class HashSession {
 public:
  HashSession(std::size_t algorithm, std::size_t digest_bytes, std::size_t place) noexcept
      : algorithm_(algorithm), digest_bytes_(digest_bytes), place_(place) {}
  HashSession(const HashSession&) = delete;
  HashSession& operator=(const HashSession&) = delete;
  ~HashSession() = default;

  [[nodiscard]] std::size_t algorithm() const noexcept { return algorithm_; }
  [[nodiscard]] std::size_t place() const noexcept { return place_; }

  using State = OperationSocket::State;
  // Before an extend it may do without a look, as with ciphers. Before all else it must not: the guard comes
  // with data only, and without it a call would take a connection, or the data, of a socket that got our
  // number. A look also tells a sandbox.
  [[nodiscard]] State state(std::uint64_t now, bool look) noexcept { return socket_.state(now, look); }
  [[nodiscard]] State look() noexcept { return socket_.look(); }  // by several threads at once

  [[nodiscard]] Fault open(const Driver& driver, std::uint64_t now) noexcept;
  // A session with the state of `original`, which must be State::ready.
  [[nodiscard]] Fault open(const HashSession& original, std::uint64_t now) noexcept;

  // All of these need State::ready; after a fault the session has to be closed.
  [[nodiscard]] Fault extend(const std::uint8_t* in, std::size_t length) noexcept;
  [[nodiscard]] Fault conclude(std::uint8_t* out) noexcept;  // digest_bytes; ready for the next message
  [[nodiscard]] Fault abandon() noexcept;                    // ready for the next message

  // True if the descriptor was not ours any more.
  bool close() noexcept { return socket_.close(); }

 private:
  [[nodiscard]] Fault send(const std::uint8_t* in, std::size_t bytes, int flags) noexcept;

  const std::size_t algorithm_;
  const std::size_t digest_bytes_;
  const std::size_t place_;
  OperationSocket socket_;
  bool has_data_ = false;
};

}  // namespace sunxi::afalg
