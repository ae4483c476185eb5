// SPDX-License-Identifier: Apache-2.0
// The register driver over the model, in process: right bytes, as few accesses as there can be, and every
// fault noticed before it reaches the caller.
#include "backends/mmio/sun4i_ss.h"

#include <cstdlib>
#include <memory>
#include <random>

#include "tests/board/model.h"
#include "tests/board/reference.h"
#include "tests/support/catch.h"

namespace {

using namespace sunxi;
using namespace sunxi::board;

// SUNXI_TEST_CASES=20000 for a campaign.
std::size_t cases(std::size_t usual) {
  const char* text = std::getenv("SUNXI_TEST_CASES");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
}

constexpr std::array<std::uint64_t, 6> engine_times{0, 73, 133, 200, 520, 5000};

std::unique_ptr<Model> random_model(std::mt19937_64& random) {
  auto model = std::make_unique<Model>();
  model->engine_ps = engine_times[up_to(random, engine_times.size() - 1)] * 1000;
  model->traits.early_fetch = up_to(random, 1) != 0;
  model->traits.iv_readback_wrong = up_to(random, 1) != 0;
  return model;
}

}  // namespace

TEST_CASE("sun4i-ss: same bytes as libcrypto", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(1);
  for (std::size_t number = 0; number < cases(2000); ++number) {
    INFO("case " << number);
    const auto model = random_model(random);
    Sun4iSs<Model> driver(*model);
    Case test(random);
    const Progress progress = driver.crypt(test.request());
    INFO(model->first_violation.data());
    REQUIRE(model->violations == 0);
    REQUIRE(progress.sound);
    REQUIRE(progress.done == test.size);
    REQUIRE(test.right(test.size));
    REQUIRE(model->read(0) == 0);
  }
}

TEST_CASE("sun4i-ss: requests follow each other on one engine", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(2);
  Model model;
  Sun4iSs<Model> driver(model);
  for (int number = 0; number < 200; ++number) {
    Case test(random);
    REQUIRE(driver.crypt(test.request()).sound);
    REQUIRE(test.right(test.size));
  }
  CHECK(model.violations == 0);
  CHECK(model.counters.requests == 200);
}

TEST_CASE("sun4i-ss: accesses at the lower bound", "[sun4i-ss]") {
  const bool early_fetch = GENERATE(true, false);
  const std::uint64_t engine_ns = GENERATE(0U, 73U, 133U);
  for (const std::size_t key_bytes : {16U, 24U, 32U}) {
    for (std::size_t blocks = 1; blocks <= 4096; blocks += blocks < 300 ? 1 : 379) {
      Model model;
      model.engine_ps = engine_ns * 1000;
      model.traits.early_fetch = early_fetch;
      Sun4iSs<Model> driver(model);
      const std::size_t bytes = 16 * blocks;
      Bytes key(key_bytes);
      Bytes iv(16);
      Bytes data(bytes);
      const auto spec = CipherSpec{Cipher::aes, Mode::cbc, static_cast<std::uint16_t>(key_bytes), 16, 16};
      REQUIRE(
          driver.crypt({spec, Direction::encrypt, key, iv.data(), data.data(), data.data(), bytes}).sound);

      const std::uint64_t words = bytes / 4;
      const std::uint64_t writes = key_bytes / 4 + 4 + 2 + words;
      const std::uint64_t reads = words + (words + 31) / 32 + 1;  // the closing one, too
      INFO(bytes << " bytes, " << engine_ns << " ns a block");
      REQUIRE(model.violations == 0);
      REQUIRE(model.counters.writes == writes);
      if (engine_ns < 100) {
        REQUIRE(model.counters.reads == reads);
      } else {
        const std::uint64_t extra = model.counters.reads - reads;
        if (bytes <= 128) REQUIRE(extra <= 1);
        if (bytes >= 48) REQUIRE(extra * 100 <= 3 * (writes + reads));
        REQUIRE(extra <= 1);  // what this schedule reaches for all sizes
      }
    }
  }
}

