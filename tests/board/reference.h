// SPDX-License-Identifier: Apache-2.0
// What the engine should give: libcrypto's own ciphers and digests. And repeatable random cases.
#pragma once

#include <openssl/evp.h>
#include <openssl/md5.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "backends/backend.h"

namespace sunxi::board {

using Bytes = std::vector<std::uint8_t>;

// Repeatable on purpose.
inline std::mt19937_64 seeded(std::uint64_t seed) {
  return std::mt19937_64(seed);
}

inline Bytes random_bytes(std::mt19937_64& random, std::size_t size) {
  Bytes bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

inline std::size_t up_to(std::mt19937_64& random, std::size_t limit) {
  return std::uniform_int_distribution<std::size_t>(0, limit)(random);
}

// Nine in ten up to 1 KiB, the others up to 16 KiB; whole blocks.
inline std::size_t random_length(std::mt19937_64& random, std::size_t block_bytes) {
  const std::size_t limit = (up_to(random, 9) != 0 ? 1024 : 16384) / block_bytes;
  return block_bytes * (1 + up_to(random, limit - 1));
}

inline constexpr CipherSpec aes_128_cbc{Cipher::aes, Mode::cbc, 16, 16, 16};

// All that an engine of the first generation has.
inline constexpr std::array cipher_specs{
    aes_128_cbc,
    CipherSpec{Cipher::aes, Mode::cbc, 24, 16, 16},
    CipherSpec{Cipher::aes, Mode::cbc, 32, 16, 16},
    CipherSpec{Cipher::aes, Mode::ecb, 16, 16, 0},
    CipherSpec{Cipher::aes, Mode::ecb, 24, 16, 0},
    CipherSpec{Cipher::aes, Mode::ecb, 32, 16, 0},
    CipherSpec{Cipher::des, Mode::cbc, 8, 8, 8},
    CipherSpec{Cipher::des, Mode::ecb, 8, 8, 0},
    CipherSpec{Cipher::des3, Mode::cbc, 16, 8, 8},
    CipherSpec{Cipher::des3, Mode::ecb, 16, 8, 0},
    CipherSpec{Cipher::des3, Mode::cbc, 24, 8, 8},
    CipherSpec{Cipher::des3, Mode::ecb, 24, 8, 0},
    CipherSpec{Cipher::aes, Mode::ctr, 16, 16, 16},
    CipherSpec{Cipher::aes, Mode::ctr, 24, 16, 16},
    CipherSpec{Cipher::aes, Mode::ctr, 32, 16, 16},
};
inline constexpr DigestSpec md5_spec{Digest::md5, 64, 16};
inline constexpr DigestSpec sha1_spec{Digest::sha1, 64, 20};
inline constexpr std::array digest_specs{md5_spec, sha1_spec};

inline CipherSpec random_spec(std::mt19937_64& random) {
  return cipher_specs[up_to(random, cipher_specs.size() - 1)];
}

// DES is triple DES with one key three times: libcrypto keeps DES itself in a module of its own.
inline const EVP_CIPHER* reference_cipher(const CipherSpec& spec) {
  const bool cbc = spec.mode == Mode::cbc;
  if (spec.cipher != Cipher::aes) {
    if (spec.key_bytes == 16) return cbc ? EVP_des_ede_cbc() : EVP_des_ede_ecb();
    return cbc ? EVP_des_ede3_cbc() : EVP_des_ede3_ecb();
  }
  if (spec.mode == Mode::ctr) {
    return spec.key_bytes == 16   ? EVP_aes_128_ctr()
           : spec.key_bytes == 24 ? EVP_aes_192_ctr()
                                  : EVP_aes_256_ctr();
  }
  switch (spec.key_bytes) {
    case 16:
      return cbc ? EVP_aes_128_cbc() : EVP_aes_128_ecb();
    case 24:
      return cbc ? EVP_aes_192_cbc() : EVP_aes_192_ecb();
    default:
      return cbc ? EVP_aes_256_cbc() : EVP_aes_256_ecb();
  }
}

inline Bytes reference_crypt(const CipherSpec& spec, Bytes key, const Bytes& iv, Direction direction,
                             const std::uint8_t* in, std::size_t length) {
  if (spec.cipher == Cipher::des) {
    key.insert(key.end(), {key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]});
    key.insert(key.end(), {key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]});
  }
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  Bytes out(length + 16);
  int size = 0;
  const bool good = context != nullptr &&
                    EVP_CipherInit_ex(context, reference_cipher(spec), nullptr, key.data(), iv.data(),
                                      direction == Direction::encrypt) == 1 &&
                    EVP_CIPHER_CTX_set_padding(context, 0) == 1 &&
                    EVP_CipherUpdate(context, out.data(), &size, in, static_cast<int>(length)) == 1;
  EVP_CIPHER_CTX_free(context);
  if (!good || size != static_cast<int>(length)) throw std::runtime_error("the reference failed");
  out.resize(length);
  return out;
}

using DigestState = std::array<std::uint32_t, 5>;
inline constexpr DigestState initial_state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};

inline std::size_t state_words(const DigestSpec& spec) {
  return spec.digest_bytes / 4U;
}

inline DigestState reference_absorb(const DigestSpec& spec, DigestState state, const std::uint8_t* in,
                                    std::size_t length) {
  SHA_CTX sha{};
  sha.h0 = state[0];
  sha.h1 = state[1];
  sha.h2 = state[2];
  sha.h3 = state[3];
  sha.h4 = state[4];
  MD5_CTX md5{};
  md5.A = state[0];
  md5.B = state[1];
  md5.C = state[2];
  md5.D = state[3];
  for (; length != 0; in += 64, length -= 64) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // EVP takes no state
    spec.digest == Digest::sha1 ? SHA1_Transform(&sha, in) : MD5_Transform(&md5, in);
#pragma GCC diagnostic pop
  }
  if (spec.digest == Digest::sha1) return {sha.h0, sha.h1, sha.h2, sha.h3, sha.h4};
  return {md5.A, md5.B, md5.C, md5.D, state[4]};
}

