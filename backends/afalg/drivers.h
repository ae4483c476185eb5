// SPDX-License-Identifier: Apache-2.0
// Which kernel driver serves an algorithm: /proc/crypto read as text, and what is known about drivers
// by their names. Pure functions; no system call.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace sunxi::afalg {

// Bytes per operation at most, whatever the driver.
inline constexpr std::size_t most_chunk = 65536;

// What a driver likes to be given.
struct DriverTraits {
  bool hardware;
  std::size_t chunk;      // bytes per operation, a multiple of every block size and of the page size
  std::size_t alignment;  // of the output; below it the driver leaves its fast path
};

// By the driver's own name, such as "cbc-aes-sun8i-ce" or "cts(cbc-aes-sun8i-ce)". A driver that is not
// known to be hardware counts as software.
[[nodiscard]] DriverTraits driver_traits(std::string_view driver) noexcept;

// One block of /proc/crypto that a skcipher socket could be bound to. Views into the parsed text.
struct CryptoEntry {
  std::string_view name;    // "cbc(aes)"
  std::string_view driver;  // "cbc-aes-sun8i-ce"
  int priority;
};

// The entry that the kernel prefers for the algorithm `name`: highest priority, at equal priority the
// first (Linux crypto/api.c, the list is newest first). Only ciphers that passed their self test and
// are not internal. Incomplete or malformed blocks are skipped, so that a truncated text is harmless.
[[nodiscard]] std::optional<CryptoEntry> best_driver(std::string_view proc_crypto, std::string_view name,
                                                     bool hardware_only) noexcept;

}  // namespace sunxi::afalg
