// SPDX-License-Identifier: Apache-2.0
// The default provider's CTR-DRBG: its functions, and what has to be changed in parameters on their way to
// it.
#pragma once

#include <openssl/core_dispatch.h>
#include <openssl/params.h>

#include <array>
#include <vector>

namespace sunxi {

class Software;

// Those that it lacks are null, and not offered by us either.
struct Drbg {
  OSSL_FUNC_rand_newctx_fn* newctx = nullptr;
  OSSL_FUNC_rand_freectx_fn* freectx = nullptr;
  OSSL_FUNC_rand_instantiate_fn* instantiate = nullptr;
  OSSL_FUNC_rand_uninstantiate_fn* uninstantiate = nullptr;
  OSSL_FUNC_rand_generate_fn* generate = nullptr;
  OSSL_FUNC_rand_reseed_fn* reseed = nullptr;
  OSSL_FUNC_rand_nonce_fn* nonce = nullptr;
  OSSL_FUNC_rand_enable_locking_fn* enable_locking = nullptr;
  OSSL_FUNC_rand_lock_fn* lock = nullptr;
  OSSL_FUNC_rand_unlock_fn* unlock = nullptr;
  OSSL_FUNC_rand_gettable_ctx_params_fn* gettable_ctx_params = nullptr;
  OSSL_FUNC_rand_settable_ctx_params_fn* settable_ctx_params = nullptr;
  OSSL_FUNC_rand_get_ctx_params_fn* get_ctx_params = nullptr;
  OSSL_FUNC_rand_set_ctx_params_fn* set_ctx_params = nullptr;
  OSSL_FUNC_rand_verify_zeroization_fn* verify_zeroization = nullptr;
  OSSL_FUNC_rand_get_seed_fn* get_seed = nullptr;
  OSSL_FUNC_rand_clear_seed_fn* clear_seed = nullptr;

  [[nodiscard]] bool complete() const noexcept {
    return newctx != nullptr && freectx != nullptr && instantiate != nullptr && uninstantiate != nullptr &&
           generate != nullptr && get_ctx_params != nullptr && set_ctx_params != nullptr;
  }
};

// The DRBG looks its cipher up in the library context of the default provider, where we are not. So what
// names a provider has to go: from 3.5 on libcrypto names the generator's, us, which becomes its own; and in
// "properties", which have chosen the generator and are handed on to its cipher, all clauses about a provider
// are left out. The others stay: where a cipher has to be validated, say, there is none.
class DefaultProviderParams {
 public:
  explicit DefaultProviderParams(const OSSL_PARAM* params) noexcept;
  DefaultProviderParams(const DefaultProviderParams&) = delete;
  DefaultProviderParams& operator=(const DefaultProviderParams&) = delete;
  ~DefaultProviderParams() = default;

  // False: there are too many of them, or the properties are too long.
  [[nodiscard]] explicit operator bool() const noexcept { return good_; }
  [[nodiscard]] const OSSL_PARAM* get() const noexcept { return params_; }

 private:
  const OSSL_PARAM* params_;
  bool good_ = true;
  std::array<OSSL_PARAM, 16> changed_;
  std::array<char, 8> name_{"default"};
  std::array<char, 512> properties_;
};

// The table of SUNXI-RAND, whose first arguments are Provider objects (rand.cpp); fills `drbg`. Empty where
// the default provider has no CTR-DRBG.
[[nodiscard]] std::vector<OSSL_DISPATCH> rand_dispatch(const Software& software, Drbg& drbg);

}  // namespace sunxi
