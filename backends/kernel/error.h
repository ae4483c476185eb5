// SPDX-License-Identifier: Apache-2.0
// Errors of system calls: their names, and which of them say nothing about a device.
#pragma once

#include <array>

namespace sunxi::kernel {

// The name of an errno; strerror is translated, and not safe with threads.
class ErrorName {
 public:
  explicit ErrorName(int error) noexcept;  // 0: a call that moved a wrong number of bytes
  ErrorName(const ErrorName&) = delete;
  ErrorName& operator=(const ErrorName&) = delete;
  [[nodiscard]] const char* get() const noexcept { return name_; }

 private:
  const char* name_ = nullptr;
  std::array<char, 24> number_{};
};

// Descriptors or memory are short: that may be over at the next request.
[[nodiscard]] bool is_shortage(int error) noexcept;

// A key that is weak, or that FIPS mode forbids.
[[nodiscard]] bool is_refused_key(int error) noexcept;

}  // namespace sunxi::kernel
