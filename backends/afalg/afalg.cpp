// SPDX-License-Identifier: Apache-2.0
// The backend: which driver serves an algorithm, the table of sessions, and one request.
#include "backends/afalg/afalg.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>

#include "backends/afalg/drivers.h"
#include "backends/afalg/session.h"

namespace sunxi {
namespace {

using afalg::Driver;
using afalg::Fault;
using afalg::Session;
using afalg::Step;

// A new algorithm is a row here. A cipher with other key sizes also needs them in takes_key, a mode with
// another rule for the next IV needs that rule in Session::crypt.
struct Algorithm {
  Cipher cipher;
  Mode mode;
  const char* kernel_name;
  const char* label;
};
constexpr std::array algorithms{
    Algorithm{Cipher::aes, Mode::ecb, "ecb(aes)", "AES-ECB"},
    Algorithm{Cipher::aes, Mode::cbc, "cbc(aes)", "AES-CBC"},
    Algorithm{Cipher::aes, Mode::ctr, "ctr(aes)", "AES-CTR"},
    Algorithm{Cipher::aes, Mode::xts, "xts(aes)", "AES-XTS"},
    Algorithm{Cipher::des3, Mode::ecb, "ecb(des3_ede)", "DES-EDE3-ECB"},
    Algorithm{Cipher::des3, Mode::cbc, "cbc(des3_ede)", "DES-EDE3-CBC"},
    Algorithm{Cipher::des, Mode::ecb, "ecb(des)", "DES-ECB"},
    Algorithm{Cipher::des, Mode::cbc, "cbc(des)", "DES-CBC"},
};

constexpr bool takes_key(Cipher cipher, Mode mode, std::size_t bytes) noexcept {
  switch (cipher) {
    case Cipher::aes:
      return mode == Mode::xts ? bytes == 32 || bytes == 64 : bytes == 16 || bytes == 24 || bytes == 32;
    case Cipher::des:
      return bytes == 8;
    case Cipher::des3:
      return bytes == 16 || bytes == 24;
  }
  return false;
}

// The index into `algorithms`.
constexpr std::optional<std::size_t> find_algorithm(const CipherSpec& spec) noexcept {
  const std::size_t block_bytes = spec.cipher == Cipher::aes ? 16 : 8;
  const std::size_t iv_bytes = spec.mode == Mode::ecb ? 0 : block_bytes;
  if (spec.block_bytes != block_bytes || spec.iv_bytes != iv_bytes ||
      !takes_key(spec.cipher, spec.mode, spec.key_bytes))
    return std::nullopt;
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    if (algorithms[i].cipher == spec.cipher && algorithms[i].mode == spec.mode) return i;
  }
  return std::nullopt;
}

// The name of an errno; strerror is translated, and not safe with threads.
class ErrorName {
 public:
  explicit ErrorName(int error) noexcept {
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
    };
    for (const Known& known : names) {
      if (known.error == error) name_ = known.name;
    }
    if (name_ == nullptr) {
      snprintf(number_.data(), number_.size(), "errno %d", error);
      name_ = number_.data();
    }
  }
  ErrorName(const ErrorName&) = delete;
  ErrorName& operator=(const ErrorName&) = delete;
  [[nodiscard]] const char* get() const noexcept { return name_; }

 private:
  const char* name_ = nullptr;
  std::array<char, 24> number_{};
};

const char* step_name(Step step) noexcept {
  switch (step) {
    case Step::socket:
      return "socket";
    case Step::bind:
      return "bind";
    case Step::set_key:
      return "setsockopt(ALG_SET_KEY)";
    case Step::accept:
      return "accept";
    case Step::send:
      return "sendmsg";
    case Step::receive:
      return "recv";
    case Step::none:
      break;
  }
  return "";
}

// Descriptors or memory are short: that may be over at the next request.
bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

// A refused key is a fault, not a missing algorithm: no key of AES is weak, so that something is wrong
// with the driver, and the router's back-off is the right answer. (Keys that may be refused do not come
// here: see Afalg::open.)
Outcome outcome_of(const Fault& fault) noexcept {
  if (is_shortage(fault.error)) return Outcome::busy;
  return fault.step == Step::set_key ? Outcome::failed : Outcome::unavailable;
}

// Why the backend is not used; each is told once per process and algorithm, or once per process where it
// meets all algorithms alike.
enum class Reason : std::uint8_t {
  list,
  no_driver,
  seccomp,
  socket,
  bind,
  set_key,
  accept,
  shortage,
  weak_key
};

