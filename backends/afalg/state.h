// SPDX-License-Identifier: Apache-2.0
// All that the backend has in one process: the tables of sessions, the pools of hash sockets, the drivers
// that were found.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "backends/afalg/algorithms.h"
#include "backends/afalg/hash_session.h"
#include "backends/afalg/session.h"
#include "backends/kernel/session_tables.h"

namespace sunxi::afalg {

// Why the backend is not used; each is told once per process and algorithm, or once per process where it
// meets all algorithms alike.
enum class Reason : std::uint8_t {
  list,
  no_driver,
  whole_messages_only,
  seccomp,
  socket,
  bind,
  set_key,
  accept,
  shortage,
  weak_key,
  clone,
};

[[nodiscard]] inline bool is_of_all(Reason reason) noexcept {
  return reason == Reason::socket || reason == Reason::seccomp;
}

using Tables = kernel::SessionTables<Session, HashSession, cipher_rows.size(), digest_rows.size()>;

// Destructible however a fork freezes it (see PerProcess).
class State : public Tables {
 public:
  explicit State(State* inherited);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  [[nodiscard]] HashSession* add(kernel::MessageStart start, std::size_t algorithm) noexcept {
    return Tables::add(start, algorithm, digest_bytes(algorithm));
  }

  [[nodiscard]] bool first(std::size_t algorithm, Reason reason) noexcept {
    return told_.first(is_of_all(reason) ? 0 : algorithm, reason);
  }

  struct Choice {
    std::mutex mutex;  // held for copies of a few bytes only
    std::atomic<bool> known{false};
    bool searching = false;
    std::uint64_t not_before = 0;  // Process::now()
    Driver driver;
    std::atomic<bool> served{false};
    std::atomic<bool> whole_blocks_only{false};  // the driver knows no ciphertext stealing
  };
  [[nodiscard]] Choice& choice(std::size_t algorithm) noexcept { return choices_[algorithm]; }

 private:
  void close_all() noexcept {
    Tables::close_all([](auto&) {});
  }

  std::array<Choice, algorithm_count> choices_;
  kernel::Told<Reason, algorithm_count> told_;
};

}  // namespace sunxi::afalg
