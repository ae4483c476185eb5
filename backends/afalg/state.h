// SPDX-License-Identifier: Apache-2.0
// All that the backend has in one process: the tables of sessions, the pools of hash sockets, the drivers
// that were found.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "backends/afalg/algorithms.h"
#include "backends/afalg/hash_session.h"
#include "backends/afalg/session.h"

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

// Destructible however a fork freezes it (see PerProcess).
class State {
 public:
  explicit State(State* inherited);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  // Sessions of both kinds share one limit; hash sockets that wait for a message give way to others.

  // Null: `busy` if all places are taken, or no memory.
  [[nodiscard]] Session* attach(const CipherSpec& spec, std::span<const std::uint8_t> key,
                                std::size_t algorithm) noexcept;
  void detach(Session* session) noexcept;

  // A session that waits for a message; null if none does.
  [[nodiscard]] HashSession* take(std::size_t algorithm) noexcept;
  // A new one, not open yet. Null as above.
  [[nodiscard]] HashSession* add(std::size_t algorithm) noexcept;
  // Back to the pool after its message, or away if that is full.
  void put_back(HashSession* session) noexcept;
  // True if its descriptor was not ours any more.
  bool remove(HashSession* session) noexcept;

  [[nodiscard]] bool first(std::size_t algorithm, Reason reason) noexcept {
    if (reason == Reason::socket || reason == Reason::seccomp) algorithm = 0;
    const std::uint32_t bit = 1U << static_cast<unsigned>(reason);
    return (told_[algorithm].fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
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
  // Sessions by place: what a child of a fork closes.
  template <class T>
  struct Table {
    explicit Table(std::size_t limit) : places(std::make_unique<std::atomic<T*>[]>(limit)) {}
    std::unique_ptr<std::atomic<T*>[]> places;
    std::size_t used = 0;  // of ciphers: places in use are below
    void clear(std::size_t place) noexcept;
  };
  // Waiting for a message, the last one used on top.
  struct Pool {
    static constexpr std::size_t most = 4;
    std::array<HashSession*, most> sessions{};
    std::size_t count = 0;
  };

  [[nodiscard]] Pool& pool(std::size_t algorithm) noexcept { return pools_[algorithm - cipher_rows.size()]; }
  [[nodiscard]] HashSession* take_any() noexcept;
  [[nodiscard]] bool make_room() noexcept;
  void close_all() noexcept;

  const std::size_t limit_;
  const std::size_t pool_limit_;
  std::mutex mutex_;       // of what follows, and of Session::users; no system call is made under it
  std::size_t count_ = 0;  // of all sessions
  Table<Session> ciphers_;
  Table<HashSession> hashes_;
  std::array<Pool, digest_rows.size()> pools_{};

  std::array<Choice, algorithm_count> choices_;
  std::array<std::atomic<std::uint32_t>, algorithm_count> told_{};
};

}  // namespace sunxi::afalg
