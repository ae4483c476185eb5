// SPDX-License-Identifier: Apache-2.0
// The tables of sessions and the pools.
#include "backends/afalg/state.h"

#include <sys/resource.h>

#include <algorithm>
#include <new>

namespace sunxi::afalg {
namespace {

// A sixteenth of the descriptors that the process may have. The tables are searched from end to end, which
// sets the upper limit.
std::size_t session_limit() noexcept {
  constexpr std::size_t least = 4;
  constexpr std::size_t most = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return least;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 16, least, most));
}

}  // namespace

template <class T>
void State::Table<T>::clear(std::size_t place) noexcept {
  places[place].store(nullptr, std::memory_order_release);
  while (used > 0 && places[used - 1].load(std::memory_order_relaxed) == nullptr) --used;
}

State::State(State* inherited)
    : limit_(session_limit()),
      pool_limit_(std::clamp<std::size_t>(limit_ / 16, 1, Pool::most)),
      ciphers_(limit_),
      hashes_(limit_) {
  if (inherited == nullptr) return;
  // The parent's sockets: closed here, used by the parent only. What the parent found out about drivers holds
  // here too, where /proc may be out of reach.
  inherited->close_all();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (!inherited->choices_[i].known.load(std::memory_order_acquire)) continue;
    choices_[i].driver = inherited->choices_[i].driver;
    choices_[i].whole_blocks_only = inherited->choices_[i].whole_blocks_only.load(std::memory_order_relaxed);
    choices_[i].known.store(true, std::memory_order_release);
  }
}

State::~State() {
  close_all();
}

// The exchange lets one thread alone close them.
void State::close_all() noexcept {
  for (std::size_t i = 0; i < limit_; ++i) {
    delete ciphers_.places[i].exchange(nullptr, std::memory_order_acq_rel);
    delete hashes_.places[i].exchange(nullptr, std::memory_order_acq_rel);
  }
}

Session* State::attach(const CipherSpec& spec, std::span<const std::uint8_t> key,
                       std::size_t algorithm) noexcept {
  const std::size_t limit = std::min(limit_, session_limit());  // it may have been lowered since
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
        auto* session = new (std::nothrow) Session(spec, key, algorithm, place);
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

void State::detach(Session* session) noexcept {
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

HashSession* State::take(std::size_t algorithm) noexcept {
  const std::lock_guard lock(mutex_);
  Pool& waiting = pool(algorithm);
  return waiting.count == 0 ? nullptr : waiting.sessions[--waiting.count];
}

HashSession* State::take_any() noexcept {
  const std::lock_guard lock(mutex_);
  for (Pool& waiting : pools_) {
    if (waiting.count != 0) return waiting.sessions[--waiting.count];
  }
  return nullptr;
}

bool State::make_room() noexcept {
  HashSession* const session = take_any();
  if (session == nullptr) return false;
  remove(session);
  return true;
}

HashSession* State::add(std::size_t algorithm) noexcept {
  const std::size_t limit = std::min(limit_, session_limit());
  for (bool made_room = false;; made_room = true) {
    {
      const std::lock_guard lock(mutex_);
      if (count_ < limit) {
        std::size_t place = 0;
        while (hashes_.places[place].load(std::memory_order_relaxed) != nullptr) ++place;
        auto* session = new (std::nothrow) HashSession(algorithm, digest_bytes(algorithm), place);
        if (session == nullptr) return nullptr;
        hashes_.places[place].store(session, std::memory_order_release);
        ++count_;
        return session;
      }
    }
    if (made_room || !make_room()) return nullptr;
  }
}

void State::put_back(HashSession* session) noexcept {
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

bool State::remove(HashSession* session) noexcept {
  const bool stolen = session->close();
  {
    const std::lock_guard lock(mutex_);
    hashes_.clear(session->place());
    --count_;
  }
  delete session;
  return stolen;
}

}  // namespace sunxi::afalg
