// SPDX-License-Identifier: Apache-2.0
// The backend as the provider sees it, on the modelled board from outside: device tree, /dev/mem, the
// kernel's driver, the lock, faults, threads, processes. Runs under tests/board/board.
#include "backends/backend.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "backends/mmio/mmio.h"
#include "backends/process.h"
#include "tests/board/reference.h"
#include "tests/board/state.h"
#include "tests/support/catch.h"

namespace {

using namespace sunxi;
using namespace sunxi::board;
using namespace std::string_literals;
namespace fs = std::filesystem;

// A process whose clock the test moves and whose log it reads.
class TestProcess : public Process {
 public:
  TestProcess() noexcept { set_log_level(LogLevel::info); }
  [[nodiscard]] std::uint64_t now() const noexcept override { return Process::now() + ahead; }
  [[nodiscard]] std::string log() {
    const std::lock_guard guard(mutex_);
    return log_;
  }
  std::atomic<std::uint64_t> ahead{0};

 protected:
  void write_line(const char* line, std::size_t length) noexcept override {
    const std::lock_guard guard(mutex_);
    log_.append(line, length);
  }

 private:
  std::mutex mutex_;
  std::string log_;
};

std::string folder() {
  const char* text = std::getenv("SUNXI_BOARD_DIR");
  if (text == nullptr) throw std::runtime_error("run this under tests/board/board");
  return text;
}

// The board as it was at first, and what a test wants of it.
class OnBoard {
 public:
  OnBoard() : state_(open_board(folder().c_str())) {
    set("fault", "none");
    set("gated", "0");
    set("bound", "none");
    set("refuse-open", "0");
    set("refuse-map", "0");
    set("refuse-clock", "0");
    set("refuse-uio", "0");
    set("uio", "0");
    state_->model.clock_writes = 0;
    fs::remove(lock_path());
    write("mem", "");
    chmod((folder() + "/mem").c_str(), 0640);
  }
  OnBoard(const OnBoard&) = delete;
  OnBoard& operator=(const OnBoard&) = delete;
  ~OnBoard() { write("compatible", compatible_); }

