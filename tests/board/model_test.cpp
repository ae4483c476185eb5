// SPDX-License-Identifier: Apache-2.0
// The model notices every mistake that it is there to notice, and behaves like the device in time.
#include "tests/board/model.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "tests/support/catch.h"

namespace {

using sunxi::board::Model;

struct Bench {
  Model model;

  void key(std::size_t words = 4, Model::Who who = 0) {
    for (std::size_t word = 0; word < words; ++word) model.write(0x04 + 4 * word, 1, who);
  }
  void iv(Model::Who who = 0) {
    for (std::size_t word = 0; word < 4; ++word) model.write(0x24 + 4 * word, 2, who);
  }
  void data(std::size_t words, Model::Who who = 0) {
    for (std::size_t word = 0; word < words; ++word) model.write(0x200, 3, who);
  }
  void take(std::size_t words) {
    for (std::size_t word = 0; word < words; ++word) static_cast<void>(model.read(0x204));
  }
  void started(std::uint32_t control = 0x1001) {
    key();
    iv();
    model.write(0, control);
  }
  void state(std::size_t words = 5, Model::Who who = 0) {
    for (std::size_t word = 0; word < words; ++word) model.write(0x24 + 4 * word, 5, who);
  }
  void sha1(std::size_t words) {
    state();
    model.write(0, 0x4031);
    data(words);
  }
  // The end of data, a look that finds it reached, and the time that the state takes.
  void ended(std::uint32_t control = 0x35) {
    model.write(0, control);
    while ((model.read(0) & 4) != 0) {
    }
    static_cast<void>(model.read(0x44));
  }
  [[nodiscard]] bool violated(std::string_view what) const {
    return model.violations != 0 &&
           std::string_view(model.first_violation.data()).find(what) != std::string_view::npos;
  }
};

}  // namespace

TEST_CASE("model: a request by the rules is no violation", "[model]") {
  Bench bench;
  bench.started();
  bench.data(4);
  CHECK(bench.model.read(0x44) == 0x60440000);
  bench.take(4);
  bench.model.write(0, 0);
  CHECK(bench.model.violations == 0);
  CHECK(bench.model.counters.requests == 1);
  CHECK(bench.model.counters.writes == 14);
  CHECK(bench.model.counters.reads == 5);
  CHECK(bench.model.counters.picoseconds == 14 * 33'100 + 5 * 93'400);
}

TEST_CASE("model: mistakes are violations", "[model]") {
  Bench bench;
  SECTION("a full input FIFO") {
    bench.model.engine_ps = 1'000'000'000;
    bench.model.traits.early_fetch = false;
    bench.started();
    bench.data(33);
    CHECK(bench.violated("full FIFO"));
  }
  SECTION("an empty output FIFO") {
    bench.started();
    bench.take(1);
    CHECK(bench.violated("empty FIFO"));
  }
  SECTION("output that is not ready yet") {
    bench.model.engine_ps = 1'000'000;
    bench.started();
    bench.data(4);
    bench.take(1);
    CHECK(bench.violated("empty FIFO"));
  }
  SECTION("data before the start") {
    bench.data(1);
    CHECK(bench.violated("stopped"));
  }
  SECTION("a part of a block at the end") {
    bench.started();
    bench.data(6);
    bench.take(4);
    bench.model.write(0, 0);
    CHECK(bench.violated("incomplete block"));
  }
  SECTION("output left unread") {
    bench.started();
    bench.data(4);
    bench.take(3);
    bench.model.write(0, 0);
    CHECK(bench.violated("nobody has read"));
  }
  SECTION("the key of the last request") {
    bench.started();
    bench.data(4);
    bench.take(4);
    bench.model.write(0, 0);
    bench.iv();
    bench.model.write(0, 0x1001);
    bench.data(4);
    CHECK(bench.violated("key word 0"));
  }
  SECTION("half a key") {
    bench.key(4);
    bench.iv();
    bench.model.write(0, 0x1201);
    bench.data(4);
    CHECK(bench.violated("key word 4"));
  }
  SECTION("no IV") {
    bench.key();
    bench.model.write(0, 0x1001);
    bench.data(4);
    CHECK(bench.violated("IV word 0"));
  }
  SECTION("a second start") {
    bench.started();
    bench.model.write(0, 0x1001);
    CHECK(bench.violated("while it runs"));
  }
  SECTION("reserved bits") {
    bench.started(0x1009);
    CHECK(bench.violated("reserved"));
  }
  SECTION("key size 3") {
    bench.started(0x1301);
    CHECK(bench.violated("key size 3"));
  }
  SECTION("CTR") {
    bench.started(0x2001);
    CHECK(bench.violated("unusable"));
  }
  SECTION("a key while it runs") {
    bench.started();
    bench.key(1);
    CHECK(bench.violated("while the engine runs"));
  }
  SECTION("the IV registers of an A10") {
    static_cast<void>(bench.model.read(0x24));
    CHECK(bench.violated("read back"));
  }
  SECTION("a register that does not exist") {
    static_cast<void>(bench.model.read(0x100));
    CHECK(bench.violated("nothing can be read"));
  }
  SECTION("not aligned") {
    static_cast<void>(bench.model.read(0x46));
    CHECK(bench.violated("not aligned"));
  }
  SECTION("another user inside a request") {
    const auto us = std::uint64_t{static_cast<std::uint32_t>(getpid())} << 32;
    bench.key(4, us | 1);
    bench.iv(us | 1);
    bench.model.write(0, 0x1001, us | 1);
    bench.model.write(0x200, 0, us | 2);
    CHECK(bench.violated("inside the request"));
  }
  SECTION("a key that another user wrote between") {
    bench.started();
    bench.model.write(0, 0);
    bench.key(4, 1);
    bench.key(1, 2);
    bench.iv(1);
    bench.model.write(0, 0x1001, 1);
    bench.data(4, 1);
    CHECK(bench.violated("another user's"));
  }
}

