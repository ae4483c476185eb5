// SPDX-License-Identifier: Apache-2.0
// Decoders of trapped accesses.
#include "tests/board/trap.h"

#include <ucontext.h>

#include <array>
#include <cstring>

namespace sunxi::board {

#if defined(__x86_64__)

namespace {

constexpr std::array<int, 16> registers{REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                        REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                        REG_R12, REG_R13, REG_R14, REG_R15};

}  // namespace

// [REX] 8b/89 ModRM with mod = 0 and a base register that needs neither SIB nor displacement.
bool decode_access(const void* context, TrappedAccess& access) {
  const auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
  const auto* code = reinterpret_cast<const std::uint8_t*>(machine->gregs[REG_RIP]);
  unsigned at = 0;
  unsigned rex = 0;
  if ((code[at] & 0xf0) == 0x40) rex = code[at++];
  if ((rex & 0x8) != 0) return false;  // 64 bits
  const unsigned opcode = code[at++];
  if (opcode != 0x8b && opcode != 0x89) return false;
  const unsigned modrm = code[at++];
  const unsigned base = modrm & 7;
  if ((modrm >> 6) != 0 || base == 4 || base == 5) return false;
  access.target = ((modrm >> 3) & 7) | ((rex & 4) << 1);
  access.store = opcode == 0x89;
  access.value = static_cast<std::uint32_t>(machine->gregs[registers[access.target]]);
  access.bytes = at;
  return true;
}

void finish_access(void* context, const TrappedAccess& access, std::uint32_t loaded) {
  auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
  if (!access.store) machine->gregs[registers[access.target]] = static_cast<greg_t>(std::uint64_t{loaded});
  machine->gregs[REG_RIP] += access.bytes;
}

#elif defined(__aarch64__)

// LDR/STR Wt, [Xn] (unsigned offset 0).
bool decode_access(const void* context, TrappedAccess& access) {
  const auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
  std::uint32_t code = 0;
  std::memcpy(&code, reinterpret_cast<const void*>(machine->pc), sizeof code);
  const std::uint32_t form = code & 0xfffffc00U;
  if (form != 0xb9400000U && form != 0xb9000000U) return false;
  access.store = form == 0xb9000000U;
  access.target = code & 31;
  access.value = access.target == 31 ? 0 : static_cast<std::uint32_t>(machine->regs[access.target]);
  access.bytes = 4;
  return true;
}

void finish_access(void* context, const TrappedAccess& access, std::uint32_t loaded) {
  auto* machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
  if (!access.store && access.target != 31) machine->regs[access.target] = loaded;
  machine->pc += access.bytes;
}

#elif defined(__arm__)

namespace {

// r0 to pc lie in a row.
unsigned long* register_file(void* context) {
  return &static_cast<ucontext_t*>(context)->uc_mcontext.arm_r0;
}

}  // namespace

bool decode_access(const void* context, TrappedAccess& access) {
  const auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
  const auto* code = reinterpret_cast<const std::uint8_t*>(machine->arm_pc);
  const bool thumb = (machine->arm_cpsr & (1UL << 5)) != 0;
  if (thumb) {
    std::array<std::uint16_t, 2> half{};
    std::memcpy(&half[0], code, 2);
    if ((half[0] & 0xf7c0) == 0x6000) {  // LDR/STR Rt, [Rn, #0], 16 bits
      access.store = (half[0] & 0x0800) == 0;
      access.target = half[0] & 7;
      access.bytes = 2;
    } else {
      std::memcpy(&half[1], code + 2, 2);
      const unsigned form = half[0] & 0xfff0;  // LDR.W/STR.W Rt, [Rn, #0]
      if ((form != 0xf8d0 && form != 0xf8c0) || (half[1] & 0x0fff) != 0) return false;
      access.store = form == 0xf8c0;
      access.target = half[1] >> 12;
      access.bytes = 4;
    }
  } else {
    std::uint32_t word = 0;
    std::memcpy(&word, code, 4);
    const std::uint32_t form = word & 0x0ff00fffU;  // LDR/STR Rt, [Rn, #0]
    if (form != 0x05900000U && form != 0x05800000U) return false;
    access.store = form == 0x05800000U;
    access.target = (word >> 12) & 15;
    access.bytes = 4;
  }
  if (access.target == 15) return false;
  access.value = static_cast<std::uint32_t>((&machine->arm_r0)[access.target]);
  return true;
}

void finish_access(void* context, const TrappedAccess& access, std::uint32_t loaded) {
  unsigned long* file = register_file(context);
  if (!access.store) file[access.target] = loaded;
  file[15] += access.bytes;
}

#else
#error "no decoder for this machine"
#endif

}  // namespace sunxi::board
