// SPDX-License-Identifier: Apache-2.0
// libboard.so, to be preloaded: makes a program believe that it runs on a board with the modelled engine.
// What it answers: /dev/mem and mappings of it, the device tree's compatible property, the engine's driver
// link under /sys/bus/platform/devices, lock files under /run. All else goes to the C library.
//
// SUNXI_BOARD_DIR names the board's folder (tests/board/state.h); without it, the process and its children
// get one of their own, from SUNXI_BOARD_SOC, _ENGINE_NS, _FAULT, _BOUND and _GATED.
// A violation of the device's rules is printed and ends the process.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/board/state.h"
#include "tests/board/trap.h"

#define BOARD_EXPORT extern "C" __attribute__((visibility("default")))

namespace sunxi::board {
namespace {

struct Board {
  std::array<char, PATH_MAX> folder{};
  State* state = nullptr;
  pid_t owner = 0;  // the process that made the folder and removes it
};

Board* board_memory() {
  alignas(Board) static std::array<std::byte, sizeof(Board)> memory;
  return reinterpret_cast<Board*>(memory.data());
}

[[noreturn]] void give_up(const char* text) {
  static_cast<void>(write(STDERR_FILENO, "board: ", 7));
  static_cast<void>(write(STDERR_FILENO, text, std::strlen(text)));
  static_cast<void>(write(STDERR_FILENO, "\n", 1));
  std::abort();
}

std::atomic<int> ready{0};  // 0 no, 1 being made, 2 yes

// Any thread may be the first: constructors of other libraries open files before ours runs.
Board& board() {
  Board& made = *board_memory();
  if (ready.load(std::memory_order_acquire) == 2) return made;
  int none = 0;
  if (!ready.compare_exchange_strong(none, 1)) {
    while (ready.load(std::memory_order_acquire) != 2) usleep(100);
    return made;
  }
  const char* folder = std::getenv("SUNXI_BOARD_DIR");
  if (folder != nullptr && *folder != '\0') {
    std::snprintf(made.folder.data(), made.folder.size(), "%s", folder);
  } else {
    std::snprintf(made.folder.data(), made.folder.size(), "/tmp/sunxi-board-XXXXXX");
    if (mkdtemp(made.folder.data()) == nullptr) give_up("cannot make a folder");
    made.owner = getpid();
    const char* soc = std::getenv("SUNXI_BOARD_SOC");
    if (!create_board(made.folder.data(), soc != nullptr ? soc : "A20")) give_up("cannot make the board");
    setenv("SUNXI_BOARD_DIR", made.folder.data(), 1);
  }
  made.state = open_board(made.folder.data());
  if (made.state == nullptr) give_up("SUNXI_BOARD_DIR does not hold a board");
  if (made.owner != 0) {
    constexpr std::array<std::array<const char*, 2>, 5> settings{
        {{"SUNXI_BOARD_ENGINE_NS", "engine-ns"},
         {"SUNXI_BOARD_FAULT", "fault"},
         {"SUNXI_BOARD_BOUND", "bound"},
         {"SUNXI_BOARD_GATED", "gated"},
         {"SUNXI_BOARD_EARLY_FETCH", "early-fetch"}}};
    for (const auto& [variable, key] : settings) {
      const char* value = std::getenv(variable);
      if (value != nullptr && !configure_board(*made.state, key, value)) give_up(variable);
    }
  }
  ready.store(2, std::memory_order_release);
  return made;
}

__attribute__((constructor)) void power_on() {
  board();
}

__attribute__((destructor)) void power_off() {
  Board& made = board();
  if (made.owner != getpid()) return;
  for (const char* name : board_files) {
    std::array<char, PATH_MAX + 32> path{};
    std::snprintf(path.data(), path.size(), "%s/%s", made.folder.data(), name);
    unlink(path.data());
  }
  std::array<char, PATH_MAX + 32> lock{};
  std::snprintf(lock.data(), lock.size(), "%s/sunxi-%llx.lock", made.folder.data(),
                static_cast<unsigned long long>(made.state->base));
  unlink(lock.data());
  rmdir(made.folder.data());
}

// ---- Paths.

constexpr std::string_view devices = "/sys/bus/platform/devices";

constexpr std::string_view uio_devices = "/sys/class/uio";
constexpr std::string_view uio_node = "/dev/uio1";

// A path of the board's UIO device, as its files are called.
const char* redirect_uio(std::string_view given, std::array<char, PATH_MAX + 64>& buffer) {
  const int maps = board().state->uio;
  const bool there = maps != 0 && (maps > 1 || given.find("map1") == std::string_view::npos);
  const bool all = given == uio_devices;
  if (given.starts_with(uio_devices)) given.remove_prefix(std::min(given.size(), uio_devices.size() + 1));
  if (given.starts_with("/dev/")) given.remove_prefix(5);
  const int size = std::snprintf(buffer.data(), buffer.size(), "%s/", board().folder.data());
  std::snprintf(buffer.data() + size, buffer.size() - static_cast<std::size_t>(size), "%.*s",
                there ? static_cast<int>(given.size()) : 6, there ? given.data() : "absent");
  for (char* at = buffer.data() + size; *at != '\0'; ++at) {
    if (*at == '/') *at = '-';
  }
  if (there && all) buffer[static_cast<std::size_t>(size)] = '\0';
  return buffer.data();
}

// The path that stands for `path`, or `path` itself.
const char* redirect(const char* path, std::array<char, PATH_MAX + 64>& buffer) {
  if (path == nullptr || path[0] != '/') return path;
  const std::string_view given(path);
  std::string_view name;
  if (given.starts_with(uio_devices) || given == uio_node) return redirect_uio(given, buffer);
  if (given == "/dev/mem") {
    name = "mem";
  } else if (given == "/proc/device-tree/compatible" || given == "/sys/firmware/devicetree/base/compatible") {
    name = "compatible";
  } else if (given.starts_with("/run/sunxi-")) {
    name = given.substr(5);
  } else if (given.starts_with("/var/run/sunxi-")) {
    name = given.substr(9);
  } else if (given == devices) {
    name = ".";
  } else {
    return path;
  }
  std::snprintf(buffer.data(), buffer.size(), "%s/%.*s", board().folder.data(), static_cast<int>(name.size()),
                name.data());
  return buffer.data();
}

// Answers a question about a driver link: its length, or -1 with errno. False: not ours to answer.
bool driver_link(const char* path, char* target, std::size_t size, ssize_t& result) {
  constexpr std::string_view suffix = "/driver";
  if (path == nullptr) return false;
  std::string_view given(path);
  if (!given.starts_with(devices) || !given.ends_with(suffix) ||
      given.size() <= devices.size() + suffix.size()) {
    return false;
  }
  given.remove_prefix(devices.size() + 1);
  given.remove_suffix(suffix.size());
  State& state = *board().state;
  std::array<char, 96> link{};
  state.model.enter(static_cast<std::uint32_t>(getpid()));
  const bool bound = given == state.device.data() && state.bound[0] != '\0';
  if (bound) {
    std::snprintf(link.data(), link.size(), "../../../../bus/platform/drivers/%s", state.bound.data());
  }
  state.model.leave();
  if (!bound) {
    errno = ENOENT;
    result = -1;
    return true;
  }
  const std::size_t length = std::min(std::strlen(link.data()), size);
  if (target != nullptr) std::memcpy(target, link.data(), length);
  result = static_cast<ssize_t>(length);
  return true;
}

// ---- The mapping that traps.

struct Window {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> bytes{0};
  std::atomic<bool> is_clock{false};
};
std::array<Window, 256> windows;
struct sigaction previous_action;  // what the program believes to be installed
std::atomic<bool> handler_installed{false};

using SetAction = int (*)(int, const struct sigaction*, struct sigaction*);
using Map = void* (*)(void*, std::size_t, int, int, int, off64_t);

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
  } else {
    struct sigaction action {};
    next<SetAction>("sigaction")(signal, &action,
                                 nullptr);  // the instruction is repeated and ends the process
  }
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Window& window : windows) {
    const std::uintptr_t begin = window.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address - begin >= window.bytes.load(std::memory_order_relaxed)) {
      continue;
    }
    const int saved = errno;
    TrappedAccess access;
    if (!decode_access(context, access)) give_up("not a plain 32-bit load or store");
    Model& model = board_memory()->state->model;
    const auto pid = static_cast<std::uint32_t>(getpid());
    const auto thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
    const Model::Who who = std::uint64_t{pid} << 32 | thread;
    std::uint32_t loaded = 0;
    model.enter(thread);
    const std::size_t offset = address - begin;
    if (window.is_clock.load(std::memory_order_relaxed)) {
      if (access.store) {
        model.write_clock(offset, access.value);
      } else {
        loaded = model.read_clock(offset);
      }
    } else if (access.store) {
      model.write(address - begin, access.value, who);
    } else {
      loaded = model.read(address - begin, who);
    }
    const bool violated = model.violations != 0;
    model.leave();
    if (violated) give_up(model.first_violation.data());
    finish_access(context, access, loaded);
    errno = saved;
    return;
  }
  pass_on(signal, info, context);
}

