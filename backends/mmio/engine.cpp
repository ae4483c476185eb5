// SPDX-License-Identifier: Apache-2.0
// The list of engine drivers: a new one is one case in each function.
#include "backends/mmio/engine.h"

#include <new>

#include "backends/mmio/sun4i_ss.h"

namespace sunxi {
namespace {

// A register driver behind the interface.
template <template <class> class Driver>
class DrivenEngine final : public Engine {
 public:
  DrivenEngine(const MappedRegisters& registers, Errata errata) noexcept
      : registers_(registers), driver_(registers_, errata) {}

  [[nodiscard]] std::string_view name() const noexcept override { return Driver<MappedRegisters>::name; }
  [[nodiscard]] bool alive() noexcept override { return driver_.alive(); }
  void stop() noexcept override { driver_.stop(); }
  void taken_over() noexcept override { driver_.taken_over(); }
  void wipe_registers() noexcept override { driver_.wipe_registers(); }
  [[nodiscard]] Progress crypt(const CipherRequest& request) noexcept override {
    return driver_.crypt(request);
  }
  [[nodiscard]] Progress absorb(const AbsorbRequest& request) noexcept override {
    return driver_.absorb(request);
  }

  [[nodiscard]] bool random(std::span<const std::uint8_t, 24> seed,
                            std::span<std::uint8_t, 20> out) noexcept override {
    if constexpr (requires(Driver<MappedRegisters> driver) { driver.random(seed, out); }) {
      return driver_.random(seed, out);
    } else {
      return false;
    }
  }

 private:
  MappedRegisters registers_;
  Driver<MappedRegisters> driver_;
};

template <class Spec>
std::size_t algorithm(EngineKind kind, const Spec& spec) noexcept {
  switch (kind) {
    case EngineKind::sun4i_ss:
      return Sun4iSs<MappedRegisters>::algorithm(spec);
    case EngineKind::sun8i_ss:
    case EngineKind::sun8i_ce:
      break;
  }
  return no_algorithm;
}

}  // namespace

std::size_t engine_algorithm(EngineKind kind, const CipherSpec& spec) noexcept {
  return algorithm(kind, spec);
}

std::size_t engine_algorithm(EngineKind kind, const DigestSpec& spec) noexcept {
  return algorithm(kind, spec);
}

bool engine_driven(EngineKind kind) noexcept {
  switch (kind) {
    case EngineKind::sun4i_ss:
      return true;
    case EngineKind::sun8i_ss:
    case EngineKind::sun8i_ce:
      break;
  }
  return false;
}

std::unique_ptr<Engine> make_engine(const Soc& soc, const MappedRegisters& registers) noexcept {
  switch (soc.kind) {
    case EngineKind::sun4i_ss:
      return std::unique_ptr<Engine>(new (std::nothrow) DrivenEngine<Sun4iSs>(registers, soc.errata));
    case EngineKind::sun8i_ss:
    case EngineKind::sun8i_ce:
      break;
  }
  return nullptr;
}

}  // namespace sunxi
