// SPDX-License-Identifier: Apache-2.0
// SUNXI-SEED: seeds from the kernel's getrandom, with whatever hardware there is mixed in.
#pragma once

#include <openssl/core_dispatch.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/entropy/collector.h"
#include "backends/entropy/source.h"
#include "backends/process.h"

namespace sunxi {

// The seeds of all generators of a provider. Any number of threads.
class SeedSource {
 public:
  // `process` outlives it.
  SeedSource(Process& process, entropy::Options options);

  using Names = std::array<const char*, entropy::most_sources>;

  // Full entropy: each 32 bytes of `out` are SHA-512, cut off, of 64 bytes of getrandom, what the hardware
  // gave, and `extra`. No hardware and no `extra` makes that worse than getrandom, and only a getrandom that
  // fails is an error. Where the program has a SHA512_Update of its own in libcrypto's place, `out` is
  // getrandom's alone. `names`, if not null, gets who else is in it.
  [[nodiscard]] bool fill(std::span<std::uint8_t> out, std::span<const std::uint8_t> extra,
                          std::span<const std::uint8_t> more_extra = {}, Names* names = nullptr) noexcept;

 private:
  entropy::Collector* collector() noexcept;

  Process& process_;
  const entropy::Options options_;
  const bool can_mix_;
  PerProcess<entropy::Collector> collectors_;
};

// The dispatch table of SUNXI-SEED; its first arguments are Provider objects.
[[nodiscard]] std::vector<OSSL_DISPATCH> seed_source_dispatch();

// Whether a table that libcrypto hands over for a parent is SUNXI-SEED's.
[[nodiscard]] bool is_seed_source(const OSSL_DISPATCH* calls) noexcept;

}  // namespace sunxi
