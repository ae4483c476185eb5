// SPDX-License-Identifier: Apache-2.0
// The backend: whether a driver is one to be used, and one request.
#include "backends/cryptodev/cryptodev.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "backends/cryptodev/algorithms.h"
#include "backends/cryptodev/device.h"
#include "backends/cryptodev/hash_session.h"
#include "backends/cryptodev/session.h"
#include "backends/cryptodev/state.h"
#include "backends/kernel/error.h"
#include "backends/kernel/keyed_session.h"

namespace sunxi {
namespace {

using cryptodev::Fault;
using cryptodev::find_algorithm;
using cryptodev::HashSession;
using cryptodev::KernelSession;
using cryptodev::Reason;
using cryptodev::Session;
using cryptodev::State;
using cryptodev::Step;
using cryptodev::step_name;
using kernel::ErrorName;
using kernel::Held;
using kernel::is_refused_key;
using kernel::is_shortage;

bool is_absent(int error) noexcept {
  return error == ENOENT || error == ENXIO || error == ENODEV || error == ENOTDIR;
}

// What a file answers that is no device of cryptodev-linux.
bool is_unknown_call(int error) noexcept {
  return error == ENOTTY || error == ENOSYS || error == EOPNOTSUPP;
}

// Of what went wrong when something was opened. The module answers EINVAL to an algorithm that the kernel
// does not have and to a key that the driver does not take. (Keys that may be refused do not come here: see
// Cryptodev::open.)
Outcome outcome_of(const Fault& fault) noexcept {
  if (is_shortage(fault.error) || fault.step == Step::limit) return Outcome::busy;
  if (fault.step == Step::open || fault.step == Step::file_type) return Outcome::unavailable;
  const int error = fault.error;
  return error == EINVAL || error == EPERM || error == EACCES || error == EBADF || is_absent(error) ||
                 is_unknown_call(error)
             ? Outcome::unavailable
             : Outcome::failed;
}

class Cryptodev final : public Backend {
 public:
  Cryptodev(Process& process, const BackendOptions& options, const char* path) noexcept
      : process_(process),
        accelerated_only_(options.accelerated_only),
        under_seccomp_(options.under_seccomp),
        path_(path) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "cryptodev"; }
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
  [[nodiscard]] Outcome attach(KeySlot& slot, const CipherRequest& request,
                               std::uint64_t generation) noexcept;
  [[nodiscard]] Result use(Session& session, const CipherRequest& request, std::uint64_t generation,
                           bool look) noexcept;
  [[nodiscard]] Outcome open(State& state, Session& session) noexcept;
  [[nodiscard]] Outcome open(State& state, HashSession& session, cryptodev::Device* beside) noexcept;
  [[nodiscard]] Outcome may_open(State& state, std::size_t algorithm) noexcept;
  [[nodiscard]] Outcome judge(State& state, std::size_t algorithm, KernelSession& session) noexcept;
  [[nodiscard]] Outcome refused(State& state, std::size_t algorithm, const Fault& fault) noexcept;
  void report(std::size_t algorithm, const char* driver, const Fault& fault) noexcept;
  [[nodiscard]] Outcome begin(KeySlot& slot, const DigestSpec& spec) noexcept;
  [[nodiscard]] Outcome append(State& state, HashSession& session, const std::uint8_t* in,
                               std::size_t length) noexcept;
  template <class Call>
  [[nodiscard]] Outcome call(State& state, HashSession& session, Call&& call) noexcept;
  [[nodiscard]] State* state_of(KeySlot& slot) noexcept;
  void name_driver(std::optional<std::size_t> algorithm, std::span<char> text) const noexcept;

