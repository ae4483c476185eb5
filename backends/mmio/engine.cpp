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
  explicit DrivenEngine(const MappedRegisters& registers) noexcept
      : registers_(registers), driver_(registers_) {}

  [[nodiscard]] std::string_view name() const noexcept override { return Driver<MappedRegisters>::name; }
  [[nodiscard]] bool alive() noexcept override { return driver_.alive(); }
  void stop() noexcept override { driver_.stop(); }
  void wipe_keys() noexcept override { driver_.wipe_keys(); }
  [[nodiscard]] Progress crypt(const CipherRequest& request) noexcept override {
    return driver_.crypt(request);
  }

 private:
  MappedRegisters registers_;
  Driver<MappedRegisters> driver_;
};

}  // namespace

bool engine_supports(EngineKind kind, const CipherSpec& spec) noexcept {
  switch (kind) {
    case EngineKind::sun4i_ss:
      return Sun4iSs<MappedRegisters>::supports(spec);
    case EngineKind::sun8i_ss:
    case EngineKind::sun8i_ce:
      break;
  }
  return false;
}

std::unique_ptr<Engine> make_engine(EngineKind kind, const MappedRegisters& registers) noexcept {
  switch (kind) {
    case EngineKind::sun4i_ss:
      return std::unique_ptr<Engine>(new (std::nothrow) DrivenEngine<Sun4iSs>(registers));
    case EngineKind::sun8i_ss:
    case EngineKind::sun8i_ce:
      break;
  }
  return nullptr;
}

}  // namespace sunxi
