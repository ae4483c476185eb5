// SPDX-License-Identifier: Apache-2.0
// Requests of ciphers. Interface: cryptodev-linux, crypto/cryptodev.h, struct crypt_op.
#include "backends/cryptodev/session.h"

#include <algorithm>
#include <cstring>

#include "backends/process.h"

namespace sunxi::cryptodev {
namespace {

// Shorter output is copied: pinning pages costs more.
constexpr std::size_t least_direct = 4096;
constexpr std::size_t least_alignment = 16;

// Output that cannot be written to ends the program here, as it does with software, and not in the module,
// which would spoil the kernel's count of references to those pages. The contents are ours to write.
void touch(std::uint8_t* out, std::size_t bytes) noexcept {
  const std::size_t to_next = kernel::page - reinterpret_cast<std::uintptr_t>(out) % kernel::page;
  *const_cast<volatile std::uint8_t*>(out) = 0;
  for (std::size_t at = to_next; at < bytes; at += kernel::page)
    *const_cast<volatile std::uint8_t*>(out + at) = 0;
}

}  // namespace

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
  direct_alignment_ = std::max(kernel_.alignment(), least_alignment);
  return {};
}

// The module gets a copy of the input, page-aligned, in memory that is known to be good. The output replaces
// it there and is copied out, or goes straight to the caller's memory.
Result Session::crypt(const CipherRequest& request, Fault& fault) noexcept {
  const bool encrypt = request.direction == Direction::encrypt;
  const Mode mode = spec().mode;
  // Only in one piece: a data unit of XTS, whose tweak does not go on from one operation to the next, and
  // output that runs ahead. The module takes no part of a block.
  if (request.length > chunk_ && (mode == Mode::xts || kernel::runs_ahead(request)))
    return {.outcome = Outcome::busy, .done = 0};
  if (request.length % spec().block_bytes != 0) return {.outcome = Outcome::busy, .done = 0};

  std::size_t done = 0;
  while (done < request.length) {
    const std::uint8_t* const in = request.in + done;
    std::uint8_t* const out = request.out + done;
    const std::size_t left = request.length - done;
    const std::size_t bytes = std::min(left, chunk_);
    std::uint8_t* const copy = bounce_.get(bytes);
    if (copy == nullptr) return {.outcome = Outcome::busy, .done = done};

    const kernel::NextIv next(request, in, bytes);
    if (spec().iv_bytes != 0) std::memcpy(iv_.data(), request.iv, spec().iv_bytes);
    std::memcpy(copy, in, bytes);
    // For more than 32 pages the module needs memory, and goes on page by page where it gets none: the bytes
    // of a data unit of XTS would be wrong. In place there are never so many.
    const bool direct = mode != Mode::xts && bytes >= least_direct &&
                        kernel::aligned(out, direct_alignment_) && !kernel::overlap(out, bytes, in, left);
    if (direct) touch(out, bytes);
    CryptOp operation{};
    operation.operation = encrypt ? operation_encrypt : operation_decrypt;
    operation.bytes = static_cast<std::uint32_t>(bytes);
    operation.source = copy;
    operation.target = direct ? out : copy;
    operation.iv = spec().iv_bytes != 0 ? iv_.data() : nullptr;
    fault = kernel_.run(operation);
    if (!fault && !direct) std::memcpy(out, copy, bytes);
    // Plaintext stays nowhere; in CTR either direction may yield it.
    if (fault || mode == Mode::ctr || encrypt == direct) wipe(copy, bytes);
    if (fault) return {.outcome = Outcome::failed, .done = done};
    next.store(request, out, bytes);
    done += bytes;
  }
  return {.outcome = Outcome::served, .done = done};
}

}  // namespace sunxi::cryptodev
