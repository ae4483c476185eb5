// SPDX-License-Identifier: Apache-2.0
// What the engine should give: libcrypto's own AES-CBC. And repeatable random cases.
#pragma once

#include <openssl/evp.h>

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
inline std::size_t random_length(std::mt19937_64& random) {
  return 16 * (1 + up_to(random, up_to(random, 9) != 0 ? 63 : 1023));
}

inline Bytes reference_cbc(const Bytes& key, const Bytes& iv, Direction direction, const std::uint8_t* in,
                           std::size_t length) {
  const EVP_CIPHER* cipher = key.size() == 16   ? EVP_aes_128_cbc()
                             : key.size() == 24 ? EVP_aes_192_cbc()
                                                : EVP_aes_256_cbc();
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  Bytes out(length + 16);
  int size = 0;
  const bool good = context != nullptr &&
                    EVP_CipherInit_ex(context, cipher, nullptr, key.data(), iv.data(),
                                      direction == Direction::encrypt) == 1 &&
                    EVP_CIPHER_CTX_set_padding(context, 0) == 1 &&
                    EVP_CipherUpdate(context, out.data(), &size, in, static_cast<int>(length)) == 1;
  EVP_CIPHER_CTX_free(context);
  if (!good || size != static_cast<int>(length)) throw std::runtime_error("the reference failed");
  out.resize(length);
  return out;
}

// A request with buffers of its own: apart, the same, or with the output somewhat behind the input.
struct Case {
  explicit Case(std::mt19937_64& random, std::size_t length = 0)
      : direction(up_to(random, 1) != 0 ? Direction::encrypt : Direction::decrypt),
        key(random_bytes(random, 16 + 8 * up_to(random, 2))),
        iv(random_bytes(random, 16)),
        size(length != 0 ? length : random_length(random)) {
    const std::size_t layout = up_to(random, 2);
    const std::size_t gap = layout == 0 ? size + 64 : layout == 1 ? 0 : 1 + up_to(random, 100);
    out_at = up_to(random, 16);
    in_at = out_at + gap + (layout == 0 ? up_to(random, 16) : 0);
    memory = random_bytes(random, in_at + size + 16);
    before = memory;
    expected = reference_cbc(key, iv, direction, memory.data() + in_at, size);
    running_iv = iv;
  }

  CipherRequest request() {
    return {{Cipher::aes, Mode::cbc, static_cast<std::uint16_t>(key.size()), 16, 16},
            direction,
            key,
            running_iv.data(),
            memory.data() + in_at,
            memory.data() + out_at,
            size};
  }

  // Output and IV are right up to `done`, and the input from there on and all around is as it was.
  [[nodiscard]] bool right(std::size_t done) const {
    Bytes should = before;
    std::copy_n(expected.begin(), done, should.begin() + static_cast<std::ptrdiff_t>(out_at));
    if (should != memory) return false;
    Bytes next = iv;
    if (done != 0) {
      const Bytes& ciphertext = direction == Direction::encrypt ? expected : before;
      const std::size_t at = (direction == Direction::encrypt ? 0 : in_at) + done - 16;
      next.assign(ciphertext.begin() + static_cast<std::ptrdiff_t>(at),
                  ciphertext.begin() + static_cast<std::ptrdiff_t>(at + 16));
    }
    return running_iv == next;
  }

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