void install_handler() {
  if (handler_installed.exchange(true)) return;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  next<SetAction>("sigaction")(SIGSEGV, &action, &previous_action);
}

bool is_file(int descriptor, const char* name) {
  if (descriptor < 0) return false;
  struct stat open_file {};
  struct stat memory {};
  std::array<char, PATH_MAX + 64> path{};
  if (fstat(descriptor, &open_file) != 0 || !S_ISREG(open_file.st_mode)) return false;
  std::snprintf(path.data(), path.size(), "%s/%s", board().folder.data(), name);
  return stat(path.data(), &memory) == 0 && memory.st_dev == open_file.st_dev &&
         memory.st_ino == open_file.st_ino;
}

void* map_engine(std::size_t bytes, int protection, int flags, int descriptor, std::uint64_t offset,
                 bool is_uio, Map map) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const State& state = *board().state;
  bool is_clock = offset == Model::clock_base;
  int error = is_clock ? state.refuse_clock : state.refuse_map;
  if (!is_clock && offset != state.base / page * page) error = EPERM;
  if (is_uio) {
    is_clock = offset == page;
    error = static_cast<std::uint64_t>(state.uio) <= offset / page || offset % page != 0 ? EINVAL : 0;
  } else if ((fcntl(descriptor, F_GETFL) & O_SYNC) != O_SYNC) {
    give_up("/dev/mem is not open with O_SYNC");
  }
  if (bytes > page) error = EINVAL;
  if (error != 0) {
    errno = error;
    return MAP_FAILED;
  }
  if ((flags & MAP_SHARED) == 0 || protection != (PROT_READ | PROT_WRITE)) give_up("registers mapped oddly");
  install_handler();
  void* address = map(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return address;
  for (Window& window : windows) {
    std::uintptr_t none = 0;
    if (window.bytes.load() == 0 && window.begin.compare_exchange_strong(none, 1)) {
      window.bytes.store(page);
      window.is_clock.store(is_clock);
      window.begin.store(reinterpret_cast<std::uintptr_t>(address), std::memory_order_release);
      return address;
    }
  }
  give_up("too many mappings");
}

