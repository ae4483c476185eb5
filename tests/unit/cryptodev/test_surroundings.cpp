// SPDX-License-Identifier: Apache-2.0
// What happens around the /dev/crypto backend: system calls, sessions and descriptors, an absent device,
// drivers that are software, descriptors that are taken, forks, sandboxes, threads.
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <thread>

#include "tests/unit/backend/messages.h"
#include "tests/unit/backend/surroundings.h"
#include "tests/unit/cryptodev/bed.h"

using namespace cryptodev_test;

namespace {

// The model's own calls, and what a C library needs in the end. All else is death.
bool allow_only_the_model() {
#if defined(__x86_64__)
  constexpr std::array allowed{
      SYS_process_vm_readv, SYS_process_vm_writev, SYS_getpid, SYS_newfstatat, SYS_ioctl, SYS_futex,
      SYS_exit_group};
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long number : allowed) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  const sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
#else
  return false;
#endif
}

// A sanitizer makes calls of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_sanitizer = true;
#elif defined(__has_feature)
constexpr bool has_sanitizer = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool has_sanitizer = false;
#endif

void release_all(Bed& bed, auto& slots) {
  for (KeySlot& slot : slots) bed.backend->release(slot);
}

// CIOCFSESSION
int free_session(int descriptor, std::uint32_t id) {
  return ioctl(descriptor, _IOW('c', 103, std::uint32_t), &id);
}

}  // namespace

TEST_CASE("a request is one ioctl and no other system call") {
  Bed bed;
  if (has_sanitizer || is_real(bed)) return;
  constexpr std::size_t rounds = 50;
  CHECK(in_child([&] {
          // The whole of it in advance, as the loop must not allocate.
          KeySlot slot;
          const Variant& variant = aes_cbc(16);
          const Bytes key = Random(1).bytes(16);
          Bytes in = Random(2).bytes(65536);
          Bytes out(65536 + 16);
          std::array<std::uint8_t, 32> digest{};
          Iv iv{};
          if (request(*bed.backend, slot, variant, key, iv, in.data(), out.data(), in.size(), true).outcome !=
              Outcome::served)
            return 1;
          KeySlot message;
          const auto hash = [&](std::size_t length) {
            return bed.backend->extend(message, sha256.spec, in.data(), length) == Outcome::served &&
                   bed.backend->conclude(message, sha256.spec, digest.data()) == Outcome::served;
          };
          if (!hash(65536)) return 2;
          const std::uint64_t before = bed.control->count("crypt");
          const std::uint64_t others = bed.control->count("gsession") + bed.control->count("fsession") +
                                       bed.control->count("info") + bed.control->count("opens");
          if (!allow_only_the_model()) return 3;
          for (std::size_t i = 0; i < rounds; ++i) {
            for (const std::size_t length : {std::size_t{16}, std::size_t{1024}, std::size_t{65536}}) {
              if (request(*bed.backend, slot, variant, key, iv, in.data(), out.data(), length, true).done !=
                  length)
                return 4;
              if (!hash(length)) return 5;
            }
          }
          if (bed.control->count("crypt") - before != 6 * rounds) return 6;
          if (bed.control->count("gsession") + bed.control->count("fsession") + bed.control->count("info") +
                  bed.control->count("opens") !=
              others)
            return 7;
          return 0;
        }) == 0);
}

TEST_CASE("once in a tick of the clock there is one look at the descriptor") {
  Bed bed;
  if (has_sanitizer || is_real(bed)) return;
  // fstat, which the filter makes deadly.
  const auto in_a_later_tick = [&](bool later) {
    return in_child([&] {
      KeySlot slot;
      const Bytes key(16, 1);
      if (!serves(*bed.backend, slot, key, 1)) return 1;
      const Bytes in(64);
      Bytes out(64);
      Iv iv{};
      if (!allow_only_the_model()) return 2;
      if (later) bed.process.time += 4'000'000;
      (void)request(*bed.backend, slot, aes_cbc(16), key, iv, in.data(), out.data(), 64, true);
      return 0;
    });
  };
  CHECK(in_a_later_tick(false) == 0);
  CHECK(in_a_later_tick(true) == 1000 + SIGSYS);
}

