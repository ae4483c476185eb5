// SPDX-License-Identifier: Apache-2.0
// The algorithm table: one row per algorithm, with all the names that the default provider gives it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "backends/backend.h"

namespace sunxi {

struct CipherRow {
  const char* names;  // as in the default provider, separated by ':'; the first one is the canonical
  CipherSpec spec;
  const char* description;
  bool only_if_named;  // registered only where the key `algorithms` names it
};

constexpr CipherSpec aes(Mode mode, std::uint16_t bits) {
  const bool doubled = mode == Mode::xts;  // a key for the data and one for the tweak
  return {Cipher::aes, mode, static_cast<std::uint16_t>(bits / 8 * (doubled ? 2 : 1)), 16,
          static_cast<std::uint8_t>(mode == Mode::ecb ? 0 : 16)};
}
constexpr CipherSpec des(Cipher cipher, Mode mode, std::uint16_t key_bytes) {
  return {cipher, mode, key_bytes, 8, static_cast<std::uint8_t>(mode == Mode::ecb ? 0 : 8)};
}

// Names: OpenSSL, providers/implementations/include/prov/names.h.
inline constexpr std::array cipher_rows{
    CipherRow{"AES-128-ECB:2.16.840.1.101.3.4.1.1", aes(Mode::ecb, 128), "AES-128 in ECB", false},
    CipherRow{"AES-192-ECB:2.16.840.1.101.3.4.1.21", aes(Mode::ecb, 192), "AES-192 in ECB", false},
    CipherRow{"AES-256-ECB:2.16.840.1.101.3.4.1.41", aes(Mode::ecb, 256), "AES-256 in ECB", false},
    CipherRow{"AES-128-CBC:AES128:2.16.840.1.101.3.4.1.2", aes(Mode::cbc, 128), "AES-128 in CBC", false},
    CipherRow{"AES-192-CBC:AES192:2.16.840.1.101.3.4.1.22", aes(Mode::cbc, 192), "AES-192 in CBC", false},
    CipherRow{"AES-256-CBC:AES256:2.16.840.1.101.3.4.1.42", aes(Mode::cbc, 256), "AES-256 in CBC", false},
    CipherRow{"AES-128-CTR", aes(Mode::ctr, 128), "AES-128 in CTR", false},
    CipherRow{"AES-192-CTR", aes(Mode::ctr, 192), "AES-192 in CTR", false},
    CipherRow{"AES-256-CTR", aes(Mode::ctr, 256), "AES-256 in CTR", false},
    CipherRow{"AES-128-XTS:1.3.111.2.1619.0.1.1", aes(Mode::xts, 128), "AES-128 in XTS", false},
    CipherRow{"AES-256-XTS:1.3.111.2.1619.0.1.2", aes(Mode::xts, 256), "AES-256 in XTS", false},
    CipherRow{"DES-EDE3-ECB:DES-EDE3", des(Cipher::des3, Mode::ecb, 24), "triple DES in ECB", false},
    CipherRow{"DES-EDE3-CBC:DES3:1.2.840.113549.3.7", des(Cipher::des3, Mode::cbc, 24), "triple DES in CBC",
              false},
    CipherRow{"DES-EDE-ECB:DES-EDE:1.3.14.3.2.17", des(Cipher::des3, Mode::ecb, 16),
              "triple DES with two keys in ECB", false},
    CipherRow{"DES-EDE-CBC", des(Cipher::des3, Mode::cbc, 16), "triple DES with two keys in CBC", false},
    CipherRow{"DES-ECB:1.3.14.3.2.6", des(Cipher::des, Mode::ecb, 8), "DES in ECB", true},
    CipherRow{"DES-CBC:DES:1.3.14.3.2.7", des(Cipher::des, Mode::cbc, 8), "DES in CBC", true},
};
inline constexpr std::size_t cipher_count = cipher_rows.size();

struct DigestRow {
  const char* names;
  DigestSpec spec;
  const char* description;
};

inline constexpr std::array digest_rows{
    DigestRow{"MD5:SSL3-MD5:1.2.840.113549.2.5", {Digest::md5, 64, 16}, "MD5"},
    DigestRow{"SHA1:SHA-1:SSL3-SHA1:1.3.14.3.2.26", {Digest::sha1, 64, 20}, "SHA-1"},
    DigestRow{"SHA2-224:SHA-224:SHA224:2.16.840.1.101.3.4.2.4", {Digest::sha224, 64, 28}, "SHA-224"},
    DigestRow{"SHA2-256:SHA-256:SHA256:2.16.840.1.101.3.4.2.1", {Digest::sha256, 64, 32}, "SHA-256"},
    DigestRow{"SHA2-384:SHA-384:SHA384:2.16.840.1.101.3.4.2.2", {Digest::sha384, 128, 48}, "SHA-384"},
    DigestRow{"SHA2-512:SHA-512:SHA512:2.16.840.1.101.3.4.2.3", {Digest::sha512, 128, 64}, "SHA-512"},
    DigestRow{"SHA2-512/224:SHA-512/224:SHA512-224:2.16.840.1.101.3.4.2.5",
              {Digest::sha512_224, 128, 28},
              "SHA-512/224"},
    DigestRow{"SHA2-512/256:SHA-512/256:SHA512-256:2.16.840.1.101.3.4.2.6",
              {Digest::sha512_256, 128, 32},
              "SHA-512/256"},
};
inline constexpr std::size_t digest_count = digest_rows.size();

// What settings and router know of both tables: first the ciphers, then the digests.
inline constexpr std::size_t algorithm_count = cipher_count + digest_count;
[[nodiscard]] constexpr bool is_digest(std::size_t algorithm) {
  return algorithm >= cipher_count;
}
[[nodiscard]] constexpr std::size_t algorithm_of_digest(std::size_t row) {
  return cipher_count + row;
}
[[nodiscard]] constexpr std::string_view names_of(std::size_t algorithm) {
  return is_digest(algorithm) ? digest_rows[algorithm - cipher_count].names : cipher_rows[algorithm].names;
}
[[nodiscard]] constexpr bool only_if_named(std::size_t algorithm) {
  return !is_digest(algorithm) && cipher_rows[algorithm].only_if_named;
}
[[nodiscard]] constexpr std::string_view canonical_name(std::size_t algorithm) {
  return names_of(algorithm).substr(0, names_of(algorithm).find(':'));
}
[[nodiscard]] constexpr std::string_view canonical_name(const CipherRow& row) {
  const std::string_view names(row.names);
  return names.substr(0, names.find(':'));
}

// The algorithm that has `name` among its names, whatever the case.
[[nodiscard]] std::optional<std::size_t> find_algorithm(std::string_view name) noexcept;

// Whether two ':'-separated name lists share a name, whatever the case.
[[nodiscard]] bool share_a_name(std::string_view names, std::string_view others) noexcept;

// Calls visit(name) for every name of the list.
template <class Visit>
void for_each_name(std::string_view names, Visit&& visit) {
  while (!names.empty()) {
    const std::size_t end = names.find(':');
    visit(names.substr(0, end));
    names = end == std::string_view::npos ? std::string_view() : names.substr(end + 1);
  }
}

}  // namespace sunxi