bool refused(const char* path) {
  if (path == nullptr) return false;
  const bool memory = std::strcmp(path, "/dev/mem") == 0;
  if (!memory && path != uio_node) return false;
  const int error = memory ? board().state->refuse_open : board().state->refuse_uio;
  if (error != 0) errno = error;
  return error != 0;
}

mode_t creation_mode(int flags, va_list arguments) {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

}  // namespace
}  // namespace sunxi::board

using namespace sunxi::board;

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)

#define BOARD_OPEN(NAME)                                                  \
  BOARD_EXPORT int NAME(const char* path, int flags, ...) {               \
    static const auto real = next<int (*)(const char*, int, ...)>(#NAME); \
    va_list arguments;                                                    \
    va_start(arguments, flags);                                           \
    const mode_t mode = creation_mode(flags, arguments);                  \
    va_end(arguments);                                                    \
    if (refused(path)) return -1;                                         \
    std::array<char, PATH_MAX + 64> buffer;                               \
    return real(redirect(path, buffer), flags, mode);                     \
  }
BOARD_OPEN(open)
BOARD_OPEN(open64)

#define BOARD_OPENAT(NAME)                                                     \
  BOARD_EXPORT int NAME(int folder, const char* path, int flags, ...) {        \
    static const auto real = next<int (*)(int, const char*, int, ...)>(#NAME); \
    va_list arguments;                                                         \
    va_start(arguments, flags);                                                \
    const mode_t mode = creation_mode(flags, arguments);                       \
    va_end(arguments);                                                         \
    if (refused(path)) return -1;                                              \
    std::array<char, PATH_MAX + 64> buffer;                                    \
    return real(folder, redirect(path, buffer), flags, mode);                  \
  }
BOARD_OPENAT(openat)
BOARD_OPENAT(openat64)

// What a fortified program calls.
BOARD_EXPORT int __open_2(const char* path, int flags) {
  return open(path, flags);
}
BOARD_EXPORT int __open64_2(const char* path, int flags) {
  return open64(path, flags);
}
BOARD_EXPORT int __openat_2(int folder, const char* path, int flags) {
  return openat(folder, path, flags);
}
BOARD_EXPORT int __openat64_2(int folder, const char* path, int flags) {
  return openat64(folder, path, flags);
}

#define BOARD_FOPEN(NAME)                                                      \
  BOARD_EXPORT FILE* NAME(const char* path, const char* mode) {                \
    static const auto real = next<FILE* (*)(const char*, const char*)>(#NAME); \
    std::array<char, PATH_MAX + 64> buffer;                                    \
    return real(redirect(path, buffer), mode);                                 \
  }
BOARD_FOPEN(fopen)
BOARD_FOPEN(fopen64)

BOARD_EXPORT int access(const char* path, int mode) noexcept {
  static const auto real = next<int (*)(const char*, int)>("access");
  ssize_t link = 0;
  if (driver_link(path, nullptr, 0, link)) return link < 0 ? -1 : 0;
  std::array<char, PATH_MAX + 64> buffer;
  return real(redirect(path, buffer), mode);
}

BOARD_EXPORT ssize_t readlink(const char* path, char* target, size_t size) noexcept {
  static const auto real = next<ssize_t (*)(const char*, char*, size_t)>("readlink");
  ssize_t link = 0;
  return driver_link(path, target, size, link) ? link : real(path, target, size);
}

BOARD_EXPORT ssize_t readlinkat(int folder, const char* path, char* target, size_t size) noexcept {
  static const auto real = next<ssize_t (*)(int, const char*, char*, size_t)>("readlinkat");
  ssize_t link = 0;
  return driver_link(path, target, size, link) ? link : real(folder, path, target, size);
}

BOARD_EXPORT ssize_t __readlink_chk(const char* path, char* target, size_t size, size_t have) {
  if (size > have) give_up("readlink overflows its buffer");
  return readlink(path, target, size);
}

BOARD_EXPORT void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor,
                        off_t offset) noexcept {
  static const auto real = next<Map>("mmap64");
  const bool is_uio = is_file(descriptor, "uio1");
  if (is_uio || is_file(descriptor, "mem")) {
    return map_engine(bytes, protection, flags, descriptor, static_cast<std::uint64_t>(offset), is_uio, real);
  }
  return real(address, bytes, protection, flags, descriptor, offset);
}

BOARD_EXPORT void* mmap64(void* address, size_t bytes, int protection, int flags, int descriptor,
                          off64_t offset) noexcept {
  static const auto real = next<Map>("mmap64");
  const bool is_uio = is_file(descriptor, "uio1");
  if (is_uio || is_file(descriptor, "mem")) {
    return map_engine(bytes, protection, flags, descriptor, static_cast<std::uint64_t>(offset), is_uio, real);
  }
  return real(address, bytes, protection, flags, descriptor, offset);
}

BOARD_EXPORT int munmap(void* address, size_t bytes) noexcept {
  static const auto real = next<int (*)(void*, size_t)>("munmap");
  for (Window& window : windows) {
    auto begin = reinterpret_cast<std::uintptr_t>(address);
    if (begin > 1 && window.begin.compare_exchange_strong(begin, 0)) {
      const size_t all = window.bytes.load();
      window.bytes.store(0);
      return real(address, std::max(bytes, all));
    }
  }
  return real(address, bytes);
}

// A program's own handler comes behind ours.
BOARD_EXPORT int sigaction(int signal, const struct sigaction* action, struct sigaction* old) noexcept {
  static const auto real = next<SetAction>("sigaction");
  if (signal != SIGSEGV || !handler_installed.load()) return real(signal, action, old);
  const struct sigaction before = previous_action;
  if (action != nullptr) previous_action = *action;
  if (old != nullptr) *old = before;
  return 0;
}

// A thread that blocks SIGSEGV would be killed by its first access to a register. What the caller reads back
// of the old set is without it.
static int set_mask(const char* name, int how, const sigset_t* set, sigset_t* old) noexcept {
  const auto real = next<int (*)(int, const sigset_t*, sigset_t*)>(name);
  if (set == nullptr || how == SIG_UNBLOCK) return real(how, set, old);
  sigset_t without = *set;
  sigdelset(&without, SIGSEGV);
  return real(how, &without, old);
}

BOARD_EXPORT int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return set_mask("pthread_sigmask", how, set, old);
}

BOARD_EXPORT int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return set_mask("sigprocmask", how, set, old);
}

BOARD_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  static const auto real = next<sighandler_t (*)(int, sighandler_t)>("signal");
  if (number != SIGSEGV || !handler_installed.load()) return real(number, handler);
  const sighandler_t before = previous_action.sa_handler;
  previous_action = {};
  previous_action.sa_handler = handler;
  return before;
}

// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-identifier-naming)
