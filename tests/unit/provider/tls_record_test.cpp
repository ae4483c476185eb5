// SPDX-License-Identifier: Apache-2.0
// Padding and MAC of TLS CBC records against a plain reading of RFC 5246, 6.2.3.2: every padding, every
// MAC size, every short record.
#include "provider/tls_record.h"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "tests/support/catch.h"

namespace sunxi::test {
namespace {

struct Opened {
  bool good = false;
  std::size_t payload = 0;
  std::vector<std::uint8_t> mac;
  friend bool operator==(const Opened&, const Opened&) = default;
};

// As the RFC says, with branches.
Opened expected(const std::vector<std::uint8_t>& record, std::size_t mac_bytes,
                const std::vector<std::uint8_t>& random) {
  if (record.size() < mac_bytes + 1) return {};
  const std::size_t padding = record.back();
  bool good = record.size() >= mac_bytes + padding + 1;
  for (std::size_t i = 0; good && i < padding; ++i) good = record[record.size() - 2 - i] == padding;
  if (!good && mac_bytes == 0) return {};
  Opened opened{true, record.size() - mac_bytes - (good ? padding + 1 : 0), {}};
  opened.mac.assign(random.rend() - static_cast<std::ptrdiff_t>(mac_bytes), random.rend());
  if (good) std::copy_n(record.data() + opened.payload, mac_bytes, opened.mac.begin());
  return opened;
}

Opened actual(const std::vector<std::uint8_t>& record, std::size_t mac_bytes,
              const std::vector<std::uint8_t>& random) {
  Opened opened;
  opened.mac.resize(max_mac_bytes + 1, 0x77);
  opened.good = open_tls_record(record.data(), record.size(), mac_bytes, random.data(), opened.mac.data(),
                                &opened.payload);
  if (!opened.good) return {};
  REQUIRE(opened.mac[mac_bytes] == 0x77);
  opened.mac.resize(mac_bytes);
  return opened;
}

class Bytes {
 public:
  std::vector<std::uint8_t> operator()(std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(engine_()); });
    return bytes;
  }
  std::size_t below(std::size_t bound) { return engine_() % bound; }

 private:
  std::mt19937 engine_{7};
};

}  // namespace

TEST_CASE("every padding of every record length comes off, with the MAC in front of it") {
  Bytes bytes;
  const std::vector<std::uint8_t> random = bytes(max_mac_bytes);
  for (const std::size_t mac_bytes : {0U, 1U, 16U, 20U, 32U, 48U, 64U}) {
    for (std::size_t padding = 0; padding < 256; ++padding) {
      for (const std::size_t payload : {0U, 1U, 15U, 63U, 64U, 300U}) {
        std::vector<std::uint8_t> record = bytes(payload + mac_bytes);
        record.insert(record.end(), padding + 1, static_cast<std::uint8_t>(padding));
        const Opened opened = actual(record, mac_bytes, random);
        REQUIRE(opened.good);
        REQUIRE(opened.payload == payload);
        REQUIRE(opened == expected(record, mac_bytes, random));
      }
    }
  }
}

TEST_CASE("wrong padding gives the random MAC, or an error where there is no MAC") {
  Bytes bytes;
  for (int round = 0; round < 40'000; ++round) {
    const std::vector<std::uint8_t> random = bytes(max_mac_bytes);
    const std::size_t mac_bytes = bytes.below(4) == 0 ? 0 : bytes.below(max_mac_bytes + 1);
    std::vector<std::uint8_t> record = bytes(1 + bytes.below(600));
    const std::size_t padding = bytes.below(256);
    const std::size_t tail = std::min(record.size(), padding + 1);
    std::fill(record.end() - static_cast<std::ptrdiff_t>(tail), record.end(),
              static_cast<std::uint8_t>(padding));
    if (bytes.below(3) != 0)
      record[record.size() - 1 - bytes.below(tail)] ^= static_cast<std::uint8_t>(1U << bytes.below(8));
    REQUIRE(actual(record, mac_bytes, random) == expected(record, mac_bytes, random));
  }
}

TEST_CASE("records too short for their MAC, and MACs too long for any, are refused") {
  const std::vector<std::uint8_t> random(max_mac_bytes);
  for (std::size_t length = 1; length < 64; ++length) {
    const std::vector<std::uint8_t> record(length, 0);
    for (std::size_t mac_bytes = 0; mac_bytes <= max_mac_bytes; ++mac_bytes)
      REQUIRE(actual(record, mac_bytes, random) == expected(record, mac_bytes, random));
  }
  std::array<std::uint8_t, 2 * max_mac_bytes> mac{};
  std::size_t payload = 0;
  CHECK_FALSE(open_tls_record(nullptr, 0, 0, random.data(), mac.data(), &payload));
  const std::vector<std::uint8_t> record(400, 0);
  CHECK_FALSE(
      open_tls_record(record.data(), record.size(), max_mac_bytes + 1, random.data(), mac.data(), &payload));
}

TEST_CASE("padding fills the last block, or adds one") {
  for (std::size_t length = 0; length < 40; ++length) {
    std::vector<std::uint8_t> record(length, 0xcc);
    const std::size_t padded = length + 16 - length % 16;
    record.resize(padded, 0xdd);
    pad_tls_record(record.data(), length, padded);
    REQUIRE(std::all_of(record.begin() + static_cast<std::ptrdiff_t>(length), record.end(),
                        [&](std::uint8_t b) { return b == padded - length - 1; }));
    REQUIRE(std::all_of(record.begin(), record.begin() + static_cast<std::ptrdiff_t>(length),
                        [](std::uint8_t b) { return b == 0xcc; }));
  }
}

TEST_CASE("explicit IVs by version") {
  CHECK(tls_explicit_iv(0x0301) == false);
  for (const unsigned version : {0x0302U, 0x0303U, 0xfeffU, 0xfefdU, 0x0100U})
    CHECK(tls_explicit_iv(version) == true);
  for (const unsigned version : {0U, 0x0300U, 0x0304U, 0xffffffffU})
    CHECK_FALSE(tls_explicit_iv(version).has_value());
}

}  // namespace sunxi::test
