// SPDX-License-Identifier: Apache-2.0
// Requests through a cipher socket. Interface: Linux crypto/algif_skcipher.c.
#include "backends/afalg/session.h"

#include <linux/if_alg.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "backends/process.h"

namespace sunxi::afalg {
namespace {

constexpr int most_interruptions = 8;

}  // namespace

Session::Session(const CipherSpec& spec, std::span<const std::uint8_t> key, std::size_t algorithm,
                 std::size_t place) noexcept
    : KeyedSession(spec, key, algorithm, place) {
  prepare_control();
}

Session::~Session() {
  wipe(control_.data(), control_.size());
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

bool Session::set_key(int bound) const noexcept {
  const KernelKey key(*this);
  const auto bytes = key.get();
  return ::setsockopt(bound, alg_level, ALG_SET_KEY, bytes.data(), static_cast<socklen_t>(bytes.size())) == 0;
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

  if (spec().iv_bytes == 0) return;
  header = CMSG_NXTHDR(&message, header);
  header->cmsg_level = alg_level;
  header->cmsg_type = ALG_SET_IV;
  const std::uint32_t iv_bytes = spec().iv_bytes;
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
  const Mode mode = spec().mode;
  // Only in one piece: a data unit of XTS, whose tweak does not go on from one operation to the next, and
  // output that runs ahead of its input and would overwrite what is not read yet.
  if (request.length > chunk_ && (mode == Mode::xts || kernel::runs_ahead(request)))
    return {.outcome = Outcome::busy, .done = 0};

  const std::uint32_t operation = encrypt ? ALG_OP_ENCRYPT : ALG_OP_DECRYPT;
  std::memcpy(operation_, &operation, sizeof operation);
  const std::size_t iv_bytes = spec().iv_bytes;
  std::size_t done = 0;
  while (done < request.length) {
    const std::uint8_t* in = request.in + done;
    std::uint8_t* out = request.out + done;
    const std::size_t left = request.length - done;
    const std::size_t bytes = std::min(left, chunk_);

    const kernel::NextIv next(request, in, bytes);
    if (iv_ != nullptr) std::memcpy(iv_, request.iv, iv_bytes);

    // A driver that fails may leave anything in its output; the input must not suffer from that.
    const bool must_bounce = kernel::overlap(out, bytes, in, left);
    std::uint8_t* target = out;
    if (must_bounce || !kernel::aligned(out, driver_.traits.alignment)) {
      target = bounce_.get(bytes);
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
    next.store(request, out, bytes);
    done += bytes;
  }
  return {.outcome = Outcome::served, .done = done};
}

}  // namespace sunxi::afalg