TEST_CASE("model: a digest by the rules is no violation", "[model]") {
  Bench bench;
  SECTION("from the standard's state") {
    bench.model.write(0, 0x41);
    bench.data(16);
    bench.ended(0x45);
    CHECK(bench.model.read(0x4c) != 0x67452301);
  }
  SECTION("from a given state, and with its bit at the end") {
    bench.sha1(32);
    bench.ended(0x4035);
    for (std::size_t word = 0; word < 5; ++word) static_cast<void>(bench.model.read(0x4c + 4 * word));
  }
  SECTION("read in the middle, when all is worked on and some time has passed") {
    bench.model.engine_ps = 100'000;
    bench.sha1(16);
    for (int look = 0; look < 3; ++look) CHECK(bench.model.read(0x44) == 0x60000000);
    static_cast<void>(bench.model.read(0x4c));
  }
  bench.model.write(0, 0);
  CHECK(bench.model.violations == 0);
  CHECK(bench.model.counters.requests == 1);
}

TEST_CASE("model: one block of each digest is as in its standard", "[model]") {
  struct Row {
    std::uint32_t control;
    bool swapped;
    std::uint32_t first;
    std::uint32_t last;
  };
  // MD5("") and SHA-1(""), whose one block is the padding.
  const Row row = GENERATE(Row{0x41, false, 0xd98c1dd4, 0x7e42f8ec}, Row{0x41, true, 0xd98c1dd4, 0x7e42f8ec},
                           Row{0x31, false, 0xda39a3ee, 0xafd80709}, Row{0x31, true, 0xeea339da, 0x0907d8af});
  Bench bench;
  bench.model.traits.sha1_big_endian = row.swapped;
  bench.model.write(0, row.control);
  bench.model.write(0x200, 0x80);
  for (int word = 1; word < 16; ++word) bench.model.write(0x200, 0);
  bench.ended(row.control | 4);
  CHECK(bench.model.read(0x4c) == row.first);
  CHECK(bench.model.read(row.control == 0x41 ? 0x58 : 0x5c) == row.last);
  CHECK(bench.model.violations == 0);
}

