// SPDX-License-Identifier: Apache-2.0
// A digest's state as bytes, and back: EVP_MD_CTX_serialize of OpenSSL 4.0, and before it the provider's own
// functions. Every other string of bytes is refused, or is a state.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "provider/provider.h"
#include "tests/contract/case.h"
#include "tests/contract/digest_functions.h"
#include "tests/support/catch.h"
#include "tests/support/fake_backend.h"

namespace sunxi::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Way = Backend::DigestWay;

struct Form {
  const char* name;
  std::size_t block, digest, state;
};
constexpr std::array forms{Form{"MD5", 64, 16, 96},
                           Form{"SHA1", 64, 20, 100},
                           Form{"SHA2-224", 64, 28, 112},
                           Form{"SHA2-256", 64, 32, 112},
                           Form{"SHA2-384", 128, 48, 216},
                           Form{"SHA2-512", 128, 64, 216},
                           Form{"SHA2-512/224", 128, 28, 216},
                           Form{"SHA2-512/256", 128, 32, 216}};

Bytes message(std::size_t bytes) {
  Bytes all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return all;
}

Bytes digest_of(const char* name, const Bytes& data) {
  Bytes out(EVP_MAX_MD_SIZE);
  std::size_t bytes = 0;
  REQUIRE(EVP_Q_digest(nullptr, name, nullptr, data.data(), data.size(), out.data(), &bytes) == 1);
  out.resize(bytes);
  return out;
}

