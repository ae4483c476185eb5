// SPDX-License-Identifier: Apache-2.0
// What happens around a backend: children, files that take the numbers of its descriptors, sandboxes.
#pragma once

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace backend_test {

inline bool is_open(int number) {
  return fcntl(number, F_GETFD) >= 0;
}

inline int open_descriptors() {
  int open = 0;
  for (int number = 0; number < 1024; ++number) open += is_open(number) ? 1 : 0;
  return open;
}

// Runs `body` in a child; its exit status, or 1000 + the signal that ended it.
template <class Body>
inline int in_child(Body body) {
  std::cout.flush();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(body());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Each kind of file that may get the number of one of our descriptors. `peer` sees what arrives.
struct Foreign {
  int mine = -1;
  int peer = -1;
};

enum class Kind { stream, datagram, seqpacket, tcp, udp, file, none };

inline Foreign make_foreign(Kind kind) {
  std::array<int, 2> pair{-1, -1};
  switch (kind) {
    case Kind::stream:
      REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) == 0);
      break;
    case Kind::datagram:
      REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair.data()) == 0);
      break;
    case Kind::seqpacket:
      REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()) == 0);
      break;
    case Kind::tcp:
    case Kind::udp: {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      auto* plain = reinterpret_cast<sockaddr*>(&address);
      socklen_t length = sizeof address;
      const int type = kind == Kind::tcp ? SOCK_STREAM : SOCK_DGRAM;
      const int there = socket(AF_INET, type, 0);
      REQUIRE(there >= 0);
      REQUIRE(bind(there, plain, length) == 0);
      REQUIRE(getsockname(there, plain, &length) == 0);
      if (kind == Kind::tcp) REQUIRE(listen(there, 1) == 0);
      pair[0] = socket(AF_INET, type, 0);
      REQUIRE(connect(pair[0], plain, length) == 0);
      pair[1] = there;
      if (kind == Kind::tcp) {
        pair[1] = static_cast<int>(syscall(SYS_accept4, there, nullptr, nullptr, 0));
        close(there);
      }
      break;
    }
    case Kind::file: {
      std::string path = "/tmp/sunxi-test-file-XXXXXX";
      pair[0] = mkstemp(path.data());
      pair[1] = open(path.c_str(), O_RDONLY);
      unlink(path.c_str());
      break;
    }
    case Kind::none:
      break;
  }
  return {.mine = pair[0], .peer = pair[1]};
}

// Puts a foreign file at a number, as a program does that closes what it does not know and goes on.
inline Foreign steal(int number, Kind kind) {
  REQUIRE(close(number) == 0);
  Foreign foreign = make_foreign(kind);
  if (kind == Kind::none) return foreign;
  if (foreign.peer == number) {
    foreign.peer = dup(number);
    REQUIRE(foreign.peer >= 0);
  }
  if (foreign.mine != number) {
    REQUIRE(dup2(foreign.mine, number) == number);
    close(foreign.mine);
  }
  foreign.mine = number;
  REQUIRE(fcntl(foreign.peer, F_SETFL, O_NONBLOCK) == 0);
  return foreign;
}

// As OpenSSH's: fstat and open fail, whatever else this backend would call is death.
inline bool enter_sandbox() {
#if defined(__x86_64__)
  constexpr std::array deadly{SYS_socket,    SYS_bind,     SYS_setsockopt, SYS_getsockopt, SYS_accept4,
                              SYS_sendmsg,   SYS_recvfrom, SYS_fcntl,      SYS_prctl,      SYS_getrlimit,
                              SYS_prlimit64, SYS_read,     SYS_ioctl,      SYS_dup,        SYS_open};
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long number : {SYS_fstat, SYS_newfstatat, SYS_openat}) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES));
  }
  for (const long number : deadly) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
#else
  return false;
#endif
}

// A filter that allows everything.
inline bool enter_filter() {
  sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter{.len = 1, .filter = &allow};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// A filter that answers one call with an error.
inline bool refuse(long number, int error) {
  std::array program{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace backend_test
