// SPDX-License-Identifier: Apache-2.0
// Requests of ciphers. Interface: cryptodev-linux, crypto/cryptodev.h, struct crypt_op.
#include "backends/cryptodev/session.h"

#include <algorithm>
#include <cstring>

#include "backends/process.h"

namespace sunxi::cryptodev {
Session::~Session() {
  wipe(iv_.data(), iv_.size());
}

Fault Session::open(std::uint64_t now) noexcept {
  const KernelKey key(*this);
  const auto bytes = key.get();
  SessionOp operation{};
  operation.cipher = cryptodev::algorithm(algorithm()).number;
  operation.key = bytes.data();
  operation.key_bytes = static_cast<std::uint32_t>(bytes.size());
  if (const Fault fault = kernel_.open(operation, now)) return fault;
  chunk_ = std::min(kernel_.traits().chunk, kernel::most_chunk);
  return {};
}

// The module gets a copy of the input, page-aligned, and its output takes the copy's place: the memory that
// it pins is always ours. The caller's might be a device's, which it cannot pin, and up to 1.14 it then drops
// references to pages that it does not hold.
Result Session::crypt(const CipherRequest& request, Fault& fault) noexcept {
  const bool encrypt = request.direction == Direction::encrypt;
  const Mode mode = spec().mode;
  // Only in one piece: output that runs ahead, and a data unit of XTS, whose tweak does not go on from one
  // operation to the next. Where the module cannot pin its memory it goes on page by page without a word, so
  // that a data unit must fit into one. It takes no part of a block.
  const std::size_t most = mode == Mode::xts ? kernel::page : chunk_;
  if (request.length > most && (mode == Mode::xts || kernel::runs_ahead(request)))
    return {.outcome = Outcome::busy, .done = 0};
  if (request.length % spec().block_bytes != 0) return {.outcome = Outcome::busy, .done = 0};

  std::size_t done = 0;
  while (done < request.length) {
    const std::uint8_t* const in = request.in + done;
    std::uint8_t* const out = request.out + done;
    const std::size_t bytes = std::min(request.length - done, chunk_);
    std::uint8_t* const copy = bounce_.get(bytes);
    if (copy == nullptr) return {.outcome = Outcome::busy, .done = done};

    const kernel::NextIv next(request, in, bytes);
    if (spec().iv_bytes != 0) std::memcpy(iv_.data(), request.iv, spec().iv_bytes);
    std::memcpy(copy, in, bytes);
    CryptOp operation{};
    operation.operation = encrypt ? operation_encrypt : operation_decrypt;
    operation.bytes = static_cast<std::uint32_t>(bytes);
    operation.source = copy;
    operation.target = copy;
    operation.iv = spec().iv_bytes != 0 ? iv_.data() : nullptr;
    fault = kernel_.run(operation);
    if (!fault) std::memcpy(out, copy, bytes);
    // Plaintext stays nowhere; in CTR either direction may yield it.
    if (fault || mode == Mode::ctr || !encrypt) wipe(copy, bytes);
    if (fault) return {.outcome = Outcome::failed, .done = done};
    next.store(request, out, bytes);
    done += bytes;
  }
  return {.outcome = Outcome::served, .done = done};
}

}  // namespace sunxi::cryptodev
