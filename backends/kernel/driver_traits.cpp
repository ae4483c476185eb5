// SPDX-License-Identifier: Apache-2.0
// The table of drivers known to be hardware.
#include "backends/kernel/driver_traits.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace sunxi::kernel {
namespace {

constexpr DriverTraits software{
    .hardware = false, .chunk = most_chunk, .alignment = 1, .whole_messages_only = false};
constexpr DriverTraits hardware{
    .hardware = true, .chunk = most_chunk, .alignment = 1, .whole_messages_only = false};
// Word by word; other alignments take a slower loop (drivers/crypto/allwinner/sun4i-ss).
constexpr DriverTraits sun4i{
    .hardware = true, .chunk = most_chunk, .alignment = 4, .whole_messages_only = false};
// At most 8 segments on either side, of equal lengths in sun8i-ss, else silently software
// (drivers/crypto/allwinner/sun8i-ce and sun8i-ss). AF_ALG makes one segment of each page.
// Their hashes leave init, update and final to software, and so does AF_ALG's every message before Linux 6.5.
constexpr DriverTraits sun8i{
    .hardware = true, .chunk = 8 * page, .alignment = page, .whole_messages_only = true};

enum class At : std::uint8_t { start, end };

struct Pattern {
  At at;
  std::string_view text;
  DriverTraits traits;
};

// Never "-ce" alone: that is how the drivers for ARMv8's instructions end, which run on the CPU.
constexpr std::array patterns{
    Pattern{At::end, "-sun4i-ss", sun4i},
    Pattern{At::end, "-sun8i-ce", sun8i},
    Pattern{At::end, "-sun8i-ss", sun8i},
    Pattern{At::start, "virtio_crypto_", hardware},  // drivers/crypto/virtio: the host's accelerator
    Pattern{At::end, "-caam", hardware},             // NXP
    Pattern{At::end, "-caam-qi", hardware},          // NXP
    Pattern{At::end, "-caam-qi2", hardware},         // NXP
    Pattern{At::end, "-talitos", hardware},          // NXP PowerQUICC
    Pattern{At::end, "-qce", hardware},              // Qualcomm
    Pattern{At::end, "-omap", hardware},             // Texas Instruments
    Pattern{At::start, "omap-", hardware},           // its hashes
    Pattern{At::end, "-rk", hardware},               // Rockchip
    Pattern{At::start, "mv-", hardware},             // Marvell CESA
    Pattern{At::start, "atmel-", hardware},          // Microchip
    Pattern{At::end, "-iproc", hardware},            // Broadcom SPU
    Pattern{At::end, "-ppc4xx", hardware},           // AMCC
    Pattern{At::end, "-picoxcell", hardware},        // Picochip
    Pattern{At::end, "-keembay-ocs", hardware},      // Intel Keem Bay
};

DriverTraits part_traits(std::string_view part) noexcept {
  for (const Pattern& pattern : patterns) {
    if (pattern.at == At::start ? part.starts_with(pattern.text) : part.ends_with(pattern.text))
      return pattern.traits;
  }
  return software;
}

}  // namespace

DriverTraits driver_traits(std::string_view driver) noexcept {
  // A template's name holds those of the drivers it stands on.
  while (!driver.empty()) {
    const std::size_t end = std::min(driver.find_first_of("(),"), driver.size());
    const DriverTraits traits = part_traits(driver.substr(0, end));
    if (traits.hardware) return traits;
    driver.remove_prefix(std::min(end + 1, driver.size()));
  }
  return software;
}

}  // namespace sunxi::kernel
