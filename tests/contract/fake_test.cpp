// SPDX-License-Identifier: Apache-2.0
// The provider alone, over backends that serve, decline, and fail in the middle.
#include <openssl/params.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "provider/provider.h"
#include "tests/contract/campaign.h"
#include "tests/contract/digest_functions.h"
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
    setenv("SUNXI_ALGORITHMS", every_algorithm, 1);
  }
  // `cases` of each.
  void compare_ciphers(std::uint64_t seed, std::uint64_t cases = 150) {
    compare(&Library::ciphers, seed, cases);
  }
  void compare_digests(std::uint64_t seed, std::uint64_t cases = 100) {
    compare(&Library::digests, seed, cases);
  }

 private:
  void compare(std::vector<std::string> (Library::*names)() const, std::uint64_t seed, std::uint64_t cases) {
    const Library ours("sunxi", initialise);
    const Library reference = reference_library();
    CampaignOptions options = seeded(seed, cases);
    options.algorithms = (ours.*names)();
    const std::string trouble = run_campaign(ours, reference, options);
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
    setup.compare_ciphers(11);
  }
  unsetenv("SUNXI_MIN_BYTES");
  CHECK(plan.bytes > 1'000'000);
  for (const auto& served : plan.served_by) CHECK(served > 500);
}

