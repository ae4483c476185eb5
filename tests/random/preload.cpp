// SPDX-License-Identifier: Apache-2.0
// Preloaded into programs: /dev/hwrng becomes what the variable HWRNG says:
//   good (random data), zeros, pattern (two bytes in turn), silent (no data, ever), broken (an I/O error),
//   ended (end of file), refused, missing.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr std::string_view device = "/dev/hwrng";

using Open = int (*)(const char*, int, ...);

Open real_open() {
  static const auto found = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "open64"));
  return found;
}

int fail(int error) {
  errno = error;
  return -1;
}

// Two bytes in turn, many of them.
int pattern() {
  const int file = memfd_create("pattern", MFD_CLOEXEC);
  std::array<unsigned char, 4096> block{};
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = i % 2 == 0 ? 0x12 : 0xed;
  for (int i = 0; i < 16; ++i) {
    if (write(file, block.data(), block.size()) < 0) return fail(EIO);
  }
  lseek(file, 0, SEEK_SET);
  return file;
}

// The read end of a pipe whose write end stays open.
int silent() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return -1;
  return ends[0];
}

int open_device(int flags) {
  const char* given = std::getenv("HWRNG");
  const std::string_view kind = given == nullptr ? "missing" : given;
  if (kind == "good") return real_open()("/dev/urandom", flags);
  if (kind == "zeros") return real_open()("/dev/zero", flags);
  if (kind == "broken") return real_open()("/proc/self/mem", flags);
  if (kind == "ended") return real_open()("/dev/null", flags);
  if (kind == "pattern") return pattern();
  if (kind == "silent") return silent();
  if (kind == "refused") return fail(EACCES);
  return fail(ENOENT);
}

}  // namespace

#define HWRNG_EXPORT extern "C" __attribute__((visibility("default")))

HWRNG_EXPORT int open64(const char* path, int flags, ...) {
  if (path == device) return open_device(flags);
  va_list arguments;
  va_start(arguments, flags);
  const int mode = va_arg(arguments, int);
  va_end(arguments);
  return real_open()(path, flags, mode);
}

HWRNG_EXPORT int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = va_arg(arguments, int);
  va_end(arguments);
  return open64(path, flags, mode);
}
