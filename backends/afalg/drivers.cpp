// SPDX-License-Identifier: Apache-2.0
// The parser of /proc/crypto (format: Linux crypto/proc.c and the show functions of each type).
#include "backends/afalg/drivers.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace sunxi::afalg {
namespace {

std::string_view trim(std::string_view text) noexcept {
  constexpr std::string_view blank = " \t\r";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::string_view next_line(std::string_view& rest) noexcept {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

struct Block {
  std::string_view name;
  std::string_view driver;
  std::string_view priority;
  std::string_view selftest;
  std::string_view internal;
  std::string_view type;
};

// Up to and including the empty line that ends it.
Block next_block(std::string_view& rest) noexcept {
  struct Field {
    std::string_view key;
    std::string_view Block::*value;
  };
  constexpr std::array fields{
      Field{"name", &Block::name},         Field{"driver", &Block::driver},
      Field{"priority", &Block::priority}, Field{"selftest", &Block::selftest},
      Field{"internal", &Block::internal}, Field{"type", &Block::type},
  };
  Block block;
  while (!rest.empty()) {
    const std::string_view line = next_line(rest);
    if (trim(line).empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, colon));
    for (const Field& field : fields) {
      if (field.key == key) block.*field.value = trim(line.substr(colon + 1));
    }
  }
  return block;
}

// The types' names. Ciphers: since 4.10, of their synchronous kind since 6.7, and of both before 4.10. A
// socket of type "hash" takes both kinds of hashes.
bool is_of(DriverType type, std::string_view name) noexcept {
  if (type == DriverType::hash) return name == "ahash" || name == "shash";
  return name == "skcipher" || name == "lskcipher" || name == "ablkcipher" || name == "blkcipher";
}

bool is_among(Among among, DriverType type, std::string_view driver) noexcept {
  if (among == Among::all) return true;
  const DriverTraits traits = driver_traits(driver);
  const bool in_part = type == DriverType::hash && traits.whole_messages_only;
  return traits.hardware && in_part == (among == Among::whole_messages_only);
}

}  // namespace

std::optional<CryptoEntry> best_driver(std::string_view proc_crypto, DriverType type, std::string_view name,
                                       Among among) noexcept {
  std::optional<CryptoEntry> best;
  while (!proc_crypto.empty()) {
    const Block block = next_block(proc_crypto);
    if (block.name != name || block.driver.empty() || block.selftest != "passed" || !is_of(type, block.type))
      continue;
    if (!block.internal.empty() && block.internal != "no") continue;
    int priority = 0;
    const char* end = block.priority.data() + block.priority.size();
    const auto [parsed, error] = std::from_chars(block.priority.data(), end, priority);
    if (error != std::errc{} || parsed != end) continue;
    if (!is_among(among, type, block.driver)) continue;
    if (!best || priority > best->priority)
      best = CryptoEntry{.name = block.name, .driver = block.driver, .priority = priority};
  }
  return best;
}

}  // namespace sunxi::afalg
