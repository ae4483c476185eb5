// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/campaign.h"

#include "tests/contract/case.h"

namespace sunxi::test {
namespace {

// Not std::hash: a case has the same number everywhere.
std::uint64_t hash(const std::string& name) {
  std::uint64_t value = 14695981039346656037U;
  for (const char c : name) value = (value ^ static_cast<std::uint8_t>(c)) * 1099511628211U;
  return value;
}

std::unique_ptr<Case> make_case(const Library& ours, const Library& reference, const std::string& name,
                                std::uint64_t seed, std::size_t largest) {
  const int mode = EVP_CIPHER_get_mode(reference.cipher(name).get());
  if (mode == EVP_CIPH_XTS_MODE) return make_unit_case(ours, reference, name, seed, largest);
  if (mode == EVP_CIPH_CBC_MODE && seed % 3 == 0)
    return make_record_case(ours, reference, name, seed, largest);
  return make_stream_case(ours, reference, name, seed, largest);
}

}  // namespace

std::string run_campaign(const Library& ours, const Library& reference, const CampaignOptions& options) {
  const std::vector<std::string> ciphers = options.ciphers.empty() ? ours.ciphers() : options.ciphers;
  if (ciphers.empty()) return "no ciphers";
  for (const std::string& name : ciphers) {
    if (options.before) options.before(name);
    for (std::uint64_t i = options.first; i < options.first + options.cases; ++i) {
      const std::uint64_t seed = options.seed * 1'000'003 + i + (hash(name) & ~std::uint64_t{0xffffffff});
      const std::string trouble = make_case(ours, reference, name, seed, options.largest)->run();
      if (!trouble.empty())
        return name + ", seed " + std::to_string(options.seed) + ", case " + std::to_string(i) + ": " +
               trouble;
      static_cast<void>(errors());  // some cases are meant to fail on both sides
    }
    if (options.after) options.after(name);
  }
  return {};
}

}  // namespace sunxi::test
