// SPDX-License-Identifier: Apache-2.0
// The process that a backend lives in: fork, sandbox, descriptors that are closed behind our back,
// clock, log. One object per provider context; nothing here is global.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace sunxi {

enum class LogLevel : std::uint8_t { off, error, info, debug };

// Identity of an open file: what a descriptor number referred to when we opened it.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

// The fstat system call itself, because C libraries replace it by others and OpenSSH's sandbox answers
// exactly this one with EACCES instead of death. 0 or the errno; errno itself is left alone.
[[nodiscard]] int raw_fstat(int descriptor, FileId& id) noexcept;

// Leaves errno as the caller had it.
class ErrnoGuard {
 public:
  ErrnoGuard() noexcept : saved_(errno) {}
  ErrnoGuard(const ErrnoGuard&) = delete;
  ErrnoGuard& operator=(const ErrnoGuard&) = delete;
  ~ErrnoGuard() { errno = saved_; }

 private:
  int saved_;
};

// Calls of the C library are points where a thread may be cancelled, and the way out of one leads through
// functions that must not throw, which ends the process. A cancelled thread gets to the end of what it does
// here first. No system call.
class CancelGuard {
 public:
  CancelGuard() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  CancelGuard(const CancelGuard&) = delete;
  CancelGuard& operator=(const CancelGuard&) = delete;
  ~CancelGuard() { pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// A descriptor of ours. Closes only what still is the file that was opened: a number that the
// application has closed and reused is forgotten.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int number) noexcept;  // takes ownership; remembers the file's identity
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)), id_(other.id_) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const noexcept { return number_; }
  [[nodiscard]] explicit operator bool() const noexcept { return number_ >= 0; }
  enum class State : std::uint8_t { ours, stolen, sandboxed };
  [[nodiscard]] State state() const noexcept;  // one system call
  void reset() noexcept;
  void forget() noexcept { number_ = -1; }

 private:
  int number_ = -1;
  FileId id_;
};

class Process {
 public:
  Process() noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  virtual ~Process();

  // Grows by one in every child of a fork, never 0. A load on a page that the kernel wipes in the
  // child; a system call only where the kernel has no such pages, and at the first call.
  [[nodiscard]] std::uint64_t generation() noexcept {
    const std::atomic<std::uint64_t>* page = page_.load(std::memory_order_acquire);
    if (page != nullptr) {
      const std::uint64_t now = page->load(std::memory_order_acquire);
      if (now != 0) return now;
    }
    return renew();
  }

  // True in OpenSSH's pre-authentication sandbox and its like: no system call beyond fstat may be made
  // any more. One system call; the answer true is final.
  [[nodiscard]] bool sandboxed() noexcept;

  // Whether the thread's status in /proc shows a seccomp filter, or cannot be read. Three system calls; only
  // to be called when sandboxed() is false.
  [[nodiscard]] static bool filtered() noexcept;
  // The same from such a file that has been opened before, of the thread that it names: one system call,
  // pread.
  [[nodiscard]] static bool filtered(int status) noexcept;

  // Nanoseconds, monotonic, coarse (some milliseconds), no system call. Tests replace it.
  [[nodiscard]] virtual std::uint64_t now() const noexcept;

  [[nodiscard]] bool logs(LogLevel level) const noexcept { return level <= level_; }
  void set_log_level(LogLevel level) noexcept { level_ = level; }

  // One line, without "sunxi: " and newline. Never secrets. Silent in a sandbox. At most 20 errors in 10
  // seconds; info lines are said once by their callers. To standard error if descriptor 2 still is the
  // file it was at load, else to syslog.
  void log(LogLevel level, const char* format, ...) noexcept __attribute__((format(printf, 3, 4)));

 protected:
  virtual void write_line(const char* line, std::size_t length) noexcept;

 private:
  std::uint64_t renew() noexcept;

  std::atomic<std::atomic<std::uint64_t>*> page_{nullptr};
  std::atomic<bool> lacks_pages_{false};  // that the kernel wipes in a child
  std::atomic<std::uint64_t> last_generation_{0};
  std::atomic<bool> sandboxed_{false};
  std::atomic<std::uint64_t> window_start_{0};  // of the limit on error lines
  std::atomic<std::uint32_t> window_lines_{0};
  LogLevel level_ = LogLevel::error;
  FileId standard_error_;  // what descriptor 2 was at load
};

// The T of this process. A T inherited through fork is set aside untouched, because another thread of
// the parent may have been inside it: T must be destructible in any state that a fork can freeze it in
// (walk fixed arrays of atomics, take no lock). T's constructor gets the inherited T, or null.
template <class T>
class PerProcess {
 public:
  PerProcess() noexcept = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() {
    for (Node* node = head_.load(std::memory_order_acquire); node != nullptr;) {
      Node* inherited = node->inherited;
      delete node;
      node = inherited;
    }
  }

  // Null only when memory is out.
  template <class... Arguments>
  T* get(std::uint64_t generation, Arguments&&... arguments) noexcept {
    Node* node = head_.load(std::memory_order_acquire);
    if (node != nullptr && node->generation == generation) [[likely]]
      return &node->value;
    Node* fresh = nullptr;
    try {
      fresh = new Node(generation, node, node == nullptr ? nullptr : &node->value,
                       std::forward<Arguments>(arguments)...);
    } catch (...) {
      return nullptr;
    }
    if (head_.compare_exchange_strong(node, fresh, std::memory_order_acq_rel)) return &fresh->value;
    delete fresh;  // another thread was quicker; nothing was opened yet
    return &node->value;
  }

  // The T of `generation` if it exists already.
  [[nodiscard]] T* peek(std::uint64_t generation) const noexcept {
    Node* node = head_.load(std::memory_order_acquire);
    return node != nullptr && node->generation == generation ? &node->value : nullptr;
  }

 private:
  struct Node {
    template <class... Arguments>
    Node(std::uint64_t g, Node* older, T* older_value, Arguments&&... arguments)
        : generation(g), inherited(older), value(older_value, std::forward<Arguments>(arguments)...) {}
    std::uint64_t generation;
    Node* inherited;
    T value;
  };
  std::atomic<Node*> head_{nullptr};
};

// Memory that held keys or plaintext. Not removed by the optimiser, inlined for constant sizes.
inline void wipe(void* data, std::size_t bytes) noexcept {
  std::memset(data, 0, bytes);
  __asm__ __volatile__("" : : "r"(data) : "memory");
}

}  // namespace sunxi
