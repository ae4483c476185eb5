// SPDX-License-Identifier: Apache-2.0
// What the machine says about its engine, and the ways to its registers.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

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

// The node through which an engine's registers are mapped, and where in it they are: /dev/mem by physical
// address, a UIO device by the number of a map (Linux Documentation/driver-api/uio-howto.rst).
class RegisterNode {
 public:
  // /dev/mem.
  RegisterNode() noexcept = default;

  // The UIO device of this name ("uio0", or what its attribute `name` says; empty: any), whose maps hold the
  // SoC's engine. False if there is none; some system calls for each UIO device up to number 31.
  [[nodiscard]] bool find_uio(const Soc& soc, std::string_view name) noexcept;

  [[nodiscard]] const char* path() const noexcept { return path_.data(); }
  [[nodiscard]] bool is_uio() const noexcept { return uio_; }

  // Empty if it fails; errno tells.
  [[nodiscard]] Descriptor open() const noexcept;
  // The page of the engine's first register, or of the clock unit's. Empty if it fails: errno is ENXIO where
  // a UIO device has no map of it.
  [[nodiscard]] Mapping map_engine(const Descriptor& node, const Soc& soc) const noexcept;
  [[nodiscard]] Mapping map_clock_unit(const Descriptor& node, const Soc& soc) const noexcept;

  // Offset of a physical address in its page.
  [[nodiscard]] static std::size_t in_page(std::uint64_t address) noexcept;

 private:
  [[nodiscard]] Mapping map(const Descriptor& node, std::uint64_t address, int number) const noexcept;

  std::array<char, 16> path_{"/dev/mem"};
  bool uio_ = false;
  int engine_map_ = -1;
  int clock_map_ = -1;
};

}  // namespace sunxi
