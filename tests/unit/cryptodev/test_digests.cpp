// SPDX-License-Identifier: Apache-2.0
// Digests of the /dev/crypto backend: messages that fit into a buffer and longer ones, copies at each stage,
// the pool of sessions, what goes wrong.
#include "tests/unit/backend/messages.h"

#include <thread>

#include "tests/unit/backend/surroundings.h"
#include "tests/unit/cryptodev/bed.h"

using namespace cryptodev_test;

namespace {

constexpr std::size_t room = 65536;

}  // namespace

TEST_CASE("digests: what there is") {
  Bed bed;
  for (const Kernel& hash : hashes) CHECK(bed.backend->digest_way(hash.spec) == Backend::DigestWay::messages);
  for (const DigestSpec& spec :
       {DigestSpec{Digest::sha512_224, 128, 28}, DigestSpec{Digest::sha512_256, 128, 32},
        DigestSpec{Digest::sha256, 64, 28}}) {
    CHECK(bed.backend->digest_way(spec) == Backend::DigestWay::none);
    KeySlot slot;
    std::array<std::uint8_t, 64> data{};
    CHECK(bed.backend->extend(slot, spec, data.data(), data.size()) == Outcome::unsupported);
    CHECK(bed.backend->conclude(slot, spec, data.data()) == Outcome::unsupported);
    std::array<char, 8> text{'x'};
    bed.backend->digest_driver(spec, text);
    CHECK(text[0] == '\0');
  }
  KeySlot slot;
  KeySlot copy{.session = &slot, .generation = 1};
  bed.backend->abandon(slot);
  CHECK(bed.backend->clone(slot, copy) == Outcome::unavailable);
  CHECK(copy.session == nullptr);
  if (bed.control != nullptr) CHECK(bed.count("opens") == 0);
}

TEST_CASE("digests: random messages") {
  const std::string driver = GENERATE("sun4i-ss", "generic", "sun8i-ce");
  Bed bed(driver, driver == "sun4i-ss");
  if (bed.control == nullptr && driver != "generic") return;
  random_messages(*bed.backend, setting("SUNXI_TEST_CASES", 2000));
  if (bed.control != nullptr) CHECK(bed.count("misaligned") == 0);
  for (const Kernel& hash : hashes) {
    std::array<char, 64> text{};
    bed.backend->digest_driver(hash.spec, text);
    CHECK(text[0] != '\0');
    if (bed.control == nullptr) std::cout << hash.name << " on " << text.data() << '\n';
  }
}

TEST_CASE("digests: one ioctl for a message that fits into the buffer, none before its end") {
  Bed bed;
  if (is_real(bed)) return;
  for (const Kernel& hash : hashes) must_hash(*bed.backend, hash);
  for (const Kernel& hash : hashes) {
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{16}, std::size_t{4096},
                                     room - 1, room, room + 1, 2 * room, 2 * room + 1, 5 * room}) {
      INFO(hash.name << ", " << length << " bytes");
      bed.clear();
      Message message{.hash = &hash, .slot = {}, .text = {}};
      CHECK(message.extend(*bed.backend, Random(length).bytes(length)) == Outcome::served);
      // All but the last piece, which is never empty.
      const int pieces = length == 0 ? 1 : static_cast<int>((length + room - 1) / room);
      CHECK(bed.count("crypt") == pieces - 1);
      CHECK(message.extend(*bed.backend, {}) == Outcome::served);
      CHECK(message.conclude(*bed.backend));
      CHECK(bed.count("crypt") == pieces);
      CHECK(bed.count("gsession") == 0);
      CHECK(bed.count("fsession") == 0);
    }
  }
  // In any parts.
  bed.clear();
  Message message;
  for (int i = 0; i < 100; ++i) CHECK(message.extend(*bed.backend, Bytes(655, 1)) == Outcome::served);
  CHECK(bed.count("crypt") == 0);
  CHECK(message.extend(*bed.backend, Bytes(100, 1)) == Outcome::served);
  CHECK(bed.count("crypt") == 1);
  message.abandon(*bed.backend);
  CHECK(bed.count("crypt") == 1);
  must_hash(*bed.backend);
  // Without an update.
  for (const Kernel& hash : hashes) {
    Message empty{.hash = &hash, .slot = {}, .text = {}};
    CHECK(empty.conclude(*bed.backend));
  }
}

