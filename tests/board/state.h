// SPDX-License-Identifier: Apache-2.0
// The modelled board: a folder that its processes share. It holds
//   state        the engine's model, mapped by everybody (struct State)
//   mem          stands for /dev/mem: its owner and mode are those of the device
//   compatible   the device tree's root property
//   sunxi-*.lock what programs create in /run
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tests/board/model.h"

namespace sunxi::board {

struct BoardSoc {
  std::string_view name;  // for people, such as "A20"
  std::string_view compatible;
  std::string_view device;  // under /sys/bus/platform/devices
  std::uint64_t base;
  Traits traits;
};

// Null for an unknown name.
[[nodiscard]] const BoardSoc* find_board_soc(std::string_view name);

struct State {
  std::uint64_t magic;
  std::uint64_t base;  // of the engine, physical
  std::array<char, 64> device;
  std::array<char, 32> bound;  // name of the kernel driver that has the engine, or empty
  int refuse_open;             // errno for an open of /dev/mem, or 0
  int refuse_map;              // errno for a mapping of it, or 0
  Model model;
};

// Makes the folder's files. False with a message on standard error. Makes system calls of its own only, so
// that it can be used below the interposed functions.
[[nodiscard]] bool create_board(const char* folder, std::string_view soc);

// Null if it is not there.
[[nodiscard]] State* open_board(const char* folder);

// One setting: engine-ns=133, fault=KIND[:AFTER[:DURATION[:AMOUNT]]], bound=NAME, gated=1,
// early-fetch=0, sha1-word4-plain=1, refuse-open=ERRNO, refuse-map=ERRNO. False if it is none of these.
[[nodiscard]] bool configure_board(State& state, std::string_view key, std::string_view value);

}  // namespace sunxi::board
