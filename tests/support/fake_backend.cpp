// SPDX-License-Identifier: Apache-2.0
#define OPENSSL_SUPPRESS_DEPRECATED  // libcrypto's functions for one block
#include "tests/support/fake_backend.h"

#include <openssl/evp.h>
#include <openssl/md5.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/process.h"
#include "tests/support/evp.h"

namespace sunxi::test {
namespace {

constexpr std::array names{"mmio", "cryptodev", "afalg"};
std::array<FakePlan, names.size()> plans;

struct Session {
  CipherSpec spec;
  std::vector<std::uint8_t> key;
};

struct Message {
  DigestSpec spec;
  DigestContextPtr context;
};

// By Digest.
constexpr std::array digest_names{"MD5",      "SHA1",     "SHA2-224",     "SHA2-256",
                                  "SHA2-384", "SHA2-512", "SHA2-512/224", "SHA2-512/256"};
constexpr std::array<DigestSpec, digest_names.size()> digest_specs{{{Digest::md5, 64, 16},
                                                                    {Digest::sha1, 64, 20},
                                                                    {Digest::sha224, 64, 28},
                                                                    {Digest::sha256, 64, 32},
                                                                    {Digest::sha384, 128, 48},
                                                                    {Digest::sha512, 128, 64},
                                                                    {Digest::sha512_224, 128, 28},
                                                                    {Digest::sha512_256, 128, 32}}};

bool known(const DigestSpec& spec) noexcept {
  const auto row = static_cast<std::size_t>(spec.digest);
  return row < digest_specs.size() && digest_specs[row] == spec;
}

bool has_words(const DigestSpec& spec) noexcept {
  return spec.block_bytes == 64;
}

// Blocks of a digest whose state is `words` 32-bit words, at the start of libcrypto's own.
template <class State, class Transform>
void absorb_blocks(const AbsorbRequest& request, std::size_t length, std::size_t words, Transform transform) {
  State state{};
  std::memcpy(&state, request.state, 4 * words);
  for (std::size_t at = 0; at < length; at += 64) transform(&state, request.in + at);
  std::memcpy(request.state, &state, 4 * words);
}
static_assert(offsetof(MD5_CTX, A) == 0 && offsetof(MD5_CTX, D) == 12);
static_assert(offsetof(SHA_CTX, h0) == 0 && offsetof(SHA_CTX, h4) == 16);
static_assert(offsetof(SHA256_CTX, h) == 0);

constexpr std::size_t most_xts_bytes = std::size_t{16} << 20U;  // 2^20 blocks

// Everything that backend.h has a way to say.
bool known(const CipherSpec& spec) noexcept {
  if (spec.cipher == Cipher::aes) {
    const bool xts = spec.mode == Mode::xts;
    const bool good_key = xts ? spec.key_bytes == 32 || spec.key_bytes == 64
                              : spec.key_bytes == 16 || spec.key_bytes == 24 || spec.key_bytes == 32;
    return good_key && spec.block_bytes == 16 && spec.iv_bytes == (spec.mode == Mode::ecb ? 0 : 16);
  }
  const bool good_key =
      spec.cipher == Cipher::des ? spec.key_bytes == 8 : spec.key_bytes == 16 || spec.key_bytes == 24;
  return good_key && spec.block_bytes == 8 &&
         ((spec.mode == Mode::ecb && spec.iv_bytes == 0) || (spec.mode == Mode::cbc && spec.iv_bytes == 8));
}

// What the caller owes.
bool sane(const CipherRequest& request) noexcept {
  const CipherSpec& spec = request.spec;
  if (!known(spec) || request.key.size() != spec.key_bytes || request.key.data() == nullptr ||
      request.in == nullptr || request.out == nullptr || (spec.iv_bytes != 0 && request.iv == nullptr))
    return false;
  if (spec.mode != Mode::xts) return request.length != 0 && request.length % spec.block_bytes == 0;
  const auto half = static_cast<std::ptrdiff_t>(spec.key_bytes / 2);
  const bool equal_halves =
      std::equal(request.key.begin(), request.key.begin() + half, request.key.begin() + half);
  return request.length >= spec.block_bytes && request.length <= most_xts_bytes &&
         !(equal_halves && request.direction == Direction::encrypt);
}

class FakeBackend final : public Backend {
 public:
  FakeBackend(std::string_view name, FakePlan& plan) : name_(name), plan_(plan), library_("default") {
    for (std::size_t i = 0; i < cipher_names.size(); ++i) ciphers_[i] = library_.cipher(cipher_names[i]);
    for (std::size_t i = 0; i < digest_names.size(); ++i) digests_[i] = library_.digest(digest_names[i]);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] bool supports(const CipherSpec& spec) const noexcept override {
    if (!known(spec)) ++plan_.contract_violations;
    return true;
  }

