// SPDX-License-Identifier: Apache-2.0
// The modelled device's file, settings and report.
#include "tests/cryptodev/state.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <openssl/crypto.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <ctime>

namespace sunxi::standin {
namespace {

constexpr std::uint64_t magic = 0x63727970'0001;

using Path = std::array<char, PATH_MAX>;

const char* join(Path& path, const char* folder, const char* name) {
  std::snprintf(path.data(), path.size(), "%s/%s", folder, name);
  return path.data();
}

int raw_open(const char* path, int flags, mode_t mode) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

// The arguments of syscall() are not converted: an int would fill half a register.
State* map_state(int file) {
#if defined(SYS_mmap2)
  const long address =
      syscall(SYS_mmap2, nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
#else
  const long address =
      syscall(SYS_mmap, nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
#endif
  syscall(SYS_close, file);
  return address == -1 ? nullptr : reinterpret_cast<State*>(address);
}

std::atomic<std::uint32_t> locking_process{0};

struct Name {
  std::string_view name;
  int value;
};

constexpr std::array error_names{
    Name{"EPERM", EPERM},     Name{"ENOENT", ENOENT},       Name{"EINTR", EINTR},     Name{"EIO", EIO},
    Name{"EAGAIN", EAGAIN},   Name{"ENOMEM", ENOMEM},       Name{"EACCES", EACCES},   Name{"EFAULT", EFAULT},
    Name{"EBUSY", EBUSY},     Name{"ENODEV", ENODEV},       Name{"EINVAL", EINVAL},   Name{"ENFILE", ENFILE},
    Name{"EMFILE", EMFILE},   Name{"ENOTTY", ENOTTY},       Name{"EDEADLK", EDEADLK}, Name{"ENOSYS", ENOSYS},
    Name{"EBADMSG", EBADMSG}, Name{"ETIMEDOUT", ETIMEDOUT}, Name{"ENXIO", ENXIO},
};

constexpr std::array call_names{
    Name{"open", 0},        Name{"crioget", 101}, Name{"gsession", 102}, Name{"fsession", 103},
    Name{"crypt", 104},     Name{"key", 105},     Name{"asymfeat", 106}, Name{"info", 107},
    Name{"authcrypt", 109}, Name{"cphash", 112},
};

bool number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

template <std::size_t Size>
bool lookup(const std::array<Name, Size>& names, std::string_view text, int& value) {
  for (const Name& one : names) {
    if (one.name != text) continue;
    value = one.value;
    return true;
  }
  std::uint64_t given = 0;
  if (!number(text, given) || given > INT_MAX) return false;
  value = static_cast<int>(given);
  return true;
}

std::string_view first_part(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

template <std::size_t Size>
bool keep(std::array<char, Size>& target, std::string_view text) {
  if (text.size() >= Size) return false;
  target = {};
  std::copy(text.begin(), text.end(), target.begin());
  return true;
}

bool set_driver(Settings& settings, std::string_view value) {
  const std::size_t equals = value.find('=');
  std::string_view pattern = "*";
  if (equals != std::string_view::npos) {
    pattern = value.substr(0, equals);
    value.remove_prefix(equals + 1);
  } else {
    settings.drivers = {};
  }
  for (DriverRule& rule : settings.drivers) {
    if (rule.pattern[0] == '\0') return keep(rule.driver, value) && keep(rule.pattern, pattern);
  }
  return false;
}

bool set_absent(Settings& settings, std::string_view value) {
  if (value == "none") {
    settings.absent = {};
    return true;
  }
  for (auto& name : settings.absent) {
    if (name[0] == '\0') return keep(name, value);
  }
  return false;
}

bool set_fault(State& state, std::string_view value) {
  if (value == "none") {
    for (Fault& fault : state.faults) fault.kind = FaultKind::none;
    return true;
  }
  int call = 0;
  int error = 0;
  std::uint64_t nth = 1;
  FaultKind kind = FaultKind::error;
  if (!lookup(call_names, first_part(value, ':'), call)) return false;
  const std::string_view what = first_part(value, ':');
  if (what == "wrong") {
    kind = FaultKind::wrong;
  } else if (what == "hang") {
    kind = FaultKind::hang;
  } else if (!lookup(error_names, what, error) || error == 0) {
    return false;
  }
  if (!value.empty() && (!number(first_part(value, ':'), nth) || nth == 0)) return false;
  bool every = false;
  bool dirty = false;
  while (!value.empty()) {
    const std::string_view word = first_part(value, ':');
    if (word != "every" && word != "dirty") return false;
    (word == "every" ? every : dirty) = true;
  }
  for (Fault& fault : state.faults) {
    if (fault.kind != FaultKind::none) continue;
    fault.number = static_cast<std::uint32_t>(call);
    fault.error = error;
    fault.nth = nth;
    fault.every = every;
    fault.dirty = dirty;
    fault.calls = 0;
    fault.kind = kind;
    return true;
  }
  return false;
}

bool set_defaults(State& state) {
  state.settings = Settings{};
  release(state);
  return set_fault(state, "none") && set_driver(state.settings, "sun8i-ce");
}

bool flag(std::string_view value) {
  return value == "1" || value == "yes";
}

}  // namespace

bool process_is_dead(std::uint32_t pid) {
  const int saved = errno;
  bool dead = syscall(SYS_kill, static_cast<long>(pid), 0L) != 0 && errno == ESRCH;
  Path path;
  std::snprintf(path.data(), path.size(), "/proc/%u/stat", static_cast<unsigned>(pid));
  const int file = dead ? -1 : raw_open(path.data(), O_RDONLY | O_CLOEXEC, 0);
  if (file >= 0) {
    std::array<char, 512> text{};
    const long size = syscall(SYS_read, file, text.data(), text.size() - 1);
    const char* end = size > 0 ? std::strrchr(text.data(), ')') : nullptr;
    dead = end != nullptr && (end[2] == 'Z' || end[2] == 'X');
    syscall(SYS_close, file);
  }
  errno = saved;
  return dead;
}

void Lock::set_process(std::uint32_t pid) {
  locking_process.store(pid, std::memory_order_relaxed);
}

void Lock::enter() {
  const int saved = errno;
  std::uint32_t pid = locking_process.load(std::memory_order_relaxed);
  if (pid == 0) pid = static_cast<std::uint32_t>(syscall(SYS_getpid));
  for (unsigned turn = 1;; ++turn) {
    std::uint32_t expected = 0;
    if (owner_.compare_exchange_strong(expected, pid, std::memory_order_acquire)) break;
    if (turn % 64 != 0) continue;
    waiting_.fetch_add(1);
    const timespec limit{.tv_sec = 0, .tv_nsec = 20'000'000};
    const long slept = syscall(SYS_futex, &owner_, FUTEX_WAIT, expected, &limit, nullptr, 0L);
    const bool late = slept != 0 && errno == ETIMEDOUT;
    waiting_.fetch_sub(1);
    if (late && expected != pid && process_is_dead(expected) &&
        owner_.compare_exchange_strong(expected, pid, std::memory_order_acquire)) {
      break;
    }
  }
  errno = saved;
}

void Lock::leave() {
  owner_.store(0);
  if (waiting_.load() == 0) return;
  const int saved = errno;
  syscall(SYS_futex, &owner_, FUTEX_WAKE, 1L, nullptr, nullptr, 0L);
  errno = saved;
}

// The file is sparse, and what is not set here begins as zeros.
bool create_state(const char* folder) {
  Path path;
  const int file = raw_open(join(path, folder, "state.new"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(State)) != 0 || fchmod(file, 0666) != 0) {
    std::fprintf(stderr, "cryptodev: cannot create %s: %s\n", path.data(), std::strerror(errno));
    return false;
  }
  State* state = map_state(file);
  if (state == nullptr) return false;
  state->free_sessions = -1;
  const bool good = set_defaults(*state);
  state->magic = magic;
  munmap(state, sizeof *state);
  Path complete;
  return good && std::rename(path.data(), join(complete, folder, "state")) == 0;
}

State* open_state(const char* folder) {
  Path path;
  const int file = raw_open(join(path, folder, "state"), O_RDWR | O_CLOEXEC, 0);
  if (file < 0) return nullptr;
  State* state = map_state(file);
  if (state != nullptr && state->magic != magic) {
    munmap(state, sizeof *state);
    return nullptr;
  }
  return state;
}

bool configure(State& state, std::string_view key, std::string_view value) {
  Settings& settings = state.settings;
  std::uint64_t given = 0;
  int error = 0;
  if (key == "defaults") return flag(value) && set_defaults(state);
  if (key == "driver") return set_driver(settings, value);
  if (key == "absent") return set_absent(settings, value);
  if (key == "fault") return set_fault(state, value);
  if (key == "gone") {
    settings.gone = flag(value);
  } else if (key == "fips") {
    settings.fips = flag(value);
  } else if (key == "alignmask") {
    if (value != "auto" && (!number(value, given) || given > 4095)) return false;
    settings.alignmask = value == "auto" ? -1 : static_cast<std::int32_t>(given);
  } else if (key == "limit") {
    if (!number(value, given)) return false;
    settings.limit = given;
  } else if (key == "refuse-open") {
    if (!lookup(error_names, value, error)) return false;
    settings.refuse_open = error;
  } else if (key == "first-id") {
    settings.first_id = value == "0"        ? FirstId::zero
                        : value == "random" ? FirstId::random
                                            : FirstId::alternate;
    return value == "0" || value == "random" || value == "alternate";
  } else {
    return false;
  }
  return true;
}

bool configure(State& state, std::string_view setting) {
  const std::size_t equals = setting.find('=');
  return equals != std::string_view::npos &&
         configure(state, setting.substr(0, equals), setting.substr(equals + 1));
}

void give_session(State& state, Session& session) {
  OPENSSL_cleanse(&session.cipher_state, sizeof session.cipher_state);
  OPENSSL_cleanse(&session.hash_state, sizeof session.hash_state);
  state.pool.enter();
  session.next = state.free_sessions;
  state.free_sessions = static_cast<std::int32_t>(&session - state.sessions.data());
  state.pool.leave();
}

void close_file(State& state, OpenFile& file) {
  file.lock.enter();
  std::int32_t i = file.sessions;
  file.sessions = -1;
  file.lock.leave();
  while (i >= 0) {
    Session& session = state.sessions[static_cast<std::size_t>(i)];
    i = session.next;
    give_session(state, session);
    state.counters.sessions_open.fetch_sub(1);
  }
  state.counters.files_open.fetch_sub(1);
  state.pool.enter();
  file.used = false;
  state.pool.leave();
}

void settle(State& state) {
  if (state.daemon.load() != 0) return;  // there each close is seen
  for (OpenFile& file : state.files) {
    if (file.used && process_is_dead(file.pid)) close_file(state, file);
  }
}

void release(State& state) {
  state.released.fetch_add(1);
  syscall(SYS_futex, &state.released, FUTEX_WAKE, static_cast<long>(INT_MAX), nullptr, nullptr, 0L);
}

void violate(State& state, const char* format, ...) {
  const std::uint64_t place = state.violations.fetch_add(1);
  if (place >= State::kept_violations) return;
  va_list arguments;
  va_start(arguments, format);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is initialised one line up
  std::vsnprintf(state.violation_texts[place].data(), state.violation_texts[place].size(), format, arguments);
  va_end(arguments);
}

namespace {

template <class Visit>
void each_counter(const State& state, Visit visit) {
  const Counters& counters = state.counters;
  visit("opens", counters.opens.load());
  for (const Name& call : call_names) {
    if (call.value != 0) visit(call.name, counters.ioctls[static_cast<std::size_t>(call.value) - 100].load());
  }
  visit("unknown", counters.ioctls[0].load());
  visit("requests", counters.requests.load());
  visit("bytes", counters.bytes.load());
  visit("zero-copy", counters.zero_copy.load());
  visit("misaligned", counters.misaligned.load());
  visit("no-zero-copy", counters.no_zero_copy.load());
  visit("pieces", counters.pieces.load());
  visit("errors", counters.errors.load());
  visit("files-open", counters.files_open.load());
  visit("sessions-open", counters.sessions_open.load());
  visit("sessions-peak", counters.sessions_peak.load());
  visit("hanging", std::uint64_t{state.hanging.load()});
  visit("violations", state.violations.load());
}

}  // namespace

void report(const State& state, std::FILE* out) {
  each_counter(state, [&](std::string_view name, std::uint64_t value) {
    std::fprintf(out, "%s %llu\n", name.data(), static_cast<unsigned long long>(value));
  });
}

std::uint64_t counter(const State& state, std::string_view name) {
  std::uint64_t found = ~std::uint64_t{0};
  each_counter(state, [&](std::string_view one, std::uint64_t value) {
    if (one == name) found = value;
  });
  return found;
}

}  // namespace sunxi::standin
