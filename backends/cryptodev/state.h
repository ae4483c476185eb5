// SPDX-License-Identifier: Apache-2.0
// All that the backend has in one process: open files, the tables of sessions, the pools of hash sessions,
// what was found out about drivers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "backends/cryptodev/algorithms.h"
#include "backends/cryptodev/device.h"
#include "backends/cryptodev/hash_session.h"
#include "backends/cryptodev/session.h"
#include "backends/kernel/session_tables.h"
#include "backends/process.h"

namespace sunxi::cryptodev {

// Why the backend is not used; each is told once per process and algorithm, or once per process where it
// meets all algorithms alike.
enum class Reason : std::uint8_t {
  seccomp,
  open,
  not_cryptodev,
  session,
  shortage,
  software,
  whole_messages_only,
  weak_key,
  clone,
};

[[nodiscard]] inline bool is_of_all(Reason reason) noexcept {
  return reason == Reason::seccomp || reason == Reason::open || reason == Reason::not_cryptodev;
}

using Tables = kernel::SessionTables<Session, HashSession, cipher_rows.size(), digest_rows.size()>;

// Destructible however a fork freezes it (see PerProcess).
class State : public Tables {
 public:
  // `generation` is that of the process that it is for.
  State(State* inherited, Process& process, std::uint64_t generation, const char* path);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  [[nodiscard]] Session* attach(const CipherSpec& spec, std::span<const std::uint8_t> key,
                                std::size_t algorithm) noexcept {
    return Tables::attach(spec, key, algorithm, devices_);
  }
  [[nodiscard]] HashSession* add(kernel::MessageStart start, std::size_t algorithm) noexcept {
    return Tables::add(start, algorithm, digest_bytes(algorithm), devices_);
  }

  [[nodiscard]] bool first(std::size_t algorithm, Reason reason) noexcept {
    return told_.first(is_of_all(reason) ? 0 : algorithm, reason);
  }

  struct Choice {
    std::atomic<std::uint64_t> not_before{0};  // Process::now(); the driver is not one to be used, until then
    std::atomic<bool> never{false};            // or not at all
    std::atomic<bool> served{false};
    std::mutex mutex;  // of what follows; held for copies of a few bytes only
    std::array<char, 64> driver{};
  };
  [[nodiscard]] Choice& choice(std::size_t algorithm) noexcept { return choices_[algorithm]; }

 private:
  void close_all() noexcept;

  Process& process_;
  const std::uint64_t generation_;
  Devices devices_;
  std::array<Choice, algorithm_count> choices_;
  kernel::Told<Reason, algorithm_count> told_;
};

}  // namespace sunxi::cryptodev
