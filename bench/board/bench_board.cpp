// SPDX-License-Identifier: Apache-2.0
// bench_board [table|costs|driver ALGORITHM BYTES COUNT]
//   table: the modelled time of AES-CBC requests, MD5 and SHA-1 on an A20, beside what was published for the
//   kernel's
//          driver on that SoC. The model's clock counts bus accesses (33.1 ns a store, 93.4 ns a load,
//          which contain the kernel's own copying, so they are upper bounds) and 133 to 161 ns of
//          engine per block, as the published slopes have it; it knows nothing of the instructions between
//          the accesses.
//   costs: the uncontended lock; under tests/board/board also one trapped register access and a request.
//   driver: COUNT requests to the driver alone, for bench/board/instructions, which counts what they execute.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/mmio/lock.h"
#include "backends/mmio/mmio.h"
#include "backends/mmio/sun4i_ss.h"
#include "backends/process.h"
#include "bench/board/published.h"
#include "bench/side_by_side.h"
#include "tests/board/model.h"

namespace {

using namespace sunxi;
using namespace sunxi::bench;

// Whole messages: the padding's block or two included, and the state out and in between pieces.
void digest_table() {
  std::puts("\nDigests on an A20, microseconds per message (published: kernel driver through AF_ALG)");
  std::puts("         bytes  writes   reads  modelled   MB/s  published engine  published software");
  for (const PublishedDigest& row : published_digests) {
    for (std::size_t bytes = 16; bytes <= 1048576; bytes *= 4) {
      board::Model model;
      model.engine_ps = 533'000;
      Sun4iSs<board::Model> driver(model);
      const std::size_t padded = (bytes + 9 + 63) / 64 * 64;
      const std::vector<std::uint8_t> data(padded);
      std::array<std::uint32_t, 5> state{};
      const DigestSpec spec{row.digest, 64, static_cast<std::uint8_t>(row.digest == Digest::md5 ? 16 : 20)};
      for (std::size_t at = 0; at < padded; at += 16384) {
        if (!driver.absorb({spec, state.data(), data.data() + at, std::min<std::size_t>(16384, padded - at)})
                 .sound) {
          std::abort();
        }
      }
      const double us = static_cast<double>(model.counters.picoseconds) / 1e6;
      const auto size = static_cast<double>(bytes);
      std::printf("%-5s %8zu %7" PRIu64 " %7" PRIu64 " %9.2f %6.1f %17.1f %19.1f\n", row.name, bytes,
                  model.counters.writes, model.counters.reads, us, size / us, row.engine.at(size),
                  row.software.at(size));
    }
  }
}

void table() {
  std::puts("AES-CBC on an A20, microseconds per request (published: kernel driver through cryptodev)");
  std::puts("key    bytes  writes   reads  modelled   MB/s  published engine  published software");
  for (const Published& row : published) {
    for (std::size_t bytes = 16; bytes <= 1048576; bytes *= 4) {
      board::Model model;
      model.engine_ps = 133'000 + (row.key_bits - 128) / 64 * 14'000;
      Sun4iSs<board::Model> driver(model);
      std::vector<std::uint8_t> key(row.key_bits / 8);
      std::vector<std::uint8_t> data(bytes);
      std::array<std::uint8_t, 16> iv{};
      const CipherSpec spec{Cipher::aes, Mode::cbc, static_cast<std::uint16_t>(key.size()), 16, 16};
      // As the backend cuts it.
      for (std::size_t at = 0; at < bytes; at += 16384) {
        std::uint8_t* piece = data.data() + at;
        const Progress progress = driver.crypt({spec, Direction::encrypt, key, iv.data(), piece, piece,
                                                std::min<std::size_t>(16384, bytes - at)});
        if (!progress.sound) std::abort();
      }
      const double us = static_cast<double>(model.counters.picoseconds) / 1e6;
      const auto size = static_cast<double>(bytes);
      std::printf("%3u %8zu %7" PRIu64 " %7" PRIu64 " %9.2f %6.1f %17.1f %19.1f\n", row.key_bits, bytes,
                  model.counters.writes, model.counters.reads, us, size / us, row.engine.at(size),
                  row.software.at(size));
    }
  }
  std::puts("\nAES-128-CBC through AF_ALG, published later: microseconds per request, engine and software");
  for (std::size_t bytes = 16; bytes <= 1048576; bytes *= 16) {
    const auto size = static_cast<double>(bytes);
    std::printf("afalg-128 %8zu %47.1f %19.1f\n", bytes, published_afalg.engine.at(size),
                published_afalg.software.at(size));
  }
  digest_table();
}

template <class Work>
double median_ns(int rounds, int repeats, Work work) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int repeat = 0; repeat < repeats; ++repeat) work();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    times.push_back(time.count() / repeats);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds) / 2];
}

void costs() {
  Process process;
  const LockIdentity self;
  LockWords words{};
  EngineLock lock(words);
  std::printf("lock and unlock, nobody else: %.1f ns\n", median_ns(21, 100'000, [&] {
                if (lock.acquire(self, process) != EngineLock::Taken::yes) std::abort();
                lock.release(process);
              }));
  if (std::getenv("SUNXI_BOARD_DIR") == nullptr) return;
  const auto backend = make_mmio_backend(process, {});
  std::vector<std::uint8_t> data(1024);
  std::array<std::uint8_t, 16> iv{};
  const std::array<std::uint8_t, 16> key{};
  KeySlot slot;
  const auto request = [&](std::size_t bytes) {
    const CipherRequest one{{Cipher::aes, Mode::cbc, 16, 16, 16},
                            Direction::encrypt,
                            key,
                            iv.data(),
                            data.data(),
                            data.data(),
                            bytes};
    if (backend->crypt(slot, one).outcome != Outcome::served) std::abort();
  };
  request(16);
  const double small = median_ns(11, 500, [&] { request(16); });
  const double large = median_ns(11, 50, [&] { request(1024); });
  // 14 stores and 6 loads, 266 stores and 265 loads, when the engine answers at once.
  std::printf("request of 16 bytes: %.1f us, of 1024 bytes: %.1f us\n", small / 1000, large / 1000);
  std::printf("one trapped register access: %.2f us\n", (large - small) / (266 + 265 - 14 - 6) / 1000);
}

bool drive(std::string_view name, std::size_t bytes, int count) {
  const std::optional<CipherSpec> cipher = cipher_of(name);
  const std::optional<DigestSpec> digest = digest_of(name);
  if (!cipher && !digest) return false;
  board::Model model;
  Sun4iSs<board::Model> driver(model);
  std::vector<std::uint8_t> data(bytes);
  const std::vector<std::uint8_t> key(cipher ? cipher->key_bytes : 0);
  std::array<std::uint8_t, 16> iv{};
  std::array<std::uint32_t, 5> state{};
  for (int i = 0; i < count; ++i) {
    const Progress progress =
        cipher ? driver.crypt({*cipher, Direction::encrypt, key, iv.data(), data.data(), data.data(), bytes})
               : driver.absorb({*digest, state.data(), data.data(), bytes});
    if (!progress.sound) return false;
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view what(count > 1 ? arguments[1] : "table");
  if (what == "table") {
    table();
  } else if (what == "costs") {
    costs();
  } else if (what != "driver" || count != 5 ||
             !drive(arguments[2], static_cast<std::size_t>(std::atoi(arguments[3])),
                    std::atoi(arguments[4]))) {
    std::fputs("usage: bench_board [table|costs|driver ALGORITHM BYTES COUNT]\n", stderr);
    return 2;
  }
  return 0;
}
