// SPDX-License-Identifier: Apache-2.0
// A provider's own functions for a digest, for what EVP does not let through.
#pragma once

#include <openssl/core_dispatch.h>

#include <string>

#include "tests/support/evp.h"

namespace sunxi::test {

// Those that the provider lacks are null.
struct DigestFunctions {
  OSSL_FUNC_digest_newctx_fn* newctx = nullptr;
  OSSL_FUNC_digest_freectx_fn* freectx = nullptr;
  OSSL_FUNC_digest_dupctx_fn* dupctx = nullptr;
  void (*copyctx)(void*, void*) = nullptr;  // since OpenSSL 3.5
  OSSL_FUNC_digest_init_fn* init = nullptr;
  OSSL_FUNC_digest_update_fn* update = nullptr;
  OSSL_FUNC_digest_final_fn* final = nullptr;
  int (*serialize)(void*, unsigned char*, std::size_t*) = nullptr;  // since OpenSSL 4.0
  int (*deserialize)(void*, const unsigned char*, std::size_t) = nullptr;
};

// By the first name that the provider has for the digest.
[[nodiscard]] DigestFunctions digest_functions(const Library& library, const std::string& name);

}  // namespace sunxi::test
