// SPDX-License-Identifier: Apache-2.0
// What RAND_bytes costs with SUNXI-RAND and SUNXI-SEED, against OpenSSL's own generators: medians of
// alternating pairs. Prints the ratio (rate of ours over rate of the default) per size, and that of two
// default ones, which shows the noise.
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/support/evp.h"

namespace {

using sunxi::test::Library;

std::array<unsigned char, 16384> buffer;

double seconds(const Library& library, std::size_t bytes, int count) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    if (RAND_bytes_ex(library.get(), buffer.data(), bytes, 0) != 1) std::abort();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Median of time(reference) / time(subject).
double ratio(const Library& reference, const Library& subject, std::size_t bytes, int pairs) {
  const int count = static_cast<int>(4'000'000 / (bytes + 400)) + 1;
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    double r = 0;
    double s = 0;
    if (i % 2 == 0) {
      r = seconds(reference, bytes, count);
      s = seconds(subject, bytes, count);
    } else {
      s = seconds(subject, bytes, count);
      r = seconds(reference, bytes, count);
    }
    ratios.push_back(r / s);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[ratios.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY-OF-sunxi.so [pairs]\n", argv[0]);
    return 2;
  }
  const int pairs = argc > 2 ? std::atoi(argv[2]) : 61;
  Library ours("sunxi", argv[1]);
  ours.add("default");
  if (RAND_set_DRBG_type(ours.get(), "SUNXI-RAND", nullptr, nullptr, nullptr) != 1 ||
      RAND_set_seed_source_type(ours.get(), "SUNXI-SEED", nullptr) != 1)
    return 1;
  const Library reference("default");
  const Library again("default");
  std::printf("%8s %8s %10s\n", "bytes", "sunxi", "default");
  for (const std::size_t bytes : {16U, 256U, 16384U}) {
    std::printf("%8zu %8.3f %10.3f\n", bytes, ratio(reference, ours, bytes, pairs),
                ratio(reference, again, bytes, pairs));
    std::fflush(stdout);
  }
  return 0;
}
