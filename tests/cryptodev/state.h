// SPDX-License-Identifier: Apache-2.0
// The modelled device, as plain memory that its processes share through a file: settings, faults, counters,
// violations, open files and sessions. The file is named "state" and lies in a folder of its own, whose name
// is in the variable SUNXI_CRYPTODEV_DIR.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "tests/cryptodev/algorithms.h"

namespace sunxi::standin {

// Between processes and threads. It orders nothing that a thread sanitizer sees, because the kernel's locks
// do not either. What a dead process holds can be taken.
class Lock {
 public:
  void enter();
  void leave();
  // The process that locks: to be said before, so that no system call is needed each time.
  static void set_process(std::uint32_t pid);

 private:
  std::atomic<std::uint32_t> owner_{0};
  std::atomic<std::uint32_t> waiting_{0};
};

enum class FaultKind : std::uint32_t { none, error, wrong, hang };

struct Fault {
  std::atomic<FaultKind> kind{FaultKind::none};
  std::uint32_t number = 0;  // of the ioctl; 0 is open()
  std::int32_t error = 0;
  std::uint64_t nth = 1;
  bool every = false;  // every nth, else the nth alone
  bool dirty = false;  // half of the output has been written over before the error
  std::atomic<std::uint64_t> calls{0};
};

struct DriverRule {
  std::array<char, 32> pattern;  // of the kernel's algorithm names, as the shell's
  std::array<char, 64> driver;   // a style or a name
};

enum class FirstId : std::uint32_t { alternate, zero, random };

struct Settings {
  std::array<DriverRule, 16> drivers{};  // the last that matches
  std::array<std::array<char, 32>, 8> absent{};
  std::int32_t alignmask = -1;  // -1: the driver's
  std::uint64_t limit = 0;      // sessions at once, 0: none
  std::int32_t refuse_open = 0;
  bool gone = false;
  bool fips = false;
  FirstId first_id = FirstId::alternate;
};

using Counter = std::atomic<std::uint64_t>;

struct Counters {
  Counter opens{0};
  std::array<Counter, 16> ioctls{};  // by number - 100; 0: unknown ones
  Counter requests{0};               // CIOCCRYPT that succeeded
  Counter bytes{0};                  // of these
  Counter zero_copy{0};
  Counter misaligned{0};    // requests that took the slow path for their addresses
  Counter no_zero_copy{0};  // and because they asked for it
  Counter pieces{0};        // requests of the driver that these were cut into
  Counter errors{0};
  Counter files_open{0};
  Counter sessions_open{0};
  Counter sessions_peak{0};
};

enum class Message : std::uint8_t { none, running };

struct Session {
  std::int32_t next;  // in the file's list or the free list, -1: the end
  std::uint32_t id;
  std::uint32_t pid;  // of its maker
  Lock lock;
  const CipherRow* cipher() const { return find_cipher(cipher_number); }
  const HashRow* hash() const { return find_hash(hash_number); }
  std::uint32_t cipher_number;  // 0: none
  std::uint32_t hash_number;
  std::uint16_t alignmask;
  bool xts_used;
  Message message;
  std::array<char, 64> cipher_driver;
  std::array<char, 64> hash_driver;
  CipherState cipher_state;
  HashState hash_state;
};

struct OpenFile {
  bool used = false;
  std::uint32_t pid = 0;  // of its opener
  std::uint64_t serial = 0;
  Lock lock;
  std::int32_t sessions = -1;
  std::uint64_t made = 0;  // sessions so far
};

struct State {
  static constexpr std::size_t most_files = 4096;
  static constexpr std::size_t most_sessions = 32768;
  static constexpr std::size_t kept_violations = 16;

  std::uint64_t magic = 0;
  std::atomic<std::uint32_t> daemon{0};  // the process that serves a real device, or 0
  Settings settings;
  std::array<Fault, 8> faults;
  std::atomic<std::uint32_t> released{0};  // counts the releases of what hangs
  std::atomic<std::uint32_t> hanging{0};
  Counters counters;
  Counter violations{0};
  std::array<std::array<char, 240>, kept_violations> violation_texts{};

  Lock pool;  // of files and sessions
  std::uint64_t serial = 0;
  std::int32_t free_sessions = -1;
  std::uint32_t fresh_sessions = 0;  // never used before: from here on
  std::array<OpenFile, most_files> files;
  std::array<Session, most_sessions> sessions;
};

// Makes system calls of their own only, so that they can be used below replaced functions. False: with a
// message on standard error.
[[nodiscard]] bool create_state(const char* folder);
// Null: it is not there. It stays mapped.
[[nodiscard]] State* open_state(const char* folder);

// One setting, or false: it is none of
//   driver=[PATTERN=]NAME   NAME a driver, or a style: sun8i-ce (at first, for all), sun8i-ss, sun4i-ss,
//                           generic, aesni, ce (ARMv8), virtio. Without PATTERN for all algorithms
//   alignmask=N|auto        the driver's own is 15 or 3 on sun8i, 3 on sun4i, 15 with aesni, 0 otherwise
//   absent=NAME             the kernel has no such algorithm, e.g. xts(aes); none: it has all
//   limit=N                 sessions at once, then ENOMEM; 0: none
//   refuse-open=ERRNO       ENOENT: no device, EACCES: no permission; 0: none
//   gone=1                  ENODEV for all that is open
//   fips=1                  weak keys are refused
//   defaults=1              all as at first, without faults; what hangs goes on
//   first-id=0|random|alternate   of each file's first session; alternate: 0 for every second file
//   fault=CALL:KIND:N[:every][:dirty]   CALL open, gsession, fsession, crypt, info, cphash, asymfeat, or a
//                           number; KIND an errno (name or number), wrong, hang; at the Nth call from now on,
//                           or at every Nth; dirty: after half of the output. none: no faults
[[nodiscard]] bool configure(State& state, std::string_view key, std::string_view value);
// The same in one, "KEY=VALUE".
[[nodiscard]] bool configure(State& state, std::string_view setting);

// To the pool, wiped.
void give_session(State& state, Session& session);
// With its sessions.
void close_file(State& state, OpenFile& file);
// Gives back what dead processes had open.
void settle(State& state);
// Lets go on what hangs.
void release(State& state);
void violate(State& state, const char* format, ...) __attribute__((format(printf, 2, 3)));
void report(const State& state, std::FILE* out);
// Of the report's lines; ~0: there is none of that name.
[[nodiscard]] std::uint64_t counter(const State& state, std::string_view name);

[[nodiscard]] bool process_is_dead(std::uint32_t pid);

}  // namespace sunxi::standin
