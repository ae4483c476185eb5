// SPDX-License-Identifier: Apache-2.0
// What tests need of a kernel and an emulator of programs may lack. Usage: probe
// clone|fork|seccomp|start_time. Exit status 0: it is there, 77: it is not, and a line says so.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

namespace {

// Whether a page that asked for it is zero in a forked child.
bool page_is_wiped() {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  auto* byte = static_cast<volatile unsigned char*>(page);
  *byte = 1;
  if (madvise(page, 4096, MADV_WIPEONFORK) != 0) return true;  // refused, so that the program knows
  const pid_t child = fork();
  if (child == 0) _exit(*byte);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

// Whether a child can be made that shares descriptors, and no memory.
bool child_shares_descriptors() {
  const auto child = static_cast<pid_t>(syscall(SYS_clone, CLONE_FILES, 0, 0, 0, 0));
  if (child == 0) _exit(0);
  return child > 0 && waitpid(child, nullptr, __WALL) == child;
}

bool filter_is_installed() {
  std::array<sock_filter, 1> code{BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The 22nd field of proc(5)'s stat.
std::string start_time(const std::string& who) {
  std::ifstream file("/proc/" + who + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  text.erase(0, text.rfind(')'));
  std::size_t at = 0;
  for (int field = 3; field <= 22; ++field) at = text.find(' ', at) + 1;
  return text.substr(at, text.find(' ', at) - at);
}

// Whether a process says of its start what others say of it. (An emulator's may also differ by thread.)
bool start_times_agree() {
  std::array<int, 2> pipes{};
  if (pipe(pipes.data()) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    const std::string mine = start_time("self");
    if (write(pipes[1], mine.data(), mine.size()) < 0) _exit(1);
    pause();
  }
  std::array<char, 64> said{};
  const ssize_t size = read(pipes[0], said.data(), said.size());
  const std::string seen = start_time(std::to_string(child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return size > 0 && seen == std::string(said.data(), static_cast<std::size_t>(size));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  const auto answer = [&](bool there, const char* lack) {
    if (!there) std::printf("probe: %s\n", lack);
    return there ? 0 : 77;
  };
  if (what == "clone")
    return answer(child_shares_descriptors(), "clone: no child that shares descriptors alone can be made");
  if (what == "fork")
    return answer(page_is_wiped(), "fork: MADV_WIPEONFORK is accepted, and a child sees the page's bytes");
  if (what == "seccomp") return answer(filter_is_installed(), "seccomp: no filter can be installed");
  if (what == "start_time")
    return answer(start_times_agree(),
                  "start_time: /proc/self/stat and /proc/PID/stat disagree about a start");
  std::puts("usage: probe clone|fork|seccomp|start_time");
  return 2;
}
