// SPDX-License-Identifier: Apache-2.0
// The configuration parser: every key, every kind of bad value, the environment over the file.
#include "provider/settings.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "tests/support/catch.h"

namespace sunxi {
namespace {

using Values = std::map<std::string, std::string>;

SettingReader reader(const Values& values) {
  return [&values](const char* key) -> std::optional<std::string> {
    const auto found = values.find(key);
    if (found == values.end()) return std::nullopt;
    return found->second;
  };
}

Settings parse(const Values& file, const Values& environment = {}) {
  return read_settings(reader(file), reader(environment), [](LogLevel) {});
}

// The complaint about one value, empty if it is accepted.
std::string complaint(const Values& file, const Values& environment = {}) {
  try {
    static_cast<void>(parse(file, environment));
    return {};
  } catch (const BadSetting& problem) {
    return problem.what();
  }
}

std::array<std::size_t, 2> pair(std::size_t encrypt, std::size_t decrypt) {
  return {encrypt, decrypt};
}

const std::size_t aes_128_cbc = find_algorithm("AES-128-CBC").value();
const std::size_t aes_192_cbc = find_algorithm("AES-192-CBC").value();
const std::size_t aes_256_cbc = find_algorithm("AES-256-CBC").value();

TEST_CASE("without any value the defaults hold") {
  const Settings settings = parse({});
  CHECK(settings.log == LogLevel::error);
  CHECK(settings.backends == std::vector<std::string>{"mmio", "cryptodev", "afalg"});
  for (std::size_t row = 0; row < cipher_count; ++row) {
    CHECK(settings.min_bytes[row] == pair(512, 512));
    CHECK(settings.registered[row] != cipher_rows[row].only_if_named);
  }
  for (std::size_t row = 0; row < digest_count; ++row) {
    CHECK(settings.min_bytes[algorithm_of_digest(row)] == pair(512, 512));
    CHECK(settings.registered[algorithm_of_digest(row)]);
  }
  CHECK(settings.backend_options.accelerated_only);
  CHECK_FALSE(settings.backend_options.under_seccomp);
  CHECK_FALSE(settings.backend_options.mmio_map_at_startup);
  CHECK(settings.backend_options.mmio_device == BackendOptions::MmioDevice::autodetect);
}

TEST_CASE("every default of the table is what the parser accepts") {
  for (const Setting& setting : settings_table) {
    if (std::string_view(setting.fallback).empty()) continue;
    INFO(setting.key);
    CHECK(complaint({{setting.key, setting.fallback}}).empty());
  }
}

TEST_CASE("backends are an ordered list") {
  CHECK(parse({{"backends", "afalg,mmio"}}).backends == std::vector<std::string>{"afalg", "mmio"});
  CHECK(parse({{"backends", " afalg , "}}).backends == std::vector<std::string>{"afalg"});
  CHECK(parse({{"backends", "none"}}).backends.empty());
  for (const char* bad : {"none, afalg", "afalg,,mmio", "AFALG", "caam", "afalg,afalg", ",", "afalg mmio"}) {
    INFO(bad);
    CHECK(complaint({{"backends", bad}}).find("backends = ") == 0);
  }
}

TEST_CASE("min_bytes") {
  CHECK(parse({{"min_bytes", "0"}}).min_bytes[aes_128_cbc] == pair(0, 0));
  CHECK(parse({{"min_bytes", "2147483647"}}).min_bytes[aes_128_cbc] == pair(2147483647, 2147483647));
  CHECK(parse({{"min_bytes", "never"}}).min_bytes[aes_128_cbc] == pair(never, never));
  for (const char* bad : {"-1", "2147483648", "18446744073709551616", "1k", "0x10", "512 ", "Never", "1.5"}) {
    INFO(bad);
    const bool accepted = std::string_view(bad) == "512 ";  // white space round a value is not its part
    CHECK(complaint({{"min_bytes", bad}}).empty() == accepted);
  }
}

TEST_CASE("min_bytes_for by section: any alias, as spelled, upper or lower, beats min_bytes") {
  for (const char* alias : {"AES-128-CBC", "aes-128-cbc", "AES128", "aes128", "2.16.840.1.101.3.4.1.2"}) {
    INFO(alias);
    const Settings settings =
        parse({{"min_bytes", "64"}, {std::string("min_bytes_for.") + alias, "1024/never"}});
    CHECK(settings.min_bytes[aes_128_cbc] == pair(1024, never));
    CHECK(settings.min_bytes[aes_192_cbc] == pair(64, 64));
  }
  CHECK(complaint({{"min_bytes_for.AES-128-CBC", "12/34/56"}}).find("min_bytes_for.AES-128-CBC") == 0);
  CHECK(complaint({{"min_bytes_for.AES-128-CBC", "/"}}).find("allowed") != std::string::npos);
  CHECK(complaint({{"min_bytes_for", "no_such_section"}}).find("no such section") != std::string::npos);
}

TEST_CASE("min_bytes_for by environment") {
  const Settings settings = parse({{"min_bytes_for.AES-192-CBC", "7"}},
                                  {{"SUNXI_MIN_BYTES_FOR", "AES-128-CBC=1024, aes256 = never/0"}});
  CHECK(settings.min_bytes[aes_128_cbc] == pair(1024, 1024));
  CHECK(settings.min_bytes[aes_192_cbc] == pair(512, 512));  // the variable replaces the section as a whole
  CHECK(settings.min_bytes[aes_256_cbc] == pair(never, 0));
  for (const char* bad :
       {"AES-128-CBC", "AES-128-CBC=", "=5", "SHA9=5", "AES-128-CBC=1,,", "AES-128-CBC:1"}) {
    INFO(bad);
    CHECK(complaint({}, {{"SUNXI_MIN_BYTES_FOR", bad}}).find("SUNXI_MIN_BYTES_FOR = ") == 0);
  }
}

const std::size_t sha1 = find_algorithm("SHA1").value();
const std::size_t sha256 = find_algorithm("SHA256").value();

TEST_CASE("thresholds of digests have no direction") {
  for (const char* alias : {"SHA1", "sha1", "SHA-1", "sha-1", "ssl3-sha1", "1.3.14.3.2.26"}) {
    INFO(alias);
    CHECK(parse({{std::string("min_bytes_for.") + alias, "300"}}).min_bytes[sha1] == pair(300, 300));
    CHECK(parse({}, {{"SUNXI_MIN_BYTES_FOR", std::string(alias) + "=never"}}).min_bytes[sha1] ==
          pair(never, never));
  }
  for (const char* bad : {"100/200", "100/100", "/", "100/", "never/never", "x"}) {
    INFO(bad);
    const std::string line = complaint({{"min_bytes_for.SHA1", bad}});
    CHECK(line.find("min_bytes_for.SHA1 = ") == 0);
    CHECK(line.find("allowed: ") != std::string::npos);
    CHECK(complaint({}, {{"SUNXI_MIN_BYTES_FOR", std::string("SHA1=") + bad}}).find("SUNXI_MIN_BYTES_FOR") ==
          0);
  }
  CHECK(complaint({{"min_bytes_for.AES-128-CBC", "100/200"}}).empty());
}

TEST_CASE("whether a threshold is somebody's or the default") {
  const auto is_set = [](const Values& file, const Values& environment = {}) {
    return parse(file, environment).min_bytes_is_set;
  };
  for (const bool one : is_set({})) CHECK_FALSE(one);
  for (const bool one : is_set({{"min_bytes", "512"}})) CHECK(one);
  for (const bool one : is_set({}, {{"SUNXI_MIN_BYTES", "512"}})) CHECK(one);
  for (const bool one : is_set({}, {{"SUNXI_MIN_BYTES", ""}})) CHECK_FALSE(one);
  CHECK(is_set({{"min_bytes_for.SHA1", "512"}})[sha1]);
  CHECK_FALSE(is_set({{"min_bytes_for.SHA1", "512"}})[sha256]);
  CHECK(is_set({}, {{"SUNXI_MIN_BYTES_FOR", "sha-256=512"}})[sha256]);
  CHECK_FALSE(is_set({}, {{"SUNXI_MIN_BYTES_FOR", "sha-256=512"}})[sha1]);
}

TEST_CASE("algorithms") {
  const auto registered = [](const char* value, const char* name) {
    return parse({{"algorithms", value}}).registered[find_algorithm(name).value()];
  };
  CHECK(registered("AES-128-CBC,", "AES-128-CBC"));
  CHECK_FALSE(registered("AES-128-CBC,", "AES-192-CBC"));
  CHECK_FALSE(registered("-AES-128-CBC", "AES-128-CBC"));
  CHECK(registered("-AES-128-CBC", "AES-192-CBC"));
  CHECK_FALSE(registered("ALL, -aes256", "AES-256-CBC"));
  CHECK(registered("ALL, -aes256", "AES-128-CBC"));
  for (std::size_t row = 0; row < cipher_count; ++row)
    CHECK(parse({{"algorithms", "ALL"}}).registered[row] != cipher_rows[row].only_if_named);
  for (const char* bad : {"AES", "-", "AES-128-GCM", "AES-128-CBC:AES128", "ALL,,AES128", "-ALL"}) {
    INFO(bad);
    CHECK(complaint({{"algorithms", bad}}).find("algorithms = ") == 0);
  }
}

TEST_CASE("words") {
  CHECK_FALSE(parse({{"accelerated_only", "no"}}).backend_options.accelerated_only);
  CHECK(parse({{"under_seccomp", "use"}}).backend_options.under_seccomp);
  CHECK(parse({{"mmio_map", "startup"}}).backend_options.mmio_map_at_startup);
  CHECK(parse({{"log", "debug"}}).log == LogLevel::debug);
  for (const char* key : {"accelerated_only", "under_seccomp", "mmio_map", "log"}) {
    for (const char* bad : {"1", "maybe", "YES"}) {
      INFO(key << " = " << bad);
      CHECK(complaint({{key, bad}}).find(std::string(key) + " = ") == 0);
    }
  }
}

TEST_CASE("mmio devices") {
  const auto options = [](const Values& file) { return parse(file).backend_options; };
  CHECK(options({{"mmio", "devmem:0x01c15000"}}).mmio_address == 0x01c15000);
  CHECK(options({{"mmio", "uio:uio0"}}).mmio_uio == "uio0");
  CHECK(options({{"mmio", "off"}}).mmio_device == BackendOptions::MmioDevice::off);
  CHECK(options({{"mmio_soc", "sun7i-a20"}}).mmio_soc == "sun7i-a20");
  for (const char* bad : {"on", "devmem:", "devmem:0x01c15001", "devmem:0x40000000", "devmem:01c15000",
                          "uio:", "uio:../mem", "uio:/dev/uio0"}) {
    INFO(bad);
    CHECK(complaint({{"mmio", bad}}).find("mmio = ") == 0);
  }
  CHECK(complaint({{"mmio_soc", "rk3399"}}).find("mmio_soc = ") == 0);
  for (const char* good :
       {"none", "devmem:0x5f000000:0x100000", "devmem:0x5f000000:1048576", "udmabuf:udmabuf0"})
    CHECK(complaint({{"mmio_dma", good}}).empty());
  for (const char* bad :
       {"devmem:0x5f000000", "devmem:0x5f000000:0", "devmem:x:1", "udmabuf:", "udmabuf:a/b"})
    CHECK(complaint({{"mmio_dma", bad}}).find("mmio_dma = ") == 0);
}

TEST_CASE("rand_extra") {
  for (const char* good : {"none", "sun4i-prng", "afalg:stdrng", "afalg:drbg(x,y)"})
    CHECK(complaint({{"rand_extra", good}}).empty());
  for (const char* bad : {"afalg:", "afalg:a b", "prng"})
    CHECK(complaint({{"rand_extra", bad}}).find("rand_extra = ") == 0);
  using Kind = entropy::Extra::Kind;
  CHECK(parse({}).entropy.extra.kind == Kind::none);
  CHECK(parse({{"rand_extra", "sun4i-prng"}}).entropy.extra.kind == Kind::sun4i_prng);
  const Settings afalg = parse({{"rand_extra", "afalg:stdrng"}, {"under_seccomp", "use"}});
  CHECK(afalg.entropy.extra.kind == Kind::afalg);
  CHECK(afalg.entropy.extra.name == "stdrng");
  CHECK(afalg.entropy.backend.under_seccomp);
}

TEST_CASE("a key without a value has its default, and is not set by anybody") {
  for (const Setting& setting : settings_table) {
    for (const char* empty : {"", " ", "\t "}) {
      INFO(setting.key);
      CHECK(complaint({{setting.key, empty}}).empty());
      CHECK(parse({{setting.key, empty}}).given.empty());
      std::string variable = std::string("SUNXI_") + setting.key;
      std::transform(variable.begin(), variable.end(), variable.begin(),
                     [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
      CHECK(parse({}, {{variable, empty}}).given.empty());
    }
  }
  const Settings settings = parse({{"backends", ""},
                                   {"min_bytes", ""},
                                   {"min_bytes_for.AES-128-CBC", " "},
                                   {"algorithms", ""},
                                   {"under_seccomp", ""},
                                   {"rand_extra", ""}});
  const Settings untouched = parse({});
  CHECK(settings.backends == untouched.backends);
  CHECK_FALSE(settings.backends_is_set);
  CHECK(settings.min_bytes == untouched.min_bytes);
  CHECK(settings.min_bytes_is_set == untouched.min_bytes_is_set);
  CHECK(settings.registered == untouched.registered);
  CHECK(settings.entropy.extra.kind == entropy::Extra::Kind::none);
  // One alias without a value does not hide another with one.
  CHECK(parse({{"min_bytes_for.AES-128-CBC", ""}, {"min_bytes_for.AES128", "9"}}).min_bytes[aes_128_cbc] ==
        pair(9, 9));
}

TEST_CASE("the environment wins over the file, key by key; an empty variable counts as unset") {
  const Values file{{"min_bytes", "100"}, {"accelerated_only", "no"}};
  CHECK(parse(file, {{"SUNXI_MIN_BYTES", "200"}}).min_bytes[aes_128_cbc] == pair(200, 200));
  CHECK(parse(file, {{"SUNXI_MIN_BYTES", ""}}).min_bytes[aes_128_cbc] == pair(100, 100));
  CHECK_FALSE(parse(file, {{"SUNXI_MIN_BYTES", "200"}}).backend_options.accelerated_only);
  CHECK(complaint(file, {{"SUNXI_MIN_BYTES", "x"}}).find("SUNXI_MIN_BYTES = \"x\"") == 0);
}

TEST_CASE("no physical address comes from the environment") {
  const Settings settings = parse(
      {},
      {{"SUNXI_MMIO", "devmem:0x01c15000"}, {"SUNXI_MMIO_SOC", "rubbish"}, {"SUNXI_MMIO_DMA", "rubbish"}});
  CHECK(settings.backend_options.mmio_device == BackendOptions::MmioDevice::autodetect);
  CHECK(settings.backend_options.mmio_soc == "auto");
}

TEST_CASE("the log level is known before anything can be wrong") {
  LogLevel seen = LogLevel::off;
  const Values file{{"log", "info"}, {"min_bytes", "x"}};
  const Values nothing;
  CHECK_THROWS_AS(read_settings(reader(file), reader(nothing), [&](LogLevel level) { seen = level; }),
                  BadSetting);
  CHECK(seen == LogLevel::info);
}

}  // namespace
}  // namespace sunxi
