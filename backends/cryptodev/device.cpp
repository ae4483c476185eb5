// SPDX-License-Identifier: Apache-2.0
// Opening /dev/crypto, sessions on it, and giving both back.
#include "backends/cryptodev/device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace sunxi::cryptodev {

const char* step_name(Step step) noexcept {
  switch (step) {
    case Step::open:
      return "open";
    case Step::session:
      return "CIOCGSESSION";
    case Step::describe:
      return "CIOCGSESSINFO";
    case Step::run:
      return "CIOCCRYPT";
    case Step::copy:
      return "CIOCCPHASH";
    case Step::none:
    case Step::limit:
    case Step::file_type:
      break;
  }
  return "";
}

// ---- One open file ---------------------------------------------------------------------------------

// The others that want it wait for one open of a device node.
Fault Device::open(const char* path, std::uint64_t now) noexcept {
  const std::lock_guard lock(mutex_);
  if (opened_) return {};
  int number = ::open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (number < 0) return {.step = Step::open, .error = errno};
  struct stat status {};
  if (::fstat(number, &status) != 0 || !S_ISCHR(status.st_mode)) {
    ::close(number);
    return {.step = Step::file_type, .error = 0};
  }
  number = kernel::out_of_the_way(number);
  if (number < 0) return {.step = Step::open, .error = errno};
  file_.adopt(number, now);
  opened_ = true;
  return {};
}

int Device::call(unsigned long request, void* argument) const noexcept {
  return ::ioctl(file_.get(), request, argument) == 0 ? 0 : errno;
}

// ---- All of them -----------------------------------------------------------------------------------

Devices::Devices(const char* path)
    : path_(path),
      limit_(kernel::descriptor_limit()),
      places_(std::make_unique<std::atomic<Device*>[]>(limit_)) {}

std::size_t Devices::session_limit() noexcept {
  constexpr std::size_t most = 1024;  // the table of sessions is searched from end to end
  return std::min(most, kernel::descriptor_limit() * most_sessions);
}

Device* Devices::find_place(Device* beside) noexcept {
  const std::size_t limit = std::min(limit_, kernel::descriptor_limit());
  const std::lock_guard lock(mutex_);
  if (beside != nullptr) {
    if (!beside->usable() || beside->sessions >= most_with_copies) return nullptr;
    ++beside->sessions;
    return beside;
  }
  std::size_t free_place = limit_;
  for (std::size_t i = 0; i < limit_; ++i) {
    Device* const device = places_[i].load(std::memory_order_relaxed);
    if (device == nullptr) {
      free_place = std::min(free_place, i);
    } else if (device->usable() && !device->closing && device->sessions < most_sessions) {
      ++device->sessions;
      return device;
    }
  }
  if (count_ >= limit || free_place == limit_) return nullptr;
  auto* const device = new (std::nothrow) Device(free_place);
  if (device == nullptr) return nullptr;
  device->sessions = 1;
  places_[free_place].store(device, std::memory_order_release);
  ++count_;
  return device;
}

Fault Devices::join(Device*& device, Device* beside, std::uint64_t now) noexcept {
  device = find_place(beside);
  if (device == nullptr) return {.step = Step::limit, .error = 0};
  const Fault fault = device->open(path_, now);
  if (fault) leave(std::exchange(device, nullptr));
  return fault;
}

void Devices::leave(Device* device) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (--device->sessions != 0) return;
    bool keep = device->usable() && device->is_proven();
    for (std::size_t i = 0; keep && i < limit_; ++i) {
      const Device* const other = places_[i].load(std::memory_order_relaxed);
      keep = other == nullptr || other == device || other->sessions != 0 || other->closing;
    }
    if (keep) return;
    device->closing = true;
  }
  // Closed while its place still shows it, so that a child of a fork in between closes its copy.
  device->close();
  {
    const std::lock_guard lock(mutex_);
    places_[device->place()].store(nullptr, std::memory_order_release);
    --count_;
  }
  delete device;
}

// The exchange lets one thread alone close them.
void Devices::close_all() noexcept {
  for (std::size_t i = 0; i < limit_; ++i) delete places_[i].exchange(nullptr, std::memory_order_acq_rel);
}

// ---- A session -------------------------------------------------------------------------------------

KernelSession::State KernelSession::state(std::uint64_t now, bool look) noexcept {
  return device_ == nullptr ? State::closed : settle(device_->state(now, look));
}

// A file that is lost is so for all sessions on it; each of them leaves when it finds out.
KernelSession::State KernelSession::settle(State state) noexcept {
  if (state == State::closed) leave();
  return state;
}

Fault KernelSession::open(SessionOp operation, std::uint64_t now, Device* beside) noexcept {
  // A file that has sessions was looked at some time ago, and one that is not ours gets no key's address.
  // Each that turns out lost is joined by nobody any more; a new one is ours, unless somebody is at our
  // numbers.
  for (std::size_t tries = 0;; ++tries) {
    if (const Fault fault = devices_.join(device_, beside, now)) return fault;
    const State found = settle(device_->state(now, true));
    if (found == State::ready) break;
    if (found == State::sandboxed) {
      leave();
      return {.step = Step::open, .error = EACCES};
    }
    if (beside != nullptr) return {.step = Step::copy, .error = EBADF};
    if (tries == devices_.limit()) return {.step = Step::open, .error = EBADF};
  }
  if (const int error = device_->call(open_session, &operation); error != 0) {
    leave();
    return {.step = Step::session, .error = error};
  }
  device_->prove();
  id_ = operation.session;
  is_cipher_ = operation.cipher != 0;
  if (const Fault fault = describe()) {
    (void)close();
    return fault;
  }
  return {};
}

Fault KernelSession::describe() noexcept {
  SessionInfo info{};
  info.session = id_;
  if (const int error = device_->call(describe_session, &info); error != 0)
    return {.step = Step::describe, .error = error};
  driver_ = (is_cipher_ ? info.cipher : info.hash).driver;
  driver_.back() = '\0';
  traits_ = kernel::driver_traits(driver_.data());
  return {};
}

Fault KernelSession::run(CryptOp operation) noexcept {
  operation.session = id_;
  const int error = device_->call(cryptodev::run, &operation);
  return error == 0 ? Fault{} : Fault{.step = Step::run, .error = error};
}

Fault KernelSession::copy_hash(const KernelSession& from) noexcept {
  // The state is a driver's own; the module asks neither for the same file nor for the same kind.
  if (from.device_ != device_ || from.driver_ != driver_) return {.step = Step::copy, .error = EINVAL};
  CopyHashOp operation{.target = id_, .source = from.id_};
  const int error = device_->call(cryptodev::copy_hash, &operation);
  return error == 0 ? Fault{} : Fault{.step = Step::copy, .error = error};
}

bool KernelSession::is_gone(const Fault& fault) noexcept {
  const State found = device_ == nullptr ? State::closed : settle(device_->look());
  if (found != State::ready) return found == State::closed;
  if (fault.error != EINVAL) return false;
  SessionInfo info{};
  info.session = id_;
  if (device_->call(describe_session, &info) != EINVAL) return false;
  leave();  // there is nothing to close
  return true;
}

bool KernelSession::close() noexcept {
  if (device_ == nullptr) return false;
  switch (settle(device_->look())) {
    case State::ready:
      (void)device_->call(close_session, &id_);
      break;
    case State::sandboxed:
      break;
    case State::closed:
      return true;
  }
  leave();
  return false;
}

void KernelSession::leave() noexcept {
  devices_.leave(std::exchange(device_, nullptr));
}

}  // namespace sunxi::cryptodev
