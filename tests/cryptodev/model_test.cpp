// SPDX-License-Identifier: Apache-2.0
// The model by itself: the layouts of both word sizes, and calls that are made again because the caller's
// memory has to be fetched first.
#include "tests/cryptodev/model.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.h"

namespace {

using namespace sunxi::standin;
using Bytes = std::vector<std::uint8_t>;

// A caller's memory that begins at 0x10000. `rounds`: how many times a call has to be made before all it
// reads is there; then the reads of each round come one round later than the announcement of the one before.
class Simulated : public Memory {
 public:
  static constexpr std::uint64_t start = 0x10000;

  Access read(std::uint64_t address, void* to, std::size_t bytes) override {
    if (!inside(address, bytes)) return Access::fault;
    ++reads;
    if (reads > fetched) return Access::later;
    std::memcpy(to, memory.data() + (address - start), bytes);
    return Access::done;
  }
  void will_write(std::uint64_t, std::size_t) override { ++announced; }
  [[nodiscard]] bool complete() const override { return reads <= fetched; }
  bool write(std::uint64_t address, const void* from, std::size_t bytes) override {
    ++written;
    if (!inside(address, bytes)) return false;
    std::memcpy(memory.data() + (address - start), from, bytes);
    return true;
  }
  template <class Value>
  void put(std::size_t at, Value value) {
    std::memcpy(memory.data() + at, &value, sizeof value);
  }
  [[nodiscard]] std::uint32_t word(std::size_t at) const {
    std::uint32_t value = 0;
    std::memcpy(&value, memory.data() + at, sizeof value);
    return value;
  }

  Bytes memory = Bytes(0x10000);
  std::size_t fetched = ~std::size_t{0};  // reads that are answered
  std::size_t reads = 0;
  std::size_t announced = 0;
  std::size_t written = 0;

 private:
  [[nodiscard]] bool inside(std::uint64_t address, std::size_t bytes) const {
    return address >= start && address - start + bytes <= memory.size();
  }
};

class Bench {
 public:
  Bench() {
    REQUIRE(mkdtemp(folder_.data()) != nullptr);
    REQUIRE(create_state(folder_.data()));
    state = open_state(folder_.data());
    REQUIRE(state != nullptr);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    munmap(state, sizeof *state);
    std::filesystem::remove_all(folder_.data());
  }
  Answer call(const Caller& caller, std::uint32_t request, std::size_t at) {
    memory.reads = memory.announced = memory.written = 0;
    return Model(*state).ioctl(file, caller, request, Simulated::start + at, memory);
  }

  State* state = nullptr;
  std::uint32_t file = 0;
  Simulated memory;

 private:
  std::array<char, 64> folder_{"/tmp/sunxi-model-XXXXXX"};
};

constexpr Bytes::value_type plain_byte = 0x42;

// AES-128-ECB of a block of them under a key of ones.
const std::array<std::uint8_t, 16>& secret_block() {
  static const auto block = [] {
    std::array<std::uint8_t, 16> out{};
    CipherState state{};
    const Bytes key(16, 1);
    const CipherRow* row = find_cipher(23);
    if (!set_key(*row, state, key, false)) std::abort();
    out.fill(plain_byte);
    run_cipher(*row, state, true, out.data(), out.data(), 16);
    return out;
  }();
  return block;
}

struct Layout {
  Abi abi;
  std::uint32_t gsession;
  std::uint32_t crypt;
  std::size_t session_key;
  std::size_t session_id;
  std::size_t src;
  std::size_t dst;
};

}  // namespace

