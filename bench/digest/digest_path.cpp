// SPDX-License-Identifier: Apache-2.0
// What digests cost that no backend serves (min_bytes = never): sunxi against the default provider, both in
// one process, in the processor's seconds, as medians of alternating pairs. Prints the ratio (rate of sunxi
// over rate of default) per way and size, and the same of whole TLS handshakes; "default" against itself
// shows the noise.
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/evp.h"
#include "tests/tls/handshake.h"

namespace {

using namespace sunxi::test;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Of the reference and its subject, which are sunxi or another reference.
constexpr std::size_t reference_side = 0, ours_side = 1, again_side = 2, sides = 3;
constexpr int slices = 20;

struct Measured {
  double ours, again;  // rate to the reference's, in the median of the pairs
  double base;         // seconds of the reference
};

// Runs work(side) in slices, by turns: each comes after the other, never after itself, and whatever else the
// machine does meets both.
template <class Before, class Work>
Measured measure(int pairs, Before&& before, Work&& work) {
  std::array<std::vector<double>, sides> ratios;
  std::vector<double> base;
  for (int i = 0; i < pairs; ++i) {
    before();
    for (const std::size_t subject : {ours_side, again_side}) {
      const std::array turns{i % 2 == 0 ? reference_side : subject, i % 2 == 0 ? subject : reference_side};
      std::array<double, sides> sums{};
      for (int slice = 0; slice <= slices; ++slice) {
        for (const std::size_t side : turns) {
          const double start = cpu_seconds();
          work(side);
          if (slice > 0) sums[side] += cpu_seconds() - start;  // the first only warms
        }
      }
      ratios[subject].push_back(sums[reference_side] / sums[subject]);
      base.push_back(sums[reference_side] / slices);
    }
  }
  return {median(ratios[ours_side]), median(ratios[again_side]), median(base)};
}

// The same buffers for all, so that their addresses make no difference.
std::array<unsigned char, 8192> in_buffer;
std::array<unsigned char, EVP_MAX_MD_SIZE> out_buffer;

enum class Way : std::uint8_t { one_shot, update_final, dup_final };

const char* title_of(Way way) {
  if (way == Way::one_shot) return "one-shot";
  return way == Way::update_final ? "init, update, final" : "init, dup, final";
}

class Subject {
 public:
  Subject(const Library& library, const std::string& name) : digest_(library.digest(name)) {
    EVP_DigestInit_ex2(copy_.get(), digest_.get(), nullptr);
    EVP_DigestInit_ex2(context_.get(), digest_.get(), nullptr);
  }
  void run(Way way, std::size_t size, int count) {
    EVP_MD_CTX* const context = context_.get();
    EVP_MD_CTX* const copy = copy_.get();
    for (int i = 0; i < count; ++i) {
      switch (way) {
        case Way::one_shot:
          EVP_Digest(in_buffer.data(), size, out_buffer.data(), nullptr, digest_.get(), nullptr);
          break;
        case Way::update_final:
          EVP_DigestInit_ex2(context, digest_.get(), nullptr);
          EVP_DigestUpdate(context, in_buffer.data(), size);
          EVP_DigestFinal_ex(context, out_buffer.data(), nullptr);
          break;
        case Way::dup_final:  // as for each Finished message and each HMAC
          EVP_DigestInit_ex2(context, digest_.get(), nullptr);
          EVP_DigestUpdate(context, in_buffer.data(), size);
          EVP_MD_CTX_copy_ex(copy, context);
          EVP_DigestFinal_ex(copy, out_buffer.data(), nullptr);
          break;
      }
    }
  }

 private:
  DigestPtr digest_;
  DigestContextPtr context_{EVP_MD_CTX_new()}, copy_{EVP_MD_CTX_new()};
};

void digests(const std::string& module_directory, int pairs, const std::string& only) {
  const Library ours("sunxi", module_directory);
  const Library reference("default");
  std::printf("%-10s %-20s %6s %10s %8s %8s\n", "digest", "", "bytes", "default ns", "sunxi", "default");
  // Contexts at ever new addresses, because a cache line more or less is as much as what is measured.
  std::array<std::unique_ptr<Subject>, sides> subjects;
  std::minstd_rand random(1);
  for (const std::string name : {"MD5", "SHA1", "SHA256", "SHA512"}) {
    if (!only.empty() && only != name) continue;
    const auto renew = [&] {
      std::vector<std::unique_ptr<char[]>> gaps;
      for (auto& subject : subjects) subject.reset();
      for (std::size_t k = 0; k < sides; ++k) {
        gaps.push_back(std::make_unique<char[]>(16 * (random() % 40) + 1));
        const std::size_t side = (k + random() % 2) % sides;
        if (!subjects[side])
          subjects[side] = std::make_unique<Subject>(side == ours_side ? ours : reference, name);
      }
      for (std::size_t side = 0; side < sides; ++side) {
        if (!subjects[side])
          subjects[side] = std::make_unique<Subject>(side == ours_side ? ours : reference, name);
      }
    };
    for (const Way way : {Way::one_shot, Way::update_final, Way::dup_final}) {
      for (const std::size_t size : std::array<std::size_t, 5>{16, 64, 256, 1024, 8192}) {
        const int count = static_cast<int>(250'000 / (size + 200)) + 1;
        const Measured result =
            measure(pairs, renew, [&](std::size_t side) { subjects[side]->run(way, size, count); });
        std::printf("%-10s %-20s %6zu %10.0f %8.3f %8.3f\n", name.c_str(), title_of(way), size,
                    1e9 * result.base / count, result.ours, result.again);
        std::fflush(stdout);
      }
    }
  }
}

void handshakes(const std::string& module_directory, int pairs) {
  const Identity identity = make_identities()[1];
  const PreferringLibrary ours(module_directory);
  const PreferringLibrary reference;
  std::printf("%-38s %12s %8s %8s\n", "handshakes", "default /s", "sunxi", "default");
  for (const int version : {TLS1_3_VERSION, TLS1_2_VERSION}) {
    const std::string suite = version == TLS1_3_VERSION ? "" : "ECDHE-ECDSA-AES128-SHA256";
    std::array<std::unique_ptr<Handshakes>, sides> subjects;
    const auto renew = [&] {
      for (std::size_t side = 0; side < sides; ++side)
        subjects[side] =
            std::make_unique<Handshakes>(side == ours_side ? ours : reference, version, suite, identity);
    };
    constexpr int count = 8;
    const Measured result = measure(pairs, renew, [&](std::size_t side) {
      for (int i = 0; i < count; ++i) {
        if (!subjects[side]->run(0)) std::abort();
      }
    });
    std::printf("%-38s %12.0f %8.3f %8.3f\n", suite.empty() ? "TLS 1.3" : suite.c_str(), count / result.base,
                result.ours, result.again);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY-OF-sunxi.so [pairs [digest | handshakes]]\n", argv[0]);
    return 2;
  }
  setenv("SUNXI_MIN_BYTES", "never", 1);
  const int pairs = argc > 2 ? std::atoi(argv[2]) : 15;
  const std::string only = argc > 3 ? argv[3] : "";
  try {
    if (only != "handshakes") digests(argv[1], pairs, only);
    if (only.empty() || only == "handshakes") handshakes(argv[1], pairs);
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