  [[nodiscard]] Result crypt(KeySlot& slot, const CipherRequest& request) noexcept override {
    const std::uint64_t call = plan_.calls.fetch_add(1) + 1;
    if (plan_.declines) return {plan_.refusal, 0};
    if (!sane(request)) {
      ++plan_.contract_violations;
      return {Outcome::failed, 0};
    }
    auto* session = static_cast<Session*>(slot.session);
    if (session == nullptr) {
      session = new Session{request.spec, {request.key.begin(), request.key.end()}};
      slot.session = session;
      ++plan_.live_sessions;
    } else if (session->spec != request.spec || !std::equal(request.key.begin(), request.key.end(),
                                                            session->key.begin(), session->key.end())) {
      ++plan_.contract_violations;  // the key changed and nobody released the slot
    }
    std::size_t length = request.length;
    const unsigned every = plan_.fails_every;
    const bool fails = every != 0 && call % every == 0;
    const std::uint8_t* const in = request.in;
    std::uint8_t* const out = request.out;
    if (fails) {
      // Output that runs ahead of the input would harm what is left of it.
      const bool ahead = out > in && out < in + length;
      length = request.spec.mode == Mode::xts || ahead
                   ? 0
                   : length / request.spec.block_bytes * (call % 5) / 5 * request.spec.block_bytes;
    }
    if (length != 0 && !compute(request, length)) {
      ++plan_.contract_violations;
      return {Outcome::failed, 0};
    }
    // Anything may be where the output was to be.
    if (fails && (out + request.length <= in || in + request.length <= out))
      std::memset(out + length, 0xee, request.length - length);
    plan_.bytes += length;
    plan_.served_by[static_cast<std::size_t>(request.spec.mode)] += fails ? 0 : 1;
    return {fails ? Outcome::failed : Outcome::served, length};
  }

  void release(KeySlot& slot) noexcept override {
    if (slot.session == nullptr) ++plan_.contract_violations;
    delete static_cast<Session*>(slot.session);
    slot.session = nullptr;
    --plan_.live_sessions;
  }

  void driver(const CipherSpec&, std::span<char> text) const noexcept override { write_driver(text); }

  [[nodiscard]] DigestWay digest_way(const DigestSpec& spec) const noexcept override {
    if (!known(spec)) ++plan_.contract_violations;
    const DigestWay way = plan_.digests;
    return way == DigestWay::absorb && !has_words(spec) ? DigestWay::none : way;
  }

  [[nodiscard]] Result absorb(const AbsorbRequest& request) noexcept override {
    const std::uint64_t call = plan_.calls.fetch_add(1) + 1;
    if (plan_.declines) return {plan_.refusal, 0};
    if (digest_way(request.spec) != DigestWay::absorb || request.state == nullptr || request.in == nullptr ||
        request.length == 0 || request.length % request.spec.block_bytes != 0) {
      ++plan_.contract_violations;
      return {Outcome::failed, 0};
    }
    const bool fails = fails_at(call);
    const std::size_t length =
        fails ? request.length / request.spec.block_bytes * (call % 5) / 5 * request.spec.block_bytes
              : request.length;
    switch (request.spec.digest) {
      case Digest::md5:
        absorb_blocks<MD5_CTX>(request, length, 4, MD5_Transform);
        break;
      case Digest::sha1:
        absorb_blocks<SHA_CTX>(request, length, 5, SHA1_Transform);
        break;
      default:
        absorb_blocks<SHA256_CTX>(request, length, 8, SHA256_Transform);
        break;
    }
    plan_.bytes += length;
    plan_.absorbed += fails ? 0 : 1;
    return {fails ? Outcome::failed : Outcome::served, length};
  }

