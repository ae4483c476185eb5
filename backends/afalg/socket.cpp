// SPDX-License-Identifier: Apache-2.0
// Opening AF_ALG sockets and keeping their numbers apart from the application's.
#include "backends/afalg/socket.h"

#include <fcntl.h>
#include <linux/if_alg.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sunxi::afalg {
namespace {

constexpr int family = 38;  // AF_ALG

// Which session, of any backend object in the process, last opened a descriptor with this number (modulo
// the size). After the application has closed our sockets, the next one to be opened gets the number of
// another, which would take that one's requests and use its own key for them.
constinit std::array<std::atomic<std::uint64_t>, 1024> owners{};
constinit std::atomic<std::uint64_t> last_serial{0};

std::atomic<std::uint64_t>& owner_of(int number) noexcept {
  return owners[static_cast<std::size_t>(number) % owners.size()];
}

// A number that the application's next descriptors will not get: after it has closed all that it does not
// know, the lowest free ones are taken. Never 0 to 2, to which code writes that believes in standard
// streams. The limits keep the process's table of descriptors small.
int out_of_the_way(int number) noexcept {
  if (number < 0) return number;
  rlimit limit{};
  const rlim_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
  const int lowest = static_cast<int>(std::min<rlim_t>(most / 4 * 3, 768));
  int moved = fcntl(number, F_DUPFD_CLOEXEC, std::max(lowest, STDERR_FILENO + 1));
  if (moved < 0) {
    if (number > STDERR_FILENO) return number;
    moved = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  }
  const int error = errno;
  ::close(number);
  errno = error;
  return moved;
}

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

ErrorName::ErrorName(int error) noexcept {
  struct Known {
    int error;
    const char* name;
  };
  constexpr std::array names{
      Known{0, "wrong length"},      Known{EAFNOSUPPORT, "EAFNOSUPPORT"},
      Known{EPERM, "EPERM"},         Known{EACCES, "EACCES"},
      Known{ENOENT, "ENOENT"},       Known{EMFILE, "EMFILE"},
      Known{ENFILE, "ENFILE"},       Known{ENOMEM, "ENOMEM"},
      Known{EINVAL, "EINVAL"},       Known{EIO, "EIO"},
      Known{EBUSY, "EBUSY"},         Known{EAGAIN, "EAGAIN"},
      Known{ENOKEY, "ENOKEY"},       Known{EINTR, "EINTR"},
      Known{ETIMEDOUT, "ETIMEDOUT"}, Known{EBADF, "EBADF"},
      Known{ENOTSOCK, "ENOTSOCK"},   Known{EPIPE, "EPIPE"},
      Known{EBADMSG, "EBADMSG"},     Known{ENODEV, "ENODEV"},
      Known{ENOSYS, "ENOSYS"},       Known{ENOBUFS, "ENOBUFS"},
      Known{EFAULT, "EFAULT"},       Known{EOPNOTSUPP, "EOPNOTSUPP"},
  };
  for (const Known& known : names) {
    if (known.error == error) name_ = known.name;
  }
  if (name_ == nullptr) {
    snprintf(number_.data(), number_.size(), "errno %d", error);
    name_ = number_.data();
  }
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

OperationSocket::OperationSocket() noexcept
    : serial_(last_serial.fetch_add(1, std::memory_order_relaxed) + 1) {}

OperationSocket::State OperationSocket::state(std::uint64_t now, bool look) noexcept {
  if (!socket_) return State::closed;
  std::atomic<std::uint64_t>& owner = owner_of(socket_.get());
  if (!look && now == looked_ && owner.load(std::memory_order_relaxed) == serial_) [[likely]]
    return State::ready;
  switch (socket_.state()) {
    case Descriptor::State::ours:
      looked_ = now;
      owner.store(serial_, std::memory_order_relaxed);
      return State::ready;
    case Descriptor::State::sandboxed:
      return State::sandboxed;
    case Descriptor::State::stolen:
      break;
  }
  socket_.forget();
  return State::closed;
}

Fault OperationSocket::open(int from, std::uint64_t now) noexcept {
  const int number = out_of_the_way(::accept4(from, nullptr, nullptr, SOCK_CLOEXEC));
  if (number < 0) return fault_of(Step::accept);
  socket_ = Descriptor(number);
  looked_ = now;
  owner_of(number).store(serial_, std::memory_order_relaxed);
  return {};
}

bool OperationSocket::close() noexcept {
  const bool stolen = socket_ && socket_.state() == Descriptor::State::stolen;
  socket_.reset();
  return stolen;
}

}  // namespace sunxi::afalg
