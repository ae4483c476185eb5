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
