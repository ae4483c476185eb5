// SPDX-License-Identifier: Apache-2.0
// The /dev/crypto backend: ciphers and digests through the kernel's crypto drivers by way of the module
// cryptodev-linux, at one ioctl for each request. Where the module is absent, or its device may not be
// opened, the backend says `unavailable`.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/process.h"

namespace sunxi {

// Makes no system call; everything is looked up at the first request.
[[nodiscard]] std::unique_ptr<Backend> make_cryptodev_backend(Process& process,
                                                              const BackendOptions& options);

// The same with another file in the place of /dev/crypto, for tests. `path` in static storage.
[[nodiscard]] std::unique_ptr<Backend> make_cryptodev_backend_with(Process& process,
                                                                   const BackendOptions& options,
                                                                   const char* path);

}  // namespace sunxi
