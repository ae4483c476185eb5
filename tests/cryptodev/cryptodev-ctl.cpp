// SPDX-License-Identifier: Apache-2.0
// cryptodev-ctl: makes a modelled /dev/crypto, changes it while programs use it, shows what it has counted.
//   cryptodev-ctl init FOLDER [KEY=VALUE...]
//   cryptodev-ctl set FOLDER KEY=VALUE...
//   cryptodev-ctl release FOLDER          what hangs goes on
//   cryptodev-ctl show FOLDER             exit status 1 if the module's rules were violated
#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>

#include "tests/cryptodev/state.h"

namespace {

using namespace sunxi::standin;

int usage() {
  std::fputs(
      "usage: cryptodev-ctl init FOLDER [KEY=VALUE...]\n"
      "       cryptodev-ctl set FOLDER KEY=VALUE...\n"
      "       cryptodev-ctl release FOLDER\n"
      "       cryptodev-ctl show FOLDER\n"
      "keys: driver=[PATTERN=]NAME, alignmask=N|auto, absent=NAME|none, limit=N, refuse-open=ERRNO, gone=1,\n"
      "      fips=1, defaults=1, first-id=0|random|alternate, fault=CALL:KIND:N[:every][:dirty]|none\n"
      "      (tests/cryptodev/state.h says more)\n",
      stderr);
  return 2;
}

int set(State& state, std::span<char*> settings) {
  for (const char* setting : settings) {
    if (!configure(state, setting)) {
      std::fprintf(stderr, "cryptodev-ctl: %s is no setting\n", setting);
      return 2;
    }
  }
  return 0;
}

int show(State& state) {
  settle(state);
  report(state, stdout);
  const std::uint64_t violations = state.violations.load();
  for (std::size_t i = 0; i < std::min<std::uint64_t>(violations, State::kept_violations); ++i) {
    std::fprintf(stderr, "cryptodev: %s\n", state.violation_texts[i].data());
  }
  return violations == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** values) {
  const std::span<char*> arguments(values, static_cast<std::size_t>(count));
  if (count < 3) return usage();
  const std::string_view command(arguments[1]);
  const char* folder = arguments[2];
  if (command == "init" && !create_state(folder)) return 2;
  State* state = open_state(folder);
  if (state == nullptr) {
    std::fprintf(stderr, "cryptodev-ctl: no device in %s\n", folder);
    return 2;
  }
  if (command == "init" || command == "set") return set(*state, arguments.subspan(3));
  if (command == "show") return show(*state);
  if (command != "release") return usage();
  release(*state);
  return 0;
}
