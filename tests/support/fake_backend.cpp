// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_backend.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
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

  void driver(const CipherSpec&, std::span<char> text) const noexcept override {
    const std::size_t bytes = std::min(text.size() - 1, std::size_t{4});
    std::memcpy(text.data(), "fake", bytes);
    text[bytes] = 0;
  }

 private:
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
    plan.calls = 0;
    plan.bytes = 0;
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
