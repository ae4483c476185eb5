// SPDX-License-Identifier: Apache-2.0
// For tests on the stand-in for /dev/crypto, whichever frontend serves it: its counters, faults and
// violations. Link sunxi_cryptodev_control.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/cryptodev/state.h"

namespace sunxi::standin {

class Control {
 public:
  // Null: no stand-in (none, or the real module).
  static Control* find() {
    static Control control;
    return control.state_ == nullptr ? nullptr : &control;
  }

  // "fault=crypt:EIO:1", "driver=generic", "defaults=1": see configure() in state.h. A real device's settings
  // outlive the test.
  [[nodiscard]] bool set(std::string_view setting) { return configure(*state_, setting); }
  // Of the report's names, such as "crypt" (the ioctls), "requests", "bytes", "gsession", "fsession",
  // "files-open", "sessions-open", "zero-copy", "misaligned", "violations".
  [[nodiscard]] std::uint64_t count(std::string_view name) const { return counter(*state_, name); }
  // Those so far, which then no longer fail the run.
  std::vector<std::string> take_violations() {
    std::vector<std::string> taken;
    const std::uint64_t count = state_->violations.exchange(0);
    for (std::size_t i = 0; i < count && i < State::kept_violations; ++i) {
      taken.emplace_back(state_->violation_texts[i].data());
    }
    return taken;
  }
  // What hangs goes on.
  void release() { standin::release(*state_); }
  // Gives back what dead processes had open.
  void settle() { standin::settle(*state_); }
  // A real device, which is asked through the kernel.
  [[nodiscard]] bool is_daemon() const { return state_->daemon.load() != 0; }

 private:
  Control() {
    const char* folder = std::getenv("SUNXI_CRYPTODEV_DIR");
    if (folder != nullptr) state_ = open_state(folder);
  }
  State* state_ = nullptr;
};

}  // namespace sunxi::standin
