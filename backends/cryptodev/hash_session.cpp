// SPDX-License-Identifier: Apache-2.0
// Messages. Interface: cryptodev-linux, crypto/cryptodev.h, struct crypt_op and COP_FLAG_UPDATE, _FINAL,
// _RESET.
#include "backends/cryptodev/hash_session.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/process.h"

namespace sunxi::cryptodev {

Fault HashSession::open(std::uint64_t now, Device* beside) noexcept {
  SessionOp operation{};
  operation.mac = cryptodev::algorithm(algorithm_).number;
  if (const Fault fault = kernel_.open(operation, now, beside)) return fault;
  // What is in the buffer stays as it is.
  chunk_ = std::max(used_, std::min(kernel_.traits().chunk, kernel::most_chunk));
  return {};
}

bool HashSession::keep(const std::uint8_t* in, std::size_t bytes) noexcept {
  if (bytes == 0) return true;
  std::uint8_t* const buffer = buffer_.get(used_ + bytes, used_);
  if (buffer == nullptr) return false;
  std::memcpy(buffer + used_, in, bytes);
  used_ += bytes;
  filled_ = std::max(filled_, used_);
  return true;
}

Fault HashSession::send() noexcept {
  CryptOp operation{};
  operation.flags = started_ ? flag_update : flag_update | flag_reset;
  operation.bytes = static_cast<std::uint32_t>(used_);
  operation.source = buffer_.get(used_);
  if (const Fault fault = kernel_.run(operation)) return fault;
  started_ = true;
  used_ = 0;
  return {};
}

Fault HashSession::conclude(std::uint8_t* out) noexcept {
  std::array<std::uint8_t, most_digest_bytes> digest;
  CryptOp operation{};
  operation.flags = started_ ? flag_update | flag_final : 0;
  operation.bytes = static_cast<std::uint32_t>(used_);
  operation.source = used_ != 0 ? buffer_.get(used_) : nullptr;
  operation.mac = digest.data();
  const Fault fault = kernel_.run(operation);
  if (!fault) {
    std::memcpy(out, digest.data(), digest_bytes_);
    abandon();
  }
  wipe(digest.data(), digest.size());
  return fault;
}

void HashSession::abandon() noexcept {
  if (filled_ != 0) wipe(buffer_.get(filled_), filled_);
  filled_ = used_ = 0;
  started_ = false;
}

bool HashSession::copy_buffer(const HashSession& from) noexcept {
  chunk_ = from.chunk_;
  return keep(from.buffer_.peek(), from.used_);
}

Fault HashSession::copy_state(const HashSession& from) noexcept {
  if (const Fault fault = kernel_.copy_hash(from.kernel_)) return fault;
  started_ = true;
  return {};
}

}  // namespace sunxi::cryptodev
