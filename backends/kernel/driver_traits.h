// SPDX-License-Identifier: Apache-2.0
// What is known about the kernel's crypto drivers by their names. Pure functions; no system call.
#pragma once

#include <cstddef>
#include <string_view>

namespace sunxi::kernel {

inline constexpr std::size_t page = 4096;

// Bytes per operation at most, whatever the driver.
inline constexpr std::size_t most_chunk = 65536;

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

}  // namespace sunxi::kernel
