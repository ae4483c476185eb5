// SPDX-License-Identifier: Apache-2.0
#include "provider/tls_record.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "backends/process.h"

namespace sunxi {
namespace {

// All ones or all zeros.
using Mask = std::size_t;

// The compiler must not know what a mask can be, or it may find a branch for it.
inline Mask hidden(Mask mask) noexcept {
  asm("" : "+r"(mask));
  return mask;
}

inline Mask less(std::size_t a, std::size_t b) noexcept {
  const std::size_t borrow = (~a & b) | (~(a ^ b) & (a - b));
  return hidden(Mask{0} - (borrow >> (std::numeric_limits<std::size_t>::digits - 1)));
}

inline std::uint8_t choose(Mask mask, std::uint8_t yes, std::uint8_t no) noexcept {
  return static_cast<std::uint8_t>((yes & mask) | (no & ~mask));
}

constexpr std::size_t most_padding = 256;  // with the byte that says how much
constexpr std::size_t tail_bytes = most_padding + max_mac_bytes;
// The end of a record, last byte first, so that what is behind the MAC is in front of it.
using Tail = std::array<std::uint8_t, tail_bytes>;

// One stage of a barrel shifter: drops the first `Step` bytes where that bit of `distance` is set. Of
// what remains, no more than `Bytes` matter to the stages that follow.
template <std::size_t Step, std::size_t Bytes>
inline void shift(Tail& tail, std::size_t distance) noexcept {
  static_assert(Step + Bytes <= tail_bytes);
  const Mask mask = hidden(Mask{0} - (distance / Step % 2));
  for (std::size_t i = 0; i < Bytes; ++i) tail[i] = choose(mask, tail[i + Step], tail[i]);
}

}  // namespace

// Everything that handles a secret, and nothing else: loops of fixed length, no other branch. A test
// looks at its machine code by its name. Returns the length of the padding, 0 if it is wrong; tail begins
// with the MAC, last byte first, or with random_mac.
extern "C" [[gnu::noinline]] std::size_t sunxi_open_tls_tail(
    std::array<std::uint8_t, tail_bytes>& tail, std::size_t length, std::size_t mac_bytes,
    const std::uint8_t* __restrict random_mac) noexcept {
  const std::size_t last = tail[0];
  std::size_t wrong = less(length, mac_bytes + 1 + last);
  for (std::size_t i = 0; i < most_padding; ++i) wrong |= ~less(last, i) & (tail[i] ^ last);
  const Mask good = less(wrong, 1);
  const std::size_t padding = good & (last + 1);

  constexpr std::size_t mac = max_mac_bytes;
  shift<256, mac>(tail, padding);
  shift<128, mac + 127>(tail, padding);
  shift<64, mac + 63>(tail, padding);
  shift<32, mac + 31>(tail, padding);
  shift<16, mac + 15>(tail, padding);
  shift<8, mac + 7>(tail, padding);
  shift<4, mac + 3>(tail, padding);
  shift<2, mac + 1>(tail, padding);
  shift<1, mac>(tail, padding);
  for (std::size_t i = 0; i < mac; ++i) tail[i] = choose(good, tail[i], random_mac[i]);
  return padding;
}

std::optional<bool> tls_explicit_iv(unsigned int version) noexcept {
  switch (version) {
    case 0x0301:  // TLS 1.0
      return false;
    case 0x0302:  // TLS 1.1
    case 0x0303:  // TLS 1.2
    case 0xfeff:  // DTLS 1.0
    case 0xfefd:  // DTLS 1.2
    case 0x0100:  // DTLS before it was a standard
      return true;
    default:
      return std::nullopt;
  }
}

void pad_tls_record(std::uint8_t* record, std::size_t length, std::size_t padded) noexcept {
  const std::size_t padding = padded - length;
  std::memset(record + length, static_cast<int>(padding - 1), padding);
}

namespace {

// With encrypt-then-mac the MAC has been checked before, and there is nothing to hide.
bool open_without_mac(const std::uint8_t* record, std::size_t length, std::size_t* payload) noexcept {
  const std::size_t padding = record[length - 1];
  if (padding >= length) return false;
  *payload = length - 1 - padding;
  return std::all_of(record + *payload, record + length, [&](std::uint8_t byte) { return byte == padding; });
}

}  // namespace

bool open_tls_record(const std::uint8_t* record, std::size_t length, std::size_t mac_bytes,
                     const std::uint8_t* random_mac, std::uint8_t* mac, std::size_t* payload) noexcept {
  if (mac_bytes > max_mac_bytes || length < mac_bytes + 1) return false;
  if (mac_bytes == 0) return open_without_mac(record, length, payload);
  Tail tail{};
  std::reverse_copy(record + length - std::min(length, tail_bytes), record + length, tail.begin());
  const std::size_t padding = sunxi_open_tls_tail(tail, length, mac_bytes, random_mac);
  std::reverse_copy(tail.begin(), tail.begin() + static_cast<std::ptrdiff_t>(mac_bytes), mac);
  wipe(tail.data(), tail.size());
  *payload = length - mac_bytes - padding;
  return true;
}

}  // namespace sunxi
