// SPDX-License-Identifier: Apache-2.0
// Requests through a cipher socket. Interface: Linux crypto/algif_skcipher.c.
#include "backends/afalg/session.h"

#include <linux/if_alg.h>
#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace sunxi::afalg {
namespace {

constexpr int most_interruptions = 8;

bool overlap(const std::uint8_t* a, std::size_t a_bytes, const std::uint8_t* b,
             std::size_t b_bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(a);
  const auto second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + b_bytes && second < first + a_bytes;
}

bool aligned(const std::uint8_t* pointer, std::size_t alignment) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

}  // namespace

Session::Session(const CipherSpec& spec, std::span<const std::uint8_t> key, std::size_t algorithm,
                 std::size_t place) noexcept
    : spec_(spec), algorithm_(algorithm), place_(place) {
  std::copy_n(key.begin(), std::min<std::size_t>(key.size(), spec.key_bytes), key_.begin());
  prepare_control();
}

Session::~Session() {
  wipe(key_.data(), key_.size());
  wipe(control_.data(), control_.size());
  drop_bounce();
}

bool Session::matches(const CipherSpec& spec, std::span<const std::uint8_t> key) const noexcept {
  if (users == 0 || spec != spec_ || key.size() != spec_.key_bytes) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < key.size(); ++i) difference |= static_cast<unsigned>(key[i] ^ key_[i]);
  return difference == 0;
}

// One thread works and one waits, so that the accelerator always has its next request; the others are
// told `busy` and compute at the same time in software, which is faster than queueing up behind one
// engine, and lets a driver that hangs take two threads with it, not all. Nobody waits behind a request
// of many chunks.
bool Session::acquire(std::size_t length) noexcept {
  if (!mutex_.try_lock()) {
    if (held_for_.load(std::memory_order_relaxed) > most_chunk) return false;
    if (awaited_.exchange(true, std::memory_order_relaxed)) return false;
    mutex_.lock();
    awaited_.store(false, std::memory_order_relaxed);
  }
  held_for_.store(length, std::memory_order_relaxed);
  return true;
}

// The bound socket is closed once the operation socket exists, which keeps all that it needs; one
// descriptor remains.
Fault Session::open(const Driver& driver, std::uint64_t now) noexcept {
  Descriptor bound;
  if (const Fault refused = bind_socket(bound, DriverType::cipher, driver.name.data())) return refused;
  if (!set_key(bound.get())) return fault_of(Step::set_key);
  if (const Fault refused = socket_.open(bound.get(), now)) return refused;
  driver_ = driver;
  chunk_ = driver.traits.chunk;
  // What does not fit into the send buffer would be taken in part (crypto/af_alg.c counts whole pages).
  int buffer = 0;
  socklen_t length = sizeof buffer;
  if (::getsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &buffer, &length) == 0 && buffer > 0)
    chunk_ = std::clamp(static_cast<std::size_t>(buffer) / page * page, page, chunk_);
  return {};
}

// The kernel has no triple DES with two keys.
bool Session::set_key(int bound) const noexcept {
  constexpr std::size_t des_bytes = 8;
  if (spec_.cipher != Cipher::des3 || spec_.key_bytes != 2 * des_bytes)
    return ::setsockopt(bound, alg_level, ALG_SET_KEY, key_.data(), spec_.key_bytes) == 0;
  std::array<std::uint8_t, 3 * des_bytes> expanded;
  std::memcpy(expanded.data(), key_.data(), 2 * des_bytes);
  std::memcpy(expanded.data() + 2 * des_bytes, key_.data(), des_bytes);
  const bool set = ::setsockopt(bound, alg_level, ALG_SET_KEY, expanded.data(), expanded.size()) == 0;
  wipe(expanded.data(), expanded.size());
  return set;
}

// Linux include/crypto/internal/des.h (weak keys; equal parts in FIPS mode) and crypto/xts.h (equal halves).
bool Session::may_be_weak() const noexcept {
  if (spec_.cipher != Cipher::aes) return true;
  if (spec_.mode != Mode::xts) return false;
  const std::size_t half = spec_.key_bytes / 2U;
  unsigned difference = 0;
  for (std::size_t i = 0; i < half; ++i) difference |= static_cast<unsigned>(key_[i] ^ key_[half + i]);
  return difference == 0;
}

void Session::prepare_control() noexcept {
  msghdr message{};
  message.msg_control = control_.data();
  message.msg_controllen = control_.size();

  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = guard_type;
  header->cmsg_len = CMSG_LEN(0);
  control_used_ = CMSG_SPACE(0);

  header = CMSG_NXTHDR(&message, header);
  header->cmsg_level = alg_level;
  header->cmsg_type = ALG_SET_OP;
  header->cmsg_len = CMSG_LEN(sizeof(std::uint32_t));
  operation_ = CMSG_DATA(header);
  control_used_ += CMSG_SPACE(sizeof(std::uint32_t));

  if (spec_.iv_bytes == 0) return;
  header = CMSG_NXTHDR(&message, header);
  header->cmsg_level = alg_level;
  header->cmsg_type = ALG_SET_IV;
  const std::uint32_t iv_bytes = spec_.iv_bytes;
  header->cmsg_len = CMSG_LEN(sizeof iv_bytes + iv_bytes);
  std::memcpy(CMSG_DATA(header), &iv_bytes, sizeof iv_bytes);
  iv_ = CMSG_DATA(header) + sizeof iv_bytes;
  control_used_ += CMSG_SPACE(sizeof iv_bytes + iv_bytes);
}

