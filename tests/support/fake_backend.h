// SPDX-License-Identifier: Apache-2.0
// A list of backends for tests of the provider alone: each serves all that backend.h can say, computes
// with libcrypto, keeps strictly to backend.h, and declines or fails as a plan says. With messages, whoever
// declines or fails loses the session.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "backends/backend.h"

namespace sunxi::test {

struct FakePlan {
  std::atomic<bool> exists{false};
  std::atomic<bool> declines{false};  // always answers `refusal`
  std::atomic<Outcome> refusal{Outcome::busy};
  std::atomic<unsigned> fails_every{0};  // every k-th call stops somewhere in the middle; 0 = never
  std::atomic<std::uint64_t> calls{0}, bytes{0};
  std::array<std::atomic<std::uint64_t>, 4> served_by{};  // whole requests, by Mode
  // How it computes digests; `absorb` covers those of 32-bit words. Before the provider starts.
  std::atomic<Backend::DigestWay> digests{Backend::DigestWay::none};
  std::atomic<bool> refuses_clones{false};
  std::atomic<std::uint64_t> absorbed{0}, begun{0}, extended{0}, concluded{0}, cloned{0};  // served
  std::atomic<int> live_sessions{0};        // of ciphers and digests
  std::atomic<int> contract_violations{0};  // by the caller
};

// By backend name: "mmio", "cryptodev", "afalg".
[[nodiscard]] FakePlan& fake_plan(std::string_view name);
void reset_fake_plans();

}  // namespace sunxi::test