// All that belongs to one process. Destructible however a fork freezes it (see PerProcess).
class State {
 public:
  explicit State(State* inherited);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  // Null: `busy` if all places are taken, or no memory.
  [[nodiscard]] Session* attach(const CipherSpec& spec, std::span<const std::uint8_t> key,
                                std::size_t algorithm) noexcept;
  void detach(Session* session) noexcept;

  [[nodiscard]] bool first(std::size_t algorithm, Reason reason) noexcept {
    if (reason == Reason::socket || reason == Reason::seccomp) algorithm = 0;
    const std::uint32_t bit = 1U << static_cast<unsigned>(reason);
    return (told_[algorithm].fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
  }

  struct Choice {
    std::mutex mutex;  // held for copies of a few bytes only
    std::atomic<bool> known{false};
    bool searching = false;
    std::uint64_t not_before = 0;  // Process::now()
    Driver driver;
    std::atomic<bool> served{false};
    std::atomic<bool> whole_blocks_only{false};  // the driver knows no ciphertext stealing
  };
  [[nodiscard]] Choice& choice(std::size_t algorithm) noexcept { return choices_[algorithm]; }

 private:
  std::size_t limit_;
  std::unique_ptr<std::atomic<Session*>[]> places_;
  std::mutex mutex_;      // of places_ and Session::users; no system call is made under it
  std::size_t used_ = 0;  // places in use are below
  std::array<Choice, algorithms.size()> choices_;
  std::array<std::atomic<std::uint32_t>, algorithms.size()> told_{};
};

// A sixteenth of the descriptors that the process may have. The table is searched from end to end, which
// sets the upper limit.
std::size_t session_limit() noexcept {
  constexpr std::size_t least = 4;
  constexpr std::size_t most = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return least;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / 16, least, most));
}

State::State(State* inherited)
    : limit_(session_limit()), places_(std::make_unique<std::atomic<Session*>[]>(limit_)) {
  if (inherited == nullptr) return;
  // The parent's sockets: closed here, used by the parent only. The exchange lets one thread alone close
  // them. What the parent found out about drivers holds here too, where /proc may be out of reach.
  for (std::size_t i = 0; i < inherited->limit_; ++i)
    delete inherited->places_[i].exchange(nullptr, std::memory_order_acq_rel);
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (!inherited->choices_[i].known.load(std::memory_order_acquire)) continue;
    choices_[i].driver = inherited->choices_[i].driver;
    choices_[i].whole_blocks_only = inherited->choices_[i].whole_blocks_only.load(std::memory_order_relaxed);
    choices_[i].known.store(true, std::memory_order_release);
  }
}

State::~State() {
  for (std::size_t i = 0; i < limit_; ++i) delete places_[i].exchange(nullptr, std::memory_order_acq_rel);
}

Session* State::attach(const CipherSpec& spec, std::span<const std::uint8_t> key,
                       std::size_t algorithm) noexcept {
  const std::size_t limit = std::min(limit_, session_limit());  // it may have been lowered since
  const std::lock_guard lock(mutex_);
  std::size_t place = used_;
  for (std::size_t i = 0; i < used_; ++i) {
    Session* session = places_[i].load(std::memory_order_relaxed);
    if (session == nullptr) {
      place = std::min(place, i);
    } else if (session->matches(spec, key)) {
      ++session->users;
      return session;
    }
  }
  if (place >= limit) return nullptr;
  auto* session = new (std::nothrow) Session(spec, key, algorithm, place);
  if (session == nullptr) return nullptr;
  places_[place].store(session, std::memory_order_release);
  used_ = std::max(used_, place + 1);
  return session;
}

void State::detach(Session* session) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (--session->users != 0) return;
  }
  // Nobody finds it any more. Closed while its place still shows it, so that a child of a fork in between
  // closes its copy.
  (void)session->close();
  {
    const std::lock_guard lock(mutex_);
    places_[session->place()].store(nullptr, std::memory_order_release);
    while (used_ > 0 && places_[used_ - 1].load(std::memory_order_relaxed) == nullptr) --used_;
  }
  delete session;
}

class Held {
 public:
  Held(Session& session, std::size_t length) noexcept : session_(session), held_(session.acquire(length)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    if (held_) session_.yield();
  }
  [[nodiscard]] explicit operator bool() const noexcept { return held_; }

 private:
  Session& session_;
  bool held_;
};

