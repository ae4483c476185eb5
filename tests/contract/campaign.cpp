// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/campaign.h"

#include <openssl/core_names.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>
#include <random>
#include <sstream>

namespace sunxi::test {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // In [low, high].
  std::size_t in(std::size_t low, std::size_t high) { return low + engine_() % (high - low + 1); }
  bool one_in(std::size_t n) { return in(1, n) == 1; }
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

struct State {
  std::array<std::uint8_t, 16> iv{}, updated_iv{};
  unsigned int padding = 0, num = 0;
  friend bool operator==(const State&, const State&) = default;
};

State read_state(EVP_CIPHER_CTX* context) {
  State state;
  std::array params{OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_IV, state.iv.data(), state.iv.size()),
                    OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_UPDATED_IV, state.updated_iv.data(),
                                                      state.updated_iv.size()),
                    OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_PADDING, &state.padding),
                    OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_NUM, &state.num), OSSL_PARAM_construct_end()};
  if (EVP_CIPHER_CTX_get_params(context, params.data()) == 0) state.num = 77;
  return state;
}

class Case {
 public:
  Case(const Library& ours, const Library& reference, const std::string& name, std::uint64_t seed,
       std::size_t largest)
      : random_(seed),
        largest_(largest),
        ours_cipher_(ours.cipher(name)),
        reference_cipher_(reference.cipher(name)) {
    key_.resize(static_cast<std::size_t>(EVP_CIPHER_get_key_length(ours_cipher_.get())));
  }

  std::string run() {
    ours_.reset(EVP_CIPHER_CTX_new());
    reference_.reset(EVP_CIPHER_CTX_new());
    const std::size_t messages = random_.in(1, 3);
    for (std::size_t i = 0; i < messages && trouble_.empty(); ++i) {
      start(i == 0);
      stream(random_.size(largest_));
    }
    return trouble_.empty() ? "" : trouble_ + "\n" + log_.str();
  }

 private:
  void complain(const std::string& what) {
    if (trouble_.empty()) trouble_ = what;
  }

  // Both sides through the same call.
  template <class Call>
  void both(const std::string& what, Call&& call) {
    log_ << what << "\n";
    const int a = call(ours_.get(), ours_cipher_.get());
    const int b = call(reference_.get(), reference_cipher_.get());
    if (a != b) complain(what + ": returned " + std::to_string(a) + " instead of " + std::to_string(b));
  }

  void compare_state(const std::string& where) {
    const State a = read_state(ours_.get());
    const State b = read_state(reference_.get());
    if (a != b) complain("context parameters differ " + where);
  }

