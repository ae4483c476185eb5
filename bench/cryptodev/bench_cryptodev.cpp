// SPDX-License-Identifier: Apache-2.0
// The /dev/crypto backend against its floor: a loop of one ioctl for each request or message, on a session of
// its own of the same device, with nothing else. Encryption, or whole messages, in one process; medians of
// interleaved rounds. Exit status 77 without /dev/crypto.
// Usage: bench_cryptodev [--hardware] [ALGORITHM] [ROUNDS [MILLISECONDS]]. ALGORITHM is a name such as
// AES-128-CBC (the default), AES-256-XTS, DES-EDE3-CBC, MD5, SHA1 or SHA2-256.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cryptodev/cryptodev.h"
#include "bench/side_by_side.h"

namespace {

using namespace sunxi;

constexpr int skipped = 77;
constexpr std::size_t most = 65536;
constexpr std::array<std::size_t, 6> sizes{16, 256, 1024, 8192, 16384, most};

// cryptodev-linux, crypto/cryptodev.h
struct SessionOp {
  std::uint32_t cipher, mac, key_bytes;
  const std::uint8_t* key;
  std::uint32_t mac_key_bytes;
  const std::uint8_t* mac_key;
  std::uint32_t session;
};
struct CryptOp {
  std::uint32_t session;
  std::uint16_t operation, flags;
  std::uint32_t bytes;
  const std::uint8_t* source;
  std::uint8_t* target;
  std::uint8_t* mac;
  std::uint8_t* iv;
};
const unsigned long make_session = _IOWR('c', 102, SessionOp);
const unsigned long run = _IOWR('c', 104, CryptOp);

std::uint32_t number_of(const CipherSpec& spec) {
  if (spec.cipher == Cipher::des) return spec.mode == Mode::cbc ? 1 : 0;
  if (spec.cipher == Cipher::des3) return spec.mode == Mode::cbc ? 2 : 0;
  switch (spec.mode) {
    case Mode::cbc:
      return 11;
    case Mode::ctr:
      return 21;
    case Mode::xts:
      return 22;
    case Mode::ecb:
      return 23;
  }
  return 0;
}

std::uint32_t number_of(const DigestSpec& spec) {
  switch (spec.digest) {
    case Digest::md5:
      return 13;
    case Digest::sha1:
      return 14;
    case Digest::sha224:
      return 103;
    case Digest::sha256:
      return 104;
    case Digest::sha384:
      return 105;
    case Digest::sha512:
      return 106;
    default:
      return 0;
  }
}

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

class Bare {
 public:
  Bare(std::uint32_t cipher, std::uint32_t mac, std::span<const std::uint8_t> key)
      : number_(open("/dev/crypto", O_RDWR | O_CLOEXEC)) {
    SessionOp op{};
    op.cipher = cipher;
    op.mac = mac;
    op.key_bytes = static_cast<std::uint32_t>(key.size());
    op.key = key.data();
    if (number_ < 0 || ioctl(number_, make_session, &op) != 0) die("bare loop: session");
    op_.session = op.session;
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;
  ~Bare() { close(number_); }

  void encrypt(const std::uint8_t* in, std::uint8_t* out, std::uint8_t* iv, std::size_t bytes) {
    op_.bytes = static_cast<std::uint32_t>(bytes);
    op_.source = in;
    op_.target = out;
    op_.iv = iv;
    if (ioctl(number_, run, &op_) != 0) die("bare loop");
  }
  void digest(const std::uint8_t* in, std::size_t bytes, std::uint8_t* out) {
    op_.bytes = static_cast<std::uint32_t>(bytes);
    op_.source = in;
    op_.mac = out;
    if (ioctl(number_, run, &op_) != 0) die("bare loop");
  }

 private:
  int number_;
  CryptOp op_{};
};

struct Free {
  void operator()(std::uint8_t* memory) const { std::free(memory); }
};
using Pages = std::unique_ptr<std::uint8_t, Free>;

Pages make_pages() {
  Pages pages(static_cast<std::uint8_t*>(std::aligned_alloc(4096, most)));
  std::fill_n(pages.get(), most, std::uint8_t{0x5a});
  return pages;
}

std::size_t batch_of(std::size_t bytes) {
  return std::clamp<std::size_t>(32768 / bytes, 1, 32);
}

void print_head(std::string_view name, const char* driver, const bench::Timing& timing) {
  std::printf("%.*s on %s, %d rounds of %d ms; requests a second\n", static_cast<int>(name.size()),
              name.data(), driver, timing.rounds, static_cast<int>(timing.round.count() / 1000));
}

int measure_digest(Backend& backend, const DigestSpec& spec, std::string_view name,
                   const bench::Timing& timing) {
  const Pages in = make_pages();
  std::array<std::array<std::uint8_t, 64>, 2> out{};
  std::size_t bytes = 16;
  KeySlot slot;
  const auto serve = [&] {
    if (backend.extend(slot, spec, in.get(), bytes) == Outcome::served &&
        backend.conclude(slot, spec, out[0].data()) == Outcome::served)
      return;
    std::fprintf(stderr, "bench_cryptodev: the backend did not serve a message\n");
    std::exit(skipped);
  };
  serve();
  std::array<char, 64> driver{};
  backend.digest_driver(spec, driver);
  Bare bare(0, number_of(spec), {});
  print_head(name, driver.data(), timing);
  std::printf("%7s %12s %12s %7s\n", "bytes", "bare", "backend", "ratio");
  for (const std::size_t size : sizes) {
    bytes = size;
    const auto result = bench::compare(
        timing, batch_of(bytes), [&] { bare.digest(in.get(), bytes, out[1].data()); }, serve);
    std::printf("%7zu %12.0f %12.0f %7.3f\n", bytes, result.bare, result.backend, result.ratio);
    std::fflush(stdout);
    if (out[0] != out[1]) {
      std::fprintf(stderr, "bench_cryptodev: the digests differ\n");
      return 1;
    }
  }
  return 0;
}

int measure_cipher(Backend& backend, const CipherSpec& spec, std::string_view name,
                   const bench::Timing& timing) {
  // In whole, and as the kernel wants the one of triple DES with two keys.
  std::vector<std::uint8_t> key(spec.key_bytes);
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(2 * i + 1);
  std::vector<std::uint8_t> kernel_key = key;
  if (spec.cipher == Cipher::des3 && key.size() == 16)
    kernel_key.insert(kernel_key.end(), key.begin(), key.begin() + 8);
  std::array<std::uint8_t, max_iv_bytes> iv{};
  std::array<std::uint8_t, max_iv_bytes> bare_iv{};
  const Pages in = make_pages();
  const Pages out = make_pages();
  KeySlot slot;
  CipherRequest request{.spec = spec,
                        .direction = Direction::encrypt,
                        .key = key,
                        .iv = iv.data(),
                        .in = in.get(),
                        .out = out.get(),
                        .length = 16};
  const auto serve = [&] {
    if (backend.crypt(slot, request).outcome == Outcome::served) return;
    std::fprintf(stderr, "bench_cryptodev: the backend did not serve a request\n");
    std::exit(skipped);
  };
  serve();
  std::array<char, 64> driver{};
  backend.driver(spec, driver);
  Bare bare(number_of(spec), 0, kernel_key);
  std::uint8_t* const iv_address = spec.iv_bytes == 0 ? nullptr : bare_iv.data();

  print_head(name, driver.data(), timing);
  std::printf("%7s %12s %12s %7s %12s %12s %7s\n", "bytes", "bare", "backend", "ratio", "bare inpl.",
              "in place", "ratio");
  for (const std::size_t bytes : sizes) {
    request.length = bytes;
    std::printf("%7zu", bytes);
    for (std::uint8_t* const target : {out.get(), in.get()}) {
      request.out = target;
      const auto result = bench::compare(
          timing, batch_of(bytes), [&] { bare.encrypt(in.get(), target, iv_address, bytes); }, serve);
      std::printf(" %12.0f %12.0f %7.3f", result.bare, result.backend, result.ratio);
    }
    std::printf("\n");
    std::fflush(stdout);
    // Both did the same work.
    std::vector<std::uint8_t> mine(bytes);
    iv.fill(7);
    bare_iv.fill(7);
    request.out = out.get();
    serve();
    bare.encrypt(in.get(), mine.data(), iv_address, bytes);
    if (!std::equal(mine.begin(), mine.end(), out.get())) {
      std::fprintf(stderr, "bench_cryptodev: the results differ\n");
      return 1;
    }
  }
  backend.release(slot);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  BackendOptions options;
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
  const bench::Timing timing{
      .rounds = bench::number_or(count > 1 ? arguments[1] : nullptr, 7),
      .round = std::chrono::microseconds(1000 * bench::number_or(count > 2 ? arguments[2] : nullptr, 300))};
  const auto cipher = bench::cipher_of(name);
  const auto digest = bench::digest_of(name);
  if (!digest && (!cipher || number_of(*cipher) == 0)) {
    std::fprintf(stderr, "bench_cryptodev: no algorithm %s\n", std::string(name).c_str());
    return 2;
  }
  if (access("/dev/crypto", R_OK | W_OK) != 0) {
    std::fprintf(stderr, "bench_cryptodev: /dev/crypto: %s\n", std::strerror(errno));
    return skipped;
  }
  Process process;
  process.set_log_level(LogLevel::info);
  const auto backend = make_cryptodev_backend(process, options);
  return digest ? measure_digest(*backend, *digest, name, timing)
                : measure_cipher(*backend, *cipher, name, timing);
}
