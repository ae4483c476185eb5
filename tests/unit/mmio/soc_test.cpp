// SPDX-License-Identifier: Apache-2.0
// The SoC table and the ways into it.
#include "backends/mmio/soc.h"

#include <set>
#include <string>

#include "backends/mmio/engine.h"
#include "tests/support/catch.h"

using namespace sunxi;

TEST_CASE("soc: names and compatible strings are unique", "[soc]") {
  std::set<std::string_view> names;
  std::set<std::string_view> compatibles;
  for (const Soc& soc : known_socs()) {
    INFO(soc.name);
    CHECK(names.insert(soc.name).second);
    CHECK(find_soc_by_name(soc.name) == &soc);
    CHECK(known_engine_address(soc.base));
    CHECK_FALSE(soc.compatibles[0].empty());
    CHECK(soc.clocks.base != 0);
    for (const std::string_view compatible : soc.compatibles) {
      if (!compatible.empty()) CHECK(compatibles.insert(compatible).second);
    }
    // The device name begins with the address.
    CHECK(std::stoull(std::string(soc.platform_devices[0]), nullptr, 16) == soc.base);
  }
}

TEST_CASE("soc: by the device tree's root", "[soc]") {
  using namespace std::string_view_literals;
  const auto name = [](std::string_view compatibles) {
    const Soc* soc = find_soc_by_compatible(compatibles);
    return soc == nullptr ? "none"sv : soc->name;
  };
  CHECK(name("cubietech,cubietruck\0allwinner,sun7i-a20\0"sv) == "sun7i-a20");
  CHECK(name("nextthing,chip\0allwinner,sun5i-r8\0allwinner,sun5i-a13\0"sv) == "sun5i-a13");
  CHECK(name("allwinner,sun8i-h3"sv) == "sun8i-h3");
  CHECK(name("raspberrypi,4-model-b\0brcm,bcm2711\0"sv) == "none");
  CHECK(name("allwinner,sun7i-a20x\0"sv) == "none");
  CHECK(name("allwinner,sun7i\0"sv) == "none");
  CHECK(name(""sv) == "none");
  CHECK(name("\0\0\0"sv) == "none");
}

TEST_CASE("soc: unknown names and addresses", "[soc]") {
  CHECK(find_soc_by_name("auto") == nullptr);
  CHECK(find_soc_by_name("") == nullptr);
  CHECK(known_engine_address(0x01c15000));
  CHECK_FALSE(known_engine_address(0x01c15004));
  CHECK_FALSE(known_engine_address(0));
}

TEST_CASE("soc: which engines are driven", "[soc]") {
  const CipherSpec cbc{Cipher::aes, Mode::cbc, 16, 16, 16};
  const CipherSpec ctr{Cipher::aes, Mode::ctr, 16, 16, 16};
  const DigestSpec sha1{Digest::sha1, 64, 20};
  const DigestSpec sha256{Digest::sha256, 64, 32};
  for (const Soc& soc : known_socs()) {
    INFO(soc.name);
    const bool driven = soc.kind == EngineKind::sun4i_ss;
    CHECK(engine_driven(soc.kind) == driven);
    CHECK((engine_algorithm(soc.kind, cbc) != no_algorithm) == driven);
    CHECK((engine_algorithm(soc.kind, sha1) != no_algorithm) == driven);
    CHECK((engine_algorithm(soc.kind, ctr) != no_algorithm) == driven);
    CHECK(engine_algorithm(soc.kind, sha256) == no_algorithm);
    // Whoever relies on a register that an erratum has broken is wrong on all of these.
    if (soc.kind == EngineKind::sun4i_ss) CHECK(soc.errata.has(Erratum::key_lost));
  }
  CHECK(find_soc_by_name("sun8i-a33")->errata.has(Erratum::sha1_big_endian));
  CHECK_FALSE(find_soc_by_name("sun7i-a20")->errata.has(Erratum::sha1_big_endian));
  CHECK(find_soc_by_name("sun4i-a10")->errata.has(Erratum::iv_readback));
}
