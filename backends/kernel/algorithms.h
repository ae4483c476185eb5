// SPDX-License-Identifier: Apache-2.0
// Tables of what a backend computes: rows of ciphers, then of digests, under one number each.
#pragma once

#include <cstddef>
#include <optional>

#include "backends/backend.h"

namespace sunxi::kernel {

template <class Algorithm>
struct CipherRow {
  Cipher cipher;
  Mode mode;
  Algorithm algorithm;
};

template <class Algorithm>
struct DigestRow {
  DigestSpec spec;
  Algorithm algorithm;
};

constexpr bool takes_key(Cipher cipher, Mode mode, std::size_t bytes) noexcept {
  switch (cipher) {
    case Cipher::aes:
      return mode == Mode::xts ? bytes == 32 || bytes == 64 : bytes == 16 || bytes == 24 || bytes == 32;
    case Cipher::des:
      return bytes == 8;
    case Cipher::des3:
      return bytes == 16 || bytes == 24;
  }
  return false;
}

constexpr std::optional<std::size_t> find_row(const auto& cipher_rows, const CipherSpec& spec) noexcept {
  const std::size_t block_bytes = spec.cipher == Cipher::aes ? 16 : 8;
  const std::size_t iv_bytes = spec.mode == Mode::ecb ? 0 : block_bytes;
  if (spec.block_bytes != block_bytes || spec.iv_bytes != iv_bytes ||
      !takes_key(spec.cipher, spec.mode, spec.key_bytes))
    return std::nullopt;
  for (std::size_t i = 0; i < cipher_rows.size(); ++i) {
    if (cipher_rows[i].cipher == spec.cipher && cipher_rows[i].mode == spec.mode) return i;
  }
  return std::nullopt;
}

constexpr std::optional<std::size_t> find_row(const auto& digest_rows, const DigestSpec& spec) noexcept {
  for (std::size_t i = 0; i < digest_rows.size(); ++i) {
    if (digest_rows[i].spec == spec) return i;
  }
  return std::nullopt;
}

}  // namespace sunxi::kernel
