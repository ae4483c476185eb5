// SPDX-License-Identifier: Apache-2.0
// Random TLS and DTLS records through the record mode of CBC: what libssl sends, and what an attacker does.
//
// The record format is RFC 5246, 6.2.3.2, and RFC 7366; the calls are those of OpenSSL's record layers.
#include <openssl/core_names.h>
#include <openssl/params.h>

#include <optional>

#include "tests/contract/case.h"

namespace sunxi::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes running_iv(EVP_CIPHER_CTX* context) {
  return read_state(context).updated_iv;
}

class RecordCase final : public Case {
 public:
  using Case::Case;

 private:
  void play() override {
    fresh_key();
    fresh_iv();
    encrypt_ = random_.one_in(2) ? 1 : 0;
    both("init", [&](EVP_CIPHER_CTX* c, EVP_CIPHER* e) {
      return EVP_CipherInit_ex2(c, e, key_.data(), iv_.data(), encrypt_, nullptr);
    });
    if (random_.one_in(10)) plain_blocks();
    set_record_mode();
    if (random_.one_in(2)) set_min_bytes();
    const std::size_t records = random_.in(1, 10);
    for (std::size_t i = 0; i < records && fine(); ++i) {
      one_record();
      if (fine() && random_.one_in(4)) disturb();
    }
  }

  void one_record() {
    if (encrypt_ == 1) {
      encrypt_record();
    } else {
      decrypt_record();
    }
    if (!fine()) return;
    if (running_iv(ours_.get()) != running_iv(reference_.get()))
      complain("updated-iv differs after a record");
    else if (is_original_ && random_.one_in(4))
      compare_state("after a record");
  }

  // Before records, as a stream.
  void plain_blocks() {
    Bytes data(block_ * random_.in(1, 90));
    random_.fill(data.data(), data.size());
    may_refuse_ = true;
    if (encrypt_ == 1) data_call(true, data.data(), data.size(), 1);
  }

  void set_record_mode() {
    version_ = random_.of(std::array{0x0301, 0x0302, 0x0303, 0xFEFF, 0xFEFD, 0x0100});
    mac_ = random_.of(std::array<std::size_t, 5>{0, 16, 20, 32, 48});
    explicit_iv_ = version_ == 0x0301 ? 0 : block_;
    both("version " + std::to_string(version_) + " mac " + std::to_string(mac_),
         [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) { return send_record_mode(c, version_, mac_); });
  }

