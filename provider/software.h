// SPDX-License-Identifier: Apache-2.0
// The software path: the default provider's own dispatch tables, called directly, from a default
// provider loaded in a library context of ours. It cannot recurse into us. Single DES, which that
// provider lacks, is our own table (des.h).
#pragma once

#include <openssl/core_dispatch.h>
#include <openssl/crypto.h>
#include <openssl/provider.h>

#include <array>
#include <memory>

#include "provider/algorithms.h"

namespace sunxi {

// The default provider's functions for one cipher. Those that it lacks are null.
struct SoftwareCipher {
  OSSL_FUNC_cipher_newctx_fn* newctx = nullptr;
  OSSL_FUNC_cipher_freectx_fn* freectx = nullptr;
  OSSL_FUNC_cipher_dupctx_fn* dupctx = nullptr;
  std::array<OSSL_FUNC_cipher_encrypt_init_fn*, 2> init{};  // by Direction; both have the same type
  OSSL_FUNC_cipher_update_fn* update = nullptr;
  OSSL_FUNC_cipher_final_fn* final = nullptr;
  OSSL_FUNC_cipher_cipher_fn* cipher = nullptr;
  OSSL_FUNC_cipher_get_params_fn* get_params = nullptr;
  OSSL_FUNC_cipher_get_ctx_params_fn* get_ctx_params = nullptr;
  OSSL_FUNC_cipher_set_ctx_params_fn* set_ctx_params = nullptr;
  OSSL_FUNC_cipher_gettable_params_fn* gettable_params = nullptr;
  OSSL_FUNC_cipher_gettable_ctx_params_fn* gettable_ctx_params = nullptr;
  OSSL_FUNC_cipher_settable_ctx_params_fn* settable_ctx_params = nullptr;

  // Has everything that our contexts call.
  [[nodiscard]] bool complete() const noexcept;
};

// The default provider's answers about a digest, which need no context.
struct SoftwareDigest {
  OSSL_FUNC_digest_get_params_fn* get_params = nullptr;
  OSSL_FUNC_digest_gettable_params_fn* gettable_params = nullptr;
};

class Software {
 public:
  // Null if libcrypto has no default provider for us or memory is out.
  [[nodiscard]] static std::unique_ptr<Software> load();

  [[nodiscard]] const SoftwareCipher& cipher(std::size_t row) const noexcept { return ciphers_[row]; }
  [[nodiscard]] const SoftwareDigest& digest(std::size_t row) const noexcept { return digests_[row]; }
  // The first argument of every newctx and gettable function of that row.
  [[nodiscard]] void* context(std::size_t row) const noexcept {
    return cipher_rows[row].spec.cipher == Cipher::des ? library_.get() : context_;
  }
  // For random bytes: apart from the application's own.
  [[nodiscard]] OSSL_LIB_CTX* library() const noexcept { return library_.get(); }
  // The default provider's first argument for all that is no cipher.
  [[nodiscard]] void* context() const noexcept { return context_; }
  // The default provider's dispatch table of the named random generator, or null.
  [[nodiscard]] const OSSL_DISPATCH* random_generator(const char* name) const noexcept;

 private:
  Software() = default;
  struct FreeLibrary {
    void operator()(OSSL_LIB_CTX* library) const noexcept { OSSL_LIB_CTX_free(library); }
  };
  struct Unload {
    void operator()(OSSL_PROVIDER* provider) const noexcept { OSSL_PROVIDER_unload(provider); }
  };
  std::unique_ptr<OSSL_LIB_CTX, FreeLibrary> library_;
  std::unique_ptr<OSSL_PROVIDER, Unload> provider_;
  void* context_ = nullptr;
  const OSSL_ALGORITHM* random_ = nullptr;
  std::array<SoftwareCipher, cipher_count> ciphers_{};
  std::array<SoftwareDigest, digest_count> digests_{};
};

}  // namespace sunxi
