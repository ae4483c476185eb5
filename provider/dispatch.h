// SPDX-License-Identifier: Apache-2.0
// Small things that every dispatch table needs.
#pragma once

#include <openssl/core_dispatch.h>
#include <openssl/params.h>

#include <cstddef>

namespace sunxi {

template <class Function>
OSSL_DISPATCH entry(int id, Function* function) noexcept {
  return {id, reinterpret_cast<void (*)()>(function)};
}

// Whether a table of another generator is the one with this function.
template <class Function>
bool has_function(const OSSL_DISPATCH* table, int id, Function* function) noexcept {
  for (; table != nullptr && table->function_id != 0; ++table) {
    if (table->function_id == id) return table->function == reinterpret_cast<void (*)()>(function);
  }
  return false;
}

// As the default provider gives IVs: a copy, or a pointer that stays valid as long as the context.
inline int give_octets(OSSL_PARAM* param, const void* data, std::size_t bytes) noexcept {
  return param->data_type == OSSL_PARAM_OCTET_PTR ? OSSL_PARAM_set_octet_ptr(param, data, bytes)
                                                  : OSSL_PARAM_set_octet_string(param, data, bytes);
}

}  // namespace sunxi
