// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_backend.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/process.h"
#include "tests/support/evp.h"

namespace sunxi::test {
namespace {

constexpr std::array names{"mmio", "cryptodev", "afalg"};
std::array<FakePlan, names.size()> plans;

struct Session {
  std::vector<std::uint8_t> key;
};

class FakeBackend final : public Backend {
 public:
  FakeBackend(std::string_view name, FakePlan& plan) : name_(name), plan_(plan), library_("default") {}

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  [[nodiscard]] bool supports(const CipherSpec& spec) const noexcept override {
    return spec.cipher == Cipher::aes && spec.mode == Mode::cbc;
  }

  [[nodiscard]] Result crypt(KeySlot& slot, const CipherRequest& request) noexcept override {
    const std::uint64_t call = plan_.calls.fetch_add(1) + 1;
    if (plan_.declines) return {plan_.refusal, 0};
    const bool sane = request.length != 0 && request.length % request.spec.block_bytes == 0 &&
                      request.key.size() == request.spec.key_bytes && request.iv != nullptr &&
                      request.in != nullptr && request.out != nullptr;
    if (!sane) ++plan_.contract_violations;
    auto* session = static_cast<Session*>(slot.session);
    if (session == nullptr) {
      session = new Session{{request.key.begin(), request.key.end()}};
      slot.session = session;
      ++plan_.live_sessions;
    } else if (!std::equal(request.key.begin(), request.key.end(), session->key.begin(),
                           session->key.end())) {
      ++plan_.contract_violations;  // the key changed and nobody released the slot
    }
    std::size_t length = request.length;
    const unsigned every = plan_.fails_every;
    const bool fails = every != 0 && call % every == 0;
    if (fails) length = (length / 16 * (call % 5) / 5) * 16;
    if (length != 0) compute(request, length);
    if (fails && (request.out + request.length <= request.in || request.in + request.length <= request.out))
      std::memset(request.out + length, 0xee, request.length - length);
    plan_.bytes += length;
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
  void compute(const CipherRequest& request, std::size_t length) noexcept {
    const CipherPtr cipher = library_.cipher("AES-" + std::to_string(request.spec.key_bytes * 8) + "-CBC");
    const CipherContextPtr context(EVP_CIPHER_CTX_new());
    const std::vector<std::uint8_t> input(request.in, request.in + length);
    const bool encrypt = request.direction == Direction::encrypt;
    EVP_CipherInit_ex2(context.get(), cipher.get(), request.key.data(), request.iv, encrypt ? 1 : 0, nullptr);
    EVP_CIPHER_CTX_set_padding(context.get(), 0);
    int bytes = 0;
    EVP_CipherUpdate(context.get(), request.out, &bytes, input.data(), static_cast<int>(length));
    const std::uint8_t* last = (encrypt ? request.out : input.data()) + length - 16;
    std::memcpy(request.iv, last, 16);
  }

  std::string_view name_;
  FakePlan& plan_;
  Library library_;
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
