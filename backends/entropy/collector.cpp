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

// The parent's last try is the child's: otherwise each of many short-lived children would wait for a silent
// device once. A thread of the parent may have been writing these numbers.
Monitored::Monitored(std::unique_ptr<Source> source, Process& process, const Monitored* inherited) noexcept
    : source_(std::move(source)), process_(process) {
  if (inherited == nullptr) return;
  alarm_reported_ = inherited->alarm_reported_;
  miss_reported_ = inherited->miss_reported_;
  after_miss_ = std::clamp(inherited->after_miss_, first_rest, longest_rest);
  after_alarm_ = std::clamp(inherited->after_alarm_, first_rest, longest_rest);
  if (inherited->rest_ == 0) return;
  rest_ = std::clamp(inherited->rest_, first_rest, longest_rest);
  rests_until_ = process_.now() + rest_;
}

void Monitored::rest(std::uint64_t& next) noexcept {
  rest_ = next;
  rests_until_ = process_.now() + next;
  next = std::min(next * 2, longest_rest);
}

void Monitored::drop(Alarm alarm) noexcept {
  if (!alarm_reported_) {
    process_.log(LogLevel::error, "%s fails the %s test: it is not used, and tried again later", name(),
                 alarm_name(alarm));
  }
  alarm_reported_ = true;
  if (good_ >= recovered_bytes) after_alarm_ = first_rest;
  health_ = Health();
  untested_ = startup_bytes;
  good_ = 0;
  rest(after_alarm_);
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
  rest(after_miss_);
}

std::size_t Monitored::gather(std::span<std::uint8_t> out, std::uint64_t deadline) noexcept {
  if (rests_until_ != 0 && process_.now() < rests_until_) {
    source_->tidy();
    return 0;
  }
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
      // Slow: what it gave so far has been counted, and next time it goes on from there.
      rest(after_miss_);
      have = 0;
      break;
    }
  }
  wipe(samples.data(), sizeof samples);
  if (have == 0) {
    wipe(out.data(), out.size());
    return 0;
  }
  rest_ = 0;
  after_miss_ = first_rest;
  if (!welcomed_)
    process_.log(LogLevel::info, "%s has passed its start-up test and is mixed into random seeds", name());
  welcomed_ = true;
  return have;
}

Collector::Collector(Collector* inherited, Process& process, std::vector<std::unique_ptr<Source>> sources) {
  if (inherited != nullptr) {
    for (Monitored& source : inherited->sources_) source.let_go();
  }
  sources_.reserve(sources.size());
  for (std::unique_ptr<Source>& source : sources) {
    if (!source) continue;
    const Monitored* same = nullptr;
    if (inherited != nullptr) {
      const auto found =
          std::find_if(inherited->sources_.begin(), inherited->sources_.end(),
                       [&](const Monitored& one) { return std::strcmp(one.name(), source->name()) == 0; });
      if (found != inherited->sources_.end()) same = &*found;
    }
    sources_.emplace_back(std::move(source), process, same);
  }
}

void Collector::gather(Gathered& gathered) noexcept {
  gathered.size = 0;
  gathered.names.fill(nullptr);
  const CancelGuard no_cancel;
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
