// SPDX-License-Identifier: Apache-2.0
#include "provider/software.h"

#include <new>

#include "provider/des.h"

namespace sunxi {
namespace {

SoftwareCipher read_dispatch(const OSSL_DISPATCH* entry) noexcept {
  SoftwareCipher cipher;
  for (; entry->function_id != 0; ++entry) {
    switch (entry->function_id) {
      case OSSL_FUNC_CIPHER_NEWCTX:
        cipher.newctx = OSSL_FUNC_cipher_newctx(entry);
        break;
      case OSSL_FUNC_CIPHER_FREECTX:
        cipher.freectx = OSSL_FUNC_cipher_freectx(entry);
        break;
      case OSSL_FUNC_CIPHER_DUPCTX:
        cipher.dupctx = OSSL_FUNC_cipher_dupctx(entry);
        break;
      case OSSL_FUNC_CIPHER_ENCRYPT_INIT:
        cipher.init[0] = OSSL_FUNC_cipher_encrypt_init(entry);
        break;
      case OSSL_FUNC_CIPHER_DECRYPT_INIT:
        cipher.init[1] = OSSL_FUNC_cipher_decrypt_init(entry);
        break;
      case OSSL_FUNC_CIPHER_UPDATE:
        cipher.update = OSSL_FUNC_cipher_update(entry);
        break;
      case OSSL_FUNC_CIPHER_FINAL:
        cipher.final = OSSL_FUNC_cipher_final(entry);
        break;
      case OSSL_FUNC_CIPHER_CIPHER:
        cipher.cipher = OSSL_FUNC_cipher_cipher(entry);
        break;
      case OSSL_FUNC_CIPHER_GET_PARAMS:
        cipher.get_params = OSSL_FUNC_cipher_get_params(entry);
        break;
      case OSSL_FUNC_CIPHER_GET_CTX_PARAMS:
        cipher.get_ctx_params = OSSL_FUNC_cipher_get_ctx_params(entry);
        break;
      case OSSL_FUNC_CIPHER_SET_CTX_PARAMS:
        cipher.set_ctx_params = OSSL_FUNC_cipher_set_ctx_params(entry);
        break;
      case OSSL_FUNC_CIPHER_GETTABLE_PARAMS:
        cipher.gettable_params = OSSL_FUNC_cipher_gettable_params(entry);
        break;
      case OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS:
        cipher.gettable_ctx_params = OSSL_FUNC_cipher_gettable_ctx_params(entry);
        break;
      case OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS:
        cipher.settable_ctx_params = OSSL_FUNC_cipher_settable_ctx_params(entry);
        break;
      default:
        break;
    }
  }
  return cipher;
}

SoftwareDigest read_digest(const OSSL_DISPATCH* entry) noexcept {
  SoftwareDigest digest;
  for (; entry->function_id != 0; ++entry) {
    if (entry->function_id == OSSL_FUNC_DIGEST_GET_PARAMS)
      digest.get_params = OSSL_FUNC_digest_get_params(entry);
    if (entry->function_id == OSSL_FUNC_DIGEST_GETTABLE_PARAMS)
      digest.gettable_params = OSSL_FUNC_digest_gettable_params(entry);
  }
  return digest;
}

const OSSL_ALGORITHM* find(const OSSL_ALGORITHM* table, std::string_view names) noexcept {
  for (; table != nullptr && table->algorithm_names != nullptr; ++table) {
    if (share_a_name(table->algorithm_names, names)) return table;
  }
  return nullptr;
}

}  // namespace

bool SoftwareCipher::complete() const noexcept {
  return newctx != nullptr && freectx != nullptr && dupctx != nullptr && init[0] != nullptr &&
         init[1] != nullptr && update != nullptr && final != nullptr && cipher != nullptr &&
         get_params != nullptr && get_ctx_params != nullptr && set_ctx_params != nullptr &&
         gettable_params != nullptr && gettable_ctx_params != nullptr && settable_ctx_params != nullptr;
}

std::unique_ptr<Software> Software::load() {
  std::unique_ptr<Software> software(new Software);
  software->library_.reset(OSSL_LIB_CTX_new());
  if (!software->library_) return nullptr;
  software->provider_.reset(OSSL_PROVIDER_load(software->library_.get(), "default"));
  OSSL_PROVIDER* provider = software->provider_.get();
  if (provider == nullptr) return nullptr;
  software->context_ = OSSL_PROVIDER_get0_provider_ctx(provider);
  int no_store = 0;
  const OSSL_ALGORITHM* ciphers = OSSL_PROVIDER_query_operation(provider, OSSL_OP_CIPHER, &no_store);
  for (std::size_t row = 0; row < cipher_count; ++row) {
    const CipherSpec& spec = cipher_rows[row].spec;
    const OSSL_DISPATCH* dispatch = nullptr;
    if (spec.cipher == Cipher::des) {
      dispatch = des_dispatch(spec.mode);
    } else if (const OSSL_ALGORITHM* found = find(ciphers, cipher_rows[row].names)) {
      dispatch = found->implementation;
    }
    if (dispatch != nullptr) software->ciphers_[row] = read_dispatch(dispatch);
  }
  const OSSL_ALGORITHM* digests = OSSL_PROVIDER_query_operation(provider, OSSL_OP_DIGEST, &no_store);
  for (std::size_t row = 0; row < digest_count; ++row) {
    if (const OSSL_ALGORITHM* found = find(digests, digest_rows[row].names))
      software->digests_[row] = read_digest(found->implementation);
  }
  software->random_ = OSSL_PROVIDER_query_operation(provider, OSSL_OP_RAND, &no_store);
  return software;
}

const OSSL_DISPATCH* Software::random_generator(const char* name) const noexcept {
  const OSSL_ALGORITHM* found = find(random_, name);
  return found == nullptr ? nullptr : found->implementation;
}

}  // namespace sunxi
