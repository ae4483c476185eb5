// SPDX-License-Identifier: Apache-2.0
// board-ctl: makes a modelled board, changes it while programs run on it, shows what it has counted.
//   board-ctl init FOLDER SOC [KEY=VALUE...]
//   board-ctl set FOLDER KEY=VALUE...
//   board-ctl show FOLDER          exit status 1 if the device's rules were violated
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <span>
#include <string_view>

#include "tests/board/state.h"

namespace {

using namespace sunxi::board;

int usage() {
  std::fputs(
      "usage: board-ctl init FOLDER SOC [KEY=VALUE...]\n"
      "       board-ctl set FOLDER KEY=VALUE...\n"
      "       board-ctl show FOLDER\n"
      "keys: engine-ns, fault=KIND[:AFTER[:DURATION[:AMOUNT]]], bound, gated, early-fetch,\n"
      "      sha1-word4-plain, refuse-open=ERRNO, refuse-map=ERRNO, refuse-clock=ERRNO, refuse-uio=ERRNO,\n"
      "      closed=PARTS of bus+module+reset, pll=WORD, uio=MAPS (0: no such device, 1, 2)\n"
      "kinds of fault: none stall overcount zeros ones wrong-data; times are in register accesses\n",
      stderr);
  return 2;
}

int set(State& state, std::span<char*> settings) {
  for (const char* setting : settings) {
    const std::string_view text(setting);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos ||
        !configure_board(state, text.substr(0, equals), text.substr(equals + 1))) {
      std::fprintf(stderr, "board-ctl: %s is no setting\n", setting);
      return 2;
    }
  }
  return 0;
}

int show(State& state) {
  state.model.enter(static_cast<std::uint32_t>(getpid()));
  const Counters counters = state.model.counters;
  const std::uint64_t violations = state.model.violations;
  const auto first = state.model.first_violation;
  state.model.leave();
  std::printf("requests %" PRIu64 "\nblocks %" PRIu64 "\nwrites %" PRIu64 "\nreads %" PRIu64
              "\nstatus-reads %" PRIu64 "\nvirtual-ns %" PRIu64 "\nlast-request-ns %" PRIu64
              "\nviolations %" PRIu64 "\n",
              counters.requests, counters.blocks, counters.writes, counters.reads, counters.status_reads,
              counters.picoseconds / 1000, counters.last_picoseconds / 1000, violations);
  if (violations == 0) return 0;
  std::fprintf(stderr, "board: %s\n", first.data());
  return 1;
}

}  // namespace

int main(int count, char** values) {
  const std::span<char*> arguments(values, static_cast<std::size_t>(count));
  if (count < 3) return usage();
  const std::string_view command(arguments[1]);
  const char* folder = arguments[2];
  if (command == "init" && count >= 4) {
    if (!create_board(folder, arguments[3])) return 2;
    State* state = open_board(folder);
    return state == nullptr ? 2 : set(*state, arguments.subspan(4));
  }
  State* state = open_board(folder);
  if (state == nullptr) {
    std::fprintf(stderr, "board-ctl: no board in %s\n", folder);
    return 2;
  }
  if (command == "set") return set(*state, arguments.subspan(3));
  if (command == "show") return show(*state);
  return usage();
}
