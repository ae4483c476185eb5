// SPDX-License-Identifier: Apache-2.0
// The backend: which driver serves an algorithm, and one request.
#include "backends/afalg/afalg.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "backends/afalg/algorithms.h"
#include "backends/afalg/drivers.h"
#include "backends/afalg/hash_session.h"
#include "backends/afalg/session.h"
#include "backends/afalg/socket.h"
#include "backends/afalg/state.h"
#include "backends/kernel/error.h"

namespace sunxi {
namespace {

using afalg::Among;
using afalg::Driver;
using afalg::Fault;
using afalg::find_algorithm;
using afalg::HashSession;
using afalg::Reason;
using afalg::Session;
using afalg::State;
using afalg::Step;
using afalg::step_name;
using kernel::ErrorName;
using kernel::Held;
using kernel::is_refused_key;
using kernel::is_shortage;

// A refused key is a fault, not a missing algorithm: no key of AES is weak, so that something is wrong
// with the driver, and the router's back-off is the right answer. (Keys that may be refused do not come
// here: see Afalg::open.)
Outcome outcome_of(const Fault& fault) noexcept {
  if (is_shortage(fault.error)) return Outcome::busy;
  return fault.step == Step::set_key ? Outcome::failed : Outcome::unavailable;
}

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
  void driver(const CipherSpec& spec, std::span<char> text) const noexcept override {
    name_driver(find_algorithm(spec), text);
  }

  [[nodiscard]] DigestWay digest_way(const DigestSpec& spec) const noexcept override {
    return find_algorithm(spec) ? DigestWay::messages : DigestWay::none;
  }
  [[nodiscard]] Outcome extend(KeySlot& slot, const DigestSpec& spec, const std::uint8_t* in,
                               std::size_t length) noexcept override;
  [[nodiscard]] Outcome conclude(KeySlot& slot, const DigestSpec& spec, std::uint8_t* out) noexcept override;
  void abandon(KeySlot& slot) noexcept override;
  [[nodiscard]] Outcome clone(const KeySlot& slot, KeySlot& copy) noexcept override;
  void digest_driver(const DigestSpec& spec, std::span<char> text) const noexcept override {
    name_driver(find_algorithm(spec), text);
  }