TEST_CASE("sessions are shared by slots with equal keys, and closed with the last") {
  const std::string first = GENERATE("0", "random");
  Bed bed;
  if (is_real(bed)) return;
  bed.set("first-id=" + first);
  const Bytes key = Random(9).bytes(32);
  std::array<KeySlot, 20> slots;
  for (KeySlot& slot : slots) must_serve(*bed.backend, slot, key);
  CHECK(bed.count("gsession") == 1);
  CHECK(bed.count("opens") == 1);
  for (std::size_t i = 1; i < slots.size(); ++i) bed.backend->release(slots[i]);
  must_serve(*bed.backend, slots[0], key);
  CHECK(bed.count("fsession") == 0);
  bed.backend->release(slots[0]);
  CHECK(slots[0].session == nullptr);
  CHECK(bed.count("fsession") == 1);
  CHECK(bed.sessions() == 0);
  CHECK(bed.files() == 1);  // one is kept
  bed.backend->release(slots[0]);

  // Another key, a key that begins alike, and the same of another mode are other sessions.
  const Bytes shorter(key.begin(), key.begin() + 16);
  Bytes other = key;
  other.back() = static_cast<std::uint8_t>(other.back() ^ 1U);
  must_serve(*bed.backend, slots[0], key);
  must_serve(*bed.backend, slots[1], shorter);
  must_serve(*bed.backend, slots[2], other);
  must_serve(*bed.backend, slots[3], variant_of("AES-256-CTR"), key);
  CHECK(bed.sessions() == 4);
  CHECK(bed.count("opens") == 1);
  for (const int number : device_numbers()) {
    CHECK(number >= 256);
    CHECK((fcntl(number, F_GETFD) & FD_CLOEXEC) != 0);
  }
  release_all(bed, slots);
  CHECK(bed.sessions() == 0);
}

TEST_CASE("few sessions on each descriptor, and few descriptors") {
  Bed bed;
  if (is_real(bed)) return;
  std::array<KeySlot, 33> slots;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    must_serve(*bed.backend, slots[i], Random(i).bytes(16));
    CHECK(bed.files() == static_cast<int>(i / 8) + 1);
  }
  release_all(bed, slots);
  CHECK(bed.files() == 1);
  CHECK(bed.sessions() == 0);

  CHECK(in_child([&] {
          bed.reset();
          rlimit limit{};
          getrlimit(RLIMIT_NOFILE, &limit);
          limit.rlim_cur = 70;  // a sixteenth is 4
          setrlimit(RLIMIT_NOFILE, &limit);
          std::array<KeySlot, 34> many;
          for (std::size_t i = 0; i < many.size(); ++i) {
            const Outcome outcome =
                ask(*bed.backend, many[i], Random(i).bytes(16), {}, Bytes(64)).result.outcome;
            if (outcome != (i < 24 ? Outcome::served : Outcome::busy)) return 1;
          }
          Message message;
          if (message.extend(*bed.backend, Bytes(100)) != Outcome::busy) return 2;
          if (device_numbers().size() != 3) return 3;
          for (const int number : device_numbers()) {
            if (number < 3) return 4;
          }
          // Messages have half of all.
          for (std::size_t i = 0; i < 9; ++i) bed.backend->release(many[i]);
          if (message.extend(*bed.backend, Bytes(100)) != Outcome::served) return 5;
          if (!message.conclude(*bed.backend)) return 6;
          for (std::size_t i = 0; i < 8; ++i) {
            if (!serves(*bed.backend, many[i], Random(i).bytes(16), 4)) return 10;
          }
          // One that waits for a message gives way.
          if (!serves(*bed.backend, many[33], Random(33).bytes(16), 5)) return 7;
          if (ask(*bed.backend, many[32], Random(32).bytes(16), {}, Bytes(64)).result.outcome !=
              Outcome::busy)
            return 8;
          bed.backend.reset();
          return device_numbers().empty() ? 0 : 9;
        }) == 0);
}

