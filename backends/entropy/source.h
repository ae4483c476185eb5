// SPDX-License-Identifier: Apache-2.0
// What the collector asks of a source of raw random samples beside the kernel's getrandom.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "backends/process.h"

namespace sunxi::entropy {

// The kernel's generator, by the system call itself (getrandom(2); it waits until the kernel's generator is
// seeded, once after boot). OpenSSH's sandbox allows it. Fills all of `out`, or returns false.
[[nodiscard]] bool kernel_random(std::span<std::uint8_t> out) noexcept;

// Nanoseconds, monotonic, fine: for bounds of waits.
[[nodiscard]] std::uint64_t fine_clock() noexcept;

enum class Read : std::uint8_t {
  done,    // some bytes, or none: the source is slow
  absent,  // not there, not allowed, or the process is in a sandbox: nothing to complain about
  failed,
};

struct ReadResult {
  Read read;
  std::size_t bytes;
  const char* problem;  // static; null where done
  int error;            // errno of it, 0 if there is none
};

// What /proc/self/status says of seccomp filters.
enum class Filter : std::uint8_t { none, present, unknown };
// Why a source is absent then; `filter` is not none. With errno as opening the file has left it.
[[nodiscard]] ReadResult refusal(Filter filter) noexcept;

// One process, one thread at a time. Opens what it needs at the first read.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  [[nodiscard]] virtual const char* name() const noexcept = 0;  // for the log

  // At most out.size() bytes into `out`, waiting no longer than until `deadline` of fine_clock().
  [[nodiscard]] virtual ReadResult read(std::span<std::uint8_t> out, std::uint64_t deadline) noexcept = 0;

  // While nothing is read for some time: ends what the last read has left. Cheap.
  virtual void tidy() noexcept {}

  // In the child of a fork, where this one is not used any more: closes what it inherited. A thread of the
  // parent may have been inside. By any number of threads.
  virtual void let_go() noexcept {}
};

// What the configuration key rand_extra says.
struct Extra {
  enum class Kind : std::uint8_t { none, sun4i_prng, afalg };
  Kind kind = Kind::none;
  std::string name;  // afalg: the kernel's name of the generator
};

struct Options {
  Extra extra;
  BackendOptions backend;  // under_seccomp; and for sun4i_prng: where the engine is
};

// The device node of the kernel's true generators. `process` and `path` outlive the source.
[[nodiscard]] std::unique_ptr<Source> make_hwrng(Process& process, bool under_seccomp,
                                                 const char* path = "/dev/hwrng");
// A generator of the kernel's crypto API, seeded once from getrandom.
[[nodiscard]] std::unique_ptr<Source> make_afalg_rng(Process& process, bool under_seccomp, std::string name);
// The pseudo-random generator of the first Allwinner engine, seeded from getrandom at each read.
[[nodiscard]] std::unique_ptr<Source> make_sun4i_prng(Process& process, const BackendOptions& options);

// The sources that the options name, apart from getrandom. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::unique_ptr<Source>> make_sources(Process& process, const Options& options);

}  // namespace sunxi::entropy