// The text of a file of unknown size, as far as it fits.
class FileText {
 public:
  // 0 or the errno.
  [[nodiscard]] int read(const char* path) noexcept {
    constexpr std::size_t most = std::size_t{1} << 20U;
    const int number = ::open(path, O_RDONLY | O_CLOEXEC);
    if (number < 0) return errno;
    const Descriptor file(number);
    text_.reset(new (std::nothrow) char[most]);
    if (!text_) return ENOMEM;
    while (used_ < most) {
      const ssize_t got = ::read(number, text_.get() + used_, most - used_);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return errno;
      if (got == 0) break;
      used_ += static_cast<std::size_t>(got);
    }
    return 0;
  }
  [[nodiscard]] std::string_view get() const noexcept { return {text_.get(), used_}; }

 private:
  std::unique_ptr<char[]> text_;
  std::size_t used_ = 0;
};

class Afalg final : public Backend {
 public:
  Afalg(Process& process, const BackendOptions& options, const char* proc_crypto) noexcept
      : process_(process),
        accelerated_only_(options.accelerated_only),
        under_seccomp_(options.under_seccomp),
        proc_crypto_(proc_crypto) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "afalg"; }
  [[nodiscard]] bool supports(const CipherSpec& spec) const noexcept override {
    return find_algorithm(spec).has_value();
  }
  [[nodiscard]] Result crypt(KeySlot& slot, const CipherRequest& request) noexcept override;
  void release(KeySlot& slot) noexcept override;
  void driver(const CipherSpec& spec, std::span<char> text) const noexcept override;

 private:
  [[nodiscard]] Result use(Session& session, const CipherRequest& request, std::uint64_t generation,
                           bool look) noexcept;
  [[nodiscard]] Outcome attach(KeySlot& slot, const CipherRequest& request,
                               std::uint64_t generation) noexcept;
  [[nodiscard]] Outcome open(State& state, Session& session) noexcept;
  [[nodiscard]] Outcome choose(State& state, std::size_t algorithm, Driver& driver) noexcept;
  [[nodiscard]] Outcome search(State& state, std::size_t algorithm, Driver& driver) noexcept;
  [[nodiscard]] Outcome refused(State& state, std::size_t algorithm, const char* driver,
                                const Fault& fault) noexcept;

  Process& process_;
  const bool accelerated_only_;
  const bool under_seccomp_;
  const char* const proc_crypto_;
  PerProcess<State> states_;
};

Result Afalg::crypt(KeySlot& slot, const CipherRequest& request) noexcept {
  const ErrnoGuard guard;
  // At each request: whoever enters a sandbox does so without telling. Nothing below may be called there.
  if (process_.sandboxed()) return {.outcome = Outcome::unavailable, .done = 0};
  const std::uint64_t generation = process_.generation();
  bool look = false;
  if (slot.session == nullptr || slot.generation != generation) [[unlikely]] {
    slot.session = nullptr;
    const Outcome outcome = attach(slot, request, generation);
    if (outcome != Outcome::served) return {.outcome = outcome, .done = 0};
    look = true;
  }
  const Result result = use(*static_cast<Session*>(slot.session), request, generation, look);
  // A session that cannot be opened would only take a place and hold a copy of the key.
  if (result.outcome == Outcome::unavailable) release(slot);
  return result;
}

Result Afalg::use(Session& session, const CipherRequest& request, std::uint64_t generation,
                  bool look) noexcept {
  const Held held(session, request.length);
  if (!held) return {.outcome = Outcome::busy, .done = 0};
  const bool steals = (request.length & (request.spec.block_bytes - 1U)) != 0;
  if (steals) [[unlikely]] {
    State* state = states_.peek(generation);
    if (state != nullptr &&
        state->choice(session.algorithm()).whole_blocks_only.load(std::memory_order_relaxed))
      return {.outcome = Outcome::busy, .done = 0};
  }
  CipherRequest rest = request;
  Result result{.outcome = Outcome::unavailable, .done = 0};
  for (int attempt = 0;; ++attempt) {
    switch (session.state(process_.now(), look)) {
      case Session::State::ready:
        break;
      case Session::State::sandboxed:
        result.outcome = Outcome::unavailable;
        return result;
      case Session::State::closed:
        State* state = states_.peek(generation);
        result.outcome = state == nullptr ? Outcome::unavailable : open(*state, session);
        if (result.outcome != Outcome::served) return result;
    }
    Fault fault;
    const Result part = session.crypt(rest, fault);
    result.outcome = part.outcome;
    result.done += part.done;
    if (!session.has_served && part.done != 0) [[unlikely]] {
      session.has_served = true;
      if (State* state = states_.peek(generation); state != nullptr)
        state->choice(session.algorithm()).served.store(true, std::memory_order_relaxed);
    }
    if (!fault) [[likely]]
      return result;
    // If the descriptor had been taken from us, that was no fault of the driver: once more with a new one.
    if (session.close() && attempt == 0) {
      rest.in += part.done;
      rest.out += part.done;
      rest.length -= part.done;
      continue;
    }
    // Ciphertext stealing is not known to kernels before 5.4, nor to every driver since; all else is well.
    if (steals && fault.step == Step::receive && fault.error == EINVAL) {
      if (State* state = states_.peek(generation); state != nullptr)
        state->choice(session.algorithm()).whole_blocks_only.store(true, std::memory_order_relaxed);
      return {.outcome = Outcome::busy, .done = 0};
    }
    process_.log(LogLevel::error, "afalg: %s (%s): %s: %s", algorithms[session.algorithm()].label,
                 session.driver().name.data(), step_name(fault.step), ErrorName(fault.error).get());
    return result;
  }
}

