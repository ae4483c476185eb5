// SPDX-License-Identifier: Apache-2.0
// The router: order, thresholds, rest and recovery, counts.
#include "provider/router.h"

#include "tests/support/catch.h"
#include "tests/support/fake_backend.h"

namespace sunxi::test {
namespace {

constexpr std::uint64_t second = 1'000'000'000;

class Clock final : public Process {
 public:
  std::uint64_t time = second;
  std::vector<std::string> lines;
  [[nodiscard]] std::uint64_t now() const noexcept override { return time; }

 protected:
  void write_line(const char* line, std::size_t length) noexcept override {
    lines.emplace_back(line, length);
  }
};

class Fixture {
 public:
  Fixture() {
    reset_fake_plans();
    settings.backends = {"mmio", "afalg"};
    for (auto& row : settings.min_bytes) row = {512, 512};
  }
  ~Fixture() {
    if (router) router->release(slots);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  Router& start() {
    router = std::make_unique<Router>(clock, settings);
    return *router;
  }
  Routed ask(std::size_t length) {
    buffer.assign(length, 1);
    const CipherSpec& spec = cipher_rows[route.row].spec;
    return router->crypt(route, length,
                         {spec, Direction::encrypt, std::span(key.data(), spec.key_bytes), iv.data(),
                          buffer.data(), buffer.data(), length},
                         slots);
  }

  Clock clock;
  Settings settings;
  std::unique_ptr<Router> router;
  Route route{find_algorithm("AES-128-CBC").value(), Direction::encrypt, 0, false};
  KeySlots slots{};
  std::array<std::uint8_t, 32> key{};
  std::array<std::uint8_t, 16> iv{};
  std::vector<std::uint8_t> buffer;
};

TEST_CASE("the first backend in the configured order that serves") {
  Fixture fixture;
  fake_plan("mmio").exists = fake_plan("afalg").exists = true;
  Router& router = fixture.start();
  CHECK(fixture.ask(1024).done == 1024);
  CHECK(fake_plan("mmio").calls == 1);
  CHECK(fake_plan("afalg").calls == 0);
  fake_plan("mmio").declines = true;
  const Routed routed = fixture.ask(1024);
  CHECK(routed.done == 1024);
  CHECK(router.name(routed.busiest) == "afalg");
  CHECK(router.counts("mmio").declines == 1);
  CHECK(router.counts("afalg").bytes == 1024);
}

TEST_CASE("a length below the threshold is software's, the threshold itself is not") {
  Fixture fixture;
  fake_plan("mmio").exists = true;
  Router& router = fixture.start();
  CHECK(router.limit(fixture.route) == 512);
  CHECK(fixture.ask(511 / 16 * 16).done == 0);
  CHECK(fixture.ask(512).done == 512);
  fixture.route.has_own_min_bytes = true;
  fixture.route.own_min_bytes = 64;
  CHECK(router.limit(fixture.route) == 64);
  CHECK(fixture.ask(64).done == 64);
}

TEST_CASE("where no backend can ever serve the limit is out of reach") {
  Fixture fixture;
  CHECK(fixture.start().limit(fixture.route) == never);
  fake_plan("mmio").exists = true;
  fake_plan("mmio").declines = true;
  fake_plan("mmio").refusal = Outcome::unsupported;
  CHECK(fixture.start().limit(fixture.route) == 512);
  CHECK(fixture.ask(1024).done == 0);
  CHECK(fixture.router->limit(fixture.route) == never);
  CHECK(fixture.ask(1024).done == 0);
  CHECK(fake_plan("mmio").calls == 1);
}

TEST_CASE("an absent backend is asked again after a minute") {
  Fixture fixture;
  FakePlan& plan = fake_plan("afalg");
  plan.exists = plan.declines = true;
  plan.refusal = Outcome::unavailable;
  Router& router = fixture.start();
  CHECK(fixture.ask(1024).done == 0);
  CHECK(router.limit(fixture.route) == 16384);
  CHECK_FALSE(router.ready(fixture.route, 20000));
  fixture.clock.time += 59 * second;
  CHECK(fixture.ask(32768).done == 0);
  CHECK(plan.calls == 1);
  plan.declines = false;
  fixture.clock.time += 2 * second;
  CHECK(router.ready(fixture.route, 20000));
  CHECK(fixture.ask(32768).done == 32768);
  CHECK(router.limit(fixture.route) == 512);
}

TEST_CASE("contexts that come and go wake a resting backend up") {
  Fixture fixture;
  FakePlan& plan = fake_plan("afalg");
  plan.exists = plan.declines = true;
  plan.refusal = Outcome::unavailable;
  Router& router = fixture.start();
  CHECK(fixture.ask(1024).done == 0);
  fixture.clock.time += 61 * second;
  for (int i = 0; i < 2000; ++i) router.add_software(1, 16);
  CHECK(router.limit(fixture.route) == 512);
  CHECK(router.counts("software").requests == 2000);
  CHECK(router.counts("software").bytes == 32000);
}

TEST_CASE("a faulty backend rests longer and longer, up to a minute, and recovers") {
  Fixture fixture;
  FakePlan& plan = fake_plan("afalg");
  plan.exists = plan.declines = true;
  plan.refusal = Outcome::failed;
  fixture.start();
  CHECK(fixture.ask(1024).done == 0);
  CHECK(fixture.ask(1024).done == 0);  // one fault alone does not make it rest
  CHECK(plan.calls == 2);
  std::uint64_t before = 0;
  for (int i = 0; i < 14; ++i) {
    const std::uint64_t start = fixture.clock.time;
    const std::uint64_t calls = plan.calls;
    while (plan.calls == calls) {
      fixture.clock.time += second / 20;
      CHECK(fixture.ask(1024).done == 0);
    }
    const std::uint64_t pause = fixture.clock.time - start;
    CHECK(pause >= before);
    CHECK(pause <= 61 * second);
    before = pause;
  }
  CHECK(before >= 59 * second);
  plan.declines = false;
  fixture.clock.time += 61 * second;
  CHECK(fixture.ask(1024).done == 1024);
  plan.declines = true;
  CHECK(fixture.ask(1024).done == 0);
  CHECK(fixture.ask(1024).done == 0);
  CHECK(fixture.router->counts("afalg").failures == 18);
}

TEST_CASE("a busy backend is asked every time") {
  Fixture fixture;
  FakePlan& plan = fake_plan("afalg");
  plan.exists = plan.declines = true;
  fixture.start();
  for (int i = 0; i < 10; ++i) CHECK(fixture.ask(1024).done == 0);
  CHECK(plan.calls == 10);
}

TEST_CASE("who serves is said once, and only at level info") {
  Fixture fixture;
  fake_plan("afalg").exists = true;
  fixture.start();
  fixture.ask(1024);
  CHECK(fixture.clock.lines.empty());
  fixture.clock.set_log_level(LogLevel::info);
  fixture.ask(1024);
  fixture.ask(1024);
  CHECK(fixture.clock.lines == std::vector<std::string>{"sunxi: AES-128-CBC on afalg (fake)\n"});
}

TEST_CASE("counts of software stay exact across the width of the short word") {
  Fixture fixture;
  Router& router = fixture.start();
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const std::uint64_t r = i % 300;
    const std::uint64_t b = (i * 2'654'435'761U) % 5'000'000U;
    router.add_software(r, b);
    requests += r;
    bytes += b;
  }
  CHECK(router.counts("software").requests == requests);
  CHECK(router.counts("software").bytes == bytes);
}

// ---- Digests

class DigestFixture : public Fixture {
 public:
  DigestFixture() { settings.backends = {"mmio", "cryptodev", "afalg"}; }
  ~DigestFixture() {
    if (router) router->abandon(session);
  }
  DigestFixture(const DigestFixture&) = delete;
  DigestFixture& operator=(const DigestFixture&) = delete;
  static FakePlan& plan(const char* name, Backend::DigestWay way) {
    FakePlan& plan = fake_plan(name);
    plan.exists = true;
    plan.digests = way;
    return plan;
  }
  [[nodiscard]] std::size_t limit(std::size_t row) const { return router->digest_limit(row); }
  std::size_t absorb(std::size_t length) {
    buffer.assign(length, 1);
    return router
        ->absorb(
            sha256, length,
            {.spec = digest_rows[sha256].spec, .state = state.data(), .in = buffer.data(), .length = length})
        .done;
  }
  bool begin(std::size_t length) {
    buffer.assign(length, 1);
    return router->begin(sha256, session, buffer.data(), length);
  }

