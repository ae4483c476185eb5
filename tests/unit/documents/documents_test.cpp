// SPDX-License-Identifier: Apache-2.0
// Holds the man page and the example configuration against the parser: every key, its default, its
// variable and its example.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "provider/settings.h"
#include "tests/support/catch.h"

namespace {

using namespace sunxi;

std::vector<std::string> lines_of(const char* path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

bool starts_with(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

std::string trim(const std::string& text) {
  const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
  const auto first = std::find_if_not(text.begin(), text.end(), blank);
  const auto last = std::find_if_not(text.rbegin(), std::make_reverse_iterator(first), blank).base();
  return {first, last};
}

// One key of the page: what stands under each of its items.
using Items = std::map<std::string, std::vector<std::string>>;

// Keyed by the configuration key; its text before the items is the item "".
std::map<std::string, Items> keys_of_page() {
  std::map<std::string, Items> keys;
  std::string key;
  std::string item;
  bool inside = false;
  for (const std::string& line : lines_of(SUNXI_MAN_PAGE)) {
    if (starts_with(line, ".Sh ")) inside = line == ".Sh CONFIGURATION";
    if (!inside) continue;
    if (starts_with(line, ".It Ic ")) {
      key = line.substr(7);
      item.clear();
      keys[key];
    } else if (key.empty() || starts_with(line, ".Bl ") || line == ".El") {
      continue;
    } else if (starts_with(line, ".It ")) {
      item = line.substr(4);
      keys[key][item];
    } else {
      keys[key][item].push_back(line);
    }
  }
  return keys;
}

constexpr const char* our_section = "sunxi_sect";

// As libcrypto reads a file: a value that is a section's name stands for that section.
struct Configuration {
  std::map<std::string, std::string> values;

  static Configuration parse(const std::vector<std::string>& lines) {
    std::map<std::string, std::map<std::string, std::string>> sections;
    std::string section;
    for (const std::string& line : lines) {
      const std::size_t equal = line.find('=');
      if (starts_with(line, "[")) {
        section = line.substr(1, line.find(']') - 1);
        sections[section];
      } else if (equal != std::string::npos) {
        sections[section][trim(line.substr(0, equal))] = trim(line.substr(equal + 1));
      }
    }
    Configuration result;
    for (const auto& [key, value] : sections[our_section]) {
      const auto found = sections.find(value);
      if (value.empty() || found == sections.end()) {
        result.values[key] = value;
      } else {
        for (const auto& [sub, below] : found->second)
          result.values[std::string(key).append(".").append(sub)] = below;
      }
    }
    return result;
  }

  [[nodiscard]] Settings read() const {
    return read_settings(
        [this](const char* key) -> std::optional<std::string> {
          const auto found = values.find(key);
          return found == values.end() ? std::nullopt : std::optional(found->second);
        },
        [](const char*) { return std::nullopt; }, [](LogLevel) {});
  }
};

std::string variable_of(const Setting& setting) {
  std::string name = std::string("SUNXI_") + setting.key;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::string join(const std::vector<std::string>& lines) {
  std::ostringstream text;
  for (const std::string& line : lines) text << line << '\n';
  return text.str();
}

// The example of a key, as lines of a file.
std::vector<std::string> example_of(const Items& items) {
  std::vector<std::string> lines;
  for (const std::string& line : items.at("Example:")) {
    REQUIRE(starts_with(line, ".Dl "));
    lines.push_back(line.substr(4));
  }
  return lines;
}

TEST_CASE("the man page has the parser's keys and no others") {
  const auto page = keys_of_page();
  for (const Setting& setting : settings_table) {
    INFO(setting.key);
    CHECK(page.count(setting.key) == 1);
  }
  CHECK(page.size() == settings_table.size());
}

TEST_CASE("the man page gives meaning, values, default, variable and example of every key") {
  const auto page = keys_of_page();
  for (const Setting& setting : settings_table) {
    INFO(setting.key);
    const auto found = page.find(setting.key);
    REQUIRE(found != page.end());
    const Items& items = found->second;
    for (const char* item : {"", "Values:", "Default:", "Variable:", "Example:"}) {
      INFO(item);
      REQUIRE(items.count(item) == 1);
      CHECK_FALSE(items.at(item).empty());
    }
    const std::string fallback = setting.fallback;
    CHECK(trim(join(items.at("Default:"))) == (fallback.empty() ? "no section" : ".Li " + fallback));
    const std::string variable = join(items.at("Variable:"));
    if (setting.in_environment) {
      CHECK(variable.find(".Ev " + variable_of(setting)) == 0);
    } else {
      CHECK(variable.find("none") == 0);
    }
  }
}

TEST_CASE("the parser accepts the man page's examples") {
  for (const auto& [key, items] : keys_of_page()) {
    INFO(key);
    auto lines = example_of(items);
    REQUIRE(starts_with(lines.front(), key + " = "));
    lines.insert(lines.begin(), std::string("[") + our_section + "]");
    const Configuration configuration = Configuration::parse(lines);
    CHECK_NOTHROW(configuration.read());
    // The example is no accident: the parser reads this key and refuses what makes no sense.
    Configuration nonsense = configuration;
    nonsense.values = {{key, "a b"}};
    CHECK_THROWS_AS(nonsense.read(), BadSetting);
  }
}

// Commented settings have no blank after the '#', explanations have one.
std::vector<std::string> uncommented_example() {
  std::vector<std::string> lines;
  for (std::string line : lines_of(SUNXI_EXAMPLE)) {
    if (line.size() > 1 && line[0] == '#' && line[1] != ' ') line.erase(0, 1);
    if (!starts_with(line, "#")) lines.push_back(line);
  }
  return lines;
}

TEST_CASE("the example configuration has every key with its default") {
  const Configuration configuration = Configuration::parse(uncommented_example());
  for (const Setting& setting : settings_table) {
    INFO(setting.key);
    const auto found = configuration.values.find(setting.key);
    REQUIRE(found != configuration.values.end());
    CHECK(found->second == setting.fallback);
  }
  CHECK(configuration.values.size() == settings_table.size() + 2);  // activate, module
  CHECK_NOTHROW(configuration.read());
}

TEST_CASE("every key of the example configuration is explained above it") {
  const auto lines = lines_of(SUNXI_EXAMPLE);
  for (const Setting& setting : settings_table) {
    INFO(setting.key);
    const auto at = std::find_if(lines.begin(), lines.end(), [&](const std::string& line) {
      return starts_with(line, std::string("#") + setting.key + " =");
    });
    REQUIRE(at != lines.end());
    REQUIRE(at != lines.begin());
    CHECK(starts_with(*(at - 1), "# "));
  }
}

TEST_CASE("the example configuration's section of limits is read") {
  auto lines = uncommented_example();
  for (std::string& line : lines) {
    if (starts_with(line, "min_bytes_for =")) line = "min_bytes_for = sunxi_min_bytes";
  }
  const Settings settings = Configuration::parse(lines).read();
  CHECK(settings.min_bytes[*find_algorithm("AES-128-CBC")] == std::array<std::size_t, 2>{1024, 1024});
  CHECK(settings.min_bytes[*find_algorithm("AES-192-CBC")] == std::array<std::size_t, 2>{512, 512});
  CHECK(settings.min_bytes[*find_algorithm("AES-256-CBC")] == std::array<std::size_t, 2>{1024, never});
}

}  // namespace