TEST_CASE("numbers of the standard streams are avoided") {
  Bed bed;
  CHECK(in_child([&] {
          KeySlot slot;
          close(0);
          close(1);
          if (!serves(*bed.backend, slot, Bytes(16, 1), 1)) return 1;
          return is_open(0) || is_open(1) ? 2 : 0;
        }) == 0);
}

TEST_CASE("a session that the module does not know any more is opened once more") {
  Bed bed;
  if (is_real(bed)) return;
  bed.set("first-id=0");
  const Bytes key = Random(4).bytes(16);
  KeySlot slot;
  must_serve(*bed.backend, slot, key);
  REQUIRE(device_numbers().size() == 1);
  REQUIRE(free_session(device_numbers()[0], 0) == 0);
  bed.clear();
  must_serve(*bed.backend, slot, key, 200000);
  CHECK(bed.count("gsession") == 1);
  CHECK(bed.count("opens") == 0);
  CHECK(bed.files() == 1);
  bed.backend->release(slot);
  // The same with a message in the buffer, and with one that is started.
  for (const bool started : {false, true}) {
    INFO("started " << started);
    bed.reset();
    Message message;
    REQUIRE(message.extend(*bed.backend, Bytes(started ? 70000 : 100, 5)) == Outcome::served);
    REQUIRE(free_session(device_numbers()[0], 0) == 0);
    if (started) {
      CHECK(message.lose(*bed.backend) == Outcome::busy);
    } else {
      CHECK(message.conclude(*bed.backend));
    }
    must_hash(*bed.backend);
  }
  CHECK(bed.process.text().empty());
}

TEST_CASE("why it is not used is said once, with what to do") {
  struct Case {
    const char* setting;
    Outcome expected;
    const char* line;
  };
  for (const Case& one : {
           Case{"refuse-open=ENOENT", Outcome::unavailable,
                "cryptodev is not used: no /dev/crypto (load the module cryptodev, or build it for this "
                "kernel)\n"},
           Case{"refuse-open=ENXIO", Outcome::unavailable,
                "cryptodev is not used: nothing behind /dev/crypto (load the module cryptodev, or build it "
                "for this "
                "kernel)\n"},
           Case{"refuse-open=ENODEV", Outcome::unavailable,
                "cryptodev is not used: nothing behind /dev/crypto (load the module cryptodev, or build it "
                "for this "
                "kernel)\n"},
           Case{"refuse-open=EACCES", Outcome::unavailable,
                "cryptodev is not used: no permission for /dev/crypto: EACCES (a udev rule can give it to a "
                "group)\n"},
           Case{"refuse-open=EPERM", Outcome::unavailable,
                "cryptodev is not used: no permission for /dev/crypto: EPERM (a udev rule can give it to a "
                "group)\n"},
           Case{"refuse-open=EIO", Outcome::unavailable,
                "cryptodev is not used: /dev/crypto cannot be opened: EIO\n"},
           Case{"fault=gsession:ENOTTY:1:every", Outcome::unavailable,
                "cryptodev is not used: /dev/crypto is not that of cryptodev-linux: CIOCGSESSION answers "
                "ENOTTY\n"},
           Case{"refuse-open=EMFILE", Outcome::busy, nullptr},
           Case{"refuse-open=ENFILE", Outcome::busy, nullptr},
           Case{"refuse-open=ENOMEM", Outcome::busy, nullptr},
           Case{"limit=1", Outcome::busy, nullptr},
           Case{"fault=info:EFAULT:1:every", Outcome::failed, nullptr},
           Case{"absent=cbc(aes)", Outcome::unavailable, nullptr},
       }) {
    INFO(one.setting);
    Bed bed;
    if (is_real(bed)) return;
    // Somebody else's sessions leave no room.
    KeySlot held;
    const auto other = make_cryptodev_backend(bed.process, bed.options);
    if (std::string(one.setting) == "limit=1") must_serve(*other, held, Bytes(16, 7));
    bed.set(one.setting);
    for (int again = 0; again < 3; ++again) {
      for (const char* name : {"AES-128-CBC", "AES-256-CBC"}) {
        KeySlot slot;
        const Variant& variant = variant_of(name);
        errno = 4711;
        const Answer answer =
            ask(*bed.backend, slot, variant.spec(), Bytes(variant.key_bytes, 3), {}, Bytes(64));
        CHECK(errno == 4711);
        CHECK(answer.result.outcome == one.expected);
        CHECK(answer.result.done == 0);
        if (one.expected == Outcome::unavailable) CHECK(slot.session == nullptr);
        bed.backend->release(slot);
      }
      bed.process.time += 2'000'000'000;
    }
    if (one.line != nullptr) {
      // For another algorithm it is not said again.
      KeySlot slot;
      CHECK(
          ask(*bed.backend, slot, variant_of("DES-CBC").spec(), Bytes(8, 3), {}, Bytes(64)).result.outcome ==
          one.expected);
      CHECK(bed.process.text() == std::string("sunxi: ") + one.line);
    } else {
      const std::string text = bed.process.text();
      INFO(text);
      CHECK(std::count(text.begin(), text.end(), '\n') == 1);
      CHECK(text.find("sunxi: cryptodev is not used for AES-CBC: ") == 0);
    }
    other->release(held);
    for (const char* setting : {"refuse-open=0", "limit=0", "absent=none", "fault=none"}) bed.set(setting);
    KeySlot slot;
    must_serve(*bed.backend, slot, Bytes(16, 1));
    bed.backend->release(slot);
  }
}