TEST_CASE("streams over a backend that always declines equal the default provider's") {
  Setup setup;
  FakePlan& plan = fake_plan("afalg");
  plan.exists = true;
  plan.declines = true;
  setenv("SUNXI_MIN_BYTES", "0", 1);
  for (const Outcome refusal : {Outcome::busy, Outcome::unavailable, Outcome::unsupported, Outcome::failed}) {
    plan.refusal = refusal;
    setup.compare_ciphers(12);
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
    setup.compare_ciphers(100 + every);
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
  setup.compare_ciphers(13);
  unsetenv("SUNXI_MIN_BYTES");
  CHECK(fake_plan("afalg").bytes > 0);
}

TEST_CASE("streams without any backend equal the default provider's") {
  Setup setup;
  setup.compare_ciphers(14);
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

TEST_CASE("records go to a backend by their size") {
  Setup setup;
  FakePlan& plan = fake_plan("afalg");
  plan.exists = true;
  const Library library("sunxi", initialise);
  const Library reference = reference_library();
  const auto record = [](const Library& from, int encrypt, std::vector<std::uint8_t> data) {
    const CipherPtr cipher = from.cipher("AES-256-CBC");
    const CipherContextPtr context(EVP_CIPHER_CTX_new());
    const std::array<std::uint8_t, 32> zeros{};
    EVP_CipherInit_ex2(context.get(), cipher.get(), zeros.data(), zeros.data(), encrypt, nullptr);
    int version = 0x0303;
    std::size_t mac = 20;
    std::array params{OSSL_PARAM_construct_int("tls-version", &version),
                      OSSL_PARAM_construct_size_t("tls-mac-size", &mac), OSSL_PARAM_construct_end()};
    REQUIRE(EVP_CIPHER_CTX_set_params(context.get(), params.data()) == 1);
    int bytes = 0;
    const int length = static_cast<int>(data.size());
    data.resize(data.size() + 16);
    REQUIRE(EVP_CipherUpdate(context.get(), data.data(), &bytes, data.data(), length) == 1);
    data.resize(static_cast<std::size_t>(bytes) + (encrypt == 1 ? 0 : 16));
    return data;
  };
  for (const std::size_t size : {100U, 4090U}) {
    const std::vector<std::uint8_t> plain(size, 7);
    const std::uint64_t calls = plan.calls;
    const auto encrypted = record(library, 1, plain);
    CHECK(encrypted == record(reference, 1, plain));
    auto decrypted = record(library, 0, encrypted);
    auto expected = record(reference, 0, encrypted);
    // The first block is nobody's.
    CHECK(std::vector(decrypted.begin() + 16, decrypted.end()) ==
          std::vector(expected.begin() + 16, expected.end()));
    CHECK(plan.calls - calls == (size < 512 ? 0 : 2));
  }
  CHECK(plan.contract_violations == 0);
}

// One stream through calls of which some fail half-way; what came out of the data calls.
std::string after_failures(const Library& library, int scenario) {
  const CipherPtr cipher = library.cipher("AES-128-CBC");
  const CipherContextPtr context(EVP_CIPHER_CTX_new());
  const std::array<std::uint8_t, 16> key{1}, other_key{2}, iv{3}, other_iv{4};
  std::array<std::uint8_t, 1024> data{};
  std::array<std::uint8_t, 1100> out{};
  std::string all;
  const auto update = [&] {
    int bytes = 0;
    const int good =
        EVP_CipherUpdate(context.get(), out.data(), &bytes, data.data(), static_cast<int>(data.size()));
    all += std::to_string(good) + " " + std::to_string(bytes) + " " +
           std::string(reinterpret_cast<const char*>(out.data()),
                       good == 1 ? static_cast<std::size_t>(bytes) : 0);
  };
  const auto final = [&] {
    int bytes = 0;
    all += std::to_string(EVP_CipherFinal_ex(context.get(), out.data(), &bytes));
  };
  std::array<char, 2> text{"x"};
  unsigned int off = 0;
  int negative = -1;
  int version = 0x0303;
  std::size_t wrong_length = 5;
  const std::array bad_padding{OSSL_PARAM_construct_utf8_string("padding", text.data(), 0),
                               OSSL_PARAM_construct_end()};
  const std::array bad_length{OSSL_PARAM_construct_size_t("keylen", &wrong_length),
                              OSSL_PARAM_construct_end()};
  const std::array half_padding{OSSL_PARAM_construct_uint("padding", &off),
                                OSSL_PARAM_construct_int("num", &negative), OSSL_PARAM_construct_end()};
  const std::array half_tls{OSSL_PARAM_construct_int("tls-version", &version),
                            OSSL_PARAM_construct_int("num", &negative), OSSL_PARAM_construct_end()};
  const auto init = [&](const auto* use_key, const auto* use_iv, const OSSL_PARAM* params) {
    all += std::to_string(EVP_CipherInit_ex2(context.get(), nullptr,
                                             use_key == nullptr ? nullptr : use_key->data(),
                                             use_iv == nullptr ? nullptr : use_iv->data(), -1, params));
  };
  const std::array<std::uint8_t, 16>* none = nullptr;
  EVP_CipherInit_ex2(context.get(), cipher.get(), key.data(), scenario == 6 ? nullptr : iv.data(),
                     scenario % 2, nullptr);
  if (scenario % 3 != 0) update();
  switch (scenario) {
    case 0:
    case 1:
      init(&other_key, &other_iv, bad_padding.data());
      init(none, &other_iv, nullptr);
      break;
    case 2:
    case 3:
      init(&other_key, &other_iv, bad_padding.data());
      break;
    case 4:
      init(none, none, bad_length.data());
      break;
    case 5:
      init(none, &other_iv, bad_length.data());
      update();
      init(none, none, nullptr);
      break;
    case 6:
      update();
      init(none, none, nullptr);
      break;
    case 7:
    case 8:
      all += std::to_string(EVP_CIPHER_CTX_set_params(context.get(), half_padding.data()));
      break;
    default:
      all += std::to_string(EVP_CIPHER_CTX_set_params(context.get(), half_tls.data()));
      break;
  }
  update();
  update();
  final();
  static_cast<void>(errors());
  return all;
}

TEST_CASE("calls that fail half-way leave what the default provider's leave") {
  Setup setup;
  fake_plan("afalg").exists = true;
  const Library library("sunxi", initialise);
  const Library reference("default");
  for (int scenario = 0; scenario < 11; ++scenario) {
    INFO(scenario);
    CHECK(after_failures(library, scenario) == after_failures(reference, scenario));
  }
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

// ---- Digests ---------------------------------------------------------------------------------------

using Way = Backend::DigestWay;

FakePlan& digest_plan(const char* name, Way way) {
  FakePlan& plan = fake_plan(name);
  plan.exists = true;
  plan.digests = way;
  return plan;
}

// A variable that is set as long as the object lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST_CASE("digests over one backend that serves equal the default provider's") {
  for (const Way way : {Way::absorb, Way::messages}) {
    for (const bool refuses_clones : {false, true}) {
      if (refuses_clones && way == Way::absorb) continue;
      INFO(static_cast<int>(way) << refuses_clones);
      Setup setup;
      FakePlan& plan = digest_plan("afalg", way);
      plan.refuses_clones = refuses_clones;
      for (const char* min_bytes : {"0", "512", "never"}) {
        const Environment variable("SUNXI_MIN_BYTES", min_bytes);
        const std::uint64_t calls = plan.calls;
        setup.compare_digests(21);
        CHECK((plan.calls == calls) == (std::string(min_bytes) == "never"));
      }
      CHECK(plan.bytes > 10'000'000);
      if (way == Way::absorb) {
        CHECK(plan.absorbed > 1000);
      } else {
        CHECK(plan.begun > 1000);
        CHECK(plan.extended > 1000);
        CHECK(plan.concluded > 300);
        CHECK((plan.cloned > 300) != refuses_clones);
      }
    }
  }
}

TEST_CASE("digests with the thresholds that nobody has set") {
  for (const Way way : {Way::absorb, Way::messages}) {
    Setup setup;
    FakePlan& plan = digest_plan("afalg", way);
    setup.compare_digests(22);
    CHECK(plan.calls > 100);
  }
}

TEST_CASE("digests over a backend that always declines equal the default provider's") {
  const Environment variable("SUNXI_MIN_BYTES", "0");
  for (const Way way : {Way::absorb, Way::messages}) {
    for (const Outcome refusal :
         {Outcome::busy, Outcome::unavailable, Outcome::unsupported, Outcome::failed}) {
      Setup setup;
      FakePlan& plan = digest_plan("afalg", way);
      plan.declines = true;
      plan.refusal = refusal;
      setup.compare_digests(23, 40);
      CHECK(plan.calls > 0);
      CHECK(plan.bytes == 0);
    }
  }
}

TEST_CASE("digests over a backend that fails at its k-th call equal the default provider's") {
  const Environment variable("SUNXI_MIN_BYTES", "0");
  for (const Way way : {Way::absorb, Way::messages}) {
    for (const unsigned every : {2U, 3U, 7U}) {
      INFO(static_cast<int>(way) << " every " << every);
      Setup setup;
      FakePlan& plan = digest_plan("mmio", way);
      plan.fails_every = every;
      setup.compare_digests(200 + every);
      CHECK(plan.bytes > 50'000);
    }
  }
}

TEST_CASE("digests over three backends, each of which fails now and then") {
  const Environment variable("SUNXI_MIN_BYTES", "0");
  constexpr std::array<std::array<Way, 3>, 3> orders{{{Way::absorb, Way::messages, Way::messages},
                                                      {Way::messages, Way::absorb, Way::messages},
                                                      {Way::messages, Way::none, Way::absorb}}};
  for (const auto& order : orders) {
    Setup setup;
    unsigned every = 5;
    std::size_t at = 0;
    for (const char* name : {"mmio", "cryptodev", "afalg"}) {
      FakePlan& plan = digest_plan(name, order[at++]);
      plan.fails_every = every++;
      plan.refuses_clones = every % 2 == 0;
    }
    setup.compare_digests(24);
    CHECK(fake_plan("mmio").calls + fake_plan("cryptodev").calls > 0);
    CHECK(fake_plan("afalg").calls > 0);
  }
}

TEST_CASE("digests without any backend equal the default provider's") {
  Setup setup;
  setup.compare_digests(25);
}

class Message {
 public:
  Message(const Library& library, const char* name) : digest_(library.digest(name)) { init(); }
  void init() { REQUIRE(EVP_DigestInit_ex2(context_.get(), digest_.get(), nullptr) == 1); }
  int update(std::size_t bytes) {
    const std::vector<std::uint8_t> data(bytes, 0x5a);
    return EVP_DigestUpdate(context_.get(), data.data(), data.size());
  }
  int final() { return EVP_DigestFinal_ex(context_.get(), out_.data(), nullptr); }
  int copy(const Message& other) { return EVP_MD_CTX_copy_ex(context_.get(), other.context_.get()); }
  // Whether the last final gave the digest of that many bytes.
  [[nodiscard]] bool is_of(std::size_t bytes) const {
    const std::vector<std::uint8_t> data(bytes, 0x5a);
    std::array<std::uint8_t, EVP_MAX_MD_SIZE> expected{};
    EVP_Q_digest(nullptr, EVP_MD_get0_name(EVP_MD_CTX_get0_md(context_.get())), nullptr, data.data(),
                 data.size(), expected.data(), nullptr);
    return out_ == expected;
  }

 private:
  DigestPtr digest_;
  DigestContextPtr context_{EVP_MD_CTX_new()};
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> out_{};
};

constexpr std::size_t kept_bytes = std::size_t{1} << 20U;
constexpr const char* lost_message = "too long to be kept (1048576 bytes)";

TEST_CASE("a session that is lost: its message goes on in software up to 1 MiB, then it is an error") {
  for (const char* name : {"MD5", "SHA2-256", "SHA2-512"}) {
    for (const std::size_t more : {std::size_t{0}, std::size_t{1}}) {
      for (const int where : {0, 1, 2, 3}) {
        INFO(name << " " << more << " " << where);
        Setup setup;
        FakePlan& plan = digest_plan("afalg", Way::messages);
        const Library library("sunxi", initialise);
        Message message(library, name);
        const std::size_t whole = kept_bytes + more;
        REQUIRE(message.update(300'000) == 1);
        REQUIRE(message.update(whole - 300'001) == 1);
        REQUIRE(message.update(1) == 1);
        CHECK(plan.extended == 2);
        plan.declines = true;
        plan.refusal = where == 3 ? Outcome::unavailable : Outcome::failed;  // as after a fork
        const bool good = more == 0;
        Message copy(library, "SHA1");
        static_cast<void>(errors());
        if (where == 1) CHECK(message.update(5) == good);
        if (where == 2) {
          CHECK(copy.copy(message) == 1);
          CHECK(errors().empty());  // of a copy that is spoiled the next call tells
        }
        if (!good) {
          // So are its copies, one upon the other, as OpenSSL 3.5 does it. Later ones EVP itself refuses.
          Message another(library, name);
          static_cast<void>(errors());
          CHECK(another.copy(message) == 1);
          CHECK(another.copy(message) == 1);
          CHECK(errors().empty());
          CHECK(another.update(1) == 0);
          CHECK(another.final() == 0);
          CHECK(errors().find(lost_message) != std::string::npos);
          another.init();
          CHECK(another.update(3) == 1);
          CHECK(another.final() == 1);
        }
        CHECK(message.final() == good);
        if (good) {
          CHECK(message.is_of(whole + (where == 1 ? 5 : 0)));
          if (where == 2) {
            CHECK(copy.final() == 1);
            CHECK(copy.is_of(whole));
          }
        } else {
          const std::string text = errors();
          INFO(text);
          CHECK(text.find(lost_message) != std::string::npos);
          CHECK(text.find(name) != std::string::npos);
          // And it stays so ...
          CHECK(message.update(1) == 0);
          CHECK(message.final() == 0);
        }
        // ... until a new message.
        message.init();
        REQUIRE(message.update(40'000) == 1);
        CHECK(message.final() == 1);
        CHECK(message.is_of(40'000));
        plan.declines = false;
        static_cast<void>(errors());
      }
    }
  }
  for (const char* name : {"mmio", "cryptodev", "afalg"}) {
    CHECK(fake_plan(name).contract_violations == 0);
    CHECK(fake_plan(name).live_sessions == 0);
  }
}

TEST_CASE("only a duplicate of a context that is with a session costs one") {
  Setup setup;
  FakePlan& plan = digest_plan("afalg", Way::messages);
  const Library library("sunxi", initialise);
  {
    Message message(library, "SHA2-256");
    Message copy(library, "SHA2-256");
    REQUIRE(copy.copy(message) == 1);
    REQUIRE(message.update(1000) == 1);
    REQUIRE(copy.copy(message) == 1);
    CHECK(plan.calls == 0);
    message.init();
    REQUIRE(message.update(20'000) == 1);
    CHECK(plan.live_sessions == 1);
    REQUIRE(copy.copy(message) == 1);
    CHECK(plan.live_sessions == 2);
    REQUIRE(copy.copy(message) == 1);  // the one before is given back
    CHECK(plan.live_sessions == 2);
    REQUIRE(copy.final() == 1);
    CHECK(copy.is_of(20'000));
    CHECK(plan.live_sessions == 1);
    REQUIRE(message.final() == 1);
    CHECK(plan.live_sessions == 0);
    REQUIRE(copy.copy(message) == 1);  // finished
    copy.init();
    REQUIRE(copy.update(20'000) == 1);
    CHECK(plan.live_sessions == 1);
  }
  CHECK(plan.live_sessions == 0);
  CHECK(plan.contract_violations == 0);
}

TEST_CASE("a message that has begun in software is nobody's session, its duplicate's neither") {
  Setup setup;
  FakePlan& plan = digest_plan("afalg", Way::messages);
  const Library library("sunxi", initialise);
  Message message(library, "SHA2-256");
  Message copy(library, "SHA2-256");
  REQUIRE(message.update(100) == 1);
  REQUIRE(copy.copy(message) == 1);
  REQUIRE(copy.update(50'000) == 1);
  REQUIRE(copy.final() == 1);
  CHECK(copy.is_of(50'100));
  REQUIRE(message.update(50'000) == 1);
  REQUIRE(message.final() == 1);
  CHECK(message.is_of(50'100));
  CHECK(plan.begun == 0);
}

// Through the functions themselves: OpenSSL 3.0 takes a new context for every init, 3.5 does not.
TEST_CASE("a used context's next message is a session's again") {
  Setup setup;
  FakePlan& plan = digest_plan("afalg", Way::messages);
  const Library library("sunxi", initialise);
  const DigestFunctions functions = digest_functions(library, "SHA2-256");
  void* const one = functions.newctx(OSSL_PROVIDER_get0_provider_ctx(library.provider()));
  const std::vector<std::uint8_t> data(20'000, 0x5a);
  REQUIRE(functions.init(one, nullptr) == 1);
  REQUIRE(functions.update(one, data.data(), 100) == 1);  // software's, and the copy's as well
  void* const copy = functions.dupctx(one);
  std::uint64_t begun = 0;
  for (void* used : {one, copy, one}) {
    REQUIRE(functions.init(used, nullptr) == 1);
    REQUIRE(functions.update(used, data.data(), data.size()) == 1);
    CHECK(plan.begun == ++begun);
  }
  CHECK(plan.live_sessions == 2);
  functions.freectx(one);
  functions.freectx(copy);
  CHECK(plan.live_sessions == 0);
}

TEST_CASE("whole blocks alone are absorbed, from the middle of a message as well") {
  Setup setup;
  FakePlan& plan = digest_plan("afalg", Way::absorb);
  const Library library("sunxi", initialise);
  for (const char* name : {"MD5", "SHA1", "SHA2-224", "SHA2-256"}) {
    INFO(name);
    plan.bytes = plan.absorbed = 0;
    Message message(library, name);
    REQUIRE(message.update(511) == 1);
    CHECK(plan.absorbed == 0);
    REQUIRE(message.update(1000) == 1);  // one byte ends a block
    CHECK(plan.bytes == 960);            // 999 and 39 of them stay
    Message copy(library, name);
    REQUIRE(copy.copy(message) == 1);
    REQUIRE(copy.update(640) == 1);  // 25 end a block, 615 are left
    CHECK(plan.bytes == 960 + 576);
    REQUIRE(copy.final() == 1);
    CHECK(copy.is_of(2151));
    REQUIRE(message.final() == 1);
    CHECK(message.is_of(1511));
  }
  plan.calls = 0;
  Message wide(library, "SHA2-512");
  REQUIRE(wide.update(100'000) == 1);
  CHECK(plan.calls == 0);
}

}  // namespace
}  // namespace sunxi::test