  [[nodiscard]] Outcome extend(KeySlot& slot, const DigestSpec& spec, const std::uint8_t* in,
                               std::size_t length) noexcept override {
    const std::uint64_t call = plan_.calls.fetch_add(1) + 1;
    const bool first = slot.session == nullptr;
    if (!owes_nothing(slot, spec) || in == nullptr || length == 0) return lose(slot, Outcome::failed, true);
    if (plan_.declines) return lose(slot, plan_.refusal);
    if (first) {
      slot.session = new Message{spec, DigestContextPtr(EVP_MD_CTX_new())};
      ++plan_.live_sessions;
      if (EVP_DigestInit_ex2(message(slot).context.get(), digest(spec), nullptr) == 0)
        return lose(slot, Outcome::failed, true);
    }
    if (fails_at(call)) return lose(slot, Outcome::failed);
    if (EVP_DigestUpdate(message(slot).context.get(), in, length) == 0)
      return lose(slot, Outcome::failed, true);
    plan_.bytes += length;
    ++(first ? plan_.begun : plan_.extended);
    return Outcome::served;
  }

  [[nodiscard]] Outcome conclude(KeySlot& slot, const DigestSpec& spec, std::uint8_t* out) noexcept override {
    const std::uint64_t call = plan_.calls.fetch_add(1) + 1;
    if (slot.session == nullptr || !owes_nothing(slot, spec) || out == nullptr)
      return lose(slot, Outcome::failed, true);
    if (plan_.declines) return lose(slot, plan_.refusal);
    if (fails_at(call)) {
      std::memset(out, 0xee, spec.digest_bytes);  // anything may be there
      return lose(slot, Outcome::failed);
    }
    const bool good = EVP_DigestFinal_ex(message(slot).context.get(), out, nullptr) != 0;
    lose(slot, Outcome::served, !good);
    ++plan_.concluded;
    return good ? Outcome::served : Outcome::failed;
  }

  void abandon(KeySlot& slot) noexcept override { lose(slot, Outcome::served, slot.session == nullptr); }

  [[nodiscard]] Outcome clone(const KeySlot& slot, KeySlot& copy) noexcept override {
    const std::uint64_t call = plan_.calls.fetch_add(1) + 1;
    if (slot.session == nullptr || copy.session != nullptr || plan_.digests != DigestWay::messages) {
      ++plan_.contract_violations;
      return Outcome::failed;
    }
    if (plan_.declines) return plan_.refusal;
    if (plan_.refuses_clones) return Outcome::busy;
    if (fails_at(call)) return Outcome::failed;
    const Message& from = *static_cast<const Message*>(slot.session);
    copy.session = new Message{from.spec, DigestContextPtr(EVP_MD_CTX_new())};
    ++plan_.live_sessions;
    if (EVP_MD_CTX_copy_ex(message(copy).context.get(), from.context.get()) == 0)
      return lose(copy, Outcome::failed, true);
    ++plan_.cloned;
    return Outcome::served;
  }

  void digest_driver(const DigestSpec&, std::span<char> text) const noexcept override { write_driver(text); }

 private:
  static void write_driver(std::span<char> text) noexcept {
    const std::size_t bytes = std::min(text.size() - 1, std::size_t{4});
    std::memcpy(text.data(), "fake", bytes);
    text[bytes] = 0;
  }
  [[nodiscard]] bool fails_at(std::uint64_t call) const noexcept {
    const unsigned every = plan_.fails_every;
    return every != 0 && call % every == 0;
  }
  [[nodiscard]] static Message& message(const KeySlot& slot) noexcept {
    return *static_cast<Message*>(slot.session);
  }
  // What the caller of a message owes: the same digest from its start to its end.
  [[nodiscard]] bool owes_nothing(const KeySlot& slot, const DigestSpec& spec) const noexcept {
    return plan_.digests == DigestWay::messages && known(spec) &&
           (slot.session == nullptr || message(slot).spec == spec);
  }
  Outcome lose(KeySlot& slot, Outcome outcome, bool violated = false) noexcept {
    if (violated) ++plan_.contract_violations;
    if (slot.session != nullptr) {
      delete &message(slot);
      --plan_.live_sessions;
    }
    slot = {};
    return outcome;
  }
  [[nodiscard]] EVP_MD* digest(const DigestSpec& spec) const noexcept {
    return digests_[static_cast<std::size_t>(spec.digest)].get();
  }

