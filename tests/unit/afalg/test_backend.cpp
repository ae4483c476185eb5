// SPDX-License-Identifier: Apache-2.0
// The AF_ALG backend, on the model and on a real kernel. SUNXI_TEST_HARDWARE=1 in the environment takes a
// hardware driver on the real kernel; SUNXI_TEST_CASES and SUNXI_TEST_SEED set the random comparison;
// SUNXI_TEST_MAY_SKIP=1 makes a kernel without AF_ALG a skip (exit status 77), not a failure.
#include <fcntl.h>
#include <linux/if_alg.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <thread>
#include <utility>

#include "tests/unit/afalg/bed.h"
#include "tests/unit/backend/surroundings.h"

using namespace afalg_test;

namespace {

// In a child there is no Catch to report to.
bool serves(Backend& backend, KeySlot& slot, const Bytes& key, std::uint64_t seed) {
  Random random(seed);
  Iv iv{};
  random.fill(iv.data(), iv.size());
  const Bytes in = random.bytes(random.length());
  const bool encrypt = random.below(2) == 0;
  const Answer answer = ask(backend, slot, key, iv, in, encrypt);
  return answer.result.outcome == Outcome::served && answer.out == reference(encrypt, key, iv, in) &&
         answer.iv == iv;
}

// --- the cases, each for the model and for the kernel ---

void stolen_descriptors(Bed& bed) {
  Random random(7);
  const Bytes key = random.bytes(16);
  for (const Kind kind :
       {Kind::stream, Kind::datagram, Kind::seqpacket, Kind::tcp, Kind::udp, Kind::file, Kind::none}) {
    for (const bool later : {false, true}) {
      for (const bool release : {false, true}) {
        INFO("kind " << static_cast<int>(kind) << ", later " << later << ", release " << release);
        KeySlot slot;
        must_serve(*bed.backend, slot, key);
        const int number = kernel_calls::last_operation_socket();
        REQUIRE(number > 2);
        const Foreign foreign = steal(number, kind);
        // With the clock at rest nobody looks, and the guard alone keeps the data in.
        if (later) bed.process.time += 100'000'000;
        if (!release) {
          must_serve(*bed.backend, slot, key, 100000, later);
          must_serve(*bed.backend, slot, key, 64);
        }
        bed.backend->release(slot);
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
  CHECK(bed.process.text().find("EINVAL") == std::string::npos);
}

// The number of one session goes to another one of ours, of the same backend or of another object.
void swapped_sessions(Bed& bed) {
  Random random(8);
  const Bytes key1 = random.bytes(16);
  const Bytes key2 = random.bytes(16);
  const auto other = make_afalg_backend_with(bed.process, bed.options, "/proc/crypto");
  for (Backend* second : {bed.backend.get(), other.get()}) {
    if (second == other.get() && bed.options.accelerated_only) continue;
    KeySlot slot1;
    KeySlot slot2;
    must_serve(*bed.backend, slot1, key1);
    const int number1 = kernel_calls::last_operation_socket();
    must_serve(*second, slot2, key2);
    const int number2 = kernel_calls::last_operation_socket();
    REQUIRE(number1 != number2);
    close(number1);
    close(number2);
    must_serve(*second, slot2, key2);
    must_serve(*bed.backend, slot1, key1);
    must_serve(*second, slot2, key2);
    bed.backend->release(slot1);
    must_serve(*second, slot2, key2);
    second->release(slot2);
  }
}

// Somebody else's operation socket of AF_ALG gets our number: it would take all that we send.
void taken_by_afalg(Bed& bed) {
  Random random(15);
  const Bytes key = random.bytes(16);
  KeySlot slot;
  must_serve(*bed.backend, slot, key);
  const int number = kernel_calls::last_operation_socket();
  const int bound = socket(AF_ALG, SOCK_SEQPACKET, 0);
  sockaddr_alg address{};
  address.salg_family = AF_ALG;
  std::memcpy(address.salg_type, "skcipher", 9);
  std::memcpy(address.salg_name, "cbc(aes)", 9);
  REQUIRE(bind(bound, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(setsockopt(bound, SOL_ALG, ALG_SET_KEY, random.bytes(16).data(), 16) == 0);
  close(number);
  const int taken = accept4(bound, nullptr, nullptr, 0);
  REQUIRE(dup2(taken, number) == number);
  close(taken);
  bed.process.time += 100'000'000;
  must_serve(*bed.backend, slot, key);
  // Nobody closed it.
  CHECK((fcntl(number, F_GETFD) & FD_CLOEXEC) == 0);
  CHECK(is_open(number));
  // Another slot that joins looks at once.
  KeySlot joining;
  close(number);
  const int second = kernel_calls::last_operation_socket();
  close(second);
  const int other = accept4(bound, nullptr, nullptr, 0);
  REQUIRE(other >= 0);
  REQUIRE(dup2(other, second) == second);
  must_serve(*bed.backend, joining, key);
  close(other);
  close(second);
  close(number);
  close(bound);
  bed.backend->release(joining);
  bed.backend->release(slot);
}

void shared_sessions(Bed& bed) {
  Random random(9);
  const Bytes key = random.bytes(32);
  const int before = open_descriptors();
  std::array<KeySlot, 20> slots;
  for (KeySlot& slot : slots) must_serve(*bed.backend, slot, key);
  CHECK(open_descriptors() == before + 1);
  CHECK(kernel_calls::count(Call::accept) == 1);
  for (std::size_t i = 1; i < slots.size(); ++i) bed.backend->release(slots[i]);
  must_serve(*bed.backend, slots[0], key);
  CHECK(kernel_calls::count(Call::accept) == 1);
  bed.backend->release(slots[0]);
  CHECK(slots[0].session == nullptr);
  CHECK(open_descriptors() == before);
  bed.backend->release(slots[0]);

  // Another key, a key that begins alike, and the same again are other sessions.
  Bytes shorter(key.begin(), key.begin() + 16);
  Bytes other = key;
  other.back() = static_cast<std::uint8_t>(other.back() ^ 1U);
  must_serve(*bed.backend, slots[0], key);
  must_serve(*bed.backend, slots[1], shorter);
  must_serve(*bed.backend, slots[2], other);
  CHECK(open_descriptors() == before + 3);
  for (KeySlot& slot : slots) bed.backend->release(slot);
  CHECK(open_descriptors() == before);
  // All of them close on exec.
  must_serve(*bed.backend, slots[0], key);
  CHECK((fcntl(kernel_calls::last_operation_socket(), F_GETFD) & FD_CLOEXEC) != 0);
  bed.backend->release(slots[0]);
}

void session_limit(Bed& bed) {
  const int status = in_child([&] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 100;  // a sixteenth is 6
    setrlimit(RLIMIT_NOFILE, &limit);
    std::array<KeySlot, 8> slots;
    Random random(3);
    std::array<Bytes, 8> keys;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = random.bytes(16);
      const Answer answer = ask(*bed.backend, slots[i], keys[i], {}, Bytes(64));
      // The last place is for a copy of a digest's message.
      if (answer.result.outcome != (i < 5 ? Outcome::served : Outcome::busy)) return 1;
    }
    bed.backend->release(slots[2]);
    if (!serves(*bed.backend, slots[7], keys[7], 5)) return 2;
    if (ask(*bed.backend, slots[6], keys[6], {}, Bytes(64)).result.outcome != Outcome::busy) return 3;
    if (!serves(*bed.backend, slots[0], keys[0], 6)) return 4;
    // A slot with a key that has a session is no new one.
    if (!serves(*bed.backend, slots[6], keys[0], 7)) return 5;
    return 0;
  });
  CHECK(status == 0);
  const int tiny = in_child([&] {
    Random random(4);
    const Bytes key = random.bytes(16);
    KeySlot slot;
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t before = std::exchange(limit.rlim_cur, 3);
    setrlimit(RLIMIT_NOFILE, &limit);
    // Not even /proc/self/status can be read.
    const Answer answer = ask(*bed.backend, slot, key, {}, Bytes(64));
    if (answer.result.outcome == Outcome::served || answer.result.done != 0) return 1;
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    return serves(*bed.backend, slot, key, 1) ? 0 : 2;
  });
  CHECK(tiny == 0);
}

// Both sides go on with the same slots.
void forked(Bed& bed) {
  Random random(10);
  const Bytes key = random.bytes(16);
  const Bytes key2 = random.bytes(24);
  KeySlot slot;
  KeySlot slot2;
  must_serve(*bed.backend, slot, key);
  must_serve(*bed.backend, slot2, key2);
  const int before = open_descriptors();
  std::array<int, 2> turn{};
  REQUIRE(pipe(turn.data()) == 0);
  std::cout.flush();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      if (!serves(*bed.backend, slot, key, seed)) _exit(1);
      if (!serves(*bed.backend, slot2, key2, seed)) _exit(2);
    }
    // The inherited sockets are gone, ours took their place; the pipe came with the fork.
    if (open_descriptors() != before + 2) _exit(3);
    bed.backend->release(slot);
    bed.backend->release(slot2);
    if (open_descriptors() != before) _exit(4);
    // A grandchild that only releases what it inherited.
    const int grandchild = in_child([&] {
      bed.backend->release(slot);
      bed.backend.reset();
      return 0;
    });
    _exit(grandchild == 0 ? 0 : 5);
  }
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    if (!serves(*bed.backend, slot, key, seed)) FAIL("parent, first key");
    if (!serves(*bed.backend, slot2, key2, seed)) FAIL("parent, second key");
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  must_serve(*bed.backend, slot, key);
  bed.backend->release(slot);
  bed.backend->release(slot2);
  close(turn[0]);
  close(turn[1]);

  // Children that never use the backend, or only once the parent's slot was inherited unused.
  KeySlot fresh;
  CHECK(in_child([&] { return serves(*bed.backend, fresh, key, 1) ? 0 : 1; }) == 0);
  must_serve(*bed.backend, fresh, key);
  CHECK(in_child([&] {
          bed.backend.reset();
          return 0;
        }) == 0);
  must_serve(*bed.backend, fresh, key);
  bed.backend->release(fresh);
}

void threads(Bed& bed, int requests) {
  constexpr std::size_t thread_count = 64;
  constexpr std::size_t key_count = 8;
  Random random(11);
  std::array<Bytes, key_count> keys;
  std::array<const Variant*, key_count> algorithms{};
  for (std::size_t i = 0; i < key_count; ++i) {
    algorithms[i] = &variants[i * 2 + 1];
    if (!is_served(bed, *algorithms[i])) algorithms[i] = &aes_cbc(16);
    keys[i] = random.bytes(algorithms[i]->key_bytes);
  }
  std::atomic<int> served{0};
  std::atomic<int> busy{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> pool;
  for (std::size_t thread = 0; thread < thread_count; ++thread) {
    pool.emplace_back([&, thread] {
      Random own(thread);
      for (int i = 0; i < requests; ++i) {
        KeySlot slot;
        const std::size_t chosen = own.below(key_count);
        const Bytes& key = keys[chosen];
        const Variant& variant = *algorithms[chosen];
        for (int j = 0; j < 4; ++j) {
          Iv iv = own.iv(variant);
          const Bytes in = own.bytes(16 * (1 + own.below(64)));
          const bool encrypt = own.below(2) == 0;
          const Answer answer = ask(*bed.backend, slot, variant.spec(), key, iv, in, encrypt);
          if (answer.result.outcome == Outcome::busy) {
            ++busy;
            if (answer.iv != iv || answer.result.done != 0) ++wrong;
          } else if (answer.result.outcome == Outcome::served) {
            ++served;
            if (answer.out != reference(variant, encrypt, key, iv, in) || answer.iv != iv) ++wrong;
          } else {
            ++wrong;
          }
        }
        bed.backend->release(slot);
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  INFO("served " << served << ", busy " << busy);
  CHECK(wrong == 0);
  CHECK(served > 0);
}

// Each rule for the next IV and each kind of key.
constexpr std::array fault_algorithms{"AES-128-CBC", "AES-256-CTR", "AES-192-ECB",
                                      "AES-128-XTS", "DES-EDE-CBC", "DES-ECB"};

struct Injected {
  Call call;
  int error;
  Outcome expected;
};

void injected_at_open(Bed& bed, const Variant& variant) {
  if (!is_served(bed, variant)) return;
  // A backend that has not served yet.
  bed.reset();
  const Outcome refused = variant.cipher == Cipher::aes ? Outcome::failed : Outcome::busy;
  Random random(12);
  const Bytes key = random.bytes(variant.key_bytes);
  KeySlot slot;
  const int before = open_descriptors();
  for (const bool first : {true, false}) {
    // The first request looks for the driver, the later ones know it.
    for (const Injected& fault : {
             Injected{Call::socket, EAFNOSUPPORT, Outcome::unavailable},
             Injected{Call::socket, EPERM, Outcome::unavailable},
             Injected{Call::socket, EACCES, Outcome::unavailable},
             Injected{Call::socket, EMFILE, Outcome::busy},
             Injected{Call::socket, ENFILE, Outcome::busy},
             Injected{Call::socket, ENOMEM, Outcome::busy},
             Injected{Call::bind, ENOENT, Outcome::unavailable},
             Injected{Call::bind, EACCES, Outcome::unavailable},
             Injected{Call::bind, ENOMEM, Outcome::busy},
             Injected{Call::bind, ETIMEDOUT, Outcome::unavailable},
             Injected{Call::set_key, EINVAL, refused},
             Injected{Call::set_key, ENOKEY, refused},
             Injected{Call::set_key, EIO, Outcome::failed},
             Injected{Call::set_key, ENOMEM, Outcome::busy},
             Injected{Call::accept, EMFILE, Outcome::busy},
             Injected{Call::accept, ENFILE, Outcome::busy},
             Injected{Call::accept, EPERM, Outcome::unavailable},
         }) {
      INFO("call " << static_cast<int>(fault.call) << ", errno " << fault.error << ", first " << first);
      kernel_calls::inject(fault.call, fault.error, 0, 1000);
      for (int again = 0; again < 3; ++again) {
        errno = 4711;
        const Answer answer = ask(*bed.backend, slot, variant.spec(), key, {}, Bytes(64));
        CHECK(errno == 4711);
        CHECK(answer.result.outcome == fault.expected);
        CHECK(answer.result.done == 0);
        CHECK(open_descriptors() == before);
        bed.process.time += 2'000'000'000;
      }
      kernel_calls::clear();
      if (fault.call == Call::set_key) bed.backend->release(slot);  // it remembers that its key was refused
      if (!first) {
        must_serve(*bed.backend, slot, variant, key);
        bed.backend->release(slot);
      }
    }
  }
  const std::string text = bed.process.text();
  INFO(text);
  if (!bed.options.accelerated_only) {
    CHECK(text.find("no AF_ALG: this kernel answers EAFNOSUPPORT") != std::string::npos);
  }
  if (refused == Outcome::failed) {
    CHECK(text.find("setsockopt(ALG_SET_KEY) answers EINVAL") != std::string::npos);
  } else {
    CHECK(text.find("a key was refused: EINVAL") != std::string::npos);
  }
}

void injected_in_use(Bed& bed, const Variant& variant) {
  if (!is_served(bed, variant)) return;
  Random random(13);
  const Bytes key = random.bytes(variant.key_bytes);
  KeySlot slot;
  must_serve(*bed.backend, slot, variant, key);
  const std::size_t chunk = chunk_of(bed, variant);
  const std::size_t length = variant.mode == Mode::xts ? chunk : 200000;
  const Bytes in = random.bytes(length);
  const int before = open_descriptors();
  for (const bool encrypt : {true, false}) {
    for (const int distance : {1, 0, -1}) {  // apart, in place, output before input
      for (const Call call : {Call::send, Call::receive}) {
        for (const int error : {0, EIO, ENOMEM, EINVAL, EAGAIN, EBADMSG, EINTR}) {
          for (const int skip : {0, 2}) {
            if (skip != 0 && variant.mode == Mode::xts) continue;
            if (&variant != &aes_cbc(16) && (error == ENOMEM || error == EAGAIN || error == EBADMSG))
              continue;
            INFO(variant.name << ", encrypt " << encrypt << ", placement " << distance << ", call "
                              << static_cast<int>(call) << ", errno " << error << ", skip " << skip);
            Bytes memory(2 * length + 16);
            std::uint8_t* source = memory.data() + 8;
            std::uint8_t* target = distance > 0 ? source + length : distance == 0 ? source : source - 8;
            std::copy(in.begin(), in.end(), source);
            Iv iv{1, 2, 3};
            Iv expected_iv = iv;
            kernel_calls::inject(call, error, skip, error == EINTR ? 1000 : 1);
            errno = 4711;
            const Result result =
                bed.backend->crypt(slot, {.spec = variant.spec(),
                                          .direction = encrypt ? Direction::encrypt : Direction::decrypt,
                                          .key = key,
                                          .iv = variant.iv_bytes() != 0 ? iv.data() : nullptr,
                                          .in = source,
                                          .out = target,
                                          .length = length});
            kernel_calls::clear();
            REQUIRE(errno == 4711);
            REQUIRE(result.outcome == Outcome::failed);
            REQUIRE(result.done == chunk * static_cast<std::size_t>(skip));
            // What is done is right, the rest of the input is as it was, and the IV is that of the next
            // block.
            if (result.done != 0) {
              const Bytes part(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(result.done));
              const Bytes expected = reference(variant, encrypt, key, expected_iv, part);
              REQUIRE(std::equal(expected.begin(), expected.end(), target));
            }
            REQUIRE(iv == expected_iv);
            REQUIRE(std::equal(in.begin() + static_cast<std::ptrdiff_t>(result.done), in.end(),
                               source + result.done));
            must_serve(*bed.backend, slot, variant, key, 48);
            REQUIRE(open_descriptors() == before);
          }
        }
      }
    }
  }
  // Interrupted now and then is no failure.
  kernel_calls::inject(Call::send, EINTR, 0, 2);
  kernel_calls::inject(Call::receive, EINTR, 1000, 0);
  must_serve(*bed.backend, slot, variant, key, 48);
  bed.backend->release(slot);
  CHECK(bed.process.text().find(": recv: EIO") != std::string::npos);
  CHECK(bed.process.text().find(": sendmsg: wrong length") != std::string::npos);
}

void sandboxes(Bed& bed) {
  Random random(14);
  const Bytes key = random.bytes(16);
  for (const bool live : {false, true}) {
    for (const bool later : {false, true}) {
      INFO("live " << live << ", later " << later);
      CHECK(in_child([&] {
              KeySlot slot;
              KeySlot other;
              if (live && !serves(*bed.backend, slot, key, 1)) return 1;
              if (!enter_sandbox()) return 2;
              kernel_calls::clear();
              if (later) bed.process.time += 100'000'000;
              const Bytes in(64);
              for (int i = 0; i < 3; ++i) {
                if (ask(*bed.backend, slot, key, {}, in).result.outcome != Outcome::unavailable) return 3;
                if (ask(*bed.backend, other, key, {}, in).result.outcome != Outcome::unavailable) return 4;
              }
              bed.backend->release(slot);
              for (int call = 0; call < kernel_calls::call_count; ++call) {
                if (kernel_calls::count(static_cast<Call>(call)) != 0) return 5;
              }
              bed.backend.reset();
              return 0;
            }) == 0);
    }
  }
  CHECK(in_child([&] {
          KeySlot slot;
          if (!enter_filter()) return 2;
          if (ask(*bed.backend, slot, key, {}, Bytes(64)).result.outcome != Outcome::unavailable) return 3;
          if (kernel_calls::count(Call::accept) != 0) return 4;
          if (bed.process.text().find("seccomp") == std::string::npos) return 5;
          bed.options.under_seccomp = true;
          const auto allowed = make_afalg_backend_with(bed.process, bed.options, "/proc/crypto");
          const bool served = ask(*allowed, slot, key, {}, Bytes(64)).result.outcome == Outcome::served;
          allowed->release(slot);
          return served || bed.options.accelerated_only ? 0 : 6;
        }) == 0);
}

}  // namespace

// --- on the model ---

TEST_CASE("construction needs no kernel") {
  kernel_calls::clear();
  TestProcess process;
  const auto backend = make_afalg_backend(process, {});
  CHECK(backend->name() == "afalg");
  std::array<char, 8> text{'x'};
  backend->driver(spec_of(16), text);
  CHECK(text[0] == '\0');
  backend->driver(spec_of(16), {});
  KeySlot slot;
  CHECK(ask(*backend, slot, Bytes(20), {}, Bytes(16)).result.outcome == Outcome::unsupported);
  backend->release(slot);
  CHECK(kernel_calls::count(Call::socket) == 0);
}

TEST_CASE("without a hardware driver no socket is opened") {
  Bed bed(true, true);
  for (const char* list : {"",
                           "name : cbc(aes)\ndriver : cbc-aes-ce\npriority : 300\nselftest : passed\n"
                           "internal : no\ntype : skcipher\n\n"}) {
    const List file(list);
    TestProcess process;
    process.set_log_level(LogLevel::info);
    const auto backend = make_afalg_backend_with(process, {}, file.path());
    KeySlot slot;
    for (int i = 0; i < 5; ++i) {
      CHECK(ask(*backend, slot, Bytes(16), {}, Bytes(16)).result.outcome == Outcome::unavailable);
      process.time += std::uint64_t{1'000'000'000} * static_cast<unsigned>(i);
    }
    CHECK(slot.session == nullptr);
    CHECK(process.text() == "sunxi: afalg is not used for AES-CBC: no hardware driver in " +
                                std::string(file.path()) + " (accelerated_only = no takes any)\n");
  }
  const auto blind = make_afalg_backend_with(bed.process, {}, "/nonexistent");
  KeySlot slot;
  CHECK(ask(*blind, slot, Bytes(16), {}, Bytes(16)).result.outcome == Outcome::unavailable);
  CHECK(bed.process.text() == "sunxi: afalg is not used for AES-CBC: /nonexistent cannot be read: ENOENT\n");
  CHECK(kernel_calls::count(Call::socket) == 0);
}

TEST_CASE("drivers are bound by their own names") {
  std::array<char, 64> driver{};
  const auto used = [&driver](bool hardware, const std::string& list) {
    Bed bed(true, hardware);
    const List file(list);
    const auto backend = make_afalg_backend_with(bed.process, bed.options, file.path());
    KeySlot slot;
    must_serve(*backend, slot, Bytes(16, 1), 70000);
    backend->driver(spec_of(32), driver);
    backend->release(slot);
    return std::string(driver.data());
  };
  CHECK(used(true, model_list()) == "cbc-aes-sun8i-ce");
  CHECK(used(false, model_list()) == "cbc-aes-model");
  CHECK(used(false, "") == "cbc(aes)");
  // In the list, but refused by AF_ALG.
  std::string unknown = model_list();
  unknown.replace(unknown.find("cbc-aes-model"), 13, "cbc-aes-other");
  CHECK(used(false, unknown) == "cbc(aes)");
  std::array<char, 5> little{};
  {
    Bed bed(true, true);
    KeySlot slot;
    must_serve(*bed.backend, slot, Bytes(16, 1));
    bed.backend->driver(spec_of(16), little);
    CHECK(std::string(little.data()) == "cbc-");
    bed.backend->release(slot);
  }
}

TEST_CASE("a driver that comes later is found") {
  Bed bed(true, true);
  const List file("");
  const auto backend = make_afalg_backend_with(bed.process, bed.options, file.path());
  KeySlot slot;
  const Bytes key(16, 5);
  CHECK(ask(*backend, slot, key, {}, Bytes(16)).result.outcome == Outcome::unavailable);
  const int number = open(file.path(), O_WRONLY);
  REQUIRE(write(number, model_list().data(), model_list().size()) > 0);
  close(number);
  CHECK(ask(*backend, slot, key, {}, Bytes(16)).result.outcome == Outcome::unavailable);
  bed.process.time += 1'000'000'001;
  must_serve(*backend, slot, key);
  backend->release(slot);
}

TEST_CASE("sun8i drivers get small chunks and whole pages") {
  Bed bed(true, true);
  KeySlot slot;
  must_serve(*bed.backend, slot, Bytes(16, 1), 65536);
  CHECK(kernel_calls::count(Call::send) == 2);
  CHECK(kernel_calls::count(Call::receive) == 2);
  CHECK(kernel_calls::unaligned_receives() == 0);
  bed.backend->release(slot);
}

TEST_CASE("a send buffer smaller than a chunk") {
  Bed bed(true, false);
  kernel_calls::use_model(true, 16384);
  KeySlot slot;
  must_serve(*bed.backend, slot, Bytes(16, 1), 65536);
  CHECK(kernel_calls::count(Call::send) == 4);
  bed.backend->release(slot);
}

TEST_CASE("numbers of the standard streams are avoided") {
  Bed bed(true, false);
  CHECK(in_child([&] {
          KeySlot slot;
          close(0);
          close(1);
          if (!serves(*bed.backend, slot, Bytes(16, 1), 1)) return 1;
          return is_open(0) || is_open(1) ? 2 : 0;
        }) == 0);
}

TEST_CASE("model: stolen descriptors") {
  Bed bed(true);
  stolen_descriptors(bed);
}
TEST_CASE("model: a session gets the number of another") {
  Bed bed(true);
  swapped_sessions(bed);
}
TEST_CASE("model: another AF_ALG socket gets the number") {
  Bed bed(true);
  taken_by_afalg(bed);
}
TEST_CASE("model: sessions are shared by slots with equal keys") {
  Bed bed(true);
  shared_sessions(bed);
}
TEST_CASE("model: limit of sessions") {
  Bed bed(true);
  session_limit(bed);
}
TEST_CASE("model: fork") {
  Bed bed(true);
  forked(bed);
}
TEST_CASE("model: threads") {
  Bed bed(true);
  threads(bed, 20);
}
TEST_CASE("model: refused when opening") {
  const bool hardware = GENERATE(false, true);
  for (const char* name : fault_algorithms) {
    Bed bed(true, hardware);
    injected_at_open(bed, variant_of(name));
  }
}
TEST_CASE("model: failing in use") {
  const bool hardware = GENERATE(false, true);
  for (const char* name : fault_algorithms) {
    Bed bed(true, hardware);
    injected_in_use(bed, variant_of(name));
  }
}
TEST_CASE("model: sandboxes", "[seccomp]") {
  Bed bed(true);
  sandboxes(bed);
}

// --- on a kernel ---

TEST_CASE("kernel: stolen descriptors", "[kernel]") {
  Bed bed(false);
  stolen_descriptors(bed);
}
TEST_CASE("kernel: a session gets the number of another", "[kernel]") {
  Bed bed(false);
  swapped_sessions(bed);
}
TEST_CASE("kernel: another AF_ALG socket gets the number", "[kernel]") {
  Bed bed(false);
  taken_by_afalg(bed);
}
TEST_CASE("kernel: sessions are shared by slots with equal keys", "[kernel]") {
  Bed bed(false);
  shared_sessions(bed);
}
TEST_CASE("kernel: limit of sessions", "[kernel]") {
  Bed bed(false);
  session_limit(bed);
}
TEST_CASE("kernel: fork", "[kernel]") {
  Bed bed(false);
  forked(bed);
}
TEST_CASE("kernel: threads", "[kernel]") {
  Bed bed(false);
  threads(bed, 20);
}
TEST_CASE("kernel: refused when opening", "[kernel]") {
  for (const char* name : fault_algorithms) {
    Bed bed(false);
    injected_at_open(bed, variant_of(name));
  }
}
TEST_CASE("kernel: failing in use", "[kernel]") {
  for (const char* name : fault_algorithms) {
    Bed bed(false);
    injected_in_use(bed, variant_of(name));
  }
}
TEST_CASE("kernel: sandboxes", "[kernel]") {
  Bed bed(false);
  sandboxes(bed);
}
TEST_CASE("kernel: a send buffer smaller than a chunk", "[kernel]") {
  constexpr const char* path = "/proc/sys/net/core/wmem_default";
  Bed bed(false);
  std::array<char, 32> before{};
  const int setting_file = open(path, O_RDWR | O_CLOEXEC);
  if (setting_file < 0) {
    WARN("not checked: " << path << " cannot be written");
    return;
  }
  REQUIRE(read(setting_file, before.data(), before.size() - 1) > 0);
  REQUIRE(pwrite(setting_file, "8192", 4, 0) == 4);
  KeySlot slot;
  must_serve(*bed.backend, slot, Bytes(16, 1), 65536);
  CHECK(kernel_calls::count(Call::send) == 8);
  bed.backend->release(slot);
  CHECK(pwrite(setting_file, before.data(), std::strlen(before.data()), 0) > 0);
  close(setting_file);
}