TEST_CASE("model: layouts of both word sizes", "[model]") {
  const Layout layout = GENERATE(Layout{Abi::lp64, 0xC0306366, 0xC0306368, 16, 40, 16, 24},
                                 Layout{Abi::ilp32, 0xC01C6366, 0xC01C6368, 12, 24, 12, 16},
                                 Layout{Abi::compat, 0xC01C6366, 0xC01C6368, 12, 24, 12, 16});
  Bench bench;
  const Caller caller{.pid = 1, .abi = layout.abi};
  REQUIRE(Model(*bench.state).open(1, bench.file) == 0);
  Simulated& memory = bench.memory;
  const auto address = [](std::size_t at) { return static_cast<std::uint32_t>(Simulated::start + at); };
  std::fill_n(memory.memory.begin() + 0x1000, 16, 1);
  memory.put(0, std::uint32_t{23});
  memory.put(8, std::uint32_t{16});
  memory.put(layout.session_key, address(0x1000));
  memory.put(layout.session_id, std::uint32_t{0xdeadbeef});
  REQUIRE(bench.call(caller, layout.gsession, 0).error == 0);
  const std::uint32_t session = memory.word(layout.session_id);
  CHECK(session == 0);  // of the first file

  std::fill_n(memory.memory.begin() + 0x2000, 32, plain_byte);
  memory.put(0x100, session);
  memory.put(0x108, std::uint32_t{32});
  memory.put(0x100 + layout.src, address(0x2000));
  memory.put(0x100 + layout.dst, address(0x3000));
  REQUIRE(bench.call(caller, layout.crypt, 0x100).error == 0);
  CHECK(std::memcmp(memory.memory.data() + 0x3010, secret_block().data(), 16) == 0);
  CHECK(memory.announced == memory.written);

  // The other's numbers are unknown.
  const std::uint32_t other = layout.abi == Abi::lp64 ? 0xC01C6368 : 0xC0306368;
  CHECK(bench.call(caller, other, 0x100).error == EINVAL);
  // What has one number for both.
  memory.put(0x200, std::uint32_t{5});
  memory.put(0x204, std::uint32_t{6});
  CHECK(bench.call(caller, 0x40086370, 0x200).error == (layout.abi == Abi::compat ? EINVAL : ENOENT));
  const std::uint32_t authcrypt = layout.abi == Abi::lp64 ? 0xC048636D : 0xC02C636D;
  const std::uint64_t before = bench.state->violations.load();
  CHECK(bench.call(caller, authcrypt, 0x400).error == EINVAL);
  CHECK(bench.state->violations.load() - before == (layout.abi == Abi::compat ? 0 : 1));
  memory.put(0x300, session);
  CHECK(bench.call(caller, 0xC10C636B, 0x300).error == 0);
  CHECK(std::string(reinterpret_cast<const char*>(memory.memory.data() + 0x300 + 68)) == "ecb-aes-sun8i-ce");
  CHECK(memory.word(0x300 + 260) % 0x10000 == 15);
  CHECK(bench.call(caller, 0x40046367, 0x300).error == 0);
  CHECK(bench.call(caller, layout.crypt, 0x100).error == EINVAL);
  CHECK(counter(*bench.state, "sessions-open") == 0);
}

TEST_CASE("model: a call that is made again has no effect before its memory is there", "[model]") {
  Bench bench;
  const Caller caller{.pid = 1, .abi = Abi::lp64};
  REQUIRE(Model(*bench.state).open(1, bench.file) == 0);
  Simulated& memory = bench.memory;
  memory.put(0, std::uint32_t{11});
  memory.put(8, std::uint32_t{16});
  memory.put(16, Simulated::start + 0x1000);
  for (const std::size_t fetched : {0U, 1U}) {
    memory.fetched = fetched;
    CHECK(bench.call(caller, 0xC0306366, 0).kind == Answer::Kind::again);
    CHECK(counter(*bench.state, "gsession") == 0);
    CHECK(counter(*bench.state, "sessions-open") == 0);
    CHECK(memory.written == 0);
  }
  memory.fetched = 2;
  const Answer made = bench.call(caller, 0xC0306366, 0);
  CHECK(made.kind == Answer::Kind::done);
  CHECK(made.error == 0);
  CHECK(counter(*bench.state, "gsession") == 1);

  memory.put(0x100, memory.word(40));
  memory.put(0x108, std::uint32_t{32});
  memory.put(0x110, Simulated::start + 0x2000);
  memory.put(0x118, Simulated::start + 0x3000);
  memory.put(0x128, Simulated::start + 0x4000);
  for (const std::size_t fetched : {0U, 1U, 2U}) {
    memory.fetched = fetched;
    CHECK(bench.call(caller, 0xC0306368, 0x100).kind == Answer::Kind::again);
    CHECK(memory.reads == (fetched == 0 ? 1 : 3));
    CHECK(memory.announced == (fetched == 0 ? 0 : 2));
    CHECK(counter(*bench.state, "crypt") == 0);
  }
  memory.fetched = 3;
  CHECK(bench.call(caller, 0xC0306368, 0x100).error == 0);
  CHECK(counter(*bench.state, "crypt") == 1);
  CHECK(counter(*bench.state, "requests") == 1);
}

TEST_CASE("model: what a dead process had open is given back", "[model]") {
  Bench bench;
  REQUIRE(Model(*bench.state).open(0x7ffffff0, bench.file) == 0);
  std::uint32_t own = 0;
  REQUIRE(Model(*bench.state).open(static_cast<std::uint32_t>(getpid()), own) == 0);
  CHECK(counter(*bench.state, "files-open") == 2);
  settle(*bench.state);
  CHECK(counter(*bench.state, "files-open") == 1);
  Model(*bench.state).close(own);
  CHECK(counter(*bench.state, "files-open") == 0);
}

TEST_CASE("model: settings that are none", "[model]") {
  Bench bench;
  for (const std::string_view text : {"", "driver", "fault=crypt", "fault=crypt:ENOTHING", "fault=what:EIO:1",
                                      "fault=crypt:EIO:0", "fault=crypt:EIO:1:sometimes", "limit=many",
                                      "alignmask=x", "first-id=1", "refuse-open=X", "colour=red"}) {
    INFO(text);
    CHECK(!configure(*bench.state, text));
  }
  for (const std::string_view text : {"driver=generic", "driver=cbc(*=x", "fault=crypt:5:7:every:dirty",
                                      "fault=open:EMFILE", "fault=none", "refuse-open=ENOENT", "limit=0"}) {
    INFO(text);
    CHECK(configure(*bench.state, text));
  }
}
