// SPDX-License-Identifier: Apache-2.0
// /dev/hwrng's reader over files that behave as a device may: bounds of time, children, descriptors.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/entropy/collector.h"
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

// What `work` returns, in a child.
template <class Work>
bool in_child(Work&& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && status == 0;
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
  // Who opens it for reading from now on is alone with it. Nothing can be put.
  void read_no_more() const {
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup3(nothing, writer_, O_CLOEXEC);
    close(nothing);
  }
  void put(std::size_t bytes) const {
    const std::vector<char> data(bytes, 'x');
    REQUIRE(write(writer_, data.data(), bytes) == static_cast<ssize_t>(bytes));
  }

 private:
  std::string folder_;
  std::string path_;
  int writer_ = -1;
};

// Some child, also one that wait() does not see, is there: running, or at its end and not waited for.
bool has_child() {
  siginfo_t unused{};
  return waitid(P_ALL, 0, &unused, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0;
}

// A thread that reads a silent device, from the moment on that the reader is there.
class Waiting {
 public:
  Waiting(Source& source, const Fifo& device, std::uint64_t patience = 30 * second)
      : device_(device), thread_([this, &source, patience] {
          static_cast<void>(source.read(out_, fine_clock() + patience));
          done_ = true;
        }) {
    while (!has_child() && !done_) std::this_thread::yield();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    device_.put(out_.size());
    thread_.join();
  }
  [[nodiscard]] bool done() const { return done_; }

 private:
  const Fifo& device_;
  std::array<std::uint8_t, 64> out_{};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// The number that the next open gives.
int next_number() {
  const int number = dup(STDERR_FILENO);
  close(number);
  return number;
}

TEST_CASE("a device that answers is read to the end of the request", "[clone]") {
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

TEST_CASE("a device without data costs no more than the time that is allowed, and leaves nothing behind",
          "[clone]") {
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

TEST_CASE("missing, closed, at its end, refused", "[clone]") {
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

TEST_CASE("a descriptor that the application has taken is not read and not closed", "[clone]") {
  Process process;
  const auto source = make_hwrng(process, true, "/dev/urandom");
  std::array<std::uint8_t, 64> out{};
  const int expected = next_number();
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

TEST_CASE("a descriptor that is taken after the look at it is not read either", "[clone]") {
  Process process;
  std::array<int, 2> ends{};
  REQUIRE(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  REQUIRE(write(ends[1], "mine", 4) == 4);
  for (int turn = 0; turn < 100; ++turn) {
    const auto source = make_hwrng(process, true, "/dev/urandom");
    std::array<std::uint8_t, 64> out{};
    const int number = next_number();
    static_cast<void>(source->read(out, fine_clock() + 10 * second));
    const int device = dup(number);
    std::atomic<bool> stop{false};
    std::thread application([&] {
      while (!stop) {
        dup2(ends[0], number);
        dup2(device, number);
      }
    });
    static_cast<void>(source->read(out, fine_clock() + second / 20));
    stop = true;
    application.join();
    close(number);
    close(device);
  }
  std::array<char, 5> text{};
  CHECK(read(ends[0], text.data(), 4) == 4);
  CHECK(std::string(text.data()) == "mine");
  close(ends[0]);
  close(ends[1]);
}

// Whether the ends of pipes, with numbers below and above the device's, are closed for all while a reader
// waits.
bool lets_go_at_once() {
  const Fifo device;
  Process process;
  std::array<int, 2> low{};
  std::array<int, 2> high{};
  if (pipe2(low.data(), O_CLOEXEC) != 0) return false;
  const auto source = make_hwrng(process, true, device.path());
  std::array<std::uint8_t, 64> out{};
  static_cast<void>(source->read(out, fine_clock() + 1'000'000));
  if (pipe2(high.data(), O_CLOEXEC) != 0) return false;
  bool good = true;
  {
    const Waiting waiting(*source, device);
    for (const auto& ends : {low, high}) {
      close(ends[1]);
      pollfd hung{.fd = ends[0], .events = POLLIN, .revents = 0};
      good = good && poll(&hung, 1, 10'000) == 1 && hung.revents == POLLHUP;
    }
    good = good && !waiting.done();
  }
  close(low[0]);
  close(high[0]);
  return good;
}

TEST_CASE("what the application closes is closed, while a reader waits", "[clone]") {
  CHECK(lets_go_at_once());
}

TEST_CASE("the same with a kernel that has no close_range", "[clone][seccomp]") {
  CHECK(in_child([] {
    static const sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 436, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program{std::size(filter), const_cast<sock_filter*>(filter)};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      return false;
    return lets_go_at_once();
  }));
}

std::size_t shared_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    const std::size_t rights = line.find(' ') + 1;
    if (line.at(rights + 3) == 's') ++count;
  }
  return count;
}

TEST_CASE("children of the application do not have the page that the reader writes to", "[clone]") {
  const Fifo device;
  Process process;
  const auto source = make_hwrng(process, true, device.path());
  const std::size_t before = shared_mappings();
  {
    const Waiting waiting(*source, device);
    CHECK(shared_mappings() == before + 1);
    // The reader is there a moment before the page is hidden.
    bool hidden = false;
    for (int tries = 0; tries < 50 && !hidden; ++tries)
      hidden = in_child([&] { return shared_mappings() == before; });
    CHECK(hidden);
    CHECK_FALSE(waiting.done());
  }
  CHECK(shared_mappings() == before);
}

// Of the process `parent` a child that is not `other`; 0 if there is none.
pid_t child_of(pid_t parent, pid_t other) {
  pid_t found = 0;
  DIR* folder = opendir("/proc");
  while (const dirent* entry = readdir(folder)) {
    const pid_t number = std::atoi(entry->d_name);
    if (number == 0 || number == other) continue;
    std::ifstream stat("/proc/" + std::to_string(number) + "/stat");
    std::string line;
    std::getline(stat, line);
    const std::size_t name_end = line.rfind(')');
    if (name_end == std::string::npos || name_end + 4 > line.size()) continue;
    if (std::atoi(line.c_str() + name_end + 4) == parent) found = number;
  }
  closedir(folder);
  return found;
}

TEST_CASE("a reader that does not end in time is waited for later", "[clone]") {
  const Fifo device;
  Process process;
  const auto source = make_hwrng(process, true, device.path());
  std::array<int, 2> orders{};
  std::array<int, 2> answers{};
  REQUIRE(pipe2(orders.data(), O_CLOEXEC) == 0);
  REQUIRE(pipe2(answers.data(), O_CLOEXEC) == 0);
  const pid_t self = getpid();
  // The end of a process that is traced is its tracer's first.
  const pid_t tracer = fork();
  if (tracer == 0) {
    char done = 0;
    if (read(orders[0], &done, 1) != 1) _exit(1);
    const pid_t reader = child_of(self, getpid());
    done = reader != 0 && ptrace(PTRACE_SEIZE, reader, nullptr, nullptr) == 0 ? 'y' : 'n';
    if (write(answers[1], &done, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char traced = 0;
  {
    std::array<std::uint8_t, 64> out{};
    std::thread thread([&] { static_cast<void>(source->read(out, fine_clock() + 30 * second)); });
    while (child_of(self, tracer) == 0) std::this_thread::yield();
    REQUIRE(write(orders[1], "g", 1) == 1);
    REQUIRE(read(answers[0], &traced, 1) == 1);
    device.put(64);
    thread.join();
  }
  kill(tracer, SIGKILL);
  REQUIRE(waitpid(tracer, nullptr, 0) == tracer);
  for (const auto& ends : {orders, answers}) {
    close(ends[0]);
    close(ends[1]);
  }
  if (traced == 'y') {
    CHECK(has_child());
    CHECK(no_children());
  } else {
    WARN("not allowed to trace");
  }
  // It may still be on its way to its end.
  const std::uint64_t deadline = fine_clock() + 20 * second;
  do {
    source->tidy();
  } while (has_child() && fine_clock() < deadline);
  CHECK_FALSE(has_child());
}

bool is_program(pid_t process, std::string_view name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/comm");
  std::string found;
  std::getline(file, found);
  return found == name;
}

TEST_CASE("a reader ends itself, also where its parent has become another program", "[clone]") {
  const Fifo device;
  const int writer = open(device.path(), O_WRONLY | O_CLOEXEC);
  device.read_no_more();
  const pid_t child = fork();
  if (child == 0) {
    Process process;
    const auto source = make_hwrng(process, true, device.path());
    std::array<std::uint8_t, 64> out{};
    const int number = next_number();
    static_cast<void>(source->read(out, fine_clock() + 1'000'000));
    fcntl(number, F_SETFL, 0);  // as a device that makes everybody wait
    // A handler that runs while the thread waits for its reader, and does not return. (Another thread's exec
    // ends this one, and the kernel the reader with it.)
    static const pthread_t waiting = pthread_self();
    signal(SIGUSR1, [](int) { execlp("sleep", "sleep", "1000", nullptr); });
    std::thread([] {
      while (!has_child()) std::this_thread::yield();
      pthread_kill(waiting, SIGUSR1);
    }).detach();
    static_cast<void>(source->read(out, fine_clock() + second / 2));
    _exit(1);
  }
  // Nobody has it open for reading any more: after a first time, when nobody has yet.
  const auto readers = [&] {
    pollfd state{.fd = writer, .events = POLLOUT, .revents = 0};
    poll(&state, 1, 0);
    return (state.revents & POLLERR) == 0;
  };
  const std::uint64_t deadline = fine_clock() + 20 * second;
  while (!is_program(child, "sleep") && fine_clock() < deadline) std::this_thread::yield();
  while (readers() && fine_clock() < deadline) std::this_thread::yield();
  CHECK_FALSE(readers());
  CHECK(is_program(child, "sleep"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(writer);
}

TEST_CASE("an application that closes all descriptors has the device opened again, and its own left alone",
          "[clone]") {
  CHECK(in_child([] {
    Process process;
    const auto source = make_hwrng(process, false, "/dev/urandom");
    std::array<std::uint8_t, 64> out{};
    if (source->read(out, fine_clock() + 10 * second).read == Read::absent) return true;  // filtered already
    for (int turn = 0; turn < 3; ++turn) {
      for (int number = STDERR_FILENO + 1; number < 256; ++number) close(number);
      // Those that have its numbers now.
      std::array<std::array<int, 2>, 4> pipes{};
      for (auto& ends : pipes) {
        if (pipe2(ends.data(), O_CLOEXEC) != 0 || write(ends[1], "mine", 4) != 4) return false;
      }
      if (source->read(out, fine_clock() + 10 * second).bytes != out.size()) return false;
      for (auto& ends : pipes) {
        std::array<char, 5> text{};
        if (read(ends[0], text.data(), 4) != 4 || std::string_view(text.data()) != "mine") return false;
      }
    }
    return true;
  }));
}

TEST_CASE("without /proc it is that which is said, and nothing of a filter that nobody has seen") {
  if (getuid() != 0) return;
  std::array<char, 32> folder{"/tmp/sunxi-test-XXXXXX"};
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  CHECK(in_child([&] {
    if (chroot(folder.data()) != 0 || chdir("/") != 0) return false;
    close(open("/device", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    Process process;
    std::array<std::uint8_t, 64> out{};
    bool good = true;
    for (const bool under_seccomp : {false, true}) {
      const ReadResult result =
          make_hwrng(process, under_seccomp, "/device")->read(out, fine_clock() + second);
      good = good && result.read == Read::absent && result.error == ENOENT &&
             std::string_view(result.problem).starts_with("/proc/");
    }
    const ReadResult result = make_afalg_rng(process, false, "stdrng")->read(out, fine_clock() + second);
    good = good && result.error == ENOENT && std::string_view(result.problem).starts_with("/proc/");
    unlink("/device");
    return good;
  }));
  rmdir(folder.data());
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

// What is done in the first thread, or in another of the process: filters and namespaces are a thread's.
template <class Work>
bool in_thread(bool first, Work&& work) {
  if (first) return work();
  bool result = false;
  std::thread([&] { result = work(); }).join();
  return result;
}

TEST_CASE("a filter of one thread is seen there") {
  CHECK(in_child([] {
    Process process;
    const auto source = make_hwrng(process, false, "/dev/urandom");
    std::array<std::uint8_t, 64> out{};
    if (source->read(out, fine_clock() + 10 * second).read == Read::absent) return true;  // filtered already
    const bool seen = in_thread(false, [&] {
      static const sock_filter filter[] = {
          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 1, 0),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      };
      sock_fprog program{std::size(filter), const_cast<sock_filter*>(filter)};
      return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
             prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 && Process::filtered() &&
             source->read(out, fine_clock() + second).read == Read::absent;
    });
    return seen && !Process::filtered();
  }));
}

TEST_CASE("a filter is seen behind very many groups") {
  if (getuid() != 0) return;
  // Lines of every length before the one that counts, so that it is cut at each of its bytes.
  for (const std::size_t many : {0U, 100U, 170U, 171U, 172U, 173U, 174U, 175U, 2000U}) {
    CHECK(in_child([many] {
      std::vector<gid_t> groups(many);
      for (std::size_t i = 0; i < many; ++i) groups[i] = static_cast<gid_t>(4'000'000'000U + i);
      if (setgroups(groups.size(), groups.data()) != 0) return true;  // a container that may not
      for (std::size_t digits = 1; many != 0 && digits < 10; ++digits) {
        groups[0] = static_cast<gid_t>(std::pow(10, digits));
        if (setgroups(groups.size(), groups.data()) != 0 || Process::filtered()) return false;
      }
      static const sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
      sock_fprog program{std::size(filter), const_cast<sock_filter*>(filter)};
      for (std::size_t digits = 1; digits < 10; ++digits) {
        if (many != 0) groups[0] = static_cast<gid_t>(std::pow(10, digits));
        if (setgroups(groups.size(), groups.data()) != 0) return false;
        if (digits == 1 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return false;
        if (!Process::filtered()) return false;
      }
      return true;
    }));
  }
}

TEST_CASE("no reader becomes the first process of another namespace") {
  if (getuid() != 0) return;
  for (const bool first : {true, false}) {
    CHECK(in_child([first] {
      return in_thread(first, [] {
        Process process;
        const auto source = make_hwrng(process, true, "/dev/urandom");
        std::array<std::uint8_t, 64> out{};
        if (unshare(CLONE_NEWPID) != 0) return true;  // a container that may not
        if (source->read(out, fine_clock() + second).read != Read::absent) return false;
        return in_child([] { return getpid() == 1; });
      });
    }));
  }
}

// The end of such a thread is an unwinding by force, after which the sanitizers find its stack as it was.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a thread that is cancelled ends at its next chance, and nothing else does", "[clone]") {
  Process process;
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(make_hwrng(process, false, "/dev/urandom"));
  Collector collector(nullptr, process, std::move(sources));
  struct Work {
    Collector& collector;
    std::atomic<bool> gathered;
  } work{collector, false};
  pthread_t thread{};
  REQUIRE(pthread_create(
              &thread, nullptr,
              [](void* opaque) -> void* {
                Work& mine = *static_cast<Work*>(opaque);
                pthread_cancel(pthread_self());
                Collector::Gathered gathered{};
                mine.collector.gather(gathered);
                mine.gathered = true;
                pthread_testcancel();
                return nullptr;
              },
              &work) == 0);
  void* result = nullptr;
  REQUIRE(pthread_join(thread, &result) == 0);
  CHECK(result == PTHREAD_CANCELED);
  CHECK(work.gathered);
}
#endif

std::atomic<int> handled{0};
void count_signal(int) {
  ++handled;
}

TEST_CASE("no SIGCHLD, and signals to the group do not run the application's handlers in the reader",
          "[clone]") {
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

TEST_CASE("several threads, each with a reader", "[clone]") {
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
