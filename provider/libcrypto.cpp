// SPDX-License-Identifier: Apache-2.0
#include "provider/libcrypto.h"

#include <dlfcn.h>
#include <openssl/provider.h>

#include <algorithm>

namespace sunxi {
namespace {

// Null where nobody knows, as in a static program, which has one of each name.
const void* object_of(AnyFunction function) noexcept {
  Dl_info found{};
  return dladdr(reinterpret_cast<const void*>(function), &found) != 0 ? found.dli_fbase : nullptr;
}

}  // namespace

bool are_libcrypto_s(std::initializer_list<AnyFunction> functions) noexcept {
  const void* const libcrypto = object_of(any(OSSL_PROVIDER_query_operation));
  return std::all_of(functions.begin(), functions.end(),
                     [&](AnyFunction function) { return object_of(function) == libcrypto; });
}

}  // namespace sunxi
