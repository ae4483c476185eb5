// SPDX-License-Identifier: Apache-2.0
// Device tree, /sys and mappings.
#include "backends/mmio/device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace sunxi {

Mapping::Mapping(int descriptor, std::uint64_t offset, std::size_t bytes) noexcept {
  void* address =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, static_cast<off_t>(offset));
  if (address == MAP_FAILED) return;
  address_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
}

Mapping::Mapping(Mapping&& other) noexcept
    : address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_) {}

Mapping::~Mapping() {
  if (address_ != nullptr) munmap(address_, bytes_);
}

const Soc* detect_soc() noexcept {
  for (const char* path : {"/proc/device-tree/compatible", "/sys/firmware/devicetree/base/compatible"}) {
    const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
    if (!file) continue;
    std::array<char, 1024> text{};
    const ssize_t size = read(file.get(), text.data(), text.size());
    if (size > 0) return find_soc_by_compatible({text.data(), static_cast<std::size_t>(size)});
  }
  return nullptr;
}

Ownership engine_ownership(const Soc& soc, std::span<char> driver) noexcept {
  for (const std::string_view device : soc.platform_devices) {
    if (device.empty()) continue;
    std::array<char, 128> path{};
    std::array<char, 256> target{};
    std::snprintf(path.data(), path.size(), "/sys/bus/platform/devices/%.*s/driver",
                  static_cast<int>(device.size()), device.data());
    const ssize_t size = readlink(path.data(), target.data(), target.size());
    if (size <= 0) continue;
    std::string_view name(target.data(), static_cast<std::size_t>(size));
    name.remove_prefix(name.rfind('/') + 1);
    if (name == "uio_pdrv_genirq") continue;
    std::snprintf(driver.data(), driver.size(), "%.*s", static_cast<int>(name.size()), name.data());
    return Ownership::driven;
  }
  return access("/sys/bus/platform/devices", F_OK) == 0 ? Ownership::free : Ownership::unknown;
}

namespace {

constexpr unsigned uio_devices = 32;
constexpr int uio_maps = 5;  // MAX_UIO_MAPS

std::uint64_t page_bytes() noexcept {
  return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// An attribute of a UIO device, without its newline; empty if it cannot be read.
std::string_view attribute(unsigned device, const char* name, std::span<char> text) noexcept {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/sys/class/uio/uio%u/%s", device, name);
  const Descriptor file(open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  const ssize_t size = read(file.get(), text.data(), text.size());
  const std::string_view value(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return value.substr(0, value.find('\n'));
}

// Physical; 0 if there is no such map. Newer kernels give the page in `addr` and the rest in `offset`.
std::uint64_t map_address(unsigned device, int map) noexcept {
  std::uint64_t sum = 0;
  for (const char* part : {"addr", "offset"}) {
    std::array<char, 32> name{};
    std::array<char, 32> text{};
    std::snprintf(name.data(), name.size(), "maps/map%d/%s", map, part);
    if (attribute(device, name.data(), std::span(text).first(text.size() - 1)).empty()) return 0;
    sum += std::strtoull(text.data(), nullptr, 16);
  }
  return sum;
}

}  // namespace

bool RegisterNode::find_uio(const Soc& soc, std::string_view name) noexcept {
  if (access("/sys/class/uio", F_OK) != 0) return false;
  for (unsigned device = 0; device < uio_devices; ++device) {
    std::array<char, 64> text{};
    std::array<char, 16> number{};
    std::snprintf(number.data(), number.size(), "uio%u", device);
    const std::string_view called = attribute(device, "name", text);
    if (called.empty() || (!name.empty() && name != number.data() && name != called)) continue;
    engine_map_ = clock_map_ = -1;
    for (int map = 0; map < uio_maps; ++map) {
      const std::uint64_t address = map_address(device, map);
      if (address == 0) break;
      if (address == soc.base) engine_map_ = map;
      if (address == soc.clocks.base) clock_map_ = map;
    }
    if (engine_map_ < 0) continue;
    std::snprintf(path_.data(), path_.size(), "/dev/%s", number.data());
    uio_ = true;
    return true;
  }
  return false;
}

Descriptor RegisterNode::open() const noexcept {
  return Descriptor(::open(path(), (uio_ ? O_RDWR : O_RDWR | O_SYNC) | O_CLOEXEC));
}

std::size_t RegisterNode::in_page(std::uint64_t address) noexcept {
  return static_cast<std::size_t>(address % page_bytes());
}

Mapping RegisterNode::map(const Descriptor& node, std::uint64_t address, int number) const noexcept {
  if (uio_ && number < 0) {
    errno = ENXIO;
    return {};
  }
  const std::uint64_t page = page_bytes();
  const std::uint64_t offset = uio_ ? static_cast<std::uint64_t>(number) * page : address - in_page(address);
  return {node.get(), offset, static_cast<std::size_t>(page)};
}

Mapping RegisterNode::map_engine(const Descriptor& node, const Soc& soc) const noexcept {
  return map(node, soc.base, engine_map_);
}

Mapping RegisterNode::map_clock_unit(const Descriptor& node, const Soc& soc) const noexcept {
  return map(node, soc.clocks.base, clock_map_);
}

}  // namespace sunxi
