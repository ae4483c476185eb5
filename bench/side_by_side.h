// SPDX-License-Identifier: Apache-2.0
// What programs share that measure a backend beside a bare loop: algorithms by name, and rates that other
// load on the machine meets alike, because the sides take turns.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/backend.h"

namespace sunxi::bench {

// Such as AES-128-CBC, AES-256-XTS, DES-EDE3-CBC, DES-EDE-CBC, DES-CBC.
inline std::optional<CipherSpec> cipher_of(std::string_view name) {
  struct Family {
    std::string_view name;
    Cipher cipher;
    std::uint16_t key_bytes;
  };
  struct Suffix {
    std::string_view name;
    Mode mode;
  };
  constexpr std::array families{
      Family{"AES-128", Cipher::aes, 16},  Family{"AES-192", Cipher::aes, 24},
      Family{"AES-256", Cipher::aes, 32},  Family{"DES-EDE3", Cipher::des3, 24},
      Family{"DES-EDE", Cipher::des3, 16}, Family{"DES", Cipher::des, 8},
  };
  constexpr std::array suffixes{Suffix{"ECB", Mode::ecb}, Suffix{"CBC", Mode::cbc}, Suffix{"CTR", Mode::ctr},
                                Suffix{"XTS", Mode::xts}};
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  for (const Family& family : families) {
    for (const Suffix& suffix : suffixes) {
      if (family.name != name.substr(0, dash) || suffix.name != name.substr(dash + 1)) continue;
      const std::uint8_t block_bytes = family.cipher == Cipher::aes ? 16 : 8;
      return CipherSpec{
          .cipher = family.cipher,
          .mode = suffix.mode,
          .key_bytes = static_cast<std::uint16_t>(family.key_bytes * (suffix.mode == Mode::xts ? 2 : 1)),
          .block_bytes = block_bytes,
          .iv_bytes = suffix.mode == Mode::ecb ? std::uint8_t{0} : block_bytes};
    }
  }
  return std::nullopt;
}

// MD5, SHA1, SHA2-224, SHA2-256, SHA2-384, SHA2-512.
inline std::optional<DigestSpec> digest_of(std::string_view name) {
  struct Known {
    std::string_view name;
    DigestSpec spec;
  };
  constexpr std::array digests{
      Known{"MD5", {Digest::md5, 64, 16}},          Known{"SHA1", {Digest::sha1, 64, 20}},
      Known{"SHA2-224", {Digest::sha224, 64, 28}},  Known{"SHA2-256", {Digest::sha256, 64, 32}},
      Known{"SHA2-384", {Digest::sha384, 128, 48}}, Known{"SHA2-512", {Digest::sha512, 128, 64}},
  };
  for (const Known& known : digests) {
    if (known.name == name) return known.spec;
  }
  return std::nullopt;
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A number from the command line, from 1 to 100,000.
inline int number_or(const char* text, int otherwise) {
  return text == nullptr ? otherwise
                         : static_cast<int>(std::clamp(std::strtol(text, nullptr, 10), 1L, 100000L));
}

// Calls a second.
template <class Request>
double rate(std::chrono::steady_clock::duration time, std::size_t batch, Request&& request) {
  using Clock = std::chrono::steady_clock;
  std::size_t count = 0;
  const Clock::time_point start = Clock::now();
  Clock::duration passed{};
  do {
    for (std::size_t i = 0; i < batch; ++i) request();
    count += batch;
    passed = Clock::now() - start;
  } while (passed < time);
  return static_cast<double>(count) / std::chrono::duration<double>(passed).count();
}

struct Timing {
  int rounds;
  std::chrono::microseconds round;  // for each side
};

// Medians of rounds of 25 turns, whose median counts.
struct Comparison {
  double bare;
  double backend;
  double ratio;  // the median of the rounds' own
};

template <class Bare, class Serve>
Comparison compare(const Timing& timing, std::size_t batch, Bare&& bare, Serve&& serve) {
  constexpr int turns = 25;
  std::array<std::vector<double>, 2> rates;
  std::vector<double> ratios;
  for (int round = 0; round < timing.rounds; ++round) {
    std::array<std::vector<double>, 2> turn_rates;
    for (int turn = 0; turn < turns; ++turn) {
      turn_rates[0].push_back(rate(timing.round / turns, batch, bare));
      turn_rates[1].push_back(rate(timing.round / turns, batch, serve));
    }
    for (std::size_t side = 0; side < rates.size(); ++side) rates[side].push_back(median(turn_rates[side]));
    ratios.push_back(rates[1].back() / rates[0].back());
  }
  return {.bare = median(rates[0]), .backend = median(rates[1]), .ratio = median(ratios)};
}

}  // namespace sunxi::bench