TEST_CASE("model: mistakes with other ciphers than AES are violations", "[model]") {
  Bench bench;
  SECTION("what a longer key has left") {
    bench.key(8);
    bench.iv();
    bench.model.write(0, 0x1201);
    bench.data(4);
    bench.take(4);
    bench.model.write(0, 0);
    bench.key(2);
    bench.model.write(0, 0x0011);
    bench.data(2);
    CHECK(bench.violated("key word 2 is left"));
  }
  SECTION("what a key has left when a digest starts") {
    bench.key(1);
    bench.state(4);
    bench.model.write(0, 0x4041);
    CHECK(bench.violated("key word 0 is left"));
  }
  SECTION("two thirds of a key") {
    bench.key(4);
    bench.model.write(0, 0x0021);
    bench.data(2);
    CHECK(bench.violated("key word 4"));
  }
  SECTION("half an IV") {
    bench.key(2);
    bench.model.write(0x24, 1);
    bench.model.write(0, 0x1011);
    bench.data(2);
    CHECK(bench.violated("IV word 1"));
  }
  SECTION("half a block") {
    bench.key(2);
    bench.model.write(0, 0x0011);
    bench.data(3);
    bench.take(2);
    bench.model.write(0, 0);
    CHECK(bench.violated("incomplete block"));
  }
  SECTION("AES's key size") {
    bench.key(2);
    bench.model.write(0, 0x0111);
    CHECK(bench.violated("not AES's"));
  }
  SECTION("DES's key again") {
    bench.key(2);
    bench.model.write(0, 0x0011);
    bench.data(2);
    bench.take(2);
    bench.model.write(0, 0);
    bench.model.write(0, 0x0011);
    bench.data(2);
    CHECK(bench.violated("key word 0 was not written"));
  }
}

TEST_CASE("model: mistakes with digests are violations", "[model]") {
  Bench bench;
  SECTION("a state of four words for SHA-1") {
    bench.state(4);
    bench.model.write(0, 0x4031);
    CHECK(bench.violated("state word 4"));
  }
  SECTION("the state of the last request") {
    bench.sha1(16);
    bench.ended();
    bench.model.write(0, 0);
    bench.model.write(0, 0x4031);
    CHECK(bench.violated("state word 0"));
  }
  SECTION("a state after the start") {
    bench.model.write(0, 0x31);
    bench.state(1);
    CHECK(bench.violated("while the engine runs"));
  }
  SECTION("another user's state") {
    bench.state(4, 1);
    bench.state(1, 2);
    bench.model.write(0, 0x4041, 1);
    CHECK(bench.violated("another user's"));
  }
  SECTION("the end in the middle of a block") {
    bench.sha1(17);
    bench.model.write(0, 0x35);
    CHECK(bench.violated("1 words of an incomplete block"));
  }
  SECTION("the end before any data") {
    bench.sha1(0);
    bench.model.write(0, 0x35);
    CHECK(bench.violated("before any"));
  }
  SECTION("the end at the start") {
    bench.state();
    bench.model.write(0, 0x4035);
    CHECK(bench.violated("at the start"));
  }
  SECTION("the end twice") {
    bench.sha1(16);
    bench.ended();
    bench.model.write(0, 0x35);
    CHECK(bench.violated("twice"));
  }
  SECTION("the end of another digest") {
    bench.sha1(16);
    bench.model.write(0, 0x45);
    CHECK(bench.violated("declared with 0x00000045"));
  }
  SECTION("the end of a cipher's data") {
    bench.started();
    bench.model.write(0, 0x1005);
    CHECK(bench.violated("while it runs"));
  }
  SECTION("data after the end") {
    bench.sha1(16);
    bench.ended();
    bench.data(1);
    CHECK(bench.violated("after its end"));
  }
  SECTION("more than the FIFO holds") {
    bench.model.engine_ps = 1'000'000'000;
    bench.sha1(16 + 33);
    CHECK(bench.violated("full FIFO"));
  }
  SECTION("output of a digest") {
    bench.sha1(16);
    bench.take(1);
    CHECK(bench.violated("empty FIFO"));
  }
  SECTION("a word before the data are worked on") {
    bench.model.engine_ps = 1'000'000;
    bench.sha1(16);
    static_cast<void>(bench.model.read(0x4c));
    CHECK(bench.violated("before its data are worked on"));
  }
  SECTION("a word without a look at the end") {
    bench.sha1(16);
    bench.model.write(0, 0x35);
    static_cast<void>(bench.model.read(0x4c));
    CHECK(bench.violated("without a look"));
  }
  SECTION("a word as soon as the end is seen") {
    bench.sha1(16);
    bench.model.write(0, 0x35);
    REQUIRE((bench.model.read(0) & 4) == 0);
    static_cast<void>(bench.model.read(0x4c));
    CHECK(bench.violated("too early"));
  }
  SECTION("a word when the engine is stopped") {
    bench.sha1(16);
    bench.ended();
    bench.model.write(0, 0);
    static_cast<void>(bench.model.read(0x4c));
    CHECK(bench.violated("while no digest runs"));
  }
  SECTION("stopped before the end") {
    bench.model.engine_ps = 1'000'000;
    bench.sha1(16);
    bench.model.write(0, 0x35);
    bench.model.write(0, 0);
    CHECK(bench.model.violations != 0);
  }
  SECTION("a key size, a direction, a mode") {
    bench.state();
    bench.model.write(0, GENERATE(0x4131U, 0x40b1U, 0x5031U));
    CHECK(bench.violated("not the digest's"));
  }
  SECTION("a given state for a cipher") {
    bench.started(0x5001);
    CHECK(bench.violated("not the cipher's"));
  }
  SECTION("the generator") {
    bench.model.write(0, 0x8051);
    CHECK(bench.violated("was not written"));
  }
  SECTION("the generator in another mode") {
    bench.model.write(0, 0x0051);
    CHECK(bench.violated("continuous mode"));
  }
  SECTION("data for the generator") {
    for (std::size_t word = 0; word < 6; ++word) bench.model.write(4 + 4 * word, 1);
    for (std::size_t word = 6; word < 8; ++word) bench.model.write(4 + 4 * word, 0);
    bench.model.write(0, 0x8051);
    bench.model.write(0x200, 1);
    CHECK(bench.violated("data written to the generator"));
  }
  SECTION("a method that does not exist") {
    bench.model.write(0, 0x0061);
    CHECK(bench.violated("not modelled"));
  }
}

