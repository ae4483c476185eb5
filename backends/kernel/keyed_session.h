// SPDX-License-Identifier: Apache-2.0
// What cipher sessions of the kernel have in common, whatever they are reached through: one key that several
// slots share, who may use it now, page-aligned memory for data, and the IV of the next operation.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "backends/backend.h"
#include "backends/kernel/driver_traits.h"

namespace sunxi::kernel {

[[nodiscard]] inline bool overlap(const std::uint8_t* a, std::size_t a_bytes, const std::uint8_t* b,
                                  std::size_t b_bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

[[nodiscard]] inline bool aligned(const std::uint8_t* pointer, std::size_t alignment) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

// Output that runs ahead of its input and would overwrite what is not read yet, if the request were done in
// pieces.
[[nodiscard]] bool runs_ahead(const CipherRequest& request) noexcept;

// A page-aligned buffer that grows to what is needed. Held by one thread at a time; destructible however a
// fork freezes it.
class Bounce {
 public:
  Bounce() noexcept = default;
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;
  ~Bounce() { drop(); }

  // At least so many bytes, of which the first `keep` are as they were. Null, and all as it was: no memory.
  [[nodiscard]] std::uint8_t* get(std::size_t bytes, std::size_t keep = 0) noexcept {
    if (bytes > size_) [[unlikely]] {
      if (!grow(bytes, keep)) return nullptr;
    }
    return memory_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] const std::uint8_t* peek() const noexcept { return memory_.load(std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool grow(std::size_t bytes, std::size_t keep) noexcept;
  void drop() noexcept;

  std::atomic<std::uint8_t*> memory_{nullptr};
  std::size_t size_ = 0;
};

// The IV after an operation of whole blocks. It is ours to carry, as not all drivers write it back.
class NextIv {
 public:
  // Before the operation, which may overwrite its input: CBC's next IV is the last block of ciphertext.
  NextIv(const CipherRequest& request, const std::uint8_t* in, std::size_t bytes) noexcept;
  // After it.
  void store(const CipherRequest& request, const std::uint8_t* out, std::size_t bytes) const noexcept;

 private:
  std::array<std::uint8_t, max_iv_bytes> last_block_{};
};

// One key. Shared by all slots with this key; everything but the members called from the table of sessions
// needs the session to be held (acquire).
class KeyedSession {
 public:
  KeyedSession(const CipherSpec& spec, std::span<const std::uint8_t> key, std::size_t algorithm,
               std::size_t place) noexcept;
  KeyedSession(const KeyedSession&) = delete;
  KeyedSession& operator=(const KeyedSession&) = delete;
  ~KeyedSession();

  // For the table of sessions, under its lock.
  [[nodiscard]] bool matches(const CipherSpec& spec, std::span<const std::uint8_t> key) const noexcept;
  std::size_t users = 1;  // 0: about to go, not to be found any more
  [[nodiscard]] std::size_t place() const noexcept { return place_; }
  [[nodiscard]] std::size_t algorithm() const noexcept { return algorithm_; }

  // False if the session is in use and the wait would not be a short one.
  [[nodiscard]] bool acquire(std::size_t length) noexcept;
  void yield() noexcept { mutex_.unlock(); }

  // Whether a driver may refuse the key for what it is.
  [[nodiscard]] bool may_be_weak() const noexcept;
  bool has_served = false;
  bool key_refused = false;

 protected:
  [[nodiscard]] const CipherSpec& spec() const noexcept { return spec_; }

  // The key as the kernel takes it, which has no triple DES with two keys. Wiped.
  class KernelKey {
   public:
    explicit KernelKey(const KeyedSession& session) noexcept;
    KernelKey(const KernelKey&) = delete;
    KernelKey& operator=(const KernelKey&) = delete;
    ~KernelKey();
    [[nodiscard]] std::span<const std::uint8_t> get() const noexcept { return {bytes_.data(), used_}; }

   private:
    std::array<std::uint8_t, max_key_bytes> bytes_;
    std::size_t used_;
  };

 private:
  const CipherSpec spec_;
  const std::size_t algorithm_;
  const std::size_t place_;
  std::array<std::uint8_t, max_key_bytes> key_{};

  std::mutex mutex_;
  std::atomic<std::size_t> held_for_{0};  // bytes of the request that holds the session
  std::atomic<bool> awaited_{false};
};

class Held {
 public:
  Held(KeyedSession& session, std::size_t length) noexcept
      : session_(session), held_(session.acquire(length)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (held_) session_.yield();
  }
  [[nodiscard]] explicit operator bool() const noexcept { return held_; }

 private:
  KeyedSession& session_;
  bool held_;
};

}  // namespace sunxi::kernel
