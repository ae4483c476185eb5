// SPDX-License-Identifier: Apache-2.0
// The pseudo-random generator of the first Allwinner engine as a source. Its algorithm is not documented and
// its state can be read from outside, so that it is seeded anew at each step and counts for nothing.
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/entropy/source.h"
#include "backends/mmio/mmio.h"

namespace sunxi::entropy {
namespace {

class Sun4iPrng final : public Source {
 public:
  Sun4iPrng(Process& process, const BackendOptions& options) : engine_(make_mmio_prng(process, options)) {}

  [[nodiscard]] const char* name() const noexcept override { return "sun4i-prng"; }

  [[nodiscard]] ReadResult read(std::span<std::uint8_t> out, std::uint64_t deadline) noexcept override {
    if (!engine_) return {Read::absent, 0, "no memory", 0};
    std::size_t have = 0;
    while (have < out.size() && fine_clock() < deadline) {
      std::array<std::uint8_t, prng_seed_bytes> seed{};
      std::array<std::uint8_t, prng_step_bytes> step{};
      if (!kernel_random(seed)) return {Read::failed, 0, "getrandom", 0};
      const Outcome outcome = engine_->step(seed, step);
      wipe(seed.data(), seed.size());
      const std::size_t bytes = std::min(step.size(), out.size() - have);
      if (outcome == Outcome::served) std::memcpy(out.data() + have, step.data(), bytes);
      wipe(step.data(), step.size());
      switch (outcome) {
        case Outcome::served:
          have += bytes;
          continue;
        case Outcome::busy:
          return {Read::done, have, nullptr, 0};
        case Outcome::failed:
          return {Read::failed, 0, "the engine gives no words", 0};
        case Outcome::unsupported:
        case Outcome::unavailable:
          break;
      }
      return {Read::absent, 0, "the engine cannot be reached", 0};
    }
    return {Read::done, have, nullptr, 0};
  }

 private:
  std::unique_ptr<EnginePrng> engine_;
};

}  // namespace

std::unique_ptr<Source> make_sun4i_prng(Process& process, const BackendOptions& options) {
  return std::make_unique<Sun4iPrng>(process, options);
}

}  // namespace sunxi::entropy
