// SPDX-License-Identifier: Apache-2.0
// The part of /dev/crypto's interface that is used here, declared anew so that no header of the module is
// needed. Source: cryptodev-linux, crypto/cryptodev.h (public domain), and zc.c, main.c, ioctl.c for what the
// calls do. Left out: AEAD and TLS modes, which are not safe to use, asynchronous calls, CRIOGET.
#pragma once

#include <sys/ioctl.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace sunxi::cryptodev {

// enum cryptodev_crypto_op_t. 0: none.
namespace number {
inline constexpr std::uint32_t des_cbc = 1, des3_cbc = 2, aes_cbc = 11, aes_ctr = 21, aes_xts = 22,
                               aes_ecb = 23;
inline constexpr std::uint32_t md5 = 13, sha1 = 14, sha224 = 103, sha256 = 104, sha384 = 105, sha512 = 106;
}  // namespace number

// struct session_op
struct SessionOp {
  std::uint32_t cipher;
  std::uint32_t mac;
  std::uint32_t key_bytes;
  const std::uint8_t* key;
  std::uint32_t mac_key_bytes;
  const std::uint8_t* mac_key;
  std::uint32_t session;  // out; 0 is as good as any
};

// struct crypt_op. Complete when the call returns. The memory at `source` and `target` is pinned and used in
// place; where it cannot be pinned (not writable, or a device's) version 1.14 gives back references that it
// does not have, so that only memory that is known to be good may be named.
struct CryptOp {
  std::uint32_t session;
  std::uint16_t operation;  // operation_*
  std::uint16_t flags;      // flag_*
  std::uint32_t bytes;
  const std::uint8_t* source;
  std::uint8_t* target;  // null for digests
  std::uint8_t* mac;     // the digest, where the call finishes one
  std::uint8_t* iv;      // read only, without a flag that is not used here; null for a mode without
};

inline constexpr std::uint16_t operation_encrypt = 0, operation_decrypt = 1;

// Digests. 0: a whole message, from its start to its digest. A message in pieces has to start with
// update + reset, because an update alone goes on from whatever was there. An update of no bytes finishes.
inline constexpr std::uint16_t flag_update = 1, flag_final = 2, flag_reset = 64;

// struct session_info_op
struct SessionInfo {
  struct Names {
    std::array<char, 64> algorithm;
    std::array<char, 64> driver;
  };
  std::uint32_t session;
  Names cipher;
  Names hash;
  std::uint16_t alignment_mask;
  std::uint32_t flags;
};

// struct cphash_op. The module does not compare the algorithms of the two.
struct CopyHashOp {
  std::uint32_t target;
  std::uint32_t source;
};

inline constexpr unsigned long open_session = _IOWR('c', 102, SessionOp);        // CIOCGSESSION
inline constexpr unsigned long close_session = _IOW('c', 103, std::uint32_t);    // CIOCFSESSION
inline constexpr unsigned long run = _IOWR('c', 104, CryptOp);                   // CIOCCRYPT
inline constexpr unsigned long describe_session = _IOWR('c', 107, SessionInfo);  // CIOCGSESSINFO
inline constexpr unsigned long copy_hash = _IOW('c', 112, CopyHashOp);           // CIOCCPHASH

// Either word size; the alignment of a pointer is its size on all that Linux runs on but m68k.
inline constexpr bool wide = sizeof(void*) == 8;

static_assert(sizeof(SessionOp) == (wide ? 48 : 28));
static_assert(offsetof(SessionOp, mac) == 4 && offsetof(SessionOp, key_bytes) == 8);
static_assert(offsetof(SessionOp, key) == (wide ? 16 : 12));
static_assert(offsetof(SessionOp, mac_key_bytes) == (wide ? 24 : 16));
static_assert(offsetof(SessionOp, mac_key) == (wide ? 32 : 20));
static_assert(offsetof(SessionOp, session) == (wide ? 40 : 24));

static_assert(sizeof(CryptOp) == (wide ? 48 : 28));
static_assert(offsetof(CryptOp, operation) == 4 && offsetof(CryptOp, flags) == 6 &&
              offsetof(CryptOp, bytes) == 8);
static_assert(offsetof(CryptOp, source) == (wide ? 16 : 12));
static_assert(offsetof(CryptOp, target) == (wide ? 24 : 16));
static_assert(offsetof(CryptOp, mac) == (wide ? 32 : 20));
static_assert(offsetof(CryptOp, iv) == (wide ? 40 : 24));

static_assert(sizeof(SessionInfo) == 268);
static_assert(offsetof(SessionInfo, cipher) == 4 && offsetof(SessionInfo, hash) == 132);
static_assert(offsetof(SessionInfo::Names, driver) == 64);
static_assert(offsetof(SessionInfo, alignment_mask) == 260 && offsetof(SessionInfo, flags) == 264);

static_assert(sizeof(CopyHashOp) == 8 && offsetof(CopyHashOp, source) == 4);

// In the usual encoding; Alpha, MIPS, PowerPC and SPARC have another.
#if !defined(__alpha__) && !defined(__mips__) && !defined(__powerpc__) && !defined(__sparc__)
static_assert(open_session == (wide ? 0xC0306366 : 0xC01C6366));
static_assert(close_session == 0x40046367);
static_assert(run == (wide ? 0xC0306368 : 0xC01C6368));
static_assert(describe_session == 0xC10C636B);
static_assert(copy_hash == 0x40086370);
#endif

}  // namespace sunxi::cryptodev
