// SPDX-License-Identifier: Apache-2.0
// The end of a process's sessions.
#include "backends/cryptodev/state.h"

namespace sunxi::cryptodev {

State::State(State* inherited, Process& process, std::uint64_t generation, const char* path)
    : Tables(Devices::session_limit), process_(process), generation_(generation), devices_(path) {
  // The parent's files: closed here, used by the parent only.
  if (inherited != nullptr) inherited->close_all();
}

State::~State() {
  close_all();
}

// A fork shares the open files, and all sessions on them: a child that closed a session would close its
// parent's. Our own are closed one by one, because a child may still have the files open, and the keys with
// them.
void State::close_all() noexcept {
  const bool own = process_.generation() == generation_;
  Tables::close_all([own](auto& session) {
    if (own) (void)session.close();
  });
  devices_.close_all();
}

}  // namespace sunxi::cryptodev
