// SPDX-License-Identifier: Apache-2.0
// A digest's state as bytes (OpenSSL 4.0: EVP_MD_CTX_serialize). The form is ours, the same on every machine,
// and has one length for each digest:
//
//   4 bytes      "SXMD"
//   1            version, 1
//   2            bytes of a block, bytes of the result: which together say which digest it is
//   1            0
//   2 words      bits of the message so far, the high word first
//   4, 5, 8      words: the chaining state
//   a block      the bytes that do not fill a block yet, then zeros
//
// Words have 32 bits, or 64 for SHA-384 and the SHA-512 family, and are big-endian. Where the open block ends
// follows from the number of bits. A state tells as much as the message that it is of.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backends/backend.h"
#include "backends/process.h"
#include "provider/digest_core.h"

namespace sunxi {

template <DigestSpec Spec>
class DigestState {
 public:
  using Core = DigestCore<Spec.digest>;
  using State = typename Core::State;
  using Word = typename Core::Word;
  static constexpr std::size_t bytes =
      8 + (2 + Core::word_count) * sizeof(Word) + std::size_t{Spec.block_bytes};

  // False: no message can go on from it, because it was never started, or finished (where libcrypto's final
  // leaves a trace).
  [[nodiscard]] static bool write(State& state, std::uint8_t* out) noexcept {
    Parts parts;
    Core::get_bits(state, parts.low, parts.high);
    Core::get_words(state, parts.words.data());
    const std::size_t open = Core::buffered(state);
    const bool good = makes_sense(parts) && open == parts.open();
    if (good) {
      out = std::copy(header.begin(), header.end(), out);
      out = put(put(out, parts.high), parts.low);
      for (const Word word : parts.words) out = put(out, word);
      std::memcpy(out, Core::buffer(state), open);
      std::memset(out + open, 0, Spec.block_bytes - open);
    }
    wipe(&parts, sizeof parts);
    return good;
  }

  // From `bytes` bytes of anybody's. False: they are no state of this digest; `state` is as it was.
  [[nodiscard]] static bool read(State& state, const std::uint8_t* in) noexcept {
    if (!std::equal(header.begin(), header.end(), in)) return false;
    Parts parts;
    in = get(get(in + header.size(), parts.high), parts.low);
    for (Word& word : parts.words) in = get(in, word);
    const std::size_t open = parts.open();
    const bool good = makes_sense(parts) && std::all_of(in + open, in + Spec.block_bytes,
                                                        [](std::uint8_t byte) { return byte == 0; });
    if (good) {
      Core::init(state);
      Core::set_bits(state, parts.low, parts.high);
      Core::set_words(state, parts.words.data());
      Core::set_buffered(state, open);
      std::memcpy(Core::buffer(state), in, open);
    }
    wipe(&parts, sizeof parts);
    return good;
  }

 private:
  struct Parts {
    Word low, high;
    std::array<Word, Core::word_count> words;
    [[nodiscard]] std::size_t open() const noexcept {
      return static_cast<std::size_t>(low / 8U % Spec.block_bytes);
    }
  };
  static constexpr std::array<std::uint8_t, 8> header{
      'S', 'X', 'M', 'D', 1, Spec.block_bytes, Spec.digest_bytes, 0};

  // Whole bytes; and of nothing there is one state.
  [[nodiscard]] static bool makes_sense(const Parts& parts) noexcept {
    if (parts.low % 8U != 0) return false;
    if (parts.low != 0 || parts.high != 0) return true;
    State start{};
    std::array<Word, Core::word_count> words;
    Core::init(start);
    Core::get_words(start, words.data());
    return words == parts.words;
  }

  static std::uint8_t* put(std::uint8_t* out, Word word) noexcept {
    for (std::size_t i = sizeof(Word); i-- != 0;) *out++ = static_cast<std::uint8_t>(word >> (8 * i));
    return out;
  }
  static const std::uint8_t* get(const std::uint8_t* in, Word& word) noexcept {
    word = 0;
    for (std::size_t i = 0; i < sizeof(Word); ++i) word = word << 8U | *in++;
    return in;
  }
};

}  // namespace sunxi
