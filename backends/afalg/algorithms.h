// SPDX-License-Identifier: Apache-2.0
// What the backend computes, and the kernel's names for it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "backends/afalg/drivers.h"
#include "backends/backend.h"
#include "backends/kernel/algorithms.h"

namespace sunxi::afalg {

struct Algorithm {
  DriverType type;
  const char* kernel_name;
  const char* label;
};

// A new algorithm is a row here. A cipher with other key sizes also needs them in takes_key, a mode with
// another rule for the next IV needs that rule in kernel::NextIv.
using CipherRow = kernel::CipherRow<Algorithm>;
inline constexpr std::array cipher_rows{
    CipherRow{Cipher::aes, Mode::ecb, {DriverType::cipher, "ecb(aes)", "AES-ECB"}},
    CipherRow{Cipher::aes, Mode::cbc, {DriverType::cipher, "cbc(aes)", "AES-CBC"}},
    CipherRow{Cipher::aes, Mode::ctr, {DriverType::cipher, "ctr(aes)", "AES-CTR"}},
    CipherRow{Cipher::aes, Mode::xts, {DriverType::cipher, "xts(aes)", "AES-XTS"}},
    CipherRow{Cipher::des3, Mode::ecb, {DriverType::cipher, "ecb(des3_ede)", "DES-EDE3-ECB"}},
    CipherRow{Cipher::des3, Mode::cbc, {DriverType::cipher, "cbc(des3_ede)", "DES-EDE3-CBC"}},
    CipherRow{Cipher::des, Mode::ecb, {DriverType::cipher, "ecb(des)", "DES-ECB"}},
    CipherRow{Cipher::des, Mode::cbc, {DriverType::cipher, "cbc(des)", "DES-CBC"}},
};

using DigestRow = kernel::DigestRow<Algorithm>;
// The kernel has no SHA-512/224 and no SHA-512/256.
inline constexpr std::array digest_rows{
    DigestRow{{Digest::md5, 64, 16}, {DriverType::hash, "md5", "MD5"}},
    DigestRow{{Digest::sha1, 64, 20}, {DriverType::hash, "sha1", "SHA1"}},
    DigestRow{{Digest::sha224, 64, 28}, {DriverType::hash, "sha224", "SHA2-224"}},
    DigestRow{{Digest::sha256, 64, 32}, {DriverType::hash, "sha256", "SHA2-256"}},
    DigestRow{{Digest::sha384, 128, 48}, {DriverType::hash, "sha384", "SHA2-384"}},
    DigestRow{{Digest::sha512, 128, 64}, {DriverType::hash, "sha512", "SHA2-512"}},
};

// All of them have one number: the ciphers first, then the digests.
inline constexpr std::size_t algorithm_count = cipher_rows.size() + digest_rows.size();

constexpr const Algorithm& algorithm(std::size_t number) noexcept {
  return number < cipher_rows.size() ? cipher_rows[number].algorithm
                                     : digest_rows[number - cipher_rows.size()].algorithm;
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

}  // namespace sunxi::afalg
