// SPDX-License-Identifier: Apache-2.0
// The health tests against sources of known statistics: what docs/randomness.md promises of the cut-offs.
#include "backends/entropy/health.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/support/catch.h"

namespace sunxi::entropy {
namespace {

// SUNXI_TEST_CASES is set by the long campaign.
bool long_campaign() {
  const char* cases = std::getenv("SUNXI_TEST_CASES");
  return cases != nullptr && std::atoi(cases) >= 20'000;
}

double log_choose(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

// P(X >= k), X binomial.
double at_least(unsigned n, double p, unsigned k) {
  double sum = 0;
  for (unsigned i = n + 1; i-- > k;)
    sum += std::exp(log_choose(n, i) + i * std::log(p) + (n - i) * std::log1p(-p));
  return sum;
}

const double alarm_rate = std::exp2(-40);

// The smallest cut-off of SP 800-90B 4.4.2: 1 + the smallest k with P(X > k) <= alpha.
unsigned proportion_cutoff(unsigned window, double p) {
  unsigned k = 0;
  while (at_least(window, p, k + 1) > alarm_rate) ++k;
  return k + 1;
}

// Bytes until the first alarm, at most `limit`; limit + 1 if there is none.
template <class NextByte>
std::size_t bytes_to_alarm(NextByte&& next, std::size_t limit) {
  Health health;
  for (std::size_t i = 1; i <= limit; ++i) {
    if (health.accept(static_cast<std::uint8_t>(next(i))) != Alarm::none) return i;
  }
  return limit + 1;
}

using Random = std::mt19937_64;

// A byte of bits that are 1 with probability p.
std::uint8_t biased_byte(Random& random, double p) {
  unsigned byte = 0;
  for (int bit = 0; bit < 8; ++bit)
    byte = byte << 1U | (static_cast<double>(random() >> 11U) * 0x1p-53 < p ? 1U : 0U);
  return static_cast<std::uint8_t>(byte);
}

TEST_CASE("the cut-offs are those of the binomial distribution at 2^-40") {
  CHECK(alarm_exponent == 40);
  CHECK(byte_repetition_cutoff == 1 + (40 + 7) / 8);
  CHECK(bit_repetition_cutoff == 1 + 40);
  CHECK(byte_proportion_cutoff == proportion_cutoff(byte_window, 1.0 / 256));
  CHECK(bit_proportion_cutoff == proportion_cutoff(bit_window, 0.5));
  // Two-sided: the smallest distance that is exceeded or met so rarely.
  const auto tail = [](unsigned distance) {
    return 2 * at_least(balance_window_bytes * 8, 0.5, balance_window_bytes * 4 + distance);
  };
  CHECK(tail(balance_cutoff) <= alarm_rate);
  CHECK(tail(balance_cutoff - 1) > alarm_rate);
}

TEST_CASE("each test raises its alarm at its cut-off and not before") {
  RepetitionCount<6> repetition;
  for (int i = 0; i < 5; ++i) CHECK(repetition.accept(7));
  CHECK(repetition.accept(8));
  for (int i = 0; i < 4; ++i) CHECK(repetition.accept(8));
  CHECK_FALSE(repetition.accept(8));

  AdaptiveProportion<512, 19> proportion;
  for (unsigned i = 0; i < 512; ++i) CHECK(proportion.accept(i < 18 ? 1 : 2));
  for (unsigned i = 0; i < 512; ++i) CHECK(proportion.accept(i < 18 ? 1 : 2));  // a window counts for itself
  for (unsigned i = 0; i < 18; ++i) CHECK(proportion.accept(3));
  CHECK_FALSE(proportion.accept(3));

  // Window of 4 bytes: 16 ones expected.
  Balance<4, 8> balance;
  for (const int byte : {0xff, 0xfe, 0xff, 0x00}) CHECK(balance.accept(static_cast<std::uint8_t>(byte)));
  for (const int byte : {0xff, 0xff, 0xff}) CHECK(balance.accept(static_cast<std::uint8_t>(byte)));
  CHECK_FALSE(balance.accept(0));
  for (const int byte : {0x01, 0x7f, 0x00}) CHECK(balance.accept(static_cast<std::uint8_t>(byte)));
  CHECK_FALSE(balance.accept(0));
}

TEST_CASE("a stuck source is caught at once") {
  for (unsigned byte = 0; byte < 256; ++byte) {
    CHECK(bytes_to_alarm([&](std::size_t) { return byte; }, 100) <= 6);
  }
  // After a long time of good bytes too.
  Random random(1);
  const std::size_t at = bytes_to_alarm([&](std::size_t i) { return i < 5000 ? random() : 0x5a; }, 6000);
  CHECK(at >= 5005);
  CHECK(at <= 5006);
}

TEST_CASE("a source that repeats any pattern of up to 26 bytes is caught within two windows") {
  Random random(2);
  for (std::size_t period = 1; period <= 26; ++period) {
    std::array<std::uint8_t, 26> pattern{};
    for (auto& byte : pattern) byte = static_cast<std::uint8_t>(random());
    INFO("period " << period);
    CHECK(bytes_to_alarm([&](std::size_t i) { return pattern[i % period]; }, 1024) <= 1024);
  }
  // Alternating bits, bytes, nibbles.
  CHECK(bytes_to_alarm([](std::size_t) { return 0x55; }, 6) <= 6);
  CHECK(bytes_to_alarm([](std::size_t i) { return i % 2 == 0 ? 0xff : 0; }, 512) <= 512);
  CHECK(bytes_to_alarm([](std::size_t i) { return i % 2 == 0 ? 0xf0 : 0x0f; }, 512) <= 512);
}

TEST_CASE("p = 0.6 is caught within one window of the balance test") {
  // That it is not would have a probability below 2^-90.
  Random random(3);
  const int sources = 2000;
  for (int i = 0; i < sources; ++i) {
    const double p = i % 2 == 0 ? 0.6 : 0.4;
    REQUIRE(bytes_to_alarm([&](std::size_t) { return biased_byte(random, p); }, startup_bytes) <=
            startup_bytes);
  }
}

TEST_CASE("SP 800-90B's proportion test alone catches p = 0.6 as often as the binomial distribution says") {
  Random random(4);
  const double expected = 0.6 * at_least(bit_window - 1, 0.6, bit_proportion_cutoff - 1) +
                          0.4 * at_least(bit_window - 1, 0.4, bit_proportion_cutoff - 1);
  const int windows = 20'000;
  int caught = 0;
  for (int i = 0; i < windows; ++i) {
    AdaptiveProportion<bit_window, bit_proportion_cutoff> test;
    bool good = true;
    for (unsigned byte = 0; byte < bit_window / 8; ++byte) {
      const unsigned bits = biased_byte(random, 0.6);
      for (unsigned bit = 0; bit < 8; ++bit)
        good = test.accept(static_cast<std::uint8_t>(bits >> bit & 1U)) && good;
    }
    caught += good ? 0 : 1;
  }
  const double sigma = std::sqrt(windows * expected * (1 - expected));
  CHECK(std::abs(caught - windows * expected) < 5 * sigma);
}

TEST_CASE("a slowly dying source is caught before it is worth little") {
  Random random(5);
  const std::size_t life = 250'000;
  for (int i = 0; i < 20; ++i) {
    // From fair to stuck, linearly: caught with p below 0.57, 1 - 2^-20 of the time even if one window alone
    // had to do it.
    const auto dying = [&](std::size_t byte) {
      return biased_byte(random, 0.5 + 0.5 * static_cast<double>(byte) / life);
    };
    const std::size_t at = bytes_to_alarm(dying, life);
    CHECK(0.5 + 0.5 * static_cast<double>(at) / life < 0.57);
  }
  for (int i = 0; i < 20; ++i) {
    // Balanced, but each bit more and more like the one before: caught while 1 of 12 still is news.
    unsigned last = 0;
    const auto sticking = [&](std::size_t byte) {
      const double stay = 0.5 + 0.5 * static_cast<double>(byte) / life;
      unsigned bits = 0;
      for (int bit = 0; bit < 8; ++bit) {
        if (static_cast<double>(random() >> 11U) * 0x1p-53 >= stay) last ^= 1U;
        bits = bits << 1U | last;
      }
      return bits;
    };
    const std::size_t at = bytes_to_alarm(sticking, life);
    CHECK(0.5 + 0.5 * static_cast<double>(at) / life < 0.92);
  }
  for (int i = 0; i < 20; ++i) {
    // Whole bytes are replaced by the one before, more and more often.
    std::uint8_t last = 0;
    const auto repeating = [&](std::size_t byte) {
      if (static_cast<double>(random() >> 11U) * 0x1p-53 >= static_cast<double>(byte) / life)
        last = static_cast<std::uint8_t>(random());
      return last;
    };
    CHECK(static_cast<double>(bytes_to_alarm(repeating, life)) / life < 0.5);
  }
}

TEST_CASE("a fair source passes") {
  // 10^9 bits in the long campaign.
  const std::size_t bytes = long_campaign() ? 125'000'000 : 6'000'000;
  Random random(6);
  std::uint64_t word = 0;
  const std::size_t at = bytes_to_alarm(
      [&](std::size_t i) {
        if (i % 8 == 1) word = random();
        return word >> (i % 8 * 8);
      },
      bytes);
  CHECK(at == bytes + 1);
}

TEST_CASE("a bias of 1 in 100 is no reason for an alarm") {
  Random random(7);
  CHECK(bytes_to_alarm([&](std::size_t) { return biased_byte(random, 0.505); }, 1'000'000) > 1'000'000);
}

}  // namespace
}  // namespace sunxi::entropy
