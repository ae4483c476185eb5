// SPDX-License-Identifier: Apache-2.0
// The provider alone, over backends that serve, decline, and fail in the middle.
#include <openssl/params.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "provider/provider.h"
#include "tests/contract/campaign.h"
#include "tests/support/catch.h"
#include "tests/support/evp.h"
#include "tests/support/fake_backend.h"

namespace sunxi::test {
namespace {

CampaignOptions seeded(std::uint64_t seed, std::uint64_t cases) {
  CampaignOptions options;
  options.seed = seed;
  options.cases = cases;
  if (const char* more = std::getenv("SUNXI_TEST_CASES")) options.cases = std::strtoull(more, nullptr, 10);
  return options;
}

class Setup {
 public:
  Setup() {
    reset_fake_plans();
    setenv("SUNXI_LOG", "off", 1);
  }
  void compare(std::uint64_t seed, std::uint64_t cases = 1500) {
    const Library ours("sunxi", initialise);
    const Library reference("default");
    const std::string trouble = run_campaign(ours, reference, seeded(seed, cases));
    INFO(trouble);
    CHECK(trouble.empty());
    for (const char* name : {"mmio", "cryptodev", "afalg"}) {
      CHECK(fake_plan(name).contract_violations == 0);
      CHECK(fake_plan(name).live_sessions == 0);
    }
  }
};

TEST_CASE("streams over one backend that serves equal the default provider's") {
  Setup setup;
  FakePlan& plan = fake_plan("afalg");
  plan.exists = true;
  for (const char* min_bytes : {"0", "16", "512"}) {
    setenv("SUNXI_MIN_BYTES", min_bytes, 1);
    setup.compare(11);
  }
  unsetenv("SUNXI_MIN_BYTES");
  CHECK(plan.bytes > 1'000'000);
}

TEST_CASE("streams over a backend that always declines equal the default provider's") {
  Setup setup;
  FakePlan& plan = fake_plan("afalg");
  plan.exists = true;
  plan.declines = true;
  setenv("SUNXI_MIN_BYTES", "0", 1);
  for (const Outcome refusal : {Outcome::busy, Outcome::unavailable, Outcome::unsupported, Outcome::failed}) {
    plan.refusal = refusal;
    setup.compare(12);
  }
  unsetenv("SUNXI_MIN_BYTES");
  CHECK(plan.calls > 0);
  CHECK(plan.bytes == 0);
}

TEST_CASE("streams over a backend that fails at its k-th call equal the default provider's") {
  Setup setup;
  FakePlan& plan = fake_plan("mmio");
  plan.exists = true;
  setenv("SUNXI_MIN_BYTES", "0", 1);
  for (const unsigned every : {2U, 3U, 7U}) {
    plan.fails_every = every;
    setup.compare(100 + every);
  }
  unsetenv("SUNXI_MIN_BYTES");
  CHECK(plan.bytes > 100'000);
}

TEST_CASE("three backends, each of which fails now and then, in the configured order") {
  Setup setup;
  unsigned every = 2;
  for (const char* name : {"mmio", "cryptodev", "afalg"}) {
    fake_plan(name).exists = true;
    fake_plan(name).fails_every = every++;
  }
  setenv("SUNXI_MIN_BYTES", "0", 1);
  setup.compare(13);
  unsetenv("SUNXI_MIN_BYTES");
  CHECK(fake_plan("afalg").bytes > 0);
}

TEST_CASE("streams without any backend equal the default provider's") {
  Setup setup;
  setup.compare(14);
}

class Session {
 public:
  explicit Session(const Library& library) : cipher_(library.cipher("AES-128-CBC")) { init(); }
  void init() { EVP_EncryptInit_ex2(context_.get(), cipher_.get(), data_.data(), data_.data(), nullptr); }
  void init_iv() { EVP_EncryptInit_ex2(context_.get(), nullptr, nullptr, data_.data(), nullptr); }
  void update(int bytes) {
    int done = 0;
    REQUIRE(EVP_EncryptUpdate(context_.get(), out_.data(), &done, data_.data(), bytes) == 1);
  }
  void final() {
    int done = 0;
    REQUIRE(EVP_EncryptFinal_ex(context_.get(), out_.data(), &done) == 1);
  }
  void set_min_bytes(std::size_t bytes) {
    std::array params{OSSL_PARAM_construct_size_t("sunxi-min-bytes", &bytes), OSSL_PARAM_construct_end()};
    REQUIRE(EVP_CIPHER_CTX_set_params(context_.get(), params.data()) == 1);
  }
  void copy(const Session& other) { REQUIRE(EVP_CIPHER_CTX_copy(context_.get(), other.context_.get()) == 1); }
  [[nodiscard]] std::string backend() const {
    std::array<char, 32> text{};
    std::array params{OSSL_PARAM_construct_utf8_string("sunxi-backend", text.data(), text.size()),
                      OSSL_PARAM_construct_end()};
    REQUIRE(EVP_CIPHER_CTX_get_params(context_.get(), params.data()) == 1);
    return text.data();
  }

 private:
  CipherPtr cipher_;
  CipherContextPtr context_{EVP_CIPHER_CTX_new()};
  std::array<std::uint8_t, 8192> data_{};
  std::array<std::uint8_t, 8256> out_{};
};

TEST_CASE("sunxi-backend names who did most of the last update; final does not change it") {
  Setup setup;
  fake_plan("afalg").exists = true;
  const Library library("sunxi", initialise);
  Session session(library);
  CHECK(session.backend() == "none");
  session.update(100);
  CHECK(session.backend() == "software");
  session.update(5000);
  CHECK(session.backend() == "afalg");
  session.final();
  CHECK(session.backend() == "afalg");
  session.init();
  session.update(511);
  CHECK(session.backend() == "software");
  session.update(512);
  CHECK(session.backend() == "afalg");
  fake_plan("afalg").declines = true;
  session.update(5000);
  CHECK(session.backend() == "software");
}

TEST_CASE("sunxi-min-bytes beats the configuration, survives init and is copied") {
  Setup setup;
  fake_plan("afalg").exists = true;
  const Library library("sunxi", initialise);
  Session session(library);
  session.set_min_bytes(64);
  session.update(64);
  CHECK(session.backend() == "afalg");
  session.init_iv();
  session.update(64);
  CHECK(session.backend() == "afalg");
  Session copy(library);
  copy.copy(session);
  copy.init_iv();
  copy.update(64);
  CHECK(copy.backend() == "afalg");
  session.set_min_bytes(SIZE_MAX);
  session.update(8000);
  CHECK(session.backend() == "software");
  session.set_min_bytes(0);
  session.update(16);
  CHECK(session.backend() == "afalg");
}

TEST_CASE("record mode is software's") {
  Setup setup;
  fake_plan("afalg").exists = true;
  const Library library("sunxi", initialise);
  const Library reference("default");
  const auto record = [](const Library& from) {
    const CipherPtr cipher = from.cipher("AES-256-CBC");
    const CipherContextPtr context(EVP_CIPHER_CTX_new());
    std::vector<std::uint8_t> data(4096 + 64, 7);
    EVP_EncryptInit_ex2(context.get(), cipher.get(), data.data(), data.data(), nullptr);
    int version = 0x0303;
    std::size_t mac = 20;
    std::array params{OSSL_PARAM_construct_int("tls-version", &version),
                      OSSL_PARAM_construct_size_t("tls-mac-size", &mac), OSSL_PARAM_construct_end()};
    REQUIRE(EVP_CIPHER_CTX_set_params(context.get(), params.data()) == 1);
    int bytes = 0;
    REQUIRE(EVP_EncryptUpdate(context.get(), data.data(), &bytes, data.data(), 4090) == 1);
    data.resize(static_cast<std::size_t>(bytes));
    return data;
  };
  CHECK(record(library) == record(reference));
  CHECK(fake_plan("afalg").calls == 0);
}

TEST_CASE("equal keys keep their session, others give it back") {
  Setup setup;
  FakePlan& plan = fake_plan("afalg");
  plan.exists = true;
  const Library library("sunxi", initialise);
  {
    Session session(library);
    session.update(1024);
    CHECK(plan.live_sessions == 1);
    session.init_iv();
    session.update(1024);
    CHECK(plan.live_sessions == 1);
    Session copy(library);
    copy.copy(session);
    CHECK(plan.live_sessions == 1);  // a duplicate has none before it needs one
    copy.update(1024);
    CHECK(plan.live_sessions == 2);
  }
  CHECK(plan.live_sessions == 0);
  CHECK(plan.contract_violations == 0);
}

}  // namespace
}  // namespace sunxi::test
