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
#include <cstring>

#include "backends/backend.h"
#include "provider/libcrypto.h"

// C throws nothing: only where GCC knows that can a noexcept function end in a jump to them.
#ifndef __clang__
extern "C" {
[[gnu::nothrow]] decltype(MD5_Update) MD5_Update;
[[gnu::nothrow]] decltype(MD5_Final) MD5_Final;
[[gnu::nothrow]] decltype(SHA1_Update) SHA1_Update;
[[gnu::nothrow]] decltype(SHA1_Final) SHA1_Final;
[[gnu::nothrow]] decltype(SHA256_Update) SHA256_Update;
[[gnu::nothrow]] decltype(SHA256_Final) SHA256_Final;
[[gnu::nothrow]] decltype(SHA512_Update) SHA512_Update;
[[gnu::nothrow]] decltype(SHA512_Final) SHA512_Final;
}
#endif

namespace sunxi {

// DigestCore<D>: State, init, update, final, is_usable (whether libcrypto's functions are what we call), and
//   counted   all bytes since init
//   is_at_start   whether there is none
//   buffered  those of them that are an unfinished block, at buffer(), as they came
//   get_words, set_words   the chaining state: word_count numbers of type Word (AbsorbRequest::state)
//   get_bits, set_bits     the count of all bits, as two numbers of type Word
// and, where `words` says that Word has 32 bits, skip: counts bytes that somebody else absorbed.
template <Digest D>
struct DigestCore;

inline auto& state_buffer(SHA512_CTX& state) noexcept {
  return state.u;
}
inline auto& state_buffer(auto& state) noexcept {
  return state.data;
}

// As libcrypto's init, at a fraction of its cost: what another message left in the buffer is overwritten only
// if there is something, and no call is made.
template <class State>
inline void start(State& state) noexcept {
  state.Nl = 0;
  state.Nh = 0;
  if (state.num != 0) [[unlikely]]
    std::memset(&state_buffer(state), 0, sizeof state_buffer(state));
  state.num = 0;
}
template <class State, class Word>
inline void start(State& state, unsigned int bytes, const std::array<Word, 8>& values) noexcept {
  for (std::size_t i = 0; i < values.size(); ++i) state.h[i] = values[i];
  state.md_len = bytes;
  start(state);
}

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
  static bool is_at_start(const State& state) noexcept { return (state.Nl | state.Nh) == 0; }
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
  static void init(State& state) noexcept {  // RFC 1321, 3.3
    state.A = 0x67452301;
    state.B = 0xefcdab89;
    state.C = 0x98badcfe;
    state.D = 0x10325476;
    start(state);
  }
  static bool is_usable() noexcept { return are_libcrypto_s({any(MD5_Update), any(MD5_Final)}); }
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
  static void init(State& state) noexcept {  // FIPS 180-4, 5.3.1, as all below
    state.h0 = 0x67452301;
    state.h1 = 0xefcdab89;
    state.h2 = 0x98badcfe;
    state.h3 = 0x10325476;
    state.h4 = 0xc3d2e1f0;
    start(state);
  }
  static bool is_usable() noexcept { return are_libcrypto_s({any(SHA1_Update), any(SHA1_Final)}); }
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
  static bool is_usable() noexcept { return are_libcrypto_s({any(SHA256_Update), any(SHA256_Final)}); }
  static int update(State& state, const void* in, std::size_t length) noexcept {
    return SHA256_Update(&state, in, length);
  }
  static int final(State& state, unsigned char* out) noexcept { return SHA256_Final(out, &state); }
  static void* buffer(State& state) noexcept { return state.data; }
};
template <>
struct DigestCore<Digest::sha224> : Sha256Core {
  static void init(State& state) noexcept {
    start<State, std::uint32_t>(
        state, 28,
        {0xc1059ed8, 0x367cd507, 0x3070dd17, 0xf70e5939, 0xffc00b31, 0x68581511, 0x64f98fa7, 0xbefa4fa4});
  }
};
template <>
struct DigestCore<Digest::sha256> : Sha256Core {
  static void init(State& state) noexcept {
    start<State, std::uint32_t>(
        state, 32,
        {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19});
  }
};

struct Sha512Core : ArrayCore<SHA512_CTX, std::uint64_t> {
  static bool is_usable() noexcept { return are_libcrypto_s({any(SHA512_Update), any(SHA512_Final)}); }
  static int update(State& state, const void* in, std::size_t length) noexcept {
    return SHA512_Update(&state, in, length);
  }
  static int final(State& state, unsigned char* out) noexcept { return SHA512_Final(out, &state); }
  static void* buffer(State& state) noexcept { return state.u.p; }
};
template <>
struct DigestCore<Digest::sha384> : Sha512Core {
  static void init(State& state) noexcept {
    start<State, std::uint64_t>(
        state, 48,
        {0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17, 0x152fecd8f70e5939, 0x67332667ffc00b31,
         0x8eb44a8768581511, 0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4});
  }
};
template <>
struct DigestCore<Digest::sha512> : Sha512Core {
  static void init(State& state) noexcept {
    start<State, std::uint64_t>(
        state, 64,
        {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1, 0x510e527fade682d1,
         0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179});
  }
};
template <>
struct DigestCore<Digest::sha512_224> : Sha512Core {  // 5.3.6; SHA512_Final cuts to md_len
  static void init(State& state) noexcept {
    start<State, std::uint64_t>(
        state, 28,
        {0x8c3d37c819544da2, 0x73e1996689dcd4d6, 0x1dfab7ae32ff9c82, 0x679dd514582f9fcf, 0x0f6d2b697bd44da8,
         0x77e36f7304c48942, 0x3f9d85a86a1d36c8, 0x1112e6ad91d692a1});
  }
};
template <>
struct DigestCore<Digest::sha512_256> : Sha512Core {
  static void init(State& state) noexcept {
    start<State, std::uint64_t>(
        state, 32,
        {0x22312194fc2bf72c, 0x9f555fa3c84c64c2, 0x2393b86b6f53b151, 0x963877195940eabd, 0x96283ee2a88effe3,
         0xbe5e1e2553863992, 0x2b0199fc2c85b8aa, 0x0eb72ddc81c52ca2});
  }
};

}  // namespace sunxi
