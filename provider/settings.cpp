// SPDX-License-Identifier: Apache-2.0
#include "provider/settings.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "backends/mmio/soc.h"

namespace sunxi {
namespace {

constexpr std::size_t most_min_bytes = 2147483647;

struct Value {
  const Setting& setting;
  std::string text;
  std::string source;  // the key, or the variable that won over it
  bool given = true;   // or the default

  [[noreturn]] void refuse(std::string_view what = {}) const {
    std::string message = source + " = \"" + text + "\": ";
    if (!what.empty()) message.append(what).append("; ");
    throw BadSetting(message.append("allowed: ").append(setting.allowed));
  }
};

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t";
  const std::size_t first = text.find_first_not_of(blank);
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(blank) - first + 1);
}

// Comma-separated; one comma may end the list, so that a one-word list can be told from a section name.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(trim(text.substr(0, end)));
    if (end == std::string_view::npos) break;
    text = text.substr(end + 1);
  }
  if (parts.size() > 1 && parts.back().empty()) parts.pop_back();
  return parts;
}

template <class Number>
std::optional<Number> number(std::string_view text, int base = 10) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> address(std::string_view text) {
  if (!text.starts_with("0x") && !text.starts_with("0X")) return std::nullopt;
  return number<std::uint64_t>(text.substr(2), 16);
}

std::optional<std::size_t> threshold(std::string_view text) {
  if (text == "never") return never;
  const auto value = number<std::size_t>(text);
  if (!value || *value > most_min_bytes) return std::nullopt;
  return value;
}

// "1024" or "1024/never".
std::optional<std::array<std::size_t, 2>> threshold_pair(std::string_view text, bool no_direction) {
  const std::size_t slash = text.find('/');
  if (no_direction && slash != std::string_view::npos) return std::nullopt;
  const auto encrypt = threshold(trim(text.substr(0, slash)));
  const auto decrypt = slash == std::string_view::npos ? encrypt : threshold(trim(text.substr(slash + 1)));
  if (!encrypt || !decrypt) return std::nullopt;
  return std::array{*encrypt, *decrypt};
}

// A device name: no path, no surprise.
bool plain_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

// A kernel algorithm name: the above, brackets and commas.
bool kernel_name(std::string_view text) {
  return !text.empty() && text.size() < 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return plain_name(std::string_view(&c, 1)) || c == '(' || c == ')' || c == ',';
  });
}

template <class T>
T choose(const Value& value, std::initializer_list<std::pair<std::string_view, T>> choices) {
  for (const auto& [word, meaning] : choices) {
    if (value.text == word) return meaning;
  }
  value.refuse();
}

class Reader {
 public:
  Reader(const SettingReader& file, const SettingReader& environment)
      : file_(file), environment_(environment) {}

  [[nodiscard]] Value get(std::string_view key) const {
    const Setting& setting = *std::find_if(settings_table.begin(), settings_table.end(),
                                           [&](const Setting& row) { return row.key == key; });
    if (setting.in_environment) {
      std::string variable = "SUNXI_" + std::string(key);
      std::transform(variable.begin(), variable.end(), variable.begin(), upper);
      if (auto text = written(environment_, variable)) return {setting, *std::move(text), variable};
    }
    if (auto text = written(file_, setting.key)) return {setting, *std::move(text), setting.key};
    return {setting, setting.fallback, setting.key, false};
  }

  // The line for an algorithm in the section that `key` names: any alias, as spelled, upper or lower.
  [[nodiscard]] std::optional<std::pair<std::string, std::string>> line(std::string_view key,
                                                                        std::string_view aliases) const {
    std::optional<std::pair<std::string, std::string>> found;
    for_each_name(aliases, [&](std::string_view alias) {
      for (const auto change : {same, upper, lower}) {
        if (found) return;
        std::string name(alias);
        std::transform(name.begin(), name.end(), name.begin(), change);
        const std::string full = std::string(key) + "." + name;
        if (auto text = written(file_, full)) found.emplace(full, *std::move(text));
      }
    });
    return found;
  }

 private:
  // Nothing, or nothing but blanks, after a key is as good as no key.
  static std::optional<std::string> written(const SettingReader& from, const std::string& key) {
    const auto text = from(key.c_str());
    const std::string_view value = text ? trim(*text) : std::string_view();
    if (value.empty()) return std::nullopt;
    return std::string(value);
  }

  static char same(char c) { return c; }
  static char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }
  static char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

  const SettingReader& file_;
  const SettingReader& environment_;
};

std::vector<std::string> read_backends(const Value& value) {
  std::vector<std::string> names;
  const auto words = split(value.text, ',');
  for (const std::string_view word : words) {
    if (word == "none" && words.size() == 1) continue;
    if (word != "mmio" && word != "cryptodev" && word != "afalg") value.refuse();
    if (std::find(names.begin(), names.end(), word) != names.end())
      value.refuse("\"" + std::string(word) + "\" stands twice");
    names.emplace_back(word);
  }
  return names;
}

void read_algorithms(const Value& value, Settings& settings) {
  const auto words = split(value.text, ',');
  const auto all = [&] {
    for (std::size_t i = 0; i < algorithm_count; ++i)
      settings.registered[i] = settings.registered[i] || !only_if_named(i);
  };
  if (words.front().starts_with('-')) all();
  for (const std::string_view word : words) {
    if (word == "ALL") {
      all();
      continue;
    }
    if (word == "-ALL") value.refuse("-ALL leaves nothing");
    const bool out = word.starts_with('-');
    const auto row = find_algorithm(out ? word.substr(1) : word);
    if (!row)
      value.refuse("no algorithm here is called \"" + std::string(out ? word.substr(1) : word) + "\"");
    settings.registered[*row] = !out;
  }
  if (std::none_of(settings.registered.begin(), settings.registered.end(), [](bool one) { return one; }))
    value.refuse("that leaves nothing");
}

