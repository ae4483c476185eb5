// SPDX-License-Identifier: Apache-2.0
// All sources of one process beside getrandom: tests them, drops what fails, tries again later, and gathers
// raw bytes. What is gathered is credited with no entropy: it is only ever mixed in.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/entropy/health.h"
#include "backends/entropy/source.h"
#include "backends/process.h"

namespace sunxi::entropy {

inline constexpr std::size_t bytes_per_source = 64;
inline constexpr std::size_t most_sources = 2;
// How long one gathering waits for each source.
inline constexpr std::uint64_t patience = 20'000'000;
// A source that was dropped, is not there, or gave less than was wanted in its time, rests: the first time
// this long, then twice as long each time.
inline constexpr std::uint64_t first_rest = 10'000'000'000;
inline constexpr std::uint64_t longest_rest = 3'600'000'000'000;

// One source under its health tests.
class Monitored {
 public:
  // `inherited`: the same source in the process that this one is the child of, or null.
  Monitored(std::unique_ptr<Source> source, Process& process, const Monitored* inherited) noexcept;

  // Tested bytes into `out`, all of it or nothing; the number.
  [[nodiscard]] std::size_t gather(std::span<std::uint8_t> out, std::uint64_t deadline) noexcept;
  [[nodiscard]] const char* name() const noexcept { return source_->name(); }
  void let_go() noexcept { source_->let_go(); }

 private:
  void rest(std::uint64_t& next) noexcept;
  void drop(Alarm alarm) noexcept;
  void miss(const ReadResult& result) noexcept;

  std::unique_ptr<Source> source_;
  Process& process_;
  Health health_;
  std::size_t untested_ = startup_bytes;  // samples until the start-up test is passed
  std::uint64_t good_ = 0;                // bytes since the last alarm
  std::uint64_t rests_until_ = 0;         // Process::now()
  std::uint64_t rest_ = 0;  // the one that it has, or had after the last try; 0: the last try was good
  std::uint64_t after_miss_ = first_rest;  // the next one, by what it is for
  std::uint64_t after_alarm_ = first_rest;
  bool alarm_reported_ = false;
  bool miss_reported_ = false;
  bool welcomed_ = false;
};

// Destructible in any state that a fork can freeze it in (see PerProcess): its mutex needs no destruction.
class Collector {
 public:
  // Throws std::bad_alloc. `process` outlives the collector.
  Collector(Collector* inherited, Process& process, std::vector<std::unique_ptr<Source>> sources);

  struct Gathered {
    std::array<std::uint8_t, bytes_per_source * most_sources> bytes;  // the caller wipes it
    std::size_t size;
    std::array<const char*, most_sources> names;  // of the sources that are in it, then nulls
  };
  // Never fails, and never waits much longer than `patience`, for other threads neither: while one of them is
  // at it, nothing is gathered.
  void gather(Gathered& gathered) noexcept;

 private:
  std::mutex mutex_;
  std::vector<Monitored> sources_;
};

}  // namespace sunxi::entropy
