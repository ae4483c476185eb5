// SPDX-License-Identifier: Apache-2.0
// What OpenSSL's own MAC and key derivations make of our digests, which they fetch for themselves where sunxi
// is preferred: the same as of the default provider's.
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/contract/case.h"
#include "tests/support/catch.h"

namespace sunxi::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using MacPtr = std::unique_ptr<EVP_MAC, Deleter<EVP_MAC_free>>;
using MacContextPtr = std::unique_ptr<EVP_MAC_CTX, Deleter<EVP_MAC_CTX_free>>;
using KdfPtr = std::unique_ptr<EVP_KDF, Deleter<EVP_KDF_free>>;
using KdfContextPtr = std::unique_ptr<EVP_KDF_CTX, Deleter<EVP_KDF_CTX_free>>;

struct Sides {
  Library ours{"sunxi", SUNXI_MODULE_DIRECTORY};
  Library reference{"default"};
  Sides() {
    REQUIRE(ours.add("default"));
    REQUIRE(EVP_set_default_properties(ours.get(), "?provider=sunxi") == 1);
  }
  [[nodiscard]] std::uint64_t requests() const {
    std::uint64_t sum = 0;
    for (const char* backend : {"software", "afalg", "mmio", "cryptodev"})
      sum += ours.count(std::string("sunxi.") + backend + ".requests");
    return sum;
  }
};

Bytes random_bytes(Random& random, std::size_t least, std::size_t most) {
  Bytes bytes(random.in(least, most));
  random.fill(bytes.data(), bytes.size());
  return bytes;
}

OSSL_PARAM octets(const char* key, const Bytes& bytes) {
  // A pointer of its own even where there is nothing.
  static std::uint8_t none = 0;
  return OSSL_PARAM_construct_octet_string(
      key, bytes.empty() ? &none : const_cast<std::uint8_t*>(bytes.data()), bytes.size());
}

OSSL_PARAM text(const char* key, const std::string& value) {
  return OSSL_PARAM_construct_utf8_string(key, const_cast<char*>(value.c_str()), 0);
}

// In pieces, with a duplicate that goes on by itself, and a second message under the same key.
Bytes hmac(const Library& library, const std::string& digest, const Bytes& key, const Bytes& message,
           std::size_t cut) {
  const MacPtr mac(EVP_MAC_fetch(library.get(), "HMAC", nullptr));
  const MacContextPtr context(EVP_MAC_CTX_new(mac.get()));
  const std::array params{text(OSSL_MAC_PARAM_DIGEST, digest), OSSL_PARAM_construct_end()};
  Bytes all;
  const auto finish = [&](EVP_MAC_CTX* of) {
    std::array<std::uint8_t, EVP_MAX_MD_SIZE> out{};
    std::size_t bytes = 0;
    REQUIRE(EVP_MAC_final(of, out.data(), &bytes, out.size()) == 1);
    all.insert(all.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(bytes));
  };
  const std::uint8_t none = 0;
  REQUIRE(EVP_MAC_init(context.get(), key.empty() ? &none : key.data(), key.size(), params.data()) == 1);
  REQUIRE(EVP_MAC_update(context.get(), message.data(), cut) == 1);
  const MacContextPtr copy(EVP_MAC_CTX_dup(context.get()));
  REQUIRE(copy);
  REQUIRE(EVP_MAC_update(context.get(), message.data() + cut, message.size() - cut) == 1);
  finish(context.get());
  finish(copy.get());
  REQUIRE(EVP_MAC_init(context.get(), nullptr, 0, nullptr) == 1);
  REQUIRE(EVP_MAC_update(context.get(), message.data(), message.size()) == 1);
  finish(context.get());
  return all;
}

Bytes derive(const Library& library, const char* name, const std::vector<OSSL_PARAM>& params,
             std::size_t bytes) {
  const KdfPtr kdf(EVP_KDF_fetch(library.get(), name, nullptr));
  const KdfContextPtr context(EVP_KDF_CTX_new(kdf.get()));
  Bytes out(bytes);
  const int good = EVP_KDF_derive(context.get(), out.data(), out.size(), params.data());
  INFO(name << " " << errors());
  REQUIRE(good == 1);
  return out;
}

