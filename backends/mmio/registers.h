// SPDX-License-Identifier: Apache-2.0
// Access to mapped device registers: always exactly one aligned 32-bit load or store instruction, of a
// form without index, displacement or write-back. Registers need no more, and a model behind a page that
// traps (tests/board) can decode it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/process.h"

namespace sunxi {

// The clobber keeps the access between the lock's acquisition and its release.
inline std::uint32_t load_register(const volatile std::uint32_t* address) noexcept {
#if defined(__x86_64__)
  std::uint32_t value;
  asm volatile("movl (%%rdi), %%eax" : "=a"(value) : "D"(address) : "memory");
  return value;
#elif defined(__aarch64__)
  std::uint32_t value;
  asm volatile("ldr %w0, [%1]" : "=r"(value) : "r"(address) : "memory");
  return value;
#elif defined(__arm__)
  std::uint32_t value;
  asm volatile("ldr %0, [%1]" : "=r"(value) : "r"(address) : "memory");
  return value;
#else
  return *address;
#endif
}

inline void store_register(volatile std::uint32_t* address, std::uint32_t value) noexcept {
#if defined(__x86_64__)
  asm volatile("movl %%eax, (%%rdi)" : : "a"(value), "D"(address) : "memory");
#elif defined(__aarch64__)
  asm volatile("str %w0, [%1]" : : "r"(value), "r"(address) : "memory");
#elif defined(__arm__)
  asm volatile("str %0, [%1]" : : "r"(value), "r"(address) : "memory");
#else
  *address = value;
#endif
}

// What an engine driver needs of the world: registers, and a clock to bound its waits.
class MappedRegisters {
 public:
  // `base` is the engine's first register; mapping and process outlive the object.
  MappedRegisters(volatile std::uint32_t* base, const Process& process) noexcept
      : base_(base), process_(process) {}

  [[nodiscard]] std::uint32_t read(std::size_t offset) const noexcept {
    return load_register(base_ + offset / sizeof(std::uint32_t));
  }
  void write(std::size_t offset, std::uint32_t value) const noexcept {
    store_register(base_ + offset / sizeof(std::uint32_t), value);
  }
  [[nodiscard]] std::uint64_t now() const noexcept { return process_.now(); }

 private:
  volatile std::uint32_t* base_;
  const Process& process_;
};

}  // namespace sunxi
