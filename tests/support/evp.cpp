// SPDX-License-Identifier: Apache-2.0
#include "tests/support/evp.h"

#include <openssl/err.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>
#include <utility>

namespace sunxi::test {

std::string errors() {
  std::string all;
  const char* data = nullptr;
  int flags = 0;
  while (const unsigned long code = ERR_get_error_all(nullptr, nullptr, nullptr, &data, &flags)) {
    std::array<char, 256> text{};
    ERR_error_string_n(code, text.data(), text.size());
    all.append(text.data());
    if ((flags & ERR_TXT_STRING) != 0) all.append(": ").append(data);
    all.append("\n");
  }
  return all;
}

Library::Library(const std::string& name, const std::string& module_path) : library_(OSSL_LIB_CTX_new()) {
  if (!module_path.empty()) OSSL_PROVIDER_set_default_search_path(library_.get(), module_path.c_str());
  load(name);
}

Library::Library(const std::string& name, OSSL_provider_init_fn* init) : library_(OSSL_LIB_CTX_new()) {
  OSSL_PROVIDER_add_builtin(library_.get(), name.c_str(), init);
  load(name);
}

void Library::load(const std::string& name) {
  provider_.reset(OSSL_PROVIDER_load(library_.get(), name.c_str()));
  if (!provider_) throw std::runtime_error("no provider " + name + ": " + errors());
}

bool Library::add(const std::string& name) {
  ProviderPtr other(OSSL_PROVIDER_load(library_.get(), name.c_str()));
  if (!other) return false;
  others_.push_back(std::move(other));
  return true;
}

Library reference_library() {
  Library library("default");
  if (!library.add("legacy")) static_cast<void>(errors());
  return library;
}

CipherPtr Library::cipher(const std::string& name) const {
  CipherPtr cipher(EVP_CIPHER_fetch(library_.get(), name.c_str(), nullptr));
  if (!cipher) throw std::runtime_error("no cipher " + name + ": " + errors());
  return cipher;
}

DigestPtr Library::digest(const std::string& name) const {
  DigestPtr digest(EVP_MD_fetch(library_.get(), name.c_str(), nullptr));
  if (!digest) throw std::runtime_error("no digest " + name + ": " + errors());
  return digest;
}

namespace {

// The first names of what one provider offers.
struct Offered {
  const OSSL_PROVIDER* provider;
  std::vector<std::string> names;
  void add(const OSSL_PROVIDER* from, const char* name) {
    if (from == provider) names.emplace_back(name);
  }
};

std::vector<std::string> sorted(Offered& offered) {
  std::sort(offered.names.begin(), offered.names.end());
  return std::move(offered.names);
}

}  // namespace

std::vector<std::string> Library::ciphers() const {
  Offered offered{provider_.get(), {}};
  EVP_CIPHER_do_all_provided(
      library_.get(),
      [](EVP_CIPHER* cipher, void* opaque) {
        static_cast<Offered*>(opaque)->add(EVP_CIPHER_get0_provider(cipher), EVP_CIPHER_get0_name(cipher));
      },
      &offered);
  return sorted(offered);
}

std::vector<std::string> Library::digests() const {
  Offered offered{provider_.get(), {}};
  EVP_MD_do_all_provided(
      library_.get(),
      [](EVP_MD* digest, void* opaque) {
        static_cast<Offered*>(opaque)->add(EVP_MD_get0_provider(digest), EVP_MD_get0_name(digest));
      },
      &offered);
  return sorted(offered);
}

std::vector<std::string> Library::algorithms() const {
  std::vector<std::string> names = ciphers();
  for (std::string& name : digests()) names.push_back(std::move(name));
  return names;
}

std::uint64_t Library::count(const std::string& parameter) const {
  std::uint64_t value = 0;
  std::array params{OSSL_PARAM_construct_uint64(parameter.c_str(), &value), OSSL_PARAM_construct_end()};
  if (OSSL_PROVIDER_get_params(provider_.get(), params.data()) == 0)
    throw std::runtime_error("no provider parameter " + parameter);
  return value;
}

}  // namespace sunxi::test
