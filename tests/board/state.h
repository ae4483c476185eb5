// SPDX-License-Identifier: Apache-2.0
// The modelled board: a folder that its processes share. It holds
//   state        the engine's model, mapped by everybody (struct State)
//   mem          stands for /dev/mem: its owner and mode are those of the device
//   compatible   the device tree's root property
//   uio1*        stand for /dev/uio1 and its attributes in /sys/class/uio, '-' for each '/'
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
  int refuse_clock;            // errno for a mapping of the clock unit, or 0
  int refuse_uio;              // errno for an open of the UIO device, or 0
  int uio;                     // maps of the UIO device /dev/uio1: none, the engine's, the clock unit's too
  Model model;
};

// What of the folder does not come from the programs on the board.
inline constexpr std::array board_files{"state",
                                        "mem",
                                        "compatible",
                                        "uio1",
                                        "uio1-name",
                                        "uio1-maps-map0-addr",
                                        "uio1-maps-map0-offset",
                                        "uio1-maps-map1-addr",
                                        "uio1-maps-map1-offset"};

// Makes the folder's files. False with a message on standard error. Makes system calls of its own only, so
// that it can be used below the interposed functions.
[[nodiscard]] bool create_board(const char* folder, std::string_view soc);

// Null if it is not there.
[[nodiscard]] State* open_board(const char* folder);

// One setting: engine-ns=133, fault=KIND[:AFTER[:DURATION[:AMOUNT]]], bound=NAME, gated=1,
// early-fetch=0, sha1-word4-plain=1, refuse-open=ERRNO, refuse-map=ERRNO, refuse-clock=ERRNO,
// refuse-uio=ERRNO, closed=PARTS (bus, module, reset, any of them with a + between), pll=WORD, uio=MAPS.
// False if it is none of these.
[[nodiscard]] bool configure_board(State& state, std::string_view key, std::string_view value);

}  // namespace sunxi::board
