// SPDX-License-Identifier: Apache-2.0
// The backend that drives an Allwinner engine from user space, without a system call per request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/backend.h"
#include "backends/process.h"

namespace sunxi {

// Null only without memory. `process` outlives the backend. With options.mmio_map_at_startup the engine is
// mapped here, else at the first request.
[[nodiscard]] std::unique_ptr<Backend> make_mmio_backend(Process& process, const BackendOptions& options);

// The pseudo-random generator of the first generation's engine: 160 bits a step, from a seed of 192 bits.
inline constexpr std::size_t prng_seed_bytes = 24;
inline constexpr std::size_t prng_step_bytes = 20;

class EnginePrng {
 public:
  EnginePrng() = default;
  EnginePrng(const EnginePrng&) = delete;
  EnginePrng& operator=(const EnginePrng&) = delete;
  virtual ~EnginePrng() = default;

  // As a request of the backend: any thread, bounded waits, the engine's lock, nothing in a sandbox. No word
  // of the seed, and no state, is left in the engine.
  [[nodiscard]] virtual Outcome step(std::span<const std::uint8_t, prng_seed_bytes> seed,
                                     std::span<std::uint8_t, prng_step_bytes> out) noexcept = 0;
};

// Null without memory. It maps the engine for itself, at its first step, whether or not the backend is used.
[[nodiscard]] std::unique_ptr<EnginePrng> make_mmio_prng(Process& process, const BackendOptions& options);

}  // namespace sunxi
