// SPDX-License-Identifier: Apache-2.0
// Serves the modelled module as a real character device /dev/crypto, through the kernel's CUSE, in the
// foreground.
//   cryptodev-daemon FOLDER      as root, with the module cuse loaded; FOLDER is cryptodev-ctl's
//
// What differs from the module: CUSE moves 128 KiB at a time, a destination that cannot be written is the
// kernel's EFAULT without a violation, and CRIOGET is not served.
#define FUSE_USE_VERSION 31
#include <cuse_lowlevel.h>
#include <malloc.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <vector>

#include "tests/cryptodev/model.h"

namespace {

using namespace sunxi::standin;

constexpr std::size_t most_moved = std::size_t{128} * 1024;
State* shared_state = nullptr;

// What of the caller's memory has come with this call, in the order in which it is asked for: the same each
// time that a call is made again.
class FetchedMemory : public Memory {
 public:
  FetchedMemory(const void* in, std::size_t in_bytes, std::size_t out_bytes)
      : in_(static_cast<const char*>(in)), in_bytes_(in_bytes), out_bytes_(out_bytes) {}

  Access read(std::uint64_t address, void* to, std::size_t bytes) override {
    wanted.push_back({.iov_base = pointer(address), .iov_len = bytes});
    read_ += bytes;
    if (read_ > in_bytes_) return Access::later;
    std::memcpy(to, in_ + read_ - bytes, bytes);
    return Access::done;
  }
  void will_write(std::uint64_t address, std::size_t bytes) override {
    announced.push_back({.iov_base = pointer(address), .iov_len = bytes});
    announced_bytes += bytes;
  }
  [[nodiscard]] bool complete() const override { return read_ == in_bytes_ && announced_bytes == out_bytes_; }
  bool write(std::uint64_t address, const void* from, std::size_t bytes) override {
    if (written_ >= announced.size() || announced[written_].iov_base != pointer(address)) std::abort();
    ++written_;
    const char* begin = static_cast<const char*>(from);
    out.insert(out.end(), begin, begin + bytes);
    return true;
  }
  [[nodiscard]] std::size_t wanted_bytes() const { return read_; }

  std::vector<iovec> wanted;
  std::vector<iovec> announced;
  std::size_t announced_bytes = 0;
  std::vector<char> out;

 private:
  static void* pointer(std::uint64_t address) {
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  }
  const char* in_;
  std::size_t in_bytes_;
  std::size_t out_bytes_;
  std::size_t read_ = 0;
  std::size_t written_ = 0;
};

// The kernel names the thread that calls.
std::uint32_t read_process_of(std::uint32_t thread) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%u/status", static_cast<unsigned>(thread));
  std::FILE* file = std::fopen(path.data(), "re");
  if (file == nullptr) return thread;
  std::array<char, 256> line{};
  unsigned process = thread;
  while (std::fgets(line.data(), static_cast<int>(line.size()), file) != nullptr) {
    if (std::sscanf(line.data(), "Tgid: %u", &process) == 1) break;
  }
  std::fclose(file);
  return process;
}

// Kept, because it would take longer than the request. An open() of the thread renews it.
std::uint32_t process_of(std::uint32_t thread, bool renew) {
  static std::array<std::atomic<std::uint64_t>, 1024> known;
  std::atomic<std::uint64_t>& place = known[thread % known.size()];
  const std::uint64_t entry = place.load();
  if (!renew && entry >> 32U == thread) return static_cast<std::uint32_t>(entry);
  const std::uint32_t process = read_process_of(thread);
  place.store(std::uint64_t{thread} << 32U | process);
  return process;
}

void open_device(fuse_req_t request, fuse_file_info* info) {
  const auto thread = static_cast<std::uint32_t>(fuse_req_ctx(request)->pid);
  std::uint32_t file = 0;
  const int error = Model(*shared_state).open(process_of(thread, true), file);
  if (error != 0) {
    fuse_reply_err(request, error);
    return;
  }
  info->fh = file;
  // Interrupted: the kernel will not say that it is closed.
  if (fuse_reply_open(request, info) != 0) Model(*shared_state).close(file);
}

void release_device(fuse_req_t request, fuse_file_info* info) {
  Model(*shared_state).close(static_cast<std::uint32_t>(info->fh));
  fuse_reply_err(request, 0);
}

int serve(fuse_req_t request, std::uint32_t number, std::uint64_t argument, std::uint64_t file, Abi abi,
          FetchedMemory& memory) {
  const auto thread = static_cast<std::uint32_t>(fuse_req_ctx(request)->pid);
  const Caller caller{.pid = process_of(thread, false), .abi = abi};
  const Answer answer =
      Model(*shared_state).ioctl(static_cast<std::uint32_t>(file), caller, number, argument, memory);
  switch (answer.kind) {
    case Answer::Kind::duplicate:
      return fuse_reply_err(request, EINVAL);
    case Answer::Kind::again:
      if (memory.wanted_bytes() > most_moved || memory.announced_bytes > most_moved) {
        violate(*shared_state, "more than the %zu bytes that CUSE can move", most_moved);
        return fuse_reply_err(request, EINVAL);
      }
      return fuse_reply_ioctl_retry(request, memory.wanted.data(), memory.wanted.size(),
                                    memory.announced.data(), memory.announced.size());
    case Answer::Kind::done:
      break;
  }
  if (answer.error != 0 && memory.out.empty()) return fuse_reply_err(request, answer.error);
  return fuse_reply_ioctl(request, -answer.error, memory.out.data(), memory.out.size());
}

void control_device(fuse_req_t request, int number, void* argument, fuse_file_info* info, unsigned flags,
                    const void* in, std::size_t in_bytes, std::size_t out_bytes) {
  const Abi native = sizeof(void*) == 8 ? Abi::lp64 : Abi::ilp32;
  try {
    FetchedMemory memory(in, in_bytes, out_bytes);
    serve(request, static_cast<std::uint32_t>(number), reinterpret_cast<std::uintptr_t>(argument), info->fh,
          (flags & FUSE_IOCTL_COMPAT) != 0 ? Abi::compat : native, memory);
  } catch (const std::exception&) {
    fuse_reply_err(request, ENOMEM);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: cryptodev-daemon FOLDER\n", stderr);
    return 2;
  }
  shared_state = open_state(arguments[1]);
  if (shared_state == nullptr) {
    std::fprintf(stderr, "cryptodev-daemon: no device in %s\n", arguments[1]);
    return 2;
  }
  shared_state->daemon.store(static_cast<std::uint32_t>(getpid()));
  Lock::set_process(static_cast<std::uint32_t>(getpid()));
  // Buffers come and go with each call: their memory stays.
  mallopt(M_MMAP_THRESHOLD, 1 << 25);
  mallopt(M_TRIM_THRESHOLD, 1 << 27);
  const char* name = "DEVNAME=crypto";
  cuse_info info{};
  info.dev_info_argc = 1;
  info.dev_info_argv = &name;
  info.flags = CUSE_UNRESTRICTED_IOCTL;
  cuse_lowlevel_ops operations{};
  operations.open = open_device;
  operations.release = release_device;
  operations.ioctl = control_device;
  std::array<char, 3> foreground{"-f"};
  std::array<char*, 3> options{arguments[0], foreground.data(), nullptr};
  return cuse_lowlevel_main(2, options.data(), &info, &operations, nullptr);
}
