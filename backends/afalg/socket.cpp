// SPDX-License-Identifier: Apache-2.0
// Opening AF_ALG sockets.
#include "backends/afalg/socket.h"

#include <linux/if_alg.h>

#include <cerrno>
#include <cstring>

namespace sunxi::afalg {
namespace {

constexpr int family = 38;  // AF_ALG

}  // namespace

Fault fault_of(Step step) noexcept {
  return {.step = step, .error = errno};
}

const char* step_name(Step step) noexcept {
  switch (step) {
    case Step::socket:
      return "socket";
    case Step::bind:
      return "bind";
    case Step::set_key:
      return "setsockopt(ALG_SET_KEY)";
    case Step::accept:
      return "accept";
    case Step::send:
      return "sendmsg";
    case Step::receive:
      return "recv";
    case Step::none:
      break;
  }
  return "";
}

Fault bind_socket(Descriptor& socket, DriverType type, const char* name) noexcept {
  return bind_socket(socket, type == DriverType::cipher ? "skcipher" : "hash", name);
}

Fault bind_socket(Descriptor& socket, const char* type, const char* name) noexcept {
  if (!socket) {
    const int number = ::socket(family, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (number < 0) return fault_of(Step::socket);
    socket = Descriptor(number);
  }
  sockaddr_alg address{};
  address.salg_family = family;
  std::memcpy(address.salg_type, type, strnlen(type, sizeof address.salg_type - 1));
  const std::size_t length = strnlen(name, sizeof address.salg_name - 1);
  std::memcpy(address.salg_name, name, length);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fault_of(Step::bind);
  return {};
}

Fault OperationSocket::open(int from, std::uint64_t now) noexcept {
  const int number = kernel::out_of_the_way(::accept4(from, nullptr, nullptr, SOCK_CLOEXEC));
  if (number < 0) return fault_of(Step::accept);
  adopt(number, now);
  return {};
}

}  // namespace sunxi::afalg