  static constexpr std::array cipher_names{"AES-128-ECB", "AES-192-ECB", "AES-256-ECB", "AES-128-CBC",
                                           "AES-192-CBC", "AES-256-CBC", "AES-128-CTR", "AES-192-CTR",
                                           "AES-256-CTR", "AES-128-XTS", "AES-256-XTS", "DES-EDE3-ECB",
                                           "DES-EDE3-CBC"};

  [[nodiscard]] EVP_CIPHER* cipher_for(const CipherSpec& spec) const noexcept {
    if (spec.cipher != Cipher::aes) return ciphers_[spec.mode == Mode::ecb ? 11 : 12].get();
    if (spec.mode == Mode::xts) return ciphers_[spec.key_bytes == 32 ? 9 : 10].get();
    return ciphers_[static_cast<std::size_t>(spec.mode) * 3 + (spec.key_bytes - 16U) / 8].get();
  }

  [[nodiscard]] bool compute(const CipherRequest& request, std::size_t length) const noexcept {
    const CipherSpec& spec = request.spec;
    // K stands for K K K, which is single DES, and K1 K2 for K1 K2 K1.
    std::array<std::uint8_t, max_key_bytes> key{};
    std::copy(request.key.begin(), request.key.end(), key.begin());
    if (spec.cipher != Cipher::aes) {
      if (spec.cipher == Cipher::des) std::copy_n(key.begin(), 8, key.begin() + 8);
      if (spec.key_bytes != 24) std::copy_n(key.begin(), 8, key.begin() + 16);
    }
    const std::vector<std::uint8_t> input(request.in, request.in + length);
    const bool encrypt = request.direction == Direction::encrypt;
    const CipherContextPtr context(EVP_CIPHER_CTX_new());
    int bytes = 0;
    if (EVP_CipherInit_ex2(context.get(), cipher_for(spec), key.data(),
                           spec.mode == Mode::ecb ? nullptr : request.iv, encrypt ? 1 : 0, nullptr) == 0 ||
        EVP_CIPHER_CTX_set_padding(context.get(), 0) == 0 ||
        EVP_CipherUpdate(context.get(), request.out, &bytes, input.data(), static_cast<int>(length)) == 0 ||
        bytes != static_cast<int>(length))
      return false;
    if (spec.mode == Mode::cbc) {
      const std::uint8_t* last = (encrypt ? request.out : input.data()) + length - spec.block_bytes;
      std::memcpy(request.iv, last, spec.block_bytes);
    } else if (spec.mode == Mode::ctr) {
      advance_counter(request.iv, length / spec.block_bytes);
    }
    return true;
  }

  std::string_view name_;
  FakePlan& plan_;
  Library library_;
  std::array<CipherPtr, cipher_names.size()> ciphers_;
  std::array<DigestPtr, digest_names.size()> digests_;
};

}  // namespace

FakePlan& fake_plan(std::string_view name) {
  return plans.at(static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
}

void reset_fake_plans() {
  for (FakePlan& plan : plans) {
    plan.exists = false;
    plan.declines = false;
    plan.refusal = Outcome::busy;
    plan.fails_every = 0;
    plan.digests = Backend::DigestWay::none;
    plan.refuses_clones = false;
    plan.calls = plan.bytes = 0;
    plan.absorbed = plan.begun = plan.extended = plan.concluded = plan.cloned = 0;
    plan.contract_violations = 0;
    for (auto& served : plan.served_by) served = 0;
  }
}

}  // namespace sunxi::test

namespace sunxi {

std::unique_ptr<Backend> make_backend(std::string_view name, Process&, const BackendOptions&) {
  test::FakePlan& plan = test::fake_plan(name);
  if (!plan.exists) return nullptr;
  return std::make_unique<test::FakeBackend>(*std::find(test::names.begin(), test::names.end(), name), plan);
}

}  // namespace sunxi
