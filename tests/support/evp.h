// SPDX-License-Identifier: Apache-2.0
// OpenSSL objects for tests: owners, and the two library contexts that are compared.
#pragma once

#include <openssl/evp.h>
#include <openssl/provider.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace sunxi::test {

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const noexcept {
    Free(object);
  }
};
using LibraryPtr = std::unique_ptr<OSSL_LIB_CTX, Deleter<OSSL_LIB_CTX_free>>;
using ProviderPtr = std::unique_ptr<OSSL_PROVIDER, Deleter<OSSL_PROVIDER_unload>>;
using CipherPtr = std::unique_ptr<EVP_CIPHER, Deleter<EVP_CIPHER_free>>;
using CipherContextPtr = std::unique_ptr<EVP_CIPHER_CTX, Deleter<EVP_CIPHER_CTX_free>>;
using DigestPtr = std::unique_ptr<EVP_MD, Deleter<EVP_MD_free>>;
using DigestContextPtr = std::unique_ptr<EVP_MD_CTX, Deleter<EVP_MD_CTX_free>>;

// A library context with one provider in it.
class Library {
 public:
  // The provider `name`; from `module_path` where given, else from OpenSSL's modules or built in.
  explicit Library(const std::string& name, const std::string& module_path = {});
  // A provider linked into the test.
  Library(const std::string& name, OSSL_provider_init_fn* init);

  // Another provider into the same library context; false if OpenSSL has none of that name.
  bool add(const std::string& name);

  [[nodiscard]] OSSL_LIB_CTX* get() const noexcept { return library_.get(); }
  [[nodiscard]] OSSL_PROVIDER* provider() const noexcept { return provider_.get(); }
  [[nodiscard]] std::string provider_name() const { return OSSL_PROVIDER_get0_name(provider_.get()); }
  // Throws where nobody has it.
  [[nodiscard]] CipherPtr cipher(const std::string& name) const;
  // The first name of every cipher that the provider offers.
  [[nodiscard]] std::vector<std::string> ciphers() const;
  [[nodiscard]] DigestPtr digest(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> digests() const;
  [[nodiscard]] std::vector<std::string> algorithms() const;  // the ciphers, then the digests
  // A provider parameter such as "sunxi.afalg.requests".
  [[nodiscard]] std::uint64_t count(const std::string& parameter) const;

 private:
  void load(const std::string& name);
  LibraryPtr library_;
  ProviderPtr provider_;
  std::vector<ProviderPtr> others_;
};

// What ours is compared with: the default provider, and the legacy one for single DES.
[[nodiscard]] Library reference_library();

// For the key `algorithms`: single DES has to be named.
inline constexpr const char* every_algorithm = "ALL, DES-ECB, DES-CBC";

// The errors on OpenSSL's queue, a line each; empties it.
[[nodiscard]] std::string errors();

}  // namespace sunxi::test
