// SPDX-License-Identifier: Apache-2.0
// The names of errors.
#include "backends/kernel/error.h"

#include <array>
#include <cerrno>
#include <cstdio>

namespace sunxi::kernel {

ErrorName::ErrorName(int error) noexcept {
  struct Known {
    int error;
    const char* name;
  };
  constexpr std::array names{
      Known{0, "wrong length"},      Known{EAFNOSUPPORT, "EAFNOSUPPORT"},
      Known{EPERM, "EPERM"},         Known{EACCES, "EACCES"},
      Known{ENOENT, "ENOENT"},       Known{EMFILE, "EMFILE"},
      Known{ENFILE, "ENFILE"},       Known{ENOMEM, "ENOMEM"},
      Known{EINVAL, "EINVAL"},       Known{EIO, "EIO"},
      Known{EBUSY, "EBUSY"},         Known{EAGAIN, "EAGAIN"},
      Known{ENOKEY, "ENOKEY"},       Known{EINTR, "EINTR"},
      Known{ETIMEDOUT, "ETIMEDOUT"}, Known{EBADF, "EBADF"},
      Known{ENOTSOCK, "ENOTSOCK"},   Known{EPIPE, "EPIPE"},
      Known{EBADMSG, "EBADMSG"},     Known{ENODEV, "ENODEV"},
      Known{ENOSYS, "ENOSYS"},       Known{ENOBUFS, "ENOBUFS"},
      Known{EFAULT, "EFAULT"},       Known{EOPNOTSUPP, "EOPNOTSUPP"},
      Known{ENXIO, "ENXIO"},         Known{ENOTTY, "ENOTTY"},
      Known{EDEADLK, "EDEADLK"},     Known{ELOOP, "ELOOP"},
      Known{EISDIR, "EISDIR"},       Known{ENOTDIR, "ENOTDIR"},
  };
  for (const Known& known : names) {
    if (known.error == error) name_ = known.name;
  }
  if (name_ == nullptr) {
    snprintf(number_.data(), number_.size(), "errno %d", error);
    name_ = number_.data();
  }
}

bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

bool is_refused_key(int error) noexcept {
  return error == EINVAL || error == ENOKEY || error == EKEYREJECTED;
}

}  // namespace sunxi::kernel
