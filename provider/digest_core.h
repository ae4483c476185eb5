// SPDX-License-Identifier: Apache-2.0
// Digests in software: libcrypto's own functions on a state that lives in our context, and the state's
// words and counters, so that an engine can absorb whole blocks in the middle of a message. The functions
// are deprecated and exported by every release from 3.0 to 4.0.
#pragma once

#ifndef OPENSSL_SUPPRESS_DEPRECATED
#error "define OPENSSL_SUPPRESS_DEPRECATED before the first include of OpenSSL"
#endif

#include <openssl/md5.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/backend.h"

namespace sunxi {

// DigestCore<D>: State, init, update, final, and
//   counted   all bytes since init
//   buffered  those of them that are an unfinished block, at buffer(), as they came
//   get_words, set_words   the chaining state: word_count numbers of type Word (AbsorbRequest::state)
//   get_bits, set_bits     the count of all bits, as two numbers of type Word
// and, where `words` says that Word has 32 bits, skip: counts bytes that somebody else absorbed.
template <Digest D>
struct DigestCore;

// Bit counts in two words.
template <class State>
inline std::uint64_t counted_bytes(const State& state) noexcept {
  if constexpr (sizeof state.Nl == sizeof(std::uint64_t)) {
    return state.Nl >> 3U;  // 2^61 bytes are enough
  } else {
    return ((static_cast<std::uint64_t>(state.Nh) << 32U) | state.Nl) >> 3U;
  }
}
template <class Word>
inline void add_bits(Word& low, Word& high, std::uint64_t bytes) noexcept {
  const std::uint64_t bits = ((static_cast<std::uint64_t>(high) << 32U) | low) + (bytes << 3U);
  low = static_cast<Word>(bits);
  high = static_cast<Word>(bits >> 32U);
}

// What all of them have under the same names.
template <class TheState, class TheWord, std::size_t Words>
struct CommonCore {
  using State = TheState;
  using Word = TheWord;
  static constexpr std::size_t word_count = Words;
  static constexpr bool words = sizeof(Word) == sizeof(std::uint32_t);

  static std::size_t buffered(const State& state) noexcept { return state.num; }
  static void set_buffered(State& state, std::size_t bytes) noexcept {
    state.num = static_cast<decltype(state.num)>(bytes);
  }
  static std::uint64_t counted(const State& state) noexcept { return counted_bytes(state); }
  static void skip(State& state, std::size_t bytes) noexcept requires(words) {
    add_bits(state.Nl, state.Nh, bytes);
  }
  static void get_bits(const State& state, Word& low, Word& high) noexcept {
    low = state.Nl;
    high = state.Nh;
  }
  static void set_bits(State& state, Word low, Word high) noexcept {
    state.Nl = low;
    state.Nh = high;
  }
};

template <>
struct DigestCore<Digest::md5> : CommonCore<MD5_CTX, std::uint32_t, 4> {
  static int init(State& state) noexcept { return MD5_Init(&state); }
  static int update(State& state, const void* in, std::size_t length) noexcept {
    return MD5_Update(&state, in, length);
  }
  static int final(State& state, unsigned char* out) noexcept { return MD5_Final(out, &state); }
  static void* buffer(State& state) noexcept { return state.data; }
  static void get_words(const State& state, Word* to) noexcept {
    to[0] = state.A;
    to[1] = state.B;
    to[2] = state.C;
    to[3] = state.D;
  }
  static void set_words(State& state, const Word* from) noexcept {
    state.A = from[0];
    state.B = from[1];
    state.C = from[2];
    state.D = from[3];
  }
};

template <>
struct DigestCore<Digest::sha1> : CommonCore<SHA_CTX, std::uint32_t, 5> {
  static int init(State& state) noexcept { return SHA1_Init(&state); }
  static int update(State& state, const void* in, std::size_t length) noexcept {
    return SHA1_Update(&state, in, length);
  }
  static int final(State& state, unsigned char* out) noexcept { return SHA1_Final(out, &state); }
  static void* buffer(State& state) noexcept { return state.data; }
  static void get_words(const State& state, Word* to) noexcept {
    to[0] = state.h0;
    to[1] = state.h1;
    to[2] = state.h2;
    to[3] = state.h3;
    to[4] = state.h4;
  }
  static void set_words(State& state, const Word* from) noexcept {
    state.h0 = from[0];
    state.h1 = from[1];
    state.h2 = from[2];
    state.h3 = from[3];
    state.h4 = from[4];
  }
};

// Those whose states have an array of eight words.
template <class State, class Word>
struct ArrayCore : CommonCore<State, Word, 8> {
  static void get_words(const State& state, Word* to) noexcept { std::copy_n(state.h, 8, to); }
  static void set_words(State& state, const Word* from) noexcept { std::copy_n(from, 8, state.h); }
};

struct Sha256Core : ArrayCore<SHA256_CTX, std::uint32_t> {
  static int update(State& state, const void* in, std::size_t length) noexcept {
    return SHA256_Update(&state, in, length);
  }
  static int final(State& state, unsigned char* out) noexcept { return SHA256_Final(out, &state); }
  static void* buffer(State& state) noexcept { return state.data; }
};
template <>
struct DigestCore<Digest::sha224> : Sha256Core {
  static int init(State& state) noexcept { return SHA224_Init(&state); }
};
template <>
struct DigestCore<Digest::sha256> : Sha256Core {
  static int init(State& state) noexcept { return SHA256_Init(&state); }
};

struct Sha512Core : ArrayCore<SHA512_CTX, std::uint64_t> {
  static int update(State& state, const void* in, std::size_t length) noexcept {
    return SHA512_Update(&state, in, length);
  }
  static int final(State& state, unsigned char* out) noexcept { return SHA512_Final(out, &state); }
  static void* buffer(State& state) noexcept { return state.u.p; }

 protected:
  // SHA-512/t: SHA-512 from other initial values, cut (FIPS 180-4, 5.3.6). libcrypto exports no init for
  // them; SHA512_Final cuts to md_len.
  static int init_cut(State& state, unsigned int bytes, const std::array<std::uint64_t, 8>& values) noexcept {
    if (SHA512_Init(&state) == 0) return 0;
    for (std::size_t i = 0; i < values.size(); ++i) state.h[i] = values[i];
    state.md_len = bytes;
    return 1;
  }
};
template <>
struct DigestCore<Digest::sha384> : Sha512Core {
  static int init(State& state) noexcept { return SHA384_Init(&state); }
};
template <>
struct DigestCore<Digest::sha512> : Sha512Core {
  static int init(State& state) noexcept { return SHA512_Init(&state); }
};
template <>
struct DigestCore<Digest::sha512_224> : Sha512Core {
  static int init(State& state) noexcept {
    return init_cut(state, 28,
                    {0x8c3d37c819544da2, 0x73e1996689dcd4d6, 0x1dfab7ae32ff9c82, 0x679dd514582f9fcf,
                     0x0f6d2b697bd44da8, 0x77e36f7304c48942, 0x3f9d85a86a1d36c8, 0x1112e6ad91d692a1});
  }
};
template <>
struct DigestCore<Digest::sha512_256> : Sha512Core {
  static int init(State& state) noexcept {
    return init_cut(state, 32,
                    {0x22312194fc2bf72c, 0x9f555fa3c84c64c2, 0x2393b86b6f53b151, 0x963877195940eabd,
                     0x96283ee2a88effe3, 0xbe5e1e2553863992, 0x2b0199fc2c85b8aa, 0x0eb72ddc81c52ca2});
  }
};

}  // namespace sunxi
