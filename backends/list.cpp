// SPDX-License-Identifier: Apache-2.0
// The list of backends: a new one is one line here.
#include <array>

#include "backends/afalg/afalg.h"
#include "backends/backend.h"
#include "backends/cryptodev/cryptodev.h"
#include "backends/mmio/mmio.h"

namespace sunxi {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Backend> (*make)(Process&, const BackendOptions&);
};

constexpr std::array entries{
    Entry{"mmio", make_mmio_backend},
    Entry{"afalg", make_afalg_backend},
    Entry{"cryptodev", make_cryptodev_backend},
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::string_view name, Process& process,
                                      const BackendOptions& options) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry.make(process, options);
  }
  return nullptr;
}

}  // namespace sunxi
