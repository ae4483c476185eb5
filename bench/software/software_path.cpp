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
#include <string>
#include <vector>

#include "tests/support/evp.h"

namespace {

using sunxi::test::CipherContextPtr;
using sunxi::test::CipherPtr;
using sunxi::test::Library;

constexpr std::array<unsigned char, 32> key{1, 2, 3};
constexpr std::array<unsigned char, 16> iv{4, 5, 6};

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Median over alternating pairs of time(reference) / time(subject).
double ratio(const std::function<void()>& reference, const std::function<void()>& subject, int pairs) {
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
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

class Stream {
 public:
  Stream(const Library& library, const std::string& name, bool encrypt)
      : cipher_(library.cipher(name)),
        context_(EVP_CIPHER_CTX_new()),
        buffer_(16384 + 32),
        encrypt_(encrypt) {
    EVP_CipherInit_ex2(context_.get(), cipher_.get(), key.data(), iv.data(), encrypt ? 1 : 0, nullptr);
  }
  void updates(std::size_t size, int count) {
    int bytes = 0;
    for (int i = 0; i < count; ++i)
      EVP_CipherUpdate(context_.get(), out_.data(), &bytes, buffer_.data(), static_cast<int>(size));
  }
  void messages(std::size_t size, int count) {
    int bytes = 0;
    for (int i = 0; i < count; ++i) {
      const CipherContextPtr context(EVP_CIPHER_CTX_new());
      EVP_CipherInit_ex2(context.get(), cipher_.get(), key.data(), iv.data(), encrypt_ ? 1 : 0, nullptr);
      EVP_CipherUpdate(context.get(), out_.data(), &bytes, buffer_.data(), static_cast<int>(size));
    }
  }

 private:
  CipherPtr cipher_;
  CipherContextPtr context_;
  std::vector<unsigned char> buffer_;
  std::vector<unsigned char> out_ = std::vector<unsigned char>(16384 + 64);
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
  for (const bool encrypt : {true, false}) {
    Stream a(ours, cipher, encrypt);
    Stream b(reference, cipher, encrypt);
    Stream c(again, cipher, encrypt);
    for (const std::size_t size : {16, 64, 256, 511, 1024, 4096, 16384}) {
      const int count = static_cast<int>(2'000'000 / (size + 100)) + 1;
      const double r = ratio([&] { b.updates(size, count); }, [&] { a.updates(size, count); }, pairs);
      const double n = ratio([&] { b.updates(size, count); }, [&] { c.updates(size, count); }, pairs);
      std::printf("%-22s %8zu %8.3f %10.3f\n", encrypt ? "encrypt" : "decrypt", size, r, n);
    }
  }
  Stream a(ours, cipher, true);
  Stream b(reference, cipher, true);
  Stream c(again, cipher, true);
  const double r = ratio([&] { b.messages(16, 5000); }, [&] { a.messages(16, 5000); }, pairs);
  const double n = ratio([&] { b.messages(16, 5000); }, [&] { c.messages(16, 5000); }, pairs);
  std::printf("%-22s %8d %8.3f %10.3f\n", "new context, encrypt", 16, r, n);
  return 0;
}
