// SPDX-License-Identifier: Apache-2.0
// The provider's section of openssl.cnf and the SUNXI_* environment, parsed and checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "backends/entropy/source.h"
#include "backends/process.h"
#include "provider/algorithms.h"

namespace sunxi {

inline constexpr std::size_t never = SIZE_MAX;

struct Setting {
  const char* key;
  bool in_environment;  // whether SUNXI_<KEY> is read: no physical address comes from the environment
  const char* fallback;
  const char* allowed;  // for error texts
};

// Every key that the parser knows; the man page is held against it by a test.
inline constexpr std::array settings_table{
    Setting{"log", true, "error", "off, error, info or debug"},
    Setting{"backends", true, "mmio, cryptodev, afalg", "an ordered list of mmio, cryptodev, afalg, or none"},
    Setting{"min_bytes", true, "512", "0 to 2147483647, or never"},
    Setting{"min_bytes_for", true, "",
            "the name of a section with lines such as AES-128-CBC = 1024, never or 1024/never "
            "(encrypt/decrypt); in the environment AES-128-CBC=1024,AES-256-CBC=never"},
    Setting{"algorithms", true, "ALL", "ALL, algorithm names, and -NAME to leave one out"},
    Setting{"accelerated_only", true, "yes", "yes or no"},
    Setting{"mmio", false, "auto", "auto, off, devmem:ADDRESS with the base of a known engine, or uio:NAME"},
    Setting{"mmio_soc", false, "auto", "auto, or the name of an Allwinner SoC such as sun7i-a20"},
    Setting{"mmio_map", true, "first-use", "first-use or startup"},
    Setting{"mmio_dma", false, "none", "none, devmem:ADDRESS:SIZE or udmabuf:NAME"},
    Setting{"under_seccomp", true, "no", "no or use"},
    Setting{"rand_extra", true, "none", "none, sun4i-prng or afalg:NAME"},
};

struct Settings {
  LogLevel log = LogLevel::error;
  std::vector<std::string> backends;
  // Bytes from which a request may leave software, by algorithm and Direction; digests have no direction,
  // and the same in both places.
  std::array<std::array<std::size_t, 2>, algorithm_count> min_bytes{};
  std::array<bool, algorithm_count> min_bytes_is_set{};  // by somebody, rather than the default
  std::array<bool, algorithm_count> registered{};
  BackendOptions backend_options;
  entropy::Options entropy;
  bool backends_is_set = false;  // by somebody, rather than the default
  std::string given;             // what was set, for the log: "min_bytes = 0 (SUNXI_MIN_BYTES), ..."
};

// Names the key, its value and what is allowed.
class BadSetting : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

using SettingReader = std::function<std::optional<std::string>(const char* key)>;

// `file` answers for keys of our section (subsections as "key.subkey"), `environment` for variables.
// Reads `log` first and hands it to `on_log`, so that a complaint about the rest can be logged.
// Throws BadSetting, std::bad_alloc.
[[nodiscard]] Settings read_settings(const SettingReader& file, const SettingReader& environment,
                                     const std::function<void(LogLevel)>& on_log);

}  // namespace sunxi