TEST_CASE("what is no device of the module") {
  TestProcess process;
  process.set_log_level(LogLevel::info);
  std::string file = "/tmp/sunxi-test-file-XXXXXX";
  close(mkstemp(file.data()));
  struct Case {
    const char* path;
    std::string line;
  };
  for (const Case& one : {
           Case{"/nonexistent/crypto",
                "no /nonexistent/crypto (load the module cryptodev, or build it for this "
                "kernel)"},
           Case{file.c_str(), file + " is not a character device"},
           Case{"/tmp", "/tmp cannot be opened: EISDIR"},
           Case{"/dev/null", "/dev/null is not that of cryptodev-linux: CIOCGSESSION answers ENOTTY"},
       }) {
    INFO(one.path);
    TestProcess own;
    own.set_log_level(LogLevel::info);
    const int before = open_descriptors();
    const auto backend = make_cryptodev_backend_with(own, {}, one.path);
    KeySlot slot;
    for (int i = 0; i < 2; ++i)
      CHECK(ask(*backend, slot, Bytes(16), {}, Bytes(16)).result.outcome == Outcome::unavailable);
    Message message;
    CHECK(message.extend(*backend, Bytes(16)) == Outcome::unavailable);
    CHECK(own.text() == "sunxi: cryptodev is not used: " + one.line + "\n");
    CHECK(open_descriptors() == before);
  }
  unlink(file.c_str());
}

TEST_CASE("a device that goes while in use") {
  Bed bed;
  if (is_real(bed)) return;
  const Bytes key = Random(1).bytes(16);
  KeySlot slot;
  must_serve(*bed.backend, slot, key);
  bed.set("gone=1");
  bed.set("refuse-open=ENODEV");
  CHECK(ask(*bed.backend, slot, key, {}, Bytes(64)).result.outcome == Outcome::failed);
  CHECK(bed.process.text().find("sunxi: cryptodev: AES-CBC (cbc-aes-sun4i-ss): CIOCCRYPT: ENODEV\n") !=
        std::string::npos);
  CHECK(ask(*bed.backend, slot, key, {}, Bytes(64)).result.outcome == Outcome::unavailable);
  bed.set("gone=0");
  bed.set("refuse-open=0");
  must_serve(*bed.backend, slot, key);
  bed.backend->release(slot);
}

