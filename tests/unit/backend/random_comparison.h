// SPDX-License-Identifier: Apache-2.0
// The random comparison of a backend's ciphers with libcrypto.
#pragma once

#include "tests/unit/backend/requests.h"

namespace backend_test {

// Requests of all kinds, of all algorithms in `served`; how many of each, by variant. `chunk_of(variant)`:
// bytes of one operation. `declines(variant, length)`: such a request is for software, whatever its
// placement. `check(variant, encrypt, key, iv, in, out, number)` may look at a result.
template <class Chunk, class Declines, class Check>
inline std::vector<std::size_t> random_comparison(Backend& backend, TestProcess& process, std::size_t cases,
                                                  const std::vector<const Variant*>& served, Chunk chunk_of,
                                                  Declines declines, Check check,
                                                  std::size_t declined_share = 10) {
  const std::uint64_t seed = setting("SUNXI_TEST_SEED", 1);
  INFO("seed " << seed);
  Random random(seed);
  struct User {
    KeySlot slot;
    const Variant* variant = nullptr;
    Bytes key;
  };
  std::array<User, 8> users;
  std::vector<std::size_t> counts(variants.size());
  std::size_t declined = 0;
  for (std::size_t number = 0; number < cases; ++number) {
    User& user = users[random.below(users.size())];
    if (user.key.empty() || random.below(10) == 0) {
      backend.release(user.slot);
      user.variant = served[random.below(served.size())];
      user.key = random.bytes(user.variant->key_bytes);
      // Keys in common now and then, of the same algorithm and of others.
      for (const User& other : users) {
        if (other.key.size() == user.key.size() && random.below(8) == 0) user.key = other.key;
      }
    }
    const Variant& variant = *user.variant;
    ++counts[static_cast<std::size_t>(&variant - variants.data())];
    const std::size_t length = random.length(variant);
    const bool encrypt = random.below(2) == 0;
    const std::size_t offset = random.below(3) == 0 ? 0 : random.below(64);
    Iv iv = random.iv(variant);
    const Bytes in = random.bytes(length);
    enum : std::size_t { apart, in_place, backward, forward };
    const std::size_t where = random.below(4);
    const std::size_t distance = 1 + random.below(std::min<std::size_t>(length, 4096));
    INFO("case " << number << ": " << variant.name << ", " << length << " bytes, encrypt " << encrypt
                 << ", placement " << where << ", distance " << distance << ", offset " << offset);
    Bytes memory(4096 + 128 + 2 * length, 0xcc);
    std::uint8_t* source = memory.data() + offset + (where == backward ? distance : 0);
    std::uint8_t* target = where == apart      ? source + length + random.below(64)
                           : where == in_place ? source
                           : where == backward ? source - distance
                                               : source + distance;
    std::copy(in.begin(), in.end(), source);
    Bytes around = memory;
    Iv our_iv = iv;
    const Result result =
        backend.crypt(user.slot, {.spec = variant.spec(),
                                  .direction = encrypt ? Direction::encrypt : Direction::decrypt,
                                  .key = user.key,
                                  .iv = variant.iv_bytes() != 0 ? our_iv.data() : nullptr,
                                  .in = source,
                                  .out = target,
                                  .length = length});
    if ((length > chunk_of(variant) && where == forward) || declines(variant, length)) {
      // Cannot be done piece by piece; nothing may have happened.
      ++declined;
      if (result.outcome != Outcome::busy || result.done != 0) FAIL("not declined");
      if (memory != around || our_iv != iv) FAIL("declined, but touched");
      continue;
    }
    if (result.outcome != Outcome::served || result.done != length) FAIL("not served");
    check(variant, encrypt, user.key, iv, in, target, number);
    const Bytes expected = reference(variant, encrypt, user.key, iv, in);
    if (expected.size() != length || !std::equal(expected.begin(), expected.end(), target))
      FAIL("libcrypto differs");
    if (our_iv != iv) FAIL("the next IV differs");
    std::copy(expected.begin(), expected.end(), around.begin() + (target - memory.data()));
    if (memory != around) FAIL("written outside of the output");
    if (number % 50 == 0) process.time += 4'000'000;
  }
  for (User& user : users) backend.release(user.slot);
  CHECK(declined < cases / declined_share);
  if (cases >= 1000) {
    for (const Variant* variant : served) {
      INFO(variant->name);
      CHECK(counts[static_cast<std::size_t>(variant - variants.data())] > 0);
    }
  }
  return counts;
}

}  // namespace backend_test
