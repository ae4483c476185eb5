// SPDX-License-Identifier: Apache-2.0
#include "provider/router.h"

#include <algorithm>
#include <type_traits>

namespace sunxi {
namespace {

constexpr std::uint64_t millisecond = 1'000'000;
// Absent backends are looked for again once a minute; faulty ones rest from 100 ms up to a minute.
constexpr std::uint64_t absent_rest = 60'000 * millisecond;
constexpr std::uint64_t first_rest = 100 * millisecond;
// While all backends rest only requests that dwarf the cost of looking at the clock ask for them.
constexpr std::size_t resting_limit = 16384;
// Unless somebody says otherwise: a session costs some system calls, and most messages are short.
constexpr std::size_t message_floor = 16384;

}  // namespace

Router::Router(Process& process, const Settings& settings)
    : process_(process), thresholds_(settings.min_bytes) {
  for (const std::string& name : settings.backends) {
    auto backend = make_backend(name, process, settings.backend_options);
    if (backend == nullptr) {
      process.log(settings.backends_is_set ? LogLevel::info : LogLevel::debug,
                  "%s is not used: this version has no such backend", name.c_str());
    } else if (backends_.size() < max_backends) {
      backends_.push_back(std::move(backend));
    }
  }
  for (std::size_t algorithm = 0; algorithm < algorithm_count; ++algorithm) {
    for (std::size_t i = 0; i < backends_.size(); ++i) {
      if (!is_digest(algorithm)) {
        health_[algorithm][i].never = !backends_[i]->supports(cipher_rows[algorithm].spec);
        continue;
      }
      const std::size_t row = algorithm - cipher_count;
      const Backend::DigestWay way = backends_[i]->digest_way(digest_rows[row].spec);
      health_[algorithm][i].never = way == Backend::DigestWay::none;
      if (way == Backend::DigestWay::messages) {
        hashes_messages_[row] = true;
        if (!settings.min_bytes_is_set[algorithm]) floors_[algorithm][i] = message_floor;
      }
    }
    refresh(algorithm);
  }
  if (process.logs(LogLevel::debug)) log_capabilities();
}

// A line for each backend: what it has by its capability data, whether or not it can be reached.
void Router::log_capabilities() const {
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    std::string names;
    for (std::size_t algorithm = 0; algorithm < algorithm_count; ++algorithm) {
      if (health_[algorithm][i].never.load(std::memory_order_relaxed)) continue;
      names.append(" ").append(canonical_name(algorithm));
    }
    const std::string_view name = backends_[i]->name();
    process_.log(LogLevel::debug, "%.*s has%s", static_cast<int>(name.size()), name.data(),
                 names.empty() ? " nothing" : names.c_str());
  }
}

// Requests that are shorter need not ask anybody.
std::size_t Router::limit_of(const Route& route) const noexcept {
  std::size_t least = never;
  std::size_t least_of_resting = never;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    const Health& health = health_[route.row][i];
    if (health.never.load(std::memory_order_relaxed)) continue;
    std::size_t& one = health.resting_until.load(std::memory_order_relaxed) == 0 ? least : least_of_resting;
    one = std::min(one, threshold(route, i));
  }
  if (least != never || least_of_resting == never) return least;
  return std::max(least_of_resting, resting_limit);
}

void Router::refresh(std::size_t algorithm) noexcept {
  for (const Direction direction : {Direction::encrypt, Direction::decrypt})
    limits_[algorithm][static_cast<std::size_t>(direction)].store(limit_of({algorithm, direction, 0, false}),
                                                                  std::memory_order_relaxed);
}

bool Router::asks(const Route& route, std::size_t length, std::size_t backend) const noexcept {
  const Health& health = health_[route.row][backend];
  if (health.never.load(std::memory_order_relaxed) || length < threshold(route, backend)) return false;
  const std::uint64_t until = health.resting_until.load(std::memory_order_relaxed);
  return until == 0 || process_.now() >= until;
}

bool Router::ready(const Route& route, std::size_t length) const noexcept {
  std::uint64_t earliest = UINT64_MAX;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    const Health& health = health_[route.row][i];
    if (health.never.load(std::memory_order_relaxed) || length < threshold(route, i)) continue;
    earliest = std::min(earliest, health.resting_until.load(std::memory_order_relaxed));
  }
  return earliest == 0 || (earliest != UINT64_MAX && process_.now() >= earliest);
}

void Router::count(std::size_t backend, std::size_t bytes) noexcept {
  counters_[backend].requests.fetch_add(1, std::memory_order_relaxed);
  counters_[backend].bytes.fetch_add(bytes, std::memory_order_relaxed);
}

void Router::note_served(std::size_t algorithm, std::size_t backend) noexcept {
  Health& health = health_[algorithm][backend];
  if (health.resting_until.load(std::memory_order_relaxed) != 0 ||
      health.faults.load(std::memory_order_relaxed) != 0) {
    health.faults.store(0, std::memory_order_relaxed);
    health.resting_until.store(0, std::memory_order_relaxed);
    refresh(algorithm);
  }
  announce(algorithm, backend);
}

