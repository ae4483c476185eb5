// SPDX-License-Identifier: Apache-2.0
// The whole way through EVP to AF_ALG: sunxi.so beside OpenSSL's own afalg engine (where the release
// still has engines), AES-128-CBC encryption in one process, every request sent to the kernel. Medians of
// interleaved rounds. bench/afalg has the floor of both, a bare loop of one sendmsg and one read.
//
// afalg_peers MODULE-DIRECTORY [ROUNDS [MILLISECONDS]]
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/opensslconf.h>
#ifndef OPENSSL_NO_ENGINE
#include <openssl/engine.h>
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/evp.h"

namespace {

using Clock = std::chrono::steady_clock;
using sunxi::test::CipherContextPtr;
using sunxi::test::CipherPtr;
using sunxi::test::Library;

constexpr int turns = 25;  // per round, so that other load meets both alike

struct Rate {
  double requests = 0;
  double seconds = 0;
};

void add(Rate& rate, Clock::duration time, EVP_CIPHER_CTX* context, unsigned char* out,
         const unsigned char* in, std::size_t bytes) {
  const Clock::time_point start = Clock::now();
  const int batch = static_cast<int>(std::clamp<std::size_t>(32768 / bytes, 1, 32));
  Clock::duration passed{};
  do {
    for (int i = 0; i < batch; ++i) {
      int done = 0;
      if (EVP_CipherUpdate(context, out, &done, in, static_cast<int>(bytes)) != 1) std::exit(1);
    }
    rate.requests += batch;
    passed = Clock::now() - start;
  } while (passed < time);
  rate.seconds += std::chrono::duration<double>(passed).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODULE-DIRECTORY [ROUNDS [MILLISECONDS]]\n", argv[0]);
    return 2;
  }
  const int rounds = argc > 2 ? std::max(1, std::atoi(argv[2])) : 7;
  const std::chrono::microseconds slice(1000 * (argc > 3 ? std::max(1, std::atoi(argv[3])) : 300));
  setenv("SUNXI_BACKENDS", "afalg,", 1);
  setenv("SUNXI_ACCELERATED_ONLY", "no", 1);
  setenv("SUNXI_MIN_BYTES", "0", 1);
  const Library ours("sunxi", argv[1]);
  const std::array<unsigned char, 16> key{1, 2, 3};
  const CipherPtr cipher = ours.cipher("AES-128-CBC");
  const CipherContextPtr a(EVP_CIPHER_CTX_new());
  EVP_EncryptInit_ex2(a.get(), cipher.get(), key.data(), key.data(), nullptr);
  EVP_CIPHER_CTX_set_padding(a.get(), 0);
  const CipherContextPtr b(EVP_CIPHER_CTX_new());
  bool peer = false;
#ifndef OPENSSL_NO_ENGINE
  ENGINE_load_dynamic();
  ENGINE* engine = ENGINE_by_id("afalg");
  if (engine != nullptr && ENGINE_init(engine) == 1) {
    peer = EVP_EncryptInit_ex(b.get(), EVP_aes_128_cbc(), engine, key.data(), key.data()) == 1;
    EVP_CIPHER_CTX_set_padding(b.get(), 0);
  }
#endif
  if (!peer) std::printf("no afalg engine here: sunxi alone\n");
  constexpr std::size_t most = 65536;
  auto* in = static_cast<unsigned char*>(std::aligned_alloc(4096, most));
  auto* out = static_cast<unsigned char*>(std::aligned_alloc(4096, most));
  std::fill_n(in, most, static_cast<unsigned char>(1));
  std::fill_n(out, most, static_cast<unsigned char>(1));

  std::printf("AES-128-CBC encryption through EVP and AF_ALG, %d rounds of %d ms; requests a second\n",
              rounds, static_cast<int>(slice.count() / 1000));
  std::printf("%7s %10s %10s %7s %10s %10s %7s\n", "bytes", "engine", "sunxi", "ratio", "engine i.p.",
              "sunxi i.p.", "ratio");
  for (const std::size_t bytes : {16U, 256U, 1024U, 8192U, 16384U, 65536U}) {
    std::array<std::vector<double>, 4> rates;
    for (int round = 0; round < rounds; ++round) {
      std::array<Rate, 4> sums{};
      for (int turn = 0; turn < turns; ++turn) {
        if (peer) add(sums[0], slice / turns, b.get(), out, in, bytes);
        add(sums[1], slice / turns, a.get(), out, in, bytes);
        if (peer) add(sums[2], slice / turns, b.get(), in, in, bytes);
        add(sums[3], slice / turns, a.get(), in, in, bytes);
      }
      for (std::size_t i = 0; i < rates.size(); ++i)
        rates[i].push_back(sums[i].seconds > 0 ? sums[i].requests / sums[i].seconds : 0);
    }
    std::array<std::vector<double>, 2> ratios;
    for (std::size_t i = 0; peer && i < rates[0].size(); ++i) {
      ratios[0].push_back(rates[1][i] / rates[0][i]);
      ratios[1].push_back(rates[3][i] / rates[2][i]);
    }
    std::printf("%7zu %10.0f %10.0f %7.3f %10.0f %10.0f %7.3f\n", bytes, median(rates[0]), median(rates[1]),
                peer ? median(ratios[0]) : 0.0, median(rates[2]), median(rates[3]),
                peer ? median(ratios[1]) : 0.0);
    std::fflush(stdout);
  }
  std::printf("sunxi: %llu requests through afalg, %llu in software\n",
              static_cast<unsigned long long>(ours.count("sunxi.afalg.requests")),
              static_cast<unsigned long long>(ours.count("sunxi.software.requests")));
#ifndef OPENSSL_NO_ENGINE
  if (engine != nullptr) ENGINE_free(engine);
#endif
  std::free(in);
  std::free(out);
  return 0;
}
