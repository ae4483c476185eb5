// SPDX-License-Identifier: Apache-2.0
#include "provider/router.h"

#include <algorithm>

namespace sunxi {
namespace {

constexpr std::uint64_t millisecond = 1'000'000;
// Absent backends are looked for again once a minute; faulty ones rest from 100 ms up to a minute.
constexpr std::uint64_t absent_rest = 60'000 * millisecond;
constexpr std::uint64_t first_rest = 100 * millisecond;
// While all backends rest only requests that dwarf the cost of looking at the clock ask for them.
constexpr std::size_t resting_limit = 16384;

}  // namespace

Router::Router(Process& process, const Settings& settings)
    : process_(process), thresholds_(settings.min_bytes) {
  for (const std::string& name : settings.backends) {
    auto backend = make_backend(name, process, settings.backend_options);
    if (backend == nullptr) {
      process.log(LogLevel::info, "%s is not used: this version has no such backend", name.c_str());
    } else if (backends_.size() < max_backends) {
      backends_.push_back(std::move(backend));
    }
  }
  for (std::size_t row = 0; row < cipher_count; ++row) {
    for (std::size_t i = 0; i < backends_.size(); ++i)
      health_[row][i].never = !backends_[i]->supports(cipher_rows[row].spec);
    refresh(row);
  }
}

std::size_t Router::raise_if_resting(std::size_t row, std::size_t threshold) const noexcept {
  bool possible = false;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (health_[row][i].never.load(std::memory_order_relaxed)) continue;
    if (health_[row][i].resting_until.load(std::memory_order_relaxed) == 0) return threshold;
    possible = true;
  }
  return possible ? std::max(threshold, resting_limit) : never;
}

std::size_t Router::own_limit(const Route& route) const noexcept {
  return raise_if_resting(route.row, route.own_min_bytes);
}

void Router::refresh(std::size_t row) noexcept {
  for (std::size_t direction = 0; direction < 2; ++direction)
    limits_[row][direction].store(raise_if_resting(row, thresholds_[row][direction]),
                                  std::memory_order_relaxed);
}

bool Router::asks(const Health& health) const noexcept {
  if (health.never.load(std::memory_order_relaxed)) return false;
  const std::uint64_t until = health.resting_until.load(std::memory_order_relaxed);
  return until == 0 || process_.now() >= until;
}

bool Router::ready(const Route& route, std::size_t length) const noexcept {
  if (length < threshold(route)) return false;
  std::uint64_t earliest = UINT64_MAX;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    const Health& health = health_[route.row][i];
    if (health.never.load(std::memory_order_relaxed)) continue;
    earliest = std::min(earliest, health.resting_until.load(std::memory_order_relaxed));
  }
  return earliest == 0 || (earliest != UINT64_MAX && process_.now() >= earliest);
}

Routed Router::crypt(const Route& route, std::size_t length, CipherRequest request,
                     KeySlots& slots) noexcept {
  Routed routed{.done = 0, .most = 0, .busiest = no_index};
  if (length < threshold(route)) return routed;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    Health& health = health_[route.row][i];
    if (!asks(health)) continue;
    const Result result = backends_[i]->crypt(slots[i], request);
    Counters& counters = counters_[i];
    if (result.done != 0) {
      counters.requests.fetch_add(1, std::memory_order_relaxed);
      counters.bytes.fetch_add(result.done, std::memory_order_relaxed);
      if (result.done > routed.most) {
        routed.most = result.done;
        routed.busiest = static_cast<BackendIndex>(i);
      }
      routed.done += result.done;
      request.in += result.done;
      request.out += result.done;
      request.length -= result.done;
    }
    if (result.outcome == Outcome::served) {
      if (health.resting_until.load(std::memory_order_relaxed) != 0 ||
          health.faults.load(std::memory_order_relaxed) != 0) {
        health.faults.store(0, std::memory_order_relaxed);
        health.resting_until.store(0, std::memory_order_relaxed);
        refresh(route.row);
      }
      announce(route.row, i);
      return routed;
    }
    (result.outcome == Outcome::failed ? counters.failures : counters.declines)
        .fetch_add(1, std::memory_order_relaxed);
    rest(route.row, i, result.outcome);
  }
  return routed;
}

