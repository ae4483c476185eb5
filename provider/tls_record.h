// SPDX-License-Identifier: Apache-2.0
// CBC records of TLS 1.0 to 1.2 and DTLS 1.0 and 1.2: what a provider adds before encryption and takes
// away after decryption (provider-cipher(7), "tls-version" and "tls-mac-size"; RFC 5246, 6.2.3.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace sunxi {

inline constexpr std::size_t max_mac_bytes = 64;

// Whether records of this protocol version begin with an IV of their own, one block; nothing for
// versions that are not known here (SSL 3.0 among them).
[[nodiscard]] std::optional<bool> tls_explicit_iv(unsigned int version) noexcept;

// Pads record[0, length) to `padded` bytes: at most 256 more, at least one.
void pad_tls_record(std::uint8_t* record, std::size_t length, std::size_t padded) noexcept;

// Takes padding and MAC off a decrypted record, without its explicit IV, in constant time: run time and
// memory addresses depend on length and mac_bytes alone, which the peer on the wire knows.
//
// payload <- the bytes before MAC and padding, a secret while mac_bytes > 0.
// mac[0, mac_bytes) <- the MAC; where the padding is wrong, random_mac[0, mac_bytes) backwards in its
// place, so that the caller's check of it fails just like that of a forged record.
// False, with nothing to be kept secret: record too short for mac_bytes (at most max_mac_bytes); wrong
// padding of a record without MAC.
// `random_mac` and `mac` are max_mac_bytes long, and random_mac is read as a whole.
[[nodiscard]] bool open_tls_record(const std::uint8_t* record, std::size_t length, std::size_t mac_bytes,
                                   const std::uint8_t* random_mac, std::uint8_t* mac,
                                   std::size_t* payload) noexcept;

}  // namespace sunxi
