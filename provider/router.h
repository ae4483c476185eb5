// SPDX-License-Identifier: Apache-2.0
// Chooses a backend for every request, keeps their health, and counts what each one did.
#pragma once

#include <algorithm>
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

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

namespace sunxi {

// False where the C library does not tell.
inline bool single_threaded() noexcept {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

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

// The session that holds a digest's state while a backend has the message.
struct DigestSession {
  KeySlot slot;
  BackendIndex backend = no_index;
};

class Router {
 public:
  // `process` outlives the router.
  Router(Process& process, const Settings& settings);

  // Requests shorter than this need not ask: the smallest threshold of the backends that may serve.
  // SIZE_MAX where none ever can; raised where all of them rest.
  [[nodiscard]] std::size_t limit(const Route& route) const noexcept {
    if (route.has_own_min_bytes) [[unlikely]]
      return limit_of(route);
    return limits_[route.row][static_cast<std::size_t>(route.direction)].load(std::memory_order_relaxed);
  }

  // Whether some backend would be asked about a request of this length now.
  [[nodiscard]] bool ready(const Route& route, std::size_t length) const noexcept;

  // `length` is the length of the whole request as the application made it; `request.length` the whole
  // blocks of it that are left. request.iv continues after Routed::done.
  [[nodiscard]] Routed crypt(const Route& route, std::size_t length, CipherRequest request,
                             KeySlots& slots) noexcept;
  void release(KeySlots& slots) noexcept;

  // ---- Digests, by row of digest_rows.

  [[nodiscard]] std::size_t digest_limit(std::size_t row) const noexcept {
    return limits_[algorithm_of_digest(row)][0].load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool digest_ready(std::size_t row, std::size_t length) const noexcept {
    return ready(digest_route(row), length);
  }
  // `length` is that of the whole update; request.length the whole blocks of it.
  [[nodiscard]] Routed absorb(std::size_t row, std::size_t length, AbsorbRequest request) noexcept;
  // The start of a message, all of it so far, to a backend that hashes whole messages. False: none took it.
  [[nodiscard]] bool begin(std::size_t row, DigestSession& session, const std::uint8_t* in,
                           std::size_t length) noexcept;
  // False: the session is lost, and session.backend no_index.
  [[nodiscard]] bool extend(std::size_t row, DigestSession& session, const std::uint8_t* in,
                            std::size_t length) noexcept;
  [[nodiscard]] bool conclude(std::size_t row, DigestSession& session, std::uint8_t* out) noexcept;
  void abandon(DigestSession& session) noexcept;
  // False: there is none in `copy`.
  [[nodiscard]] bool clone(const DigestSession& session, DigestSession& copy) noexcept;
  // Whether some backend hashes whole messages with this digest, and so wants their start.
  [[nodiscard]] bool hashes_messages(std::size_t row) const noexcept { return hashes_messages_[row]; }

  // Software counts in each context and is added when the context goes. Also the moment at which
  // resting backends are looked at again, now and then.
  void add_software(std::uint64_t requests, std::uint64_t bytes) noexcept {
    if (requests <= few_requests && bytes <= few_bytes) [[likely]] {
      // Contexts that live for one message: one addition instead of two, and no locked one without need.
      const std::uint64_t both = bytes << recent_shift | requests;
      std::uint64_t before = 0;
      if (single_threaded()) {
        before = recent_.load(std::memory_order_relaxed);
        recent_.store(before + both, std::memory_order_relaxed);
      } else {
        before = recent_.fetch_add(both, std::memory_order_relaxed);
      }
      if ((before & recent_full) == 0) [[likely]]
        return;
      requests = bytes = 0;
    }
    add_much_software(requests, bytes);
  }

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

  // Two counts in one word: requests below, bytes above recent_shift. Emptied long before either is full,
  // by everybody who finds it that far.
  static constexpr unsigned recent_shift = 24;
  static constexpr std::uint64_t few_requests = 1U << 8U, few_bytes = 1U << 22U;
  static constexpr std::uint64_t recent_requests = (1ULL << recent_shift) - 1;
  static constexpr std::uint64_t recent_full = (recent_requests & ~0x3ffULL) | ~0ULL << 56U;
  void add_much_software(std::uint64_t requests, std::uint64_t bytes) noexcept;  // and what is in recent_

  [[nodiscard]] static Route digest_route(std::size_t row) noexcept {
    return {algorithm_of_digest(row), Direction::encrypt, 0, false};
  }
  [[nodiscard]] std::size_t threshold(const Route& route, std::size_t backend) const noexcept {
    return route.has_own_min_bytes
               ? route.own_min_bytes
               : std::max(thresholds_[route.row][static_cast<std::size_t>(route.direction)],
                          floors_[route.row][backend]);
  }
  [[nodiscard]] bool asks(const Route& route, std::size_t length, std::size_t backend) const noexcept;
  void count(std::size_t backend, std::size_t bytes) noexcept;
  void note_served(std::size_t algorithm, std::size_t backend) noexcept;
  void note_refused(std::size_t algorithm, std::size_t backend, Outcome outcome) noexcept;
  template <class Request, class Call>
  [[nodiscard]] Routed serve(const Route& route, std::size_t length, Request request, Call&& call) noexcept;
  [[nodiscard]] std::size_t limit_of(const Route& route) const noexcept;
  void refresh(std::size_t row) noexcept;
  void rest(std::size_t row, std::size_t backend, Outcome outcome) noexcept;
  void announce(std::size_t row, std::size_t backend) noexcept;
  void log_capabilities() const;

  Process& process_;
  std::vector<std::unique_ptr<Backend>> backends_;
  // All by algorithm.
  std::array<std::array<std::size_t, 2>, algorithm_count> thresholds_;
  std::array<std::array<std::size_t, max_backends>, algorithm_count> floors_{};
  std::array<std::array<std::atomic<std::size_t>, 2>, algorithm_count> limits_;
  std::array<std::array<Health, max_backends>, algorithm_count> health_;
  std::array<bool, digest_count> hashes_messages_{};
  std::array<Counters, max_backends> counters_;
  Counters software_;
  std::atomic<std::uint64_t> recent_{0};  // of software's, not yet in software_
};

}  // namespace sunxi
