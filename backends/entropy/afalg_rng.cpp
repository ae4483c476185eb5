// SPDX-License-Identifier: Apache-2.0
// A random generator of the kernel's crypto API (Linux crypto/algif_rng.c): the kernel's software in all
// current releases.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "backends/afalg/socket.h"
#include "backends/entropy/collector.h"
#include "backends/entropy/source.h"

namespace sunxi::entropy {
namespace {

constexpr int set_key = 1;  // ALG_SET_KEY: the seed
constexpr std::size_t seed_bytes = 64;

class AfalgRng final : public Source {
 public:
  AfalgRng(Process& process, bool under_seccomp, std::string algorithm)
      : process_(process),
        under_seccomp_(under_seccomp),
        algorithm_(std::move(algorithm)),
        name_("AF_ALG " + algorithm_) {}

  [[nodiscard]] const char* name() const noexcept override { return name_.c_str(); }

  [[nodiscard]] ReadResult read(std::span<std::uint8_t> out, std::uint64_t deadline) noexcept override {
    const ErrnoGuard guard;
    if (process_.sandboxed()) return {Read::absent, 0, "the process is in a sandbox", 0};
    if (socket_.state(0, true) != afalg::OperationSocket::State::ready) {
      if (const ReadResult opened = open(); opened.read != Read::done) return opened;
      // The kernel loads a module and seeds a generator: that takes its time, which cannot be bounded.
      deadline = std::max(deadline, fine_clock() + patience);
    }
    std::size_t have = 0;
    while (have < out.size() && fine_clock() < deadline) {
      // At most 128 bytes a call, whatever is asked for.
      const ssize_t got = recv(socket_.get(), out.data() + have, out.size() - have, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        const int error = got == 0 ? 0 : errno;
        socket_.close();
        return {Read::failed, 0, "recv", error};
      }
      have += static_cast<std::size_t>(got);
    }
    return {Read::done, have, nullptr, 0};
  }

 private:
  ReadResult open() noexcept {
    if (!under_seccomp_) {
      const Descriptor status(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
      if (!status) return refusal(Filter::unknown);
      if (Process::filtered(status.get())) return refusal(Filter::present);
    }
    Descriptor bound;
    if (const afalg::Fault refused = afalg::bind_socket(bound, "rng", algorithm_.c_str()))
      return {Read::absent, 0, afalg::step_name(refused.step), refused.error};
    std::array<std::uint8_t, seed_bytes> seed{};
    if (!kernel_random(seed)) return {Read::failed, 0, "getrandom", errno};
    const int seeded = setsockopt(bound.get(), afalg::alg_level, set_key, seed.data(), seed.size());
    const int error = errno;
    wipe(seed.data(), seed.size());
    if (seeded != 0) return {Read::absent, 0, "the seed is refused", error};
    if (const afalg::Fault refused = socket_.open(bound.get(), 0))
      return {Read::absent, 0, afalg::step_name(refused.step), refused.error};
    return {Read::done, 0, nullptr, 0};
  }

  Process& process_;
  const bool under_seccomp_;
  const std::string algorithm_;
  const std::string name_;
  afalg::OperationSocket socket_;
};

}  // namespace

std::unique_ptr<Source> make_afalg_rng(Process& process, bool under_seccomp, std::string name) {
  return std::make_unique<AfalgRng>(process, under_seccomp, std::move(name));
}

}  // namespace sunxi::entropy
