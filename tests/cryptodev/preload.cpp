// SPDX-License-Identifier: Apache-2.0
// libcryptodev.so, to be preloaded: makes a program believe that this kernel has the module cryptodev. What
// it answers: opening /dev/crypto, asking whether it is there, and ioctl, dup, fcntl and close on what was
// opened so. All else goes to the C library.
//
// The descriptor is one of another character device, so that what the program finds out about it by system
// calls of its own is true of a device. SUNXI_CRYPTODEV_DIR names the folder of the modelled device
// (tests/cryptodev/state.h); without it there is no device.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/cryptodev/model.h"

#define STANDIN_EXPORT extern "C" __attribute__((visibility("default")))

namespace sunxi::standin {
namespace {

constexpr const char* device_path = "/dev/crypto";
constexpr const char* carrier = "/dev/full";  // which programs hardly open themselves
constexpr unsigned carrier_major = 1;
constexpr unsigned carrier_minor = 7;

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::uint32_t own_pid() {
  const auto pid = static_cast<std::uint32_t>(syscall(SYS_getpid));
  Lock::set_process(pid);  // of a child, too
  return pid;
}

// The thread sanitizer sees what our calls of the C library do with shared memory, but not our locks, as it
// must not: the kernel's order nothing for it either.
class Unseen {
 public:
  Unseen() {
    mark("AnnotateIgnoreReadsBegin");
    mark("AnnotateIgnoreWritesBegin");
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
  ~Unseen() {
    mark("AnnotateIgnoreWritesEnd");
    mark("AnnotateIgnoreReadsEnd");
  }

 private:
  static void mark(const char* name) {
    static const bool sanitized = dlsym(RTLD_DEFAULT, "AnnotateIgnoreReadsBegin") != nullptr;
    if (!sanitized) return;
    if (auto* function = reinterpret_cast<void (*)(const char*, int)>(dlsym(RTLD_DEFAULT, name))) {
      function(__FILE__, __LINE__);
    }
  }
};

// ---- The device

std::atomic<int> ready{0};  // 0 no, 1 being made, 2 yes
State* shared_state = nullptr;

// Any thread may be the first: constructors of other libraries may open it before ours runs.
State* device() {
  if (ready.load(std::memory_order_acquire) == 2) return shared_state;
  int none = 0;
  if (!ready.compare_exchange_strong(none, 1)) {
    while (ready.load(std::memory_order_acquire) != 2) usleep(100);
    return shared_state;
  }
  const char* folder = std::getenv("SUNXI_CRYPTODEV_DIR");
  shared_state = folder == nullptr ? nullptr : open_state(folder);
  if (shared_state != nullptr) {
    // What was open before exec is closed.
    Model model(*shared_state);
    const std::uint32_t pid = own_pid();
    for (std::uint32_t i = 0; i < State::most_files; ++i) {
      if (shared_state->files[i].used && shared_state->files[i].pid == pid) model.close(i);
    }
  }
  ready.store(2, std::memory_order_release);
  return shared_state;
}

__attribute__((constructor)) void plug_in() {
  device();
}

// ---- Descriptors. A child of a fork has its own copy of the tables, as it has of the descriptors.

std::array<std::atomic<std::uint32_t>, 65536> file_of;                  // by descriptor, 0: none, else + 1
std::array<std::atomic<std::uint32_t>, State::most_files> descriptors;  // of each file

bool is_carrier(int descriptor) {
  struct stat status {};
#if defined(SYS_newfstatat)
  const long result = syscall(SYS_newfstatat, descriptor, "", &status, AT_EMPTY_PATH);
#else
  const long result = fstat(descriptor, &status);
#endif
  return result == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(carrier_major, carrier_minor);
}

// One descriptor less, or one call less that is in the file.
void drop(std::uint32_t file) {
  if (file == 0 || descriptors[file - 1].fetch_sub(1) != 1) return;
  const Unseen unseen;
  // A child's descriptors keep nothing open: using them is a violation anyway.
  if (device()->files[file - 1].pid == own_pid()) Model(*device()).close(file - 1);
}

void forget(int descriptor) {
  if (descriptor < 0 || static_cast<std::size_t>(descriptor) >= file_of.size()) return;
  drop(file_of[static_cast<std::size_t>(descriptor)].exchange(0));
}

void remember(int descriptor, std::uint32_t file) {
  forget(descriptor);  // closed by other ways than we see
  if (static_cast<std::size_t>(descriptor) >= file_of.size()) std::abort();
  descriptors[file].fetch_add(1);
  file_of[static_cast<std::size_t>(descriptor)].store(file + 1);
}

// 0: it is not of the device.
std::uint32_t lookup(int descriptor) {
  if (descriptor < 0 || static_cast<std::size_t>(descriptor) >= file_of.size()) return 0;
  const std::uint32_t file = file_of[static_cast<std::size_t>(descriptor)].load();
  if (file == 0) return 0;
  const int saved = errno;
  if (!is_carrier(descriptor)) {
    forget(descriptor);
    errno = saved;
    return 0;
  }
  errno = saved;
  return file;
}

// As lookup, and the file stays open until drop(), whoever closes the descriptor meanwhile, as in a kernel.
std::uint32_t hold(int descriptor) {
  for (;;) {
    const std::uint32_t file = lookup(descriptor);
    if (file == 0) return 0;
    std::uint32_t count = descriptors[file - 1].load();
    while (count != 0 && !descriptors[file - 1].compare_exchange_weak(count, count + 1)) {
    }
    if (count == 0) continue;
    if (file_of[static_cast<std::size_t>(descriptor)].load() == file) return file;
    drop(file);
  }
}

int open_device(int flags) {
  State* state = device();
  if (state == nullptr) {
    errno = ENOENT;
    return -1;
  }
  const Unseen unseen;
  Model model(*state);
  std::uint32_t file = 0;
  if (const int error = model.open(own_pid(), file); error != 0) {
    errno = error;
    return -1;
  }
  const int descriptor = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, carrier, flags & (O_ACCMODE | O_CLOEXEC | O_NONBLOCK), 0));
  if (descriptor < 0) {
    const int saved = errno;
    model.close(file);
    errno = saved;
    return -1;
  }
  remember(descriptor, file);
  return descriptor;
}

bool is_device(const char* path) {
  return path != nullptr && std::strcmp(path, device_path) == 0;
}

// What stands for the path when something is asked about it; null: there is nothing, errno is set.
const char* stand_for(const char* path) {
  if (!is_device(path)) return path;
  const int refused = device() == nullptr ? ENOENT : device()->settings.refuse_open;
  if (refused == 0 || refused == EACCES) return carrier;
  errno = refused;
  return nullptr;
}

// ---- The program's memory, through the kernel, which answers where an access of our own would crash: it
// checks protections as it does for pages that a driver uses.

class OwnMemory : public Memory {
 public:
  Access read(std::uint64_t address, void* to, std::size_t bytes) override {
    return move(SYS_process_vm_readv, address, to, bytes) ? Access::done : Access::fault;
  }
  void will_write(std::uint64_t, std::size_t) override {}
  [[nodiscard]] bool complete() const override { return true; }
  bool write(std::uint64_t address, const void* from, std::size_t bytes) override {
    return move(SYS_process_vm_writev, address, const_cast<void*>(from), bytes);
  }