TEST_CASE("digests: copies at each stage, and messages that alternate") {
  Bed bed;
  Random random(1);
  for (const Kernel& hash : hashes) {
    for (const std::size_t length : {std::size_t{0}, std::size_t{100}, room, room + 1, 3 * room + 5}) {
      INFO(hash.name << ", " << length << " bytes");
      Message message{.hash = &hash, .slot = {}, .text = {}};
      REQUIRE(message.extend(*bed.backend, random.bytes(length)) == Outcome::served);
      std::array<Message, 3> copies;
      bed.clear();
      for (Message& copy : copies) {
        copy.hash = &hash;
        REQUIRE(bed.backend->clone(message.slot, copy.slot) == Outcome::served);
        copy.text = message.text;
      }
      if (bed.control != nullptr) {
        // What is in the buffer alone needs no session of its own until it is concluded.
        CHECK(bed.count("gsession") <= (length > room ? 3 : 0));
        CHECK(bed.count("cphash") == (length > room ? 3 : 0));
      }
      // Each goes its own way; a copy of a copy, too.
      REQUIRE(message.extend(*bed.backend, random.bytes(70000)) == Outcome::served);
      REQUIRE(copies[0].extend(*bed.backend, random.bytes(10)) == Outcome::served);
      Message second{.hash = &hash, .slot = {}, .text = {}};
      REQUIRE(bed.backend->clone(copies[0].slot, second.slot) == Outcome::served);
      second.text = copies[0].text;
      REQUIRE(second.extend(*bed.backend, random.bytes(200000)) == Outcome::served);
      CHECK(copies[0].conclude(*bed.backend));
      CHECK(copies[1].conclude(*bed.backend));
      CHECK(message.conclude(*bed.backend));
      copies[2].abandon(*bed.backend);
      CHECK(second.conclude(*bed.backend));
      must_hash(*bed.backend, hash);
    }
  }
}

TEST_CASE("digests: sessions wait for the next message") {
  Bed bed;
  if (is_real(bed)) return;
  Random random(2);
  std::array<Message, 10> messages;
  for (Message& message : messages) CHECK(message.extend(*bed.backend, random.bytes(100)) == Outcome::served);
  CHECK(bed.sessions() == 10);
  CHECK(bed.files() == 2);
  for (Message& message : messages) CHECK(message.conclude(*bed.backend));
  CHECK(bed.sessions() == 4);
  bed.clear();
  for (int round = 0; round < 3; ++round) must_hash(*bed.backend);
  CHECK(bed.count("gsession") == 0);
  bed.backend.reset();
  CHECK(bed.sessions() == 0);
  CHECK(bed.files() == 0);
}

TEST_CASE("digests: a copy that the module refuses") {
  Bed bed;
  if (is_real(bed)) return;
  Message message;
  REQUIRE(message.extend(*bed.backend, Random(3).bytes(200000)) == Outcome::served);
  for (const char* error : {"EINVAL", "ENOENT", "EIO", "ENOMEM"}) {
    INFO(error);
    bed.clear();
    bed.set(std::string("fault=cphash:") + error + ":1");
    KeySlot copy{.session = &bed, .generation = 1};
    errno = 4711;
    const bool short_of = std::string(error) == "ENOMEM";
    CHECK(bed.backend->clone(message.slot, copy) == (short_of ? Outcome::busy : Outcome::unavailable));
    CHECK(errno == 4711);
    CHECK(copy.session == nullptr);
    CHECK(bed.sessions() == 1);
  }
  // Another driver has come since: its state may look otherwise.
  bed.clear();
  bed.set("driver=sha256=omap-sha256");
  KeySlot copy;
  CHECK(bed.backend->clone(message.slot, copy) == Outcome::unavailable);
  CHECK(bed.count("cphash") == 0);
  CHECK(message.extend(*bed.backend, Bytes(100000)) == Outcome::served);
  CHECK(message.conclude(*bed.backend));
  CHECK(bed.process.text().find(
            "sunxi: cryptodev: SHA2-256: a message cannot be duplicated: CIOCCPHASH answers "
            "EINVAL\n") != std::string::npos);
}

