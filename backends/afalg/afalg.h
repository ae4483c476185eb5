// SPDX-License-Identifier: Apache-2.0
// The AF_ALG backend: ciphers and digests through the kernel's crypto drivers, by sockets of the family
// AF_ALG (Linux Documentation/crypto/userspace-if.rst). Linux 7.2 and later let AF_ALG reach no hardware
// driver; there, and wherever sockets of this family are refused, the backend says `unavailable`.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/process.h"

namespace sunxi {

// Makes no system call; everything is looked up at the first request.
[[nodiscard]] std::unique_ptr<Backend> make_afalg_backend(Process& process, const BackendOptions& options);

// The same with another file in the place of /proc/crypto, for tests. `proc_crypto` in static storage.
[[nodiscard]] std::unique_ptr<Backend> make_afalg_backend_with(Process& process,
                                                               const BackendOptions& options,
                                                               const char* proc_crypto);

}  // namespace sunxi
