// SPDX-License-Identifier: Apache-2.0
// The ciphers and digests behind the modelled module.
#define OPENSSL_SUPPRESS_DEPRECATED  // libcrypto's functions for one algorithm: see the header
#include "tests/cryptodev/algorithms.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sunxi::standin {
namespace {

constexpr std::array ciphers{
    CipherRow{1, "cbc(des)", CipherKind::des_cbc, 8, 8, 8, 8},
    CipherRow{2, "cbc(des3_ede)", CipherKind::des3_cbc, 8, 8, 24, 24},
    CipherRow{11, "cbc(aes)", CipherKind::aes_cbc, 16, 16, 16, 32},
    CipherRow{16, "ecb(cipher_null)", CipherKind::null, 1, 0, 0, 0},
    CipherRow{21, "ctr(aes)", CipherKind::aes_ctr, 1, 16, 16, 32},
    CipherRow{22, "xts(aes)", CipherKind::aes_xts, 16, 16, 32, 64},
    CipherRow{23, "ecb(aes)", CipherKind::aes_ecb, 16, 0, 16, 32},
    CipherRow{50, "gcm(aes)", CipherKind::aead, 1, 12, 16, 32},
    CipherRow{51, "ccm(aes)", CipherKind::aead, 1, 16, 16, 32},
};

constexpr std::array hashes{
    HashRow{6, "hmac(md5)", HashKind::md5, true, 16, 64},
    HashRow{7, "hmac(sha1)", HashKind::sha1, true, 20, 64},
    HashRow{8, "hmac(rmd160)", HashKind::ripemd160, true, 20, 64},
    HashRow{13, "md5", HashKind::md5, false, 16, 64},
    HashRow{14, "sha1", HashKind::sha1, false, 20, 64},
    HashRow{18, "hmac(sha256)", HashKind::sha256, true, 32, 64},
    HashRow{19, "hmac(sha384)", HashKind::sha384, true, 48, 128},
    HashRow{20, "hmac(sha512)", HashKind::sha512, true, 64, 128},
    HashRow{102, "rmd160", HashKind::ripemd160, false, 20, 64},
    HashRow{103, "sha224", HashKind::sha224, false, 28, 64},
    HashRow{104, "sha256", HashKind::sha256, false, 32, 64},
    HashRow{105, "sha384", HashKind::sha384, false, 48, 128},
    HashRow{106, "sha512", HashKind::sha512, false, 64, 128},
    HashRow{107, "hmac(sha224)", HashKind::sha224, true, 28, 64},
};

// For a request without an address; it has no bytes.
constexpr std::array<std::uint8_t, 1> nothing{};

void begin(HashKind kind, HashContext& context) {
  context = {};
  switch (kind) {
    case HashKind::md5:
      MD5_Init(&context.md5);
      break;
    case HashKind::sha1:
      SHA1_Init(&context.sha1);
      break;
    case HashKind::ripemd160:
      RIPEMD160_Init(&context.ripemd160);
      break;
    case HashKind::sha224:
      SHA224_Init(&context.sha256);
      break;
    case HashKind::sha256:
      SHA256_Init(&context.sha256);
      break;
    case HashKind::sha384:
      SHA384_Init(&context.sha512);
      break;
    case HashKind::sha512:
      SHA512_Init(&context.sha512);
      break;
  }
}

void add(HashKind kind, HashContext& context, const std::uint8_t* in, std::size_t bytes) {
  switch (kind) {
    case HashKind::md5:
      MD5_Update(&context.md5, in, bytes);
      break;
    case HashKind::sha1:
      SHA1_Update(&context.sha1, in, bytes);
      break;
    case HashKind::ripemd160:
      RIPEMD160_Update(&context.ripemd160, in, bytes);
      break;
    case HashKind::sha224:
    case HashKind::sha256:
      SHA256_Update(&context.sha256, in, bytes);
      break;
    case HashKind::sha384:
    case HashKind::sha512:
      SHA512_Update(&context.sha512, in, bytes);
      break;
  }
}

void finish(HashKind kind, HashContext& context, std::uint8_t* out) {
  switch (kind) {
    case HashKind::md5:
      MD5_Final(out, &context.md5);
      break;
    case HashKind::sha1:
      SHA1_Final(out, &context.sha1);
      break;
    case HashKind::ripemd160:
      RIPEMD160_Final(out, &context.ripemd160);
      break;
    case HashKind::sha224:
    case HashKind::sha256:
      SHA256_Final(out, &context.sha256);
      break;
    case HashKind::sha384:
    case HashKind::sha512:
      SHA512_Final(out, &context.sha512);
      break;
  }
}

bool set_aes(AES_KEY& encrypt, AES_KEY* decrypt, std::span<const std::uint8_t> key) {
  const int bits = static_cast<int>(key.size() * 8);
  return AES_set_encrypt_key(key.data(), bits, &encrypt) == 0 &&
         (decrypt == nullptr || AES_set_decrypt_key(key.data(), bits, decrypt) == 0);
}

void run_ctr(CipherState& state, const std::uint8_t* in, std::uint8_t* out, std::size_t bytes) {
  std::array<std::uint8_t, 16> stream{};
  while (bytes != 0) {
    AES_encrypt(state.iv.data(), stream.data(), &state.encrypt);
    for (std::size_t i = 16; i-- != 0 && ++state.iv[i] == 0;) {
    }
    const std::size_t step = std::min<std::size_t>(bytes, 16);
    for (std::size_t i = 0; i < step; ++i) out[i] = in[i] ^ stream[i];
    in += step;
    out += step;
    bytes -= step;
  }
}

// The IV stays what it was: a data unit has no successor.
void run_xts(CipherState& state, bool encrypt, const std::uint8_t* in, std::uint8_t* out, std::size_t bytes) {
  std::array<std::uint8_t, 16> tweak{};
  std::array<std::uint8_t, 16> block{};
  AES_encrypt(state.iv.data(), tweak.data(), &state.tweak);
  for (; bytes != 0; bytes -= 16, in += 16, out += 16) {
    for (std::size_t i = 0; i < 16; ++i) block[i] = in[i] ^ tweak[i];
    if (encrypt) {
      AES_encrypt(block.data(), block.data(), &state.encrypt);
    } else {
      AES_decrypt(block.data(), block.data(), &state.decrypt);
    }
    for (std::size_t i = 0; i < 16; ++i) out[i] = block[i] ^ tweak[i];
    std::uint8_t carry = 0;
    for (std::uint8_t& byte : tweak) {
      const auto next = static_cast<std::uint8_t>(byte >> 7U);
      byte = static_cast<std::uint8_t>((byte << 1U) | carry);
      carry = next;
    }
    tweak[0] = static_cast<std::uint8_t>(tweak[0] ^ (carry * 0x87));
  }
}

bool same(std::span<const std::uint8_t> one, std::span<const std::uint8_t> other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end());
}

}  // namespace