TEST_CASE("digests: more copies of a message than its file takes") {
  Bed bed;
  if (is_real(bed)) return;
  Message message;
  REQUIRE(message.extend(*bed.backend, Random(3).bytes(100000)) == Outcome::served);
  std::array<Message, 140> copies;
  int served = 0;
  for (Message& copy : copies) {
    const Outcome outcome = bed.backend->clone(message.slot, copy.slot);
    CHECK(outcome == (served < 127 ? Outcome::served : Outcome::busy));
    if (outcome != Outcome::served) continue;
    ++served;
    copy.text = message.text;
  }
  CHECK(served == 127);
  CHECK(bed.files() == 1);
  for (Message& copy : copies) {
    if (copy.slot.session != nullptr) CHECK(copy.conclude(*bed.backend));
  }
  CHECK(message.conclude(*bed.backend));
}

TEST_CASE("digests: faults") {
  Bed bed;
  if (is_real(bed)) return;
  Random random(5);
  must_hash(*bed.backend);
  for (const char* error : {"EIO", "EINVAL", "ENOMEM", "EFAULT", "ETIMEDOUT"}) {
    for (const int point : {0, 1, 2, 3, 4}) {
      INFO(error << ", point " << point);
      Message message;
      Outcome outcome = Outcome::served;
      const std::string fault = std::string("fault=crypt:") + error + ":";
      if (point >= 3) REQUIRE(message.extend(*bed.backend, random.bytes(150000)) == Outcome::served);
      if (point == 2) REQUIRE(message.extend(*bed.backend, random.bytes(5000)) == Outcome::served);
      bed.clear();
      errno = 4711;
      switch (point) {
        case 0:  // the first piece
          bed.set(fault + "1");
          outcome = message.extend(*bed.backend, random.bytes(100000));
          break;
        case 1:  // the third
          bed.set(fault + "3");
          outcome = message.extend(*bed.backend, random.bytes(300000));
          break;
        case 2:  // a message in one
          bed.set(fault + "1");
          outcome = message.lose(*bed.backend);
          break;
        case 3:  // a later piece
          bed.set(fault + "1");
          outcome = message.extend(*bed.backend, random.bytes(100000));
          break;
        default:  // the last
          bed.set(fault + "1");
          outcome = message.lose(*bed.backend);
      }
      CHECK(errno == 4711);
      CHECK(outcome == Outcome::failed);
      CHECK(message.slot.session == nullptr);
      CHECK(bed.count("fsession") == 1);  // not put back
      CHECK(bed.sessions() == 0);
      bed.clear();
      must_hash(*bed.backend);
    }
  }
  CHECK(bed.process.text().find("sunxi: cryptodev: SHA2-256 (sha256-sun4i-ss): CIOCCRYPT: EIO\n") !=
        std::string::npos);
}

TEST_CASE("digests: what cannot be opened is said at the start of a message") {
  Bed bed;
  if (is_real(bed)) return;
  struct Case {
    const char* fault;
    Outcome expected;
  };
  for (const Case& one :
       {Case{"open:ENOENT", Outcome::unavailable}, Case{"open:EACCES", Outcome::unavailable},
        Case{"open:EMFILE", Outcome::busy}, Case{"gsession:ENOMEM", Outcome::busy},
        Case{"gsession:EINVAL", Outcome::unavailable}, Case{"gsession:EIO", Outcome::failed},
        Case{"info:EINVAL", Outcome::unavailable}}) {
    for (const bool empty : {false, true}) {
      INFO(one.fault << ", empty " << empty);
      bed.reset();
      bed.clear();
      bed.set(std::string("fault=") + one.fault + ":1:every");
      Message message;
      errno = 4711;
      CHECK((empty ? message.lose(*bed.backend) : message.extend(*bed.backend, Bytes(100))) == one.expected);
      CHECK(errno == 4711);
      CHECK(message.slot.session == nullptr);
      CHECK(bed.sessions() == 0);
      bed.clear();
      must_hash(*bed.backend);
    }
  }
}