Outcome Afalg::attach(KeySlot& slot, const CipherRequest& request, std::uint64_t generation) noexcept {
  const auto algorithm = find_algorithm(request.spec);
  if (!algorithm || request.key.size() != request.spec.key_bytes) return Outcome::unsupported;
  State* state = states_.get(generation);
  if (state == nullptr) return Outcome::busy;
  Session* session = state->attach(request.spec, request.key, *algorithm);
  if (session == nullptr) return Outcome::busy;
  slot.session = session;
  slot.generation = generation;
  return Outcome::served;
}

void Afalg::release(KeySlot& slot) noexcept {
  auto* session = static_cast<Session*>(slot.session);
  slot.session = nullptr;
  if (session == nullptr) return;
  const ErrnoGuard guard;
  const std::uint64_t generation = process_.generation();
  if (slot.generation != generation) return;
  if (State* state = states_.peek(generation); state != nullptr) state->detach(session);
}

void Afalg::driver(const CipherSpec& spec, std::span<char> text) const noexcept {
  if (text.empty()) return;
  text[0] = '\0';
  const auto algorithm = find_algorithm(spec);
  State* state = states_.peek(process_.generation());
  if (!algorithm || state == nullptr) return;
  State::Choice& choice = state->choice(*algorithm);
  if (!choice.served.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(choice.mutex);
  const std::size_t length =
      std::min(strnlen(choice.driver.name.data(), choice.driver.name.size()), text.size() - 1);
  std::memcpy(text.data(), choice.driver.name.data(), length);
  text[length] = '\0';
}

// Called with the session held, and not in a sandbox. Loading modules and their self tests can take seconds
// in bind.
Outcome Afalg::open(State& state, Session& session) noexcept {
  if (session.key_refused) return Outcome::busy;
  const std::size_t algorithm = session.algorithm();
  if (!under_seccomp_ && Process::filtered()) {
    if (state.first(algorithm, Reason::seccomp))
      process_.log(
          LogLevel::info,
          "afalg is not used: a seccomp filter, or /proc/self/status unreadable (under_seccomp = use)");
    return Outcome::unavailable;
  }
  Driver driver;
  if (const Outcome outcome = choose(state, algorithm, driver); outcome != Outcome::served) return outcome;
  const Fault fault = session.open(driver, process_.now());
  if (!fault) return Outcome::served;
  // A weak key, or one that FIPS mode forbids: nothing is wrong with the driver, and other keys may do. The
  // session stays, so that this key is not tried at each request.
  if (fault.step == Step::set_key &&
      (fault.error == EINVAL || fault.error == ENOKEY || fault.error == EKEYREJECTED) &&
      session.may_be_weak()) {
    session.key_refused = true;
    if (state.first(algorithm, Reason::weak_key))
      process_.log(LogLevel::info, "afalg: %s (%s): a key was refused: %s", algorithms[algorithm].label,
                   driver.name.data(), ErrorName(fault.error).get());
    return Outcome::busy;
  }
  if (fault.step == Step::bind && !is_shortage(fault.error)) {
    // The driver is gone: look for another at the next request.
    State::Choice& choice = state.choice(algorithm);
    const std::lock_guard lock(choice.mutex);
    choice.known.store(false, std::memory_order_release);
  }
  return refused(state, algorithm, driver.name.data(), fault);
}

Outcome Afalg::refused(State& state, std::size_t algorithm, const char* driver, const Fault& fault) noexcept {
  const Outcome outcome = outcome_of(fault);
  const char* label = algorithms[algorithm].label;
  const ErrorName error(fault.error);
  if (state.choice(algorithm).served.load(std::memory_order_relaxed) && outcome != Outcome::busy) {
    process_.log(LogLevel::error, "afalg: %s (%s): %s: %s", label, driver, step_name(fault.step),
                 error.get());
    return outcome;
  }
  Reason reason = Reason::shortage;
  if (outcome != Outcome::busy) {
    switch (fault.step) {
      case Step::socket:
        reason = Reason::socket;
        break;
      case Step::bind:
        reason = Reason::bind;
        break;
      case Step::set_key:
        reason = Reason::set_key;
        break;
      default:
        reason = Reason::accept;
    }
  }
  if (!state.first(algorithm, reason)) return outcome;
  if (reason == Reason::socket && fault.error == EAFNOSUPPORT) {
    process_.log(LogLevel::info, "afalg is not used: no AF_ALG: this kernel answers EAFNOSUPPORT");
  } else if (reason == Reason::socket) {
    process_.log(LogLevel::info, "afalg is not used: no AF_ALG: socket answers %s", error.get());
  } else {
    process_.log(LogLevel::info, "afalg is not used for %s: %s: %s answers %s", label, driver,
                 step_name(fault.step), error.get());
  }
  return outcome;
}

// One thread searches, the others are told `busy` meanwhile.
Outcome Afalg::choose(State& state, std::size_t algorithm, Driver& driver) noexcept {
  constexpr std::uint64_t pause = 1'000'000'000;
  State::Choice& choice = state.choice(algorithm);
  {
    const std::lock_guard lock(choice.mutex);
    if (choice.known.load(std::memory_order_relaxed)) {
      driver = choice.driver;
      return Outcome::served;
    }
    if (choice.searching) return Outcome::busy;
    if (choice.not_before != 0 && process_.now() < choice.not_before) return Outcome::unavailable;
    choice.searching = true;
  }
  const Outcome outcome = search(state, algorithm, driver);
  const std::lock_guard lock(choice.mutex);
  choice.searching = false;
  choice.not_before = outcome == Outcome::unavailable ? process_.now() + pause : 0;
  if (outcome == Outcome::served) {
    choice.driver = driver;
    choice.known.store(true, std::memory_order_release);
  }
  return outcome;
}

// With accelerated_only the list alone decides, so that nothing is opened and no module is loaded where no
// hardware is. Else the kernel's choice is made by binding to the algorithm, which also makes the kernel
// build drivers out of templates; then the list tells which driver that was.
Outcome Afalg::search(State& state, std::size_t algorithm, Driver& driver) noexcept {
  const Algorithm& wanted = algorithms[algorithm];
  Descriptor socket;
  if (!accelerated_only_) {
    if (const Fault fault = afalg::bind_cipher(socket, wanted.kernel_name))
      return refused(state, algorithm, wanted.kernel_name, fault);
  }
  FileText list;
  const int error = list.read(proc_crypto_);
  std::optional<afalg::CryptoEntry> best;
  if (error == 0) best = afalg::best_driver(list.get(), wanted.kernel_name, accelerated_only_);
  if (best && best->driver.size() >= driver.name.size()) best.reset();

  driver = {};
  if (best) std::copy(best->driver.begin(), best->driver.end(), driver.name.begin());
  if (accelerated_only_ && !best) {
    if (is_shortage(error)) return Outcome::busy;
    if (error != 0) {
      if (state.first(algorithm, Reason::list))
        process_.log(LogLevel::info, "afalg is not used for %s: %s cannot be read: %s", wanted.label,
                     proc_crypto_, ErrorName(error).get());
    } else if (state.first(algorithm, Reason::no_driver)) {
      process_.log(LogLevel::info,
                   "afalg is not used for %s: no hardware driver in %s (accelerated_only = no takes any)",
                   wanted.label, proc_crypto_);
    }
    return Outcome::unavailable;
  }
  // A kernel may allow the name of the algorithm and not the driver's own (Linux 7.3).
  if (!accelerated_only_ && (!best || afalg::bind_cipher(socket, driver.name.data()))) {
    driver = {};
    std::strncpy(driver.name.data(), wanted.kernel_name, driver.name.size() - 1);
  }
  driver.traits = afalg::driver_traits(best ? best->driver : std::string_view{});
  return Outcome::served;
}

}  // namespace

std::unique_ptr<Backend> make_afalg_backend_with(Process& process, const BackendOptions& options,
                                                 const char* proc_crypto) {
  return std::make_unique<Afalg>(process, options, proc_crypto);
}

std::unique_ptr<Backend> make_afalg_backend(Process& process, const BackendOptions& options) {
  return make_afalg_backend_with(process, options, "/proc/crypto");
}

}  // namespace sunxi