std::vector<std::string> digests() {
  return {"MD5", "SHA1", "SHA224", "SHA256", "SHA384", "SHA512", "SHA512-224", "SHA512-256"};
}

TEST_CASE("HMAC") {
  const Sides sides;
  Random random(1);
  for (const std::string& digest : digests()) {
    const std::uint64_t before = sides.requests();
    for (int i = 0; i < 100; ++i) {
      const Bytes key = random_bytes(random, 0, 200);
      const Bytes message = random_bytes(random, 1, i % 10 == 0 ? 40'000 : 500);
      const std::size_t cut = random.in(0, message.size());
      INFO(digest << " " << i << " key " << key.size() << " message " << message.size() << " cut " << cut);
      CHECK(hmac(sides.ours, digest, key, message, cut) == hmac(sides.reference, digest, key, message, cut));
    }
    CHECK(sides.requests() - before >= 100 * 6);
  }
}

TEST_CASE("HKDF, PBKDF2, TLS1-PRF, KBKDF, SSKDF, X963KDF") {
  const Sides sides;
  Random random(2);
  std::vector<std::string> names = digests();
  names.emplace_back("MD5-SHA1");  // of TLS 1.0: nobody's but for its halves
  for (const std::string& digest : names) {
    const bool halves = digest == "MD5-SHA1";
    for (const char* kdf : {"HKDF", "PBKDF2", "TLS1-PRF", "KBKDF", "SSKDF", "X963KDF"}) {
      if (halves && std::string(kdf) != "TLS1-PRF") continue;
      const std::uint64_t before = sides.requests();
      for (int i = 0; i < 15; ++i) {
        const Bytes key = random_bytes(random, 20, 100);
        const Bytes salt = random_bytes(random, 16, 100);
        const Bytes info = random_bytes(random, 1, 100);
        const std::size_t bytes = random.in(20, 300);
        std::uint64_t iterations = random.in(1000, 1200);
        const std::string hmac = "HMAC";
        std::vector<OSSL_PARAM> params{text(OSSL_KDF_PARAM_DIGEST, digest)};
        const std::string kind = kdf;
        if (kind == "PBKDF2") {
          params.push_back(octets(OSSL_KDF_PARAM_PASSWORD, key));
          params.push_back(octets(OSSL_KDF_PARAM_SALT, salt));
          params.push_back(OSSL_PARAM_construct_uint64(OSSL_KDF_PARAM_ITER, &iterations));
        } else if (kind == "TLS1-PRF") {
          params.push_back(octets(OSSL_KDF_PARAM_SECRET, key));
          params.push_back(octets(OSSL_KDF_PARAM_SEED, salt));
          params.push_back(octets(OSSL_KDF_PARAM_SEED, info));
        } else if (kind == "KBKDF") {
          params.push_back(text(OSSL_KDF_PARAM_MAC, hmac));
          params.push_back(octets(OSSL_KDF_PARAM_KEY, key));
          params.push_back(octets(OSSL_KDF_PARAM_SALT, salt));
          params.push_back(octets(OSSL_KDF_PARAM_INFO, info));
        } else {
          params.push_back(octets(OSSL_KDF_PARAM_KEY, key));
          if (kind == "HKDF") params.push_back(octets(OSSL_KDF_PARAM_SALT, salt));
          params.push_back(octets(OSSL_KDF_PARAM_INFO, info));
        }
        params.push_back(OSSL_PARAM_construct_end());
        INFO(kdf << " " << digest << " " << i << " key " << key.size() << " salt " << salt.size() << " info "
                 << info.size() << " bytes " << bytes);
        CHECK(derive(sides.ours, kdf, params, bytes) == derive(sides.reference, kdf, params, bytes));
      }
      INFO(kdf << " " << digest);
      CHECK(sides.requests() - before >= 15);
    }
  }
}

}  // namespace
}  // namespace sunxi::test