 private:
  static bool move(long call, std::uint64_t address, void* local, std::size_t bytes) {
    const long pid = syscall(SYS_getpid);
    auto* near = static_cast<char*>(local);
    while (bytes != 0) {
      const iovec mine{.iov_base = near, .iov_len = bytes};
      const iovec theirs{.iov_base = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)),
                         .iov_len = bytes};
      const long moved = syscall(call, pid, &mine, 1L, &theirs, 1L, 0L);
      if (moved <= 0) return false;
      near += moved;
      address += static_cast<std::uint64_t>(moved);
      bytes -= static_cast<std::size_t>(moved);
    }
    return true;
  }
};

int answer(int descriptor, std::uint32_t file, unsigned long request, std::uint64_t argument) {
  const int saved = errno;
  const Unseen unseen;
  OwnMemory memory;
  const Caller caller{.pid = own_pid(), .abi = sizeof(void*) == 8 ? Abi::lp64 : Abi::ilp32};
  Answer got{};
  try {
    got = Model(*device()).ioctl(file, caller, static_cast<std::uint32_t>(request), argument, memory);
  } catch (const std::bad_alloc&) {
    got = {.kind = Answer::Kind::done, .error = ENOMEM};
  }
  if (got.kind == Answer::Kind::duplicate) {
    const int copy = static_cast<int>(syscall(SYS_dup, descriptor));
    if (copy >= 0) remember(copy, file);
    if (copy < 0 || !memory.write(argument, &copy, sizeof copy)) got.error = copy < 0 ? errno : EFAULT;
  }
  errno = got.error == 0 ? saved : got.error;
  return got.error == 0 ? 0 : -1;
}

mode_t creation_mode(int flags, va_list arguments) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

int copied(int result, int original) {
  if (result < 0) return result;
  const std::uint32_t file = lookup(original);
  if (file != 0) {
    remember(result, file - 1);
  } else {
    forget(result);
  }
  return result;
}

void forget_range(unsigned first, unsigned last) {
  for (std::size_t i = first; i < file_of.size() && i <= last; ++i) {
    if (file_of[i].load() != 0) forget(static_cast<int>(i));
  }
}

}  // namespace
}  // namespace sunxi::standin

using namespace sunxi::standin;

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)

