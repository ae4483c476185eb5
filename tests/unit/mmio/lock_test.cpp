// SPDX-License-Identifier: Apache-2.0
// The engine's lock: exclusion, bounded waits, and when a holder counts as dead.
#include "backends/mmio/lock.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <new>
#include <thread>
#include <vector>

#include "backends/process.h"
#include "tests/support/catch.h"

namespace {

using namespace sunxi;
using Taken = EngineLock::Taken;

struct Shared {
  LockWords words{};
  std::atomic<int> stage{0};
  std::uint64_t counter = 0;  // guarded by the lock
};

class LockFixture {
 public:
  LockFixture()
      : memory_(mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        shared(*new (memory_) Shared),
        lock(shared.words) {}
  LockFixture(const LockFixture&) = delete;
  LockFixture& operator=(const LockFixture&) = delete;
  ~LockFixture() { munmap(memory_, sizeof(Shared)); }

 private:
  void* memory_;

 public:
  Shared& shared;
  Process process;
  LockIdentity self;
  EngineLock lock;

  // A child that takes the lock and then does `what`, which does not return.
  template <class What>
  pid_t holder(What what) {
    const pid_t child = fork();
    if (child == 0) {
      const LockIdentity own;
      if (lock.acquire(own, process) != Taken::yes) _exit(1);
      shared.stage = 1;
      what();
      _exit(0);
    }
    while (shared.stage != 1) sched_yield();
    return child;
  }
};

void end(pid_t child) {
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
}

}  // namespace

TEST_CASE("lock: identity", "[lock]") {
  const LockIdentity self;
  CHECK((self.token & 0x7fffffff) == static_cast<std::uint64_t>(getpid()));
  CHECK((self.token & EngineLock::waiters) == 0);
  CHECK(self.token >> 32 != 0);
  CHECK(self.start_time != 0);
}

TEST_CASE("lock: taken, held, released", "[lock]") {
  LockFixture fixture;
  REQUIRE(fixture.lock.acquire(fixture.self, fixture.process) == Taken::yes);
  CHECK(fixture.shared.words.word == fixture.self.token);
  CHECK(fixture.shared.words.start_time == fixture.self.start_time);
  errno = EDOM;
  CHECK(fixture.lock.acquire(fixture.self, fixture.process) == Taken::no);  // ours, but not dead
  CHECK(errno == EDOM);
  CHECK(fixture.lock.release(fixture.process));  // somebody was waiting
  CHECK(fixture.shared.words.word == 0);
  CHECK(fixture.shared.words.start_time == 0);
  CHECK(fixture.lock.acquire(fixture.self, fixture.process) == Taken::yes);
  CHECK_FALSE(fixture.lock.release(fixture.process));
}

TEST_CASE("lock: a living holder keeps it, even if it stands still", "[lock][start_time]") {
  LockFixture fixture;
  const pid_t child = fixture.holder([] { raise(SIGSTOP); });
  int status = 0;
  REQUIRE(waitpid(child, &status, WUNTRACED) == child);
  REQUIRE(WIFSTOPPED(status));
  CHECK(fixture.lock.acquire(fixture.self, fixture.process) == Taken::no);
  end(child);
}

TEST_CASE("lock: a dead holder loses it", "[lock]") {
  LockFixture fixture;
  const pid_t child = fixture.holder([] { raise(SIGKILL); });
  siginfo_t info;
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  const bool buried = GENERATE(true, false);
  if (buried) REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(fixture.lock.acquire(fixture.self, fixture.process) == Taken::from_dead);
  CHECK((fixture.shared.words.word & ~EngineLock::waiters) == fixture.self.token);
  CHECK(fixture.shared.words.start_time == fixture.self.start_time);
  fixture.lock.release(fixture.process);
  CHECK(fixture.shared.words.word == 0);
  if (!buried) REQUIRE(waitpid(child, nullptr, 0) == child);
}

TEST_CASE("lock: somebody else with the dead holder's number", "[lock]") {
  LockFixture fixture;
  fixture.shared.words.word = fixture.self.token;
  SECTION("is told by the start time") {
    fixture.shared.words.start_time = fixture.self.start_time - 1;
    CHECK(fixture.lock.acquire(fixture.self, fixture.process) == Taken::from_dead);
  }
  SECTION("is not assumed without a record") {
    CHECK(fixture.lock.acquire(fixture.self, fixture.process) == Taken::no);
  }
}

TEST_CASE("lock: a holder of which nothing can be known keeps it", "[lock]") {
  LockFixture fixture;
  const pid_t child = fork();
  if (child == 0) _exit(0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  const auto pid = static_cast<std::uint64_t>(child);
  const std::uint64_t space = fixture.self.token >> 32;
  SECTION("another pid namespace") {
    fixture.shared.words.word = (space + 1) << 32 | pid;
  }
  SECTION("an unknown one") {
    fixture.shared.words.word = pid;
  }
  SECTION("no pid") {
    fixture.shared.words.word = space << 32;
  }
  CHECK(fixture.lock.acquire(fixture.self, fixture.process) == Taken::no);
}

TEST_CASE("lock: what a hostile peer may write into the file does no harm", "[lock]") {
  LockFixture fixture;
  fixture.shared.words.word = GENERATE(~std::uint64_t{0}, std::uint64_t{1}, EngineLock::waiters);
  fixture.shared.words.start_time = ~std::uint64_t{0};
  CHECK(fixture.lock.acquire(fixture.self, fixture.process) == Taken::no);
}

// The worst that somebody can do who may open the device, and so the file: other values all the time. Nobody
// waits beyond the limit, and what is not in the file stays as it is.
TEST_CASE("lock: an attacker who writes into the file all the time stops nobody for long", "[lock]") {
  LockFixture fixture;
  const pid_t attacker = fork();
  if (attacker == 0) {
    const std::uint64_t victim = fixture.self.token;
    for (std::uint64_t value = 1;; value = value * 0x9e37'79b9'7f4a'7c15U + 1) {
      constexpr int kinds = 5;
      fixture.shared.words.word = value % kinds == 0   ? victim
                                  : value % kinds == 1 ? victim | EngineLock::waiters
                                  : value % kinds == 2 ? 0
                                  : value % kinds == 3 ? (victim & ~std::uint64_t{0x7fffffff}) | 0x7ffffff0
                                                       : value;
      fixture.shared.words.start_time = value;
      fixture.shared.words.last_user = value;
      fixture.shared.stage = 1;
    }
  }
  REQUIRE(attacker > 0);
  while (fixture.shared.stage != 1) sched_yield();
  for (int turn = 0; turn < 300; ++turn) {
    if (fixture.lock.acquire(fixture.self, fixture.process) == Taken::no) continue;
    static_cast<void>(fixture.lock.changed_hands(fixture.self));
    fixture.lock.release(fixture.process);
  }
  CHECK(kill(attacker, 0) == 0);  // it was at it all the time
  end(attacker);
  fixture.shared.words.word = 0;
  CHECK(fixture.lock.acquire(fixture.self, fixture.process) == Taken::yes);
  fixture.lock.release(fixture.process);
}

TEST_CASE("lock: its file is closed to users who may not open the device", "[lock]") {
  if (geteuid() != 0 || access("/run", W_OK) != 0) return;
  constexpr std::uint64_t base = 0xfffffffffff0000;
  const char* path = "/run/sunxi-fffffffffff0000.lock";
  unlink(path);
  const auto attempts = [&](bool exists) {
    const pid_t child = fork();
    if (child == 0) {
      if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
      if (open(path, O_RDWR | O_CREAT, 0666) >= 0) _exit(2);
      if (open(path, O_RDONLY) >= 0) _exit(3);
      if (chmod(path, 0666) == 0 || unlink(path) == 0 || rename(path, "/tmp/stolen") == 0) _exit(4);
      if (!exists && symlink("/etc/passwd", path) == 0) _exit(5);
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(attempts(false) == 0);
  struct stat device {};
  device.st_mode = S_IFCHR | 0660;
  const char* why = nullptr;
  const Descriptor file = open_lock_file(base, device, why);
  REQUIRE(file);
  CHECK(attempts(true) == 0);
  unlink(path);
}

TEST_CASE("lock: a waiter gets it when it is released", "[lock]") {
  LockFixture fixture;
  REQUIRE(fixture.lock.acquire(fixture.self, fixture.process) == Taken::yes);
  std::thread waiter([&] {
    Taken taken = Taken::no;
    while (taken == Taken::no) taken = fixture.lock.acquire(fixture.self, fixture.process);
    fixture.lock.release(fixture.process);
  });
  while ((fixture.shared.words.word & EngineLock::waiters) == 0) std::this_thread::yield();
  fixture.lock.release(fixture.process);
  waiter.join();
  CHECK(fixture.shared.words.word == 0);
}

TEST_CASE("lock: threads and processes exclude each other", "[lock]") {
  LockFixture fixture;
  constexpr std::uint64_t turns = 2000;
  const auto work = [&](const LockIdentity& self) {
    for (std::uint64_t turn = 0; turn < turns;) {
      if (fixture.lock.acquire(self, fixture.process) == Taken::no) continue;
      ++fixture.shared.counter;
      fixture.lock.release(fixture.process);
      ++turn;
    }
  };
  const bool threads = GENERATE(true, false);
  if (threads) {
    std::vector<std::thread> users;
    users.reserve(16);
    for (int number = 0; number < 16; ++number) users.emplace_back([&] { work(fixture.self); });
    for (std::thread& user : users) user.join();
    CHECK(fixture.shared.counter == 16 * turns);
  } else {
    std::vector<pid_t> users;
    for (int number = 0; number < 4; ++number) {
      users.push_back(fork());
      if (users.back() == 0) {
        work(LockIdentity());
        _exit(0);
      }
    }
    for (const pid_t user : users) REQUIRE(waitpid(user, nullptr, 0) == user);
    CHECK(fixture.shared.counter == 4 * turns);
  }
  CHECK(fixture.shared.words.word == 0);
}

TEST_CASE_METHOD(LockFixture, "lock: it is known whether another process used the engine last", "[lock]") {
  REQUIRE(lock.acquire(self, process) == Taken::yes);
  CHECK(lock.changed_hands(self));
  CHECK_FALSE(lock.changed_hands(self));
  lock.release(process);
  REQUIRE(lock.acquire(self, process) == Taken::yes);
  CHECK_FALSE(lock.changed_hands(self));
  lock.release(process);

  const pid_t child = fork();
  if (child == 0) {
    const LockIdentity own;
    if (lock.acquire(own, process) != Taken::yes) _exit(1);
    const bool changed = lock.changed_hands(own) && !lock.changed_hands(own);
    lock.release(process);
    _exit(changed ? 0 : 2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  REQUIRE(lock.acquire(self, process) == Taken::yes);
  CHECK(lock.changed_hands(self));
  lock.release(process);
}
