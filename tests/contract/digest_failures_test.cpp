// SPDX-License-Identifier: Apache-2.0
// Digests when something fails: memory at its k-th call, a backend at its k-th, the process that forks, the
// provider that is unloaded; and many threads that copy one context. What gives a result gives the right one.
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "provider/provider.h"
#include "tests/contract/case.h"
#include "tests/contract/digest_functions.h"
#include "tests/support/catch.h"
#include "tests/support/fake_backend.h"

namespace {

// The next allocations that succeed; one fails after them, or all do. Negative: none fails.
std::atomic<long> allocations_left{-1};
std::atomic<bool> all_fail{false};
std::atomic<long> allocations_failed{0};

bool fails() noexcept {
  if (allocations_left.load(std::memory_order_relaxed) < 0) return false;
  if (allocations_left == 0) {
    if (!all_fail) allocations_left = -1;
    ++allocations_failed;
    return true;
  }
  --allocations_left;
  return false;
}

}  // namespace

// The linker gives us the provider's malloc (--wrap), which is not the backends': they use new.
extern "C" void* __real_malloc(std::size_t bytes);
extern "C" void* __wrap_malloc(std::size_t bytes) {
  return fails() ? nullptr : __real_malloc(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (fails()) return nullptr;
  try {
    return ::operator new(bytes);
  } catch (...) {
    return nullptr;
  }
}

namespace sunxi::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Way = Backend::DigestWay;

class Setup {
 public:
  explicit Setup(Way way) {
    reset_fake_plans();
    setenv("SUNXI_LOG", "off", 1);
    setenv("SUNXI_MIN_BYTES", "0", 1);
    plan.exists = way != Way::none;
    plan.digests = way;
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
  ~Setup() {
    allocations_left = -1;
    unsetenv("SUNXI_MIN_BYTES");
    static_cast<void>(errors());
    CHECK(plan.contract_violations == 0);
    CHECK(plan.live_sessions == 0);
  }
  FakePlan& plan = fake_plan("afalg");
};

Bytes message(std::size_t bytes) {
  Bytes all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::uint8_t>(i * 5 + i / 256);
  return all;
}

Bytes digest_of(const std::string& name, const std::uint8_t* data, std::size_t length) {
  Bytes out(EVP_MAX_MD_SIZE);
  std::size_t bytes = 0;
  if (EVP_Q_digest(nullptr, name.c_str(), nullptr, data, length, out.data(), &bytes) != 1) return {};
  out.resize(bytes);
  return out;
}

// Contexts through the provider's own functions, each with the length of its message: a beginning of one
// stream of bytes, so that a copy is compared by its length alone.
class Contexts {
 public:
  Contexts(const Library& library, const std::string& name, std::size_t longest)
      : name_(name), functions_(digest_functions(library, name)), data_(message(longest)) {
    provider_ = OSSL_PROVIDER_get0_provider_ctx(library.provider());
  }
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;
  ~Contexts() {
    for (Context& one : all_) functions_.freectx(one.opaque);
  }
  struct Context {
    void* opaque;
    std::size_t length = 0;
    bool running = false;
    bool broken = false;  // a call has failed
  };

  // Or null.
  Context* add() {
    void* opaque = functions_.newctx(provider_);
    return opaque == nullptr ? nullptr : keep(opaque);
  }
  void init(Context& one) {
    good_ = functions_.init(one.opaque, nullptr) == 1 && good_;
    one.length = 0;
    one.running = true;
    one.broken = false;
  }
  void update(Context& one, std::size_t bytes) {
    bytes = std::min(bytes, data_.size() - one.length);
    if (functions_.update(one.opaque, data_.data() + one.length, bytes) == 1) {
      good_ = good_ && !(one.broken && bytes != 0);  // broken stays broken
    } else {
      broke(one);
    }
    one.length += bytes;
  }
  void final(Context& one) {
    if (!one.running) return;
    std::array<std::uint8_t, EVP_MAX_MD_SIZE> out{};
    std::size_t bytes = 77;
    if (functions_.final(one.opaque, out.data(), &bytes, out.size()) == 1) {
      good_ = good_ && !one.broken && Bytes(out.data(), out.data() + bytes) == expected(one.length);
    } else {
      good_ = good_ && bytes == 0;
      broke(one);
    }
    one.running = false;
  }
  Context* duplicate(const Context& from) {
    void* opaque = functions_.dupctx(from.opaque);
    if (opaque == nullptr) return nullptr;
    Context* made = keep(opaque);
    *made = Context{opaque, from.length, from.running, from.broken};
    return made;
  }
  void copy(Context& to, const Context& from) {
    functions_.copyctx(to.opaque, from.opaque);
    to = Context{to.opaque, from.length, from.running, from.broken};
  }
  // The state of one, into another.
  void hand_on(Context& to, const Context& from) {
    Bytes state(216);
    std::size_t bytes = state.size();
    if (functions_.serialize(from.opaque, state.data(), &bytes) != 1) return;
    good_ = good_ && functions_.deserialize(to.opaque, state.data(), bytes) == 1;
    to = Context{to.opaque, from.length, from.running, false};
    good_ = good_ && !from.broken;
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::size_t failures() const { return failures_; }
  [[nodiscard]] std::vector<Context>& all() { return all_; }

 private:
  Context* keep(void* opaque) {
    all_.reserve(64);
    all_.push_back({opaque});
    return &all_.back();
  }
  void broke(Context& one) {
    one.broken = true;
    ++failures_;
  }
  Bytes expected(std::size_t length) { return digest_of(name_, data_.data(), length); }

  std::string name_;
  DigestFunctions functions_;
  Bytes data_;
  void* provider_;
  std::vector<Context> all_;
  bool good_ = true;
  std::size_t failures_ = 0;
};

// A life with everything in it. Every allocation of it and every call of a backend is to fail once.
void live(Contexts& contexts, std::size_t piece) {
  Contexts::Context* one = contexts.add();
  Contexts::Context* two = contexts.add();
  if (one == nullptr || two == nullptr) return;
  contexts.init(*one);
  contexts.update(*one, piece);
  if (Contexts::Context* copy = contexts.duplicate(*one)) {
    contexts.update(*copy, piece);
    contexts.copy(*two, *copy);
    contexts.copy(*copy, *one);
    contexts.update(*two, 5);
    contexts.copy(*copy, *two);
    contexts.final(*copy);
    contexts.init(*copy);
    contexts.update(*copy, piece);
    contexts.hand_on(*copy, *one);
    contexts.update(*copy, piece);
    contexts.final(*copy);
  }
  contexts.update(*one, 0);
  contexts.update(*one, piece);
  contexts.hand_on(*two, *one);
  if (Contexts::Context* copy = contexts.duplicate(*two)) contexts.final(*copy);
  contexts.copy(*two, *one);
  contexts.final(*one);
  contexts.init(*one);
  contexts.update(*one, 3 * piece);
  contexts.copy(*one, *two);
  contexts.update(*one, 77);
  contexts.final(*one);
  contexts.final(*two);
}

constexpr std::array names{"MD5", "SHA2-256", "SHA2-512"};

TEST_CASE("memory that is out at its k-th allocation, or from it on, costs a message at most") {
  for (const Way way : {Way::none, Way::absorb, Way::messages}) {
    for (const char* name : names) {
      // The second is too long to be kept.
      for (const std::size_t piece : {std::size_t{5000}, std::size_t{400'000}}) {
        if (piece != 5000 && (way != Way::messages || name != names[1])) continue;
        for (const bool for_good : {false, true}) {
          for (const bool clones : {true, false}) {
            if (!clones && way != Way::messages) continue;
            for (long k = 0;; ++k) {
              INFO(name << " way " << static_cast<int>(way) << " piece " << piece << " k " << k
                        << " for good " << for_good << " clones " << clones);
              Setup setup(way);
              setup.plan.refuses_clones = !clones;
              const Library library("sunxi", initialise);
              Contexts contexts(library, name, 6 * piece);
              allocations_failed = 0;
              all_fail = for_good;
              allocations_left = k;
              live(contexts, piece);
              allocations_left = -1;
              CHECK(contexts.good());
              if (allocations_failed == 0) break;
              // A message that is kept does not die of it.
              if (way != Way::messages) CHECK(contexts.failures() == 0);
              if (way == Way::messages && clones && !for_good) CHECK(contexts.failures() == 0);
              REQUIRE(k < 1000);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a session that is lost with memory out says so") {
  for (const bool copied : {false, true}) {
    Setup setup(Way::messages);
    const Library library("sunxi", initialise);
    const DigestFunctions functions = digest_functions(library, "SHA2-256");
    void* one = functions.newctx(OSSL_PROVIDER_get0_provider_ctx(library.provider()));
    const Bytes data = message(20'000);
    REQUIRE(functions.init(one, nullptr) == 1);
    allocations_left = 1;  // a session, and nothing to keep its message in
    REQUIRE(functions.update(one, data.data(), data.size()) == 1);
    CHECK(setup.plan.live_sessions == 1);
    allocations_left = -1;
    setup.plan.declines = true;
    if (copied) {
      void* copy = functions.dupctx(one);
      REQUIRE(copy != nullptr);
      functions.freectx(one);
      one = copy;
    }
    static_cast<void>(errors());
    std::array<std::uint8_t, 32> out{};
    std::size_t bytes = 0;
    CHECK(functions.final(one, out.data(), &bytes, out.size()) == 0);
    std::string text = errors();
    CHECK(text.find("could not go on, and there was no memory to keep it") != std::string::npos);
    CHECK(text.find("too long") == std::string::npos);
    CHECK(functions.update(one, data.data(), 1) == 0);
    CHECK(functions.serialize(one, out.data(), nullptr) == 0);
    text = errors();
    CHECK(text.find("no memory to keep it") != std::string::npos);
    CHECK(text.find("too long") == std::string::npos);
    functions.freectx(one);
    setup.plan.declines = false;
  }
}

TEST_CASE("a copy that finds no memory for a session says so, if nothing is kept either") {
  Setup setup(Way::messages);
  const Library library("sunxi", initialise);
  const DigestFunctions functions = digest_functions(library, "SHA2-256");
  void* const one = functions.newctx(OSSL_PROVIDER_get0_provider_ctx(library.provider()));
  void* const two = functions.newctx(OSSL_PROVIDER_get0_provider_ctx(library.provider()));
  const Bytes data = message((std::size_t{1} << 20U) + 1);
  REQUIRE(functions.init(one, nullptr) == 1);
  REQUIRE(functions.update(one, data.data(), data.size()) == 1);
  allocations_left = 0;
  functions.copyctx(two, one);
  allocations_left = -1;
  std::array<std::uint8_t, 32> out{};
  std::size_t bytes = 0;
  CHECK(functions.final(two, out.data(), &bytes, out.size()) == 0);
  CHECK(errors().find("no memory") != std::string::npos);
  CHECK(functions.final(one, out.data(), &bytes, out.size()) == 1);
  functions.freectx(one);
  functions.freectx(two);
}

TEST_CASE("a backend that fails at its k-th call, once") {
  for (const Way way : {Way::absorb, Way::messages}) {
    for (const char* name : names) {
      for (const std::size_t piece : {std::size_t{5000}, std::size_t{400'000}}) {
        std::uint64_t calls = 1;
        for (std::uint64_t k = 1; k <= calls; ++k) {
          INFO(name << " way " << static_cast<int>(way) << " piece " << piece << " k " << k);
          Setup setup(way);
          const Library library("sunxi", initialise);
          Contexts contexts(library, name, 6 * piece);
          setup.plan.calls = 1'000'000 - k;
          setup.plan.fails_every = 1'000'000;
          live(contexts, piece);
          calls = std::max<std::uint64_t>(calls, setup.plan.calls - (1'000'000 - k));
          CHECK(contexts.good());
          if (way == Way::absorb || piece == 5000) CHECK(contexts.failures() == 0);
        }
        if (way == Way::absorb && std::string(name) == "SHA2-512") {
          CHECK(calls == 1);
        } else {
          CHECK(calls > 5);
        }
      }
    }
  }
}

TEST_CASE("a backend that is gone from its k-th call on") {
  for (const Outcome refusal : {Outcome::busy, Outcome::unavailable, Outcome::unsupported, Outcome::failed}) {
    for (const std::size_t piece : {std::size_t{5000}, std::size_t{400'000}}) {
      for (unsigned step = 0; step < 12; ++step) {
        INFO(static_cast<int>(refusal) << " piece " << piece << " step " << step);
        Setup setup(Way::messages);
        setup.plan.refusal = refusal;
        const Library library("sunxi", initialise);
        Contexts contexts(library, "SHA2-256", 6 * piece);
        Random random(step);
        for (int i = 0; i < 4; ++i) contexts.init(*contexts.add());
        for (unsigned i = 0; i < 60; ++i) {
          if (i == 5 * step) setup.plan.declines = true;
          if (i == 5 * step + 20) setup.plan.declines = false;
          Contexts::Context& one = contexts.all()[random.in(0, 3)];
          Contexts::Context& other = contexts.all()[random.in(0, 3)];
          switch (random.in(0, 5)) {
            case 0:
              contexts.copy(one, other);
              break;
            case 1:
              contexts.final(one);
              contexts.init(one);
              break;
            case 2:
              contexts.hand_on(one, other);
              break;
            default:
              if (!one.running) contexts.init(one);
              contexts.update(one, random.in(0, piece));
              break;
          }
        }
        for (Contexts::Context& one : contexts.all()) contexts.final(one);
        CHECK(contexts.good());
        if (piece == 5000) CHECK(contexts.failures() == 0);
      }
    }
  }
}

TEST_CASE("sixteen threads copy one context, whoever has its message") {
  for (const Way way : {Way::none, Way::absorb, Way::messages}) {
    for (const bool clones : {true, false}) {
      Setup setup(way);
      setup.plan.refuses_clones = !clones;
      const Library library("sunxi", initialise);
      const DigestPtr digest = library.digest("SHA2-256");
      const Bytes data = message(60'000);
      const DigestContextPtr shared(EVP_MD_CTX_new());
      REQUIRE(EVP_DigestInit_ex2(shared.get(), digest.get(), nullptr) == 1);
      REQUIRE(EVP_DigestUpdate(shared.get(), data.data(), 20'000) == 1);
      std::vector<Bytes> expected;
      for (std::size_t i = 0; i < 16; ++i)
        expected.push_back(digest_of("SHA2-256", data.data(), 20'000 + 97 * i));
      std::atomic<int> wrong{0};
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < 16; ++i)
        threads.emplace_back([&, i] {
          const DigestContextPtr own(EVP_MD_CTX_new());
          for (int round = 0; round < 40; ++round) {
            Bytes out(32);
            if (EVP_MD_CTX_copy_ex(own.get(), shared.get()) != 1 ||
                EVP_DigestUpdate(own.get(), data.data() + 20'000, 97 * i) != 1 ||
                EVP_DigestFinal_ex(own.get(), out.data(), nullptr) != 1 || out != expected[i])
              ++wrong;
          }
        });
      for (std::thread& thread : threads) thread.join();
      CHECK(wrong == 0);
      Bytes out(32);
      CHECK(EVP_DigestFinal_ex(shared.get(), out.data(), nullptr) == 1);
      CHECK(out == expected[0]);
    }
  }
}

TEST_CASE("contexts outlive their provider's name in the library, and are freed after it") {
  Setup setup(Way::messages);
  const Bytes data = message(20'000);
  DigestContextPtr context(EVP_MD_CTX_new());
  DigestContextPtr copy(EVP_MD_CTX_new());
  Bytes out(32);
  {
    LibraryPtr library(OSSL_LIB_CTX_new());
    OSSL_PROVIDER_add_builtin(library.get(), "sunxi", initialise);
    OSSL_PROVIDER* provider = OSSL_PROVIDER_load(library.get(), "sunxi");
    REQUIRE(provider != nullptr);
    const DigestPtr digest(EVP_MD_fetch(library.get(), "SHA2-256", nullptr));
    REQUIRE(EVP_DigestInit_ex2(context.get(), digest.get(), nullptr) == 1);
    REQUIRE(EVP_DigestUpdate(context.get(), data.data(), 15'000) == 1);
    REQUIRE(OSSL_PROVIDER_unload(provider) == 1);
    REQUIRE(EVP_MD_CTX_copy_ex(copy.get(), context.get()) == 1);
    REQUIRE(EVP_DigestUpdate(context.get(), data.data() + 15'000, 5000) == 1);
    REQUIRE(EVP_DigestFinal_ex(context.get(), out.data(), nullptr) == 1);
    CHECK(out == digest_of("SHA2-256", data.data(), 20'000));
    CHECK(setup.plan.live_sessions == 1);
    context.reset();
    copy.reset();
    CHECK(setup.plan.live_sessions == 0);
  }
}

TEST_CASE("more bits than 32 count") {
  Setup setup(Way::absorb);
  constexpr std::size_t half = std::size_t{1} << 28U;  // 2^31 bits
  const Bytes data(half + 100);
  for (const char* name : {"MD5", "SHA1", "SHA2-256"}) {
    INFO(name);
    const Library library("sunxi", initialise);
    const DigestPtr digest = library.digest(name);
    std::vector<Bytes> results;
    for (const bool backend : {true, false}) {
      const DigestPtr used = backend ? library.digest(name) : DigestPtr(EVP_MD_fetch(nullptr, name, nullptr));
      const DigestContextPtr context(EVP_MD_CTX_new());
      REQUIRE(EVP_DigestInit_ex2(context.get(), used.get(), nullptr) == 1);
      for (const std::size_t bytes : {std::size_t{3}, half, half + 100, std::size_t{7}})
        REQUIRE(EVP_DigestUpdate(context.get(), data.data(), bytes) == 1);
      results.emplace_back(EVP_MAX_MD_SIZE);
      REQUIRE(EVP_DigestFinal_ex(context.get(), results.back().data(), nullptr) == 1);
    }
    CHECK(results[0] == results[1]);
  }
  CHECK(setup.plan.bytes > 5 * half);
}

TEST_CASE("a split update is one request of each who had a part") {
  Setup setup(Way::absorb);
  const Library library("sunxi", initialise);
  const auto requests = [&](const std::vector<std::size_t>& updates) {
    const std::uint64_t before = library.count("sunxi.software.requests");
    const std::uint64_t bytes = library.count("sunxi.software.bytes") + library.count("sunxi.afalg.bytes");
    std::size_t all = 0;
    {
      Contexts contexts(library, "SHA2-256", 10'000);
      Contexts::Context& one = *contexts.add();
      contexts.init(one);
      for (const std::size_t update : updates) {
        contexts.update(one, update);
        all += update;
      }
      contexts.final(one);
      CHECK(contexts.good());
    }
    CHECK(library.count("sunxi.software.bytes") + library.count("sunxi.afalg.bytes") - bytes == all);
    return library.count("sunxi.software.requests") - before;
  };
  CHECK(requests({}) == 0);
  CHECK(requests({640}) == 0);           // a backend's alone
  CHECK(requests({10}) == 1);            // software's alone
  CHECK(requests({650}) == 1);           // its end is software's
  CHECK(requests({10, 54 + 640}) == 2);  // its start is
  CHECK(requests({10, 640}) == 2);       // both are
  setup.plan.declines = true;
  CHECK(requests({10, 640}) == 2);
  setup.plan.declines = false;
  setup.plan.fails_every = 1;
  CHECK(requests({10, 6400}) == 2);
}

TEST_CASE("what software does again is one request") {
  Setup setup(Way::messages);
  const Library library("sunxi", initialise);
  for (const bool in_final : {false, true}) {
    const std::uint64_t before = library.count("sunxi.software.requests");
    const std::uint64_t bytes = library.count("sunxi.software.bytes");
    {
      Contexts contexts(library, "SHA2-256", 10'000);
      Contexts::Context& one = *contexts.add();
      contexts.init(one);
      contexts.update(one, 1000);
      contexts.update(one, 1000);
      setup.plan.declines = true;
      if (!in_final) contexts.update(one, 1000);
      contexts.final(one);
      CHECK(contexts.good());
      setup.plan.declines = false;
    }
    CHECK(library.count("sunxi.software.requests") - before == 1);
    CHECK(library.count("sunxi.software.bytes") - bytes == (in_final ? 2000 : 3000));
  }
}

// Where nothing is taken from the result, a caller that looks at the length alone sees none.
TEST_CASE("a digest that fails is no bytes long") {
  Setup setup(Way::messages);
  const Library library("sunxi", initialise);
  const DigestPtr digest = library.digest("SHA2-256");
  const DigestContextPtr context(EVP_MD_CTX_new());
  const Bytes data = message((std::size_t{1} << 20U) + 1);
  REQUIRE(EVP_DigestInit_ex2(context.get(), digest.get(), nullptr) == 1);
  REQUIRE(EVP_DigestUpdate(context.get(), data.data(), data.size()) == 1);
  setup.plan.declines = true;
  std::array<std::uint8_t, 32> out{};
  unsigned int bytes = 77;
  CHECK(EVP_DigestFinal_ex(context.get(), out.data(), &bytes) == 0);
  CHECK(bytes == 0);
  setup.plan.declines = false;
}

TEST_CASE("a message that cannot be copied is not left to a session beyond what is kept") {
  // EVP_DigestSignFinal works on a copy.
  for (const bool at_once : {false, true}) {
    Setup setup(Way::messages);
    setup.plan.refuses_clones = true;
    const Library library("sunxi", initialise);
    const DigestPtr digest = library.digest("SHA2-256");
    const Bytes data = message(1'500'000);
    const DigestContextPtr one(EVP_MD_CTX_new());
    const DigestContextPtr copy(EVP_MD_CTX_new());
    REQUIRE(EVP_DigestInit_ex2(one.get(), digest.get(), nullptr) == 1);
    const std::size_t piece = at_once ? data.size() : 300'000;
    for (std::size_t at = 0; at < data.size(); at += piece)
      REQUIRE(EVP_DigestUpdate(one.get(), data.data() + at, piece) == 1);
    CHECK(setup.plan.live_sessions == 0);
    Bytes out(32);
    CHECK(EVP_MD_CTX_copy_ex(copy.get(), one.get()) == 1);
    CHECK(EVP_DigestFinal_ex(copy.get(), out.data(), nullptr) == 1);
    CHECK(out == digest_of("SHA2-256", data.data(), data.size()));
    CHECK(EVP_DigestFinal_ex(one.get(), out.data(), nullptr) == 1);
    CHECK(out == digest_of("SHA2-256", data.data(), data.size()));
  }
}

}  // namespace
}  // namespace sunxi::test
