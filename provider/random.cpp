// SPDX-License-Identifier: Apache-2.0
// The default provider's CTR-DRBG, passed through: without a generator of that name
// `openssl speed -provider sunxi` alone ends with an error.
#include <openssl/core_names.h>
#include <openssl/params.h>

#include <atomic>
#include <cstring>

#include "provider/drbg.h"
#include "provider/provider.h"

namespace sunxi {
namespace {

// libcrypto's functions, the same for every provider context of the process; the dispatch function that
// needs them gets no provider context. libcrypto is linked and outlives us.
std::atomic<OSSL_FUNC_rand_newctx_fn*> inner_newctx{nullptr};
std::atomic<OSSL_FUNC_rand_instantiate_fn*> inner_instantiate{nullptr};

void* random_newctx(void* opaque, void* parent, const OSSL_DISPATCH* parent_calls) noexcept {
  const auto& provider = *static_cast<Provider*>(opaque);
  return inner_newctx.load(std::memory_order_relaxed)(provider.software->context(), parent, parent_calls);
}

int random_instantiate(void* generator, unsigned int strength, int prediction_resistance,
                       const unsigned char* personal, std::size_t personal_bytes,
                       const OSSL_PARAM params[]) noexcept {
  const DefaultProviderParams changed(params);
  if (!changed) return 0;
  return inner_instantiate.load(std::memory_order_relaxed)(generator, strength, prediction_resistance,
                                                           personal, personal_bytes, changed.get());
}

}  // namespace

DefaultProviderParams::DefaultProviderParams(const OSSL_PARAM* params) noexcept : params_(params) {
  if (params == nullptr || OSSL_PARAM_locate_const(params, OSSL_PROV_PARAM_CORE_PROV_NAME) == nullptr) return;
  std::size_t count = 0;
  for (; params[count].key != nullptr; ++count) {
    if (count + 1 == changed_.size()) {
      good_ = false;
      return;
    }
    changed_[count] = std::strcmp(params[count].key, OSSL_PROV_PARAM_CORE_PROV_NAME) == 0
                          ? OSSL_PARAM_construct_utf8_string(OSSL_PROV_PARAM_CORE_PROV_NAME, name_.data(), 0)
                          : params[count];
  }
  changed_[count] = OSSL_PARAM_construct_end();
  params_ = changed_.data();
}

std::vector<OSSL_DISPATCH> pass_through_drbg(const Software& software) {
  std::vector<OSSL_DISPATCH> table;
  const OSSL_DISPATCH* entry = software.random_generator("CTR-DRBG");
  if (entry == nullptr) return table;
  for (; entry->function_id != 0; ++entry) {
    table.push_back(*entry);
    if (entry->function_id == OSSL_FUNC_RAND_NEWCTX) {
      inner_newctx = OSSL_FUNC_rand_newctx(entry);
      table.back().function = reinterpret_cast<void (*)()>(random_newctx);
    } else if (entry->function_id == OSSL_FUNC_RAND_INSTANTIATE) {
      inner_instantiate = OSSL_FUNC_rand_instantiate(entry);
      table.back().function = reinterpret_cast<void (*)()>(random_instantiate);
    }
  }
  table.push_back({0, nullptr});
  return table;
}

}  // namespace sunxi
