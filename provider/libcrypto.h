// SPDX-License-Identifier: Apache-2.0
// The functions of libcrypto that are called by name on data of their own layout (digests, DES). A program
// may export functions of its own under these old names, as many do that brought MD5 or SHA-256 along; the
// dynamic linker then gives us the program's.
#pragma once

#include <initializer_list>

namespace sunxi {

using AnyFunction = void (*)();

template <class Function>
[[nodiscard]] AnyFunction any(Function* function) noexcept {
  return reinterpret_cast<AnyFunction>(function);
}

// Whether all of them come from the object that the rest of libcrypto comes from.
[[nodiscard]] bool are_libcrypto_s(std::initializer_list<AnyFunction> functions) noexcept;

}  // namespace sunxi
