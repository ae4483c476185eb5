// SPDX-License-Identifier: Apache-2.0
// Keeping the numbers of our descriptors apart from the application's, and from each other.
#include "backends/kernel/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sunxi::kernel {
namespace {

// Which object, of any backend in the process, last adopted a descriptor of this number (modulo the size).
// After the application has closed our descriptors, the next one to be opened gets the number of another
// object, which would send its requests there; where all are open files of one device, not even the file's
// identity tells. An entry is a serial number above the descriptor's.
constinit std::array<std::atomic<std::uint64_t>, 1024> owners{};
constinit std::atomic<std::uint64_t> last_serial{0};

constexpr unsigned number_bits = 24;  // Linux has no larger ones (sysctl fs.nr_open)
constexpr std::uint64_t number_mask = (std::uint64_t{1} << number_bits) - 1;

std::atomic<std::uint64_t>& owner_of(int number) noexcept {
  return owners[static_cast<std::size_t>(number) % owners.size()];
}

// The signal that an open file would send when it is ready, if it were asked to send any: nobody asks a
// device that is never waited for, so that it is a place for a mark. The default is 0.
constexpr int mark = 61;

std::uint64_t entry(std::uint64_t serial, int number) noexcept {
  return serial << number_bits | (static_cast<std::uint64_t>(number) & number_mask);
}

}  // namespace

std::size_t descriptor_limit() noexcept {
  constexpr std::size_t least = 4;
  constexpr std::size_t most = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return least;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 16, least, most));
}

int out_of_the_way(int number) noexcept {
  if (number < 0) return number;
  rlimit limit{};
  const rlim_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
  const int lowest = static_cast<int>(std::min<rlim_t>(most / 4 * 3, 768));
  const int moved = fcntl(number, F_DUPFD_CLOEXEC, std::max(lowest, STDERR_FILENO + 1));
  // A filter may refuse the call. Where it is the numbers that are short, the application needs them more.
  if (moved < 0 && errno != EMFILE && errno != EINVAL && number > STDERR_FILENO) return number;
  const int error = errno;
  ::close(number);
  errno = error;
  return moved;
}

KeptDescriptor::KeptDescriptor(bool marked) noexcept
    : serial_(last_serial.fetch_add(1, std::memory_order_relaxed) + 1), wants_mark_(marked) {}

KeptDescriptor::~KeptDescriptor() {
  drop();
}

KeptDescriptor::State KeptDescriptor::state(std::uint64_t now, bool look) noexcept {
  if (!file_ || is_lost()) return State::closed;
  const int number = file_.get();
  std::atomic<std::uint64_t>& owner = owner_of(number);
  const std::uint64_t own = entry(serial_, number);
  if (!look && now == looked_.load(std::memory_order_relaxed) && owner.load(std::memory_order_relaxed) == own)
      [[likely]]
    return State::ready;
  if (!is_taken()) {
    switch (found()) {
      case Descriptor::State::ours:
        looked_.store(now, std::memory_order_relaxed);
        owner.store(own, std::memory_order_relaxed);
        return State::ready;
      case Descriptor::State::sandboxed:
        return State::sandboxed;
      case Descriptor::State::stolen:
        break;
    }
  }
  lost_.store(true, std::memory_order_relaxed);
  return State::closed;
}

// The mark is asked for last: in a sandbox no more than a look is allowed.
Descriptor::State KeptDescriptor::found() const noexcept {
  const Descriptor::State state = file_.state();
  if (state != Descriptor::State::ours || !marked_) return state;
  // A filter that refuses the question says nothing about the file.
  const int found = fcntl(file_.get(), F_GETSIG);
  return found < 0 || found == mark ? state : Descriptor::State::stolen;
}

// Another object has adopted the same number since: ours was closed before that.
bool KeptDescriptor::is_taken() const noexcept {
  const std::uint64_t own = entry(serial_, file_.get());
  const std::uint64_t last = owner_of(file_.get()).load(std::memory_order_relaxed);
  return last != own && (last & number_mask) == (own & number_mask);
}

void KeptDescriptor::adopt(int number, std::uint64_t now) noexcept {
  drop();
  file_ = Descriptor(number);
  marked_ = wants_mark_ && fcntl(number, F_SETSIG, mark) == 0;
  looked_.store(now, std::memory_order_relaxed);
  owner_of(number).store(entry(serial_, number), std::memory_order_relaxed);
}

bool KeptDescriptor::close() noexcept {
  if (!file_) return false;
  const bool stolen = look() == State::closed;
  drop();
  return stolen;
}

void KeptDescriptor::drop() noexcept {
  if (file_ && (is_lost() || is_taken() || found() == Descriptor::State::stolen)) file_.forget();
  file_.reset();
  lost_.store(false, std::memory_order_relaxed);
}

}  // namespace sunxi::kernel
