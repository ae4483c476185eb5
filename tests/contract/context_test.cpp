// SPDX-License-Identifier: Apache-2.0
// What applications do to a context behind its back: write to its running IV through a pointer, and hand
// it lists of parameters of which some are refused.
#define OPENSSL_SUPPRESS_DEPRECATED  // EVP_CIPHER_CTX_iv_noconst
#include <openssl/core_names.h>
#include <openssl/params.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "provider/provider.h"
#include "tests/support/catch.h"
#include "tests/support/evp.h"
#include "tests/support/fake_backend.h"

namespace sunxi::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

class Setup {
 public:
  Setup() {
    reset_fake_plans();
    fake_plan("afalg").exists = true;
    setenv("SUNXI_LOG", "off", 1);
    setenv("SUNXI_MIN_BYTES", "512", 1);
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
  ~Setup() { unsetenv("SUNXI_MIN_BYTES"); }
};

// Messages whose IVs are written where EVP_CIPHER_CTX_iv_noconst points: asked for each time, or once.
Bytes messages(const Library& library, const char* name, bool keep_pointer) {
  const CipherPtr cipher = library.cipher(name);
  const CipherContextPtr context(EVP_CIPHER_CTX_new());
  std::array<std::uint8_t, 64> key{};
  key[0] = 1;
  std::array<std::uint8_t, 16> iv{9};
  REQUIRE(EVP_CipherInit_ex2(context.get(), cipher.get(), key.data(), iv.data(), 1, nullptr) == 1);
  EVP_CIPHER_CTX_set_padding(context.get(), 0);
  Bytes all;
  std::uint8_t* kept = nullptr;
  std::uint8_t number = 0;
  for (const int size : {4096, 64, 2048, 4096, 592, 16, 1024}) {
    std::uint8_t* pointer = keep_pointer && kept != nullptr ? kept : EVP_CIPHER_CTX_iv_noconst(context.get());
    kept = pointer;
    if (number != 2) pointer[3] = static_cast<std::uint8_t>(++number);  // once the chain goes on
    Bytes data(static_cast<std::size_t>(size) + 32, number);
    int bytes = 0;
    REQUIRE(EVP_CipherUpdate(context.get(), data.data(), &bytes, data.data(), size) == 1);
    all.insert(all.end(), data.begin(), data.begin() + bytes);
    all.insert(all.end(), pointer, pointer + EVP_CIPHER_get_iv_length(cipher.get()));
  }
  return all;
}

TEST_CASE("what is written where the running IV lies counts, whoever has the stream") {
  const Setup setup;
  const Library ours("sunxi", initialise);
  const Library reference("default");
  for (const char* name : {"AES-128-CBC", "AES-256-CTR", "AES-128-XTS", "DES-EDE3-CBC"}) {
    for (const bool keep_pointer : {false, true}) {
      INFO(name << (keep_pointer ? ", one pointer for all" : ""));
      const auto calls = fake_plan("afalg").calls.load();
      CHECK(messages(ours, name, keep_pointer) == messages(reference, name, keep_pointer));
      CHECK(fake_plan("afalg").calls >= calls + 5);
    }
  }
}

// A context for decryption after a list of parameters of which the last is refused.
CipherContextPtr after_refused_list(const Library& library, bool at_init, const OSSL_PARAM& last) {
  const CipherPtr cipher = library.cipher("AES-128-CBC");
  CipherContextPtr context(EVP_CIPHER_CTX_new());
  const std::array<std::uint8_t, 16> key{1};
  unsigned int version = 0x0303;
  std::size_t mac_bytes = 20;
  const std::array params{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_TLS_VERSION, &version),
                          OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, &mac_bytes), last,
                          OSSL_PARAM_construct_end()};
  REQUIRE(EVP_CipherInit_ex2(context.get(), cipher.get(), key.data(), key.data(), 0, nullptr) == 1);
  if (at_init) {
    CHECK(EVP_CipherInit_ex2(context.get(), nullptr, key.data(), key.data(), 0, params.data()) == 0);
  } else {
    CHECK(EVP_CIPHER_CTX_set_params(context.get(), params.data()) == 0);
  }
  return context;
}

TEST_CASE("a context survives refused lists of parameters, records and copies") {
  const Setup setup;
  const Library ours("sunxi", initialise);
  std::array<char, 3> text{"xx"};
  for (const char* key : {"sunxi-min-bytes", OSSL_CIPHER_PARAM_NUM}) {
    for (const bool at_init : {false, true}) {
      for (const std::size_t size : {std::size_t{96}, std::size_t{1024}}) {
        const CipherContextPtr context =
            after_refused_list(ours, at_init, OSSL_PARAM_construct_utf8_string(key, text.data(), 0));
        Bytes record(size + 16);
        int bytes = 0;
        EVP_CipherUpdate(context.get(), record.data(), &bytes, record.data(), static_cast<int>(size));
        const CipherContextPtr copy(EVP_CIPHER_CTX_new());
        EVP_CIPHER_CTX_copy(copy.get(), context.get());  // may be refused; both are freed
      }
    }
  }
  CHECK(fake_plan("afalg").contract_violations == 0);
}

TEST_CASE("the MAC's size is the one that the default provider has obeyed") {
  const Setup setup;
  const Library ours("sunxi", initialise);
  const Library reference("default");
  const auto opened = [](const Library& library) {
    std::array<char, 3> text{"xx"};
    const CipherContextPtr context = after_refused_list(
        library, false, OSSL_PARAM_construct_utf8_string(OSSL_CIPHER_PARAM_NUM, text.data(), 0));
    unsigned int version = 0x0301;
    const std::array params{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_TLS_VERSION, &version),
                            OSSL_PARAM_construct_end()};
    CHECK(EVP_CIPHER_CTX_set_params(context.get(), params.data()) == 1);
    Bytes record(1024, 7);  // its padding is wrong
    int bytes = 0;
    const int good = EVP_CipherUpdate(context.get(), record.data(), &bytes, record.data(), 1024);
    return std::pair(good, bytes);
  };
  CHECK(opened(ours) == opened(reference));
  CHECK(opened(ours).first == 1);
}

}  // namespace
}  // namespace sunxi::test
