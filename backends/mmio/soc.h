// SPDX-License-Identifier: Apache-2.0
// The Allwinner SoCs and their crypto engines, as data. Addresses, compatible strings and device names
// are those of Linux's device trees (arch/*/boot/dts/allwinner); clock bits those of
// drivers/clk/sunxi-ng; errata those of drivers/crypto/allwinner and the vendor's own drivers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace sunxi {

enum class EngineKind : std::uint8_t {
  sun4i_ss,  // FIFOs, no DMA
  sun8i_ss,  // DMA, two flows; not driven yet
  sun8i_ce,  // DMA task descriptors; not driven yet
};

enum class Erratum : std::uint8_t {
  key_lost,         // AES leaves other values in the key registers: write the key for every request
  iv_readback,      // the IV registers are invalid after a request
  ctr_byte_order,   // CTR is right for one block only
  sha1_big_endian,  // SHA-1 words come byte-swapped
};

class Errata {
 public:
  constexpr Errata() = default;
  template <class... E>
  constexpr explicit Errata(E... errata) : bits_((0U | ... | (1U << static_cast<unsigned>(errata)))) {}
  [[nodiscard]] constexpr bool has(Erratum erratum) const {
    return ((bits_ >> static_cast<unsigned>(erratum)) & 1U) != 0;
  }

 private:
  unsigned bits_ = 0;
};

// A bit of the clock unit that must be 1 for the engine to answer. Offset 0: there is none.
struct ClockBit {
  std::uint16_t offset = 0;
  std::uint8_t bit = 0;
};

// The PLL that the module clock is divided from: 24 MHz * N * (K + 1) / 2, with bit 31 as its gate, N in bits
// 12..8 (`n_bias` more than they say) and K in bits 5..4.
struct PeripheralPll {
  std::uint16_t offset = 0;
  std::uint8_t n_bias = 0;
};

struct Clocks {
  std::uint64_t base = 0;  // physical base of the clock unit
  // Bits 25..24 of its register choose the parent (0: 24 MHz, 1: the PLL), 17..16 P and 3..0 M:
  // parent / 2^P / (M + 1).
  ClockBit module;
  ClockBit bus;
  ClockBit reset;
  ClockBit memory{};
  PeripheralPll pll{};
  std::uint32_t module_hz = 0;  // at most; 0: not known how to set it
};

struct Soc {
  std::string_view name;                        // as in the configuration key mmio_soc
  std::array<std::string_view, 4> compatibles;  // of the device tree's root; unused ones are empty
  EngineKind kind;
  std::uint64_t base;  // physical, of the engine's registers
  // Directories under /sys/bus/platform/devices; older and newer trees name the node differently.
  std::array<std::string_view, 2> platform_devices;
  Errata errata;
  Clocks clocks;
};

[[nodiscard]] std::span<const Soc> known_socs() noexcept;

// Null for an unknown name.
[[nodiscard]] const Soc* find_soc_by_name(std::string_view name) noexcept;

// `compatibles` is the content of the root's `compatible` property: strings, each with its NUL.
[[nodiscard]] const Soc* find_soc_by_compatible(std::string_view compatibles) noexcept;

// Whether some SoC of the table has an engine at this physical address.
[[nodiscard]] bool known_engine_address(std::uint64_t address) noexcept;

}  // namespace sunxi
