// SPDX-License-Identifier: Apache-2.0
// Fork generation, descriptors that change behind our back, and the log.
#include "backends/process.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace sunxi {
namespace {

// Runs `check` in a child; true if it returned true.
template <class Check>
bool in_child(Check&& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_CASE("a child has a generation of its own, and so has its child", "[fork]") {
  Process process;
  const std::uint64_t mine = process.generation();
  CHECK(mine != 0);
  CHECK(process.generation() == mine);
  CHECK(in_child([&] {
    const std::uint64_t childs = process.generation();
    return childs != mine && process.generation() == childs &&
           in_child([&] { return process.generation() != childs && process.generation() != mine; });
  }));
  CHECK(process.generation() == mine);
}

// From now on the system call gets this answer.
bool answer(unsigned int call, unsigned int action) {
  const sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{sizeof filter / sizeof filter[0], const_cast<sock_filter*>(filter)};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_CASE("a child has a generation of its own also where no page is wiped in it, whatever is said of that",
          "[fork][seccomp]") {
  for (const unsigned int error : {static_cast<unsigned int>(EINVAL), 0U}) {
    CHECK(in_child([error] {
      if (!answer(SYS_madvise, SECCOMP_RET_ERRNO | error)) return false;
      Process process;
      const std::uint64_t mine = process.generation();
      // And it is found out once.
      if (!answer(SYS_madvise, SECCOMP_RET_KILL_PROCESS) || process.generation() != mine) return false;
      return in_child([&] { return process.generation() != mine; });
    }));
  }
}

TEST_CASE("threads of a child agree on the generation", "[fork]") {
  Process process;
  const std::uint64_t mine = process.generation();
  CHECK(in_child([&] {
    std::array<std::uint64_t, 8> seen{};
    std::vector<std::thread> threads;
    for (std::uint64_t& one : seen) threads.emplace_back([&] { one = process.generation(); });
    for (std::thread& thread : threads) thread.join();
    for (const std::uint64_t one : seen) {
      if (one != seen[0] || one == mine) return false;
    }
    return true;
  }));
}

struct Counted {
  explicit Counted(Counted* older, int& made) : inherited(older) { ++made; }
  Counted* inherited;
};

TEST_CASE("what a process holds is made anew in a child, with the inherited one at hand", "[fork]") {
  Process process;
  PerProcess<Counted> state;
  int made = 0;
  Counted* mine = state.get(process.generation(), made);
  CHECK(mine->inherited == nullptr);
  CHECK(state.get(process.generation(), made) == mine);
  CHECK(made == 1);
  CHECK(in_child([&] {
    if (state.peek(process.generation()) != nullptr) return false;
    Counted* childs = state.get(process.generation(), made);
    return childs != mine && childs->inherited == mine && state.peek(process.generation()) == childs;
  }));
}

int temporary_file() {
  return memfd_create("sunxi-test", MFD_CLOEXEC);
}

TEST_CASE("a descriptor closes what it opened and nothing else") {
  const int number = temporary_file();
  REQUIRE(number >= 0);
  {
    const Descriptor owned(number);
    CHECK(owned.state() == Descriptor::State::ours);
  }
  CHECK(fcntl(number, F_GETFD) == -1);

  const int again = temporary_file();
  REQUIRE(again == number);
  Descriptor stolen(again);
  close(again);
  const int foreign = temporary_file();
  REQUIRE(foreign == number);
  CHECK(stolen.state() == Descriptor::State::stolen);
  stolen.reset();
  CHECK(fcntl(foreign, F_GETFD) != -1);
  close(foreign);
}

TEST_CASE("a moved descriptor has one owner") {
  Descriptor first(temporary_file());
  const int number = first.get();
  Descriptor second(std::move(first));
  CHECK_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question
  CHECK(second.get() == number);
  second = Descriptor();
  CHECK(fcntl(number, F_GETFD) == -1);
}

class Collected final : public Process {
 public:
  std::vector<std::string> lines;
  std::uint64_t time = 1;
  [[nodiscard]] std::uint64_t now() const noexcept override { return time; }

 protected:
  void write_line(const char* line, std::size_t length) noexcept override {
    lines.emplace_back(line, length);
  }
};

TEST_CASE("log lines start with the name, are one line each, and obey the level") {
  Collected process;
  process.set_log_level(LogLevel::error);
  process.log(LogLevel::info, "nothing");
  process.log(LogLevel::error, "two\nlines %d", 7);
  CHECK(process.lines == std::vector<std::string>{"sunxi: two lines 7\n"});
  process.set_log_level(LogLevel::off);
  process.log(LogLevel::error, "nothing");
  CHECK(process.lines.size() == 1);
  process.set_log_level(LogLevel::error);
  process.log(LogLevel::error, "%s", std::string(5000, 'x').c_str());
  CHECK(process.lines.back().size() <= 512);
  CHECK(process.lines.back().back() == '\n');
}

TEST_CASE("repeated errors are held back for a while") {
  Collected process;
  for (int i = 0; i < 1000; ++i) process.log(LogLevel::error, "again");
  CHECK(process.lines.size() == 21);
  CHECK(process.lines.back().find("not shown") != std::string::npos);
  process.time += 11'000'000'000U;
  process.log(LogLevel::error, "again");
  CHECK(process.lines.back() == "sunxi: again\n");
}

// From now on fstat answers `answer`, everything else is let through.
bool answer_fstat(int answer) {
#if defined(SYS_fstat64)
  constexpr std::uint32_t number = SYS_fstat64;
#else
  constexpr std::uint32_t number = SYS_fstat;
#endif
  std::array filter{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(answer)),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_CASE("a sandbox is noticed whenever it begins, and a filter that lets fstat through is seen in /proc",
          "[seccomp]") {
  CHECK_FALSE(Process::filtered());
  for (const int answer : {EACCES, EPERM}) {
    CHECK(in_child([&] {
      Collected process;
      process.set_log_level(LogLevel::info);
      const Descriptor file(temporary_file());
      if (process.sandboxed() || !answer_fstat(answer)) return false;
      return process.sandboxed() && file.state() == Descriptor::State::sandboxed && Process::filtered();
    }));
  }
}

TEST_CASE("in a sandbox nothing is logged", "[seccomp]") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  CHECK(in_child([&] {
    dup2(ends[1], STDERR_FILENO);
    Process process;
    process.log(LogLevel::error, "before");
    if (!answer_fstat(EACCES)) return false;
    process.log(LogLevel::error, "after");
    return true;
  }));
  close(ends[1]);
  std::array<char, 200> text{};
  const ssize_t got = read(ends[0], text.data(), text.size() - 1);
  close(ends[0]);
  CHECK(got > 0);
  CHECK(std::string(text.data()) == "sunxi: before\n");
}

TEST_CASE("a log line neither kills nor stops a program whose standard error nobody reads") {
  for (const bool closed : {true, false}) {
    INFO(closed);
    CHECK(in_child([&] {
      std::array<int, 2> ends{};
      if (pipe2(ends.data(), O_NONBLOCK) != 0) return false;
      const std::array<char, 4096> filling{};
      if (closed) {
        close(ends[0]);
      } else {
        while (write(ends[1], filling.data(), filling.size()) > 0) {
        }
        fcntl(ends[1], F_SETFL, 0);
      }
      dup2(ends[1], STDERR_FILENO);
      alarm(20);  // a write that waits ends here
      Process process;
      process.log(LogLevel::error, "lost");
      sigset_t pending;
      return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 0;
    }));
  }
}

TEST_CASE("a terminal gets no control characters from a logged value") {
  Collected process;
  process.log(LogLevel::error, "%s", "a\x1b[31mb\x7f\r\x9b");
  CHECK(process.lines == std::vector<std::string>{"sunxi: a [31mb  \x9b\n"});
}

TEST_CASE("a log line never lands in a file that took the place of standard error") {
  CHECK(in_child([] {
    Process process;
    const int file = temporary_file();
    dup2(file, STDERR_FILENO);
    process.log(LogLevel::error, "for syslog");
    return lseek(file, 0, SEEK_END) == 0;
  }));
}

}  // namespace
}  // namespace sunxi
