// SPDX-License-Identifier: Apache-2.0
// What the backend computes, and the kernel's names for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/afalg/drivers.h"
#include "backends/backend.h"

namespace sunxi::afalg {

struct Algorithm {
  DriverType type;
  const char* kernel_name;
  const char* label;
};

// A new algorithm is a row here. A cipher with other key sizes also needs them in takes_key, a mode with
// another rule for the next IV needs that rule in Session::crypt.
struct CipherRow {
  Cipher cipher;
  Mode mode;
  Algorithm algorithm;
};
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

struct DigestRow {
  DigestSpec spec;
  Algorithm algorithm;
};
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

constexpr std::optional<std::size_t> find_algorithm(const CipherSpec& spec) noexcept {
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

constexpr std::optional<std::size_t> find_algorithm(const DigestSpec& spec) noexcept {
  for (std::size_t i = 0; i < digest_rows.size(); ++i) {
    if (digest_rows[i].spec == spec) return cipher_rows.size() + i;
  }
  return std::nullopt;
}

constexpr std::size_t digest_bytes(std::size_t number) noexcept {
  return digest_rows[number - cipher_rows.size()].spec.digest_bytes;
}

}  // namespace sunxi::afalg
