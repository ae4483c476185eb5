// SPDX-License-Identifier: Apache-2.0
// What the backend asks of an engine, whichever generation it is. The caller holds the engine's lock.
#pragma once

#include <cstddef>
#include <memory>
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

  virtual void wipe_keys() noexcept = 0;

  // `request` may be long: the caller bounds how long the lock is held. `out` is not inside (in, in +
  // length).
  [[nodiscard]] virtual Progress crypt(const CipherRequest& request) noexcept = 0;
};

// From capability data alone.
[[nodiscard]] bool engine_supports(EngineKind kind, const CipherSpec& spec) noexcept;

// Null for a kind that is not driven yet, or without memory. Touches no register.
[[nodiscard]] std::unique_ptr<Engine> make_engine(EngineKind kind, const MappedRegisters& registers) noexcept;

}  // namespace sunxi
