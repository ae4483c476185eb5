// SPDX-License-Identifier: Apache-2.0
// Random comparison of every cipher and digest of ours with the default provider's, call by call and byte for
// byte.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/evp.h"

namespace sunxi::test {

struct CampaignOptions {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;              // number of the first case, to repeat one
  std::uint64_t cases = 1000;           // of each algorithm
  std::size_t largest = 300'000;        // bytes of one case
  std::vector<std::string> algorithms;  // ciphers and digests; empty: all that ours offers
  std::function<void(const std::string&algorithm)> before, after;  // what is done to one; may be empty
};

// The first difference found, as text that names the case; empty if there is none.
[[nodiscard]] std::string run_campaign(const Library& ours, const Library& reference,
                                       const CampaignOptions& options);

}  // namespace sunxi::test
