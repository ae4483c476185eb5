// SPDX-License-Identifier: Apache-2.0
// The one symbol that sunxi.so exports.
#include "provider/provider.h"

extern "C" __attribute__((visibility("default"))) int OSSL_provider_init(const OSSL_CORE_HANDLE* handle,
                                                                         const OSSL_DISPATCH* in,
                                                                         const OSSL_DISPATCH** out,
                                                                         void** provider_context) {
  return sunxi::initialise(handle, in, out, provider_context);
}
