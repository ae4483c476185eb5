// SPDX-License-Identifier: Apache-2.0
// Single DES in software. The default provider has none, so this is a dispatch table like its own, over
// libcrypto's DES functions, with the behaviour of the legacy provider's DES.
#pragma once

#include <openssl/core_dispatch.h>

#include "backends/backend.h"

namespace sunxi {

// For Mode::ecb or Mode::cbc, else null; null where libcrypto was built without those functions or the
// program has its own in their place. The first argument of newctx is the OSSL_LIB_CTX whose random generator
// makes random keys and MACs.
[[nodiscard]] const OSSL_DISPATCH* des_dispatch(Mode mode) noexcept;

}  // namespace sunxi
