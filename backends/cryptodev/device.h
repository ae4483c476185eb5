// SPDX-License-Identifier: Apache-2.0
// Open files of /dev/crypto, each with some sessions, and sessions of the module.
//
// A session belongs to its open file. The module finds it in a list, from end to end, and under a lock of the
// file, which it also keeps while somebody waits for a session in use: hence few sessions on each file, and
// no session that two threads ask for at once.
//
// No system call but the ioctl is made for a request. Whether the number still is our file, and whether this
// process has entered a sandbox, is looked at when something is opened, at the first request of a slot,
// before a session is closed, and once in each tick of the clock. In between, an ioctl of these numbers is
// refused by every other kind of file, with nothing delivered; and a process that has entered OpenSSH's
// sandbox within the same tick could be killed by it, which is why OpenSSH's own children, that have opened
// nothing before their filter, are safe: their first request looks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "backends/cryptodev/interface.h"
#include "backends/kernel/descriptor.h"
#include "backends/kernel/driver_traits.h"

namespace sunxi::cryptodev {

enum class Step : std::uint8_t { none, limit, open, file_type, session, describe, run, copy };

// Which call went wrong, and its errno.
struct Fault {
  Step step = Step::none;
  int error = 0;
  explicit operator bool() const noexcept { return step != Step::none; }
};

[[nodiscard]] const char* step_name(Step step) noexcept;

// One open file. Used by all sessions on it at once.
class Device {
 public:
  explicit Device(std::size_t place) noexcept : place_(place) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() = default;

  using State = kernel::KeptDescriptor::State;
  // Opens the file if nobody has; by whoever has joined.
  [[nodiscard]] Fault open(const char* path, std::uint64_t now) noexcept;
  // The rest by whoever has opened it.
  [[nodiscard]] State state(std::uint64_t now, bool look) noexcept { return file_.state(now, look); }
  [[nodiscard]] State look() noexcept { return file_.look(); }
  [[nodiscard]] int call(unsigned long request, void* argument) const noexcept;  // 0 or the errno

  // A session was made on it: it is what it should be.
  void prove() noexcept { proven_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_proven() const noexcept { return proven_.load(std::memory_order_relaxed); }

  // For Devices, under its lock.
  std::size_t sessions = 0;
  bool closing = false;
  [[nodiscard]] std::size_t place() const noexcept { return place_; }
  // No more sessions on a file that is not ours any more.
  [[nodiscard]] bool usable() const noexcept { return !file_.is_lost(); }
  void close() noexcept { (void)file_.close(); }

 private:
  const std::size_t place_;
  std::mutex mutex_;  // of opening
  bool opened_ = false;
  std::atomic<bool> proven_{false};
  kernel::KeptDescriptor file_{true};
};

// The files of one process. Destructible however a fork freezes it.
class Devices {
 public:
  explicit Devices(const char* path);
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  ~Devices() { close_all(); }

  // Sessions that there may be on all of them.
  [[nodiscard]] static std::size_t session_limit() noexcept;

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }  // of files
  // A place for a session, on a file that is open. `beside`: on this one, for a copy of a session there.
  [[nodiscard]] Fault join(Device*& device, Device* beside, std::uint64_t now) noexcept;
  // Gives the place back. One file without sessions is kept.
  void leave(Device* device) noexcept;
  // Closes this process's descriptors, whatever is on them.
  void close_all() noexcept;

 private:
  [[nodiscard]] Device* find_place(Device* beside) noexcept;

  static constexpr std::size_t most_sessions = 8;       // of one file, ...
  static constexpr std::size_t most_with_copies = 128;  // ... and with copies, which have to be there

  const char* const path_;
  const std::size_t limit_;
  std::unique_ptr<std::atomic<Device*>[]> places_;
  std::mutex mutex_;  // of what follows and of Device::sessions; no system call is made under it
  std::size_t count_ = 0;
};

// A session of the module. Used by one thread at a time. Its end does not close it: the module's session is
// freed with its file, and one that a fork has doubled is the parent's.
class KernelSession {
 public:
  explicit KernelSession(Devices& devices) noexcept : devices_(devices) {}
  KernelSession(const KernelSession&) = delete;
  KernelSession& operator=(const KernelSession&) = delete;
  ~KernelSession() = default;

  using State = Device::State;
  [[nodiscard]] State state(std::uint64_t now, bool look) noexcept;

  // Of a closed one. After a fault it is closed.
  [[nodiscard]] Fault open(SessionOp operation, std::uint64_t now, Device* beside = nullptr) noexcept;
  [[nodiscard]] Device* device() const noexcept { return device_; }

  // The driver that it works through.
  [[nodiscard]] const char* driver() const noexcept { return driver_.data(); }
  [[nodiscard]] const kernel::DriverTraits& traits() const noexcept { return traits_; }

  // These need State::ready. run: fills in the session's number.
  [[nodiscard]] Fault run(CryptOp operation) noexcept;
  [[nodiscard]] Fault copy_hash(const KernelSession& from) noexcept;
  // After a fault: whether the file is not ours any more, or does not know the session: the fault was not the
  // driver's.
  [[nodiscard]] bool is_gone(const Fault& fault) noexcept;

  // True if the file was not ours any more.
  bool close() noexcept;

 private:
  [[nodiscard]] Fault describe() noexcept;
  [[nodiscard]] State settle(State state) noexcept;
  void leave() noexcept;

  Devices& devices_;
  Device* device_ = nullptr;  // null: closed
  std::uint32_t id_ = 0;
  bool is_cipher_ = false;
  std::array<char, 64> driver_{};
  kernel::DriverTraits traits_{};
};

}  // namespace sunxi::cryptodev
