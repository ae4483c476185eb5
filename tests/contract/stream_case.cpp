// SPDX-License-Identifier: Apache-2.0
// Random streams through ECB, CBC and CTR: any split, any order of calls.
#include <openssl/core_names.h>
#include <openssl/params.h>

#include <optional>

#include "tests/contract/case.h"

namespace sunxi::test {
namespace {

class StreamCase final : public Case {
 public:
  using Case::Case;

 private:
  void play() override {
    // Reading the state after every call hides what only shows when nobody reads it.
    reads_state_ = random_.one_in(2);
    const std::size_t messages = random_.in(1, 3);
    bool goes_on = false;
    for (std::size_t i = 0; i < messages && fine(); ++i) {
      if (goes_on) {
        log_ << "on without an init\n";
      } else {
        start(i == 0);
      }
      goes_on = stream(random_.size(largest_)) && random_.one_in(4);
    }
  }

  void start(bool first) {
    const bool new_key = first || random_.one_in(2);
    if (new_key) fresh_key();
    fresh_iv();
    encrypt_ = random_.one_in(2) ? 1 : 0;
    key_in_doubt_ = false;
    const bool with_cipher = first || random_.one_in(3) || key_length_is_stuck();
    if (with_cipher) padding_ = true;
    const auto name = [&](EVP_CIPHER* cipher) { return with_cipher ? cipher : nullptr; };
    switch (random_.in(0, 5)) {
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
      case 3: {
        unsigned int on = random_.one_in(2) ? 1 : 0;
        const std::array params{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_PADDING, &on),
                                OSSL_PARAM_construct_end()};
        both("init at once, with padding among the parameters", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), key_.data(), iv_.data(), encrypt_, params.data());
        });
        padding_ = on != 0;
        break;
      }
      case 4:
        if (random_.one_in(3)) {
          both("init key and no iv", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
            return EVP_CipherInit_ex2(c, name(e), key_.data(), nullptr, encrypt_, nullptr);
          });
          break;
        }
        [[fallthrough]];
      default:
        both("init at once", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), key_.data(), iv_.data(), encrypt_, nullptr);
        });
        break;
    }
    nothing_buffered();
    if (random_.one_in(2)) set_padding(random_.one_in(2));
    if (random_.one_in(4)) set_min_bytes();
  }

  // Whether all went in and out.
  bool stream(std::size_t total) {
    // What is decrypted is mostly well-formed, sometimes anything.
    std::vector<std::uint8_t> input(total);
    random_.fill(input.data(), input.size());
    if (encrypt_ == 0 && !random_.one_in(5)) input = encrypted(input);
    std::size_t at = 0;
    const bool tiny = random_.one_in(4);
    while (at < input.size() && fine()) {
      std::size_t piece = random_.one_in(3)
                              ? input.size() - at
                              : random_.in(0, std::min<std::size_t>(input.size() - at, tiny ? 40 : 5000));
      if (random_.one_in(8)) piece -= piece % 16;
      send(input.data() + at, piece);
      at += piece;
      if (random_.one_in(6)) disturb();
    }
    if (!fine() || random_.one_in(10)) return false;  // abandoned in the middle
    const Answer answer = final_call();
    if (answer.good != 0) {
      nothing_buffered();
    } else {
      buffered_.reset();
    }
    if (random_.one_in(3)) compare_state("after final");
    return true;
  }

  void send(const std::uint8_t* data, std::size_t bytes) {
    // `cipher` passes the buffer by and wants whole blocks.
    const bool cipher = bytes % block_ == 0 && bytes != 0 && random_.one_in(buffered_ == 0U ? 4 : 10);
    // In place with a partial block in the context the default provider itself is wrong; with the output
    // as far ahead of the input as there are bytes in the context it is right.
    int shift = 1;
    if (random_.one_in(3)) {
      if (cipher || mode_ == EVP_CIPH_CTR_MODE) {
        shift = 0;
      } else if (buffered_) {
        shift = -static_cast<int>(*buffered_);
      }
    }
    const Answer answer = data_call(!cipher, data, bytes, shift);
    if (!cipher && mode_ != EVP_CIPH_CTR_MODE) {
      if (answer.good == 0) {
        buffered_.reset();
      } else if (buffered_) {
        buffered_ = *buffered_ + bytes - static_cast<std::size_t>(answer.bytes);
      }
    }
    if (fine() && (reads_state_ || random_.one_in(16))) compare_state("after " + std::to_string(bytes));
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

  void nothing_buffered() { buffered_ = 0; }

  // From OpenSSL 3.5 on EVP keeps the key length of an init that failed, and refuses every key until the
  // cipher is named again: a new direction then comes without a key, and there the two differ as `disturb`
  // says.
  [[nodiscard]] bool key_length_is_stuck() const {
    return EVP_CIPHER_CTX_get_key_length(reference_.get()) != static_cast<int>(key_.size());
  }

  // Something else in the middle of a stream.
  void disturb() {
    switch (random_.in(0, 10)) {
      case 0:
        fresh_iv();
        both("new iv", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), -1, nullptr);
        });
        nothing_buffered();
        break;
      case 1:
        both("init without anything", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, nullptr, nullptr, -1, nullptr);
        });
        nothing_buffered();
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
      case 5:
        duplicate();
        break;
      case 6:
        // Without a key the default provider goes on with a key schedule for the wrong direction; ours
        // makes the right one, so the reference gets the key.
        if (key_in_doubt_ || key_length_is_stuck()) break;
        encrypt_ = 1 - encrypt_;
        log_ << "other direction\n";
        if (EVP_CipherInit_ex2(ours_.get(), nullptr, is_ours_ ? nullptr : key_.data(), nullptr, encrypt_,
                               nullptr) !=
            EVP_CipherInit_ex2(reference_.get(), nullptr, key_.data(), nullptr, encrypt_, nullptr))
          complain("other direction");
        nothing_buffered();
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
      case 8:
        set_num();
        break;
      case 9:
        abuse();
        break;
      default:
        failing_init();
        break;
    }
  }

  void duplicate() {
    log_ << "duplicate\n";
    CipherContextPtr a(EVP_CIPHER_CTX_new());
    CipherContextPtr b(EVP_CIPHER_CTX_new());
    if (EVP_CIPHER_CTX_copy(a.get(), ours_.get()) != EVP_CIPHER_CTX_copy(b.get(), reference_.get()))
      complain("duplicate");
    if (random_.one_in(2)) {  // go on with the copies, or with the originals after the copies were used
      std::swap(a, ours_);
      std::swap(b, reference_);
    }
    if (read_state(a.get()) != read_state(b.get())) complain("parameters of the other of two duplicates");
    const std::array<std::uint8_t, 700> some{};
    std::array<std::uint8_t, 800> out_a{}, out_b{};
    int bytes_a = 0;
    int bytes_b = 0;
    EVP_CipherUpdate(a.get(), out_a.data(), &bytes_a, some.data(), some.size());
    EVP_CipherUpdate(b.get(), out_b.data(), &bytes_b, some.data(), some.size());
    if (bytes_a != bytes_b || out_a != out_b) complain("the other of two duplicates differs");
  }

  // Where the default provider defines what comes of it: inside the open block of key stream.
  void set_num() {
    const unsigned int now = read_state(reference_.get()).num;
    auto num = static_cast<unsigned int>(now == 0 ? 0 : random_.in(0, 15));
    const std::array params{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_NUM, &num),
                            OSSL_PARAM_construct_end()};
    both("num " + std::to_string(num),
         [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) { return EVP_CIPHER_CTX_set_params(c, params.data()); });
    if (random_.one_in(2)) compare_state("after num");
  }

  // Calls whose result nobody promises, on a copy of ours: nothing beyond the buffers may be touched.
  void abuse() {
    log_ << "overlap on a copy\n";
    const CipherContextPtr copy(EVP_CIPHER_CTX_new());
    if (EVP_CIPHER_CTX_copy(copy.get(), ours_.get()) == 0) complain("duplicate");
    const std::size_t bytes = random_.size(largest_);
    const std::size_t distance = random_.in(0, 33);
    const bool behind = random_.one_in(2);
    std::vector<std::uint8_t> data(bytes + distance + (block_ > 1 ? block_ : 0), 1);
    std::uint8_t* in = data.data() + (behind ? 0 : distance);
    std::uint8_t* out = data.data() + (behind ? distance : 0);
    int done = 0;
    if (EVP_CipherUpdate(copy.get(), out, &done, in, static_cast<int>(bytes)) == 1 &&
        static_cast<std::size_t>(done) > bytes + block_)
      complain("more output than there is room for, with overlap");
    std::vector<std::uint8_t> rest(block_ > 1 ? block_ : 1);
    EVP_CipherFinal_ex(copy.get(), rest.data(), &done);
  }

  void failing_init() {
    std::size_t bytes = 13;
    const std::array params{OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_KEYLEN, &bytes),
                            OSSL_PARAM_construct_end()};
    const bool new_key = random_.one_in(2);
    const bool new_iv = random_.one_in(2);
    fresh_iv();
    if (new_key) fresh_key();
    both("an init that fails", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
      return EVP_CipherInit_ex2(c, nullptr, new_key ? key_.data() : nullptr, new_iv ? iv_.data() : nullptr,
                                -1, params.data());
    });
    key_in_doubt_ = key_in_doubt_ || new_key;
    buffered_.reset();
    if (random_.one_in(2)) {
      both("and a good one", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
        return EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), -1, nullptr);
      });
      nothing_buffered();
    }
  }

  bool reads_state_ = false;
  bool key_in_doubt_ = false;            // since an init that failed
  std::optional<std::size_t> buffered_;  // bytes in the context; empty since a call that failed
};

}  // namespace

std::unique_ptr<Case> make_stream_case(const Library& ours, const Library& reference, const std::string& name,
                                       std::uint64_t seed, std::size_t largest) {
  return std::make_unique<StreamCase>(ours, reference, name, seed, largest);
}

}  // namespace sunxi::test
