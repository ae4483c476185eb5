// SPDX-License-Identifier: Apache-2.0
// A program with functions of its own under the names of libcrypto's, as those have that brought their MD5
// and SHA-256 along. The dynamic linker gives them to the module too; the module must not call them.
#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <cstdlib>

#include "tests/support/catch.h"
#include "tests/support/evp.h"

namespace {
int calls = 0;
}

extern "C" {
[[gnu::visibility("default")]] int SHA256_Update(void*, const void*, std::size_t) {
  ++calls;
  return 1;
}
[[gnu::visibility("default")]] int SHA512_Update(void*, const void*, std::size_t) {
  ++calls;
  return 1;
}
[[gnu::visibility("default")]] int MD5_Final(unsigned char*, void*) {
  ++calls;
  return 1;
}
[[gnu::visibility("default")]] void DES_ncbc_encrypt(const unsigned char*, unsigned char*, long, void*, void*,
                                                     int) {
  ++calls;
}
}

namespace sunxi::test {
namespace {

TEST_CASE("what would call the program's functions is not offered, the rest is") {
  setenv("SUNXI_ALGORITHMS", every_algorithm, 1);
  const Library library("sunxi", SUNXI_MODULE_DIRECTORY);
  const auto digest = [&](const char* name) {
    EVP_MD* const found = EVP_MD_fetch(library.get(), name, "provider=sunxi");
    EVP_MD_free(found);
    return found != nullptr;
  };
  const auto cipher = [&](const char* name) {
    EVP_CIPHER* const found = EVP_CIPHER_fetch(library.get(), name, "provider=sunxi");
    EVP_CIPHER_free(found);
    return found != nullptr;
  };
  CHECK_FALSE(digest("SHA2-256"));
  CHECK_FALSE(digest("SHA2-224"));
  CHECK_FALSE(digest("MD5"));
  CHECK_FALSE(digest("SHA2-512/256"));
  CHECK(digest("SHA1"));
  CHECK_FALSE(cipher("DES-CBC"));
  CHECK(cipher("AES-128-CBC"));

  EVP_RAND* const source = EVP_RAND_fetch(library.get(), "SUNXI-SEED", nullptr);
  EVP_RAND_CTX* const seeds = EVP_RAND_CTX_new(source, nullptr);
  std::array<unsigned char, 48> seed{};
  CHECK(EVP_RAND_instantiate(seeds, 0, 0, nullptr, 0, nullptr) == 1);
  CHECK(EVP_RAND_generate(seeds, seed.data(), seed.size(), 0, 0, nullptr, 0) == 1);
  CHECK(seed != std::array<unsigned char, 48>{});
  EVP_RAND_CTX_free(seeds);
  EVP_RAND_free(source);
  CHECK(calls == 0);
}

}  // namespace
}  // namespace sunxi::test