  void start(bool first) {
    const bool fresh_key = first || random_.one_in(2);
    if (fresh_key) random_.fill(key_.data(), key_.size());
    random_.fill(iv_.data(), iv_.size());
    encrypt_ = random_.one_in(2) ? 1 : 0;
    fed_ = 0;
    key_in_doubt_ = false;
    const bool with_cipher = first || random_.one_in(3);
    if (with_cipher) padding_ = true;
    const auto name = [&](EVP_CIPHER* cipher) { return with_cipher ? cipher : nullptr; };
    switch (random_.in(0, 3)) {
      case 0:
        both("init cipher, then iv, then key", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), nullptr, nullptr, encrypt_, nullptr) +
                 2 * EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), encrypt_, nullptr) +
                 4 * EVP_CipherInit_ex2(c, nullptr, key_.data(), nullptr, encrypt_, nullptr);
        });
        break;
      case 1:
        both("init key, then iv", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), key_.data(), nullptr, encrypt_, nullptr) +
                 2 * EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), -1, nullptr);
        });
        break;
      case 2:
        both("init iv, then key", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), nullptr, iv_.data(), encrypt_, nullptr) +
                 2 * EVP_CipherInit_ex2(c, nullptr, key_.data(), nullptr, -1, nullptr);
        });
        break;
      default:
        both("init at once", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), key_.data(), iv_.data(), encrypt_, nullptr);
        });
        break;
    }
    if (random_.one_in(2)) set_padding(random_.one_in(2));
    if (random_.one_in(4)) set_min_bytes();
  }

  void set_padding(bool on) {
    padding_ = on;
    both(on ? "padding on" : "padding off",
         [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) { return EVP_CIPHER_CTX_set_padding(c, on ? 1 : 0); });
  }

  void set_min_bytes() {
    constexpr std::array<std::size_t, 6> choices{0, 1, 16, 100, 512, SIZE_MAX};
    std::size_t bytes = choices[random_.in(0, choices.size() - 1)];
    std::array params{OSSL_PARAM_construct_size_t("sunxi-min-bytes", &bytes), OSSL_PARAM_construct_end()};
    log_ << "sunxi-min-bytes " << bytes << "\n";
    if (EVP_CIPHER_CTX_set_params(ours_.get(), params.data()) == 0) complain("sunxi-min-bytes refused");
  }

  void stream(std::size_t total) {
    // What is decrypted is mostly well-formed, sometimes anything.
    std::vector<std::uint8_t> input(total);
    random_.fill(input.data(), input.size());
    if (encrypt_ == 0 && !random_.one_in(5)) input = encrypted(input);
    std::size_t at = 0;
    const bool tiny = random_.one_in(4);
    while (at < input.size() && trouble_.empty()) {
      std::size_t piece = random_.one_in(3)
                              ? input.size() - at
                              : random_.in(0, std::min<std::size_t>(input.size() - at, tiny ? 40 : 5000));
      if (random_.one_in(8)) piece -= piece % 16;
      if (piece % 16 == 0 && piece != 0 && fed_ == 0 && random_.one_in(4)) {
        data_call("cipher", input.data() + at, piece, false);
      } else {
        data_call("update", input.data() + at, piece, true);
        fed_ += piece;
      }
      at += piece;
      if (random_.one_in(6)) disturb();
    }
    if (!trouble_.empty()) return;
    if (random_.one_in(10)) return;  // abandoned in the middle
    final_call();
    if (random_.one_in(3)) compare_state("after final");
    fed_ = 0;
  }

  std::vector<std::uint8_t> encrypted(const std::vector<std::uint8_t>& plain) {
    const CipherContextPtr context(EVP_CIPHER_CTX_new());
    std::vector<std::uint8_t> out(plain.size() + 32);
    int bytes = 0;
    int more = 0;
    EVP_CipherInit_ex2(context.get(), reference_cipher_.get(), key_.data(), iv_.data(), 1, nullptr);
    EVP_CipherUpdate(context.get(), out.data(), &bytes, plain.data(), static_cast<int>(plain.size()));
    EVP_CipherFinal_ex(context.get(), out.data() + bytes, &more);
    out.resize(static_cast<std::size_t>(bytes + more));
    return out;
  }

  // One update or cipher call on both sides, at random alignments, sometimes in place.
  void data_call(const char* what, const std::uint8_t* data, std::size_t bytes, bool update) {
    // In place with a partial block in the context the default provider itself is wrong.
    const bool in_place = random_.one_in(3) && (fed_ == 0 || (encrypt_ == 1 && fed_ % 16 == 0));
    const std::size_t in_offset = random_.in(0, 17);
    const std::size_t out_offset = random_.in(0, 17);
    log_ << what << " " << bytes << (in_place ? " in place" : "") << " at " << in_offset << "/" << out_offset
         << "\n";
    const auto one = [&](EVP_CIPHER_CTX* context) {
      std::vector<std::uint8_t> in(in_offset + bytes + 64, 0xaa);
      std::copy(data, data + bytes, in.begin() + static_cast<std::ptrdiff_t>(in_offset));
      std::vector<std::uint8_t> out(out_offset + bytes + 64, 0xbb);
      const std::uint8_t* from = in.data() + in_offset;
      std::uint8_t* to = in_place ? in.data() + in_offset : out.data() + out_offset;
      Answer answer;
      if (update) {
        answer.good = EVP_CipherUpdate(context, to, &answer.bytes, from, static_cast<int>(bytes));
      } else {
        answer.bytes = EVP_Cipher(context, to, from, static_cast<unsigned int>(bytes));
        answer.good = answer.bytes >= 0 ? 1 : 0;
      }
      if (answer.good != 0 && answer.bytes > 0) answer.data.assign(to, to + answer.bytes);
      // Nothing may be written before the output or far beyond it.
      const auto& written = in_place ? in : out;
      const std::uint8_t filler = in_place ? 0xaa : 0xbb;
      const std::size_t start = in_place ? in_offset : out_offset;
      if (!std::all_of(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(start),
                       [&](std::uint8_t b) { return b == filler; }) ||
          !std::all_of(written.begin() + static_cast<std::ptrdiff_t>(start + bytes + 16), written.end(),
                       [&](std::uint8_t b) { return b == filler; }))
        complain("written outside of the output");
      if (!in_place && !std::equal(data, data + bytes, from)) complain("input changed");
      return answer;
    };
    compare(what, one(ours_.get()), one(reference_.get()));
  }

  void final_call() {
    log_ << "final\n";
    const auto one = [&](EVP_CIPHER_CTX* context) {
      std::array<std::uint8_t, 64> out{};
      Answer answer;
      answer.good = EVP_CipherFinal_ex(context, out.data(), &answer.bytes);
      if (answer.good != 0)
        answer.data.assign(out.begin(), out.begin() + answer.bytes);
      else
        answer.bytes = 0;
      return answer;
    };
    const Answer a = one(ours_.get());
    compare("final", a, one(reference_.get()));
  }

  void compare(const char* what, const Answer& a, const Answer& b) {
    if (a == b) return;
    std::ostringstream text;
    text << what << ": returned " << a.good << " and " << a.bytes << " bytes instead of " << b.good << " and "
         << b.bytes;
    const auto different = std::mismatch(a.data.begin(), a.data.end(), b.data.begin(), b.data.end());
    text << ", first difference at byte " << different.first - a.data.begin();
    complain(text.str());
  }

  // Something else in the middle of a stream.
  void disturb() {
    switch (random_.in(0, 8)) {
      case 0:
        random_.fill(iv_.data(), iv_.size());
        both("new iv", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), -1, nullptr);
        });
        fed_ = 0;
        break;
      case 1:
        both("back to the first iv", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, nullptr, nullptr, -1, nullptr);
        });
        fed_ = 0;
        break;
      case 2:
        set_min_bytes();
        break;
      case 3:
        set_padding(random_.one_in(2));
        break;
      case 4:
        compare_state("in mid-stream");
        break;
      case 5: {
        log_ << "duplicate\n";
        CipherContextPtr a(EVP_CIPHER_CTX_new());
        CipherContextPtr b(EVP_CIPHER_CTX_new());
        if (EVP_CIPHER_CTX_copy(a.get(), ours_.get()) != EVP_CIPHER_CTX_copy(b.get(), reference_.get()))
          complain("duplicate");
        if (random_.one_in(2)) {  // go on with the copies, or with the originals after the copies were used
          std::swap(a, ours_);
          std::swap(b, reference_);
        }
        std::array<std::uint8_t, 700> some{};
        std::array<std::uint8_t, 800> out_a{}, out_b{};
        int bytes_a = 0;
        int bytes_b = 0;
        EVP_CipherUpdate(a.get(), out_a.data(), &bytes_a, some.data(), some.size());
        EVP_CipherUpdate(b.get(), out_b.data(), &bytes_b, some.data(), some.size());
        if (bytes_a != bytes_b || out_a != out_b) complain("the other of two duplicates differs");
        break;
      }
      case 6:
        // Without a key the default provider goes on with a key schedule for the wrong direction; ours
        // makes the right one, so the reference gets the key.
        if (key_in_doubt_) break;
        encrypt_ = 1 - encrypt_;
        log_ << "other direction\n";
        if (EVP_CipherInit_ex2(ours_.get(), nullptr, nullptr, nullptr, encrypt_, nullptr) !=
            EVP_CipherInit_ex2(reference_.get(), nullptr, key_.data(), nullptr, encrypt_, nullptr))
          complain("other direction");
        fed_ = 0;
        break;
      case 7: {
        // Obeyed up to the bad one, by both.
        unsigned int on = random_.one_in(2) ? 1 : 0;
        int negative = -1;
        const std::array params{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_PADDING, &on),
                                OSSL_PARAM_construct_int(OSSL_CIPHER_PARAM_NUM, &negative),
                                OSSL_PARAM_construct_end()};
        both("parameters of which one is refused",
             [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) { return EVP_CIPHER_CTX_set_params(c, params.data()); });
        padding_ = on != 0;
        break;
      }
      default: {
        std::size_t bytes = 13;
        const std::array params{OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_KEYLEN, &bytes),
                                OSSL_PARAM_construct_end()};
        const bool new_key = random_.one_in(2);
        const bool new_iv = random_.one_in(2);
        random_.fill(iv_.data(), iv_.size());
        if (new_key) random_.fill(key_.data(), key_.size());
        both("an init that fails", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, new_key ? key_.data() : nullptr,
                                    new_iv ? iv_.data() : nullptr, -1, params.data());
        });
        if (random_.one_in(2))
          both("and a good one", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
            return EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), -1, nullptr);
          });
        key_in_doubt_ = key_in_doubt_ || new_key;
        fed_ = 0;
        break;
      }
    }
  }

  Random random_;
  std::size_t largest_;
  CipherPtr ours_cipher_, reference_cipher_;
  CipherContextPtr ours_, reference_;
  std::vector<std::uint8_t> key_;
  std::array<std::uint8_t, 16> iv_{};
  int encrypt_ = 1;
  bool padding_ = true;
  bool key_in_doubt_ = false;  // since an init that failed
  std::size_t fed_ = 0;        // through update since the stream began
  std::string trouble_;
  std::ostringstream log_;
};

}  // namespace

std::string run_campaign(const Library& ours, const Library& reference, const CampaignOptions& options) {
  const std::vector<std::string> ciphers = ours.ciphers();
  if (ciphers.empty()) return "no ciphers";
  for (std::uint64_t i = options.first; i < options.first + options.cases; ++i) {
    const std::string& name = ciphers[i % ciphers.size()];
    Case one(ours, reference, name, options.seed * 1'000'003 + i, options.largest);
    std::string trouble = one.run();
    if (!trouble.empty())
      return name + ", seed " + std::to_string(options.seed) + ", case " + std::to_string(i) + ": " + trouble;
    static_cast<void>(errors());  // some cases are meant to fail on both sides
  }
  return {};
}

}  // namespace sunxi::test
