// SPDX-License-Identifier: Apache-2.0
// What the tests of backends have in common: the process that a backend lives in, all algorithms with
// libcrypto's answer to each, and requests.
#pragma once

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "backends/process.h"
#include "tests/support/catch.h"

namespace backend_test {

using namespace sunxi;
using Bytes = std::vector<std::uint8_t>;
using Iv = std::array<std::uint8_t, max_iv_bytes>;

class TestProcess : public Process {
 public:
  [[nodiscard]] std::uint64_t now() const noexcept override { return time.load(); }
  [[nodiscard]] std::string text() {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  std::atomic<std::uint64_t> time{1'000'000'000};

 protected:
  void write_line(const char* line, std::size_t length) noexcept override {
    const std::lock_guard lock(mutex_);
    text_.append(line, length);
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

// Every algorithm and key size that a backend of the kernel may have.
struct Variant {
  const char* name;
  Cipher cipher;
  Mode mode;
  std::uint16_t key_bytes;
  const EVP_CIPHER* (*evp)();
  const char* kernel_name;
  const char* kernel_driver;  // its first half

  [[nodiscard]] std::uint8_t block_bytes() const { return cipher == Cipher::aes ? 16 : 8; }
  [[nodiscard]] std::size_t iv_bytes() const { return mode == Mode::ecb ? 0 : block_bytes(); }
  [[nodiscard]] CipherSpec spec() const {
    return {.cipher = cipher,
            .mode = mode,
            .key_bytes = key_bytes,
            .block_bytes = block_bytes(),
            .iv_bytes = static_cast<std::uint8_t>(iv_bytes())};
  }
};

// libcrypto's DES needs the legacy provider: it is triple DES with one key three times.
inline const std::array variants{
    Variant{"AES-128-ECB", Cipher::aes, Mode::ecb, 16, EVP_aes_128_ecb, "ecb(aes)", "ecb-aes"},
    Variant{"AES-192-ECB", Cipher::aes, Mode::ecb, 24, EVP_aes_192_ecb, "ecb(aes)", "ecb-aes"},
    Variant{"AES-256-ECB", Cipher::aes, Mode::ecb, 32, EVP_aes_256_ecb, "ecb(aes)", "ecb-aes"},
    Variant{"AES-128-CBC", Cipher::aes, Mode::cbc, 16, EVP_aes_128_cbc, "cbc(aes)", "cbc-aes"},
    Variant{"AES-192-CBC", Cipher::aes, Mode::cbc, 24, EVP_aes_192_cbc, "cbc(aes)", "cbc-aes"},
    Variant{"AES-256-CBC", Cipher::aes, Mode::cbc, 32, EVP_aes_256_cbc, "cbc(aes)", "cbc-aes"},
    Variant{"AES-128-CTR", Cipher::aes, Mode::ctr, 16, EVP_aes_128_ctr, "ctr(aes)", "ctr-aes"},
    Variant{"AES-192-CTR", Cipher::aes, Mode::ctr, 24, EVP_aes_192_ctr, "ctr(aes)", "ctr-aes"},
    Variant{"AES-256-CTR", Cipher::aes, Mode::ctr, 32, EVP_aes_256_ctr, "ctr(aes)", "ctr-aes"},
    Variant{"AES-128-XTS", Cipher::aes, Mode::xts, 32, EVP_aes_128_xts, "xts(aes)", "xts-aes"},
    Variant{"AES-256-XTS", Cipher::aes, Mode::xts, 64, EVP_aes_256_xts, "xts(aes)", "xts-aes"},
    Variant{"DES-EDE3-ECB", Cipher::des3, Mode::ecb, 24, EVP_des_ede3_ecb, "ecb(des3_ede)", "ecb-des3"},
    Variant{"DES-EDE3-CBC", Cipher::des3, Mode::cbc, 24, EVP_des_ede3_cbc, "cbc(des3_ede)", "cbc-des3"},
    Variant{"DES-EDE-ECB", Cipher::des3, Mode::ecb, 16, EVP_des_ede_ecb, "ecb(des3_ede)", "ecb-des3"},
    Variant{"DES-EDE-CBC", Cipher::des3, Mode::cbc, 16, EVP_des_ede_cbc, "cbc(des3_ede)", "cbc-des3"},
    Variant{"DES-ECB", Cipher::des, Mode::ecb, 8, EVP_des_ede3_ecb, "ecb(des)", "ecb-des"},
    Variant{"DES-CBC", Cipher::des, Mode::cbc, 8, EVP_des_ede3_cbc, "cbc(des)", "cbc-des"},
};

inline const Variant& variant_of(std::string_view name) {
  for (const Variant& variant : variants) {
    if (name == variant.name) return variant;
  }
  FAIL("no algorithm " << name);
  std::abort();
}

inline const Variant& aes_cbc(std::size_t key_bytes) {
  return variant_of("AES-" + std::to_string(key_bytes * 8) + "-CBC");
}

// Of key sizes that do not exist, too.
inline CipherSpec spec_of(std::size_t key_bytes) {
  CipherSpec spec = aes_cbc(16).spec();
  spec.key_bytes = static_cast<std::uint16_t>(key_bytes);
  return spec;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(engine_() % limit); }
  void fill(std::uint8_t* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::uint8_t>(engine_());
  }
  Bytes bytes(std::size_t count) {
    Bytes data(count);
    fill(data.data(), count);
    return data;
  }
  // 90 % up to 1 KiB, 9 % up to 16 KiB, 1 % up to 300,000.
  std::size_t length() {
    const std::size_t kind = below(100);
    const std::size_t limit = kind < 90 ? 1024 : kind < 99 ? 16384 : 300000;
    return 16 * (1 + below(limit / 16));
  }
  // Of this algorithm: any number of its blocks, and parts of blocks where that may be.
  std::size_t length(const Variant& variant) {
    if (variant.mode == Mode::xts) return length() + below(16);
    return variant.block_bytes() == 8 ? length() - 8 * below(2) : length();
  }
  // Counters that are about to carry far among them.
  Iv iv(const Variant& variant) {
    Iv iv{};
    fill(iv.data(), variant.iv_bytes());
    if (variant.mode != Mode::ctr) return iv;
    constexpr std::array<std::size_t, 4> widths{0, 4, 8, 16};
    const std::size_t width = widths[below(4)];
    std::fill(iv.end() - static_cast<std::ptrdiff_t>(width), iv.end(), std::uint8_t{0xff});
    if (width != 0) iv.back() = static_cast<std::uint8_t>(0xff - below(70));
    return iv;
  }

 private:
  std::mt19937_64 engine_;
};

// libcrypto's answer; `iv` goes on as the backend's does.
inline Bytes reference(const Variant& variant, bool encrypt, Bytes key, Iv& iv, const Bytes& in) {
  if (variant.cipher == Cipher::des) {
    const Bytes once = key;
    for (int copy = 0; copy < 2; ++copy) key.insert(key.end(), once.begin(), once.end());
  }
  Bytes out(in.size());
  int length = 0;
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  bool good =
      EVP_CipherInit_ex(context, variant.evp(), nullptr, key.data(), iv.data(), encrypt ? 1 : 0) == 1 &&
      EVP_CIPHER_CTX_set_padding(context, 0) == 1 &&
      EVP_CipherUpdate(context, out.data(), &length, in.data(), static_cast<int>(in.size())) == 1 &&
      static_cast<std::size_t>(length) == in.size();
  if (variant.mode == Mode::cbc) {
    const Bytes& last = encrypt ? out : in;
    std::copy(last.end() - variant.block_bytes(), last.end(), iv.begin());
  } else if (variant.mode == Mode::ctr) {
    good = good && EVP_CIPHER_CTX_get_updated_iv(context, iv.data(), iv.size()) == 1;
  }
  EVP_CIPHER_CTX_free(context);
  if (!good) out.clear();  // equal to nothing
  return out;
}

inline Bytes reference(bool encrypt, const Bytes& key, Iv& iv, const Bytes& in) {
  return reference(aes_cbc(key.size()), encrypt, key, iv, in);
}

struct Answer {
  Result result;
  Bytes out;
  Iv iv;
};

inline Answer ask(Backend& backend, KeySlot& slot, const CipherSpec& spec, const Bytes& key, const Iv& iv,
                  const Bytes& in, bool encrypt = true) {
  Answer answer{.result = {}, .out = Bytes(in.size()), .iv = iv};
  answer.result = backend.crypt(slot, {.spec = spec,
                                       .direction = encrypt ? Direction::encrypt : Direction::decrypt,
                                       .key = key,
                                       .iv = spec.iv_bytes != 0 ? answer.iv.data() : nullptr,
                                       .in = in.data(),
                                       .out = answer.out.data(),
                                       .length = in.size()});
  return answer;
}

inline Answer ask(Backend& backend, KeySlot& slot, const Bytes& key, const Iv& iv, const Bytes& in,
                  bool encrypt = true) {
  return ask(backend, slot, spec_of(key.size()), key, iv, in, encrypt);
}

// A request of some bytes that must be served, and rightly.
inline void must_serve(Backend& backend, KeySlot& slot, const Variant& variant, const Bytes& key,
                       std::size_t length = 64, bool encrypt = true) {
  Random random(length + key[0]);
  Iv iv = random.iv(variant);
  const Bytes in = random.bytes(length);
  const Answer answer = ask(backend, slot, variant.spec(), key, iv, in, encrypt);
  CHECK(answer.result.outcome == Outcome::served);
  CHECK(answer.result.done == length);
  const Bytes expected = reference(variant, encrypt, key, iv, in);
  CHECK(answer.out == expected);
  CHECK(answer.iv == iv);
}

inline void must_serve(Backend& backend, KeySlot& slot, const Bytes& key, std::size_t length = 64,
                       bool encrypt = true) {
  must_serve(backend, slot, aes_cbc(key.size()), key, length, encrypt);
}

inline std::size_t setting(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace backend_test