 private:
  [[nodiscard]] Result use(Session& session, const CipherRequest& request, std::uint64_t generation,
                           bool look) noexcept;
  [[nodiscard]] Outcome attach(KeySlot& slot, const CipherRequest& request,
                               std::uint64_t generation) noexcept;
  [[nodiscard]] Outcome open(State& state, Session& session) noexcept;
  [[nodiscard]] bool is_filtered(State& state, std::size_t algorithm) noexcept;
  [[nodiscard]] Outcome begin(KeySlot& slot, const DigestSpec& spec, const std::uint8_t* in,
                              std::size_t length) noexcept;
  [[nodiscard]] Outcome obtain(HashSession*& session, std::size_t algorithm, std::uint64_t generation,
                               bool look) noexcept;
  [[nodiscard]] Outcome check(State* state, KeySlot& slot, bool look) noexcept;
  [[nodiscard]] Outcome lose(State& state, KeySlot& slot, const Fault& fault) noexcept;
  void forget_driver(State& state, std::size_t algorithm, const Fault& fault) noexcept;
  void name_driver(std::optional<std::size_t> algorithm, std::span<char> text) const noexcept;
  static void copy_name(State::Choice& choice, std::span<char> text) noexcept;
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
    process_.log(LogLevel::error, "afalg: %s (%s): %s: %s", afalg::algorithm(session.algorithm()).label,
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

void Afalg::name_driver(std::optional<std::size_t> algorithm, std::span<char> text) const noexcept {
  if (text.empty()) return;
  text[0] = '\0';
  State* state = states_.peek(process_.generation());
  if (!algorithm || state == nullptr) return;
  State::Choice& choice = state->choice(*algorithm);
  if (choice.served.load(std::memory_order_relaxed)) copy_name(choice, text);
}

void Afalg::copy_name(State::Choice& choice, std::span<char> text) noexcept {
  const std::lock_guard lock(choice.mutex);
  const std::size_t length =
      std::min(strnlen(choice.driver.name.data(), choice.driver.name.size()), text.size() - 1);
  std::memcpy(text.data(), choice.driver.name.data(), length);
  text[length] = '\0';
}

bool Afalg::is_filtered(State& state, std::size_t algorithm) noexcept {
  if (under_seccomp_ || !Process::filtered()) return false;
  if (state.first(algorithm, Reason::seccomp))
    process_.log(
        LogLevel::info,
        "afalg is not used: a seccomp filter, or /proc/self/status unreadable (under_seccomp = use)");
  return true;
}

// After a refused bind: the driver is gone, and another is looked for at the next request.
void Afalg::forget_driver(State& state, std::size_t algorithm, const Fault& fault) noexcept {
  if (fault.step != Step::bind || is_shortage(fault.error)) return;
  State::Choice& choice = state.choice(algorithm);
  const std::lock_guard lock(choice.mutex);
  choice.known.store(false, std::memory_order_release);
}

// Called with the session held, and not in a sandbox. Loading modules and their self tests can take seconds
// in bind.
Outcome Afalg::open(State& state, Session& session) noexcept {
  if (session.key_refused) return Outcome::busy;
  const std::size_t algorithm = session.algorithm();
  if (is_filtered(state, algorithm)) return Outcome::unavailable;
  Driver driver;
  if (const Outcome outcome = choose(state, algorithm, driver); outcome != Outcome::served) return outcome;
  const Fault fault = session.open(driver, process_.now());
  if (!fault) return Outcome::served;
  // A weak key, or one that FIPS mode forbids: nothing is wrong with the driver, and other keys may do. The
  // session stays, so that this key is not tried at each request.
  if (fault.step == Step::set_key && is_refused_key(fault.error) && session.may_be_weak()) {
    session.key_refused = true;
    if (state.first(algorithm, Reason::weak_key))
      process_.log(LogLevel::info, "afalg: %s (%s): a key was refused: %s", afalg::algorithm(algorithm).label,
                   driver.name.data(), ErrorName(fault.error).get());
    return Outcome::busy;
  }
  forget_driver(state, algorithm, fault);
  return refused(state, algorithm, driver.name.data(), fault);
}

Outcome Afalg::refused(State& state, std::size_t algorithm, const char* driver, const Fault& fault) noexcept {
  const Outcome outcome = outcome_of(fault);
  const char* label = afalg::algorithm(algorithm).label;
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
  const afalg::Algorithm& wanted = afalg::algorithm(algorithm);
  Descriptor socket;
  if (!accelerated_only_) {
    if (const Fault fault = afalg::bind_socket(socket, wanted.type, wanted.kernel_name))
      return refused(state, algorithm, wanted.kernel_name, fault);
  }
  FileText list;
  const int error = list.read(proc_crypto_);
  std::optional<afalg::CryptoEntry> best;
  if (error == 0)
    best = afalg::best_driver(list.get(), wanted.type, wanted.kernel_name,
                              accelerated_only_ ? Among::hardware : Among::all);
  if (best && best->driver.size() >= driver.name.size()) best.reset();

  driver = {};
  if (best) std::copy(best->driver.begin(), best->driver.end(), driver.name.begin());
  if (accelerated_only_ && !best) {
    if (is_shortage(error)) return Outcome::busy;
    if (error != 0) {
      if (state.first(algorithm, Reason::list))
        process_.log(LogLevel::info, "afalg is not used for %s: %s cannot be read: %s", wanted.label,
                     proc_crypto_, ErrorName(error).get());
    } else if (const auto useless = afalg::best_driver(list.get(), wanted.type, wanted.kernel_name,
                                                       Among::whole_messages_only)) {
      if (state.first(algorithm, Reason::whole_messages_only))
        process_.log(LogLevel::info,
                     "afalg is not used for %s: %.*s hashes a message in pieces by software of the kernel",
                     wanted.label, static_cast<int>(useless->driver.size()), useless->driver.data());
      return Outcome::unsupported;
    } else if (state.first(algorithm, Reason::no_driver)) {
      process_.log(LogLevel::info,
                   "afalg is not used for %s: no hardware driver in %s (accelerated_only = no takes any)",
                   wanted.label, proc_crypto_);
    }
    return Outcome::unavailable;
  }
  // A kernel may allow the name of the algorithm and not the driver's own (Linux 7.3).
  if (!accelerated_only_ && (!best || afalg::bind_socket(socket, wanted.type, driver.name.data()))) {
    driver = {};
    std::strncpy(driver.name.data(), wanted.kernel_name, driver.name.size() - 1);
  }
  driver.traits = afalg::driver_traits(best ? best->driver : std::string_view{});
  return Outcome::served;
}

// ---- Digests -------------------------------------------------------------------------------------

Outcome Afalg::extend(KeySlot& slot, const DigestSpec& spec, const std::uint8_t* in,
                      std::size_t length) noexcept {
  const ErrnoGuard guard;
  if (slot.session == nullptr) return begin(slot, spec, in, length);
  State* const state = states_.peek(process_.generation());
  if (const Outcome outcome = check(state, slot, false); outcome != Outcome::served) return outcome;
  const Fault fault = static_cast<HashSession*>(slot.session)->extend(in, length);
  return fault ? lose(*state, slot, fault) : Outcome::served;
}

Outcome Afalg::conclude(KeySlot& slot, const DigestSpec& spec, std::uint8_t* out) noexcept {
  const ErrnoGuard guard;
  if (slot.session == nullptr) {
    if (const Outcome outcome = begin(slot, spec, nullptr, 0); outcome != Outcome::served) return outcome;
  }
  State* const state = states_.peek(process_.generation());
  if (const Outcome outcome = check(state, slot, true); outcome != Outcome::served) return outcome;
  auto* const session = static_cast<HashSession*>(slot.session);
  if (const Fault fault = session->conclude(out)) return lose(*state, slot, fault);
  slot = {};
  state->put_back(session);
  return Outcome::served;
}

void Afalg::abandon(KeySlot& slot) noexcept {
  if (slot.session == nullptr) return;
  const ErrnoGuard guard;
  State* const state = states_.peek(process_.generation());
  if (check(state, slot, true) != Outcome::served) return;
  auto* const session = static_cast<HashSession*>(std::exchange(slot, {}).session);
  if (session->abandon()) {
    state->remove(session);
  } else {
    state->put_back(session);
  }
}

Outcome Afalg::clone(const KeySlot& slot, KeySlot& copy) noexcept {
  const ErrnoGuard guard;
  copy = {};
  const std::uint64_t generation = process_.generation();
  State* const state = states_.peek(generation);
  if (slot.session == nullptr) return Outcome::unavailable;
  if (slot.generation != generation || state == nullptr) return Outcome::busy;
  // Applications copy one context in several threads at once. A number that was taken stays in the slot,
  // whose next call finds that out.
  auto* const original = static_cast<HashSession*>(slot.session);
  switch (original->look()) {
    case HashSession::State::ready:
      break;
    case HashSession::State::sandboxed:
      return Outcome::unavailable;
    case HashSession::State::closed:
      return Outcome::busy;
  }
  HashSession* const session = state->add(kernel::MessageStart::copy, original->algorithm());
  if (session == nullptr) return Outcome::busy;
  const Fault fault = session->open(*original, process_.now());
  if (!fault) {
    copy = {.session = session, .generation = generation};
    return Outcome::served;
  }
  state->remove(session);
  if (is_shortage(fault.error)) return Outcome::busy;
  if (state->first(original->algorithm(), Reason::clone))
    process_.log(LogLevel::info, "afalg: %s: a message cannot be duplicated: %s answers %s",
                 afalg::algorithm(original->algorithm()).label, step_name(fault.step),
                 ErrorName(fault.error).get());
  return Outcome::unavailable;
}

// Whether the slot's session still is usable; if not, the slot is empty. A number that was taken from us is
// no fault of the driver's, but the message is lost with it.
Outcome Afalg::check(State* state, KeySlot& slot, bool look) noexcept {
  auto* const session = static_cast<HashSession*>(slot.session);
  if (state == nullptr || slot.generation != process_.generation()) {
    slot = {};
    return Outcome::busy;
  }
  const HashSession::State found =
      !look && process_.sandboxed() ? HashSession::State::sandboxed : session->state(process_.now(), look);
  if (found == HashSession::State::ready) [[likely]]
    return Outcome::served;
  slot = {};
  state->remove(session);
  return found == HashSession::State::sandboxed ? Outcome::unavailable : Outcome::busy;
}

Outcome Afalg::lose(State& state, KeySlot& slot, const Fault& fault) noexcept {
  auto* const session = static_cast<HashSession*>(std::exchange(slot, {}).session);
  const std::size_t algorithm = session->algorithm();
  if (state.remove(session)) return Outcome::busy;
  std::array<char, 64> driver{};
  copy_name(state.choice(algorithm), driver);
  process_.log(LogLevel::error, "afalg: %s (%s): %s: %s", afalg::algorithm(algorithm).label, driver.data(),
               step_name(fault.step), ErrorName(fault.error).get());
  return Outcome::failed;
}

Outcome Afalg::begin(KeySlot& slot, const DigestSpec& spec, const std::uint8_t* in,
                     std::size_t length) noexcept {
  const auto algorithm = find_algorithm(spec);
  if (!algorithm) return Outcome::unsupported;
  const std::uint64_t generation = process_.generation();
  for (int attempt = 0;; ++attempt) {
    HashSession* session = nullptr;
    if (const Outcome outcome = obtain(session, *algorithm, generation, attempt != 0);
        outcome != Outcome::served)
      return outcome;
    State& state = *states_.peek(generation);
    slot = {.session = session, .generation = generation};
    const Fault fault = session->extend(in, length);
    if (!fault) [[likely]] {
      std::atomic<bool>& served = state.choice(*algorithm).served;
      if (!served.load(std::memory_order_relaxed)) served.store(true, std::memory_order_relaxed);
      return Outcome::served;
    }
    // The whole message is at hand: where the descriptor had been taken from us, it starts once more, and all
    // of the pool are looked at, which may have gone the same way.
    const Outcome outcome = lose(state, slot, fault);
    if (outcome != Outcome::busy || attempt != 0) return outcome;
  }
}

// A session without a message that is known to be ours: out of the pool, or opened.
Outcome Afalg::obtain(HashSession*& session, std::size_t algorithm, std::uint64_t generation,
                      bool look) noexcept {
  if (process_.sandboxed()) return Outcome::unavailable;
  State* const state = states_.get(generation);
  if (state == nullptr) return Outcome::busy;
  while ((session = state->take(algorithm)) != nullptr) {
    const HashSession::State found = session->state(process_.now(), look);
    if (found == HashSession::State::ready) [[likely]]
      return Outcome::served;
    state->remove(session);
    if (found == HashSession::State::sandboxed) return Outcome::unavailable;
  }
  if (is_filtered(*state, algorithm)) return Outcome::unavailable;
  Driver driver;
  if (const Outcome outcome = choose(*state, algorithm, driver); outcome != Outcome::served) return outcome;
  session = state->add(kernel::MessageStart::nothing, algorithm);
  if (session == nullptr) return Outcome::busy;
  const Fault fault = session->open(driver, process_.now());
  if (!fault) return Outcome::served;
  state->remove(session);
  forget_driver(*state, algorithm, fault);
  return refused(*state, algorithm, driver.name.data(), fault);
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
