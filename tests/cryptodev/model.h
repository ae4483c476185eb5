// SPDX-License-Identifier: Apache-2.0
// A model of the Linux module cryptodev-linux 1.14 (/dev/crypto), for tests of what uses it.
//
// Written from what is publicly known of its interface (crypto/cryptodev.h, ioctl.c, main.c and zc.c of
// cryptodev-linux 1.14, and how that module was seen to behave on Linux 6.1), not from our backend, and
// stricter than the module: what would damage the kernel, give garbage without an error, or is unsafe is
// recorded as a violation and fails the test.
//
// Two frontends serve it: a library to be preloaded (preload.cpp) and a daemon behind a real device
// (daemon.cpp). Any number of threads and processes may call it at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/cryptodev/state.h"

namespace sunxi::standin {

// The caller's, at his addresses. The two of the writing kind are called in the same order.
class Memory {
 public:
  enum class Access : std::uint8_t {
    done,
    fault,
    later,  // not here yet: it was noted, and the call is to be made again when it is
  };
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  [[nodiscard]] virtual Access read(std::uint64_t address, void* to, std::size_t bytes) = 0;
  // Announces a write().
  virtual void will_write(std::uint64_t address, std::size_t bytes) = 0;
  // False: something of the above is `later`.
  [[nodiscard]] virtual bool complete() const = 0;
  [[nodiscard]] virtual bool write(std::uint64_t address, const void* from, std::size_t bytes) = 0;
};

// The word size of caller and kernel.
enum class Abi : std::uint8_t {
  lp64,
  ilp32,
  compat,  // a 32-bit process on a 64-bit kernel
};

struct Caller {
  std::uint32_t pid;
  Abi abi;
};

struct Answer {
  enum class Kind : std::uint8_t {
    done,
    again,      // when the memory that was noted is there
    duplicate,  // CRIOGET: the frontend makes a descriptor and writes its number to the argument
  };
  Kind kind;
  int error;  // 0 or an errno
};

class Model {
 public:
  explicit Model(State& state) : state_(state) {}

  // 0 and the file's number, or an errno.
  [[nodiscard]] int open(std::uint32_t pid, std::uint32_t& file);
  // The last descriptor of it is closed.
  void close(std::uint32_t file);
  [[nodiscard]] Answer ioctl(std::uint32_t file, const Caller& caller, std::uint32_t request,
                             std::uint64_t argument, Memory& memory);

 private:
  class Call;
  State& state_;
};

}  // namespace sunxi::standin
