// SPDX-License-Identifier: Apache-2.0
// The random comparison over the module as it is installed, wherever it runs: on the modelled board, in
// a guest kernel, on real hardware.
//
// compare MODULE-DIRECTORY BACKEND CASES [SEED [FIRST-CASE]]
//
// BACKEND must have served requests, or the comparison counts as failed: a pass that software served
// proves nothing. "software" asks for nothing. SUNXI_TEST_CASES overrides CASES.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "tests/contract/campaign.h"

int main(int argc, char** argv) {
  using namespace sunxi::test;
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s MODULE-DIRECTORY BACKEND CASES [SEED [FIRST-CASE]]\n", argv[0]);
    return 2;
  }
  try {
    const std::string backend = argv[2];
    CampaignOptions options;
    options.cases = std::strtoull(argv[3], nullptr, 10);
    if (const char* cases = std::getenv("SUNXI_TEST_CASES"))
      options.cases = std::strtoull(cases, nullptr, 10);
    if (argc > 4) options.seed = std::strtoull(argv[4], nullptr, 10);
    if (argc > 5) options.first = std::strtoull(argv[5], nullptr, 10);
    const Library ours("sunxi", argv[1]);
    const Library reference("default");
    const std::string trouble = run_campaign(ours, reference, options);
    if (!trouble.empty()) {
      std::printf("%s\n", trouble.c_str());
      return 1;
    }
    const auto count = [&](const char* what) { return ours.count("sunxi." + backend + "." + what); };
    std::printf("%llu cases equal; %s: %llu requests, %llu bytes, %llu failures, %llu declines\n",
                static_cast<unsigned long long>(options.cases), backend.c_str(),
                static_cast<unsigned long long>(count("requests")),
                static_cast<unsigned long long>(count("bytes")),
                static_cast<unsigned long long>(count("failures")),
                static_cast<unsigned long long>(count("declines")));
    // About one request in three is long enough.
    if (count("requests") < options.cases / 2) {
      std::printf("too few requests went through %s\n", backend.c_str());
      return 1;
    }
    return 0;
  } catch (const std::exception& problem) {
    std::printf("%s\n", problem.what());
    return 1;
  }
}
