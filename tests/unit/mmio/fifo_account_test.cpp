// SPDX-License-Identifier: Apache-2.0
// Which FCSR values are believed.
#include "backends/mmio/sun4i_ss.h"
#include "tests/support/catch.h"

using Account = sunxi::sun4i_ss::FifoAccount;
using Verdict = Account::Verdict;

namespace {

constexpr std::uint32_t fcsr(unsigned free, unsigned available) {
  return free << 24 | available << 16;
}

}  // namespace

TEST_CASE("FIFO account: values that cannot be true", "[sun4i-ss]") {
  Account account;
  account.wrote(8);
  CHECK(account.check(fcsr(33, 0)) == Verdict::insane);
  CHECK(account.check(fcsr(32, 34)) == Verdict::insane);
  CHECK(account.check(~0U) == Verdict::insane);
  CHECK(account.check(0) == Verdict::insane);            // 32 words queued of 8
  CHECK(account.check(fcsr(23, 0)) == Verdict::insane);  // 9 words queued of 8
  CHECK(account.check(fcsr(28, 8)) == Verdict::insane);  // 12 words of 8
  CHECK(account.check(fcsr(32, 9)) == Verdict::insane);
  CHECK(account.check(fcsr(28, 4)) == Verdict::progress);
  CHECK(account.available() == 4);
  CHECK(account.check(fcsr(28, 4)) == Verdict::waiting);
  CHECK(account.check(fcsr(28, 0)) == Verdict::insane);  // output that was there has gone
  account.got(4);
  CHECK(account.check(fcsr(28, 0)) == Verdict::waiting);
  CHECK(account.check(fcsr(26, 0)) == Verdict::insane);  // input has come back
  CHECK(account.check(fcsr(32, 5)) == Verdict::insane);
  CHECK(account.check(fcsr(32, 4)) == Verdict::progress);
  account.got(4);
  CHECK(account.check(0) == Verdict::insane);
  CHECK(account.check(fcsr(32, 0)) == Verdict::waiting);
  CHECK(account.check(fcsr(32, 4)) == Verdict::insane);
}

TEST_CASE("FIFO account: words that are nowhere", "[sun4i-ss]") {
  Account account;
  account.wrote(32);
  CHECK(account.check(fcsr(32, 0)) == Verdict::insane);  // an engine that was reset in between
  CHECK(account.check(fcsr(32, 24)) == Verdict::progress);
}

TEST_CASE("FIFO account: all zero proves nothing", "[sun4i-ss]") {
  Account account;
  account.wrote(32);
  CHECK(account.room() == 0);
  CHECK(account.check(0) == Verdict::silent);
  CHECK(account.check(fcsr(4, 4)) == Verdict::progress);
  CHECK(account.room() == 4);
  CHECK(account.check(0) == Verdict::insane);
}

TEST_CASE("FIFO account: the status bits beside the counts do not matter", "[sun4i-ss]") {
  Account account;
  account.wrote(4);
  CHECK(account.check(fcsr(32, 4) | 1U << 30 | 1U << 22 | 0x0f0f) == Verdict::progress);
}

TEST_CASE("FIFO account: a digest takes all and gives nothing", "[sun4i-ss]") {
  Account account(Account::Output::none);
  account.wrote(32);
  CHECK(account.check(0) == Verdict::silent);
  CHECK(account.check(fcsr(0, 1)) == Verdict::insane);
  CHECK(account.check(fcsr(16, 0)) == Verdict::progress);
  CHECK(account.room() == 16);
  account.wrote(16);
  CHECK(account.check(fcsr(17, 16)) == Verdict::insane);
  CHECK(account.check(fcsr(32, 0)) == Verdict::progress);
  CHECK(account.check(fcsr(32, 0)) == Verdict::waiting);
  CHECK(account.check(fcsr(31, 0)) == Verdict::insane);
  CHECK(account.check(~0U) == Verdict::insane);
}

TEST_CASE("patience: lasts while something moves, and has an end", "[sun4i-ss]") {
  struct Clock {
    std::uint64_t time = 0;
    std::uint64_t step = 0;
    std::uint64_t now() { return time += step; }
  };
  const auto polls = [](std::uint64_t step) {
    Clock clock{0, step};
    sunxi::sun4i_ss::Patience patience;
    unsigned number = 0;
    while (patience.lasts(clock, false)) ++number;
    return number;
  };
  CHECK(polls(0) >= 2048);
  CHECK(polls(0) <= 2200);
  CHECK(polls(20'000'000) <= 128);
  Clock clock;
  sunxi::sun4i_ss::Patience patience;
  for (int poll = 0; poll < 100'000; ++poll) REQUIRE(patience.lasts(clock, poll % 1000 == 0));
}
