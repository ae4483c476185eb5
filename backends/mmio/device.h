// SPDX-License-Identifier: Apache-2.0
// What the machine says about its engine, and the way to its registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/mmio/soc.h"
#include "backends/process.h"

namespace sunxi {

// A shared mapping of a device or file.
class Mapping {
 public:
  Mapping() noexcept = default;
  // Empty if it fails; errno tells.
  Mapping(int descriptor, std::uint64_t offset, std::size_t bytes) noexcept;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();

  [[nodiscard]] explicit operator bool() const noexcept { return address_ != nullptr; }
  [[nodiscard]] std::byte* data() const noexcept { return address_; }

 private:
  std::byte* address_ = nullptr;
  std::size_t bytes_ = 0;
};

// The SoC that the device tree names, or null.
[[nodiscard]] const Soc* detect_soc() noexcept;

enum class Ownership : std::uint8_t {
  free,
  driven,   // a kernel driver is bound to the engine; its name is in `driver`
  unknown,  // there is no /sys that could tell
};

// uio_pdrv_genirq does not drive what it is bound to. One to three system calls.
[[nodiscard]] Ownership engine_ownership(const Soc& soc, std::span<char> driver) noexcept;

}  // namespace sunxi
