// SPDX-License-Identifier: Apache-2.0
// What a process takes over from its parent.
#include "backends/afalg/state.h"

#include "backends/kernel/descriptor.h"

namespace sunxi::afalg {

// Each session is one descriptor. The tables are searched from end to end, which is what sets the upper
// limit.
State::State(State* inherited) : Tables(kernel::descriptor_limit) {
  if (inherited == nullptr) return;
  // The parent's sockets: closed here, used by the parent only. What the parent found out about drivers holds
  // here too, where /proc may be out of reach.
  inherited->close_all();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (!inherited->choices_[i].known.load(std::memory_order_acquire)) continue;
    choices_[i].driver = inherited->choices_[i].driver;
    choices_[i].whole_blocks_only = inherited->choices_[i].whole_blocks_only.load(std::memory_order_relaxed);
    choices_[i].known.store(true, std::memory_order_release);
  }
}

State::~State() {
  close_all();
}

}  // namespace sunxi::afalg
