// SPDX-License-Identifier: Apache-2.0
// /dev/hwrng's reader over files that behave as a device may: bounds of time, children, descriptors.
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "backends/entropy/source.h"
#include "tests/support/catch.h"

namespace sunxi::entropy {
namespace {

constexpr std::uint64_t second = 1'000'000'000;

std::size_t descriptors() {
  std::size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// wait() does not see the reader.
bool no_children() {
  return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
}

// As often as it takes on a machine that is short of time.
std::size_t read_some(Source& source, std::span<std::uint8_t> out) {
  for (int tries = 0; tries < 500; ++tries) {
    const ReadResult result = source.read(out, fine_clock() + second / 50);
    if (result.read != Read::done) return 0;
    if (result.bytes != 0) return result.bytes;
  }
  return 0;
}

class Fifo {
 public:
  Fifo() {
    std::array<char, 32> folder{"/tmp/sunxi-test-XXXXXX"};
    folder_ = mkdtemp(folder.data());
    path_ = folder_ + "/device";
    mkfifo(path(), 0600);
    writer_ = open(path(), O_RDWR | O_CLOEXEC);
  }
  Fifo(const Fifo&) = delete;
  Fifo& operator=(const Fifo&) = delete;
  ~Fifo() {
    close(writer_);
    unlink(path());
    rmdir(folder_.c_str());
  }
  [[nodiscard]] const char* path() const { return path_.c_str(); }
  void put(std::size_t bytes) const {
    const std::vector<char> data(bytes, 'x');
    REQUIRE(write(writer_, data.data(), bytes) == static_cast<ssize_t>(bytes));
  }

 private:
  std::string folder_;
  std::string path_;
  int writer_ = -1;
};

TEST_CASE("a device that answers is read to the end of the request") {
  Process process;
  const auto source = make_hwrng(process, true, "/dev/urandom");
  std::array<std::uint8_t, 1088> first{};
  std::array<std::uint8_t, 1088> next{};
  const ReadResult result = source->read(first, fine_clock() + 10 * second);
  CHECK(result.read == Read::done);
  CHECK(result.bytes == first.size());
  CHECK(source->read(next, fine_clock() + 10 * second).bytes == next.size());
  CHECK(first != next);
  CHECK(no_children());
}

TEST_CASE("a device without data costs no more than the time that is allowed, and leaves nothing behind") {
  const Fifo device;
  Process process;
  const std::size_t before = descriptors();
  {
    const auto source = make_hwrng(process, true, device.path());
    std::array<std::uint8_t, 64> out{};
    for (int i = 0; i < 3; ++i) {
      const ReadResult result = source->read(out, fine_clock() + 5'000'000);
      CHECK(result.read == Read::done);
      CHECK(result.bytes == 0);
      CHECK(no_children());
    }
    CHECK(descriptors() == before + 1);
    // What comes in time is given. A reader that has not been ended would take it.
    device.put(10);
    CHECK(read_some(*source, out) == 10);
    device.put(64);
    CHECK(read_some(*source, out) == 64);
  }
  CHECK(descriptors() == before);
}

TEST_CASE("missing, closed, at its end, refused") {
  Process process;
  std::array<std::uint8_t, 64> out{};
  const std::uint64_t deadline = fine_clock() + 10 * second;
  errno = 42;
  CHECK(make_hwrng(process, true, "/nonexistent/hwrng")->read(out, deadline).read == Read::absent);
  CHECK(make_hwrng(process, true, "/dev/null")->read(out, deadline).read == Read::failed);
  CHECK(make_hwrng(process, true, "/proc/self/mem")->read(out, deadline).read == Read::failed);
  CHECK(make_hwrng(process, true, "/tmp")->read(out, deadline).read == Read::failed);
  CHECK(errno == 42);
}

TEST_CASE("a descriptor that the application has taken is not read and not closed") {
  Process process;
  const auto source = make_hwrng(process, true, "/dev/urandom");
  std::array<std::uint8_t, 64> out{};
  const int expected = dup(STDERR_FILENO);
  close(expected);
  REQUIRE(source->read(out, fine_clock() + 10 * second).bytes == out.size());
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0);
  REQUIRE(dup2(ends[0], expected) == expected);
  REQUIRE(write(ends[1], "mine", 4) == 4);
  REQUIRE(source->read(out, fine_clock() + 10 * second).bytes == out.size());
  std::array<char, 5> text{};
  CHECK(read(expected, text.data(), 4) == 4);
  CHECK(std::string(text.data()) == "mine");
  close(expected);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("what a fork inherits is let go, once") {
  Process process;
  const std::size_t before = descriptors();
  const auto source = make_hwrng(process, false, "/dev/urandom");
  std::array<std::uint8_t, 64> out{};
  static_cast<void>(source->read(out, fine_clock() + 10 * second));
  source->let_go();
  source->let_go();
  CHECK(descriptors() == before);
}

// What `work` returns, in a child.
template <class Work>
bool in_child(Work&& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
}

TEST_CASE("a filter that comes later, and would kill, is seen before any call that it could mind",
          "[seccomp]") {
  CHECK(in_child([] {
    Process process;
    const auto source = make_hwrng(process, false, "/dev/urandom");
    std::array<std::uint8_t, 64> out{};
    if (source->read(out, fine_clock() + 10 * second).read == Read::absent) return true;  // filtered already
    static const sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    sock_fprog program{std::size(filter), const_cast<sock_filter*>(filter)};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      return false;
    return source->read(out, fine_clock() + second).read == Read::absent;
  }));
}

TEST_CASE("no reader becomes the first process of another namespace") {
  if (getuid() != 0) return;
  CHECK(in_child([] {
    Process process;
    const auto source = make_hwrng(process, true, "/dev/urandom");
    std::array<std::uint8_t, 64> out{};
    if (unshare(CLONE_NEWPID) != 0) return true;  // a container that may not
    if (source->read(out, fine_clock() + second).read != Read::absent) return false;
    return in_child([] { return getpid() == 1; });
  }));
}

std::atomic<int> handled{0};
void count_signal(int) {
  ++handled;
}

TEST_CASE("no SIGCHLD, and signals to the group do not run the application's handlers in the reader") {
  const Fifo device;
  Process process;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = count_signal;
  sigaction(SIGCHLD, &action, &before);
  handled = 0;
  const auto source = make_hwrng(process, true, device.path());
  std::array<std::uint8_t, 64> out{};
  static_cast<void>(source->read(out, fine_clock() + 5'000'000));
  device.put(64);
  static_cast<void>(source->read(out, fine_clock() + 10 * second));
  CHECK(handled == 0);
  sigset_t mask;
  sigset_t empty;
  sigemptyset(&empty);
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  for (int number = 1; number < 32; ++number) CHECK(sigismember(&mask, number) == 0);
  sigaction(SIGCHLD, &before, nullptr);
}

TEST_CASE("several threads, each with a reader") {
  Process process;
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto source = make_hwrng(process, true, "/dev/urandom");
      std::array<std::uint8_t, 64> out{};
      for (int turn = 0; turn < 20; ++turn) {
        if (source->read(out, fine_clock() + 10 * second).bytes == out.size()) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 80);
  CHECK(no_children());
  // And there is none, once they have all ended.
  while (waitpid(-1, nullptr, __WALL) > 0) continue;
  CHECK(errno == ECHILD);
}

}  // namespace
}  // namespace sunxi::entropy
