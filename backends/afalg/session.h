// SPDX-License-Identifier: Apache-2.0
// One key on one AF_ALG operation socket: opening it, and requests through it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/afalg/socket.h"
#include "backends/backend.h"
#include "backends/kernel/keyed_session.h"

namespace sunxi::afalg {

class Session : public kernel::KeyedSession {
 public:
  Session(const CipherSpec& spec, std::span<const std::uint8_t> key, std::size_t algorithm,
          std::size_t place) noexcept;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  using State = OperationSocket::State;
  [[nodiscard]] State state(std::uint64_t now, bool look) noexcept { return socket_.state(now, look); }
  [[nodiscard]] Fault open(const Driver& driver, std::uint64_t now) noexcept;
  // Needs State::ready. After a fault the session has to be closed.
  [[nodiscard]] Result crypt(const CipherRequest& request, Fault& fault) noexcept;
  // True if the descriptor was not ours any more.
  bool close() noexcept { return socket_.close(); }
  [[nodiscard]] const Driver& driver() const noexcept { return driver_; }

 private:
  [[nodiscard]] bool set_key(int bound) const noexcept;
  void prepare_control() noexcept;
  [[nodiscard]] Fault exchange(const std::uint8_t* in, std::uint8_t* out, std::size_t bytes) noexcept;

  static constexpr std::size_t control_bytes =
      CMSG_SPACE(0) + CMSG_SPACE(sizeof(std::uint32_t)) + CMSG_SPACE(sizeof(std::uint32_t) + max_iv_bytes);

  OperationSocket socket_;
  Driver driver_;
  std::size_t chunk_ = 0;
  alignas(cmsghdr) std::array<std::uint8_t, control_bytes> control_{};
  std::size_t control_used_ = 0;
  std::uint8_t* operation_ = nullptr;  // into control_
  std::uint8_t* iv_ = nullptr;         // into control_; null for a mode without
  kernel::Bounce bounce_;
};

}  // namespace sunxi::afalg