const CipherRow* find_cipher(std::uint32_t number) {
  const auto* row = std::find_if(ciphers.begin(), ciphers.end(),
                                 [&](const CipherRow& one) { return one.number == number; });
  return row == ciphers.end() ? nullptr : row;
}

const HashRow* find_hash(std::uint32_t number) {
  const auto* row =
      std::find_if(hashes.begin(), hashes.end(), [&](const HashRow& one) { return one.number == number; });
  return row == hashes.end() ? nullptr : row;
}

bool set_key(const CipherRow& row, CipherState& state, std::span<const std::uint8_t> key, bool fips) {
  if (key.size() < row.least_key || key.size() > row.most_key) return false;
  switch (row.kind) {
    case CipherKind::null:
      return true;
    case CipherKind::aead:
      return set_aes(state.encrypt, nullptr, key);
    case CipherKind::aes_cbc:
    case CipherKind::aes_ecb:
    case CipherKind::aes_ctr:
      return set_aes(state.encrypt, &state.decrypt, key);
    case CipherKind::aes_xts: {
      if (key.size() % 2 != 0) return false;
      const auto data = key.first(key.size() / 2);
      const auto tweak = key.last(key.size() / 2);
      if (fips && same(data, tweak)) return false;
      return set_aes(state.encrypt, &state.decrypt, data) && set_aes(state.tweak, nullptr, tweak);
    }
    case CipherKind::des_cbc:
    case CipherKind::des3_cbc:
      if (fips && (key.size() == 8 || same(key.first(8), key.subspan(8, 8)) ||
                   same(key.subspan(8, 8), key.last(8)) || same(key.first(8), key.last(8)))) {
        return false;
      }
      for (std::size_t i = 0; i < key.size() / 8; ++i) {
        DES_cblock part;
        std::copy_n(key.begin() + static_cast<std::ptrdiff_t>(8 * i), 8, std::begin(part));
        DES_set_key_unchecked(&part, &state.des[i]);
      }
      return true;
  }
  return false;
}