TEST_CASE("sun4i-ss: faults cost time, never data", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(4);
  const FaultKind kind = GENERATE(FaultKind::stall, FaultKind::overcount, FaultKind::zeros, FaultKind::ones);
  std::size_t noticed = 0;
  for (std::size_t number = 0; number < cases(1500); ++number) {
    INFO("fault " << static_cast<int>(kind) << " case " << number);
    const auto model = random_model(random);
    Sun4iSs<Model> driver(*model);
    Case test(random, 16 * (1 + up_to(random, 100)));
    const std::uint64_t accesses = 12 + test.size / 2;
    model->set_fault({kind, 1 + static_cast<std::uint32_t>(up_to(random, 40)), up_to(random, accesses), 0});
    const Progress progress = driver.crypt(test.request());
    INFO(model->first_violation.data());
    REQUIRE(model->violations == 0);
    REQUIRE(progress.sound == (progress.done == test.size));
    REQUIRE(test.right(progress.done));
    if (!progress.sound) ++noticed;
    REQUIRE(model->counters.picoseconds < 3'000'000'000);

    driver.wipe_keys();
    model->set_fault({});
    REQUIRE(driver.alive());
    Case after(random);
    REQUIRE(driver.crypt(after.request()).sound);
    REQUIRE(after.right(after.size));
    REQUIRE(model->violations == 0);
  }
  CHECK(noticed > 0);
}

// Away for longer than a burst, so that an FCSR value shows it. (What comes and goes between two FCSR values
// cannot be noticed with one of them for 32 words.)
TEST_CASE("sun4i-ss: an engine that was away is not believed", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(5);
  const FaultKind kind = GENERATE(FaultKind::zeros, FaultKind::ones);
  std::size_t noticed = 0;
  for (std::size_t number = 0; number < cases(1500); ++number) {
    INFO("fault " << static_cast<int>(kind) << " case " << number);
    const auto model = random_model(random);
    Sun4iSs<Model> driver(*model);
    Case test(random, 16 * (1 + up_to(random, 100)));
    model->set_fault({kind, 4, up_to(random, 12 + test.size / 2), 70 + up_to(random, 60)});
    const Progress progress = driver.crypt(test.request());
    REQUIRE(model->violations == 0);
    REQUIRE(test.right(progress.done));
    if (!progress.sound) ++noticed;
  }
  CHECK(noticed > 0);
}

TEST_CASE("sun4i-ss: alive() tells a closed clock gate", "[sun4i-ss]") {
  Model model;
  Sun4iSs<Model> driver(model);
  CHECK(driver.alive());
  CHECK(model.read(0) == 0);
  model.gated = true;
  CHECK_FALSE(driver.alive());
  model.gated = false;
  model.set_fault({FaultKind::ones});
  CHECK_FALSE(driver.alive());
  CHECK(model.violations == 0);
}

TEST_CASE("sun4i-ss: wiped key registers hold no key", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(6);
  Model model;
  model.set_fault({FaultKind::stall});
  Sun4iSs<Model> driver(model);
  Case test(random);
  REQUIRE_FALSE(driver.crypt(test.request()).sound);
  driver.wipe_keys();
  for (std::size_t word = 0; word < 8; ++word) CHECK(model.read(0x04 + 4 * word) == 0);
}

TEST_CASE("sun4i-ss: capability table", "[sun4i-ss]") {
  CHECK(Sun4iSs<Model>::supports({Cipher::aes, Mode::cbc, 16, 16, 16}));
  CHECK(Sun4iSs<Model>::supports({Cipher::aes, Mode::cbc, 32, 16, 16}));
  CHECK_FALSE(Sun4iSs<Model>::supports({Cipher::aes, Mode::cbc, 64, 16, 16}));
}