TEST_CASE("only a driver that is known to be hardware serves, if so set") {
  struct Case {
    const char* driver;
    const char* name;
    bool hardware;
  };
  for (const Case& one :
       {Case{"sun4i-ss", "cbc-aes-sun4i-ss", true}, Case{"sun8i-ce", "cbc-aes-sun8i-ce", true},
        Case{"virtio", "virtio_crypto_aes_cbc", true}, Case{"generic", "cbc(aes-generic)", false},
        Case{"aesni", "cbc-aes-aesni", false}, Case{"ce", "cbc-aes-ce", false}}) {
    for (const bool only : {true, false}) {
      INFO(one.driver << ", only " << only);
      Bed bed(one.driver, only);
      if (is_real(bed)) return;
      const bool serves = one.hardware || !only;
      std::array<char, 64> text{'x'};
      bed.backend->driver(spec_of(16), text);
      CHECK(text[0] == '\0');
      for (int i = 0; i < 3; ++i) {
        KeySlot slot;
        CHECK(ask(*bed.backend, slot, Random(static_cast<std::uint64_t>(i)).bytes(16), {}, Bytes(64))
                  .result.outcome == (serves ? Outcome::served : Outcome::unavailable));
        bed.backend->release(slot);
      }
      CHECK(bed.count("gsession") == (serves ? 3 : 1));
      CHECK(bed.sessions() == 0);
      bed.backend->driver(spec_of(32), text);
      CHECK(std::string(text.data()) == (serves ? one.name : ""));
      if (serves) {
        std::array<char, 5> little{};
        bed.backend->driver(spec_of(16), little);
        CHECK(std::string(little.data()) == std::string(one.name).substr(0, 4));
        continue;
      }
      CHECK(bed.process.text() ==
            std::string("sunxi: cryptodev is not used for AES-CBC: the kernel's driver is ") + one.name +
                ", not known to be hardware (accelerated_only = no takes any)\n");
      // Another driver has come.
      bed.process.time += 2'000'000'000;
      bed.set("driver=sun4i-ss");
      KeySlot slot;
      must_serve(*bed.backend, slot, Bytes(16, 1));
      bed.backend->release(slot);
    }
  }
}

TEST_CASE("descriptors that are taken") {
  Bed bed;
  const Bytes key = Random(7).bytes(16);
  for (const Kind kind :
       {Kind::stream, Kind::datagram, Kind::seqpacket, Kind::tcp, Kind::udp, Kind::file, Kind::none}) {
    for (const bool later : {false, true}) {
      for (const bool release : {false, true}) {
        INFO("kind " << static_cast<int>(kind) << ", later " << later << ", release " << release);
        bed.reset();
        KeySlot slot;
        must_serve(*bed.backend, slot, key);
        REQUIRE(device_numbers().size() == 1);
        const int number = device_numbers()[0];
        REQUIRE(number > 2);
        const Foreign foreign = steal(number, kind);
        // With the clock at rest nobody looks, and the file refuses the call.
        if (later) bed.process.time += 100'000'000;
        if (!release) {
          must_serve(*bed.backend, slot, key, 100000, later);
          must_serve(*bed.backend, slot, key, 64);
        }
        bed.backend->release(slot);
        bed.backend.reset();
        if (kind == Kind::none) continue;
        std::array<char, 64> got{};
        CHECK(read(foreign.peer, got.data(), got.size()) <= 0);
        REQUIRE(is_open(number));
        CHECK(write(number, "usable", 6) == 6);
        CHECK(read(foreign.peer, got.data(), got.size()) == 6);
        close(number);
        close(foreign.peer);
      }
    }
  }
  CHECK(bed.process.text().empty());
}

TEST_CASE("all sessions of a descriptor that is taken move, and nothing is left over") {
  Bed bed;
  std::array<KeySlot, 20> slots;
  const auto key = [](std::size_t i) { return Random(i).bytes(16); };
  for (std::size_t i = 0; i < slots.size(); ++i) must_serve(*bed.backend, slots[i], key(i));
  CHECK(device_numbers().size() == 3);
  for (const int number : device_numbers()) close(number);  // as closefrom does
  for (const bool later : {false, true}) {
    if (later) bed.process.time += 100'000'000;
    for (std::size_t i = 0; i < slots.size(); ++i) must_serve(*bed.backend, slots[i], key(i));
    CHECK(device_numbers().size() == 3);
  }
  if (bed.control != nullptr) CHECK(bed.sessions() == 20);
  release_all(bed, slots);
  CHECK(device_numbers().size() == 1);
}

