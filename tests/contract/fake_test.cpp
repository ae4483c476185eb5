// SPDX-License-Identifier: Apache-2.0
// The provider alone, over backends that serve, decline, and fail in the middle.
#include <cstdlib>

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

}  // namespace
}  // namespace sunxi::test