TEST_CASE("model: the request of a dead user may be stopped", "[model]") {
  Bench bench;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  const auto dead = std::uint64_t{static_cast<std::uint32_t>(child)} << 32;
  bench.key(4, dead);
  bench.iv(dead);
  bench.model.write(0, 0x1001, dead);
  bench.data(6, dead);
  bench.model.write(0, 0, 7);
  CHECK(bench.model.violations == 0);
}

TEST_CASE("model: behind a closed gate registers read as zero", "[model]") {
  Bench bench;
  bench.model.gated = true;
  bench.started();
  CHECK(bench.model.read(0) == 0);
  CHECK(bench.model.read(0x44) == 0);
  bench.model.gated = false;
  CHECK(bench.model.read(0) == 0);
  CHECK(bench.model.violations == 0);
}

// How many polls a plain loop needs (fill, look once, drain) is known from an independent simulation of the
// same device: 586 for 64 KiB at 133 ns a block, 684 at 200 ns, 821 at 400 ns.
TEST_CASE("model: time", "[model]") {
  struct Row {
    std::uint64_t engine_ns;
    bool early_fetch;
    std::size_t bytes;
    std::uint64_t polls;
  };
  const Row row = GENERATE(Row{0, true, 16, 1}, Row{73, true, 16, 1}, Row{73, true, 65536, 512},
                           Row{133, true, 16, 2}, Row{133, true, 128, 2}, Row{133, false, 1024, 10},
                           Row{133, false, 65536, 586}, Row{200, true, 16, 3}, Row{200, true, 65536, 684},
                           Row{400, true, 16, 5}, Row{400, true, 128, 4}, Row{400, true, 1024, 15},
                           Row{400, true, 65536, 821}, Row{520, true, 16, 6}, Row{520, true, 128, 8});
  Bench bench;
  bench.model.engine_ps = row.engine_ns * 1000;
  bench.model.traits.early_fetch = row.early_fetch;
  bench.started();
  const std::size_t words = row.bytes / 4;
  std::size_t written = 0;
  std::size_t room = 32;
  for (std::size_t got = 0; got < words;) {
    const std::size_t fill = std::min(room, words - written);
    bench.data(fill);
    written += fill;
    const std::uint32_t fcsr = bench.model.read(0x44);
    room = (fcsr >> 24) & 0x3f;
    const std::size_t drain = (fcsr >> 16) & 0x3f;
    bench.take(drain);
    got += drain;
  }
  CHECK(bench.model.counters.status_reads == row.polls);
  CHECK(bench.model.violations == 0);
}