// Nothing but the number tells two open files of one device apart.
TEST_CASE("a descriptor of ours gets the number of another") {
  Bed bed;
  const Bytes key1 = Random(8).bytes(16);
  const Bytes key2 = Random(9).bytes(16);
  const auto other = make_cryptodev_backend(bed.process, bed.options);
  for (int round = 0; round < 3; ++round) {
    KeySlot slot1;
    KeySlot slot2;
    must_serve(*bed.backend, slot1, key1);
    must_serve(*other, slot2, key2);
    const std::vector<int> numbers = device_numbers();
    REQUIRE(numbers.size() == 2);
    for (const int number : numbers) close(number);
    must_serve(*other, slot2, key2);  // opens the number of the first
    if (round == 1) bed.process.time += 100'000'000;
    must_serve(*bed.backend, slot1, key1);
    must_serve(*other, slot2, key2);
    CHECK(device_numbers().size() == 2);
    bed.backend->release(slot1);
    bed.reset();
    CHECK(device_numbers().size() == 1);  // the other's is not closed
    const std::uint64_t sessions = bed.control != nullptr ? bed.control->count("gsession") : 0;
    must_serve(*other, slot2, key2);
    if (bed.control != nullptr) CHECK(bed.control->count("gsession") == sessions);
    other->release(slot2);
  }
  CHECK(bed.process.text().empty());
}

TEST_CASE("somebody else's file of the same device gets the number") {
  Bed bed;
  const Bytes key = Random(10).bytes(16);
  for (const bool later : {false, true}) {
    INFO("later " << later);
    KeySlot slot;
    must_serve(*bed.backend, slot, key);
    const int number = device_numbers().back();
    close(number);
    const int theirs = open("/dev/crypto", O_RDWR);
    REQUIRE(theirs >= 0);
    REQUIRE(dup2(theirs, number) == number);
    close(theirs);
    if (later) bed.process.time += 100'000'000;
    must_serve(*bed.backend, slot, key);  // it does not know our session
    must_serve(*bed.backend, slot, key, 100000);
    bed.backend->release(slot);
    bed.reset();
    CHECK(is_open(number));  // the application's own, and left to it
    close(number);
  }
  CHECK(bed.process.text().empty());
}

TEST_CASE("fork") {
  Bed bed;
  const Bytes key = Random(10).bytes(16);
  const Bytes key2 = Random(11).bytes(24);
  KeySlot slot;
  KeySlot slot2;
  must_serve(*bed.backend, slot, key);
  must_serve(*bed.backend, slot2, key2);
  const int before = open_descriptors();
  std::cout.flush();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      if (!serves(*bed.backend, slot, key, seed)) _exit(1);
      if (!serves(*bed.backend, slot2, key2, seed)) _exit(2);
    }
    // The inherited file is gone, ours took its place.
    if (open_descriptors() != before) _exit(3);
    bed.backend->release(slot);
    bed.backend->release(slot2);
    // A grandchild that only releases what it inherited.
    const int grandchild = in_child([&] {
      bed.backend->release(slot);
      bed.backend.reset();
      return open_descriptors() == before - 1 ? 0 : 1;
    });
    bed.backend.reset();
    if (open_descriptors() != before - 1) _exit(4);
    _exit(grandchild == 0 ? 0 : 5);
  }
  for (std::uint64_t seed = 1000; seed < 1100; ++seed) {
    if (!serves(*bed.backend, slot, key, seed)) FAIL("parent, first key");
    if (!serves(*bed.backend, slot2, key2, seed)) FAIL("parent, second key");
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  bed.clear();
  must_serve(*bed.backend, slot, key);
  must_serve(*bed.backend, slot2, key2);
  if (bed.control != nullptr) CHECK(bed.count("gsession") == 0);  // ours are still there
  // Children that only release, or end, or begin with a slot that has never been used.
  CHECK(in_child([&] {
          bed.backend->release(slot);
          bed.backend->release(slot2);
          return open_descriptors() == before ? 0 : 1;
        }) == 0);
  CHECK(in_child([&] {
          bed.backend.reset();
          return open_descriptors() == before - 1 ? 0 : 1;
        }) == 0);
  KeySlot fresh;
  CHECK(in_child([&] { return serves(*bed.backend, fresh, key, 1) ? 0 : 1; }) == 0);
  bed.clear();
  must_serve(*bed.backend, slot, key);
  must_serve(*bed.backend, slot2, key2);
  if (bed.control != nullptr) CHECK(bed.count("gsession") == 0);
  bed.backend->release(slot);
  bed.backend->release(slot2);
}

