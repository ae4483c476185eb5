// SPDX-License-Identifier: Apache-2.0
// Chooses a backend for every request, keeps their health, and counts what each one did.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/process.h"
#include "provider/algorithms.h"
#include "provider/settings.h"

namespace sunxi {

inline constexpr std::size_t max_backends = 3;

// Index of a backend in the configured order, or one of these.
using BackendIndex = std::uint8_t;
inline constexpr BackendIndex software_index = 0xfe;
inline constexpr BackendIndex no_index = 0xff;

using KeySlots = std::array<KeySlot, max_backends>;

// What one request is, apart from its data.
struct Route {
  std::size_t row;
  Direction direction;
  std::size_t own_min_bytes;  // the context's own limit ...
  bool has_own_min_bytes;     // ... which beats the configured ones
};

struct Routed {
  std::size_t done;      // bytes finished by backends; the rest is for software
  std::size_t most;      // bytes of them by ...
  BackendIndex busiest;  // ... the backend that did most; no_index if none
};

class Router {
 public:
  // `process` outlives the router.
  Router(Process& process, const Settings& settings);

  // Requests shorter than this need not ask: the smallest threshold of the backends that may serve.
  // SIZE_MAX where none ever can; raised where all of them rest.
  [[nodiscard]] std::size_t limit(const Route& route) const noexcept {
    if (route.has_own_min_bytes) [[unlikely]]
      return own_limit(route);
    return limits_[route.row][static_cast<std::size_t>(route.direction)].load(std::memory_order_relaxed);
  }

  // `length` is the length of the whole request as the application made it; `request.length` the whole
  // blocks of it that are left. request.iv continues after Routed::done.
  [[nodiscard]] Routed crypt(const Route& route, std::size_t length, CipherRequest request,
                             KeySlots& slots) noexcept;
  void release(KeySlots& slots) noexcept;

  // Software counts in each context and is added when the context goes. Also the moment at which
  // resting backends are looked at again, now and then.
  void add_software(std::uint64_t requests, std::uint64_t bytes) noexcept;

  [[nodiscard]] std::string_view name(BackendIndex backend) const noexcept;
  [[nodiscard]] std::size_t backend_count() const noexcept { return backends_.size(); }

  struct Counts {
    std::uint64_t requests, bytes, failures, declines;
  };
  // By name as in the configuration, or "software". Zeros for a backend that is not there.
  [[nodiscard]] Counts counts(std::string_view backend) const noexcept;

 private:
  struct Counters {
    std::atomic<std::uint64_t> requests{0}, bytes{0}, failures{0}, declines{0};
  };
  // Of one algorithm on one backend.
  struct Health {
    std::atomic<std::uint64_t> resting_until{0};  // Process::now(); 0 = ready
    std::atomic<std::uint32_t> faults{0};         // in a row
    std::atomic<std::uint64_t> announced{0};      // the generation that logged "ALGORITHM on backend"
    std::atomic<bool> never{false};
  };

  [[nodiscard]] std::size_t own_limit(const Route& route) const noexcept;
  [[nodiscard]] std::size_t raise_if_resting(std::size_t row, std::size_t threshold) const noexcept;
  void refresh(std::size_t row) noexcept;
  void rest(std::size_t row, std::size_t backend, Outcome outcome) noexcept;
  void announce(std::size_t row, std::size_t backend) noexcept;

  Process& process_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::array<std::array<std::size_t, 2>, cipher_count> thresholds_;
  std::array<std::array<std::atomic<std::size_t>, 2>, cipher_count> limits_;
  std::array<std::array<Health, max_backends>, cipher_count> health_;
  std::array<Counters, max_backends> counters_;
  Counters software_;
};

}  // namespace sunxi