TEST_CASE("digests: only drivers that hash in pieces are hardware") {
  struct Case {
    const char* driver;
    Outcome expected;
    const char* line;
  };
  for (const Case& one : {
           Case{"sun4i-ss", Outcome::served, ""},
           Case{"generic", Outcome::unavailable,
                "sunxi: cryptodev is not used for SHA2-256: the kernel's driver is sha256-generic, not known "
                "to be "
                "hardware (accelerated_only = no takes any)\n"},
           Case{
               "ce", Outcome::unavailable,
               "sunxi: cryptodev is not used for SHA2-256: the kernel's driver is sha256-ce, not known to be "
               "hardware (accelerated_only = no takes any)\n"},
           Case{"sun8i-ce", Outcome::unsupported,
                "sunxi: cryptodev is not used for SHA2-256: sha256-sun8i-ce hashes a message in pieces by "
                "software "
                "of the kernel\n"},
       }) {
    INFO(one.driver);
    Bed bed(one.driver);
    if (is_real(bed)) return;
    for (int i = 0; i < 3; ++i) {
      Message message;
      CHECK(message.extend(*bed.backend, Bytes(100)) == one.expected);
      if (one.expected == Outcome::served) CHECK(message.conclude(*bed.backend));
    }
    CHECK(bed.count("gsession") == 1);
    CHECK(bed.process.text() == one.line);
    // In a while it is looked at again.
    bed.process.time += 2'000'000'000;
    Message message;
    CHECK(message.extend(*bed.backend, Bytes(100)) == one.expected);
    if (one.expected == Outcome::served) {
      CHECK(message.conclude(*bed.backend));
    } else {
      CHECK(bed.count("gsession") == (one.expected == Outcome::unavailable ? 2 : 1));
    }
    CHECK(bed.process.text() == one.line);
    std::array<char, 64> text{};
    bed.backend->digest_driver(sha256.spec, text);
    CHECK((text[0] != '\0') == (one.expected == Outcome::served));
  }
}

TEST_CASE("digests: descriptors that are taken") {
  Bed bed;
  Random random(6);
  enum class Act { extend, conclude, abandon, clone, begin };
  for (const Kind kind : {Kind::stream, Kind::tcp, Kind::file, Kind::none}) {
    for (const Act act : {Act::extend, Act::conclude, Act::abandon, Act::clone, Act::begin}) {
      for (const bool started : {false, true}) {
        for (const bool later : {false, true}) {
          INFO("kind " << static_cast<int>(kind) << ", act " << static_cast<int>(act) << ", started "
                       << started << ", later " << later);
          bed.reset();
          Message message;
          REQUIRE(message.extend(*bed.backend, random.bytes(started ? 100000 : 500)) == Outcome::served);
          const std::vector<int> numbers = device_numbers();
          REQUIRE(numbers.size() == 1);
          const int number = numbers[0];
          if (act == Act::begin) REQUIRE(message.conclude(*bed.backend));
          const Foreign foreign = steal(number, kind);
          if (later) bed.process.time += 100'000'000;
          Message copy;
          switch (act) {
            case Act::extend:
              // What is in the buffer is ours.
              CHECK(message.extend(*bed.backend, random.bytes(70000)) ==
                    (started ? Outcome::busy : Outcome::served));
              if (!started) CHECK(message.conclude(*bed.backend));
              break;
            case Act::conclude:
              if (started) {
                CHECK(message.lose(*bed.backend) == Outcome::busy);
              } else {
                CHECK(message.conclude(*bed.backend));
              }
              break;
            case Act::abandon:
              message.abandon(*bed.backend);
              break;
            case Act::clone:
              CHECK(bed.backend->clone(message.slot, copy.slot) ==
                    (started ? Outcome::busy : Outcome::served));
              copy.text = message.text;
              if (started) {
                CHECK(message.lose(*bed.backend) == Outcome::busy);
              } else {
                CHECK(copy.conclude(*bed.backend));
                CHECK(message.conclude(*bed.backend));
              }
              break;
            case Act::begin:
              break;
          }
          CHECK(message.slot.session == nullptr);
          must_hash(*bed.backend);
          must_hash(*bed.backend, sha256, 200000);
          bed.backend.reset();
          if (kind == Kind::none) continue;
          std::array<char, 64> got{};
          CHECK(read(foreign.peer, got.data(), got.size()) <= 0);
          REQUIRE(is_open(number));
          close(number);
          close(foreign.peer);
        }
      }
    }
  }
  CHECK(bed.process.text().find("EBADF") == std::string::npos);
}

