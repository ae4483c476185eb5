// SPDX-License-Identifier: Apache-2.0
// One key in one session of the module, and requests through it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/backend.h"
#include "backends/cryptodev/algorithms.h"
#include "backends/cryptodev/device.h"
#include "backends/kernel/keyed_session.h"

namespace sunxi::cryptodev {

class Session : public kernel::KeyedSession {
 public:
  Session(const CipherSpec& spec, std::span<const std::uint8_t> key, std::size_t algorithm, std::size_t place,
          Devices& devices) noexcept
      : KeyedSession(spec, key, algorithm, place), kernel_(devices) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  [[nodiscard]] KernelSession& kernel() noexcept { return kernel_; }
  [[nodiscard]] Fault open(std::uint64_t now) noexcept;
  // Needs State::ready. Whatever happens, the input from Result::done on is unharmed.
  [[nodiscard]] Result crypt(const CipherRequest& request, Fault& fault) noexcept;
  bool close() noexcept { return kernel_.close(); }

 private:
  KernelSession kernel_;
  std::size_t chunk_ = 0;
  kernel::Bounce bounce_;
  alignas(16) std::array<std::uint8_t, max_iv_bytes> iv_{};
};

}  // namespace sunxi::cryptodev
