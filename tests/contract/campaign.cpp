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

std::string run_case(const Library& ours, const Library& reference, const std::string& name,
                     std::uint64_t seed, std::size_t largest) {
  const CipherPtr cipher(EVP_CIPHER_fetch(reference.get(), name.c_str(), nullptr));
  if (!cipher) return run_digest_case(ours, reference, name, seed, largest);
  const int mode = EVP_CIPHER_get_mode(cipher.get());
  if (mode == EVP_CIPH_XTS_MODE) return make_unit_case(ours, reference, name, seed, largest)->run();
  if (mode == EVP_CIPH_CBC_MODE && seed % 3 == 0)
    return make_record_case(ours, reference, name, seed, largest)->run();
  return make_stream_case(ours, reference, name, seed, largest)->run();
}

}  // namespace

std::string run_campaign(const Library& ours, const Library& reference, const CampaignOptions& options) {
  const std::vector<std::string> names = options.algorithms.empty() ? ours.algorithms() : options.algorithms;
  if (names.empty()) return "no algorithms";
  for (const std::string& name : names) {
    if (options.before) options.before(name);
    for (std::uint64_t i = options.first; i < options.first + options.cases; ++i) {
      const std::uint64_t seed = options.seed * 1'000'003 + i + (hash(name) & ~std::uint64_t{0xffffffff});
      const std::string trouble = run_case(ours, reference, name, seed, options.largest);
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