TEST_CASE("sandboxes", "[seccomp]") {
  Bed bed;
  const Bytes key = Random(14).bytes(16);
  for (const bool live : {false, true}) {
    INFO("live " << live);
    CHECK(in_child([&] {
            Backend& backend = *bed.backend;
            KeySlot slot;
            KeySlot other;
            Message message;
            Message started;
            if (live &&
                (!serves(backend, slot, key, 1) || message.extend(backend, Bytes(100)) != Outcome::served ||
                 started.extend(backend, Bytes(100000)) != Outcome::served))
              return 1;
            if (!enter_sandbox()) return 2;
            const auto calls = [&] {
              std::uint64_t sum = 0;
              if (bed.control == nullptr) return sum;
              for (const char* name : {"opens", "gsession", "fsession", "crypt", "info", "cphash"})
                sum += bed.control->count(name);
              return sum;
            };
            const std::uint64_t before = calls();
            bed.process.time += 4'000'000;  // the next tick
            const Bytes in(64);
            KeySlot copy;
            if (backend.clone(started.slot, copy) != Outcome::unavailable) return 3;
            if (started.lose(backend) != Outcome::unavailable) return 4;
            if (live && message.lose(backend) != Outcome::unavailable) return 5;
            for (int i = 0; i < 3; ++i) {
              if (ask(backend, slot, key, {}, in).result.outcome != Outcome::unavailable) return 6;
              if (ask(backend, other, Bytes(16, 3), {}, in).result.outcome != Outcome::unavailable) return 7;
              Message fresh;
              if (fresh.extend(backend, Bytes(100)) != Outcome::unavailable) return 8;
            }
            backend.release(slot);
            bed.backend.reset();
            return calls() == before ? 0 : 9;
          }) == 0);
  }
  CHECK(in_child([&] {
          KeySlot slot;
          Message message;
          if (!enter_filter()) return 2;
          if (ask(*bed.backend, slot, key, {}, Bytes(64)).result.outcome != Outcome::unavailable) return 3;
          if (message.extend(*bed.backend, Bytes(64)) != Outcome::unavailable) return 4;
          if (bed.process.text() !=
              "sunxi: cryptodev is not used: a seccomp filter, or /proc/self/status "
              "unreadable (under_seccomp = use)\n")
            return 5;
          bed.options.under_seccomp = true;
          bed.reset();
          if (!serves(*bed.backend, slot, key, 1)) return 6;
          bed.backend->release(slot);
          return 0;
        }) == 0);
}

TEST_CASE("a filter that refuses a look, or the mark, opens no file after the other", "[seccomp]") {
  Bed bed;
  if (is_real(bed)) return;
  const Bytes key = Random(15).bytes(16);
  for (const bool before : {true, false}) {
    INFO("in use before " << before);
    // Without marks a file is known by its identity alone.
    CHECK(in_child([&] {
            bed.options.under_seccomp = true;
            bed.reset();
            KeySlot slot;
            const auto opens = bed.control->count("opens");
            if (before && !serves(*bed.backend, slot, key, 1)) return 1;
            if (!refuse(SYS_fcntl, ENOSYS)) return 2;
            for (std::uint64_t i = 0; i < 20; ++i) {
              bed.process.time += 100'000'000;
              if (!serves(*bed.backend, slot, key, i)) return 3;
            }
            return bed.control->count("opens") - opens == 1 ? 0 : 4;
          }) == 0);
    // What is not answered is a sandbox.
    CHECK(in_child([&] {
            bed.options.under_seccomp = true;
            bed.reset();
            KeySlot slot;
            const auto opens = bed.control->count("opens");
            if (before && !serves(*bed.backend, slot, key, 1)) return 1;
            if (!refuse(SYS_fstat, ENOSYS)) return 2;
            for (std::uint64_t i = 0; i < 20; ++i) {
              bed.process.time += 100'000'000;
              if (ask(*bed.backend, slot, key, {}, Bytes(64)).result.outcome != Outcome::unavailable)
                return 3;
            }
            return bed.control->count("opens") - opens == (before ? 1U : 0U) ? 0 : 4;
          }) == 0);
  }
}