void Router::note_refused(std::size_t algorithm, std::size_t backend, Outcome outcome) noexcept {
  Counters& counters = counters_[backend];
  (outcome == Outcome::failed ? counters.failures : counters.declines)
      .fetch_add(1, std::memory_order_relaxed);
  rest(algorithm, backend, outcome);
}

// One backend after the other, each from where the one before stopped.
template <class Request, class Call>
Routed Router::serve(const Route& route, std::size_t length, Request request, Call&& call) noexcept {
  const CancelGuard no_cancel;
  Routed routed{.done = 0, .most = 0, .busiest = no_index};
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (!asks(route, length, i)) continue;
    if constexpr (std::is_same_v<Request, AbsorbRequest>) {
      if (backends_[i]->digest_way(request.spec) != Backend::DigestWay::absorb) continue;
    }
    const Result result = call(i, request);
    if (result.done != 0) {
      count(i, result.done);
      if (result.done > routed.most) {
        routed.most = result.done;
        routed.busiest = static_cast<BackendIndex>(i);
      }
      routed.done += result.done;
      request.in += result.done;
      if constexpr (requires { request.out; }) request.out += result.done;
      request.length -= result.done;
    }
    if (result.outcome == Outcome::served) {
      note_served(route.row, i);
      return routed;
    }
    note_refused(route.row, i, result.outcome);
  }
  return routed;
}

Routed Router::crypt(const Route& route, std::size_t length, CipherRequest request,
                     KeySlots& slots) noexcept {
  return serve(route, length, request,
               [&](std::size_t i, const CipherRequest& rest) { return backends_[i]->crypt(slots[i], rest); });
}

Routed Router::absorb(std::size_t row, std::size_t length, AbsorbRequest request) noexcept {
  return serve(digest_route(row), length, request,
               [&](std::size_t i, const AbsorbRequest& rest) { return backends_[i]->absorb(rest); });
}

bool Router::begin(std::size_t row, DigestSession& session, const std::uint8_t* in,
                   std::size_t length) noexcept {
  const CancelGuard no_cancel;
  const Route route = digest_route(row);
  const DigestSpec& spec = digest_rows[row].spec;
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (!asks(route, length, i) || backends_[i]->digest_way(spec) != Backend::DigestWay::messages) continue;
    const Outcome outcome = backends_[i]->extend(session.slot, spec, in, length);
    if (outcome == Outcome::served) {
      session.backend = static_cast<BackendIndex>(i);
      count(i, length);
      announce(route.row, i);  // whether it is well shows at the end
      return true;
    }
    note_refused(route.row, i, outcome);
  }
  return false;
}

bool Router::extend(std::size_t row, DigestSession& session, const std::uint8_t* in,
                    std::size_t length) noexcept {
  const CancelGuard no_cancel;
  const std::size_t i = session.backend;
  const Outcome outcome = backends_[i]->extend(session.slot, digest_rows[row].spec, in, length);
  if (outcome == Outcome::served) {
    count(i, length);
    return true;
  }
  session = {};
  note_refused(algorithm_of_digest(row), i, outcome);
  return false;
}

bool Router::conclude(std::size_t row, DigestSession& session, std::uint8_t* out) noexcept {
  const CancelGuard no_cancel;
  const std::size_t i = session.backend;
  const Outcome outcome = backends_[i]->conclude(session.slot, digest_rows[row].spec, out);
  session = {};
  if (outcome == Outcome::served) {
    note_served(algorithm_of_digest(row), i);
    return true;
  }
  note_refused(algorithm_of_digest(row), i, outcome);
  return false;
}

void Router::abandon(DigestSession& session) noexcept {
  if (session.backend == no_index) return;
  const CancelGuard no_cancel;
  backends_[session.backend]->abandon(session.slot);
  session = {};
}

bool Router::clone(const DigestSession& session, DigestSession& copy) noexcept {
  const CancelGuard no_cancel;
  if (backends_[session.backend]->clone(session.slot, copy.slot) != Outcome::served) return false;
  copy.backend = session.backend;
  return true;
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
      const std::string_view algorithm = canonical_name(row);
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
  if (is_digest(row)) {
    backends_[backend]->digest_driver(digest_rows[row - cipher_count].spec, driver);
  } else {
    backends_[backend]->driver(cipher_rows[row].spec, driver);
  }
  const std::string_view algorithm = canonical_name(row);
  const std::string_view name = backends_[backend]->name();
  process_.log(LogLevel::info, "%.*s on %.*s (%s)", static_cast<int>(algorithm.size()), algorithm.data(),
               static_cast<int>(name.size()), name.data(), driver.data());
}

void Router::release(KeySlots& slots) noexcept {
  for (std::size_t i = 0; i < backends_.size(); ++i) {
    if (slots[i].session == nullptr) continue;
    const CancelGuard no_cancel;
    backends_[i]->release(slots[i]);
  }
}

void Router::add_much_software(std::uint64_t requests, std::uint64_t bytes) noexcept {
  const std::uint64_t recent = recent_.exchange(0, std::memory_order_relaxed);
  software_.requests.fetch_add(requests + (recent & recent_requests), std::memory_order_relaxed);
  software_.bytes.fetch_add(bytes + (recent >> recent_shift), std::memory_order_relaxed);
  for (std::size_t row = 0; row < algorithm_count; ++row) {
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