  static constexpr std::size_t sha256 = 3, sha512 = 5;
  DigestSession session;
  std::array<std::uint32_t, 8> state{};
};
using Way = Backend::DigestWay;

TEST_CASE("thresholds of digests: what is set, else 16384 where a message costs a session") {
  DigestFixture fixture;
  CHECK(digest_rows[DigestFixture::sha256].spec.digest == Digest::sha256);
  const auto limits = [&] {
    fixture.start();
    return std::array{fixture.limit(DigestFixture::sha256), fixture.limit(DigestFixture::sha512)};
  };
  CHECK(limits() == std::array{never, never});
  FakePlan& plan = DigestFixture::plan("afalg", Way::none);
  CHECK(limits() == std::array{never, never});
  plan.digests = Way::absorb;
  CHECK(limits() == std::array{std::size_t{512}, never});
  plan.digests = Way::messages;
  CHECK(limits() == std::array<std::size_t, 2>{16384, 16384});
  CHECK(fixture.router->hashes_messages(DigestFixture::sha256));
  CHECK_FALSE(fixture.begin(16383));
  CHECK(plan.calls == 0);
  CHECK(fixture.begin(16384));
  fixture.router->abandon(fixture.session);
  // Higher than that.
  auto& sha256 = fixture.settings.min_bytes[algorithm_of_digest(DigestFixture::sha256)];
  auto& is_set = fixture.settings.min_bytes_is_set[algorithm_of_digest(DigestFixture::sha256)];
  sha256 = {20000, 20000};
  CHECK(limits()[0] == 20000);
  // Set, and lower.
  sha256 = {512, 512};
  is_set = true;
  CHECK(limits() == std::array<std::size_t, 2>{512, 16384});
  sha256 = {never, never};
  CHECK(limits()[0] == never);
  // Each backend has its own.
  sha256 = {512, 512};
  is_set = false;
  DigestFixture::plan("mmio", Way::absorb);
  CHECK(limits() == std::array<std::size_t, 2>{512, 16384});
  CHECK_FALSE(fixture.begin(512));
  CHECK(fixture.absorb(512) == 512);
  CHECK(fixture.router->counts("mmio").bytes == 512);
}

TEST_CASE("absorbing goes from backend to backend, from where the one before stopped") {
  DigestFixture fixture;
  FakePlan& first = DigestFixture::plan("mmio", Way::absorb);
  DigestFixture::plan("cryptodev", Way::absorb);
  first.fails_every = 3;
  fixture.start();
  CHECK(fixture.absorb(6400) == 6400);
  CHECK(fixture.absorb(6400) == 6400);
  CHECK(fixture.absorb(6400) == 6400);  // the third stops at 3/5
  CHECK(fixture.router->counts("mmio").bytes == 2 * 6400 + 3840);
  CHECK(fixture.router->counts("mmio").failures == 1);
  CHECK(fixture.router->counts("cryptodev").bytes == 2560);
}

TEST_CASE("a session stays with the backend that opened it") {
  DigestFixture fixture;
  FakePlan& first = DigestFixture::plan("cryptodev", Way::messages);
  FakePlan& second = DigestFixture::plan("afalg", Way::messages);
  Router& router = fixture.start();
  first.declines = true;
  REQUIRE(fixture.begin(20000));
  CHECK(router.name(fixture.session.backend) == "afalg");
  CHECK(router.counts("cryptodev").declines == 1);
  first.declines = false;
  const std::uint64_t calls = first.calls;
  CHECK(router.extend(DigestFixture::sha256, fixture.session, fixture.buffer.data(), 1));
  DigestSession copy;
  REQUIRE(router.clone(fixture.session, copy));
  CHECK(second.live_sessions == 2);
  std::array<std::uint8_t, 32> out{}, other{};
  CHECK(router.conclude(DigestFixture::sha256, copy, out.data()));
  CHECK(router.conclude(DigestFixture::sha256, fixture.session, other.data()));
  CHECK(out == other);
  CHECK(fixture.session.backend == no_index);
  CHECK(first.calls == calls);
  CHECK(router.counts("afalg").requests == 2);
  CHECK(router.counts("afalg").bytes == 20001);
  // Refused clones leave the original.
  second.refuses_clones = true;
  first.declines = true;
  REQUIRE(fixture.begin(20000));
  CHECK_FALSE(router.clone(fixture.session, copy));
  CHECK(copy.backend == no_index);
  CHECK(router.extend(DigestFixture::sha256, fixture.session, fixture.buffer.data(), 1));
  second.declines = true;
  CHECK_FALSE(router.extend(DigestFixture::sha256, fixture.session, fixture.buffer.data(), 1));
  CHECK(fixture.session.backend == no_index);
  for (const FakePlan* plan : {&first, &second}) {
    CHECK(plan->contract_violations == 0);
    CHECK(plan->live_sessions == 0);
  }
}

TEST_CASE("a backend that takes every message and concludes none rests") {
  DigestFixture fixture;
  FakePlan& plan = DigestFixture::plan("afalg", Way::messages);
  plan.fails_every = 2;
  Router& router = fixture.start();
  std::array<std::uint8_t, 32> out{};
  int begun = 0;
  for (int i = 0; i < 10; ++i) {
    if (!fixture.begin(20000)) continue;
    ++begun;
    CHECK_FALSE(router.conclude(DigestFixture::sha256, fixture.session, out.data()));
  }
  CHECK(begun == 2);  // a single fault may be anything
  fixture.clock.time += second;
  plan.fails_every = 0;
  REQUIRE(fixture.begin(20000));
  CHECK(router.conclude(DigestFixture::sha256, fixture.session, out.data()));
  CHECK(fixture.limit(DigestFixture::sha256) == 16384);
}

TEST_CASE("who hashes is said once") {
  DigestFixture fixture;
  DigestFixture::plan("afalg", Way::absorb);
  fixture.start();
  fixture.clock.set_log_level(LogLevel::info);
  CHECK(fixture.absorb(1024) == 1024);
  CHECK(fixture.absorb(1024) == 1024);
  CHECK(fixture.clock.lines == std::vector<std::string>{"sunxi: SHA2-256 on afalg (fake)\n"});
}

}  // namespace
}  // namespace sunxi::test