TEST_CASE("threads") {
  Bed bed;
  constexpr std::size_t thread_count = 16;
  constexpr std::size_t key_count = 10;
  const std::vector<const Variant*> served = served_variants(bed);
  std::array<Bytes, key_count> keys;
  std::array<const Variant*, key_count> algorithms{};
  for (std::size_t i = 0; i < key_count; ++i) {
    algorithms[i] = served[i % served.size()];
    keys[i] = Random(i).bytes(algorithms[i]->key_bytes);
  }
  std::atomic<int> good{0};
  std::atomic<int> busy{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> pool;
  for (std::size_t thread = 0; thread < thread_count; ++thread) {
    pool.emplace_back([&, thread] {
      Random own(thread);
      for (int i = 0; i < 60; ++i) {
        KeySlot slot;
        const std::size_t chosen = own.below(key_count);
        const Variant& variant = *algorithms[chosen];
        for (int j = 0; j < 4; ++j) {
          Iv iv = own.iv(variant);
          const Bytes in = own.bytes(16 * (1 + own.below(own.below(20) == 0 ? 6000 : 64)));
          const bool encrypt = own.below(2) == 0;
          if (own.below(8) == 0) bed.process.time += 4'000'000;
          const Answer answer = ask(*bed.backend, slot, variant.spec(), keys[chosen], iv, in, encrypt);
          if (answer.result.outcome == Outcome::busy) {
            ++busy;
            if (answer.iv != iv || answer.result.done != 0) ++wrong;
          } else if (answer.result.outcome == Outcome::served) {
            ++good;
            if (answer.out != reference(variant, encrypt, keys[chosen], iv, in) || answer.iv != iv) ++wrong;
          } else {
            ++wrong;
          }
        }
        bed.backend->release(slot);
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  INFO("served " << good << ", busy " << busy);
  CHECK(wrong == 0);
  CHECK(good > 0);
}

TEST_CASE("threads and a program that closes our descriptors under them") {
#if defined(__SANITIZE_THREAD__)
  return;  // that is a race, but not ours
#endif
  Bed bed;
  // Between a look and its request a number may become another of ours, where the module's random numbers of
  // sessions keep keys apart.
  if (bed.control != nullptr) bed.set("first-id=random");
  std::atomic<int> wrong{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> pool;
  for (std::uint64_t thread = 0; thread < 8; ++thread) {
    pool.emplace_back([&, thread] {
      Random own(thread);
      for (int i = 0; i < 40; ++i) {
        KeySlot slot;
        const Bytes key = Random(own.below(12)).bytes(16);
        for (int j = 0; j < 4; ++j) {
          Iv iv{};
          const Bytes in = own.bytes(64);
          const Answer answer = ask(*bed.backend, slot, key, iv, in);
          if (answer.result.outcome == Outcome::served) {
            if (answer.out != reference(true, key, iv, in)) ++wrong;
          } else if (answer.result.done != 0 || answer.iv != iv) {
            ++wrong;
          }
        }
        bed.backend->release(slot);
      }
    });
  }
  std::thread closer([&] {
    while (!over.load()) {
      for (const int number : device_numbers()) close(number);
      bed.process.time += 4'000'000;
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : pool) thread.join();
  over = true;
  closer.join();
  CHECK(wrong == 0);
  bed.process.time += 4'000'000;
  KeySlot slot;
  must_serve(*bed.backend, slot, Bytes(16, 1));
  bed.backend->release(slot);
}
