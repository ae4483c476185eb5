// SPDX-License-Identifier: Apache-2.0
// The AF_ALG backend against its floor: a loop of one sendmsg and one read on an operation socket, with
// nothing else; for digests, of one send and one recv. Encryption, or whole messages, in one process; medians
// of interleaved rounds. Exit status 77 without AF_ALG.
// Usage: bench_afalg [--hardware] [ALGORITHM] [ROUNDS [MILLISECONDS]]. ALGORITHM is a name such as
// AES-128-CBC (the default), AES-256-XTS, DES-EDE3-CBC, DES-EDE-ECB, DES-CBC, MD5, SHA1 or SHA2-256.
#include <linux/if_alg.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/afalg/afalg.h"
#include "bench/side_by_side.h"

namespace {

using namespace sunxi::bench;

constexpr int skipped = 77;
constexpr std::size_t most = 65536;

// Chosen by the driver that the backend uses, so that both loops run on the same one. Hashes have no key.
int open_bare(const char* type, const char* driver, std::span<const std::uint8_t> key) {
  const int bound = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (bound < 0) return -1;
  sockaddr_alg address{};
  address.salg_family = AF_ALG;
  std::memcpy(address.salg_type, type, std::strlen(type));
  std::memcpy(address.salg_name, driver, strnlen(driver, sizeof address.salg_name - 1));
  int number = -1;
  if (bind(bound, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      (key.empty() ||
       setsockopt(bound, SOL_ALG, ALG_SET_KEY, key.data(), static_cast<socklen_t>(key.size())) == 0))
    number = accept4(bound, nullptr, nullptr, SOCK_CLOEXEC);
  close(bound);
  return number;
}

// The control data is made once: nothing but the two calls is in the loop.
class Bare {
 public:
  Bare(int number, std::uint32_t iv_bytes) : number_(number) {
    message_.msg_iov = &data_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_.data();
    message_.msg_controllen = CMSG_SPACE(4) + (iv_bytes != 0 ? CMSG_SPACE(4 + iv_bytes) : 0);
    cmsghdr* header = CMSG_FIRSTHDR(&message_);
    *header = {.cmsg_len = CMSG_LEN(4), .cmsg_level = SOL_ALG, .cmsg_type = ALG_SET_OP};
    const std::uint32_t operation = ALG_OP_ENCRYPT;
    std::memcpy(CMSG_DATA(header), &operation, sizeof operation);
    if (iv_bytes == 0) return;
    header = CMSG_NXTHDR(&message_, header);
    *header = {.cmsg_len = CMSG_LEN(4 + iv_bytes), .cmsg_level = SOL_ALG, .cmsg_type = ALG_SET_IV};
    std::memcpy(CMSG_DATA(header), &iv_bytes, sizeof iv_bytes);
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;
  ~Bare() { close(number_); }

  void request(std::uint8_t* in, std::uint8_t* out, std::size_t bytes) {
    data_ = {.iov_base = in, .iov_len = bytes};
    if (sendmsg(number_, &message_, 0) != static_cast<ssize_t>(bytes) ||
        read(number_, out, bytes) != static_cast<ssize_t>(bytes)) {
      std::perror("bare loop");
      std::exit(1);
    }
  }

 private:
  int number_;
  iovec data_{};
  msghdr message_{};
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(4) + CMSG_SPACE(20)> control_{};
};

int measure_digest(sunxi::Backend& backend, const sunxi::DigestSpec& spec, std::string_view name,
                   Timing timing) {
  constexpr std::size_t longest = std::size_t{1} << 20U;
  auto* in = static_cast<std::uint8_t*>(std::aligned_alloc(4096, longest));
  std::fill_n(in, longest, std::uint8_t{0x5a});
  std::array<std::array<std::uint8_t, 64>, 2> out{};
  std::size_t bytes = 16;
  sunxi::KeySlot slot;
  const auto serve = [&] {
    if (backend.extend(slot, spec, in, bytes) == sunxi::Outcome::served &&
        backend.conclude(slot, spec, out[0].data()) == sunxi::Outcome::served)
      return;
    std::fprintf(stderr, "bench_afalg: the backend did not serve a message\n");
    std::exit(skipped);
  };
  serve();
  std::array<char, 64> driver{};
  backend.digest_driver(spec, driver);
  const int number = open_bare("hash", driver.data(), {});
  if (number < 0) return skipped;
  const auto bare = [&] {
    if (send(number, in, bytes, 0) == static_cast<ssize_t>(bytes) &&
        recv(number, out[1].data(), spec.digest_bytes, 0) == spec.digest_bytes)
      return;
    std::perror("bare loop");
    std::exit(1);
  };
  std::printf("%s on %s, %d rounds of %d ms; messages a second\n", name.data(), driver.data(), timing.rounds,
              static_cast<int>(timing.round.count() / 1000));
  std::printf("%7s %12s %12s %7s\n", "bytes", "bare", "backend", "ratio");
  for (const std::size_t size : {std::size_t{16}, std::size_t{256}, std::size_t{1024}, std::size_t{8192},
                                 std::size_t{16384}, std::size_t{65536}, longest}) {
    bytes = size;
    const std::size_t batch = std::clamp<std::size_t>(32768 / bytes, 1, 32);
    const Comparison one = compare(timing, batch, bare, serve);
    std::printf("%7zu %12.0f %12.0f %7.3f\n", bytes, one.bare, one.backend, one.ratio);
    std::fflush(stdout);
    if (out[0] != out[1]) {
      std::fprintf(stderr, "bench_afalg: the digests differ\n");
      return 1;
    }
  }
  close(number);
  std::free(in);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  sunxi::BackendOptions options;
  options.accelerated_only = false;
  if (count > 1 && std::string_view(arguments[1]) == "--hardware") {
    options.accelerated_only = true;
    --count;
    ++arguments;
  }
  std::string_view name = "AES-128-CBC";
  if (count > 1 && std::string_view("0123456789").find(arguments[1][0]) == std::string_view::npos) {
    name = arguments[1];
    --count;
    ++arguments;
  }
  const auto spec = cipher_of(name);
  const int rounds = number_or(count > 1 ? arguments[1] : nullptr, 7);
  const Timing timing{.rounds = rounds,
                      .round = std::chrono::milliseconds(number_or(count > 2 ? arguments[2] : nullptr, 300))};

  sunxi::Process process;
  process.set_log_level(sunxi::LogLevel::info);
  const auto backend = sunxi::make_afalg_backend(process, options);
  if (const auto digest = digest_of(name)) return measure_digest(*backend, *digest, name, timing);
  if (!spec || !backend->supports(*spec)) {
    std::fprintf(stderr, "bench_afalg: no algorithm %s\n", name.data());
    return 2;
  }
  // In whole, and as the kernel wants the one of triple DES with two keys.
  std::vector<std::uint8_t> key(spec->key_bytes);
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(2 * i + 1);
  std::vector<std::uint8_t> kernel_key = key;
  if (spec->cipher == sunxi::Cipher::des3) {
    kernel_key.resize(24);
    if (key.size() == 16) std::copy_n(key.begin(), 8, kernel_key.begin() + 16);
  }
  std::array<std::uint8_t, sunxi::max_iv_bytes> iv{};
  auto* in = static_cast<std::uint8_t*>(std::aligned_alloc(4096, most));
  auto* out = static_cast<std::uint8_t*>(std::aligned_alloc(4096, most));
  std::fill_n(in, most, std::uint8_t{0x5a});
  std::fill_n(out, most, std::uint8_t{0x5a});

  sunxi::KeySlot slot;
  sunxi::CipherRequest request{.spec = *spec,
                               .direction = sunxi::Direction::encrypt,
                               .key = key,
                               .iv = iv.data(),
                               .in = in,
                               .out = out,
                               .length = 16};
  const auto serve = [&] {
    if (backend->crypt(slot, request).outcome == sunxi::Outcome::served) return;
    std::fprintf(stderr, "bench_afalg: the backend did not serve a request\n");
    std::exit(skipped);
  };
  serve();
  std::array<char, 64> driver{};
  backend->driver(request.spec, driver);
  const int number = open_bare("skcipher", driver.data(), kernel_key);
  if (number < 0) return skipped;
  Bare bare(number, spec->iv_bytes);

  std::printf("%s encryption on %s, %d rounds of %d ms; requests a second\n", name.data(), driver.data(),
              rounds, static_cast<int>(timing.round.count() / 1000));
  std::printf("%7s %12s %12s %7s %12s %12s %7s\n", "bytes", "bare", "backend", "ratio", "bare inpl.",
              "in place", "ratio");
  for (const std::size_t bytes : {16U, 256U, 1024U, 8192U, 16384U, 65536U}) {
    const std::size_t batch = std::clamp<std::size_t>(32768 / bytes, 1, 32);
    request.length = bytes;
    const auto beside = [&](std::uint8_t* to) {
      request.out = to;
      return compare(
          timing, batch, [&] { bare.request(in, to, bytes); }, serve);
    };
    const Comparison apart = beside(out);
    const Comparison in_place = beside(in);
    std::printf("%7zu %12.0f %12.0f %7.3f %12.0f %12.0f %7.3f\n", bytes, apart.bare, apart.backend,
                apart.ratio, in_place.bare, in_place.backend, in_place.ratio);
    std::fflush(stdout);
  }
  backend->release(slot);
  std::free(in);
  std::free(out);
  return 0;
}