  void set(const char* key, const char* value) { REQUIRE(configure_board(*state_, key, value)); }
  static fs::path lock_path() { return folder() + "/sunxi-1c15000.lock"; }
  static void write(const std::string& name, const std::string& content) {
    std::ofstream(folder() + "/" + name, std::ios::binary | std::ios::trunc) << content;
  }
  static std::string read(const std::string& name) {
    std::ifstream file(folder() + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  [[nodiscard]] Counters counters() const { return state_->model.counters; }
  [[nodiscard]] Model& model() { return state_->model; }
  [[nodiscard]] bool engine_is_off() const { return state_->model.stopped(); }
  [[nodiscard]] bool keys_are_zero() const { return state_->model.keys_are_zero(); }
  [[nodiscard]] bool state_is_zero() const { return state_->model.state_is_zero(); }

  TestProcess process;
  BackendOptions options;
  std::unique_ptr<Backend> make() { return make_mmio_backend(process, options); }

 private:
  State* state_;
  std::string compatible_ = read("compatible");
};

Result once(Backend& backend, Case& test) {
  KeySlot slot;
  const Result result = backend.crypt(slot, test.request());
  backend.release(slot);
  return result;
}

bool served(Backend& backend, Case& test) {
  const Result result = once(backend, test);
  return result.outcome == Outcome::served && result.done == test.size && test.right(test.size);
}

bool absorbed(Backend& backend, AbsorbCase& test) {
  const Result result = backend.absorb(test.request());
  return result.outcome == Outcome::served && result.done == test.size && test.right(test.size);
}

bool absorbed_in_the_end(Backend& backend, AbsorbCase& test) {
  std::size_t done = 0;
  while (done < test.size) {
    AbsorbRequest request = test.request();
    request.in += done;
    request.length -= done;
    const Result result = backend.absorb(request);
    if (result.outcome != Outcome::served && result.outcome != Outcome::busy) return false;
    done += result.done;
  }
  return test.right(test.size);
}

// Until the lock is had, as a program would go on with other work in between.
bool served_in_the_end(Backend& backend, Case& test) {
  KeySlot slot;
  std::size_t done = 0;
  while (done < test.size) {
    CipherRequest request = test.request();
    request.in += done;
    request.out += done;
    request.length -= done;
    const Result result = backend.crypt(slot, request);
    if (result.outcome != Outcome::served && result.outcome != Outcome::busy) return false;
    done += result.done;
  }
  return test.right(test.size);
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
}

int exit_status(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("board: random requests are served with the right bytes", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(11);
  for (std::size_t number = 0; number < 8 * cipher_specs.size(); ++number) {
    INFO("case " << number << " " << on.process.log());
    Case test(random, 0, cipher_specs[number % cipher_specs.size()]);
    REQUIRE(served(*backend, test));
    REQUIRE(on.engine_is_off());
  }
}

TEST_CASE("board: no key is left in the engine when its context is gone", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(13);
  for (int number = 0; number < 20; ++number) {
    Case test(random, 256);
    KeySlot slot;
    REQUIRE(backend->crypt(slot, test.request()).outcome == Outcome::served);
    CHECK_FALSE(on.keys_are_zero());
    backend->release(slot);
    CHECK(slot.session == nullptr);
    CHECK(on.keys_are_zero());
    CHECK(on.state_is_zero());
  }
}

// The model objects to every word of a longer key that is left.
TEST_CASE("board: a key that another process has left is overwritten", "[board][fork]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(24);
  for (int round = 0; round < 8; ++round) {
    Case before(random, 64, cipher_specs[6]);
    KeySlot slot;
    REQUIRE(backend->crypt(slot, before.request()).outcome == Outcome::served);
    const pid_t child = fork();
    if (child == 0) {
      Case test(random, 64, cipher_specs[2]);
      KeySlot kept;
      _exit(backend->crypt(kept, test.request()).outcome == Outcome::served ? 0 : 1);
    }
    REQUIRE(exit_status(child) == 0);
    if (round % 2 == 0) {
      Case test(random, 64, cipher_specs[7]);
      CHECK(served(*backend, test));
    } else {
      AbsorbCase test(random, 64);
      CHECK(absorbed(*backend, test));
      CHECK(on.keys_are_zero());
    }
    backend->release(slot);
  }
}

TEST_CASE("board: random digests are served with the right states, and leave none", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(25);
  for (std::size_t number = 0; number < 60; ++number) {
    INFO("case " << number << " " << on.process.log());
    AbsorbCase test(random, 0, digest_specs[number % digest_specs.size()]);
    REQUIRE(absorbed(*backend, test));
    REQUIRE(on.engine_is_off());
    REQUIRE(on.state_is_zero());
  }
}

TEST_CASE("board: whole messages, in turns, have the right digests", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(26);
  for (int number = 0; number < 10; ++number) {
    std::array<DigestState, 2> states{initial_state, initial_state};
    std::array<Bytes, 2> messages{random_bytes(random, up_to(random, 3000)),
                                  random_bytes(random, up_to(random, 3000))};
    const std::array<Bytes, 2> expected{reference_digest(md5_spec, messages[0]),
                                        reference_digest(sha1_spec, messages[1])};
    for (std::size_t one = 0; one < 2; ++one) messages[one] = padded(digest_specs[one], messages[one]);
    for (std::size_t at = 0; at < std::max(messages[0].size(), messages[1].size()); at += 640) {
      for (std::size_t one = 0; one < 2; ++one) {
        if (at >= messages[one].size()) continue;
        const std::size_t bytes = std::min<std::size_t>(640, messages[one].size() - at);
        const Result result =
            backend->absorb({digest_specs[one], states[one].data(), messages[one].data() + at, bytes});
        REQUIRE(result.outcome == Outcome::served);
      }
      Case between(random, 64);
      REQUIRE(served(*backend, between));
    }
    for (std::size_t one = 0; one < 2; ++one) {
      CHECK(digest_of(digest_specs[one], states[one]) == expected[one]);
    }
  }
}

TEST_CASE("board: processes that start at once all get the lock file", "[board][fork]") {
  OnBoard on;
  std::mt19937_64 random = seeded(14);
  for (int round = 0; round < 15; ++round) {
    fs::remove(OnBoard::lock_path());
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        Case test(random, 64);
        const auto backend = on.make();
        _exit(served_in_the_end(*backend, test) ? 0 : 1);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) CHECK(exit_status(child) == 0);
  }
}

// As two library contexts have: each knows only what it has left in the engine itself.
TEST_CASE("board: two backends of one process share the engine", "[board]") {
  OnBoard on;
  const auto one = on.make();
  const auto other = on.make();
  std::mt19937_64 random = seeded(15);
  for (int round = 0; round < 200; ++round) {
    Case a(random, 64);
    Case b(random, 64);
    AbsorbCase first(random, 64);
    AbsorbCase second(random, 64);
    REQUIRE(served(*one, a));
    REQUIRE(absorbed(*one, first));
    KeySlot slot;  // as long as it lives, the key may stay
    REQUIRE(other->crypt(slot, b.request()).outcome == Outcome::served);
    REQUIRE(absorbed(*one, second));
    other->release(slot);
  }
}

TEST_CASE("board: a long request is served in pieces", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(12);
  Case test(random, 40000);
  const std::uint64_t before = on.counters().requests;
  REQUIRE(served(*backend, test));
  CHECK(on.counters().requests - before == 2 + 3);  // the known-answer test takes two
  AbsorbCase digest(random, 40000);
  REQUIRE(absorbed(*backend, digest));
  CHECK(on.counters().requests - before == 2 + 3 + 2 + 3);
}

TEST_CASE("board: a fault in a later piece of a digest leaves the earlier ones done", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(27);
  AbsorbCase warm(random, 64);
  REQUIRE(absorbed(*backend, warm));
  for (const std::size_t piece : {0U, 1U, 2U}) {
    AbsorbCase test(random, 40000);
    on.set("fault", ("stall:" + std::to_string(4300 * piece + 500)).c_str());
    const Result result = backend->absorb(test.request());
    CHECK(result.outcome == Outcome::failed);
    CHECK(result.done == piece * 16384);
    CHECK(test.right(result.done));
    CHECK(on.state_is_zero());
    on.set("fault", "none");
    AbsorbCase after(random, 64);
    CHECK(absorbed(*backend, after));
  }
}

TEST_CASE("board: what the backend says of itself", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  const CipherSpec spec{Cipher::aes, Mode::cbc, 16, 16, 16};
  std::array<char, 32> text{'x'};
  backend->driver(spec, text);
  CHECK(std::string(text.data()).empty());
  std::mt19937_64 random = seeded(13);
  Case test(random, 16, spec);
  REQUIRE(served(*backend, test));
  backend->driver(spec, text);
  CHECK(std::string(text.data()) == "sun4i-ss");
  CHECK(backend->name() == "mmio");
  for (const CipherSpec& each : cipher_specs) CHECK(backend->supports(each));
  CHECK_FALSE(backend->supports({Cipher::des, Mode::ctr, 8, 8, 8}));
  CHECK_FALSE(backend->supports({Cipher::aes, Mode::xts, 32, 16, 16}));
  // Of each algorithm by itself.
  backend->driver(cipher_specs[1], text);
  CHECK(std::string(text.data()).empty());
  backend->digest_driver(sha1_spec, text);
  CHECK(std::string(text.data()).empty());
  AbsorbCase digest(random, 64, sha1_spec);
  REQUIRE(absorbed(*backend, digest));
  backend->digest_driver(sha1_spec, text);
  CHECK(std::string(text.data()) == "sun4i-ss");
  CHECK(backend->digest_way(sha1_spec) == Backend::DigestWay::absorb);
  CHECK(backend->digest_way(md5_spec) == Backend::DigestWay::absorb);
  const DigestSpec sha256{Digest::sha256, 64, 32};
  CHECK(backend->digest_way(sha256) == Backend::DigestWay::none);
  DigestState state{};
  const Bytes block(64);
  CHECK(backend->absorb({sha256, state.data(), block.data(), 64}).outcome == Outcome::unsupported);
  CHECK_FALSE(backend->supports({Cipher::aes, Mode::cbc, 20, 16, 16}));
}

TEST_CASE("board: nothing is opened before it is needed, and nothing stays open", "[board]") {
  OnBoard on;
  const std::size_t before = open_descriptors();
  const auto backend = on.make();
  CHECK_FALSE(fs::exists(OnBoard::lock_path()));
  std::mt19937_64 random = seeded(14);
  Case test(random, 64);
  errno = EDOM;
  REQUIRE(once(*backend, test).outcome == Outcome::served);
  CHECK(errno == EDOM);
  CHECK(open_descriptors() == before);

  SECTION("unless it shall be mapped at start-up") {
    fs::remove(OnBoard::lock_path());
    on.options.mmio_map_at_startup = true;
    on.set("gated", "1");
    const auto early = on.make();
    CHECK(fs::exists(OnBoard::lock_path()));
    CHECK(on.model().clocks_open());
    on.set("refuse-open", "13");
    Case late(random, 64);
    CHECK(served(*early, late));
  }
}

TEST_CASE("board: output ahead of the input is left to others", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  Bytes memory(512, 7);
  const Bytes before = memory;
  Bytes key(16);
  Bytes iv(16);
  KeySlot slot;
  const CipherRequest request{{Cipher::aes, Mode::cbc, 16, 16, 16},
                              Direction::encrypt,
                              key,
                              iv.data(),
                              memory.data(),
                              memory.data() + 5,
                              256};
  const Result result = backend->crypt(slot, request);
  CHECK(result.outcome == Outcome::busy);
  CHECK(result.done == 0);
  CHECK(memory == before);
}

TEST_CASE("board: settings that leave no engine", "[board]") {
  OnBoard on;
  std::mt19937_64 random = seeded(15);
  Case test(random, 64);
  SECTION("off") {
    on.options.mmio_device = BackendOptions::MmioDevice::off;
    const auto backend = on.make();
    CHECK_FALSE(backend->supports(aes_128_cbc));
    CHECK(backend->digest_way(md5_spec) == Backend::DigestWay::none);
    AbsorbCase digest(random, 64);
    CHECK(backend->absorb(digest.request()).outcome == Outcome::unsupported);
    CHECK(once(*backend, test).outcome == Outcome::unsupported);
  }
  SECTION("another address") {
    on.options.mmio_device = BackendOptions::MmioDevice::devmem;
    on.options.mmio_address = 0x01904000;
    const auto backend = on.make();
    CHECK(once(*backend, test).outcome == Outcome::unavailable);
    CHECK(on.process.log().find("no engine at 0x01904000") != std::string::npos);
  }
  SECTION("a SoC whose engine is not driven") {
    on.options.mmio_soc = "sun8i-h3";
    const auto backend = on.make();
    CHECK(once(*backend, test).outcome == Outcome::unsupported);
  }
  CHECK(test.right(0));
  CHECK_FALSE(fs::exists(OnBoard::lock_path()));
}

TEST_CASE("board: an explicit device and SoC", "[board]") {
  OnBoard on;
  on.options.mmio_device = BackendOptions::MmioDevice::devmem;
  on.options.mmio_address = 0x01c15000;
  on.options.mmio_soc = "sun4i-a10";
  OnBoard::write("compatible", "");
  const auto backend = on.make();
  std::mt19937_64 random = seeded(16);
  Case test(random, 64);
  CHECK(served(*backend, test));
}

TEST_CASE("board: why there is no engine is said once", "[board]") {
  OnBoard on;
  std::string expected;
  SECTION("no Allwinner SoC") {
    OnBoard::write("compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0"s);
    expected = "no Allwinner engine: the device tree names none";
  }
  SECTION("an engine of another kind") {
    OnBoard::write("compatible", "some,board\0allwinner,sun8i-h3\0"s);
    expected = "the engine of sun8i-h3 is not driven";
  }
  SECTION("no /dev/mem") {
    on.set("refuse-open", "2");
    expected = "there is no /dev/mem";
  }
  SECTION("no permission") {
    on.set("refuse-open", "13");
    expected = "it takes root with CAP_SYS_RAWIO";
  }
  SECTION("a strict kernel") {
    on.set("refuse-map", "1");
    expected = "iomem=relaxed";
  }
  SECTION("the kernel's driver has it") {
    on.set("bound", "sun4i-ss");
    expected = "the kernel's driver sun4i-ss has the engine";
  }
  SECTION("a closed clock gate") {
    on.set("gated", "1");
    on.set("refuse-clock", "1");
    expected = "0x01c2009c bit 31, 0x01c20060 bit 5,";
  }
  SECTION("and what can be done about it") {
    on.set("gated", "1");
    on.set("refuse-clock", "1");
    expected = "iomem=relaxed, or make a UIO device";
  }
  SECTION("a module clock that stands still") {
    on.set("closed", "module");
    on.set("refuse-clock", "1");
    expected = "does not work: is its module clock on (0x01c2009c bit 31)";
  }
  const auto backend = on.make();
  std::mt19937_64 random = seeded(17);
  Case test(random, 64);
  CHECK(once(*backend, test).outcome == Outcome::unavailable);
  CHECK(once(*backend, test).outcome == Outcome::unavailable);
  CHECK(test.right(0));
  const std::string log = on.process.log();
  INFO(log);
  CHECK(log.find(expected) != std::string::npos);
  CHECK(std::count(log.begin(), log.end(), '\n') <= 1);
  CHECK(log.find("not used", log.find("not used") + 1) == std::string::npos);
}

TEST_CASE("board: the engine is used when what was in the way has gone", "[board]") {
  OnBoard on;
  const char* key = GENERATE("gated", "bound", "refuse-open", "refuse-map");
  on.set(key, std::string_view(key) == "bound" ? "sun4i-ss" : "1");
  on.set("refuse-clock", "1");
  const auto backend = on.make();
  std::mt19937_64 random = seeded(18);
  Case test(random, 64);
  REQUIRE(once(*backend, test).outcome == Outcome::unavailable);
  on.set(key, std::string_view(key) == "bound" ? "none" : "0");
  CHECK(served(*backend, test));
}

TEST_CASE("board: a driver of the kernel that comes later is noticed within a second", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(19);
  Case first(random, 64);
  REQUIRE(served(*backend, first));
  on.set("bound", "sun4i-ss");
  on.process.ahead += 1'000'000'000;
  Case second(random, 64);
  const std::uint64_t accesses = on.counters().writes + on.counters().reads;
  CHECK(once(*backend, second).outcome == Outcome::unavailable);
  CHECK(once(*backend, second).outcome == Outcome::unavailable);
  CHECK(on.counters().writes + on.counters().reads == accesses);
  CHECK(second.right(0));

  // It leaves the clocks off, which is found out before data is risked.
  on.set("bound", "none");
  on.set("gated", "1");
  on.set("refuse-clock", "1");
  on.process.ahead += 1'000'000'000;
  CHECK(once(*backend, second).outcome == Outcome::unavailable);
  on.set("gated", "0");
  CHECK(served(*backend, second));

  // The driver for user space is none.
  on.set("bound", "uio_pdrv_genirq");
  on.process.ahead += 1'000'000'000;
  Case third(random, 64);
  CHECK(served(*backend, third));
}

TEST_CASE("board: clock, gate and reset are opened, and nothing else is touched", "[board]") {
  OnBoard on;
  std::mt19937_64 random = seeded(40);
  const char* device = GENERATE("auto", "uio");
  if (device == "uio"s) on.set("uio", "2");
  SECTION("whatever of them is closed") {
    on.set("closed", GENERATE("bus", "module", "reset", "bus+module+reset"));
    const auto backend = on.make();
    Case test(random, 640);
    INFO(on.process.log());
    CHECK(served(*backend, test));
    CHECK(on.model().clocks_open());
    CHECK(on.model().module_hz() == 150'000'000);
    AbsorbCase digest(random, 640);
    CHECK(absorbed(*backend, digest));
  }
  SECTION("with the oscillator where the PLL is off") {
    on.set("closed", "module");
    const std::uint32_t pll = on.model().pll;
    on.model().pll = pll & 0x7fffffff;
    const auto backend = on.make();
    Case test(random, 640);
    CHECK(served(*backend, test));
    CHECK(on.model().module_hz() == 24'000'000);
    on.model().pll = pll;
  }
  SECTION("not at all if they run") {
    const auto backend = on.make();
    Case test(random, 640);
    CHECK(served(*backend, test));
    CHECK(on.model().clock_writes == 0);
  }
  SECTION("again after a machine that was suspended") {
    const auto backend = on.make();
    Case before(random, 640);
    REQUIRE(served(*backend, before));
    on.set("gated", "1");
    Case during(random, 640);
    const Result result = once(*backend, during);
    CHECK(result.outcome == Outcome::failed);
    CHECK(during.right(result.done));
    Case after(random, 640);
    CHECK(served(*backend, after));
  }
}

TEST_CASE("board: an engine that runs is used where the clock unit is refused", "[board]") {
  OnBoard on;
  on.set("refuse-clock", "1");
  const auto backend = on.make();
  std::mt19937_64 random = seeded(41);
  Case test(random, 640);
  CHECK(served(*backend, test));
  CHECK(on.process.log().empty());
}

TEST_CASE("board: UIO devices", "[board]") {
  OnBoard on;
  std::mt19937_64 random = seeded(42);
  Case test(random, 640);
  on.set("refuse-open", "13");  // /dev/mem
  SECTION("are found by auto, and leave nothing open") {
    on.set("uio", GENERATE("1", "2"));
    const std::size_t before = open_descriptors();
    const auto backend = on.make();
    CHECK(served(*backend, test));
    CHECK(open_descriptors() == before);
  }
  SECTION("by number or name") {
    on.set("uio", "2");
    on.options.mmio_device = BackendOptions::MmioDevice::uio;
    on.options.mmio_uio = GENERATE("uio1", "crypto");
    const auto backend = on.make();
    CHECK(served(*backend, test));
  }
  SECTION("of other names are not") {
    on.set("uio", "2");
    on.options.mmio_device = BackendOptions::MmioDevice::uio;
    on.options.mmio_uio = "uio0";
    const auto backend = on.make();
    CHECK(once(*backend, test).outcome == Outcome::unavailable);
    CHECK(on.process.log().find("there is no UIO device uio0") != std::string::npos);
  }
  SECTION("are not looked for where /dev/mem is wanted") {
    on.set("uio", "2");
    on.options.mmio_device = BackendOptions::MmioDevice::devmem;
    on.options.mmio_address = 0x01c15000;
    const auto backend = on.make();
    CHECK(once(*backend, test).outcome == Outcome::unavailable);
  }
  SECTION("without the clock unit, of an engine that is off") {
    on.set("uio", "1");
    on.set("gated", "1");
    const auto backend = on.make();
    CHECK(once(*backend, test).outcome == Outcome::unavailable);
    CHECK(on.process.log().find("/dev/uio1 has no map of the clock unit") != std::string::npos);
  }
  SECTION("of others") {
    on.set("uio", "2");
    on.set("refuse-uio", "13");
    const auto backend = on.make();
    CHECK(once(*backend, test).outcome == Outcome::unavailable);
    CHECK(on.process.log().find("a udev rule gives it to a group") != std::string::npos);
  }
}

TEST_CASE("board: by UIO and by /dev/mem the engine is never driven at once", "[board]") {
  OnBoard on;
  on.set("uio", "2");
  const mode_t mode = GENERATE(0660, 0640);  // /dev/mem has the second
  REQUIRE(chmod((folder() + "/uio1").c_str(), mode) == 0);
  const auto make = [&](bool uio) {
    BackendOptions options = on.options;
    options.mmio_device = uio ? BackendOptions::MmioDevice::uio : BackendOptions::MmioDevice::devmem;
    options.mmio_uio = "uio1";
    options.mmio_address = 0x01c15000;
    return make_mmio_backend(on.process, options);
  };
  const bool uio_first = GENERATE(true, false);
  const auto first = make(uio_first);
  const auto second = make(!uio_first);
  std::mt19937_64 random = seeded(45);
  Case one(random, 640);
  CHECK(served(*first, one));
  Case other(random, 640);
  if (mode != 0640) {
    CHECK(once(*second, other).outcome == Outcome::unavailable);
    CHECK(on.process.log().find("the lock file has not the owner, mode and size") != std::string::npos);
    return;
  }
  // Devices of one owner and mode have one lock: who holds it keeps both away.
  CHECK(served(*second, other));
  std::fstream file(OnBoard::lock_path(), std::ios::binary | std::ios::in | std::ios::out);
  const auto hold = [&](std::uint64_t holder) {
    file.seekp(0);
    file.write(reinterpret_cast<const char*>(&holder), sizeof holder);
    file.flush();
  };
  hold(std::uint64_t{1} << 32 | 5);
  Case held(random, 640);
  CHECK(once(*first, held).outcome == Outcome::busy);
  CHECK(once(*second, held).outcome == Outcome::busy);
  hold(0);
}

TEST_CASE("board: an algorithm that fails its known-answer test is declined, the others stay", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(43);
  for (const CipherSpec& spec : cipher_specs) {
    if (spec.key_bytes == 24) continue;
    Case test(random, 640, spec);
    on.set("fault", "wrong-data");
    CHECK(once(*backend, test).outcome == Outcome::unsupported);
    CHECK(test.right(0));
    on.set("fault", "none");
    CHECK(once(*backend, test).outcome == Outcome::unsupported);
    CHECK(test.right(0));
  }
  CHECK(on.process.log().find("mmio is not used for AES-128-CBC: the engine fails") != std::string::npos);
  CHECK(on.process.log().find("AES-192") == std::string::npos);
  for (const CipherSpec& spec : cipher_specs) {
    if (spec.key_bytes != 24) continue;
    Case test(random, 640, spec);
    CHECK(served(*backend, test));
  }
}

TEST_CASE("board: the known-answer test is each process's own, and repeated after a fault", "[board][fork]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(44);
  Case warm(random, 64, aes_128_cbc);
  REQUIRE(served(*backend, warm));
  const pid_t child = fork();
  if (child == 0) {
    on.set("fault", "wrong-data");
    Case test(random, 64, aes_128_cbc);
    _exit(once(*backend, test).outcome == Outcome::unsupported && test.right(0) ? 0 : 1);
  }
  REQUIRE(exit_status(child) == 0);
  on.set("fault", "stall");
  Case broken(random, 64, aes_128_cbc);
  REQUIRE(once(*backend, broken).outcome == Outcome::failed);
  on.set("fault", "wrong-data");
  Case wrong(random, 64, aes_128_cbc);
  CHECK(once(*backend, wrong).outcome == Outcome::unsupported);
  CHECK(wrong.right(0));
}

TEST_CASE("board: faults of the engine", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(20);
  Case warm(random, 64);
  REQUIRE(served(*backend, warm));
  const std::string kind = GENERATE("stall", "overcount", "zeros", "ones");
  for (int number = 0; number < 12; ++number) {
    Case test(random, 16 * (1 + up_to(random, 60)));
    INFO(kind << " " << number);
    on.set("fault", (kind + ":" + std::to_string(up_to(random, 10 + test.size / 3))).c_str());
    const Result result = once(*backend, test);
    CHECK((result.outcome == Outcome::failed || result.outcome == Outcome::unavailable ||
           result.done == test.size));
    REQUIRE(test.right(result.done));
    // Whoever comes next finds an engine that does not answer, or has recovered.
    Case during(random, 64);
    const Result next = once(*backend, during);
    CHECK(next.outcome != Outcome::served);
    REQUIRE(during.right(next.done));
    on.set("fault", "none");
    Case after(random, 64);
    REQUIRE(served(*backend, after));
  }
}

TEST_CASE("board: a fault leaves no key in the engine, though its context lives", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(45);
  Case warm(random, 64, aes_128_cbc);
  KeySlot slot;
  REQUIRE(backend->crypt(slot, warm.request()).outcome == Outcome::served);
  on.set("fault", "stall");
  Case test(random, 64, aes_128_cbc);
  REQUIRE(backend->crypt(slot, test.request()).outcome == Outcome::failed);
  CHECK(on.keys_are_zero());
  CHECK(on.state_is_zero());
  on.set("fault", "none");
  backend->release(slot);
}

TEST_CASE("board: faults of the engine in a digest", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(28);
  AbsorbCase warm(random, 64);
  REQUIRE(absorbed(*backend, warm));
  const std::string kind = GENERATE("stall", "overcount", "zeros", "ones");
  for (int number = 0; number < 12; ++number) {
    AbsorbCase test(random, 64 * (1 + up_to(random, 20)));
    INFO(kind << " " << number);
    on.set("fault", (kind + ":" + std::to_string(up_to(random, 20 + test.size / 4))).c_str());
    const Result result = backend->absorb(test.request());
    CHECK((result.outcome == Outcome::failed || result.outcome == Outcome::unavailable ||
           result.done == test.size));
    REQUIRE(test.right(result.done));
    AbsorbCase during(random, 128);
    const Result next = backend->absorb(during.request());
    CHECK(next.outcome != Outcome::served);
    REQUIRE(during.right(next.done));
    on.set("fault", "none");
    AbsorbCase after(random, 64);
    REQUIRE(absorbed(*backend, after));
  }
}

TEST_CASE("board: the lock file", "[board]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(21);
  Case test(random, 64);
  const fs::path path = OnBoard::lock_path();
  const std::string content(4096, '\0');
  const auto plant = [&](mode_t mode) {
    OnBoard::write("sunxi-1c15000.lock", content);
    REQUIRE(chmod(path.c_str(), mode) == 0);
  };

  SECTION("of a maker that died before it was complete is completed") {
    plant(0);
    CHECK(served(*backend, test));
  }
  SECTION("is made with the owner and mode of the device") {
    const mode_t mode = GENERATE(0600U, 0640U, 0660U);
    REQUIRE(chmod((folder() + "/mem").c_str(), mode) == 0);
    const uid_t owner = geteuid() == 0 ? 1234 : geteuid();
    REQUIRE(chown((folder() + "/mem").c_str(), owner, static_cast<gid_t>(-1)) == 0);
    const mode_t mask = umask(0);
    REQUIRE(served(*backend, test));
    umask(mask);
    struct stat status {};
    REQUIRE(lstat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == mode);
    CHECK(status.st_uid == owner);
    CHECK(status.st_size == 4096);
    CHECK(status.st_blocks > 0);  // a hole would be a fault where /run is full
    REQUIRE(chown((folder() + "/mem").c_str(), geteuid(), static_cast<gid_t>(-1)) == 0);
  }
  SECTION("is not made where files may not grow") {
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit none{0, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
    const bool was_served = served(*backend, test);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(!was_served);
    CHECK(on.process.log().find("ulimit -f") != std::string::npos);
  }
  SECTION("is given memory where another has made it with a hole") {
    plant(0640);
    REQUIRE(truncate(path.c_str(), 0) == 0);
    REQUIRE(truncate(path.c_str(), 4096) == 0);
    REQUIRE(served(*backend, test));
    struct stat status {};
    REQUIRE(lstat(path.c_str(), &status) == 0);
    CHECK(status.st_blocks > 0);
  }
  SECTION("is used as it is if it is right") {
    plant(0640);
    REQUIRE(served(*backend, test));
  }
  SECTION("is completed if its maker died over it") {
    OnBoard::write("sunxi-1c15000.lock", "");
    REQUIRE(chmod(path.c_str(), 0) == 0);
    if (geteuid() == 0) REQUIRE(served(*backend, test));
  }
  SECTION("keeps us away if it is not right") {
    std::string expected;
    SECTION("mode") {
      plant(0666);
      expected = "owner, mode and size";
    }
    SECTION("owner") {
      plant(0640);
      if (geteuid() != 0) return;
      REQUIRE(chown(path.c_str(), 1234, static_cast<gid_t>(-1)) == 0);
      expected = "owner, mode and size";
    }
    SECTION("group") {
      plant(0640);
      if (geteuid() != 0) return;
      REQUIRE(chown(path.c_str(), static_cast<uid_t>(-1), 1234) == 0);
      expected = "owner, mode and size";
    }
    SECTION("size") {
      OnBoard::write("sunxi-1c15000.lock", content + "x");
      REQUIRE(chmod(path.c_str(), 0640) == 0);
      expected = "owner, mode and size";
    }
    SECTION("symbolic link") {
      OnBoard::write("other", content);
      REQUIRE(chmod((folder() + "/other").c_str(), 0640) == 0);
      fs::create_symlink(folder() + "/other", path);
      expected = "symbolic link";
    }
    SECTION("dangling symbolic link") {
      fs::create_symlink(folder() + "/nothing", path);
      expected = "symbolic link";
    }
    SECTION("hard link") {
      plant(0640);
      fs::remove(folder() + "/other");
      fs::create_hard_link(path, folder() + "/other");
      expected = "one name";
    }
    SECTION("FIFO") {
      REQUIRE(mkfifo(path.c_str(), 0640) == 0);
      expected = "one name";
    }
    CHECK(once(*backend, test).outcome == Outcome::unavailable);
    CHECK(test.right(0));
    INFO(on.process.log());
    CHECK(on.process.log().find(expected) != std::string::npos);
    CHECK_FALSE(fs::exists(folder() + "/nothing"));
    fs::remove(path);
    CHECK(served(*backend, test));
  }
  fs::remove(folder() + "/other");
  fs::remove(path);
}

TEST_CASE("board: a holder that was killed in the middle of a request", "[board][fork]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(22);
  for (int number = 0; number < 10; ++number) {
    const std::uint64_t before = on.counters().blocks;
    const pid_t child = fork();
    if (child == 0) {
      for (;;) {
        Case test(random, 4096);
        if (!served_in_the_end(*backend, test)) _exit(1);
      }
    }
    REQUIRE(child > 0);
    while (on.counters().blocks < before + 50 + 7 * static_cast<std::uint64_t>(number)) sched_yield();
    kill(child, SIGKILL);
    siginfo_t info;
    REQUIRE(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
    Case test(random, 256);
    const bool unburied = number % 2 == 0;
    if (!unburied) CHECK(exit_status(child) == 128 + SIGKILL);
    CHECK(served_in_the_end(*backend, test));
    if (unburied) CHECK(exit_status(child) == 128 + SIGKILL);
  }
}

TEST_CASE("board: a forked child goes on, and so does its parent", "[board][fork]") {
  OnBoard on;
  const auto backend = on.make();
  std::mt19937_64 random = seeded(23);
  Case warm(random, 64);
  if (GENERATE(true, false)) REQUIRE(served(*backend, warm));
  const pid_t child = fork();
  if (child == 0) {
    for (int number = 0; number < 20; ++number) {
      Case test(random);
      AbsorbCase digest(random);
      if (!served_in_the_end(*backend, test) || !absorbed_in_the_end(*backend, digest)) _exit(1);
    }
    _exit(0);
  }
  REQUIRE(child > 0);
  bool right = true;
  for (int number = 0; number < 20; ++number) {
    Case test(random);
    AbsorbCase digest(random);
    right = right && served_in_the_end(*backend, test) && absorbed_in_the_end(*backend, digest);
  }
  CHECK(right);
  CHECK(exit_status(child) == 0);
}

TEST_CASE("board: processes of their own share the engine", "[board][fork]") {
  OnBoard on;
  std::array<pid_t, 4> children{};
  std::uint64_t seed = 100;
  for (pid_t& child : children) {
    ++seed;
    child = fork();
    if (child == 0) {
      TestProcess process;
      const auto backend = make_mmio_backend(process, {});
      std::mt19937_64 random = seeded(seed);
      for (int number = 0; number < 15;) {
        Case test(random);
        // All may be making the lock file at once.
        if (once(*backend, test).outcome == Outcome::unavailable) continue;
        Case next(random);
        if (!served_in_the_end(*backend, next)) _exit(1);
        ++number;
      }
      _exit(0);
    }
  }
  for (const pid_t child : children) CHECK(exit_status(child) == 0);
}

TEST_CASE("board: threads share the engine", "[board][start_time]") {
  OnBoard on;
  const auto backend = on.make();
  std::atomic<int> wrong{0};
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 64; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 random = seeded(200 + number);
      for (int turn = 0; turn < 2; ++turn) {
        Case test(random, 16 * (1 + up_to(random, 40)));
        served_in_the_end(*backend, test) ? ++right : ++wrong;
        AbsorbCase digest(random, 64 * (1 + up_to(random, 10)));
        if (!absorbed_in_the_end(*backend, digest)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(right == 128);
}

TEST_CASE("board: the generator gives different bytes at each step, and leaves nothing", "[board]") {
  OnBoard board;
  const std::unique_ptr<EnginePrng> generator = make_mmio_prng(board.process, board.options);
  REQUIRE(generator);
  std::array<std::array<std::uint8_t, prng_step_bytes>, 2> out{};
  std::array<std::uint8_t, prng_seed_bytes> seed{};
  for (auto& one : out) {
    ++seed[0];
    REQUIRE(generator->step(seed, one) == Outcome::served);
  }
  CHECK(out[0] != out[1]);
  CHECK(board.keys_are_zero());
  CHECK(board.engine_is_off());

  board.set("gated", "1");
  CHECK(generator->step(seed, out[0]) == Outcome::failed);
  CHECK(generator->step(seed, out[0]) == Outcome::served);  // switched on again
  board.set("bound", "sun4i-ss");
  board.process.ahead += 2'000'000'000;
  CHECK(generator->step(seed, out[0]) == Outcome::unavailable);
}

// Both objects map the lock, each for itself; the thread sanitizer does not know that it is the same one.
#ifndef __SANITIZE_THREAD__
TEST_CASE("board: the generator and requests of several threads", "[board][start_time]") {
  OnBoard board;
  const auto backend = board.make();
  const std::unique_ptr<EnginePrng> generator = make_mmio_prng(board.process, board.options);
  std::atomic<int> wrong{0};
  std::atomic<int> steps{0};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 random = seeded(100 + number);
      for (int turn = 0; turn < 32;) {
        std::array<std::uint8_t, prng_seed_bytes> seed{};
        std::array<std::uint8_t, prng_step_bytes> out{};
        if (number % 2 == 0) {
          const Outcome outcome = generator->step(seed, out);
          if (outcome != Outcome::served && outcome != Outcome::busy) ++wrong;
          if (outcome == Outcome::served) ++steps;
          // On a busy machine the others may have the engine each time.
          if (outcome != Outcome::busy) ++turn;
        } else {
          Case test(random);
          const Result result = once(*backend, test);
          if (result.outcome != Outcome::served && result.outcome != Outcome::busy) ++wrong;
          if (!test.right(result.done)) ++wrong;
          ++turn;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(steps == 64);
}
#endif

TEST_CASE("board: the generator is off where the engine is", "[board]") {
  OnBoard board;
  board.options.mmio_device = BackendOptions::MmioDevice::off;
  std::array<std::uint8_t, prng_step_bytes> out{};
  const std::array<std::uint8_t, prng_seed_bytes> seed{};
  CHECK(make_mmio_prng(board.process, board.options)->step(seed, out) == Outcome::unsupported);
}
