// SPDX-License-Identifier: Apache-2.0
// What the kinds of random cases have in common: two contexts of one cipher, ours and the reference's,
// which get the same calls and must give the same answers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/evp.h"

namespace sunxi::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // In [low, high].
  std::size_t in(std::size_t low, std::size_t high) { return low + engine_() % (high - low + 1); }
  bool one_in(std::size_t n) { return in(1, n) == 1; }
  template <class T, std::size_t N>
  T of(const std::array<T, N>& choices) {
    return choices[in(0, N - 1)];
  }
  void fill(std::uint8_t* data, std::size_t bytes) {
    std::generate(data, data + bytes, [&] { return static_cast<std::uint8_t>(engine_() >> 24U); });
  }
  // Sizes as applications have them: 90 % to 1 KiB, 9 % to 16 KiB, 1 % to the largest.
  std::size_t size(std::size_t largest) {
    const std::size_t percent = in(0, 99);
    const std::size_t bound = percent < 90 ? 1024 : percent < 99 ? 16384 : largest;
    return in(0, std::min(bound, largest));
  }

 private:
  std::mt19937_64 engine_;
};

// What one call of one side gave back.
struct Answer {
  int good = 0;
  int bytes = 0;
  std::vector<std::uint8_t> data;
  friend bool operator==(const Answer&, const Answer&) = default;
};

// All that a context tells about itself. IVs as text or by pointer, as long as they say they are.
struct State {
  int good = 0;
  std::vector<std::uint8_t> iv, updated_iv, iv_pointer, updated_iv_pointer;
  unsigned int padding = 0, num = 0;
  std::size_t key_bytes = 0, iv_bytes = 0;
  friend bool operator==(const State&, const State&) = default;
};
[[nodiscard]] State read_state(EVP_CIPHER_CTX* context);
[[nodiscard]] std::string describe(const State& state);

class Case {
 public:
  Case(const Library& ours, const Library& reference, const std::string& name, std::uint64_t seed,
       std::size_t largest);
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;
  virtual ~Case() = default;

  // The first difference, with all calls up to it; empty if there is none.
  [[nodiscard]] std::string run();

 protected:
  virtual void play() = 0;

  void complain(const std::string& what) {
    if (trouble_.empty()) trouble_ = what;
  }
  [[nodiscard]] bool fine() const noexcept { return trouble_.empty(); }

  // Both sides through the same call. What ours returned.
  template <class Call>
  int both(const std::string& what, Call&& call) {
    log_ << what << "\n";
    const int a = call(ours_.get(), ours_cipher_.get());
    const int b = call(reference_.get(), reference_cipher_.get());
    if (a != b) complain(what + ": returned " + std::to_string(a) + " instead of " + std::to_string(b));
    return b;
  }
  void compare(const std::string& what, const Answer& a, const Answer& b);
  void compare_state(const std::string& where);

  void fresh_key();
  void fresh_iv();
  void set_padding(bool on);
  void set_min_bytes();
  // One update or cipher call on both sides, at random alignments. `shift` < 0: into the input's own
  // buffer, that many bytes ahead of it; 0: in place; 1: elsewhere. What the reference answered.
  Answer data_call(bool update, const std::uint8_t* data, std::size_t bytes, int shift);
  Answer final_call();

  Random random_;
  std::size_t largest_;
  CipherPtr ours_cipher_, reference_cipher_;
  CipherContextPtr ours_, reference_;
  int mode_;
  std::size_t block_;  // 1 in stream modes
  std::size_t iv_bytes_;
  std::vector<std::uint8_t> key_;
  std::array<std::uint8_t, 16> iv_{};
  int encrypt_ = 1;
  bool padding_ = true;
  bool is_ours_;  // false where two default providers are compared with each other
  std::string trouble_;
  std::ostringstream log_;
};

// ECB, CBC, CTR.
[[nodiscard]] std::unique_ptr<Case> make_stream_case(const Library& ours, const Library& reference,
                                                     const std::string& name, std::uint64_t seed,
                                                     std::size_t largest);
// XTS.
[[nodiscard]] std::unique_ptr<Case> make_unit_case(const Library& ours, const Library& reference,
                                                   const std::string& name, std::uint64_t seed,
                                                   std::size_t largest);
// CBC in the record mode that libssl uses.
[[nodiscard]] std::unique_ptr<Case> make_record_case(const Library& ours, const Library& reference,
                                                     const std::string& name, std::uint64_t seed,
                                                     std::size_t largest);
// Digests. What Case::run() returns.
[[nodiscard]] std::string run_digest_case(const Library& ours, const Library& reference,
                                          const std::string& name, std::uint64_t seed, std::size_t largest);

}  // namespace sunxi::test