  static int send_record_mode(EVP_CIPHER_CTX* context, int version, std::size_t mac) {
    const std::array params{OSSL_PARAM_construct_int(OSSL_CIPHER_PARAM_TLS_VERSION, &version),
                            OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, &mac),
                            OSSL_PARAM_construct_end()};
    return EVP_CIPHER_CTX_set_params(context, params.data());
  }

  std::size_t payload_size() {
    switch (random_.in(0, 9)) {
      case 0:
        return 0;
      case 1:
        return random_.in(16384 - 40, 16384);
      case 2:
        return random_.in(480, 540);  // about the usual threshold
      default:
        return random_.size(std::min<std::size_t>(largest_, 18000));
    }
  }

  // In place, in a buffer that ends where libssl's claim ends.
  static Answer update(EVP_CIPHER_CTX* context, Bytes& record, std::size_t block) {
    const std::size_t bytes = record.size();
    record.resize(bytes + block);
    Answer answer;
    answer.good =
        EVP_CipherUpdate(context, record.data(), &answer.bytes, record.data(), static_cast<int>(bytes));
    if (answer.good == 0) answer.bytes = 0;
    return answer;
  }

  void encrypt_record() {
    Bytes plain(explicit_iv_ + payload_size() + mac_);
    if (random_.one_in(20)) plain.resize(random_.in(0, 40));
    random_.fill(plain.data(), plain.size());
    log_ << "encrypt " << plain.size() << "\n";
    if (random_.one_in(20)) refused_elsewhere(plain);
    Bytes a = plain;
    Bytes b = plain;
    Answer one = update(ours_.get(), a, block_);
    Answer other = update(reference_.get(), b, block_);
    if (one.good == 1)
      one.data.assign(a.begin(), a.begin() + std::min<std::ptrdiff_t>(one.bytes, std::ssize(a)));
    if (other.good == 1) other.data.assign(b.begin(), b.begin() + other.bytes);
    compare("encrypted record", one, other);
  }

  // The default provider works in place only.
  void refused_elsewhere(const Bytes& record) {
    may_refuse_ = true;
    both("record with another buffer for the output", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
      Bytes in = record;
      in.resize(record.size() + block_);
      Bytes out(record.size() + block_);
      int bytes = 0;
      return EVP_CipherUpdate(c, out.data(), &bytes, in.data(), static_cast<int>(record.size()));
    });
  }

  Bytes raw(const Bytes& iv, const Bytes& data, int encrypt) const {
    const CipherContextPtr context(EVP_CIPHER_CTX_new());
    Bytes out(data.size() + block_);
    int bytes = 0;
    EVP_CipherInit_ex2(context.get(), reference_cipher_.get(), key_.data(), iv.data(), encrypt, nullptr);
    EVP_CIPHER_CTX_set_padding(context.get(), 0);
    EVP_CipherUpdate(context.get(), out.data(), &bytes, data.data(), static_cast<int>(data.size()));
    out.resize(static_cast<std::size_t>(bytes));
    return out;
  }

  enum Kind : std::uint8_t {
    minimal_padding,
    longer_padding,
    all_padding,
    padding_takes_mac,
    wrong_padding_byte,
    padding_beyond_record,
    truncated,
    cut_within_block,
    shorter_than_minimum,
    noise,
    kinds
  };

  // A record as the peer would send it, or as nobody should.
  Bytes compose(Kind kind, const Bytes& iv) {
    std::size_t payload = payload_size();
    if (kind == all_padding) payload = 0;
    const bool wants_more = kind == longer_padding || kind == wrong_padding_byte || kind == all_padding ||
                            kind == padding_takes_mac;
    // Now and then all the padding that there can be, 255 bytes and the one that says so.
    const bool wants_most = wants_more && random_.one_in(4);
    if (wants_most) payload += block_ - (payload + mac_) % block_;
    Bytes plain(explicit_iv_ + payload + mac_);
    random_.fill(plain.data(), plain.size());
    std::size_t padding = block_ - 1 - plain.size() % block_;
    if (wants_most) {
      padding = 255;
    } else if (wants_more && padding + block_ <= 255) {
      padding += random_.in(1, (255 - padding) / block_) * block_;
    }
    plain.insert(plain.end(), padding + 1, static_cast<std::uint8_t>(padding));
    switch (kind) {
      case wrong_padding_byte:
        // The outermost byte is the one that is easily forgotten.
        plain[plain.size() - 1 - (random_.one_in(2) ? padding : random_.in(1, padding))] ^=
            static_cast<std::uint8_t>(1U << random_.in(0, 7));
        break;
      case padding_takes_mac: {
        // Every byte says so, and it is one too many, or just not.
        const std::size_t all = plain.size() - explicit_iv_ - 1 - mac_ + random_.in(0, 1);
        if (all <= 255 && all < plain.size())
          std::fill(plain.end() - static_cast<std::ptrdiff_t>(all) - 1, plain.end(),
                    static_cast<std::uint8_t>(all));
        break;
      }
      case padding_beyond_record:
        plain.back() = random_.one_in(2) ? std::uint8_t{255} : static_cast<std::uint8_t>(random_.in(0, 255));
        if (random_.one_in(2))
          std::fill(plain.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(plain.size(), 256)),
                    plain.end(), plain.back());
        break;
      case shorter_than_minimum:
        plain.resize(random_.in(0, (explicit_iv_ + mac_) / block_) * block_);
        break;
      case noise:
        random_.fill(plain.data(), plain.size());
        break;
      default:
        break;
    }
    Bytes record = raw(iv, plain, 1);
    if (kind == truncated) record.resize(random_.in(0, record.size() / block_ - 1) * block_);
    if (kind == cut_within_block) record.resize(record.size() - random_.in(1, block_ - 1));
    return record;
  }

  // What the padding says, from the plaintext; nothing where it is not padding.
  std::optional<std::size_t> padding_of(const Bytes& plain) const {
    const std::size_t length = plain.size() - explicit_iv_;
    const std::size_t padding = plain.back();
    if (padding + 1 + mac_ > length) return std::nullopt;
    for (std::size_t i = 0; i <= padding; ++i) {
      if (plain[plain.size() - 1 - i] != padding) return std::nullopt;
    }
    return padding;
  }

  std::optional<Bytes> mac_of(EVP_CIPHER_CTX* context) const {
    void* mac = nullptr;
    std::array params{OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_TLS_MAC, &mac, mac_),
                      OSSL_PARAM_construct_end()};
    if (EVP_CIPHER_CTX_get_params(context, params.data()) != 1 || mac == nullptr) return std::nullopt;
    const auto* bytes = static_cast<const std::uint8_t*>(mac);
    return Bytes(bytes, bytes + mac_);
  }

  void decrypt_record() {
    const Bytes iv = running_iv(reference_.get());
    const auto kind = static_cast<Kind>(random_.one_in(2) ? random_.in(minimal_padding, longer_padding)
                                                          : random_.in(0, kinds - 1));
    const Bytes record = compose(kind, iv);
    log_ << "decrypt " << record.size() << " kind " << static_cast<int>(kind) << "\n";
    if (record.empty() && explicit_iv_ != 0) {
      // The default provider reads in front of the buffer.
      empty_record();
      return;
    }
    if (random_.one_in(20)) refused_elsewhere(record);
    const bool whole = record.size() % block_ == 0;
    const Bytes plain = whole ? raw(iv, record, 0) : Bytes();
    // Ours again, to see whether a random MAC is one.
    const CipherContextPtr twin = is_ours_ && whole ? copy_of(ours_) : nullptr;
    Bytes a = record;
    Bytes b = record;
    Answer one = update(ours_.get(), a, block_);
    Answer other = update(reference_.get(), b, block_);
    const auto payload = [&](const Answer& answer, const Bytes& from) {
      const auto begin = from.begin() + static_cast<std::ptrdiff_t>(explicit_iv_);
      const auto room = std::ssize(from) - static_cast<std::ptrdiff_t>(explicit_iv_);
      return answer.good == 1 ? Bytes(begin, begin + std::min<std::ptrdiff_t>(answer.bytes, room)) : Bytes();
    };
    one.data = payload(one, a);
    other.data = payload(other, b);
    compare("decrypted record", one, other);
    may_refuse_ = may_refuse_ || other.good == 0;
    has_opened_ = true;
    if (!fine() || one.good == 0 || mac_ == 0) return;
    const auto padding = padding_of(plain);
    const auto ours = mac_of(ours_.get());
    const auto reference = mac_of(reference_.get());
    if (!ours || !reference) {
      complain("no MAC");
      return;
    }
    if (padding) {
      const auto end = plain.end() - static_cast<std::ptrdiff_t>(*padding) - 1;
      if (*ours != Bytes(end - static_cast<std::ptrdiff_t>(mac_), end)) complain("wrong MAC");
      if (*ours != *reference) complain("another MAC than the reference's");
    } else if (twin) {
      Bytes c = record;
      if (update(twin.get(), c, block_).bytes != one.bytes) complain("another length for the same record");
      if (mac_of(twin.get()) == ours) complain("bad padding, and the same MAC twice");
    }
    if (is_ours_ && random_.one_in(8)) duplicate(*ours);
  }

  void empty_record() {
    if (!is_ours_) return;
    const CipherContextPtr copy = copy_of(ours_);
    if (!copy) return;
    Bytes nothing;
    if (update(copy.get(), nothing, block_).good != 0) complain("an empty record was accepted");
  }

  // Null where ours may refuse: after a call that failed, or other data, records may go through the default
  // provider's context, whose duplicates share the MAC and free it twice.
  CipherContextPtr copy_of(const CipherContextPtr& from) {
    CipherContextPtr copy(EVP_CIPHER_CTX_new());
    if (EVP_CIPHER_CTX_copy(copy.get(), from.get()) == 1) return copy;
    if (!may_refuse_) complain("duplicate");
    return nullptr;
  }

  // The reference's copy is made by hand, and what it says about its first IV is another thing then.
  void duplicate(const Bytes& mac) {
    log_ << "duplicate\n";
    CipherContextPtr a = copy_of(ours_);
    if (!a) return;
    if (mac_of(a.get()) != mac) complain("the duplicate's MAC");
    CipherContextPtr b(EVP_CIPHER_CTX_new());
    const Bytes iv = running_iv(reference_.get());
    if (EVP_CipherInit_ex2(b.get(), reference_cipher_.get(), key_.data(), iv.data(), encrypt_, nullptr) !=
            1 ||
        send_record_mode(b.get(), version_, mac_) != 1)
      complain("duplicate of the reference");
    is_original_ = false;
    std::swap(a, ours_);
    std::swap(b, reference_);
    one_record();
    if (fine() && mac_of(a.get()) != mac) complain("the MAC changed with a record of the duplicate");
    if (random_.one_in(2)) return;
    std::swap(a, ours_);
    std::swap(b, reference_);
    if (fine()) one_record();
  }

  void disturb() {
    switch (random_.in(0, 9)) {
      case 0:
      case 1:
        set_min_bytes();
        break;
      case 2:
        final_call();  // fails
        may_refuse_ = true;
        break;
      case 3:
        fresh_iv();
        both("new iv", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, nullptr, iv_.data(), -1, nullptr);
        });
        break;
      case 4:
        set_record_mode();
        break;
      case 5: {
        set_padding(false);
        may_refuse_ = true;
        both("record without padding", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          Bytes record(96 + block_);
          int bytes = 0;
          return EVP_CipherUpdate(c, record.data(), &bytes, record.data(), 96);
        });
        set_padding(true);
        break;
      }
      case 6: {
        Bytes data(block_ * random_.in(1, 90));
        random_.fill(data.data(), data.size());
        data_call(false, data.data(), data.size(), random_.one_in(2) ? 0 : 1);
        break;
      }
      case 7:
        fresh_iv();
        encrypt_ = 1 - encrypt_;
        both("other direction", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, key_.data(), iv_.data(), encrypt_, nullptr);
        });
        break;
      case 8: {
        std::array<char, 2> text{"x"};
        const std::array params{OSSL_PARAM_construct_utf8_string(OSSL_CIPHER_PARAM_PADDING, text.data(), 0),
                                OSSL_PARAM_construct_end()};
        may_refuse_ = true;
        both("an init that fails", [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) {
          return EVP_CipherInit_ex2(c, nullptr, key_.data(), iv_.data(), -1, params.data());
        });
        break;
      }
      default:
        if (encrypt_ == 1 && !has_opened_) {
          log_ << "duplicate\n";
          const CipherContextPtr a = copy_of(ours_);
          const CipherContextPtr b = copy_of(reference_);
          if (!a || !b) break;
          one_record();
          if (random_.one_in(2)) {
            EVP_CIPHER_CTX_copy(ours_.get(), a.get());
            EVP_CIPHER_CTX_copy(reference_.get(), b.get());
          }
        }
        break;
    }
  }

  int version_ = 0;
  std::size_t mac_ = 0;
  std::size_t explicit_iv_ = 0;
  bool is_original_ = true;  // no copy made by hand
  bool has_opened_ = false;  // a record: the reference has no duplicates then
  bool may_refuse_ = false;  // duplicates: see copy_of
};

}  // namespace

std::unique_ptr<Case> make_record_case(const Library& ours, const Library& reference, const std::string& name,
                                       std::uint64_t seed, std::size_t largest) {
  return std::make_unique<RecordCase>(ours, reference, name, seed, largest);
}

}  // namespace sunxi::test
