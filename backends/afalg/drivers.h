// SPDX-License-Identifier: Apache-2.0
// Which kernel driver serves an algorithm: /proc/crypto read as text. Pure functions; no system call.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "backends/kernel/driver_traits.h"

namespace sunxi::afalg {

using kernel::driver_traits;
using kernel::DriverTraits;
using kernel::most_chunk;

// What a socket of AF_ALG is for.
enum class DriverType : std::uint8_t { cipher, hash };

// One block of /proc/crypto that a socket could be bound to. Views into the parsed text.
struct CryptoEntry {
  std::string_view name;    // "cbc(aes)"
  std::string_view driver;  // "cbc-aes-sun8i-ce"
  int priority;
};

enum class Among : std::uint8_t {
  all,
  hardware,             // of hashes, those that hash a message in pieces too
  whole_messages_only,  // hardware hashes that do not
};

// The entry that the kernel prefers for the algorithm `name`: highest priority, at equal priority the
// first (Linux crypto/api.c, the list is newest first). Only drivers that passed their self test and
// are not internal. Incomplete or malformed blocks are skipped, so that a truncated text is harmless.
[[nodiscard]] std::optional<CryptoEntry> best_driver(std::string_view proc_crypto, DriverType type,
                                                     std::string_view name, Among among) noexcept;

}  // namespace sunxi::afalg