void Router::rest(std::size_t row, std::size_t backend, Outcome outcome) noexcept {
  Health& health = health_[row][backend];
  switch (outcome) {
    case Outcome::served:
    case Outcome::busy:
      return;
    case Outcome::unsupported:
      health.never.store(true, std::memory_order_relaxed);
      break;
    case Outcome::unavailable:
      health.resting_until.store(process_.now() + absent_rest, std::memory_order_relaxed);
      break;
    case Outcome::failed: {
      const std::uint32_t faults = health.faults.fetch_add(1, std::memory_order_relaxed) + 1;
      const std::string_view algorithm = canonical_name(cipher_rows[row]);
      const std::string_view name = backends_[backend]->name();
      process_.log(LogLevel::error, "%.*s failed on %.*s (fault %u in a row): the request goes on elsewhere",
                   static_cast<int>(name.size()), name.data(), static_cast<int>(algorithm.size()),
                   algorithm.data(), faults);
      if (faults == 1) return;  // a single fault may be anything
      const std::uint64_t pause = std::min(first_rest << std::min(faults - 2, 16U), absent_rest);
      health.resting_until.store(process_.now() + pause, std::memory_order_relaxed);
      break;
    }
  }
  refresh(row);
}

void Router::announce(std::size_t row, std::size_t backend) noexcept {
  if (!process_.logs(LogLevel::info)) return;
  Health& health = health_[row][backend];
  const std::uint64_t generation = process_.generation();
  if (health.announced.load(std::memory_order_relaxed) == generation ||
      health.announced.exchange(generation, std::memory_order_relaxed) == generation)
    return;
  std::array<char, 64> driver{};
  backends_[backend]->driver(cipher_rows[row].spec, driver);
  const std::string_view algorithm = canonical_name(cipher_rows[row]);
  const std::string_view name = backends_[backend]->name();
  process_.log(LogLevel::info, "%.*s on %.*s (%s)", static_cast<int>(algorithm.size()), algorithm.data(),
               static_cast<int>(name.size()), name.data(), driver.data());
}

void Router::release(KeySlots& slots) noexcept {
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (slots[i].session != nullptr) backends_[i]->release(slots[i]);
  }
}

void Router::add_much_software(std::uint64_t requests, std::uint64_t bytes) noexcept {
  const std::uint64_t recent = recent_.exchange(0, std::memory_order_relaxed);
  software_.requests.fetch_add(requests + (recent & recent_requests), std::memory_order_relaxed);
  software_.bytes.fetch_add(bytes + (recent >> recent_shift), std::memory_order_relaxed);
  for (std::size_t row = 0; row < cipher_count; ++row) {
    bool woken = false;
    for (std::size_t i = 0; i < backends_.size(); ++i) {
      std::uint64_t until = health_[row][i].resting_until.load(std::memory_order_relaxed);
      if (until != 0 && process_.now() >= until)
        woken = health_[row][i].resting_until.compare_exchange_strong(until, 0, std::memory_order_relaxed) ||
                woken;
    }
    if (woken) refresh(row);
  }
}

std::string_view Router::name(BackendIndex backend) const noexcept {
  if (backend == software_index) return "software";
  return backend < backends_.size() ? backends_[backend]->name() : "none";
}

Router::Counts Router::counts(std::string_view backend) const noexcept {
  const auto read = [](const Counters& counters) {
    return Counts{
        counters.requests.load(std::memory_order_relaxed), counters.bytes.load(std::memory_order_relaxed),
        counters.failures.load(std::memory_order_relaxed), counters.declines.load(std::memory_order_relaxed)};
  };
  if (backend == "software") {
    const std::uint64_t recent = recent_.load(std::memory_order_relaxed);
    Counts counts = read(software_);
    counts.requests += recent & recent_requests;
    counts.bytes += recent >> recent_shift;
    return counts;
  }
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (backends_[i]->name() == backend) return read(counters_[i]);
  }
  return {};
}

}  // namespace sunxi
