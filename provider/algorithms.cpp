// SPDX-License-Identifier: Apache-2.0
#include "provider/algorithms.h"

#include <strings.h>

namespace sunxi {
namespace {

bool same_name(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

bool share_a_name(std::string_view names, std::string_view others) noexcept {
  bool found = false;
  for_each_name(names, [&](std::string_view name) {
    for_each_name(others, [&](std::string_view other) { found = found || same_name(name, other); });
  });
  return found;
}

std::optional<std::size_t> find_algorithm(std::string_view name) noexcept {
  if (name.empty() || name.find(':') != std::string_view::npos) return std::nullopt;
  for (std::size_t algorithm = 0; algorithm < algorithm_count; ++algorithm) {
    if (share_a_name(names_of(algorithm), name)) return algorithm;
  }
  return std::nullopt;
}

}  // namespace sunxi