#define STANDIN_OPEN(NAME)                                                \
  STANDIN_EXPORT int NAME(const char* path, int flags, ...) {             \
    static const auto real = next<int (*)(const char*, int, ...)>(#NAME); \
    va_list arguments;                                                    \
    va_start(arguments, flags);                                           \
    const mode_t mode = creation_mode(flags, arguments);                  \
    va_end(arguments);                                                    \
    if (is_device(path)) return open_device(flags);                       \
    return real(path, flags, mode);                                       \
  }
STANDIN_OPEN(open)
STANDIN_OPEN(open64)

#define STANDIN_OPENAT(NAME)                                                   \
  STANDIN_EXPORT int NAME(int folder, const char* path, int flags, ...) {      \
    static const auto real = next<int (*)(int, const char*, int, ...)>(#NAME); \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = creation_mode(flags, arguments);                       \
    va_end(arguments);                                                         \
    if (is_device(path)) return open_device(flags);                            \
    return real(folder, path, flags, mode);                                    \
  }
STANDIN_OPENAT(openat)
STANDIN_OPENAT(openat64)

// What a fortified program calls.
STANDIN_EXPORT int __open_2(const char* path, int flags) {
  return open(path, flags);
}
STANDIN_EXPORT int __open64_2(const char* path, int flags) {
  return open64(path, flags);
}
STANDIN_EXPORT int __openat_2(int folder, const char* path, int flags) {
  return openat(folder, path, flags);
}
STANDIN_EXPORT int __openat64_2(int folder, const char* path, int flags) {
  return openat64(folder, path, flags);
}

STANDIN_EXPORT int ioctl(int descriptor, unsigned long request, ...) noexcept {
  static const auto real = next<int (*)(int, unsigned long, ...)>("ioctl");
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  // What the kernel answers for every file.
  const bool general = request == FIOCLEX || request == FIONCLEX || request == FIONBIO || request == FIOASYNC;
  const std::uint32_t file = general ? 0 : hold(descriptor);
  if (file == 0) return real(descriptor, request, argument);
  const int result = answer(descriptor, file - 1, request, reinterpret_cast<std::uintptr_t>(argument));
  const int saved = errno;
  drop(file);
  errno = saved;
  return result;
}

STANDIN_EXPORT int close(int descriptor) {
  static const auto real = next<int (*)(int)>("close");
  forget(descriptor);
  return real(descriptor);
}

STANDIN_EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
  static const auto real = next<int (*)(unsigned, unsigned, int)>("close_range");
  const int result = real(first, last, flags);
  if (result == 0 && flags == 0) forget_range(first, last);
  return result;
}

STANDIN_EXPORT void closefrom(int first) noexcept {
  static const auto real = next<void (*)(int)>("closefrom");
  forget_range(static_cast<unsigned>(first < 0 ? 0 : first), ~0U);
  real(first);
}

STANDIN_EXPORT int dup(int descriptor) noexcept {
  static const auto real = next<int (*)(int)>("dup");
  return copied(real(descriptor), descriptor);
}

STANDIN_EXPORT int dup2(int descriptor, int wanted) noexcept {
  static const auto real = next<int (*)(int, int)>("dup2");
  return descriptor == wanted ? real(descriptor, wanted) : copied(real(descriptor, wanted), descriptor);
}

STANDIN_EXPORT int dup3(int descriptor, int wanted, int flags) noexcept {
  static const auto real = next<int (*)(int, int, int)>("dup3");
  return copied(real(descriptor, wanted, flags), descriptor);
}

#define STANDIN_FCNTL(NAME)                                                                        \
  STANDIN_EXPORT int NAME(int descriptor, int command, ...) {                                      \
    static const auto real = next<int (*)(int, int, ...)>(#NAME);                                  \
    va_list arguments;                                                                             \
    va_start(arguments, command);                                                                  \
    void* argument = va_arg(arguments, void*);                                                     \
    va_end(arguments);                                                                             \
    const int result = real(descriptor, command, argument);                                        \
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(result, descriptor) : result; \
  }
STANDIN_FCNTL(fcntl)
STANDIN_FCNTL(fcntl64)

STANDIN_EXPORT int access(const char* path, int mode) noexcept {
  static const auto real = next<int (*)(const char*, int)>("access");
  const char* asked = stand_for(path);
  if (asked == carrier && mode != F_OK && device()->settings.refuse_open == EACCES) {
    errno = EACCES;
    return -1;
  }
  return asked == nullptr ? -1 : real(asked, mode);
}

#define STANDIN_STAT(NAME, TYPE)                                              \
  STANDIN_EXPORT int NAME(const char* path, struct TYPE* status) noexcept {   \
    static const auto real = next<int (*)(const char*, struct TYPE*)>(#NAME); \
    const char* asked = stand_for(path);                                      \
    return asked == nullptr ? -1 : real(asked, status);                       \
  }
STANDIN_STAT(stat, stat)
STANDIN_STAT(stat64, stat64)
STANDIN_STAT(lstat, stat)
STANDIN_STAT(lstat64, stat64)

// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
