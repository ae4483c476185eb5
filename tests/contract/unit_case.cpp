// SPDX-License-Identifier: Apache-2.0
// Random data units of XTS, each of them one call.
#include <openssl/core_names.h>
#include <openssl/params.h>

#include "tests/contract/case.h"

namespace sunxi::test {
namespace {

class UnitCase final : public Case {
 public:
  using Case::Case;

 private:
  void play() override {
    reads_state_ = random_.one_in(2);
    const std::size_t messages = random_.in(1, 3);
    for (std::size_t i = 0; i < messages && fine(); ++i) {
      if (!start(i == 0)) continue;
      const std::size_t units = random_.in(1, 6);
      for (std::size_t j = 0; j < units && fine(); ++j) {
        unit();
        if (random_.one_in(4)) disturb();
      }
      if (fine() && random_.one_in(3)) final_call();
    }
  }

  // False if the key was refused.
  bool start(bool first) {
    const bool with_cipher = first || random_.one_in(3);
    if (with_cipher) {
      has_key_ = false;
      schedule_ = -1;
    }
    const bool new_key = !has_key_ || random_.one_in(2);
    if (new_key) encrypt_ = random_.one_in(2) ? 1 : 0;
    const std::vector<std::uint8_t> old_key = key_;
    if (new_key) pick_key();
    fresh_iv();
    const std::uint8_t* key = new_key ? key_.data() : nullptr;
    const auto name = [&](EVP_CIPHER* cipher) { return with_cipher ? cipher : nullptr; };
    int good = 0;
    switch (random_.in(0, 3)) {
      case 0:
        good = both("init cipher, then iv, then key", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), nullptr, nullptr, encrypt_, nullptr) +
                 2 * EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), encrypt_, nullptr) +
                 4 * EVP_CipherInit_ex2(c, nullptr, key, nullptr, encrypt_, nullptr);
        });
        good = good == 7 ? 1 : 0;
        break;
      case 1:
        good = both("init key, then iv", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), key, nullptr, encrypt_, nullptr) +
                 2 * EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), -1, nullptr);
        });
        good = good == 3 ? 1 : 0;
        break;
      case 2:
        good = both("init iv, then key", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), nullptr, iv_.data(), encrypt_, nullptr) +
                 2 * EVP_CipherInit_ex2(c, nullptr, key, nullptr, -1, nullptr);
        });
        good = good == 3 ? 1 : 0;
        break;
      default:
        good = both("init at once", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
          return EVP_CipherInit_ex2(c, name(e), key, iv_.data(), encrypt_, nullptr);
        });
        break;
    }
    if (random_.one_in(4)) set_min_bytes();
    if (good != 0) {
      has_key_ = true;
      if (new_key) schedule_ = encrypt_;
      return true;
    }
    if (equal_halves_ && encrypt_ == 1) {
      log_ << "(equal halves)\n";
    } else {
      complain("a good key was refused");
    }
    // The old key stays, in the new direction: with another one before, the default provider is wrong.
    if (schedule_ == -1 || schedule_ == encrypt_) unit();
    if (random_.one_in(2)) {
      // The tweak that came with the refused key stays for the next one.
      do pick_key();
      while (equal_halves_);
      both("init another key", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
        return EVP_CipherInit_ex2(c, nullptr, key_.data(), nullptr, -1, nullptr);
      });
      has_key_ = true;
      schedule_ = encrypt_;
      return true;
    }
    key_ = old_key;
    has_key_ = false;  // begin anew
    return false;
  }

  void pick_key() {
    fresh_key();
    const auto half = static_cast<std::ptrdiff_t>(key_.size() / 2);
    equal_halves_ = random_.one_in(10);
    if (equal_halves_) std::copy(key_.begin(), key_.begin() + half, key_.begin() + half);
  }

  void unit() {
    // Whole blocks, and every rest of one; too short now and then.
    std::size_t bytes = random_.one_in(12) ? random_.in(0, 15) : 16 + random_.size(largest_);
    if (random_.one_in(2)) bytes -= bytes % 16;
    std::vector<std::uint8_t> data(bytes);
    random_.fill(data.data(), bytes);
    data_call(!random_.one_in(4), data.data(), bytes, random_.one_in(3) ? 0 : 1);
    if (fine() && (reads_state_ || random_.one_in(8))) compare_state("after " + std::to_string(bytes));
  }

  void disturb() {
    switch (random_.in(0, 6)) {
      case 0:
      case 1:
        fresh_iv();
        both("next tweak", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), -1, nullptr);
        });
        break;
      case 2:
        both("init without anything", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, nullptr, nullptr, -1, nullptr);
        });
        break;
      case 3:
        set_min_bytes();
        break;
      case 4: {
        log_ << "duplicate\n";
        CipherContextPtr a(EVP_CIPHER_CTX_new());
        CipherContextPtr b(EVP_CIPHER_CTX_new());
        if (EVP_CIPHER_CTX_copy(a.get(), ours_.get()) != 1 ||
            EVP_CIPHER_CTX_copy(b.get(), reference_.get()) != 1)
          complain("duplicate");
        std::swap(a, ours_);
        std::swap(b, reference_);
        if (random_.one_in(2)) {
          unit();
          std::swap(a, ours_);
          std::swap(b, reference_);
        }
        break;
      }
      case 5:
        // The reference needs the key for its schedule, and would refuse this one.
        if (equal_halves_) break;
        encrypt_ = 1 - encrypt_;
        log_ << "other direction\n";
        if (EVP_CipherInit_ex2(ours_.get(), nullptr, is_ours_ ? nullptr : key_.data(), nullptr, encrypt_,
                               nullptr) !=
            EVP_CipherInit_ex2(reference_.get(), nullptr, key_.data(), nullptr, encrypt_, nullptr))
          complain("other direction");
        schedule_ = encrypt_;
        break;
      default: {
        // Overlap that nobody promises anything for, on a copy of ours.
        log_ << "overlap on a copy\n";
        const CipherContextPtr copy(EVP_CIPHER_CTX_new());
        if (EVP_CIPHER_CTX_copy(copy.get(), ours_.get()) != 1) complain("duplicate");
        const std::size_t bytes = random_.size(largest_);
        const std::size_t distance = random_.in(0, 33);
        std::vector<std::uint8_t> data(bytes + distance, 1);
        const bool behind = random_.one_in(2);
        int done = 0;
        EVP_CipherUpdate(copy.get(), data.data() + (behind ? distance : 0), &done,
                         data.data() + (behind ? 0 : distance), static_cast<int>(bytes));
        break;
      }
    }
  }

  bool reads_state_ = false;
  bool has_key_ = false;
  int schedule_ = -1;  // which direction the reference has a key schedule for; -1: none
  bool equal_halves_ = false;
};

}  // namespace

std::unique_ptr<Case> make_unit_case(const Library& ours, const Library& reference, const std::string& name,
                                     std::uint64_t seed, std::size_t largest) {
  return std::make_unique<UnitCase>(ours, reference, name, seed, largest);
}

}  // namespace sunxi::test
