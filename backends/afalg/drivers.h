// SPDX-License-Identifier: Apache-2.0
// Which kernel driver serves an algorithm: /proc/crypto read as text, and what is known about drivers
// by their names. Pure functions; no system call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sunxi::afalg {

// Bytes per operation at most, whatever the driver.
inline constexpr std::size_t most_chunk = 65536;

// What a socket of AF_ALG is for.
enum class DriverType : std::uint8_t { cipher, hash };

// What a driver likes to be given.
struct DriverTraits {
  bool hardware;
  std::size_t chunk;      // bytes per operation, a multiple of every block size and of the page size
  std::size_t alignment;  // of the output; below it the driver leaves its fast path
  // Hashes by its device only a message that is given in one call, all others by software of the kernel.
  bool whole_messages_only;
};

// By the driver's own name, such as "cbc-aes-sun8i-ce" or "cts(cbc-aes-sun8i-ce)". A driver that is not
// known to be hardware counts as software.
[[nodiscard]] DriverTraits driver_traits(std::string_view driver) noexcept;

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
