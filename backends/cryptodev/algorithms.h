// SPDX-License-Identifier: Apache-2.0
// What the backend computes, and the module's numbers for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/backend.h"
#include "backends/cryptodev/interface.h"
#include "backends/kernel/algorithms.h"

namespace sunxi::cryptodev {

struct Algorithm {
  std::uint32_t number;
  const char* label;
};

// A new algorithm is a row here. A cipher with other key sizes also needs them in kernel::takes_key, a mode
// with another rule for the next IV needs that rule in kernel::NextIv. The module has no ECB of DES.
using CipherRow = kernel::CipherRow<Algorithm>;
inline constexpr std::array cipher_rows{
    CipherRow{Cipher::aes, Mode::ecb, {number::aes_ecb, "AES-ECB"}},
    CipherRow{Cipher::aes, Mode::cbc, {number::aes_cbc, "AES-CBC"}},
    CipherRow{Cipher::aes, Mode::ctr, {number::aes_ctr, "AES-CTR"}},
    CipherRow{Cipher::aes, Mode::xts, {number::aes_xts, "AES-XTS"}},
    CipherRow{Cipher::des3, Mode::cbc, {number::des3_cbc, "DES-EDE3-CBC"}},
    CipherRow{Cipher::des, Mode::cbc, {number::des_cbc, "DES-CBC"}},
};

using DigestRow = kernel::DigestRow<Algorithm>;
inline constexpr std::array digest_rows{
    DigestRow{{Digest::md5, 64, 16}, {number::md5, "MD5"}},
    DigestRow{{Digest::sha1, 64, 20}, {number::sha1, "SHA1"}},
    DigestRow{{Digest::sha224, 64, 28}, {number::sha224, "SHA2-224"}},
    DigestRow{{Digest::sha256, 64, 32}, {number::sha256, "SHA2-256"}},
    DigestRow{{Digest::sha384, 128, 48}, {number::sha384, "SHA2-384"}},
    DigestRow{{Digest::sha512, 128, 64}, {number::sha512, "SHA2-512"}},
};
inline constexpr std::size_t most_digest_bytes = 64;

// All of them have one number: the ciphers first, then the digests.
inline constexpr std::size_t algorithm_count = cipher_rows.size() + digest_rows.size();

constexpr bool is_digest(std::size_t algorithm) noexcept {
  return algorithm >= cipher_rows.size();
}

constexpr const Algorithm& algorithm(std::size_t number) noexcept {
  return is_digest(number) ? digest_rows[number - cipher_rows.size()].algorithm
                           : cipher_rows[number].algorithm;
}

constexpr std::optional<std::size_t> find_algorithm(const CipherSpec& spec) noexcept {
  return kernel::find_row(cipher_rows, spec);
}

constexpr std::optional<std::size_t> find_algorithm(const DigestSpec& spec) noexcept {
  const auto row = kernel::find_row(digest_rows, spec);
  return row ? std::optional(cipher_rows.size() + *row) : std::nullopt;
}

constexpr std::size_t digest_bytes(std::size_t number) noexcept {
  return digest_rows[number - cipher_rows.size()].spec.digest_bytes;
}

}  // namespace sunxi::cryptodev
