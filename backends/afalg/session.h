// SPDX-License-Identifier: Apache-2.0
// One key on one AF_ALG operation socket: opening it, and requests through it.
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "backends/afalg/socket.h"
#include "backends/backend.h"
#include "backends/process.h"

namespace sunxi::afalg {

// Shared by all slots with this key. Everything but the members called from the table of sessions
// needs the session to be held (acquire).
class Session {
 public:
  Session(const CipherSpec& spec, std::span<const std::uint8_t> key, std::size_t algorithm,
          std::size_t place) noexcept;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // For the table of sessions, under its lock.
  [[nodiscard]] bool matches(const CipherSpec& spec, std::span<const std::uint8_t> key) const noexcept;
  std::size_t users = 1;  // 0: about to go, not to be found any more
  [[nodiscard]] std::size_t place() const noexcept { return place_; }
  [[nodiscard]] std::size_t algorithm() const noexcept { return algorithm_; }

  // False if the session is in use and the wait would not be a short one.
  [[nodiscard]] bool acquire(std::size_t length) noexcept;
  void yield() noexcept { mutex_.unlock(); }

  using State = OperationSocket::State;
  [[nodiscard]] State state(std::uint64_t now, bool look) noexcept { return socket_.state(now, look); }
  [[nodiscard]] Fault open(const Driver& driver, std::uint64_t now) noexcept;
  // Needs State::ready. After a fault the session has to be closed.
  [[nodiscard]] Result crypt(const CipherRequest& request, Fault& fault) noexcept;
  // True if the descriptor was not ours any more.
  bool close() noexcept { return socket_.close(); }
  [[nodiscard]] const Driver& driver() const noexcept { return driver_; }
  // Whether a driver may refuse the key for what it is.
  [[nodiscard]] bool may_be_weak() const noexcept;
  bool has_served = false;
  bool key_refused = false;

 private:
  [[nodiscard]] bool set_key(int bound) const noexcept;
  void prepare_control() noexcept;
  [[nodiscard]] Fault exchange(const std::uint8_t* in, std::uint8_t* out, std::size_t bytes) noexcept;
  [[nodiscard]] std::uint8_t* bounce(std::size_t bytes) noexcept;
  void drop_bounce() noexcept;

  static constexpr std::size_t control_bytes =
      CMSG_SPACE(0) + CMSG_SPACE(sizeof(std::uint32_t)) + CMSG_SPACE(sizeof(std::uint32_t) + max_iv_bytes);

  const CipherSpec spec_;
  const std::size_t algorithm_;
  const std::size_t place_;
  std::array<std::uint8_t, max_key_bytes> key_{};

  std::mutex mutex_;
  std::atomic<std::size_t> held_for_{0};  // bytes of the request that holds the session
  std::atomic<bool> awaited_{false};

  OperationSocket socket_;
  Driver driver_;
  std::size_t chunk_ = 0;
  alignas(cmsghdr) std::array<std::uint8_t, control_bytes> control_{};
  std::size_t control_used_ = 0;
  std::uint8_t* operation_ = nullptr;           // into control_
  std::uint8_t* iv_ = nullptr;                  // into control_; null for a mode without
  std::atomic<std::uint8_t*> bounce_{nullptr};  // page-aligned
  std::size_t bounce_bytes_ = 0;
};

}  // namespace sunxi::afalg
