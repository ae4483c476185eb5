// SPDX-License-Identifier: Apache-2.0
// The one load or store that hit a page that traps: which, and how to go on behind it. x86-64, arm (A32 and
// T32) and arm64; only the forms that registers of a device may be accessed with.
#pragma once

#include <cstdint>

namespace sunxi::board {

struct TrappedAccess {
  bool store = false;
  std::uint32_t value = 0;  // of a store
  unsigned target = 0;      // number of a load's register, as `context` counts them
  unsigned bytes = 0;       // length of the instruction
};

// False if the instruction at fault is anything else than a plain aligned-size 32-bit load or store without
// index, displacement and write-back.
[[nodiscard]] bool decode_access(const void* context, TrappedAccess& access);

// Puts the loaded value into its register, if it is a load, and steps over the instruction.
void finish_access(void* context, const TrappedAccess& access, std::uint32_t loaded);

}  // namespace sunxi::board
