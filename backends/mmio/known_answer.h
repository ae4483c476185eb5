// SPDX-License-Identifier: Apache-2.0
// What an engine has to give before its words are believed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/backend.h"

namespace sunxi {

struct CipherAnswer {
  const char* name;  // of the algorithm
  std::span<const std::uint8_t> key;
  const std::uint8_t* iv;
  const std::uint8_t* plaintext;
  const std::uint8_t* ciphertext;
  std::size_t length;  // at most 32
};

// A message of two blocks: the second one resumes from the state after the first.
struct DigestAnswer {
  const char* name;
  std::array<std::uint8_t, 128> blocks;
  std::array<std::uint32_t, 5> before;
  std::array<std::uint32_t, 5> after;
};

// False for an algorithm without one. The pointers are to static storage.
[[nodiscard]] bool known_answer(const CipherSpec& spec, CipherAnswer& answer) noexcept;
[[nodiscard]] bool known_answer(const DigestSpec& spec, DigestAnswer& answer) noexcept;

}  // namespace sunxi
