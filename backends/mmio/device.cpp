// SPDX-License-Identifier: Apache-2.0
// Device tree, /sys and mappings.
#include "backends/mmio/device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
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

}  // namespace sunxi