// A context that is used through the provider's own functions.
class Context {
 public:
  Context(const Library& library, const char* name)
      : functions_(digest_functions(library, name)),
        opaque_(functions_.newctx(OSSL_PROVIDER_get0_provider_ctx(library.provider()))) {
    REQUIRE(opaque_ != nullptr);
    REQUIRE(functions_.serialize != nullptr);
    REQUIRE(functions_.deserialize != nullptr);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { functions_.freectx(opaque_); }

  void init() { REQUIRE(functions_.init(opaque_, nullptr) == 1); }
  int update(const Bytes& data) { return functions_.update(opaque_, data.data(), data.size()); }
  Bytes final() {
    Bytes out(EVP_MAX_MD_SIZE);
    std::size_t bytes = 77;
    if (functions_.final(opaque_, out.data(), &bytes, out.size()) != 1) bytes = 0;
    out.resize(bytes);
    return out;
  }
  void copy(Context& from) { functions_.copyctx(opaque_, from.opaque_); }
  int serialize(unsigned char* out, std::size_t* bytes) { return functions_.serialize(opaque_, out, bytes); }
  // Empty where there is none.
  Bytes state() {
    std::size_t bytes = 0;
    REQUIRE(serialize(nullptr, &bytes) == 1);
    Bytes state(bytes);
    if (serialize(state.data(), &bytes) != 1) return {};
    CHECK(bytes == state.size());
    return state;
  }
  int take(const Bytes& state) { return functions_.deserialize(opaque_, state.data(), state.size()); }
  int take(const std::uint8_t* in, std::size_t bytes) { return functions_.deserialize(opaque_, in, bytes); }

 private:
  DigestFunctions functions_;
  void* opaque_;
};

class Setup {
 public:
  explicit Setup(Way way) {
    reset_fake_plans();
    setenv("SUNXI_LOG", "off", 1);
    plan.exists = way != Way::none;
    plan.digests = way;
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
  ~Setup() {
    static_cast<void>(errors());
    CHECK(plan.contract_violations == 0);
    CHECK(plan.live_sessions == 0);
  }
  FakePlan& plan = fake_plan("afalg");
};

Bytes joined(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes from_hex(const std::string& text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST_CASE("a state goes into any context of its digest, and both go on") {
  const Bytes rest = message(333);
  for (const Way way : {Way::none, Way::absorb, Way::messages}) {
    for (const Form& form : forms) {
      for (const std::size_t bytes :
           {0U, 1U, 55U, 56U, 63U, 64U, 65U, 111U, 112U, 127U, 128U, 129U, 1000U, 20'000U}) {
        for (int target = 0; target < 5; ++target) {
          INFO(form.name << " " << bytes << " way " << static_cast<int>(way) << " target " << target);
          Setup setup(way);
          const Library library("sunxi", initialise);
          Context from(library, form.name);
          Context to(library, form.name);
          if (target != 0) to.init();
          if (target == 2) REQUIRE(to.update(message(77)) == 1);
          if (target == 3) REQUIRE(to.update(message(50'000)) == 1);  // maybe a session's
          if (target == 4) to.final();
          from.init();
          const Bytes start = message(bytes);
          REQUIRE(from.update(start) == 1);
          const int sessions = setup.plan.live_sessions;
          const Bytes state = from.state();
          CHECK(state.size() == form.state);
          CHECK(setup.plan.live_sessions == sessions);
          REQUIRE(to.take(state) == 1);
          if (target == 3)
            CHECK(setup.plan.live_sessions == (way == Way::messages && bytes >= 16384 ? 1 : 0));
          CHECK(to.state() == state);  // the same message has the same state
          REQUIRE(from.update(rest) == 1);
          REQUIRE(to.update(rest) == 1);
          const Bytes expected = digest_of(form.name, joined(start, rest));
          CHECK(from.final() == expected);
          CHECK(to.final() == expected);
        }
      }
    }
  }
}

TEST_CASE("a context that has taken a state uses backends as others do") {
  for (const Way way : {Way::absorb, Way::messages}) {
    Setup setup(way);
    const Library library("sunxi", initialise);
    for (const std::size_t bytes : {0U, 100U}) {
      INFO(static_cast<int>(way) << " " << bytes);
      setup.plan.calls = 0;
      Context from(library, "SHA2-256");
      Context to(library, "SHA2-256");
      from.init();
      REQUIRE(from.update(message(bytes)) == 1);
      REQUIRE(to.take(from.state()) == 1);
      REQUIRE(to.update(message(30'000)) == 1);
      CHECK((setup.plan.calls != 0) == (way == Way::absorb || bytes == 0));
      CHECK(to.final() == digest_of("SHA2-256", joined(message(bytes), message(30'000))));
    }
  }
}

TEST_CASE("the form is the same everywhere") {
  Setup setup(Way::none);
  const Library library("sunxi", initialise);
  const auto state = [&](const char* name, const char* text) {
    Context context(library, name);
    context.init();
    REQUIRE(context.update(Bytes(text, text + std::char_traits<char>::length(text))) == 1);
    return context.state();
  };
  const auto expected = [](const char* hex, std::size_t bytes) {
    Bytes all = from_hex(hex);
    all.resize(bytes);
    return all;
  };
  // Initial values: RFC 1321, 3.3; FIPS 180-4, 5.3.
  CHECK(state("MD5", "abc") == expected("53584d4401401000"
                                        "0000000000000018"
                                        "67452301efcdab8998badcfe10325476"
                                        "616263",
                                        96));
  CHECK(state("SHA1", "abc") == expected("53584d4401401400"
                                         "0000000000000018"
                                         "67452301efcdab8998badcfe10325476c3d2e1f0"
                                         "616263",
                                         100));
  CHECK(state("SHA2-256", "abc") ==
        expected("53584d4401402000"
                 "0000000000000018"
                 "6a09e667bb67ae853c6ef372a54ff53a510e527f9b05688c1f83d9ab5be0cd19"
                 "616263",
                 112));
  CHECK(state("SHA2-512", "abc") ==
        expected("53584d4401804000"
                 "00000000000000000000000000000018"
                 "6a09e667f3bcc908bb67ae8584caa73b3c6ef372fe94f82ba54ff53a5f1d36f1"
                 "510e527fade682d19b05688c2b3e6c1f1f83d9abfb41bd6b5be0cd19137e2179"
                 "616263",
                 216));
}

TEST_CASE("sizes and room") {
  Setup setup(Way::none);
  const Library library("sunxi", initialise);
  for (const Form& form : forms) {
    INFO(form.name);
    Context context(library, form.name);
    context.init();
    REQUIRE(context.update(message(100)) == 1);
    CHECK(context.serialize(nullptr, nullptr) == 0);
    std::size_t bytes = 0;
    CHECK(context.serialize(nullptr, &bytes) == 1);
    CHECK(bytes == form.state);
    Bytes out(form.state + 8, 0xaa);
    for (const std::size_t room : {std::size_t{0}, std::size_t{1}, form.state - 1}) {
      bytes = room;
      CHECK(context.serialize(out.data(), &bytes) == 0);
      CHECK(bytes == room);
      CHECK(out == Bytes(form.state + 8, 0xaa));
      CHECK(errors().find(std::string(form.name) + ": the state needs more room") != std::string::npos);
    }
    for (const std::size_t room : {form.state, form.state + 1, SIZE_MAX}) {
      bytes = room;
      CHECK(context.serialize(out.data(), &bytes) == 1);
      CHECK(bytes == form.state);
      CHECK(out[form.state] == 0xaa);
    }
    CHECK(context.serialize(out.data(), nullptr) == 1);  // whoever knows the size
  }
}

TEST_CASE("what is no state of this digest is refused and changes nothing") {
  Setup setup(Way::none);
  const Library library("sunxi", initialise);
  for (const Form& form : forms) {
    Context from(library, form.name);
    from.init();
    REQUIRE(from.update(message(100)) == 1);
    const Bytes good = from.state();
    Context context(library, form.name);
    context.init();
    const Bytes before = message(41);
    REQUIRE(context.update(before) == 1);
    const Bytes own = context.state();
    const auto refused = [&](const Bytes& bytes) {
      CHECK(context.take(bytes) == 0);
      CHECK(errors().find(std::string(form.name) + ": no state of this digest") != std::string::npos);
      CHECK(context.state() == own);
    };
    CHECK(context.take(nullptr, 0) == 0);
    CHECK(context.take(nullptr, good.size()) == 0);
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
      INFO(form.name << " " << bytes);
      refused(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)));
    }
    Bytes longer = good;
    longer.push_back(0);
    refused(longer);
    for (std::size_t at = 0; at < 8; ++at) {  // magic, version, digest
      for (const int flip : {0x01, 0x80, 0xff}) {
        INFO(form.name << " byte " << at);
        Bytes bad = good;
        bad[at] ^= static_cast<std::uint8_t>(flip);
        refused(bad);
      }
    }
    const std::size_t words = good.size() - 8 - form.block;
    const std::size_t count = 8 + (form.block == 64 ? 8 : 16);  // where the number of bits ends
    Bytes bad = good;
    bad[count - 1] ^= 4;  // a part of a byte
    refused(bad);
    bad = good;
    bad.back() = 1;  // behind the open block
    refused(bad);
    bad = good;  // a message of nothing with another state than the first
    std::fill(bad.begin() + 8, bad.begin() + static_cast<std::ptrdiff_t>(count), std::uint8_t{0});
    std::fill(bad.end() - static_cast<std::ptrdiff_t>(form.block), bad.end(), std::uint8_t{0});
    if (form.block == 64) refused(bad);  // 100 bytes have changed the words
    bad[8 + words - 1] ^= 1;
    refused(bad);
    for (const Form& other : forms) {
      if (std::string(other.name) == form.name) continue;
      INFO(form.name << " takes one of " << other.name);
      Context another(library, other.name);
      another.init();
      REQUIRE(another.update(message(100)) == 1);
      refused(another.state());
    }
    CHECK(context.final() == digest_of(form.name, before));
  }
}

TEST_CASE("a message as long as none ever was") {
  Setup setup(Way::absorb);
  const Library library("sunxi", initialise);
  for (const Form& form : forms) {
    INFO(form.name);
    Context context(library, form.name);
    context.init();
    REQUIRE(context.update(message(form.block)) == 1);
    Bytes state = context.state();
    const std::size_t count = 8 + (form.block == 64 ? 8 : 16);
    std::fill(state.begin() + 8, state.begin() + static_cast<std::ptrdiff_t>(count - 1), std::uint8_t{0xff});
    state[count - 1] = 0xf8;
    state.back() = 0;
    // All of the open block but its last byte is there.
    REQUIRE(context.take(state) == 1);
    CHECK(context.state() == state);
    REQUIRE(context.update(message(100'000)) == 1);  // the count wraps
    CHECK(context.state().size() == form.state);
    CHECK(context.final().size() == form.digest);
  }
}

// After final EVP asks for none. libcrypto's SHA-512 does not leave a trace of it where a block was open.
TEST_CASE("there is no state before init, and after final where that shows") {
  Setup setup(Way::none);
  const Library library("sunxi", initialise);
  for (const Form& form : forms) {
    INFO(form.name);
    Context context(library, form.name);
    CHECK(context.state().empty());
    CHECK(errors().find("no message that could be gone on with") != std::string::npos);
    context.init();
    CHECK(!context.state().empty());
    context.final();
    CHECK(context.state().empty());
    context.init();
    REQUIRE(context.update(message(99)) == 1);
    context.final();
    if (form.block == 64) CHECK(context.state().empty());
    context.init();
    CHECK(!context.state().empty());
  }
}

TEST_CASE("of a session's message there is a state as long as the message is kept") {
  constexpr std::size_t kept = std::size_t{1} << 20U;
  for (const bool lost : {false, true}) {
    Setup setup(Way::messages);
    const Library library("sunxi", initialise);
    for (const std::size_t more : {std::size_t{0}, std::size_t{1}}) {
      INFO(lost << " " << more);
      Context context(library, "SHA2-512");
      context.init();
      const Bytes start = message(kept + more);
      REQUIRE(context.update(start) == 1);
      CHECK(setup.plan.live_sessions == 1);
      setup.plan.declines = lost;
      const Bytes state = context.state();
      CHECK(setup.plan.live_sessions == 1);
      CHECK(state.empty() == (more == 1));
      if (more == 1) {
        const std::string text = errors();
        CHECK(text.find(
                  "SHA2-512: the message, or the one that it is a copy of, is with a backend, whose state "
                  "cannot be had, and was too long to be kept (1048576 bytes)") != std::string::npos);
        Context copy(library, "SHA2-512");
        copy.copy(context);
        CHECK(copy.state().empty() == true);
        CHECK(errors().find(lost ? "was with a backend that could not go on" : "is with a backend") !=
              std::string::npos);
        copy.init();
        CHECK(!copy.state().empty());
      } else {
        Context to(library, "SHA2-512");
        REQUIRE(to.take(state) == 1);
        CHECK(to.final() == digest_of("SHA2-512", start));
      }
      const bool good = !lost || more == 0;
      CHECK(context.final() == (good ? digest_of("SHA2-512", start) : Bytes()));
      setup.plan.declines = false;
    }
  }
}

TEST_CASE("what serialize does is counted as software's") {
  Setup setup(Way::messages);
  const Library library("sunxi", initialise);
  {
    Context context(library, "SHA2-256");
    context.init();
    REQUIRE(context.update(message(20'000)) == 1);
    CHECK(!context.state().empty());
    CHECK(context.final() == digest_of("SHA2-256", message(20'000)));
  }
  CHECK(library.count("sunxi.software.bytes") == 20'000);
  CHECK(library.count("sunxi.afalg.bytes") == 20'000);
  {
    Context context(library, "SHA2-256");
    Context to(library, "SHA2-256");
    context.init();
    REQUIRE(context.update(message(1000)) == 1);
    REQUIRE(to.take(context.state()) == 1);
    REQUIRE(to.update(message(10)) == 1);
  }
  CHECK(library.count("sunxi.software.bytes") == 21'010);
}

TEST_CASE("random bytes") {
  Setup setup(Way::absorb);
  const Library library("sunxi", initialise);
  Random random(5);
  std::size_t taken = 0;
  for (const Form& form : forms) {
    Context context(library, form.name);
    context.init();
    const Bytes header = context.state();
    for (int i = 0; i < 3000; ++i) {
      Bytes state(random.one_in(3) ? random.in(0, 300) : form.state);
      random.fill(state.data(), state.size());
      const std::size_t keep = random.of(std::array<std::size_t, 4>{0, 4, 8, 8});
      std::copy_n(header.begin(), std::min(keep, state.size()), state.begin());
      if (random.one_in(2) && state.size() == form.state) {  // so that it may pass
        const std::size_t count = 8 + (form.block == 64 ? 8 : 16);
        state[count - 1] &= 0xf8;
        const std::size_t open = (state[count - 2] * 256U + state[count - 1]) / 8 % form.block;
        std::fill(state.end() - static_cast<std::ptrdiff_t>(form.block - open), state.end(), std::uint8_t{0});
      }
      if (context.take(state) == 1) {
        ++taken;
        CHECK(context.state() == state);
      }
      CHECK(context.update(message(random.in(0, 2000))) == 1);
      if (random.one_in(5)) CHECK(context.final().size() == form.digest);
    }
  }
  CHECK(taken > 1000);
  static_cast<void>(errors());
}

}  // namespace
}  // namespace sunxi::test
