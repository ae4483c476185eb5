// SPDX-License-Identifier: Apache-2.0
// Health tests of an entropy source, on its raw samples: the two continuous tests of NIST SP 800-90B 4.4, on
// bytes and on single bits, and a test of our own for small biases. Pure: no clock, no device, no memory but
// their own counters. docs/randomness.md derives the cut-offs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sunxi::entropy {

// False alarms: at most one in 2^40 samples (repetition) or windows (proportion, balance) of a source that
// has the min-entropy that is assumed: 8 bits a byte, 1 bit a bit.
inline constexpr unsigned alarm_exponent = 40;

// SP 800-90B 4.4.1. `Cutoff` equal samples in a row: 1 + ceil(40 / H).
template <unsigned Cutoff>
class RepetitionCount {
 public:
  // False: alarm.
  [[nodiscard]] bool accept(std::uint8_t sample) noexcept {
    if (count_ != 0 && sample == last_) return ++count_ < Cutoff;
    last_ = sample;
    count_ = 1;
    return true;
  }

 private:
  unsigned count_ = 0;
  std::uint8_t last_ = 0;
};

// SP 800-90B 4.4.2. The first sample of a window `Cutoff` times in it: 1 + critbinom(Window, 2^-H, 1 -
// 2^-40).
template <unsigned Window, unsigned Cutoff>
class AdaptiveProportion {
 public:
  [[nodiscard]] bool accept(std::uint8_t sample) noexcept {
    if (seen_ == 0) {
      first_ = sample;
      count_ = 0;
    }
    seen_ = seen_ + 1 == Window ? 0 : seen_ + 1;
    if (sample == first_) ++count_;
    return count_ < Cutoff;
  }

 private:
  unsigned seen_ = 0;
  unsigned count_ = 0;
  std::uint8_t first_ = 0;
};

// Ours: ones and zeros of a long window, two-sided. A bias that 1024 bits cannot show for certain (0.6) shows
// in 8192.
template <unsigned WindowBytes, unsigned Cutoff>
class Balance {
 public:
  [[nodiscard]] bool accept(std::uint8_t sample) noexcept {
    ones_ += static_cast<unsigned>(std::popcount(sample));
    if (++seen_ < WindowBytes) return true;
    const unsigned half = WindowBytes * 4;
    const unsigned distance = ones_ > half ? ones_ - half : half - ones_;
    seen_ = 0;
    ones_ = 0;
    return distance < Cutoff;
  }

 private:
  unsigned seen_ = 0;
  unsigned ones_ = 0;
};

inline constexpr unsigned byte_repetition_cutoff = 6;
inline constexpr unsigned bit_repetition_cutoff = 41;
inline constexpr unsigned byte_window = 512;
inline constexpr unsigned byte_proportion_cutoff = 19;
inline constexpr unsigned bit_window = 1024;
inline constexpr unsigned bit_proportion_cutoff = 625;
inline constexpr unsigned balance_window_bytes = 1024;
inline constexpr unsigned balance_cutoff = 324;

// Samples that a source has to pass before its first byte is used; SP 800-90B 4.3 asks for 1024. One window
// of the longest test.
inline constexpr std::size_t startup_bytes = 1024;
static_assert(startup_bytes >= balance_window_bytes);

enum class Alarm : std::uint8_t { none, repetition, proportion, balance };

[[nodiscard]] constexpr const char* alarm_name(Alarm alarm) noexcept {
  switch (alarm) {
    case Alarm::repetition:
      return "repetition count";
    case Alarm::proportion:
      return "adaptive proportion";
    case Alarm::balance:
      return "balance";
    case Alarm::none:
      break;
  }
  return "none";
}

// All tests of one source. After an alarm it has to be made anew.
class Health {
 public:
  [[nodiscard]] Alarm accept(std::uint8_t byte) noexcept {
    if (!byte_repetition_.accept(byte)) return Alarm::repetition;
    if (!byte_proportion_.accept(byte)) return Alarm::proportion;
    for (unsigned bit = 0; bit < 8; ++bit) {
      const auto sample = static_cast<std::uint8_t>(byte >> bit & 1U);
      if (!bit_repetition_.accept(sample)) return Alarm::repetition;
      if (!bit_proportion_.accept(sample)) return Alarm::proportion;
    }
    return balance_.accept(byte) ? Alarm::none : Alarm::balance;
  }
  // The first alarm.
  [[nodiscard]] Alarm accept(std::span<const std::uint8_t> bytes) noexcept {
    for (const std::uint8_t byte : bytes) {
      if (const Alarm alarm = accept(byte); alarm != Alarm::none) return alarm;
    }
    return Alarm::none;
  }

 private:
  RepetitionCount<byte_repetition_cutoff> byte_repetition_;
  AdaptiveProportion<byte_window, byte_proportion_cutoff> byte_proportion_;
  RepetitionCount<bit_repetition_cutoff> bit_repetition_;
  AdaptiveProportion<bit_window, bit_proportion_cutoff> bit_proportion_;
  Balance<balance_window_bytes, balance_cutoff> balance_;
};

}  // namespace sunxi::entropy
