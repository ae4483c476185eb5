// SPDX-License-Identifier: Apache-2.0
// What the modelled module computes, by libcrypto's functions for one algorithm: no provider, no library
// context, no configuration, no allocation, so that a provider under test is never asked by its own device
// and a state is plain memory that several processes can share.
#pragma once

#include <openssl/aes.h>
#include <openssl/des.h>
#include <openssl/md5.h>
#include <openssl/ripemd.h>
#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sunxi::standin {

enum class CipherKind : std::uint8_t { null, aes_cbc, aes_ecb, aes_ctr, aes_xts, des_cbc, des3_cbc, aead };

struct CipherRow {
  std::uint32_t number;  // of the interface
  const char* name;      // the kernel's
  CipherKind kind;
  std::uint8_t block_bytes;  // of which a length must be a multiple
  std::uint8_t iv_bytes;
  std::uint8_t least_key;
  std::uint8_t most_key;
};

enum class HashKind : std::uint8_t { md5, sha1, ripemd160, sha224, sha256, sha384, sha512 };

struct HashRow {
  std::uint32_t number;
  const char* name;
  HashKind kind;
  bool keyed;  // an HMAC
  std::uint8_t digest_bytes;
  std::uint8_t block_bytes;
};

// Null: a number without an algorithm.
[[nodiscard]] const CipherRow* find_cipher(std::uint32_t number);
[[nodiscard]] const HashRow* find_hash(std::uint32_t number);

struct CipherState {
  AES_KEY encrypt;
  AES_KEY decrypt;
  AES_KEY tweak;
  std::array<DES_key_schedule, 3> des;
  std::array<std::uint8_t, 16> iv;
};

// False: a key that the kernel refuses. `fips`: as a kernel in FIPS mode, which forbids weak keys.
[[nodiscard]] bool set_key(const CipherRow& row, CipherState& state, std::span<const std::uint8_t> key,
                           bool fips);
// One request of the driver: `bytes` is a multiple of the block; the state's IV moves on as the driver's.
void run_cipher(const CipherRow& row, CipherState& state, bool encrypt, const std::uint8_t* in,
                std::uint8_t* out, std::size_t bytes);

union HashContext {
  MD5_CTX md5;
  SHA_CTX sha1;
  RIPEMD160_CTX ripemd160;
  SHA256_CTX sha256;
  SHA512_CTX sha512;
  std::array<std::uint8_t, 256> bytes;
};

struct HashState {
  HashContext running;
  HashContext inner;  // where each message begins
  HashContext outer;  // of an HMAC
};

// Makes `inner` and `outer`; what is running is not a message yet, but no error either.
void set_hash(const HashRow& row, HashState& state, std::span<const std::uint8_t> key);
void reset_hash(HashState& state);
void update_hash(const HashRow& row, HashState& state, const std::uint8_t* in, std::size_t bytes);
void finish_hash(const HashRow& row, HashState& state, std::uint8_t* digest);
// What a message becomes that nobody started.
void spoil_hash(HashState& state);

}  // namespace sunxi::standin
