// SPDX-License-Identifier: Apache-2.0
// getrandom, the clock for waits, and what is said of filters.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "backends/entropy/source.h"

namespace sunxi::entropy {

bool kernel_random(std::span<std::uint8_t> out) noexcept {
  const ErrnoGuard guard;
  while (!out.empty()) {
    const long got = syscall(SYS_getrandom, out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::uint64_t fine_clock() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

ReadResult refusal(Filter filter) noexcept {
  if (filter == Filter::unknown)
    return {Read::absent, 0,
            "/proc/self/status, which tells of seccomp filters, cannot be opened, see under_seccomp", errno};
  return {Read::absent, 0, "the process is under a seccomp filter, see under_seccomp", 0};
}

}  // namespace sunxi::entropy
