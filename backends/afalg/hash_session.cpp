// SPDX-License-Identifier: Apache-2.0
// Messages through a hash socket. Interface: Linux crypto/algif_hash.c.
#include "backends/afalg/hash_session.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sunxi::afalg {
namespace {

struct alignas(cmsghdr) GuardMessage {
  cmsghdr header{};
};

constexpr GuardMessage make_guard() noexcept {
  GuardMessage message;
  message.header.cmsg_len = CMSG_LEN(0);
  message.header.cmsg_level = SOL_SOCKET;
  message.header.cmsg_type = guard_type;
  return message;
}

constexpr GuardMessage guard = make_guard();

}  // namespace

// The bound socket is not kept: it would cost each digest a descriptor for the process's life, to save two
// calls when a message finds the pool empty, and accepting from it would be one more call for which a stolen
// number must be feared.
Fault HashSession::open(const Driver& driver, std::uint64_t now) noexcept {
  Descriptor bound;
  if (const Fault refused = bind_socket(bound, DriverType::hash, driver.name.data())) return refused;
  has_data_ = false;
  return socket_.open(bound.get(), now);
}

Fault HashSession::open(const HashSession& original, std::uint64_t now) noexcept {
  has_data_ = original.has_data_;
  return socket_.open(original.socket_.get(), now);
}

// The kernel hashes at once and queues nothing, so that no buffer sets a limit; pieces bound the time that
// one call takes. It works on 16 pages at a time: a piece that ends at a page boundary leaves no rest.
Fault HashSession::extend(const std::uint8_t* in, std::size_t length) noexcept {
  while (length != 0) {
    std::size_t bytes = length;
    if (length > most_chunk) bytes = most_chunk - reinterpret_cast<std::uintptr_t>(in) % page;
    if (const Fault fault = send(in, bytes, MSG_MORE)) return fault;
    has_data_ = true;
    in += bytes;
    length -= bytes;
  }
  return {};
}

// An empty message is sent without MSG_MORE: Linux before 4.9 has no digest where nothing was sent.
Fault HashSession::conclude(std::uint8_t* out) noexcept {
  if (!has_data_) {
    if (const Fault fault = send(nullptr, 0, 0)) return fault;
  }
  const ssize_t moved = ::recv(socket_.get(), out, digest_bytes_, MSG_DONTWAIT);
  if (moved != static_cast<ssize_t>(digest_bytes_))
    return {.step = Step::receive, .error = moved < 0 ? errno : 0};
  has_data_ = false;
  return {};
}

// Finishing the message is the cheapest way to be rid of it: one call, against five for another socket.
Fault HashSession::abandon() noexcept {
  if (!has_data_) return {};
  std::array<std::uint8_t, most_digest_bytes> digest;
  const Fault fault = conclude(digest.data());
  wipe(digest.data(), digest.size());
  return fault;
}

// Neither this call nor the receive ever waits for anything but the driver, so that neither can be
// interrupted; and neither may be done again, as nobody knows how far it came.
Fault HashSession::send(const std::uint8_t* in, std::size_t bytes, int flags) noexcept {
  iovec data{.iov_base = const_cast<std::uint8_t*>(in), .iov_len = bytes};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = const_cast<GuardMessage*>(&guard);
  message.msg_controllen = sizeof guard;
  const ssize_t moved = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
  if (moved != static_cast<ssize_t>(bytes)) return {.step = Step::send, .error = moved < 0 ? errno : 0};
  return {};
}

}  // namespace sunxi::afalg