// Neither call waits: the chunk fits into the send buffer, and exactly as much is received as was sent.
// (The driver's own wait for its device is not affected by MSG_DONTWAIT.)
Fault Session::exchange(const std::uint8_t* in, std::uint8_t* out, std::size_t bytes) noexcept {
  iovec data{.iov_base = const_cast<std::uint8_t*>(in), .iov_len = bytes};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control_.data();
  message.msg_controllen = control_used_;
  const auto whole = static_cast<ssize_t>(bytes);
  int interruptions = 0;
  ssize_t moved = 0;
  do {
    moved = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (moved < 0 && errno == EINTR && ++interruptions < most_interruptions);
  if (moved != whole) return {.step = Step::send, .error = moved < 0 ? errno : 0};
  do {
    moved = ::recv(socket_.get(), out, bytes, MSG_DONTWAIT);
  } while (moved < 0 && errno == EINTR && ++interruptions < most_interruptions);
  if (moved != whole) return {.step = Step::receive, .error = moved < 0 ? errno : 0};
  return {};
}

Result Session::crypt(const CipherRequest& request, Fault& fault) noexcept {
  const bool encrypt = request.direction == Direction::encrypt;
  const Mode mode = spec_.mode;
  // Only in one piece: a data unit of XTS, whose tweak does not go on from one operation to the next, and
  // output that runs ahead of its input and would overwrite what is not read yet.
  if (request.length > chunk_ &&
      (mode == Mode::xts || (std::greater<>{}(request.out, request.in) &&
                             overlap(request.in, request.length, request.out, request.length))))
    return {.outcome = Outcome::busy, .done = 0};

  const std::uint32_t operation = encrypt ? ALG_OP_ENCRYPT : ALG_OP_DECRYPT;
  std::memcpy(operation_, &operation, sizeof operation);
  const std::size_t iv_bytes = spec_.iv_bytes;
  std::size_t done = 0;
  while (done < request.length) {
    const std::uint8_t* in = request.in + done;
    std::uint8_t* out = request.out + done;
    const std::size_t left = request.length - done;
    const std::size_t bytes = std::min(left, chunk_);

    // The IV is ours to carry (not all drivers write it back): CBC's next one is the last block of
    // ciphertext, which decryption in place overwrites.
    std::array<std::uint8_t, max_iv_bytes> next{};
    if (mode == Mode::cbc && !encrypt) std::memcpy(next.data(), in + bytes - iv_bytes, iv_bytes);
    if (iv_ != nullptr) std::memcpy(iv_, request.iv, iv_bytes);

    // A driver that fails may leave anything in its output; the input must not suffer from that.
    const bool must_bounce = overlap(out, bytes, in, left);
    std::uint8_t* target = out;
    if (must_bounce || !aligned(out, driver_.traits.alignment)) {
      target = bounce(bytes);
      if (target == nullptr) {
        if (must_bounce) return {.outcome = Outcome::busy, .done = done};
        target = out;
      }
    }
    fault = exchange(in, target, bytes);
    if (target != out) {
      if (!fault) std::memcpy(out, target, bytes);
      // In CTR either direction may yield plaintext.
      if (!encrypt || mode == Mode::ctr || fault) wipe(target, bytes);
    }
    if (fault) return {.outcome = Outcome::failed, .done = done};
    switch (mode) {
      case Mode::cbc:
        if (encrypt) std::memcpy(next.data(), out + bytes - iv_bytes, iv_bytes);
        std::memcpy(request.iv, next.data(), iv_bytes);
        break;
      case Mode::ctr:
        advance_counter(request.iv, bytes / max_iv_bytes);
        break;
      case Mode::ecb:
      case Mode::xts:
        break;
    }
    done += bytes;
  }
  return {.outcome = Outcome::served, .done = done};
}

std::uint8_t* Session::bounce(std::size_t bytes) noexcept {
  if (bytes > bounce_bytes_) {
    drop_bounce();
    const std::size_t size = std::bit_ceil(std::max(bytes, page));
    auto* fresh = static_cast<std::uint8_t*>(std::aligned_alloc(page, size));
    if (fresh == nullptr) return nullptr;
    bounce_bytes_ = size;
    bounce_.store(fresh, std::memory_order_release);
  }
  return bounce_.load(std::memory_order_relaxed);
}

// In this order, so that a child of a fork in the middle of it never frees twice.
void Session::drop_bounce() noexcept {
  std::uint8_t* memory = bounce_.exchange(nullptr, std::memory_order_acq_rel);
  const std::size_t size = std::exchange(bounce_bytes_, 0);
  if (memory == nullptr) return;
  wipe(memory, size);
  std::free(memory);
}

}  // namespace sunxi::afalg