void read_thresholds(const Reader& reader, Settings& settings) {
  const Value common = reader.get("min_bytes");
  const auto bytes = threshold(common.text);
  if (!bytes) common.refuse();
  for (auto& row : settings.min_bytes) row = {*bytes, *bytes};
  settings.min_bytes_is_set.fill(common.given);

  const Value per_name = reader.get("min_bytes_for");
  if (per_name.source != per_name.setting.key) {
    for (const std::string_view part : split(per_name.text, ',')) {
      const std::size_t equal = part.find('=');
      const auto row = find_algorithm(trim(part.substr(0, equal)));
      if (!row || equal == std::string_view::npos)
        per_name.refuse("no algorithm and size in \"" + std::string(part) + "\"");
      const auto pair = threshold_pair(trim(part.substr(equal + 1)), is_digest(*row));
      if (!pair) per_name.refuse("no size in \"" + std::string(part) + "\"");
      settings.min_bytes[*row] = *pair;
      settings.min_bytes_is_set[*row] = true;
    }
    return;
  }
  static constexpr Setting line_setting{
      "", false, "", "0 to 2147483647, never, or for ciphers two of them as ENCRYPT/DECRYPT"};
  // A value that names a section does not arrive itself.
  if (!per_name.text.empty()) per_name.refuse("there is no such section");
  for (std::size_t row = 0; row < algorithm_count; ++row) {
    const auto line = reader.line(per_name.setting.key, names_of(row));
    if (!line) continue;
    const auto pair = threshold_pair(line->second, is_digest(row));
    if (!pair) Value{line_setting, line->second, line->first}.refuse();
    settings.min_bytes[row] = *pair;
    settings.min_bytes_is_set[row] = true;
  }
}

void read_mmio(const Reader& reader, BackendOptions& options) {
  using Device = BackendOptions::MmioDevice;
  const Value device = reader.get("mmio");
  const std::string_view text = device.text;
  if (text == "auto") {
    options.mmio_device = Device::autodetect;
  } else if (text == "off") {
    options.mmio_device = Device::off;
  } else if (text.starts_with("devmem:")) {
    const auto base = address(text.substr(7));
    if (!base) device.refuse("an address is hexadecimal and begins with 0x");
    if (!known_engine_address(*base)) device.refuse("no Allwinner engine is known at that address");
    options.mmio_device = Device::devmem;
    options.mmio_address = *base;
  } else if (text.starts_with("uio:") && plain_name(text.substr(4))) {
    options.mmio_device = Device::uio;
    options.mmio_uio = text.substr(4);
  } else {
    device.refuse();
  }

  const Value soc = reader.get("mmio_soc");
  if (soc.text != "auto" && find_soc_by_name(soc.text) == nullptr) {
    std::string known = "no such SoC; known are";
    for (const Soc& one : known_socs()) known.append(" ").append(one.name);
    soc.refuse(known);
  }
  options.mmio_soc = soc.text;

  options.mmio_map_at_startup =
      choose<bool>(reader.get("mmio_map"), {{"first-use", false}, {"startup", true}});

  const Value dma = reader.get("mmio_dma");
  if (dma.text != "none" &&
      !(dma.text.starts_with("udmabuf:") && plain_name(std::string_view(dma.text).substr(8)))) {
    const auto parts = split(dma.text, ':');
    if (parts.size() != 3 || parts[0] != "devmem" || !address(parts[1])) dma.refuse();
    const auto size = address(parts[2]) ? address(parts[2]) : number<std::uint64_t>(parts[2]);
    if (!size || *size == 0) dma.refuse();
  }
}

}  // namespace

Settings read_settings(const SettingReader& file, const SettingReader& environment,
                       const std::function<void(LogLevel)>& on_log) {
  const Reader reader(file, environment);
  Settings settings;
  settings.log = choose<LogLevel>(reader.get("log"), {{"off", LogLevel::off},
                                                      {"error", LogLevel::error},
                                                      {"info", LogLevel::info},
                                                      {"debug", LogLevel::debug}});
  on_log(settings.log);
  const Value backends = reader.get("backends");
  settings.backends = read_backends(backends);
  settings.backends_is_set = backends.given;
  read_thresholds(reader, settings);
  read_algorithms(reader.get("algorithms"), settings);
  BackendOptions& options = settings.backend_options;
  options.accelerated_only = choose<bool>(reader.get("accelerated_only"), {{"yes", true}, {"no", false}});
  options.under_seccomp = choose<bool>(reader.get("under_seccomp"), {{"no", false}, {"use", true}});
  read_mmio(reader, options);
  const Value extra = reader.get("rand_extra");
  if (extra.text == "sun4i-prng") {
    settings.entropy.extra.kind = entropy::Extra::Kind::sun4i_prng;
  } else if (extra.text.starts_with("afalg:") && kernel_name(std::string_view(extra.text).substr(6))) {
    settings.entropy.extra = {entropy::Extra::Kind::afalg, extra.text.substr(6)};
  } else if (extra.text != "none") {
    extra.refuse();
  }
  settings.entropy.backend = options;
  for (const Setting& setting : settings_table) {
    const Value value = reader.get(setting.key);
    if (!value.given) continue;
    settings.given += settings.given.empty() ? "" : ", ";
    settings.given += std::string(setting.key) + " = " + value.text;
    if (value.source != setting.key) settings.given += " (" + value.source + ")";
  }
  return settings;
}

}  // namespace sunxi
