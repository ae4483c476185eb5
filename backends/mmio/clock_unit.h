// SPDX-License-Identifier: Apache-2.0
// Module clock, bus gate and reset of an engine, in the SoC's clock unit. Order and bits as in Linux
// drivers/clk/sunxi-ng and drivers/crypto/allwinner/sun4i-ss.
//
// A template over the register access, as the engines' drivers are.
#pragma once

#include <cstdint>

#include "backends/mmio/soc.h"

namespace sunxi {

namespace clock_unit {

inline constexpr std::uint32_t parent_pll = 1U << 24;
inline constexpr std::uint64_t oscillator_hz = 24'000'000;

inline constexpr std::uint32_t mask(const ClockBit& bit) noexcept {
  return std::uint32_t{1} << bit.bit;
}

template <class Io>
bool is_set(Io& io, const ClockBit& bit) noexcept {
  return bit.offset == 0 || (io.read(bit.offset) & mask(bit)) != 0;
}

// The kernel changes other bits of the same word under a lock that user space cannot take: no store where
// the bit is set already, and none ever clears one.
template <class Io>
void set(Io& io, const ClockBit& bit) noexcept {
  if (bit.offset == 0) return;
  const std::uint32_t word = io.read(bit.offset);
  if ((word & mask(bit)) == 0) io.write(bit.offset, word | mask(bit));
}

// The register's word, without its gate bit, for the fastest rate that is not above module_hz.
inline constexpr std::uint32_t module_word(const Clocks& clocks, std::uint32_t pll) noexcept {
  if ((pll >> 31) == 0) return 0;  // the oscillator, undivided
  const std::uint64_t n = ((pll >> 8) & 31U) + clocks.pll.n_bias;
  const std::uint64_t k = ((pll >> 4) & 3U) + 1;
  const std::uint64_t parent = oscillator_hz * n * k / 2;
  if (parent <= oscillator_hz) return 0;
  const std::uint64_t division = (parent + clocks.module_hz - 1) / clocks.module_hz;
  return division > 16 ? 0 : parent_pll | static_cast<std::uint32_t>(division - 1);
}

}  // namespace clock_unit

// Whether every bit is 1.
template <class Io>
[[nodiscard]] bool clocks_run(const Clocks& clocks, Io& io) noexcept {
  return clock_unit::is_set(io, clocks.bus) && clock_unit::is_set(io, clocks.module) &&
         clock_unit::is_set(io, clocks.reset) && clock_unit::is_set(io, clocks.memory);
}

// Sets what is not set; a module clock that runs keeps its rate. Whether all are set afterwards: a secure
// monitor may keep the unit read-only.
template <class Io>
[[nodiscard]] bool open_clocks(const Clocks& clocks, Io& io) noexcept {
  if (clocks_run(clocks, io)) return true;
  clock_unit::set(io, clocks.bus);
  if (clocks.module_hz != 0 && !clock_unit::is_set(io, clocks.module)) {
    // The rate first, then the gate.
    const std::uint32_t word = clock_unit::module_word(clocks, io.read(clocks.pll.offset));
    io.write(clocks.module.offset, word);
    io.write(clocks.module.offset, word | clock_unit::mask(clocks.module));
  }
  clock_unit::set(io, clocks.memory);
  clock_unit::set(io, clocks.reset);
  return clocks_run(clocks, io);
}

}  // namespace sunxi
