// SPDX-License-Identifier: Apache-2.0
// The table of SoCs, one row each.
#include "backends/mmio/soc.h"

#include <algorithm>

namespace sunxi {
namespace {

// Bits and PLLs: drivers/clk/sunxi-ng/ccu-sun4i-a10.c, ccu-sun5i.c, ccu-sun6i-a31.c, ccu-sun8i-a33.c,
// ccu-sun8i-v3s.c. Rate: what drivers/crypto/allwinner/sun4i-ss asks for; the vendor's driver runs the
// A31, A33 and V3s at 200 MHz.
constexpr std::uint32_t sun4i_ss_hz = 150'000'000;
constexpr Clocks sun4i_clocks{0x01c20000, {0x9c, 31}, {0x60, 5}, {}, {}, {0x28, 0}, sun4i_ss_hz};
constexpr Clocks sun6i_ss_clocks{0x01c20000, {0x9c, 31}, {0x60, 5}, {0x2c0, 5}, {}, {0x28, 1}, sun4i_ss_hz};
// Engines that are not driven yet: their module clocks' parents are still to be looked up.
constexpr Clocks sun6i_clocks{0x01c20000, {0x9c, 31}, {0x60, 5}, {0x2c0, 5}, {}};
constexpr Clocks sun9i_clocks{0x06000000, {0x42c, 31}, {0x580, 5}, {0x5a0, 5}, {}};
constexpr Clocks sun50i_h6_clocks{0x03001000, {0x680, 31}, {0x68c, 0}, {0x68c, 16}, {0x804, 2}};
constexpr Clocks sun20i_clocks{0x02001000, {0x680, 31}, {0x68c, 0}, {0x68c, 16}, {0x804, 2}};

constexpr std::array<std::string_view, 2> at_1c15000{"1c15000.crypto-engine", "1c15000.crypto"};
constexpr std::array<std::string_view, 2> at_1c02000{"1c02000.crypto", ""};
constexpr std::array<std::string_view, 2> at_1904000{"1904000.crypto", ""};
constexpr std::array<std::string_view, 2> at_3040000{"3040000.crypto", ""};

// The vendor reports the CTR and key errata for the whole first generation (A10 to A33); the V3s has
// the A33's engine.
constexpr Errata sun4i_errata{Erratum::key_lost, Erratum::iv_readback, Erratum::ctr_byte_order};
constexpr Errata sun7i_errata{Erratum::key_lost, Erratum::ctr_byte_order};
constexpr Errata sun8i_a33_errata{Erratum::key_lost, Erratum::ctr_byte_order, Erratum::sha1_big_endian};

constexpr std::array socs{
    Soc{"sun4i-a10",
        {"allwinner,sun4i-a10"},
        EngineKind::sun4i_ss,
        0x01c15000,
        at_1c15000,
        sun4i_errata,
        sun4i_clocks},
    Soc{"sun5i-a13",
        {"allwinner,sun5i-a13", "allwinner,sun5i-a10s", "allwinner,sun5i-r8", "nextthing,gr8"},
        EngineKind::sun4i_ss,
        0x01c15000,
        at_1c15000,
        sun4i_errata,
        sun4i_clocks},
    Soc{"sun7i-a20",
        {"allwinner,sun7i-a20"},
        EngineKind::sun4i_ss,
        0x01c15000,
        at_1c15000,
        sun7i_errata,
        sun4i_clocks},
    Soc{"sun6i-a31",
        {"allwinner,sun6i-a31", "allwinner,sun6i-a31s"},
        EngineKind::sun4i_ss,
        0x01c15000,
        at_1c15000,
        sun7i_errata,
        sun6i_ss_clocks},
    Soc{"sun8i-a33",
        {"allwinner,sun8i-a33"},
        EngineKind::sun4i_ss,
        0x01c15000,
        at_1c15000,
        sun8i_a33_errata,
        sun6i_ss_clocks},
    Soc{"sun8i-v3s",
        {"allwinner,sun8i-v3s", "allwinner,sun8i-s3", "allwinner,sun8i-v3"},
        EngineKind::sun4i_ss,
        0x01c15000,
        at_1c15000,
        sun8i_a33_errata,
        sun6i_ss_clocks},

    Soc{"sun8i-a83t",
        {"allwinner,sun8i-a83t"},
        EngineKind::sun8i_ss,
        0x01c15000,
        at_1c15000,
        {},
        sun6i_clocks},
    Soc{"sun9i-a80", {"allwinner,sun9i-a80"}, EngineKind::sun8i_ss, 0x01c02000, at_1c02000, {}, sun9i_clocks},
    Soc{"sun8i-h3",
        {"allwinner,sun8i-h3", "allwinner,sun8i-h2-plus"},
        EngineKind::sun8i_ce,
        0x01c15000,
        at_1c15000,
        {},
        sun6i_clocks},
    Soc{"sun8i-r40",
        {"allwinner,sun8i-r40", "allwinner,sun8i-t3", "allwinner,sun8i-v40"},
        EngineKind::sun8i_ce,
        0x01c15000,
        at_1c15000,
        {},
        sun6i_clocks},
    Soc{"sun50i-a64",
        {"allwinner,sun50i-a64"},
        EngineKind::sun8i_ce,
        0x01c15000,
        at_1c15000,
        {},
        sun6i_clocks},
    Soc{"sun50i-h5", {"allwinner,sun50i-h5"}, EngineKind::sun8i_ce, 0x01c15000, at_1c15000, {}, sun6i_clocks},
    Soc{"sun50i-h6",
        {"allwinner,sun50i-h6"},
        EngineKind::sun8i_ce,
        0x01904000,
        at_1904000,
        {},
        sun50i_h6_clocks},
    Soc{"sun50i-h616",
        {"allwinner,sun50i-h616", "allwinner,sun50i-h618"},
        EngineKind::sun8i_ce,
        0x01904000,
        at_1904000,
        {},
        sun50i_h6_clocks},
    Soc{"sun20i-d1",
        {"allwinner,sun20i-d1", "allwinner,sun8i-t113s"},
        EngineKind::sun8i_ce,
        0x03040000,
        at_3040000,
        {},
        sun20i_clocks},
};

}  // namespace

std::span<const Soc> known_socs() noexcept {
  return socs;
}

const Soc* find_soc_by_name(std::string_view name) noexcept {
  const auto* row = std::find_if(socs.begin(), socs.end(), [&](const Soc& soc) { return soc.name == name; });
  return row == socs.end() ? nullptr : row;
}

const Soc* find_soc_by_compatible(std::string_view compatibles) noexcept {
  while (!compatibles.empty()) {
    const std::string_view one = compatibles.substr(0, compatibles.find('\0'));
    for (const Soc& soc : socs) {
      if (!one.empty() &&
          std::find(soc.compatibles.begin(), soc.compatibles.end(), one) != soc.compatibles.end()) {
        return &soc;
      }
    }
    if (one.size() == compatibles.size()) break;
    compatibles.remove_prefix(one.size() + 1);
  }
  return nullptr;
}

bool known_engine_address(std::uint64_t address) noexcept {
  return std::any_of(socs.begin(), socs.end(), [&](const Soc& soc) { return soc.base == address; });
}

}  // namespace sunxi