void run_cipher(const CipherRow& row, CipherState& state, bool encrypt, const std::uint8_t* in,
                std::uint8_t* out, std::size_t bytes) {
  const int aes = encrypt ? AES_ENCRYPT : AES_DECRYPT;
  const int des = encrypt ? DES_ENCRYPT : DES_DECRYPT;
  const AES_KEY& schedule = encrypt ? state.encrypt : state.decrypt;
  auto* block_iv = reinterpret_cast<DES_cblock*>(state.iv.data());
  switch (row.kind) {
    case CipherKind::null:
      std::memmove(out, in, bytes);
      break;
    case CipherKind::aes_cbc:
      AES_cbc_encrypt(in, out, bytes, &schedule, state.iv.data(), aes);
      break;
    case CipherKind::aes_ecb:
      for (; bytes != 0; bytes -= 16, in += 16, out += 16) AES_ecb_encrypt(in, out, &schedule, aes);
      break;
    case CipherKind::aes_ctr:
      run_ctr(state, in, out, bytes);
      break;
    case CipherKind::aes_xts:
      run_xts(state, encrypt, in, out, bytes);
      break;
    case CipherKind::des_cbc:
      DES_ncbc_encrypt(in, out, static_cast<long>(bytes), state.des.data(), block_iv, des);
      break;
    case CipherKind::des3_cbc:
      DES_ede3_cbc_encrypt(in, out, static_cast<long>(bytes), &state.des[0], &state.des[1], &state.des[2],
                           block_iv, des);
      break;
    case CipherKind::aead:
      break;
  }
}

void set_hash(const HashRow& row, HashState& state, std::span<const std::uint8_t> key) {
  begin(row.kind, state.inner);
  if (row.keyed) {
    std::array<std::uint8_t, 128> block{};
    if (key.size() > row.block_bytes) {
      add(row.kind, state.inner, key.data(), key.size());
      finish(row.kind, state.inner, block.data());
      begin(row.kind, state.inner);
    } else {
      std::copy(key.begin(), key.end(), block.begin());
    }
    for (std::uint8_t& byte : block) byte ^= 0x36;
    add(row.kind, state.inner, block.data(), row.block_bytes);
    for (std::uint8_t& byte : block) byte ^= 0x36 ^ 0x5c;
    begin(row.kind, state.outer);
    add(row.kind, state.outer, block.data(), row.block_bytes);
  }
  state.running = state.inner;
  spoil_hash(state);
}

void reset_hash(HashState& state) {
  state.running = state.inner;
}

void update_hash(const HashRow& row, HashState& state, const std::uint8_t* in, std::size_t bytes) {
  add(row.kind, state.running, in != nullptr ? in : nothing.data(), bytes);
}

void finish_hash(const HashRow& row, HashState& state, std::uint8_t* digest) {
  finish(row.kind, state.running, digest);
  if (!row.keyed) return;
  HashContext outer = state.outer;
  add(row.kind, outer, digest, row.digest_bytes);
  finish(row.kind, outer, digest);
}

void spoil_hash(HashState& state) {
  for (std::size_t i = 0; i < 16; ++i) state.running.bytes[i] ^= 0xa5;
}

}  // namespace sunxi::standin