inline Bytes reference_digest(const DigestSpec& spec, const Bytes& message) {
  Bytes out(spec.digest_bytes);
  unsigned size = 0;
  if (EVP_Digest(message.data(), message.size(), out.data(), &size,
                 spec.digest == Digest::sha1 ? EVP_sha1() : EVP_md5(), nullptr) != 1) {
    throw std::runtime_error("the reference failed");
  }
  return out;
}

// The message with the padding that its digest has, in whole blocks.
inline Bytes padded(const DigestSpec& spec, Bytes message) {
  const std::uint64_t bits = std::uint64_t{8} * message.size();
  message.push_back(0x80);
  while (message.size() % 64 != 56) message.push_back(0);
  for (unsigned byte = 0; byte < 8; ++byte) {
    const unsigned shift = spec.digest == Digest::sha1 ? 56 - 8 * byte : 8 * byte;
    message.push_back(static_cast<std::uint8_t>(bits >> shift));
  }
  return message;
}

inline Bytes digest_of(const DigestSpec& spec, const DigestState& state) {
  Bytes out;
  for (std::size_t word = 0; word < state_words(spec); ++word) {
    for (unsigned byte = 0; byte < 4; ++byte) {
      const unsigned shift = spec.digest == Digest::sha1 ? 24 - 8 * byte : 8 * byte;
      out.push_back(static_cast<std::uint8_t>(state[word] >> shift));
    }
  }
  return out;
}

// Blocks at any address into a state of any words.
struct AbsorbCase {
  explicit AbsorbCase(std::mt19937_64& random, std::size_t length = 0)
      : AbsorbCase(random, length, digest_specs[up_to(random, digest_specs.size() - 1)]) {}
  AbsorbCase(std::mt19937_64& random, std::size_t length, const DigestSpec& what)
      : spec(what), size(length != 0 ? length : random_length(random, 64)), at(up_to(random, 8)) {
    memory = random_bytes(random, at + size);
    for (std::uint32_t& word : before) word = static_cast<std::uint32_t>(random());
    state = before;
  }

  AbsorbRequest request() { return {spec, state.data(), memory.data() + at, size}; }

  // Exactly `done` bytes are in the state.
  [[nodiscard]] bool right(std::size_t done) const {
    return done % 64 == 0 && state == reference_absorb(spec, before, memory.data() + at, done);
  }

  DigestSpec spec;
  std::size_t size;
  std::size_t at;
  Bytes memory;
  DigestState before{};
  DigestState state{};
};

// A request with buffers of its own: apart, the same, or with the output somewhat behind the input.
struct Case {
  explicit Case(std::mt19937_64& random, std::size_t length = 0)
      : Case(random, length, random_spec(random)) {}
  Case(std::mt19937_64& random, std::size_t length, const CipherSpec& what)
      : spec(what),
        direction(up_to(random, 1) != 0 ? Direction::encrypt : Direction::decrypt),
        key(random_bytes(random, spec.key_bytes)),
        iv(random_bytes(random, spec.iv_bytes)),
        size(length != 0 ? length : random_length(random, spec.block_bytes)) {
    // Every second counter is about to wrap, at 128, 64 or any number of bits.
    if (spec.mode == Mode::ctr && up_to(random, 1) != 0) {
      std::fill(iv.begin() + static_cast<std::ptrdiff_t>(up_to(random, 14)), iv.end(), std::uint8_t{0xff});
    }
    const std::size_t layout = up_to(random, 2);
    const std::size_t gap = layout == 0 ? size + 64 : layout == 1 ? 0 : 1 + up_to(random, 100);
    out_at = up_to(random, 16);
    in_at = out_at + gap + (layout == 0 ? up_to(random, 16) : 0);
    memory = random_bytes(random, in_at + size + 16);
    before = memory;
    expected = reference_crypt(spec, key, iv, direction, memory.data() + in_at, size);
    running_iv = iv;
  }

  CipherRequest request() {
    return {spec, direction, key, running_iv.data(), memory.data() + in_at, memory.data() + out_at, size};
  }

  // Output and IV are right up to `done`, and the input from there on and all around is as it was.
  [[nodiscard]] bool right(std::size_t done) const {
    Bytes should = before;
    std::copy_n(expected.begin(), done, should.begin() + static_cast<std::ptrdiff_t>(out_at));
    if (should != memory) return false;
    Bytes next = iv;
    if (spec.mode == Mode::ctr) {
      for (std::size_t block = 0; block < done / 16; ++block) {
        for (std::size_t byte = 16; byte-- != 0 && ++next[byte] == 0;) {
        }
      }
    } else if (done != 0) {
      const Bytes& ciphertext = direction == Direction::encrypt ? expected : before;
      const std::size_t at = (direction == Direction::encrypt ? 0 : in_at) + done - iv.size();
      next.assign(ciphertext.begin() + static_cast<std::ptrdiff_t>(at),
                  ciphertext.begin() + static_cast<std::ptrdiff_t>(at + iv.size()));
    }
    return running_iv == next;
  }

  CipherSpec spec;
  Direction direction;
  Bytes key;
  Bytes iv;
  std::size_t size;
  std::size_t in_at;
  std::size_t out_at;
  Bytes memory;
  Bytes before;
  Bytes expected;
  Bytes running_iv;
};

}  // namespace sunxi::board
