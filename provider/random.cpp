// SPDX-License-Identifier: Apache-2.0
// The default provider's CTR-DRBG, passed through: without a generator of that name
// `openssl speed -provider sunxi` alone ends with an error.
#include <openssl/core_names.h>
#include <openssl/params.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <string_view>

#include "provider/drbg.h"
#include "provider/provider.h"

namespace sunxi {
namespace {

// libcrypto's functions, the same for every provider context of the process; the dispatch function that
// needs them gets no provider context. libcrypto is linked and outlives us.
std::atomic<OSSL_FUNC_rand_newctx_fn*> inner_newctx{nullptr};
std::atomic<OSSL_FUNC_rand_instantiate_fn*> inner_instantiate{nullptr};
std::atomic<OSSL_FUNC_rand_set_ctx_params_fn*> inner_set_ctx_params{nullptr};

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

int random_set_ctx_params(void* generator, const OSSL_PARAM params[]) noexcept {
  const DefaultProviderParams changed(params);
  return changed ? inner_set_ctx_params.load(std::memory_order_relaxed)(generator, changed.get()) : 0;
}

// Whether a clause of a query, such as "?provider = sunxi", is about the provider.
bool names_provider(std::string_view clause) noexcept {
  constexpr std::string_view name = "provider";
  clause.remove_prefix(std::min(clause.find_first_not_of(" \t\n?-"), clause.size()));
  clause = clause.substr(0, clause.find_first_of(" \t\n=!"));
  return std::equal(clause.begin(), clause.end(), name.begin(), name.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

// The first clause, up to a comma that is not in quotes.
std::string_view first_clause(std::string_view query) noexcept {
  char quote = 0;
  for (std::size_t i = 0; i < query.size(); ++i) {
    const char c = query[i];
    if (quote == 0 && c == ',') return query.substr(0, i);
    if (quote != 0 ? c == quote : c == '\'' || c == '"') quote = quote == 0 ? c : '\0';
  }
  return query;
}

// `query` without what it says of a provider, into `out`. False: it does not fit.
bool without_provider(std::string_view query, std::span<char> out) noexcept {
  std::size_t used = 0;
  while (true) {
    const std::string_view clause = first_clause(query);
    if (!names_provider(clause)) {
      if (used + clause.size() + 2 > out.size()) return false;
      if (used != 0) out[used++] = ',';
      std::copy(clause.begin(), clause.end(), &out[used]);
      used += clause.size();
    }
    if (clause.size() == query.size()) break;
    query.remove_prefix(clause.size() + 1);
  }
  out[used] = '\0';
  return true;
}

bool is_key(const OSSL_PARAM& param, const char* key) noexcept {
  return std::strcmp(param.key, key) == 0;
}

}  // namespace

DefaultProviderParams::DefaultProviderParams(const OSSL_PARAM* params) noexcept : params_(params) {
  if (params == nullptr || (OSSL_PARAM_locate_const(params, OSSL_PROV_PARAM_CORE_PROV_NAME) == nullptr &&
                            OSSL_PARAM_locate_const(params, OSSL_DRBG_PARAM_PROPERTIES) == nullptr))
    return;
  std::size_t count = 0;
  for (; params[count].key != nullptr; ++count) {
    if (count + 1 == changed_.size()) {
      good_ = false;
      return;
    }
    const OSSL_PARAM& given = params[count];
    changed_[count] = given;
    if (is_key(given, OSSL_PROV_PARAM_CORE_PROV_NAME)) {
      changed_[count] = OSSL_PARAM_construct_utf8_string(OSSL_PROV_PARAM_CORE_PROV_NAME, name_.data(), 0);
    } else if (is_key(given, OSSL_DRBG_PARAM_PROPERTIES) && given.data_type == OSSL_PARAM_UTF8_STRING &&
               given.data != nullptr) {
      if (!without_provider(static_cast<const char*>(given.data), properties_)) {
        good_ = false;
        return;
      }
      changed_[count] = OSSL_PARAM_construct_utf8_string(OSSL_DRBG_PARAM_PROPERTIES, properties_.data(), 0);
    }
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
    } else if (entry->function_id == OSSL_FUNC_RAND_SET_CTX_PARAMS) {
      inner_set_ctx_params = OSSL_FUNC_rand_set_ctx_params(entry);
      table.back().function = reinterpret_cast<void (*)()>(random_set_ctx_params);
    }
  }
  table.push_back({0, nullptr});
  return table;
}

}  // namespace sunxi
