// SPDX-License-Identifier: Apache-2.0
// Digests of the AF_ALG backend, on the model and on a real kernel's software. For the environment see
// test_backend.cpp.
#include <linux/if_alg.h>
#include <sys/resource.h>

#include <memory>
#include <thread>

#include "tests/unit/afalg/bed.h"
#include "tests/unit/backend/messages.h"
#include "tests/unit/backend/surroundings.h"

using namespace afalg_test;

namespace {

// --- the cases, each for the model and for the kernel ---

void empty_messages(Bed& bed) {
  for (const Kernel& hash : hashes) {
    Message message{.hash = &hash, .slot = {}, .text = {}};
    CHECK(message.conclude(*bed.backend));
    CHECK(message.extend(*bed.backend, {}) == Outcome::served);
    Message copy{.hash = &hash, .slot = {}, .text = {}};
    CHECK(bed.backend->clone(message.slot, copy.slot) == Outcome::served);
    CHECK(message.conclude(*bed.backend));
    CHECK(copy.conclude(*bed.backend));
    CHECK(message.extend(*bed.backend, {}) == Outcome::served);
    message.abandon(*bed.backend);
    must_hash(*bed.backend, hash);
  }
}

void calls_per_message(Bed& bed) {
  const Bytes part(16384, 1);
  for (const Kernel& hash : hashes) must_hash(*bed.backend, hash);
  kernel_calls::clear();
  for (const Kernel& hash : hashes) {
    Message message{.hash = &hash, .slot = {}, .text = {}};
    CHECK(message.extend(*bed.backend, part) == Outcome::served);
    CHECK(message.conclude(*bed.backend));
    CHECK(message.extend(*bed.backend, part) == Outcome::served);
    message.abandon(*bed.backend);
  }
  CHECK(kernel_calls::count(Call::send) == 12);
  CHECK(kernel_calls::count(Call::receive) == 12);
  for (const Call call : {Call::socket, Call::bind, Call::accept}) CHECK(kernel_calls::count(call) == 0);
  // A long update: pieces, all but the first from a page's start.
  kernel_calls::clear();
  const Bytes memory(5 * 65536);
  const auto misaligned = reinterpret_cast<std::uintptr_t>(memory.data()) % 4096;
  const std::uint8_t* start = memory.data() + (4096 - misaligned) + 100;
  KeySlot slot;
  CHECK(bed.backend->extend(slot, sha256.spec, start, 3 * 65536) == Outcome::served);
  CHECK(kernel_calls::count(Call::send) == 4);
  bed.backend->abandon(slot);
}

void pools(Bed& bed) {
  const int before = open_descriptors();
  Random random(2);
  std::array<Message, 10> messages;
  for (Message& message : messages) CHECK(message.extend(*bed.backend, random.bytes(100)) == Outcome::served);
  CHECK(open_descriptors() == before + 10);
  for (Message& message : messages) {
    CHECK((fcntl(kernel_calls::last_operation_socket(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(kernel_calls::last_operation_socket() > 2);
    CHECK(message.conclude(*bed.backend));
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int kept = static_cast<int>(std::clamp<rlim_t>(limit.rlim_cur / 256, 1, 4));
  CHECK(open_descriptors() == before + kept);
  kernel_calls::clear();
  for (int i = 0; i < kept; ++i)
    CHECK(messages[static_cast<std::size_t>(i)].extend(*bed.backend, random.bytes(100)) == Outcome::served);
  CHECK(kernel_calls::count(Call::accept) == 0);
  CHECK(messages[9].extend(*bed.backend, random.bytes(100)) == Outcome::served);
  CHECK(kernel_calls::count(Call::accept) == 1);
  for (Message& message : messages) message.abandon(*bed.backend);
  CHECK(open_descriptors() == before + kept);
  // Of each digest its own.
  for (int round = 0; round < 3; ++round) {
    for (const Kernel& hash : hashes) must_hash(*bed.backend, hash);
  }
  CHECK(open_descriptors() == before + kept + 5);
  bed.backend.reset();
  CHECK(open_descriptors() == before);
}

// Ciphers and digests share it; sockets without a message give way.
void limit_of_both(Bed& bed) {
  const int status = in_child([&] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 100;  // a sixteenth is 6
    setrlimit(RLIMIT_NOFILE, &limit);
    Random random(3);
    Backend& backend = *bed.backend;
    const int before = open_descriptors();
    std::array<Message, 3> messages;  // half of it, as each must find room for a copy
    for (Message& message : messages) {
      if (message.extend(backend, random.bytes(200)) != Outcome::served) return 1;
    }
    Message more;
    const auto cipher = [&](KeySlot& slot) {
      return ask(backend, slot, random.bytes(16), {}, Bytes(64)).result.outcome;
    };
    std::array<KeySlot, 6> ciphers;
    std::array<KeySlot, 3> copies;
    if (more.extend(backend, random.bytes(200)) != Outcome::busy || more.slot.session != nullptr) return 2;
    for (KeySlot& copy : copies) {
      if (backend.clone(messages[0].slot, copy) != Outcome::served) return 12;
    }
    if (backend.clone(messages[0].slot, more.slot) != Outcome::busy || more.slot.session != nullptr) return 3;
    if (cipher(ciphers[0]) != Outcome::busy) return 4;
    if (messages[2].extend(backend, random.bytes(200)) != Outcome::served) return 5;
    for (KeySlot& copy : copies) backend.abandon(copy);
    for (Message& message : messages) {
      if (!message.conclude(backend)) return 6;
    }
    if (open_descriptors() != before + 1) return 11;  // of so few, each digest keeps one
    for (std::size_t i = 0; i < 5; ++i) {
      if (cipher(ciphers[i]) != Outcome::served) return 7;
    }
    if (cipher(ciphers[5]) != Outcome::busy) return 8;  // the last place is for a copy
    if (more.extend(backend, random.bytes(200)) != Outcome::busy) return 9;
    for (KeySlot& slot : ciphers) backend.release(slot);
    // One socket waits; the other digests take its place in turn.
    for (int round = 0; round < 20; ++round) {
      for (const Kernel& hash : hashes) {
        if (!whole(backend, hash, random, 300)) return 10;
      }
    }
    return 0;
  });
  CHECK(status == 0);
}

struct Injected {
  Call call;
  int error;
  Outcome expected;
};

void faults_at_open(Bed& bed) {
  const int before = open_descriptors();
  for (const bool first : {true, false}) {
    for (const Injected& fault : {
             Injected{Call::socket, EAFNOSUPPORT, Outcome::unavailable},
             Injected{Call::socket, EPERM, Outcome::unavailable},
             Injected{Call::socket, EMFILE, Outcome::busy},
             Injected{Call::socket, ENFILE, Outcome::busy},
             Injected{Call::socket, ENOMEM, Outcome::busy},
             Injected{Call::bind, ENOENT, Outcome::unavailable},
             Injected{Call::bind, EACCES, Outcome::unavailable},
             Injected{Call::bind, ENOMEM, Outcome::busy},
             Injected{Call::accept, EMFILE, Outcome::busy},
             Injected{Call::accept, ENOBUFS, Outcome::busy},
             Injected{Call::accept, EPERM, Outcome::unavailable},
         }) {
      INFO("call " << static_cast<int>(fault.call) << ", errno " << fault.error << ", first " << first);
      kernel_calls::inject(fault.call, fault.error, 0, 1000);
      for (int again = 0; again < 3; ++again) {
        Message message;
        errno = 4711;
        CHECK(message.extend(*bed.backend, Bytes(64)) == fault.expected);
        CHECK(message.slot.session == nullptr);
        CHECK(message.lose(*bed.backend) == fault.expected);
        CHECK(errno == 4711);
        CHECK(open_descriptors() == before);
        bed.process.time += 2'000'000'000;
      }
      kernel_calls::clear();
      if (first) continue;
      // The pool would hide the next fault.
      must_hash(*bed.backend);
      bed.reset();
    }
  }
  const std::string text = bed.process.text();
  INFO(text);
  const auto times = [&text](const std::string& line) {
    std::size_t count = 0;
    for (std::size_t at = text.find(line); at != std::string::npos; at = text.find(line, at + 1)) ++count;
    return count;
  };
  // Once for each backend object and reason; the first pass has one object, and so has the first of the
  // second.
  CHECK(times("no AF_ALG: this kernel answers EAFNOSUPPORT") == 1);
  CHECK(times("sha256: bind answers ENOENT") == 2);
  CHECK(times("afalg is not used for SHA2-256: ") >= 3);
}

void faults_in_use(Bed& bed) {
  Random random(5);
  must_hash(*bed.backend);
  const int pooled = open_descriptors();
  for (const int error : {0, EIO, ENOMEM, EINVAL, EAGAIN, EBADMSG, EINTR, ETIMEDOUT}) {
    for (const int point : {0, 1, 2, 3, 4, 5}) {
      INFO("errno " << error << ", point " << point);
      Message message;
      Message copy;
      if (point >= 2) REQUIRE(message.extend(*bed.backend, random.bytes(5000)) == Outcome::served);
      Outcome outcome = Outcome::served;
      errno = 4711;
      switch (point) {
        case 0:  // the first update
          kernel_calls::inject(Call::send, error);
          outcome = message.extend(*bed.backend, random.bytes(3000));
          break;
        case 1:  // its third piece
          kernel_calls::inject(Call::send, error, 2);
          outcome = message.extend(*bed.backend, random.bytes(200000));
          break;
        case 2:  // a later one
          kernel_calls::inject(Call::send, error);
          outcome = message.extend(*bed.backend, random.bytes(3000));
          break;
        case 3:
          kernel_calls::inject(Call::receive, error);
          outcome = message.lose(*bed.backend);
          break;
        case 4:
          kernel_calls::inject(Call::receive, error);
          message.abandon(*bed.backend);
          outcome = Outcome::failed;
          break;
        default:
          if (error == 0) {
            message.abandon(*bed.backend);
            continue;
          }
          kernel_calls::inject(Call::accept, error);
          copy.slot = {.session = &copy, .generation = 1};
          outcome = bed.backend->clone(message.slot, copy.slot);
          CHECK(errno == 4711);
          CHECK(outcome == (error == ENOMEM ? Outcome::busy : Outcome::unavailable));
          CHECK(copy.slot.session == nullptr);
          kernel_calls::clear();
          CHECK(message.extend(*bed.backend, random.bytes(100)) == Outcome::served);
          CHECK(message.conclude(*bed.backend));
          CHECK(open_descriptors() == pooled);
          continue;
      }
      CHECK(errno == 4711);
      kernel_calls::clear();
      CHECK(outcome == Outcome::failed);
      CHECK(message.slot.session == nullptr);
      CHECK(open_descriptors() == pooled - 1);  // closed, not put back
      must_hash(*bed.backend);
      CHECK(open_descriptors() == pooled);
    }
  }
  const std::string text = bed.process.text();
  INFO(text);
  CHECK(text.find(": sendmsg: wrong length") != std::string::npos);
  CHECK(text.find("): recv: EIO") != std::string::npos);
  CHECK(text.find("SHA2-256 (sha256") != std::string::npos);
  CHECK(text.find("cannot be duplicated: accept answers EIO") != std::string::npos);
}

enum class Act { extend, conclude, abandon, clone, begin };

void stolen(Bed& bed) {
  Random random(6);
  for (const Kind kind :
       {Kind::stream, Kind::datagram, Kind::seqpacket, Kind::tcp, Kind::udp, Kind::file, Kind::none}) {
    for (const Act act : {Act::extend, Act::conclude, Act::abandon, Act::clone, Act::begin}) {
      INFO("kind " << static_cast<int>(kind) << ", act " << static_cast<int>(act));
      bed.reset();
      kernel_calls::clear();
      Message message;
      REQUIRE(message.extend(*bed.backend, random.bytes(500)) == Outcome::served);
      const int number = kernel_calls::last_operation_socket();
      if (act == Act::begin) REQUIRE(message.conclude(*bed.backend));
      const Foreign foreign = steal(number, kind);
      // Data for the application, which no receive of ours may take.
      const bool arrives = kind != Kind::file && kind != Kind::none && kind != Kind::udp;
      if (arrives) REQUIRE(write(foreign.peer, "for you", 7) == 7);
      Message copy;
      switch (act) {
        case Act::extend:
          CHECK(message.extend(*bed.backend, random.bytes(500)) == Outcome::busy);
          break;
        case Act::conclude:
          CHECK(message.lose(*bed.backend) == Outcome::busy);
          break;
        case Act::abandon:
          message.abandon(*bed.backend);
          break;
        case Act::clone:
          CHECK(bed.backend->clone(message.slot, copy.slot) == Outcome::busy);
          CHECK(copy.slot.session == nullptr);
          CHECK(message.lose(*bed.backend) == Outcome::busy);
          break;
        case Act::begin:
          break;
      }
      CHECK(message.slot.session == nullptr);
      must_hash(*bed.backend);
      must_hash(*bed.backend);
      CHECK(bed.process.text().find("sendmsg") == std::string::npos);
      if (kind == Kind::none) continue;
      std::array<char, 64> got{};
      CHECK(read(foreign.peer, got.data(), got.size()) <= 0);
      REQUIRE(is_open(number));
      if (arrives) CHECK(read(number, got.data(), got.size()) == 7);
      CHECK(write(number, "usable", 6) == 6);
      CHECK(read(foreign.peer, got.data(), got.size()) == 6);
      close(number);
      close(foreign.peer);
    }
  }
}

// The guard alone, where the number is taken between the look and the call.
void stolen_before_the_call(Bed& bed) {
  for (const Kind kind : {Kind::stream, Kind::datagram, Kind::seqpacket, Kind::tcp, Kind::udp}) {
    INFO("kind " << static_cast<int>(kind));
    const Foreign foreign = make_foreign(kind);
    REQUIRE(fcntl(foreign.peer, F_SETFL, O_NONBLOCK) == 0);
    Message message;
    REQUIRE(message.extend(*bed.backend, Bytes(100)) == Outcome::served);
    kernel_calls::before_send(kernel_calls::last_operation_socket(), foreign.mine);
    CHECK(message.extend(*bed.backend, Bytes(100)) == Outcome::busy);
    std::array<char, 64> got{};
    CHECK(read(foreign.peer, got.data(), got.size()) <= 0);
    // The first update of a message is at hand to begin anew.
    must_hash(*bed.backend);
    kernel_calls::before_send(kernel_calls::last_operation_socket(), foreign.mine);
    must_hash(*bed.backend);
    CHECK(read(foreign.peer, got.data(), got.size()) <= 0);
    close(kernel_calls::last_operation_socket());
    close(foreign.mine);
    close(foreign.peer);
    bed.reset();
  }
}

// As a program does that closes all it does not know, with the clock at rest.
void all_closed(Bed& bed) {
  std::array<Message, 4> messages;
  std::array<int, 4> numbers{};
  for (std::size_t i = 0; i < messages.size(); ++i) {
    REQUIRE(messages[i].extend(*bed.backend, Bytes(100)) == Outcome::served);
    numbers[i] = kernel_calls::last_operation_socket();
  }
  for (std::size_t i = 0; i < 3; ++i) CHECK(messages[i].conclude(*bed.backend));
  for (const int number : numbers) close(number);
  must_hash(*bed.backend);
  CHECK(messages[3].extend(*bed.backend, Bytes(100)) == Outcome::busy);
  must_hash(*bed.backend);
  CHECK(bed.process.text().empty());
}

// The number of one session goes to another one of ours.
void swapped(Bed& bed) {
  Random random(8);
  Message first;
  Message second;
  REQUIRE(first.extend(*bed.backend, random.bytes(100)) == Outcome::served);
  const int number = kernel_calls::last_operation_socket();
  close(number);
  REQUIRE(second.extend(*bed.backend, random.bytes(100)) == Outcome::served);
  REQUIRE(kernel_calls::last_operation_socket() == number);
  CHECK(first.extend(*bed.backend, random.bytes(100)) == Outcome::busy);
  CHECK(second.extend(*bed.backend, random.bytes(100)) == Outcome::served);
  CHECK(second.conclude(*bed.backend));

  // A cipher's goes to a digest, with the clock at rest so that the cipher does not look by itself.
  KeySlot cipher;
  const Bytes key = random.bytes(16);
  must_serve(*bed.backend, cipher, key);
  must_serve(*bed.backend, cipher, key);
  const int cipher_number = kernel_calls::last_operation_socket();
  close(cipher_number);
  Message third;
  third.hash = &hashes[1];
  REQUIRE(third.extend(*bed.backend, random.bytes(100)) == Outcome::served);
  REQUIRE(kernel_calls::last_operation_socket() == cipher_number);
  must_serve(*bed.backend, cipher, key);
  CHECK(third.extend(*bed.backend, random.bytes(100)) == Outcome::served);
  CHECK(third.conclude(*bed.backend));
  bed.backend->release(cipher);
}

// Both sides go on; the parent's message is its own.
void forked(Bed& bed) {
  Random random(9);
  Message message;
  Message doubled;
  must_hash(*bed.backend, hashes[1]);  // waits in the pool
  REQUIRE(message.extend(*bed.backend, random.bytes(1000)) == Outcome::served);
  REQUIRE(bed.backend->clone(message.slot, doubled.slot) == Outcome::served);
  doubled.text = message.text;
  const int before = open_descriptors();
  CHECK(in_child([&] {
          KeySlot copy;
          if (bed.backend->clone(message.slot, copy) != Outcome::busy || copy.session != nullptr) return 1;
          KeySlot other = message.slot;
          const Bytes part(100);
          if (bed.backend->extend(other, sha256.spec, part.data(), part.size()) != Outcome::busy ||
              other.session != nullptr)
            return 2;
          for (const Kernel& hash : hashes) {
            if (!whole(*bed.backend, hash, random, 500)) return 3;
          }
          if (open_descriptors() != before - 3 + 6) return 4;
          if (bed.backend->extend(doubled.slot, sha256.spec, part.data(), part.size()) != Outcome::busy)
            return 5;
          if (message.lose(*bed.backend) != Outcome::busy || message.slot.session != nullptr) return 6;
          if (!whole(*bed.backend, sha256, random, 500)) return 7;
          bed.backend.reset();
          return open_descriptors() == before - 3 ? 0 : 8;
        }) == 0);
  CHECK(in_child([&] {
          message.abandon(*bed.backend);
          return message.slot.session == nullptr ? 0 : 1;
        }) == 0);
  CHECK(message.extend(*bed.backend, random.bytes(1000)) == Outcome::served);
  CHECK(message.conclude(*bed.backend));
  CHECK(doubled.conclude(*bed.backend));
  must_hash(*bed.backend, hashes[1]);
}

void sandboxed(Bed& bed) {
  for (const bool live : {false, true}) {
    INFO("live " << live);
    CHECK(in_child([&] {
            Backend& backend = *bed.backend;
            Random random(10);
            std::array<Message, 3> messages;
            for (Message& message : messages) {
              if (live && message.extend(backend, Bytes(100)) != Outcome::served) return 1;
            }
            if (live && !whole(backend, hashes[0], random, 100)) return 2;
            if (!enter_sandbox()) return 3;
            kernel_calls::clear();
            KeySlot copy;
            if (backend.clone(messages[0].slot, copy) != Outcome::unavailable) return 4;
            if (messages[0].extend(backend, Bytes(100)) != Outcome::unavailable) return 5;
            if (messages[1].lose(backend) != Outcome::unavailable) return 6;
            messages[2].abandon(backend);
            for (Message& message : messages) {
              if (message.slot.session != nullptr) return 7;
            }
            for (const Kernel& hash : hashes) {
              Message fresh{.hash = &hash, .slot = {}, .text = {}};
              if (fresh.extend(backend, Bytes(100)) != Outcome::unavailable) return 8;
            }
            bed.backend.reset();
            for (int call = 0; call < kernel_calls::call_count; ++call) {
              if (kernel_calls::count(static_cast<Call>(call)) != 0) return 9;
            }
            return 0;
          }) == 0);
  }
  CHECK(in_child([&] {
          if (!enter_filter()) return 1;
          Message message;
          if (message.extend(*bed.backend, Bytes(100)) != Outcome::unavailable) return 2;
          if (kernel_calls::count(Call::socket) != 0) return 3;
          bed.options.under_seccomp = true;
          bed.reset();
          return message.extend(*bed.backend, Bytes(100)) == Outcome::served ? 0 : 4;
        }) == 0);
}

void threads(Bed& bed) {
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
          const Outcome outcome = message.extend(*bed.backend, random.bytes(random.below(3000)));
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

struct Case {
  const char* name;
  void (*run)(Bed& bed);
};
const std::array cases{
    Case{"empty messages", empty_messages},
    Case{"calls per message", calls_per_message},
    Case{"pools", pools},
    Case{"limit", limit_of_both},
    Case{"faults at open", faults_at_open},
    Case{"faults in use", faults_in_use},
    Case{"stolen descriptors", stolen},
    Case{"a number taken before the call", stolen_before_the_call},
    Case{"all descriptors closed", all_closed},
    Case{"swapped numbers", swapped},
    Case{"threads", threads},
};

// The outcome of a first update, and who would do it.
std::string used(const std::string& list, bool accelerated_only, Outcome expected,
                 std::string* log = nullptr) {
  Bed bed(true, accelerated_only);
  const List file(list);
  const auto backend = make_afalg_backend_with(bed.process, bed.options, file.path());
  for (int i = 0; i < 3; ++i) {
    Message message;
    CHECK(message.extend(*backend, Bytes(100)) == expected);
    if (expected == Outcome::served) CHECK(message.conclude(*backend));
    bed.process.time += 2'000'000'000;
  }
  if (expected != Outcome::served) CHECK(kernel_calls::count(Call::socket) == 0);
  if (log != nullptr) *log = bed.process.text();
  std::array<char, 64> driver{'x'};
  backend->digest_driver(sha256.spec, driver);
  return driver.data();
}

std::string without(std::string text, const std::string& driver) {
  const std::size_t at = text.find(driver);
  return text.replace(at, driver.size(), "other-" + driver + "-x");
}

}  // namespace

TEST_CASE("digests: what there is") {
  kernel_calls::clear();
  TestProcess process;
  const auto backend = make_afalg_backend(process, {});
  for (const Kernel& hash : hashes) CHECK(backend->digest_way(hash.spec) == Backend::DigestWay::messages);
  for (const DigestSpec& spec :
       {DigestSpec{Digest::sha512_224, 128, 28}, DigestSpec{Digest::sha512_256, 128, 32},
        DigestSpec{Digest::sha256, 64, 28}}) {
    CHECK(backend->digest_way(spec) == Backend::DigestWay::none);
    KeySlot slot;
    std::array<std::uint8_t, 64> data{};
    CHECK(backend->extend(slot, spec, data.data(), data.size()) == Outcome::unsupported);
    CHECK(backend->conclude(slot, spec, data.data()) == Outcome::unsupported);
    std::array<char, 8> text{'x'};
    backend->digest_driver(spec, text);
    CHECK(text[0] == '\0');
  }
  KeySlot slot;
  KeySlot copy{.session = &slot, .generation = 1};
  backend->abandon(slot);
  CHECK(backend->clone(slot, copy) == Outcome::unavailable);
  CHECK(copy.session == nullptr);
  backend->digest_driver(sha256.spec, {});
  CHECK(kernel_calls::count(Call::socket) == 0);
}

TEST_CASE("digests: choice of drivers") {
  const std::string all = model_hash_list();
  CHECK(used(all, true, Outcome::served) == "sha256-sun4i-ss");
  CHECK(used(all, false, Outcome::served) == "sha256-model");
  CHECK(used("", false, Outcome::served) == "sha256");
  CHECK(used(without(all, "sha256-model"), false, Outcome::served) == "sha256");  // AF_ALG refuses the name
  std::string log;
  CHECK(used("", true, Outcome::unavailable, &log).empty());
  CHECK(log.find("afalg is not used for SHA2-256: no hardware driver in ") != std::string::npos);
  CHECK(log.find('\n') == log.size() - 1);
  // Hardware, but not for messages in pieces.
  CHECK(used(without(all, "sha256-sun4i-ss"), true, Outcome::unsupported, &log).empty());
  CHECK(log ==
        "sunxi: afalg is not used for SHA2-256: sha256-sun8i-ce hashes a message in pieces by software of "
        "the kernel\n");
}

TEST_CASE("digests: random messages on the model") {
  Bed bed(true, GENERATE(false, true));
  random_messages(*bed.backend, setting("SUNXI_TEST_CASES", 3000));
}

TEST_CASE("digests: cases on the model") {
  for (const Case& one : cases) {
    INFO(one.name);
    Bed bed(true, false);
    one.run(bed);
  }
}

TEST_CASE("digests: a fork, on the model", "[fork]") {
  Bed bed(true, false);
  forked(bed);
}

TEST_CASE("digests: sandboxes, on the model", "[seccomp]") {
  Bed bed(true, false);
  sandboxed(bed);
}

TEST_CASE("digests: random messages on the kernel", "[kernel]") {
  Bed bed(false, false);
  random_messages(*bed.backend, setting("SUNXI_TEST_CASES", 3000));
  for (const Kernel& hash : hashes) {
    std::array<char, 64> driver{};
    bed.backend->digest_driver(hash.spec, driver);
    CHECK(driver[0] != '\0');
    std::cout << hash.name << " on " << driver.data() << '\n';
  }
}

TEST_CASE("digests: cases on the kernel", "[kernel]") {
  for (const Case& one : cases) {
    INFO(one.name);
    Bed bed(false, false);
    one.run(bed);
  }
  for (const auto& run : {forked, sandboxed}) {
    Bed bed(false, false);
    run(bed);
  }
}

TEST_CASE("digests: no hardware for them on this kernel", "[kernel]") {
  Bed bed(false, true);
  for (int i = 0; i < 3; ++i) {
    for (const Kernel& hash : hashes) {
      Message message{.hash = &hash, .slot = {}, .text = {}};
      CHECK(message.extend(*bed.backend, Bytes(100)) == Outcome::unavailable);
    }
    bed.process.time += 2'000'000'000;
  }
  CHECK(kernel_calls::count(Call::socket) == 0);
  CHECK(bed.process.text().find("afalg is not used for SHA2-512: no hardware driver in /proc/crypto") !=
        std::string::npos);
}
