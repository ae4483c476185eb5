// SPDX-License-Identifier: Apache-2.0
// The tables of a backend's sessions in one process, and the pools of hash sessions that wait for a message.
// Sessions of both kinds share one limit; hash sessions that wait give way to others. Half of it is for
// ciphers and copies of messages alone, the last quarter for copies.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>

#include "backends/backend.h"

namespace sunxi::kernel {

// What a hash session begins with. A message that was begun has to find room for its copies later.
enum class MessageStart : std::uint8_t { nothing, copy };

// Session is a KeyedSession with `close()`. HashSession has `algorithm()`, `place()` and
// `[[nodiscard]] bool close()`, which tells whether its descriptor was not ours any more. Algorithms of
// digests are numbered from first_digest on.
// Destructible however a fork freezes it (see PerProcess); whoever derives from it calls close_all.
template <class Session, class HashSession, std::size_t first_digest, std::size_t digests>
class SessionTables {
 public:
  // How many sessions there may be; called again and again, because it may be lowered.
  using Limit = std::size_t() noexcept;

  explicit SessionTables(Limit& limit)
      : limit_now_(limit),
        limit_(limit()),
        pool_limit_(std::clamp<std::size_t>(limit_ / 16, 1, Pool::most)),
        ciphers_(limit_),
        hashes_(limit_) {}
  SessionTables(const SessionTables&) = delete;
  SessionTables& operator=(const SessionTables&) = delete;

  // A session with this key, found or made out of `more` as well. Null: `busy` if all places are taken, or no
  // memory.
  template <class... More>
  [[nodiscard]] Session* attach(const CipherSpec& spec, std::span<const std::uint8_t> key,
                                std::size_t algorithm, More&... more) noexcept {
    const std::size_t all = std::min(limit_, limit_now_());
    const std::size_t limit = all - all / 4;
    for (bool made_room = false;; made_room = true) {
      {
        const std::lock_guard lock(mutex_);
        std::size_t place = ciphers_.used;
        for (std::size_t i = 0; i < ciphers_.used; ++i) {
          Session* session = ciphers_.places[i].load(std::memory_order_relaxed);
          if (session == nullptr) {
            place = std::min(place, i);
          } else if (session->matches(spec, key)) {
            ++session->users;
            return session;
          }
        }
        if (count_ < limit) {
          auto* session = new (std::nothrow) Session(spec, key, algorithm, place, more...);
          if (session == nullptr) return nullptr;
          ciphers_.places[place].store(session, std::memory_order_release);
          ciphers_.used = std::max(ciphers_.used, place + 1);
          ++count_;
          return session;
        }
      }
      if (made_room || !make_room()) return nullptr;
    }
  }

  void detach(Session* session) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (--session->users != 0) return;
    }
    // Nobody finds it any more. Closed while its place still shows it, so that a child of a fork in between
    // closes its copy.
    (void)session->close();
    {
      const std::lock_guard lock(mutex_);
      ciphers_.clear(session->place());
      --count_;
    }
    delete session;
  }

  // A session that waits for a message; null if none does.
  [[nodiscard]] HashSession* take(std::size_t algorithm) noexcept {
    const std::lock_guard lock(mutex_);
    Pool& waiting = pool(algorithm);
    return waiting.count == 0 ? nullptr : waiting.sessions[--waiting.count];
  }

  // A new one, not open yet. Null as above.
  template <class... More>
  [[nodiscard]] HashSession* add(MessageStart start, std::size_t algorithm, std::size_t digest_bytes,
                                 More&... more) noexcept {
    const std::size_t all = std::min(limit_, limit_now_());
    const std::size_t limit = start == MessageStart::copy ? all : all / 2;
    for (bool made_room = false;; made_room = true) {
      {
        const std::lock_guard lock(mutex_);
        if (count_ < limit) {
          std::size_t place = 0;
          while (hashes_.places[place].load(std::memory_order_relaxed) != nullptr) ++place;
          auto* session = new (std::nothrow) HashSession(algorithm, digest_bytes, place, more...);
          if (session == nullptr) return nullptr;
          hashes_.places[place].store(session, std::memory_order_release);
          ++count_;
          return session;
        }
      }
      if (made_room || !make_room()) return nullptr;
    }
  }

  // Back to the pool after its message, or away if that is full.
  void put_back(HashSession* session) noexcept {
    {
      const std::lock_guard lock(mutex_);
      Pool& waiting = pool(session->algorithm());
      if (waiting.count < pool_limit_) {
        waiting.sessions[waiting.count++] = session;
        return;
      }
    }
    remove(session);
  }

  // True if its descriptor was not ours any more.
  bool remove(HashSession* session) noexcept {
    const bool stolen = session->close();
    {
      const std::lock_guard lock(mutex_);
      hashes_.clear(session->place());
      --count_;
    }
    delete session;
    return stolen;
  }

  // Deletes all, each after `before` was called with it. The exchange lets one thread alone do so.
  template <class Before>
  void close_all(Before&& before) noexcept {
    for (std::size_t i = 0; i < limit_; ++i) {
      if (Session* session = ciphers_.places[i].exchange(nullptr, std::memory_order_acq_rel)) {
        before(*session);
        delete session;
      }
      if (HashSession* session = hashes_.places[i].exchange(nullptr, std::memory_order_acq_rel)) {
        before(*session);
        delete session;
      }
    }
  }

 protected:
  ~SessionTables() = default;

 private:
  // Sessions by place: what a child of a fork closes.
  template <class T>
  struct Table {
    explicit Table(std::size_t limit) : places(std::make_unique<std::atomic<T*>[]>(limit)) {}
    void clear(std::size_t place) noexcept {
      places[place].store(nullptr, std::memory_order_release);
      while (used > 0 && places[used - 1].load(std::memory_order_relaxed) == nullptr) --used;
    }
    std::unique_ptr<std::atomic<T*>[]> places;
    std::size_t used = 0;  // of ciphers: places in use are below
  };
  // Waiting for a message, the last one used on top.
  struct Pool {
    static constexpr std::size_t most = 4;
    std::array<HashSession*, most> sessions{};
    std::size_t count = 0;
  };

  [[nodiscard]] Pool& pool(std::size_t algorithm) noexcept { return pools_[algorithm - first_digest]; }

  [[nodiscard]] HashSession* take_any() noexcept {
    const std::lock_guard lock(mutex_);
    for (Pool& waiting : pools_) {
      if (waiting.count != 0) return waiting.sessions[--waiting.count];
    }
    return nullptr;
  }

  [[nodiscard]] bool make_room() noexcept {
    HashSession* const session = take_any();
    if (session == nullptr) return false;
    remove(session);
    return true;
  }

  Limit& limit_now_;
  const std::size_t limit_;
  const std::size_t pool_limit_;
  std::mutex mutex_;       // of what follows, and of Session::users; no system call is made under it
  std::size_t count_ = 0;  // of all sessions
  Table<Session> ciphers_;
  Table<HashSession> hashes_;
  std::array<Pool, digests> pools_{};
};

// What was said once.
template <class Reason, std::size_t algorithms>
class Told {
 public:
  [[nodiscard]] bool first(std::size_t algorithm, Reason reason) noexcept {
    const std::uint32_t bit = 1U << static_cast<unsigned>(reason);
    return (told_[algorithm].fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }

 private:
  std::array<std::atomic<std::uint32_t>, algorithms> told_{};
};

}  // namespace sunxi::kernel
