// SPDX-License-Identifier: Apache-2.0
// The backend that drives an Allwinner engine from user space, without a system call per request.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/process.h"

namespace sunxi {

// Null only without memory. `process` outlives the backend. With options.mmio_map_at_startup the engine is
// mapped here, else at the first request.
[[nodiscard]] std::unique_ptr<Backend> make_mmio_backend(Process& process, const BackendOptions& options);

}  // namespace sunxi
