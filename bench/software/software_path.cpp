// SPDX-License-Identifier: Apache-2.0
// What the software path costs: sunxi against the default provider, both in one process, as medians of
// alternating pairs. Prints the ratio (rate of sunxi over rate of default) per size; "default" against
// itself shows the noise.
#include <openssl/evp.h>
#include <openssl/provider.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/evp.h"

namespace {

using sunxi::test::CipherContextPtr;
using sunxi::test::CipherPtr;
using sunxi::test::Library;

constexpr std::array<unsigned char, 64> key{1, 2, 3};
constexpr std::array<unsigned char, 16> iv{4, 5, 6};

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Median over alternating pairs of time(reference) / time(subject).
double ratio(const std::function<void()>& reference, const std::function<void()>& subject,
             const std::function<void()>& before, int pairs) {
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    before();
    double r = 0;
    double s = 0;
    if (i % 2 == 0) {
      r = seconds(reference);
      s = seconds(subject);
    } else {
      s = seconds(subject);
      r = seconds(reference);
    }
    ratios.push_back(r / s);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios[ratios.size() / 2];
}

// The same buffers for all, so that their addresses make no difference.
std::array<unsigned char, 16384 + 64> in_buffer;
std::array<unsigned char, 16384 + 64> out_buffer;

class Stream {
 public:
  Stream(const Library& library, const std::string& name, bool encrypt)
      : cipher_(library.cipher(name)), context_(EVP_CIPHER_CTX_new()), encrypt_(encrypt) {
    EVP_CipherInit_ex2(context_.get(), cipher_.get(), key.data(), iv.data(), encrypt ? 1 : 0, nullptr);
  }
  void updates(std::size_t size, int count) {
    int bytes = 0;
    for (int i = 0; i < count; ++i)
      EVP_CipherUpdate(context_.get(), out_buffer.data(), &bytes, in_buffer.data(), static_cast<int>(size));
  }
  void messages(std::size_t size, int count) {
    int bytes = 0;
    for (int i = 0; i < count; ++i) {
      const CipherContextPtr context(EVP_CIPHER_CTX_new());
      EVP_CipherInit_ex2(context.get(), cipher_.get(), key.data(), iv.data(), encrypt_ ? 1 : 0, nullptr);
      EVP_CipherUpdate(context.get(), out_buffer.data(), &bytes, in_buffer.data(), static_cast<int>(size));
    }
  }

 private:
  CipherPtr cipher_;
  CipherContextPtr context_;
  bool encrypt_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY-OF-sunxi.so [cipher] [pairs]\n", argv[0]);
    return 2;
  }
  const std::string cipher = argc > 2 ? argv[2] : "AES-128-CBC";
  const int pairs = argc > 3 ? std::atoi(argv[3]) : 41;
  const Library ours("sunxi", argv[1]);
  const Library reference("default");
  const Library again("default");
  std::printf("%-22s %8s %8s %10s\n", cipher.c_str(), "bytes", "sunxi", "default");
  // Contexts at ever new addresses, because a cache line more or less is as much as what is measured.
  std::vector<std::unique_ptr<Stream>> pool;
  std::array<Stream*, 3> streams{};
  const auto renew = [&](bool encrypt) {
    pool.clear();
    static std::minstd_rand random(1);
    std::vector<std::unique_ptr<char[]>> gaps;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      gaps.push_back(std::make_unique<char[]>(16 * (random() % 40) + 1));
      const Library& library = i == 0 ? reference : i == 1 ? ours : again;
      pool.push_back(std::make_unique<Stream>(library, cipher, encrypt));
      streams[i] = pool.back().get();
    }
  };
  for (const bool encrypt : {true, false}) {
    for (const std::size_t size : {16, 64, 256, 511, 1024, 4096, 16384}) {
      const int count = static_cast<int>(2'000'000 / (size + 100)) + 1;
      const auto run = [&](std::size_t i) { return [&, i] { streams[i]->updates(size, count); }; };
      const auto fresh = [&] { renew(encrypt); };
      std::printf("%-22s %8zu %8.3f %10.3f\n", encrypt ? "encrypt" : "decrypt", size,
                  ratio(run(0), run(1), fresh, pairs), ratio(run(0), run(2), fresh, pairs));
      std::fflush(stdout);
    }
  }
  const auto run = [&](std::size_t i) { return [&, i] { streams[i]->messages(16, 5000); }; };
  const auto fresh = [&] { renew(true); };
  std::printf("%-22s %8d %8.3f %10.3f\n", "new context, encrypt", 16, ratio(run(0), run(1), fresh, pairs),
              ratio(run(0), run(2), fresh, pairs));
  return 0;
}
