// SPDX-License-Identifier: Apache-2.0
// Keys, turns, buffers and IVs of cipher sessions.
#include "backends/kernel/keyed_session.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "backends/process.h"

namespace sunxi::kernel {

bool runs_ahead(const CipherRequest& request) noexcept {
  return std::greater<>{}(request.out, request.in) &&
         overlap(request.in, request.length, request.out, request.length);
}

bool Bounce::grow(std::size_t bytes, std::size_t keep) noexcept {
  const std::size_t size = std::bit_ceil(std::max(bytes, page));
  auto* fresh = static_cast<std::uint8_t*>(std::aligned_alloc(page, size));
  if (fresh == nullptr) return false;
  if (keep != 0) std::memcpy(fresh, memory_.load(std::memory_order_relaxed), keep);
  drop();
  size_ = size;
  memory_.store(fresh, std::memory_order_release);
  return true;
}

// In this order, so that a child of a fork in the middle of it never frees twice.
void Bounce::drop() noexcept {
  std::uint8_t* memory = memory_.exchange(nullptr, std::memory_order_acq_rel);
  const std::size_t size = std::exchange(size_, 0);
  if (memory == nullptr) return;
  wipe(memory, size);
  std::free(memory);
}

NextIv::NextIv(const CipherRequest& request, const std::uint8_t* in, std::size_t bytes) noexcept {
  if (request.spec.mode == Mode::cbc && request.direction == Direction::decrypt)
    std::memcpy(last_block_.data(), in + bytes - request.spec.iv_bytes, request.spec.iv_bytes);
}

void NextIv::store(const CipherRequest& request, const std::uint8_t* out, std::size_t bytes) const noexcept {
  const std::size_t iv_bytes = request.spec.iv_bytes;
  switch (request.spec.mode) {
    case Mode::cbc:
      std::memcpy(request.iv,
                  request.direction == Direction::decrypt ? last_block_.data() : out + bytes - iv_bytes,
                  iv_bytes);
      break;
    case Mode::ctr:
      advance_counter(request.iv, bytes / max_iv_bytes);
      break;
    case Mode::ecb:
    case Mode::xts:
      break;
  }
}

KeyedSession::KeyedSession(const CipherSpec& spec, std::span<const std::uint8_t> key, std::size_t algorithm,
                           std::size_t place) noexcept
    : spec_(spec), algorithm_(algorithm), place_(place) {
  std::copy_n(key.begin(), std::min<std::size_t>(key.size(), spec.key_bytes), key_.begin());
}

KeyedSession::~KeyedSession() {
  wipe(key_.data(), key_.size());
}

bool KeyedSession::matches(const CipherSpec& spec, std::span<const std::uint8_t> key) const noexcept {
  if (users == 0 || spec != spec_ || key.size() != spec_.key_bytes) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < key.size(); ++i) difference |= static_cast<unsigned>(key[i] ^ key_[i]);
  return difference == 0;
}

// One thread works and one waits, so that the accelerator always has its next request; the others are
// told `busy` and compute at the same time in software, which is faster than queueing up behind one
// engine, and lets a driver that hangs take two threads with it, not all. Nobody waits behind a request
// of many chunks.
bool KeyedSession::acquire(std::size_t length) noexcept {
  if (!mutex_.try_lock()) {
    if (held_for_.load(std::memory_order_relaxed) > most_chunk) return false;
    if (awaited_.exchange(true, std::memory_order_relaxed)) return false;
    mutex_.lock();
    awaited_.store(false, std::memory_order_relaxed);
  }
  held_for_.store(length, std::memory_order_relaxed);
  return true;
}

// Linux include/crypto/internal/des.h (weak keys; equal parts in FIPS mode) and crypto/xts.h (equal halves).
bool KeyedSession::may_be_weak() const noexcept {
  if (spec_.cipher != Cipher::aes) return true;
  if (spec_.mode != Mode::xts) return false;
  const std::size_t half = spec_.key_bytes / 2U;
  unsigned difference = 0;
  for (std::size_t i = 0; i < half; ++i) difference |= static_cast<unsigned>(key_[i] ^ key_[half + i]);
  return difference == 0;
}

KeyedSession::KernelKey::KernelKey(const KeyedSession& session) noexcept
    : bytes_(session.key_), used_(session.spec_.key_bytes) {
  constexpr std::size_t des_bytes = 8;
  if (session.spec_.cipher != Cipher::des3 || used_ != 2 * des_bytes) return;
  std::memcpy(bytes_.data() + 2 * des_bytes, bytes_.data(), des_bytes);
  used_ = 3 * des_bytes;
}

KeyedSession::KernelKey::~KernelKey() {
  wipe(bytes_.data(), bytes_.size());
}

}  // namespace sunxi::kernel
