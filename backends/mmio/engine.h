// SPDX-License-Identifier: Apache-2.0
// What the backend asks of an engine, whichever generation it is. The caller holds the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "backends/backend.h"
#include "backends/mmio/registers.h"
#include "backends/mmio/soc.h"

namespace sunxi {

// Blocks [0, done) are final and the IV continues after them. Not sound: the engine did not behave, it
// is stopped, and the input from `done` on is unharmed.
struct Progress {
  std::size_t done;
  bool sound;
};

class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  // The name of the kernel's driver for the same engine.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  // Whether the registers answer; with a closed clock gate they do not. Leaves the engine stopped.
  [[nodiscard]] virtual bool alive() noexcept = 0;

  // Ends whatever a user who died has left behind.
  virtual void stop() noexcept = 0;

  // Somebody else has used the engine since: it is not known what its registers hold.
  virtual void taken_over() noexcept = 0;

  // Overwrites keys, IVs and states of digests.
  virtual void wipe_registers() noexcept = 0;

  // `request` may be long: the caller bounds how long the lock is held. `out` is not inside (in, in +
  // length).
  // Afterwards no word of another key is left in the engine.
  [[nodiscard]] virtual Progress crypt(const CipherRequest& request) noexcept = 0;

  // As crypt; but done is 0 and the state is as it was, unless all is sound. No key and no given state is
  // left in the engine.
  [[nodiscard]] virtual Progress absorb(const AbsorbRequest& request) noexcept = 0;

  // One step of the pseudo-random generator, 24 bytes of seed to 20 bytes. False if the engine has none that
  // is driven, or does not behave. No word of the seed is left in the engine.
  [[nodiscard]] virtual bool random(std::span<const std::uint8_t, 24>, std::span<std::uint8_t, 20>) noexcept {
    return false;
  }
};

// The number of an algorithm among all that a kind of engine has, from capability data alone. It stands for
// the algorithm where something is remembered of each.
inline constexpr std::size_t max_algorithms = 32;
inline constexpr std::size_t no_algorithm = max_algorithms;
[[nodiscard]] std::size_t engine_algorithm(EngineKind kind, const CipherSpec& spec) noexcept;
[[nodiscard]] std::size_t engine_algorithm(EngineKind kind, const DigestSpec& spec) noexcept;

// Whether engines of this kind are driven at all.
[[nodiscard]] bool engine_driven(EngineKind kind) noexcept;

// Null for a kind that is not driven yet, or without memory. Touches no register.
[[nodiscard]] std::unique_ptr<Engine> make_engine(const Soc& soc, const MappedRegisters& registers) noexcept;

}  // namespace sunxi
