// SPDX-License-Identifier: Apache-2.0
// The random comparison over the module as it is installed, wherever it runs: on the modelled board, in
// a guest kernel, on real hardware.
//
// compare MODULE-DIRECTORY BACKEND CASES [SEED [FIRST-CASE [ALGORITHM]]]
//
// CASES is for each algorithm; SUNXI_TEST_CASES overrides it. Every one that was compared, ciphers first and
// then digests, gets a line
//     compare: AES-128-CTR afalg cases 1500 requests 4321 bytes 99999
// with the requests and bytes of it that BACKEND served. BACKEND must have served the algorithms that
// SUNXI_TEST_SERVED names (separated by ':', or ALL), and some algorithm in any case, or the comparison
// counts as failed: a pass that software served proves nothing. "software" asks for nothing.
//
// With "default" for MODULE-DIRECTORY the default provider is compared with itself: a test of this test.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "tests/contract/campaign.h"

namespace {

using namespace sunxi::test;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

int run(int argc, char** argv) {
  const std::string backend = argv[2];
  CampaignOptions options;
  options.cases = std::strtoull(argv[3], nullptr, 10);
  if (const char* cases = std::getenv("SUNXI_TEST_CASES")) options.cases = std::strtoull(cases, nullptr, 10);
  if (argc > 4) options.seed = std::strtoull(argv[4], nullptr, 10);
  if (argc > 5) options.first = std::strtoull(argv[5], nullptr, 10);
  if (argc > 6) options.algorithms = {argv[6]};
  const bool itself = std::string(argv[1]) == "default";
  if (itself && options.algorithms.empty())
    options.algorithms = {"AES-128-ECB", "AES-192-ECB",  "AES-256-ECB",  "AES-128-CBC",  "AES-192-CBC",
                          "AES-256-CBC", "AES-128-CTR",  "AES-192-CTR",  "AES-256-CTR",  "AES-128-XTS",
                          "AES-256-XTS", "DES-EDE3-ECB", "DES-EDE3-CBC", "DES-EDE-ECB",  "DES-EDE-CBC",
                          "DES-ECB",     "DES-CBC",      "MD5",          "SHA1",         "SHA2-224",
                          "SHA2-256",    "SHA2-384",     "SHA2-512",     "SHA2-512/224", "SHA2-512/256"};
  setenv("SUNXI_ALGORITHMS", every_algorithm, 0);
  const Library ours = itself ? reference_library() : Library("sunxi", argv[1]);
  const Library reference = reference_library();
  const auto count = [&](const char* what) -> std::uint64_t {
    return itself ? 0 : ours.count("sunxi." + backend + "." + what);
  };
  std::uint64_t requests = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> served;
  options.before = [&](const std::string&) {
    requests = count("requests");
    bytes = count("bytes");
  };
  options.after = [&](const std::string& algorithm) {
    const std::uint64_t more = count("requests") - requests;
    std::printf("compare: %s %s cases %llu requests %llu bytes %llu\n", algorithm.c_str(), backend.c_str(),
                static_cast<unsigned long long>(options.cases), static_cast<unsigned long long>(more),
                static_cast<unsigned long long>(count("bytes") - bytes));
    // About one request in three is long enough.
    if (more >= std::max<std::uint64_t>(1, options.cases / 4)) served.push_back(algorithm);
  };
  const std::string trouble = run_campaign(ours, reference, options);
  if (!trouble.empty()) {
    std::printf("%s\n", trouble.c_str());
    return 1;
  }
  std::printf(
      "all equal; %s: %llu requests, %llu bytes, %llu failures, %llu declines\n", backend.c_str(),
      static_cast<unsigned long long>(count("requests")), static_cast<unsigned long long>(count("bytes")),
      static_cast<unsigned long long>(count("failures")), static_cast<unsigned long long>(count("declines")));
  if (itself) return 0;
  const char* wanted = std::getenv("SUNXI_TEST_SERVED");
  std::vector<std::string> names = split(wanted == nullptr ? "" : wanted, ':');
  if (names == std::vector<std::string>{"ALL"}) names = ours.algorithms();
  bool good = !served.empty();
  if (!good) std::printf("too few requests went through %s\n", backend.c_str());
  for (const std::string& name : names) {
    // By any of its names.
    const bool found = std::any_of(served.begin(), served.end(), [&](const std::string& one) {
      const CipherPtr cipher(EVP_CIPHER_fetch(ours.get(), one.c_str(), nullptr));
      return cipher ? EVP_CIPHER_is_a(cipher.get(), name.c_str()) == 1
                    : EVP_MD_is_a(ours.digest(one).get(), name.c_str()) == 1;
    });
    if (!found) std::printf("too few requests of %s went through %s\n", name.c_str(), backend.c_str());
    good = good && found;
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s MODULE-DIRECTORY BACKEND CASES [SEED [FIRST-CASE [ALGORITHM]]]\n",
                 argv[0]);
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& problem) {
    std::printf("%s\n", problem.what());
    return 1;
  }
}
