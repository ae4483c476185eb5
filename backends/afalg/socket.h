// SPDX-License-Identifier: Apache-2.0
// AF_ALG sockets of any type: binding, operation sockets that are known to be ours, and what went wrong with
// them. Interface: Linux include/uapi/linux/if_alg.h, crypto/af_alg.c.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/afalg/drivers.h"
#include "backends/kernel/descriptor.h"
#include "backends/process.h"

namespace sunxi::afalg {

using kernel::page;

inline constexpr int alg_level = 279;  // SOL_ALG

// A control message that AF_ALG skips, because the level is not its own, and for which every other kind
// of socket refuses the whole sendmsg: no such type exists at SOL_SOCKET. It makes sure that nothing
// reaches the peer of a socket that took our number between the check and the call.
inline constexpr int guard_type = 0x5358'4e55;

// What a socket is bound to.
struct Driver {
  std::array<char, 64> name{};  // struct sockaddr_alg has room for 63 characters
  DriverTraits traits{};
};

enum class Step : std::uint8_t { none, socket, bind, set_key, accept, send, receive };

// Which call went wrong, and its errno; 0 if it moved a wrong number of bytes.
struct Fault {
  Step step = Step::none;
  int error = 0;
  explicit operator bool() const noexcept { return step != Step::none; }
};

[[nodiscard]] Fault fault_of(Step step) noexcept;  // with errno
[[nodiscard]] const char* step_name(Step step) noexcept;

// Binds to `name`; opens the socket if there is none. Loads kernel modules where needed.
[[nodiscard]] Fault bind_socket(Descriptor& socket, DriverType type, const char* name) noexcept;
// The same with the kernel's own name of the type, such as "rng".
[[nodiscard]] Fault bind_socket(Descriptor& socket, const char* type, const char* name) noexcept;

// A socket that operations go through. Not to be used by two threads at once.
// Between two looks at the descriptor the guard in every message keeps data away from all sockets but those
// of AF_ALG.
class OperationSocket : public kernel::KeptDescriptor {
 public:
  // Accepts from a socket that was checked to be ours: from one of the application's this call would take a
  // connection.
  [[nodiscard]] Fault open(int from, std::uint64_t now) noexcept;
};

}  // namespace sunxi::afalg
