// SPDX-License-Identifier: Apache-2.0
// The register driver over the model, in process: right bytes, as few accesses as there can be, and every
// fault noticed before it reaches the caller.
#include "backends/mmio/sun4i_ss.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "tests/board/model.h"
#include "tests/board/reference.h"
#include "tests/support/catch.h"

namespace {

using namespace sunxi;
using namespace sunxi::board;

// SUNXI_TEST_CASES=20000 for a campaign.
std::size_t cases(std::size_t usual) {
  const char* text = std::getenv("SUNXI_TEST_CASES");
  return text != nullptr ? std::strtoul(text, nullptr, 10) : usual;
}

constexpr std::array<std::uint64_t, 6> engine_times{0, 73, 133, 200, 520, 5000};

std::unique_ptr<Model> random_model(std::mt19937_64& random) {
  auto model = std::make_unique<Model>();
  model->engine_ps = engine_times[up_to(random, engine_times.size() - 1)] * 1000;
  model->traits.early_fetch = up_to(random, 1) != 0;
  model->traits.iv_readback_wrong = up_to(random, 1) != 0;
  model->traits.sha1_big_endian = up_to(random, 1) != 0;
  return model;
}

Errata errata(const Model& model) {
  return model.traits.sha1_big_endian ? Errata(Erratum::sha1_big_endian) : Errata();
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

TEST_CASE("sun4i-ss: same states as libcrypto", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(7);
  for (std::size_t number = 0; number < cases(2000); ++number) {
    INFO("case " << number);
    const auto model = random_model(random);
    Sun4iSs<Model> driver(*model, errata(*model));
    AbsorbCase test(random);
    const Progress progress = driver.absorb(test.request());
    INFO(model->first_violation.data());
    REQUIRE(model->violations == 0);
    REQUIRE(progress.sound);
    REQUIRE(progress.done == test.size);
    REQUIRE(test.right(test.size));
    REQUIRE(model->state_is_zero());
    REQUIRE(model->read(0) == 0);
  }
}

// As a program has them: several messages at a time, in parts of any number of blocks, with ciphers of all
// keys between them.
TEST_CASE("sun4i-ss: requests follow each other on one engine", "[sun4i-ss]") {
  struct Message {
    DigestSpec spec;
    Bytes expected;
    Bytes blocks;
    std::size_t done = 0;
    DigestState state = initial_state;
  };
  std::mt19937_64 random = seeded(2);
  for (std::size_t round = 0; round < cases(200); ++round) {
    INFO("round " << round);
    const auto model = random_model(random);
    Sun4iSs<Model> driver(*model, errata(*model));
    std::vector<Message> messages;
    for (int number = 0; number < 6; ++number) {
      const DigestSpec spec = digest_specs[up_to(random, 1)];
      const Bytes message = random_bytes(random, up_to(random, up_to(random, 3) != 0 ? 300 : 5000));
      messages.push_back({spec, reference_digest(spec, message), padded(spec, message)});
    }
    while (!messages.empty()) {
      if (up_to(random, 2) == 0) {
        Case test(random, 48 * (1 + up_to(random, 4)));
        REQUIRE(driver.crypt(test.request()).sound);
        REQUIRE(test.right(test.size));
        continue;
      }
      const std::size_t number = up_to(random, messages.size() - 1);
      Message& one = messages[number];
      const std::size_t left = (one.blocks.size() - one.done) / 64;
      const std::size_t bytes = 64 * (1 + up_to(random, left - 1));
      REQUIRE(driver.absorb({one.spec, one.state.data(), one.blocks.data() + one.done, bytes}).sound);
      one.done += bytes;
      if (one.done != one.blocks.size()) continue;
      REQUIRE(digest_of(one.spec, one.state) == one.expected);
      messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(number));
    }
    INFO(model->first_violation.data());
    REQUIRE(model->violations == 0);
  }
}

TEST_CASE("sun4i-ss: an engine whose SHA-1 words are swapped needs the erratum, MD5 never", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(8);
  Model model;
  model.traits.sha1_big_endian = true;
  Sun4iSs<Model> unaware(model);
  AbsorbCase sha1(random, 640, sha1_spec);
  REQUIRE(unaware.absorb(sha1.request()).sound);
  CHECK_FALSE(sha1.right(640));
  AbsorbCase md5(random, 640, md5_spec);
  REQUIRE(unaware.absorb(md5.request()).sound);
  CHECK(md5.right(640));

  // If the vendor's driver is right about the fifth word and Linux is not, resuming gives wrong words.
  model.traits.sha1_word4_plain = true;
  Sun4iSs<Model> driver(model, Errata(Erratum::sha1_big_endian));
  AbsorbCase resumed(random, 640, sha1_spec);
  REQUIRE(driver.absorb(resumed.request()).sound);
  CHECK_FALSE(resumed.right(640));
  CHECK(model.violations == 0);
}

TEST_CASE("sun4i-ss: of a key nothing is left when the next one is shorter", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(9);
  Model model;
  Sun4iSs<Model> driver(model);
  Case test(random, 64, cipher_specs[2]);
  REQUIRE(driver.crypt(test.request()).sound);
  SECTION("within a process") {}
  SECTION("of another user") {
    for (std::size_t word = 0; word < 8; ++word) model.write(0x04 + 4 * word, 7);
    driver.taken_over();
  }
  if (GENERATE(true, false)) {
    Case next(random, 64, cipher_specs[7]);
    REQUIRE(driver.crypt(next.request()).sound);
    for (std::size_t word = 2; word < 8; ++word) CHECK(model.read(0x04 + 4 * word) == 0);
  } else {
    AbsorbCase next(random, 64);
    REQUIRE(driver.absorb(next.request()).sound);
    CHECK(model.keys_are_zero());
  }
  CHECK(model.violations == 0);
}

TEST_CASE("sun4i-ss: accesses at the lower bound", "[sun4i-ss]") {
  const bool early_fetch = GENERATE(true, false);
  const std::uint64_t engine_ns = GENERATE(0U, 73U, 133U);
  for (const CipherSpec& spec : cipher_specs) {
    const std::size_t step = 16U / spec.block_bytes;
    for (std::size_t blocks = 1; blocks <= 4096 * step; blocks += blocks < 300 ? 1 : 379 * step) {
      Model model;
      model.engine_ps = engine_ns * 1000;
      model.traits.early_fetch = early_fetch;
      Sun4iSs<Model> driver(model);
      const std::size_t bytes = spec.block_bytes * blocks;
      Bytes key(spec.key_bytes);
      Bytes iv(spec.iv_bytes);
      Bytes data(bytes);
      REQUIRE(
          driver.crypt({spec, Direction::encrypt, key, iv.data(), data.data(), data.data(), bytes}).sound);

      const std::uint64_t words = bytes / 4;
      const std::uint64_t key_words = spec.cipher == Cipher::des3 ? 6 : spec.key_bytes / 4;
      const std::uint64_t iv_words = spec.mode == Mode::cbc ? spec.iv_bytes / 4U : 0;
      const std::uint64_t writes = key_words + iv_words + 2 + words;
      const std::uint64_t reads = words + (words + 31) / 32 + 1;  // the closing one, too
      INFO(static_cast<int>(spec.cipher)
           << "/" << spec.key_bytes << " " << bytes << " bytes, " << engine_ns << " ns a block");
      REQUIRE(model.violations == 0);
      REQUIRE(model.counters.writes == writes);
      if (engine_ns * step < 100) {  // for 16 bytes
        REQUIRE(model.counters.reads == reads);
      } else {
        const std::uint64_t extra = model.counters.reads - reads;
        if (bytes <= 128) REQUIRE(extra <= 1);
        if (bytes >= 64) REQUIRE(extra * 100 <= 3 * (writes + reads));
        if (spec.block_bytes == 16) REQUIRE(extra <= 1);  // what this schedule reaches for all sizes
      }
    }
  }
}

TEST_CASE("sun4i-ss: accesses of digests at the lower bound", "[sun4i-ss]") {
  const bool early_fetch = GENERATE(true, false);
  const std::uint64_t engine_ns = GENERATE(0U, 133U, 400U, 533U);
  for (const DigestSpec& spec : digest_specs) {
    for (std::size_t blocks = 1; blocks <= 4096; blocks += blocks < 300 ? 1 : 379) {
      Model model;
      model.engine_ps = engine_ns * 1000;
      model.traits.early_fetch = early_fetch;
      Sun4iSs<Model> driver(model);
      const std::size_t bytes = 64 * blocks;
      DigestState state{};
      const Bytes data(bytes);
      REQUIRE(driver.absorb({spec, state.data(), data.data(), bytes}).sound);

      const std::uint64_t words = bytes / 4;
      const std::uint64_t state_in = state_words(spec);
      const std::uint64_t writes = state_in + 3 + words + state_in;  // the last ones wipe
      // Refills, the state, and four looks: before the end, at the end, after it, after the state.
      const std::uint64_t reads = (words + 31) / 32 - 1 + state_in + 4;
      INFO(static_cast<int>(spec.digest) << " " << bytes << " bytes, " << engine_ns << " ns a block");
      REQUIRE(model.violations == 0);
      REQUIRE(model.counters.writes == writes);
      if (bytes >= 16384) REQUIRE(writes * 100 <= 104 * words);
      // A block that leaves the FIFO only when it is done makes it two looks for 32 words; and the last
      // blocks may take longer than their writing.
      const std::uint64_t most = reads + (early_fetch ? 0 : words / 32) + engine_ns * 2 / 200;
      REQUIRE(model.counters.reads <= most);
      if (early_fetch && engine_ns < 200) REQUIRE(model.counters.reads == reads);
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
    const std::size_t accesses = 12 + test.size / 2;
    model->set_fault({kind, 1 + static_cast<std::uint32_t>(up_to(random, 40)), up_to(random, accesses), 0});
    const Progress progress = driver.crypt(test.request());
    INFO(model->first_violation.data());
    REQUIRE(model->violations == 0);
    REQUIRE(progress.sound == (progress.done == test.size));
    REQUIRE(test.right(progress.done));
    if (!progress.sound) ++noticed;
    REQUIRE(model->counters.picoseconds < 3'000'000'000);

    driver.wipe_registers();
    model->set_fault({});
    REQUIRE(driver.alive());
    Case after(random);
    REQUIRE(driver.crypt(after.request()).sound);
    REQUIRE(after.right(after.size));
    REQUIRE(model->violations == 0);
  }
  CHECK(noticed > 0);
}

TEST_CASE("sun4i-ss: a fault leaves a digest's state as it was", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(10);
  const FaultKind kind = GENERATE(FaultKind::stall, FaultKind::overcount, FaultKind::zeros, FaultKind::ones);
  std::size_t noticed = 0;
  for (std::size_t number = 0; number < cases(1500); ++number) {
    INFO("fault " << static_cast<int>(kind) << " case " << number);
    const auto model = random_model(random);
    Sun4iSs<Model> driver(*model, errata(*model));
    AbsorbCase test(random, 64 * (1 + up_to(random, 30)));
    const std::size_t accesses = 20 + test.size / 4 + test.size / 128;
    model->set_fault({kind, 1 + static_cast<std::uint32_t>(up_to(random, 40)), up_to(random, accesses), 0});
    const Progress progress = driver.absorb(test.request());
    INFO(model->first_violation.data());
    REQUIRE(model->violations == 0);
    REQUIRE(progress.done == (progress.sound ? test.size : 0));
    REQUIRE(test.right(progress.done));
    if (!progress.sound) ++noticed;
    REQUIRE(model->counters.picoseconds < 3'000'000'000);

    driver.wipe_registers();
    model->set_fault({});
    REQUIRE(driver.alive());
    AbsorbCase after(random);
    REQUIRE(driver.absorb(after.request()).sound);
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

TEST_CASE("sun4i-ss: an engine that was away gives no digest", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(11);
  const FaultKind kind = GENERATE(FaultKind::zeros, FaultKind::ones);
  std::size_t noticed = 0;
  for (std::size_t number = 0; number < cases(1500); ++number) {
    INFO("fault " << static_cast<int>(kind) << " case " << number);
    const auto model = random_model(random);
    Sun4iSs<Model> driver(*model, errata(*model));
    AbsorbCase test(random, 64 * (1 + up_to(random, 60)));
    model->set_fault({kind, 4, up_to(random, 20 + test.size / 4), 70 + up_to(random, 60)});
    const Progress progress = driver.absorb(test.request());
    INFO(model->first_violation.data());
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

TEST_CASE("sun4i-ss: wiped registers hold no key, IV or state", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(6);
  Model model;
  model.set_fault({FaultKind::stall});
  Sun4iSs<Model> driver(model);
  Case test(random);
  REQUIRE_FALSE(driver.crypt(test.request()).sound);
  AbsorbCase digest(random);
  REQUIRE_FALSE(driver.absorb(digest.request()).sound);
  for (std::size_t word = 0; word < 13; ++word) model.write(0x04 + 4 * word, 7);
  driver.wipe_registers();
  CHECK(model.keys_are_zero());
  CHECK(model.state_is_zero());
}

TEST_CASE("sun4i-ss: capability table", "[sun4i-ss]") {
  const auto has = [](const auto& spec) { return Sun4iSs<Model>::algorithm(spec) != no_algorithm; };
  std::vector<std::size_t> numbers;
  numbers.reserve(cipher_specs.size() + digest_specs.size());
  for (const CipherSpec& spec : cipher_specs) numbers.push_back(Sun4iSs<Model>::algorithm(spec));
  for (const DigestSpec& spec : digest_specs) numbers.push_back(Sun4iSs<Model>::algorithm(spec));
  std::sort(numbers.begin(), numbers.end());
  for (std::size_t number = 0; number < numbers.size(); ++number) CHECK(numbers[number] == number);
  CHECK_FALSE(has(CipherSpec{Cipher::aes, Mode::cbc, 64, 16, 16}));
  CHECK_FALSE(has(CipherSpec{Cipher::aes, Mode::xts, 32, 16, 16}));
  CHECK_FALSE(has(CipherSpec{Cipher::des, Mode::ctr, 8, 8, 8}));
  CHECK_FALSE(has(CipherSpec{Cipher::des3, Mode::cbc, 8, 8, 8}));
  CHECK_FALSE(has(DigestSpec{Digest::sha224, 64, 28}));
  CHECK_FALSE(has(DigestSpec{Digest::sha256, 64, 32}));
}

TEST_CASE("sun4i-ss: a step of the generator is a function of its seed, and leaves nothing", "[sun4i-ss]") {
  std::mt19937_64 random = seeded(21);
  for (const std::uint64_t engine_ns : engine_times) {
    Model model;
    model.engine_ps = engine_ns * 1000;
    Sun4iSs<Model> driver(model);
    std::array<std::uint8_t, 24> seed{};
    for (auto& byte : seed) byte = static_cast<std::uint8_t>(random());
    std::array<std::array<std::uint8_t, 20>, 3> out{};
    REQUIRE(driver.random(seed, out[0]));
    // Between two steps a cipher's request of another user's key.
    Case test(random);
    static_cast<void>(driver.crypt(test.request()));
    driver.taken_over();
    REQUIRE(driver.random(seed, out[1]));
    seed[3] ^= 1U;
    REQUIRE(driver.random(seed, out[2]));
    INFO(model.first_violation.data());
    CHECK(model.violations == 0);
    CHECK(out[0] == out[1]);
    CHECK(out[0] != out[2]);
    CHECK(model.keys_are_zero());
    CHECK(model.stopped());
  }
}

TEST_CASE("sun4i-ss: a generator that does not answer is noticed", "[sun4i-ss]") {
  for (const FaultKind kind : {FaultKind::stall, FaultKind::zeros, FaultKind::ones}) {
    for (const std::uint64_t after : {0U, 3U, 7U, 9U}) {
      Model model;
      Sun4iSs<Model> driver(model);
      model.set_fault({.kind = kind, .after = after});
      const std::array<std::uint8_t, 24> seed{1, 2, 3};
      std::array<std::uint8_t, 20> out{};
      const bool sound = driver.random(seed, out);
      INFO(static_cast<int>(kind) << " after " << after << ": " << model.first_violation.data());
      // A stall after the step is none.
      if (kind != FaultKind::stall || after < 7) CHECK_FALSE(sound);
      if (!sound) CHECK(out == std::array<std::uint8_t, 20>{});
      CHECK(model.violations == 0);
    }
  }
}
