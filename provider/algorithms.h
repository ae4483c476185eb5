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

constexpr CipherSpec aes(Mode mode, std::uint16_t bits, std::uint8_t iv_bytes) {
  return {Cipher::aes, mode, static_cast<std::uint16_t>(bits / 8), 16, iv_bytes};
}

// Names: OpenSSL, providers/implementations/include/prov/names.h.
inline constexpr std::array cipher_rows{
    CipherRow{"AES-128-CBC:AES128:2.16.840.1.101.3.4.1.2", aes(Mode::cbc, 128, 16), "AES-128 in CBC", false},
    CipherRow{"AES-192-CBC:AES192:2.16.840.1.101.3.4.1.22", aes(Mode::cbc, 192, 16), "AES-192 in CBC", false},
    CipherRow{"AES-256-CBC:AES256:2.16.840.1.101.3.4.1.42", aes(Mode::cbc, 256, 16), "AES-256 in CBC", false},
};
inline constexpr std::size_t cipher_count = cipher_rows.size();

[[nodiscard]] constexpr std::string_view canonical_name(const CipherRow& row) {
  const std::string_view names(row.names);
  return names.substr(0, names.find(':'));
}

// The row that has `name` among its names, whatever the case.
[[nodiscard]] std::optional<std::size_t> find_cipher(std::string_view name) noexcept;

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