  Process& process_;
  const bool accelerated_only_;
  const bool under_seccomp_;
  const char* const path_;
  PerProcess<State> states_;
};

// ---- Ciphers ---------------------------------------------------------------------------------------

Result Cryptodev::crypt(KeySlot& slot, const CipherRequest& request) noexcept {
  const ErrnoGuard guard;
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

Outcome Cryptodev::attach(KeySlot& slot, const CipherRequest& request, std::uint64_t generation) noexcept {
  const auto algorithm = find_algorithm(request.spec);
  if (!algorithm || request.key.size() != request.spec.key_bytes) return Outcome::unsupported;
  if (process_.sandboxed()) return Outcome::unavailable;
  State* const state = states_.get(generation, process_, generation, path_);
  if (state == nullptr) return Outcome::busy;
  Session* const session = state->attach(request.spec, request.key, *algorithm);
  if (session == nullptr) return Outcome::busy;
  slot.session = session;
  slot.generation = generation;
  return Outcome::served;
}

Result Cryptodev::use(Session& session, const CipherRequest& request, std::uint64_t generation,
                      bool look) noexcept {
  const Held held(session, request.length);
  if (!held) return {.outcome = Outcome::busy, .done = 0};
  CipherRequest rest = request;
  Result result{.outcome = Outcome::unavailable, .done = 0};
  for (int attempt = 0;; ++attempt) {
    switch (session.kernel().state(process_.now(), look)) {
      case KernelSession::State::ready:
        break;
      case KernelSession::State::sandboxed:
        result.outcome = Outcome::unavailable;
        return result;
      case KernelSession::State::closed:
        State* const state = states_.peek(generation);
        result.outcome = state == nullptr ? Outcome::unavailable : open(*state, session);
        if (result.outcome != Outcome::served) return result;
    }
    Fault fault;
    const Result part = session.crypt(rest, fault);
    result.outcome = part.outcome;
    result.done += part.done;
    if (!session.has_served && part.done != 0) [[unlikely]] {
      session.has_served = true;
      if (State* const state = states_.peek(generation); state != nullptr)
        state->choice(session.algorithm()).served.store(true, std::memory_order_relaxed);
    }
    if (!fault) [[likely]]
      return result;
    // If the file was not ours any more, or has lost the session, that was no fault of the driver: once more.
    if (session.kernel().is_gone(fault) && attempt == 0) {
      rest.in += part.done;
      rest.out += part.done;
      rest.length -= part.done;
      continue;
    }
    (void)session.close();
    report(session.algorithm(), session.kernel().driver(), fault);
    return result;
  }
}

void Cryptodev::release(KeySlot& slot) noexcept {
  auto* const session = static_cast<Session*>(std::exchange(slot.session, nullptr));
  if (session == nullptr) return;
  const ErrnoGuard guard;
  const std::uint64_t generation = process_.generation();
  if (slot.generation != generation) return;
  if (State* const state = states_.peek(generation); state != nullptr) state->detach(session);
}

// ---- Opening sessions ------------------------------------------------------------------------------

// Called with the session held.
Outcome Cryptodev::open(State& state, Session& session) noexcept {
  if (session.key_refused) return Outcome::busy;
  const std::size_t algorithm = session.algorithm();
  if (const Outcome outcome = may_open(state, algorithm); outcome != Outcome::served) return outcome;
  const Fault fault = session.open(process_.now());
  if (!fault) return judge(state, algorithm, session.kernel());
  // A weak key, or one that FIPS mode forbids: nothing is wrong with the driver, and other keys may do. The
  // session stays, so that this key is not tried at each request.
  if (fault.step == Step::session && is_refused_key(fault.error) && session.may_be_weak()) {
    session.key_refused = true;
    if (state.first(algorithm, Reason::weak_key))
      process_.log(LogLevel::info, "cryptodev: %s: a key was refused%s: %s",
                   cryptodev::algorithm(algorithm).label,
                   state.choice(algorithm).served.load(std::memory_order_relaxed)
                       ? ""
                       : ", or the kernel has no such algorithm",
                   ErrorName(fault.error).get());
    return Outcome::busy;
  }
  return refused(state, algorithm, fault);
}

Outcome Cryptodev::open(State& state, HashSession& session, cryptodev::Device* beside) noexcept {
  const std::size_t algorithm = session.algorithm();
  if (const Outcome outcome = may_open(state, algorithm); outcome != Outcome::served) return outcome;
  const Fault fault = session.open(process_.now(), beside);
  return fault ? refused(state, algorithm, fault) : judge(state, algorithm, session.kernel());
}

Outcome Cryptodev::may_open(State& state, std::size_t algorithm) noexcept {
  const State::Choice& choice = state.choice(algorithm);
  if (choice.never.load(std::memory_order_relaxed)) return Outcome::unsupported;
  if (process_.sandboxed() || process_.now() < choice.not_before.load(std::memory_order_relaxed))
    return Outcome::unavailable;
  if (!under_seccomp_ && Process::filtered()) {
    if (state.first(algorithm, Reason::seccomp))
      process_.log(
          LogLevel::info,
          "cryptodev is not used: a seccomp filter, or /proc/self/status unreadable (under_seccomp = use)");
    return Outcome::unavailable;
  }
  return Outcome::served;
}

// Only an open session tells which driver the kernel took for it. It is asked for each session anew, because
// that changes when drivers come and go.
Outcome Cryptodev::judge(State& state, std::size_t algorithm, KernelSession& session) noexcept {
  constexpr std::uint64_t pause = 1'000'000'000;
  State::Choice& choice = state.choice(algorithm);
  const kernel::DriverTraits& traits = session.traits();
  const bool in_pieces = cryptodev::is_digest(algorithm) && traits.whole_messages_only;
  if (!accelerated_only_ || (traits.hardware && !in_pieces)) {
    const std::lock_guard lock(choice.mutex);
    std::memcpy(choice.driver.data(), session.driver(), std::strlen(session.driver()) + 1);
    return Outcome::served;
  }
  (void)session.close();
  const char* const label = cryptodev::algorithm(algorithm).label;
  if (traits.hardware) {
    choice.never.store(true, std::memory_order_relaxed);
    if (state.first(algorithm, Reason::whole_messages_only))
      process_.log(LogLevel::info,
                   "cryptodev is not used for %s: %s hashes a message in pieces by software of the kernel",
                   label, session.driver());
    return Outcome::unsupported;
  }
  choice.not_before.store(process_.now() + pause, std::memory_order_relaxed);
  if (state.first(algorithm, Reason::software))
    process_.log(LogLevel::info,
                 "cryptodev is not used for %s: the kernel's driver is %s, not known to be hardware "
                 "(accelerated_only = no takes any)",
                 label, session.driver());
  return Outcome::unavailable;
}

// What is not there, or not allowed, is told with what to do about it.
Outcome Cryptodev::refused(State& state, std::size_t algorithm, const Fault& fault) noexcept {
  const Outcome outcome = outcome_of(fault);
  State::Choice& choice = state.choice(algorithm);
  const char* const label = cryptodev::algorithm(algorithm).label;
  const ErrorName error(fault.error);
  if (fault.step == Step::limit) return outcome;
  if (choice.served.load(std::memory_order_relaxed) && outcome != Outcome::busy) {
    report(algorithm, nullptr, fault);
    return outcome;
  }
  Reason reason = Reason::shortage;
  if (outcome != Outcome::busy) {
    reason = fault.step == Step::open                                        ? Reason::open
             : fault.step == Step::file_type || is_unknown_call(fault.error) ? Reason::not_cryptodev
                                                                             : Reason::session;
  }
  if (!state.first(algorithm, reason)) return outcome;
  switch (reason) {
    case Reason::open:
      if (is_absent(fault.error)) {
        process_.log(LogLevel::info,
                     "cryptodev is not used: %s %s (load the module cryptodev, or build it for this kernel)",
                     fault.error == ENOENT ? "no" : "nothing behind", path_);
      } else if (fault.error == EACCES || fault.error == EPERM) {
        process_.log(LogLevel::info,
                     "cryptodev is not used: no permission for %s: %s (a udev rule can give it to a group)",
                     path_, error.get());
      } else {
        process_.log(LogLevel::info, "cryptodev is not used: %s cannot be opened: %s", path_, error.get());
      }
      break;
    case Reason::not_cryptodev:
      if (fault.step == Step::file_type) {
        process_.log(LogLevel::info, "cryptodev is not used: %s is not a character device", path_);
      } else {
        process_.log(LogLevel::info,
                     "cryptodev is not used: %s is not that of cryptodev-linux: %s answers %s", path_,
                     step_name(fault.step), error.get());
      }
      break;
    default:
      process_.log(
          LogLevel::info, "cryptodev is not used for %s: %s answers %s%s", label, step_name(fault.step),
          error.get(),
          fault.step == Step::session && fault.error == EINVAL ? " (the kernel has no such algorithm)" : "");
  }
  return outcome;
}

// A failure after success. Without a name the driver is the last one known.
void Cryptodev::report(std::size_t algorithm, const char* driver, const Fault& fault) noexcept {
  std::array<char, 64> known{};
  if (driver == nullptr) {
    name_driver(algorithm, known);
    driver = known.data();
  }
  process_.log(LogLevel::error, "cryptodev: %s (%s): %s: %s", cryptodev::algorithm(algorithm).label, driver,
               step_name(fault.step), ErrorName(fault.error).get());
}

void Cryptodev::name_driver(std::optional<std::size_t> algorithm, std::span<char> text) const noexcept {
  if (text.empty()) return;
  text[0] = '\0';
  State* const state = states_.peek(process_.generation());
  if (!algorithm || state == nullptr) return;
  State::Choice& choice = state->choice(*algorithm);
  if (!choice.served.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(choice.mutex);
  const std::size_t length = std::min(std::strlen(choice.driver.data()), text.size() - 1);
  std::memcpy(text.data(), choice.driver.data(), length);
  text[length] = '\0';
}

// ---- Digests ---------------------------------------------------------------------------------------

// Null, and the slot is empty, if it has no session of this process.
State* Cryptodev::state_of(KeySlot& slot) noexcept {
  const std::uint64_t generation = process_.generation();
  State* const state =
      slot.session == nullptr || slot.generation != generation ? nullptr : states_.peek(generation);
  if (state == nullptr) slot = {};
  return state;
}

Outcome Cryptodev::extend(KeySlot& slot, const DigestSpec& spec, const std::uint8_t* in,
                          std::size_t length) noexcept {
  const ErrnoGuard guard;
  if (slot.session == nullptr) {
    if (const Outcome outcome = begin(slot, spec); outcome != Outcome::served) return outcome;
  }
  State* const state = state_of(slot);
  if (state == nullptr) return Outcome::busy;
  auto* const session = static_cast<HashSession*>(slot.session);
  const Outcome outcome = append(*state, *session, in, length);
  if (outcome == Outcome::served) [[likely]]
    return outcome;
  slot = {};
  state->remove(session);
  return outcome;
}

Outcome Cryptodev::conclude(KeySlot& slot, const DigestSpec& spec, std::uint8_t* out) noexcept {
  const ErrnoGuard guard;
  if (slot.session == nullptr) {
    if (const Outcome outcome = begin(slot, spec); outcome != Outcome::served) return outcome;
  }
  State* const state = state_of(slot);
  if (state == nullptr) return Outcome::busy;
  auto* const session = static_cast<HashSession*>(std::exchange(slot, {}).session);
  const Outcome outcome = call(*state, *session, [&] { return session->conclude(out); });
  if (outcome == Outcome::served) [[likely]] {
    state->put_back(session);
  } else {
    state->remove(session);
  }
  return outcome;
}

void Cryptodev::abandon(KeySlot& slot) noexcept {
  if (slot.session == nullptr) return;
  const ErrnoGuard guard;
  State* const state = state_of(slot);
  if (state == nullptr) return;
  auto* const session = static_cast<HashSession*>(std::exchange(slot, {}).session);
  session->abandon();
  state->put_back(session);
}

// A session without a message, and an open session of the module in it, so that a device that cannot be used
// is known before the message is taken. Whole messages follow each other through a session as requests of one
// key do, with a look at the file in each tick of the clock.
Outcome Cryptodev::begin(KeySlot& slot, const DigestSpec& spec) noexcept {
  const auto algorithm = find_algorithm(spec);
  if (!algorithm) return Outcome::unsupported;
  const std::uint64_t generation = process_.generation();
  State* state = states_.peek(generation);
  if (state == nullptr) {
    if (process_.sandboxed()) return Outcome::unavailable;
    state = states_.get(generation, process_, generation, path_);
    if (state == nullptr) return Outcome::busy;
  }
  HashSession* session = state->take(*algorithm);
  if (session == nullptr) {
    if (process_.sandboxed()) return Outcome::unavailable;
    session = state->add(kernel::MessageStart::nothing, *algorithm);
    if (session == nullptr) return Outcome::busy;
  }
  Outcome outcome = Outcome::served;
  switch (session->kernel().state(process_.now(), false)) {
    case KernelSession::State::ready:
      break;
    case KernelSession::State::sandboxed:
      outcome = Outcome::unavailable;
      break;
    case KernelSession::State::closed:
      outcome = open(*state, *session, nullptr);
  }
  if (outcome != Outcome::served) {
    state->remove(session);
    return outcome;
  }
  std::atomic<bool>& served = state->choice(*algorithm).served;
  if (!served.load(std::memory_order_relaxed)) served.store(true, std::memory_order_relaxed);
  slot = {.session = session, .generation = generation};
  return Outcome::served;
}

Outcome Cryptodev::append(State& state, HashSession& session, const std::uint8_t* in,
                          std::size_t length) noexcept {
  for (;;) {
    const std::size_t bytes = std::min(length, session.room());
    if (!session.keep(in, bytes)) return Outcome::busy;
    in += bytes;
    length -= bytes;
    if (length == 0) return Outcome::served;
    const Outcome outcome = call(state, session, [&] { return session.send(); });
    if (outcome != Outcome::served) return outcome;
  }
}

// One call for a message. As long as all of it is in the buffer, a session that is gone is replaced, once.
template <class Call>
Outcome Cryptodev::call(State& state, HashSession& session, Call&& call) noexcept {
  for (int attempt = 0;; ++attempt) {
    switch (session.kernel().state(process_.now(), false)) {
      case KernelSession::State::ready:
        break;
      case KernelSession::State::sandboxed:
        return Outcome::unavailable;
      case KernelSession::State::closed:
        if (session.is_started()) return Outcome::busy;
        if (const Outcome outcome = open(state, session, nullptr); outcome != Outcome::served) return outcome;
    }
    const Fault fault = call();
    if (!fault) [[likely]]
      return Outcome::served;
    if (session.kernel().is_gone(fault)) {
      if (session.is_started()) return Outcome::busy;
      if (attempt == 0) continue;
    }
    report(session.algorithm(), session.kernel().driver(), fault);
    return Outcome::failed;
  }
}

Outcome Cryptodev::clone(const KeySlot& slot, KeySlot& copy) noexcept {
  const ErrnoGuard guard;
  copy = {};
  if (slot.session == nullptr) return Outcome::unavailable;
  KeySlot original_slot = slot;
  State* const state = state_of(original_slot);
  if (state == nullptr) return Outcome::busy;
  auto& original = *static_cast<HashSession*>(slot.session);
  const std::size_t algorithm = original.algorithm();
  if (original.is_started()) {
    // The original finds out at its next call.
    switch (original.kernel().state(process_.now(), true)) {
      case KernelSession::State::ready:
        break;
      case KernelSession::State::sandboxed:
        return Outcome::unavailable;
      case KernelSession::State::closed:
        return Outcome::busy;
    }
  }
  cryptodev::Device* const device = original.is_started() ? original.kernel().device() : nullptr;
  // One that waits serves if it does not have to be on a certain file, or is.
  HashSession* session = state->take(algorithm);
  if (session != nullptr && device != nullptr && session->kernel().device() != device) {
    state->put_back(session);
    session = nullptr;
  }
  if (session == nullptr) {
    if (process_.sandboxed()) return Outcome::unavailable;
    session = state->add(kernel::MessageStart::copy, algorithm);
    if (session == nullptr) return Outcome::busy;
  }
  Outcome outcome = session->copy_buffer(original) ? Outcome::served : Outcome::busy;
  if (outcome == Outcome::served && device != nullptr) {
    if (session->kernel().device() == nullptr) outcome = open(*state, *session, device);
    if (outcome == Outcome::served) {
      if (const Fault fault = session->copy_state(original)) {
        outcome = is_shortage(fault.error) ? Outcome::busy : Outcome::unavailable;
        if (outcome == Outcome::unavailable && state->first(algorithm, Reason::clone))
          process_.log(LogLevel::info, "cryptodev: %s: a message cannot be duplicated: %s answers %s",
                       cryptodev::algorithm(algorithm).label, step_name(fault.step),
                       ErrorName(fault.error).get());
      }
    }
  }
  if (outcome != Outcome::served) {
    state->remove(session);
    return outcome;
  }
  copy = {.session = session, .generation = slot.generation};
  return Outcome::served;
}

}  // namespace

std::unique_ptr<Backend> make_cryptodev_backend_with(Process& process, const BackendOptions& options,
                                                     const char* path) {
  return std::make_unique<Cryptodev>(process, options, path);
}

std::unique_ptr<Backend> make_cryptodev_backend(Process& process, const BackendOptions& options) {
  return make_cryptodev_backend_with(process, options, "/dev/crypto");
}

}  // namespace sunxi
