// SPDX-License-Identifier: Apache-2.0
#include "backends/entropy/collector.h"

#include <algorithm>
#include <cstring>

namespace sunxi::entropy {
namespace {

// A healthy stretch after which the pause of the next failure is short again.
constexpr std::uint64_t recovered_bytes = 65536;

}  // namespace

std::vector<std::unique_ptr<Source>> make_sources(Process& process, const Options& options) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(make_hwrng(process, options.backend.under_seccomp));
  switch (options.extra.kind) {
    case Extra::Kind::sun4i_prng:
      sources.push_back(make_sun4i_prng(process, options.backend));
      break;
    case Extra::Kind::afalg:
      sources.push_back(make_afalg_rng(process, options.backend.under_seccomp, options.extra.name));
      break;
    case Extra::Kind::none:
      break;
  }
  return sources;
}

void Monitored::rest() noexcept {
  rests_until_ = process_.now() + next_rest_;
  next_rest_ = std::min(next_rest_ * 2, longest_rest);
}

void Monitored::drop(Alarm alarm) noexcept {
  if (!alarm_reported_) {
    process_.log(LogLevel::error, "%s fails the %s test: it is not used, and tried again later", name(),
                 alarm_name(alarm));
  }
  alarm_reported_ = true;
  if (good_ >= recovered_bytes) next_rest_ = first_rest;
  health_ = Health();
  untested_ = startup_bytes;
  good_ = 0;
  rest();
}

void Monitored::miss(const ReadResult& result) noexcept {
  if (!miss_reported_) {
    const LogLevel level = result.read == Read::failed ? LogLevel::error : LogLevel::info;
    if (result.error == 0) {
      process_.log(level, "%s is not used: %s", name(), result.problem);
    } else {
      process_.log(level, "%s is not used: %s (errno %d)", name(), result.problem, result.error);
    }
  }
  miss_reported_ = true;
  rest();
}

std::size_t Monitored::gather(std::span<std::uint8_t> out, std::uint64_t deadline) noexcept {
  if (rests_until_ != 0 && process_.now() < rests_until_) return 0;
  std::array<std::uint8_t, startup_bytes + bytes_per_source> samples;
  std::size_t have = 0;  // tested and usable
  const std::size_t wanted = std::min(out.size(), bytes_per_source);
  while (have < wanted) {
    const std::span<std::uint8_t> room(samples.data(), untested_ + wanted - have);
    const ReadResult result = source_->read(room, deadline);
    if (result.read != Read::done) {
      miss(result);
      have = 0;
      break;
    }
    const auto got = room.first(std::min(result.bytes, room.size()));
    if (const Alarm alarm = health_.accept(got); alarm != Alarm::none) {
      drop(alarm);
      have = 0;
      break;
    }
    good_ += got.size();
    const std::size_t discarded = std::min(untested_, got.size());
    untested_ -= discarded;
    std::memcpy(out.data() + have, got.data() + discarded, got.size() - discarded);
    have += got.size() - discarded;
    if (have < wanted && fine_clock() >= deadline) {
      // Slow: what it gave so far has been counted. A source that gave nothing at all is left alone a while.
      if (got.empty()) rest();
      have = 0;
      break;
    }
  }
  wipe(samples.data(), sizeof samples);
  if (have == 0) {
    wipe(out.data(), out.size());
  } else if (!welcomed_) {
    process_.log(LogLevel::info, "%s has passed its start-up test and is mixed into random seeds", name());
    welcomed_ = true;
  }
  return have;
}

Collector::Collector(Collector* inherited, Process& process, std::vector<std::unique_ptr<Source>> sources) {
  if (inherited != nullptr) {
    for (Monitored& source : inherited->sources_) source.let_go();
  }
  sources_.reserve(sources.size());
  for (std::unique_ptr<Source>& source : sources) {
    if (source) sources_.emplace_back(std::move(source), process);
  }
}

void Collector::gather(Gathered& gathered) noexcept {
  gathered.size = 0;
  gathered.names.fill(nullptr);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  std::size_t named = 0;
  for (Monitored& source : sources_) {
    if (named == most_sources) break;
    const std::span<std::uint8_t> room(gathered.bytes.data() + gathered.size, bytes_per_source);
    const std::size_t got = source.gather(room, fine_clock() + patience);
    gathered.size += got;
    if (got != 0) gathered.names[named++] = source.name();
  }
}

}  // namespace sunxi::entropy
