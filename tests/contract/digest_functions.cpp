// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/digest_functions.h"

#include <type_traits>

namespace sunxi::test {

DigestFunctions digest_functions(const Library& library, const std::string& name) {
  int no_store = 0;
  const OSSL_ALGORITHM* row = OSSL_PROVIDER_query_operation(library.provider(), OSSL_OP_DIGEST, &no_store);
  const auto is_it = [&] {
    const std::string names = std::string(row->algorithm_names) + ":";
    return names.rfind(name + ":", 0) == 0;
  };
  while (row->algorithm_names != nullptr && !is_it()) ++row;
  DigestFunctions functions;
  if (row->algorithm_names == nullptr) return functions;
  const auto take = [&](int id, auto& function) {
    for (const OSSL_DISPATCH* one = row->implementation; one->function_id != 0; ++one) {
      if (one->function_id == id)
        function = reinterpret_cast<std::decay_t<decltype(function)>>(one->function);
    }
  };
  take(OSSL_FUNC_DIGEST_NEWCTX, functions.newctx);
  take(OSSL_FUNC_DIGEST_FREECTX, functions.freectx);
  take(OSSL_FUNC_DIGEST_DUPCTX, functions.dupctx);
  take(OSSL_FUNC_DIGEST_INIT, functions.init);
  take(OSSL_FUNC_DIGEST_UPDATE, functions.update);
  take(OSSL_FUNC_DIGEST_FINAL, functions.final);
  take(15, functions.copyctx);  // numbers that older headers do not have
  take(16, functions.serialize);
  take(17, functions.deserialize);
  return functions;
}

}  // namespace sunxi::test