TEST_CASE("digests: fork") {
  Bed bed;
  Random random(9);
  Message message;
  Message started;
  REQUIRE(message.extend(*bed.backend, random.bytes(1000)) == Outcome::served);
  REQUIRE(started.extend(*bed.backend, random.bytes(100000)) == Outcome::served);
  must_hash(*bed.backend);
  const int before = open_descriptors();
  CHECK(in_child([&] {
          Backend& backend = *bed.backend;
          KeySlot copy;
          if (backend.clone(started.slot, copy) != Outcome::busy) return 1;
          if (started.lose(backend) != Outcome::busy || started.slot.session != nullptr) return 2;
          if (message.extend(backend, Bytes(10)) != Outcome::busy) return 3;
          for (const Kernel& hash : hashes) {
            if (!whole(backend, hash, random, 500) || !whole(backend, hash, random, 100000)) return 4;
          }
          if (open_descriptors() != before) return 5;  // the inherited one is gone, ours took its place
          bed.backend.reset();
          return open_descriptors() == before - 1 ? 0 : 6;
        }) == 0);
  CHECK(in_child([&] {
          started.abandon(*bed.backend);
          bed.backend.reset();
          return started.slot.session == nullptr ? 0 : 1;
        }) == 0);
  CHECK(message.extend(*bed.backend, random.bytes(1000)) == Outcome::served);
  CHECK(message.conclude(*bed.backend));
  CHECK(started.extend(*bed.backend, random.bytes(100000)) == Outcome::served);
  CHECK(started.conclude(*bed.backend));
}

TEST_CASE("digests: threads") {
  Bed bed;
  std::atomic<int> wrong{0};
  std::atomic<int> served{0};
  std::vector<std::thread> pool;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    pool.emplace_back([&, seed] {
      Random random(seed);
      for (int done = 0; done < 60;) {
        Message message;
        message.hash = &hashes[random.below(3)];
        Message copy;
        copy.hash = message.hash;
        bool lost = false;
        for (int part = 0; part < 3 && !lost; ++part) {
          const std::size_t length = random.below(10) == 0 ? random.below(150000) : random.below(3000);
          const Outcome outcome = message.extend(*bed.backend, random.bytes(length));
          lost = outcome != Outcome::served;
          if (lost && outcome != Outcome::busy) ++wrong;
        }
        if (lost) {  // no session is free: others have to end first, whoever runs meanwhile
          std::this_thread::yield();
          continue;
        }
        ++done;
        if (random.below(2) == 0 && bed.backend->clone(message.slot, copy.slot) == Outcome::served) {
          copy.text = message.text;
          if (copy.extend(*bed.backend, random.bytes(100)) != Outcome::served || !copy.conclude(*bed.backend))
            ++wrong;
        }
        if (random.below(4) == 0) {
          message.abandon(*bed.backend);
        } else if (message.conclude(*bed.backend)) {
          ++served;
        } else {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  CHECK(wrong == 0);
  CHECK(served > 500);
}
