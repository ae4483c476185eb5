// SPDX-License-Identifier: Apache-2.0
// SUNXI-RAND against the default provider's CTR-DRBG and SUNXI-SEED against its SEED-SRC, call by call; and
// what a chain of both does over fork, in threads, in a sandbox and without rights.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/evp.h"

namespace {
std::atomic<std::time_t> clock_shows{0};  // 0: what the machine's does
}

// libcrypto's, too, as the dynamic linker finds this one first. Its generators look at the time before and
// after they fetch a seed, and reseed once more where a second ends between: two of them can be compared only
// with a clock that stands.
extern "C" [[gnu::visibility("default")]] std::time_t time(std::time_t* out) noexcept {
  std::time_t now = clock_shows.load();
  if (now == 0) {
    timespec machine{};
    clock_gettime(CLOCK_REALTIME, &machine);
    now = machine.tv_sec;
  }
  if (out != nullptr) *out = now;
  return now;
}

namespace sunxi::test {
namespace {

// As long as it lives the clock stands, and goes when it is told to.
class Clock {
 public:
  Clock() { clock_shows = std::time_t{2'000'000'000}; }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  ~Clock() { clock_shows = 0; }
  static void turn(std::time_t seconds) { clock_shows += seconds; }
};

constexpr const char* module_directory = SUNXI_MODULE_DIRECTORY;

using RandPtr = std::unique_ptr<EVP_RAND, Deleter<EVP_RAND_free>>;
using RandContextPtr = std::unique_ptr<EVP_RAND_CTX, Deleter<EVP_RAND_CTX_free>>;

OSSL_PARAM text(const char* key, const char* value) {
  return OSSL_PARAM_construct_utf8_string(key, const_cast<char*>(value), 0);
}

// Our provider and the default one in one library context.
Library both() {
  Library library("sunxi", module_directory);
  REQUIRE(library.add("default"));
  return library;
}

// What libcrypto builds of [random]: seed source, primary, generators of each thread.
Library chain() {
  Library library = both();
  REQUIRE(RAND_set_DRBG_type(library.get(), "SUNXI-RAND", nullptr, nullptr, nullptr) == 1);
  REQUIRE(RAND_set_seed_source_type(library.get(), "SUNXI-SEED", nullptr) == 1);
  return library;
}

RandContextPtr make(const Library& library, const char* name, EVP_RAND_CTX* parent = nullptr) {
  const RandPtr rand(EVP_RAND_fetch(library.get(), name, nullptr));
  if (!rand) return nullptr;
  return RandContextPtr(EVP_RAND_CTX_new(rand.get(), parent));
}

using Output = std::array<unsigned char, 32>;

// A generator with its parents.
struct Family {
  std::vector<RandContextPtr> parents;
  RandContextPtr rand;
};

using Parents = std::function<void(const Library&, Family&, bool ours)>;

Family family(const Library& library, bool ours, const Parents& parents) {
  Family made;
  parents(library, made, ours);
  made.rand = make(library, ours ? "SUNXI-RAND" : "CTR-DRBG",
                   made.parents.empty() ? nullptr : made.parents.back().get());
  return made;
}

bool start(EVP_RAND_CTX* context) {
  const std::array cipher{text(OSSL_DRBG_PARAM_CIPHER, "AES-256-CTR"), OSSL_PARAM_construct_end()};
  return EVP_RAND_instantiate(context, 0, 0, nullptr, 0, cipher.data()) == 1;
}

void no_parent(const Library&, Family&, bool) {}
void seed_source(const Library& library, Family& made, bool ours) {
  made.parents.push_back(make(library, ours ? "SUNXI-SEED" : "SEED-SRC"));
  REQUIRE(EVP_RAND_instantiate(made.parents.back().get(), 0, 0, nullptr, 0, nullptr) == 1);
}
void foreign_seed_source(const Library& library, Family& made, bool) {
  seed_source(library, made, false);
}
void idle_seed_source(const Library& library, Family& made, bool ours) {
  made.parents.push_back(make(library, ours ? "SUNXI-SEED" : "SEED-SRC"));
}
void idle_foreign_seed_source(const Library& library, Family& made, bool) {
  made.parents.push_back(make(library, "SEED-SRC"));
}
void primary(const Library& library, Family& made, bool ours) {
  seed_source(library, made, ours);
  made.parents.push_back(make(library, ours ? "SUNXI-RAND" : "CTR-DRBG", made.parents.back().get()));
  REQUIRE(EVP_RAND_enable_locking(made.parents.back().get()) == 1);
  REQUIRE(start(made.parents.back().get()));
}
void foreign_primary(const Library& library, Family& made, bool) {
  primary(library, made, false);
}
void test_source(const Library& library, Family& made, unsigned int strength) {
  made.parents.push_back(make(library, "TEST-RAND"));
  static std::vector<unsigned char> bytes(1 << 16, 7);
  const std::array params{
      OSSL_PARAM_construct_uint(OSSL_RAND_PARAM_STRENGTH, &strength),
      OSSL_PARAM_construct_octet_string(OSSL_RAND_PARAM_TEST_ENTROPY, bytes.data(), bytes.size()),
      OSSL_PARAM_construct_octet_string(OSSL_RAND_PARAM_TEST_NONCE, bytes.data(), 64),
      OSSL_PARAM_construct_end()};
  REQUIRE(EVP_RAND_instantiate(made.parents.back().get(), strength, 0, nullptr, 0, params.data()) == 1);
}
void weak_source(const Library& library, Family& made, bool) {
  test_source(library, made, 100);
}

// Everything that a generator says of itself.
std::string view(EVP_RAND_CTX* context) {
  std::string all = "state " + std::to_string(EVP_RAND_get_state(context)) + " strength " +
                    std::to_string(EVP_RAND_get_strength(context));
  for (const char* key :
       {OSSL_RAND_PARAM_MAX_REQUEST, OSSL_DRBG_PARAM_RESEED_COUNTER, OSSL_DRBG_PARAM_RESEED_REQUESTS,
        OSSL_DRBG_PARAM_RESEED_TIME_INTERVAL, OSSL_DRBG_PARAM_MIN_ENTROPYLEN, OSSL_DRBG_PARAM_MAX_ENTROPYLEN,
        OSSL_DRBG_PARAM_MIN_NONCELEN, OSSL_DRBG_PARAM_MAX_NONCELEN, OSSL_DRBG_PARAM_MAX_PERSLEN,
        OSSL_DRBG_PARAM_MAX_ADINLEN, OSSL_DRBG_PARAM_USE_DF, OSSL_DRBG_PARAM_RESEED_TIME}) {
    std::int64_t value = -1;
    std::array params{OSSL_PARAM_construct_int64(key, &value), OSSL_PARAM_construct_end()};
    all +=
        std::string(" ") + key + (EVP_RAND_CTX_get_params(context, params.data()) == 1 ? " " : " refused ");
    all += std::to_string(value);
  }
  std::array<char, 64> cipher{};
  std::array params{OSSL_PARAM_construct_utf8_string(OSSL_DRBG_PARAM_CIPHER, cipher.data(), cipher.size()),
                    OSSL_PARAM_construct_end()};
  all += EVP_RAND_CTX_get_params(context, params.data()) == 1 ? " cipher " : " cipher refused ";
  return all + cipher.data();
}

// One random call; what it returned, as far as it is no random number.
std::string call(EVP_RAND_CTX* context, std::mt19937_64& random) {
  const auto one_of = [&](auto... values) {
    const std::array all{values...};
    return all[random() % all.size()];
  };
  static std::vector<unsigned char> buffer(1 << 17);
  std::vector<unsigned char> input(one_of(0U, 1U, 16U, 31U, 32U, 48U, 64U, 1000U), 5);
  unsigned char* const given = one_of(true, false) ? input.data() : nullptr;
  const std::size_t given_bytes = given == nullptr ? 0 : input.size();
  const unsigned int strength = one_of(0U, 0U, 128U, 256U, 257U);
  const int resistance = one_of(0, 0, 0, 1);
  switch (random() % 12) {
    case 0: {
      const std::array cipher{text(OSSL_DRBG_PARAM_CIPHER, one_of("AES-256-CTR", "AES-256-CTR", "AES-128-CTR",
                                                                  "AES-192-CTR", "AES-256-CBC", "nonsense")),
                              OSSL_PARAM_construct_end()};
      const bool named = one_of(true, false);
      return "instantiate " +
             std::to_string(EVP_RAND_instantiate(context, strength, resistance, given, given_bytes,
                                                 named ? cipher.data() : nullptr));
    }
    case 1:
      return "uninstantiate " + std::to_string(EVP_RAND_uninstantiate(context));
    case 2:
    case 3:
    case 4:
    case 5: {
      const std::size_t bytes = one_of(0U, 1U, 16U, 100U, 65536U, 65537U, 100000U);
      return "generate " + std::to_string(bytes) + ": " +
             std::to_string(
                 EVP_RAND_generate(context, buffer.data(), bytes, strength, resistance, given, given_bytes));
    }
    case 6: {
      std::vector<unsigned char> entropy(one_of(0U, 16U, 32U, 48U, 100U), 9);
      const bool with = one_of(true, false);
      return "reseed " + std::to_string(with ? entropy.size() : 0) + ": " +
             std::to_string(EVP_RAND_reseed(context, resistance, with ? entropy.data() : nullptr,
                                            with ? entropy.size() : 0, given, given_bytes));
    }
    case 7: {
      const int got = EVP_RAND_nonce(context, buffer.data(), one_of(0U, 16U, 32U, 100U));
      return "nonce " + std::to_string(got);
    }
    case 8: {
      unsigned int requests = one_of(0U, 1U, 2U, 5U, 256U);
      const std::array params{OSSL_PARAM_construct_uint(OSSL_DRBG_PARAM_RESEED_REQUESTS, &requests),
                              OSSL_PARAM_construct_end()};
      return "reseed_requests " + std::to_string(EVP_RAND_CTX_set_params(context, params.data()));
    }
    case 9: {
      std::int64_t interval = one_of(0, 3600, 100000);
      int df = one_of(0, 1, 1, 1);
      const std::array params{OSSL_PARAM_construct_int64(OSSL_DRBG_PARAM_RESEED_TIME_INTERVAL, &interval),
                              OSSL_PARAM_construct_int(OSSL_DRBG_PARAM_USE_DF, &df),
                              OSSL_PARAM_construct_end()};
      return "set " + std::to_string(EVP_RAND_CTX_set_params(context, params.data()));
    }
    case 10: {
      const std::array params{text(OSSL_DRBG_PARAM_CIPHER, one_of("AES-256-CTR", "AES-128-CTR", "nonsense")),
                              text(OSSL_DRBG_PARAM_PROPERTIES, one_of("", "provider=default")),
                              OSSL_PARAM_construct_end()};
      return "cipher " + std::to_string(EVP_RAND_CTX_set_params(context, params.data()));
    }
    default:
      return "zeroised " + std::to_string(EVP_RAND_verify_zeroization(context)) + " locking " +
             std::to_string(EVP_RAND_enable_locking(context));
  }
}

// libcrypto's errors without file names, lines and threads.
std::string reasons() {
  std::string all;
  while (const unsigned long code = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(code);
    all += std::string(reason == nullptr ? "?" : reason) + "; ";
  }
  return all;
}

std::size_t cases() {
  const char* given = std::getenv("SUNXI_TEST_CASES");
  return given == nullptr ? 150 : static_cast<std::size_t>(std::atoi(given));
}

bool idle_source_gives_seeds(const Library& library) {
  const Family one = family(library, false, idle_seed_source);
  const bool gives = start(one.rand.get());
  static_cast<void>(errors());
  return gives;
}

TEST_CASE("the life of a generator, call by call, is the default provider's") {
  const Library ours = both();
  const Library reference("default");
  const Clock clock;
  struct Kind {
    const char* name;
    void (*parents)(const Library&, Family&, bool);
  };
  for (const Kind& kind :
       {Kind{"no parent", no_parent}, Kind{"seed source", seed_source},
        Kind{"another seed source", foreign_seed_source}, Kind{"idle seed source", idle_seed_source},
        Kind{"another idle seed source", idle_foreign_seed_source}, Kind{"primary", primary},
        Kind{"another primary", foreign_primary}}) {
    // SEED-SRC of later releases, such as 3.6, gives seeds without having been instantiated. Ours does not.
    if (kind.parents == &idle_seed_source && idle_source_gives_seeds(reference)) continue;
    for (std::size_t i = 0; i < cases(); ++i) {
      const Family a = family(ours, true, kind.parents);
      const Family b = family(reference, false, kind.parents);
      REQUIRE(a.rand);
      REQUIRE(b.rand);
      // Before a cipher is named: the same as well.
      REQUIRE(view(a.rand.get()) == view(b.rand.get()));
      const std::array cipher{text(OSSL_DRBG_PARAM_CIPHER, "AES-256-CTR"), OSSL_PARAM_construct_end()};
      REQUIRE(EVP_RAND_CTX_set_params(a.rand.get(), cipher.data()) == 1);
      REQUIRE(EVP_RAND_CTX_set_params(b.rand.get(), cipher.data()) == 1);
      std::mt19937_64 random_a(i);
      std::mt19937_64 random_b(i);
      std::mt19937_64 times(i);
      for (int step = 0; step < 30; ++step) {
        constexpr std::array<std::time_t, 8> turns{0, 0, 0, 0, 1, 500, 4000, -10};
        Clock::turn(turns[times() % turns.size()]);
        const std::string done_a = call(a.rand.get(), random_a);
        const std::string why_a = reasons();
        const std::string done_b = call(b.rand.get(), random_b);
        const std::string why_b = reasons();
        INFO(kind.name << ", case " << i << ", step " << step << ": " << done_b << " " << why_b);
        REQUIRE(done_a == done_b);
        REQUIRE(why_a.empty() == why_b.empty());
        REQUIRE(view(a.rand.get()) == view(b.rand.get()));
        if (!a.parents.empty())
          REQUIRE(EVP_RAND_get_state(a.parents.back().get()) == EVP_RAND_get_state(b.parents.back().get()));
      }
    }
  }
}

TEST_CASE("a seed is renewed when its time is over, and when the clock was put back") {
  const Library ours = both();
  const Library reference("default");
  const Clock clock;
  for (const bool is_ours : {true, false}) {
    INFO((is_ours ? "ours" : "reference"));
    const Family one = family(is_ours ? ours : reference, is_ours, seed_source);
    const auto seeded_at = [&] {
      std::int64_t interval = 0;
      std::int64_t value = 0;
      std::array params{OSSL_PARAM_construct_int64(OSSL_DRBG_PARAM_RESEED_TIME_INTERVAL, &interval),
                        OSSL_PARAM_construct_int64(OSSL_DRBG_PARAM_RESEED_TIME, &value),
                        OSSL_PARAM_construct_end()};
      Output output{};
      REQUIRE(EVP_RAND_generate(one.rand.get(), output.data(), output.size(), 0, 0, nullptr, 0) == 1);
      REQUIRE(EVP_RAND_CTX_get_params(one.rand.get(), params.data()) == 1);
      return std::pair{value, interval};
    };
    REQUIRE(start(one.rand.get()));
    const auto [first, interval] = seeded_at();
    REQUIRE(interval > 1);
    CHECK(first == clock_shows.load());
    Clock::turn(static_cast<std::time_t>(interval - 1));
    CHECK(seeded_at().first == first);
    Clock::turn(1);
    CHECK(seeded_at().first == first + interval);
    Clock::turn(-1);
    CHECK(seeded_at().first == first + interval - 1);
  }
}

TEST_CASE("after a cipher that is refused the answers are the default provider's as well") {
  const Library ours = both();
  const Library reference("default");
  const Clock clock;
  int refused = 0;
  for (const char* bad : {"nonsense", "AES-256-CBC", "AES-128-GCM", ""}) {
    for (const bool at_instantiate : {false, true}) {
      for (std::size_t i = 0; i < cases(); ++i) {
        const Family a = family(ours, true, seed_source);
        const Family b = family(reference, false, seed_source);
        const std::array cipher{text(OSSL_DRBG_PARAM_CIPHER, bad), OSSL_PARAM_construct_end()};
        std::array<int, 2> answers{};
        std::array<int, 2> after{};
        for (const int which : {0, 1}) {
          EVP_RAND_CTX* const rand = (which == 0 ? a : b).rand.get();
          answers[which] = at_instantiate ? EVP_RAND_instantiate(rand, 0, 0, nullptr, 0, cipher.data())
                                          : EVP_RAND_CTX_set_params(rand, cipher.data());
          after[which] = EVP_RAND_instantiate(rand, 0, 0, nullptr, 0, nullptr);
        }
        static_cast<void>(errors());
        INFO(bad << (at_instantiate ? " at instantiate" : " before") << ", case " << i);
        REQUIRE(answers[0] == answers[1]);
        REQUIRE(after[0] == after[1]);
        REQUIRE(view(a.rand.get()) == view(b.rand.get()));
        if (answers[1] == 0) ++refused;
        std::mt19937_64 random_a(i);
        std::mt19937_64 random_b(i);
        for (int step = 0; step < 20; ++step) {
          const std::string done_a = call(a.rand.get(), random_a);
          const std::string why_a = reasons();
          const std::string done_b = call(b.rand.get(), random_b);
          const std::string why_b = reasons();
          INFO("step " << step << ": " << done_b << " " << why_b);
          REQUIRE(done_a == done_b);
          REQUIRE(why_a.empty() == why_b.empty());
          REQUIRE(view(a.rand.get()) == view(b.rand.get()));
        }
      }
    }
  }
  CHECK(refused > 0);
}

constexpr std::array about_us{"provider=sunxi",
                              " provider = 'sunxi' ",
                              "?provider=sunxi",
                              "provider!=default",
                              "PROVIDER=sunxi",
                              "?fips=yes,provider=\"sunxi\"",
                              "provider=sunxi,?x.y='a,provider=b'",
                              "-nothing,provider=sunxi"};

TEST_CASE("[random] with properties that name us") {
  for (const char* properties : about_us) {
    INFO(properties);
    const Library library = both();
    REQUIRE(RAND_set_DRBG_type(library.get(), "SUNXI-RAND", properties, nullptr, nullptr) == 1);
    Output output{};
    CHECK(RAND_bytes_ex(library.get(), output.data(), output.size(), 0) == 1);
    CHECK(RAND_priv_bytes_ex(library.get(), output.data(), output.size(), 0) == 1);
    EVP_RAND_CTX* const primary = RAND_get0_primary(library.get());
    REQUIRE(primary != nullptr);
    CHECK(view(primary).find("cipher AES-256-CTR") != std::string::npos);
  }
}

// Sets them at either place: what was answered, twice.
std::string with_properties(const Library& library, const char* name, const char* properties) {
  const std::array params{text(OSSL_DRBG_PARAM_PROPERTIES, properties),
                          text(OSSL_DRBG_PARAM_CIPHER, "AES-192-CTR"), OSSL_PARAM_construct_end()};
  const RandContextPtr set = make(library, name);
  const RandContextPtr given = make(library, name);
  REQUIRE((set && given));
  std::string answers = std::to_string(EVP_RAND_CTX_set_params(set.get(), params.data()));
  answers += std::to_string(EVP_RAND_instantiate(given.get(), 0, 0, nullptr, 0, params.data()));
  static_cast<void>(errors());
  return answers;
}

TEST_CASE("properties about the provider are not asked of the generator's cipher, all others are") {
  const Library ours("sunxi", module_directory);
  const std::string too_long = "provider=sunxi," + std::string(2000, ' ') + "x=1";
  for (const char* name : {"SUNXI-RAND", "CTR-DRBG"}) {
    for (const char* properties : about_us) {
      INFO(name << " " << properties);
      CHECK(with_properties(ours, name, properties) == "11");
    }
    for (const char* properties :
         {"fips=yes", "provider=sunxi,fips=yes", "fips=yes,provider=sunxi", "nothing=1", too_long.c_str()}) {
      INFO(name << " " << properties);
      CHECK(with_properties(ours, name, properties) == "00");
    }
  }
}

TEST_CASE("errors of the core are the core's own") {
  const Library ours = both();
  const Library reference("default");
  const auto errors_of = [](const Library& library, bool own) {
    std::string all;
    const Family one = family(library, own, seed_source);
    std::array<unsigned char, 16> bytes{};
    EVP_RAND_CTX* const rand = one.rand.get();
    const std::array cipher{text(OSSL_DRBG_PARAM_CIPHER, "AES-256-CTR"), OSSL_PARAM_construct_end()};
    EVP_RAND_CTX_set_params(rand, cipher.data());
    EVP_RAND_generate(rand, bytes.data(), bytes.size(), 0, 0, nullptr, 0);
    all += reasons() + "| ";
    start(rand);
    start(rand);
    all += reasons() + "| ";
    EVP_RAND_generate(rand, bytes.data(), bytes.size(), 300, 0, nullptr, 0);
    all += reasons() + "| ";
    EVP_RAND_reseed(rand, 0, bytes.data(), 1, nullptr, 0);
    all += reasons() + "| ";
    return all;
  };
  const std::string expected = errors_of(reference, false);
  CHECK(errors_of(ours, true) == expected);
  CHECK(expected.size() > 40);
}

TEST_CASE("a parent that is too weak is refused, as by the default provider") {
  const Library ours = both();
  const Library reference("default");
  for (const bool own : {true, false}) {
    const Library& library = own ? ours : reference;
    Family made;
    weak_source(library, made, own);
    made.rand = make(library, own ? "SUNXI-RAND" : "CTR-DRBG", made.parents.back().get());
    // Its strength is not compared before it has one of its own.
    CHECK((!made.rand || !start(made.rand.get())));
    static_cast<void>(errors());
  }
}

TEST_CASE("the seed source answers as SEED-SRC does") {
  const Library ours = both();
  const auto story = [&](const char* name) {
    std::string all;
    const auto say = [&](int value) { all += std::to_string(value) + " "; };
    const RandContextPtr seed = make(ours, name);
    std::array<unsigned char, 300> bytes{};
    const auto state = [&] {
      say(EVP_RAND_get_state(seed.get()));
      say(static_cast<int>(EVP_RAND_get_strength(seed.get())));
      std::size_t request = 0;
      std::array params{OSSL_PARAM_construct_size_t(OSSL_RAND_PARAM_MAX_REQUEST, &request),
                        OSSL_PARAM_construct_end()};
      say(EVP_RAND_CTX_get_params(seed.get(), params.data()));
      say(static_cast<int>(request));
      all += "; ";
    };
    state();
    say(EVP_RAND_generate(seed.get(), bytes.data(), 16, 0, 0, nullptr, 0));
    say(EVP_RAND_reseed(seed.get(), 0, nullptr, 0, nullptr, 0));
    for (const unsigned int strength : {0U, 256U, 5000U}) {
      say(EVP_RAND_instantiate(seed.get(), strength, 0, nullptr, 0, nullptr));
      state();
    }
    for (const std::size_t size : {0U, 1U, 16U, 128U, 129U, 300U})
      say(EVP_RAND_generate(seed.get(), bytes.data(), size, 256, 1, bytes.data(), 10));
    say(EVP_RAND_reseed(seed.get(), 1, bytes.data(), 16, nullptr, 0));
    say(EVP_RAND_enable_locking(seed.get()));
    say(EVP_RAND_verify_zeroization(seed.get()));
    say(EVP_RAND_uninstantiate(seed.get()));
    state();
    say(EVP_RAND_generate(seed.get(), bytes.data(), 16, 0, 0, nullptr, 0));
    static_cast<void>(errors());
    say(make(ours, name, seed.get()) == nullptr ? 1 : 0);  // no parent
    all += errors().empty() ? "silent" : "error";
    return all;
  };
  CHECK(story("SUNXI-SEED") == story("SEED-SRC"));
}

TEST_CASE("without a cipher's name the core is AES-256-CTR") {
  const Library ours = both();
  const RandContextPtr rand = make(ours, "SUNXI-RAND");
  REQUIRE(EVP_RAND_instantiate(rand.get(), 256, 0, nullptr, 0, nullptr) == 1);
  CHECK(view(rand.get()).find("strength 256") != std::string::npos);
  CHECK(view(rand.get()).find("cipher AES-256-CTR") != std::string::npos);
}

TEST_CASE("a foreign parent's seeds are mixed in, never taken as they are") {
  const Library ours = both();
  std::array<std::array<unsigned char, 64>, 2> bytes{};
  for (auto& one : bytes) {
    Family made;
    test_source(ours, made, 256);  // gives the same seeds each time
    made.rand = make(ours, "SUNXI-RAND", made.parents.back().get());
    REQUIRE(start(made.rand.get()));
    REQUIRE(EVP_RAND_generate(made.rand.get(), one.data(), one.size(), 256, 0, nullptr, 0) == 1);
  }
  CHECK(bytes[0] != bytes[1]);
}

// A provider of the test's own: a seed source that counts what its children do with it.
struct Counts {
  int enabled = 0;
  int locked = 0;
  int unlocked = 0;
  int seeds = 0;
  int cleared = 0;
  int strengths = 0;
};
Counts counts;
bool counting_fails = false;

void* counting_new(void*, void*, const OSSL_DISPATCH*) {
  static int context;
  return &context;
}
void counting_free(void*) {}
int counting_instantiate(void*, unsigned int, int, const unsigned char*, std::size_t, const OSSL_PARAM*) {
  return 1;
}
int counting_uninstantiate(void*) {
  return 1;
}
int counting_generate(void*, unsigned char*, std::size_t, unsigned int, int, const unsigned char*,
                      std::size_t) {
  return 1;
}
int counting_enable(void*) {
  ++counts.enabled;
  return 1;
}
int counting_lock(void*) {
  ++counts.locked;
  return 1;
}
void counting_unlock(void*) {
  ++counts.unlocked;
}
int counting_params(void*, OSSL_PARAM* params) {
  OSSL_PARAM* found = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_STRENGTH);
  if (found != nullptr) ++counts.strengths;
  if (found != nullptr && OSSL_PARAM_set_uint(found, 256) == 0) return 0;
  found = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_STATE);
  return found == nullptr ? 1 : OSSL_PARAM_set_int(found, EVP_RAND_STATE_READY);
}
std::size_t counting_get_seed(void*, unsigned char** out, int, std::size_t least, std::size_t, int,
                              const unsigned char*, std::size_t) {
  ++counts.seeds;
  if (counting_fails) return 0;  // nobody would free what came with it
  *out = static_cast<unsigned char*>(OPENSSL_zalloc(64));
  return std::max<std::size_t>(least, 48);
}
void counting_clear_seed(void*, unsigned char* seed, std::size_t) {
  ++counts.cleared;
  OPENSSL_free(seed);
}

template <class Function>
OSSL_DISPATCH row(int id, Function* function) {
  return {id, reinterpret_cast<void (*)()>(function)};
}

const OSSL_ALGORITHM* counting_query(void*, int operation, int* no_store) {
  static const std::array calls{row(OSSL_FUNC_RAND_NEWCTX, counting_new),
                                row(OSSL_FUNC_RAND_FREECTX, counting_free),
                                row(OSSL_FUNC_RAND_INSTANTIATE, counting_instantiate),
                                row(OSSL_FUNC_RAND_UNINSTANTIATE, counting_uninstantiate),
                                row(OSSL_FUNC_RAND_GENERATE, counting_generate),
                                row(OSSL_FUNC_RAND_ENABLE_LOCKING, counting_enable),
                                row(OSSL_FUNC_RAND_LOCK, counting_lock),
                                row(OSSL_FUNC_RAND_UNLOCK, counting_unlock),
                                row(OSSL_FUNC_RAND_GET_CTX_PARAMS, counting_params),
                                row(OSSL_FUNC_RAND_GET_SEED, counting_get_seed),
                                row(OSSL_FUNC_RAND_CLEAR_SEED, counting_clear_seed),
                                OSSL_DISPATCH{0, nullptr}};
  static const std::array table{OSSL_ALGORITHM{"COUNTING-SEED", "", calls.data(), nullptr},
                                OSSL_ALGORITHM{nullptr, nullptr, nullptr, nullptr}};
  *no_store = 0;
  return operation == OSSL_OP_RAND ? table.data() : nullptr;
}

int counting_init(const OSSL_CORE_HANDLE* handle, const OSSL_DISPATCH*, const OSSL_DISPATCH** out,
                  void** context) {
  static const std::array calls{row(OSSL_FUNC_PROVIDER_QUERY_OPERATION, counting_query),
                                OSSL_DISPATCH{0, nullptr}};
  *context = const_cast<OSSL_CORE_HANDLE*>(handle);
  *out = calls.data();
  return 1;
}

TEST_CASE("a foreign parent is locked, asked and cleared as by the default provider's generator") {
  Library library = both();
  REQUIRE(OSSL_PROVIDER_add_builtin(library.get(), "counting", counting_init) == 1);
  REQUIRE(library.add("counting"));
  for (const bool fails : {false, true}) {
    counting_fails = fails;
    std::array<Counts, 2> seen{};
    std::array<std::string, 2> told;
    for (const bool ours : {true, false}) {
      counts = {};
      const RandContextPtr parent = make(library, "COUNTING-SEED");
      REQUIRE(EVP_RAND_instantiate(parent.get(), 0, 0, nullptr, 0, nullptr) == 1);
      const RandContextPtr rand = make(library, ours ? "SUNXI-RAND" : "CTR-DRBG", parent.get());
      std::string& tell = told[ours ? 0 : 1];
      tell += std::to_string(EVP_RAND_enable_locking(rand.get()));
      tell += std::to_string(EVP_RAND_enable_locking(rand.get()));
      tell += start(rand.get()) ? "y" : "n";
      Output output{};
      for (const int resistance : {0, 1, 0})
        tell += std::to_string(
            EVP_RAND_generate(rand.get(), output.data(), output.size(), 0, resistance, nullptr, 0));
      tell += std::to_string(EVP_RAND_reseed(rand.get(), 0, nullptr, 0, nullptr, 0));
      CHECK(counts.locked == counts.unlocked);
      CHECK(counts.enabled == 1);
      seen[ours ? 0 : 1] = counts;
      static_cast<void>(errors());
    }
    CHECK(told[0] == told[1]);
    CHECK(told[0].find(fails ? 'n' : 'y') != std::string::npos);
    CHECK(seen[0].seeds == seen[1].seeds);
    CHECK(seen[0].enabled == seen[1].enabled);
    CHECK(seen[0].strengths == seen[1].strengths);
    if (!fails) CHECK(seen[0].cleared == seen[0].seeds);
  }
}

TEST_CASE("what was mixed into a seed can be read") {
  const Library ours = both();
  const RandContextPtr seed = make(ours, "SUNXI-SEED");
  REQUIRE(EVP_RAND_instantiate(seed.get(), 0, 0, nullptr, 0, nullptr) == 1);
  std::array<unsigned char, 32> bytes{};
  REQUIRE(EVP_RAND_generate(seed.get(), bytes.data(), bytes.size(), 0, 0, nullptr, 0) == 1);
  std::array<char, 200> names{};
  std::array params{OSSL_PARAM_construct_utf8_string("sunxi-sources", names.data(), names.size()),
                    OSSL_PARAM_construct_end()};
  REQUIRE(EVP_RAND_CTX_get_params(seed.get(), params.data()) == 1);
  CHECK(std::string(names.data()).starts_with("getrandom"));
}

TEST_CASE("public, private and primary generators are ours, and different") {
  const Library library = chain();
  std::array<unsigned char, 32> a{};
  std::array<unsigned char, 32> b{};
  REQUIRE(RAND_bytes_ex(library.get(), a.data(), a.size(), 0) == 1);
  REQUIRE(RAND_priv_bytes_ex(library.get(), b.data(), b.size(), 0) == 1);
  CHECK(a != b);
  for (EVP_RAND_CTX* one : {RAND_get0_primary(library.get()), RAND_get0_public(library.get()),
                            RAND_get0_private(library.get())}) {
    CHECK(std::string(EVP_RAND_get0_name(EVP_RAND_CTX_get0_rand(one))) == "SUNXI-RAND");
    CHECK(EVP_RAND_get_state(one) == EVP_RAND_STATE_READY);
    CHECK(EVP_RAND_get_strength(one) == 256);
  }
}

// Memory that a child writes into.
class Results {
 public:
  Results()
      : all_(static_cast<Output*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() { munmap(all_, bytes); }
  Output& operator[](std::size_t i) const { return all_[i]; }

 private:
  static constexpr std::size_t bytes = 4096;
  Output* all_;
};

template <class Work>
bool in_child(Work&& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  INFO("status " << status);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool draw(const Library& library, Output& output) {
  return RAND_bytes_ex(library.get(), output.data(), output.size(), 0) == 1;
}

TEST_CASE("parent, child and grandchild never have the same bytes") {
  const Library library = chain();
  const Results results;
  REQUIRE(draw(library, results[0]));
  REQUIRE(in_child([&] {
    return in_child([&] { return draw(library, results[1]) && draw(library, results[2]); }) &&
           draw(library, results[3]) && draw(library, results[4]);
  }));
  REQUIRE(in_child([&] { return draw(library, results[5]) && draw(library, results[6]); }));
  REQUIRE(draw(library, results[7]));
  std::set<Output> all;
  for (std::size_t i = 0; i < 8; ++i) all.insert(results[i]);
  CHECK(all.size() == 8);
}

TEST_CASE("single generators of every kind of parent differ over fork as well") {
  const Library ours = both();
  for (const Parents& parents : {Parents(no_parent), Parents(seed_source), Parents(foreign_seed_source),
                                 Parents(primary), Parents(foreign_primary)}) {
    const Family made = family(ours, true, parents);
    REQUIRE(start(made.rand.get()));
    const Results results;
    const auto generate = [&](std::size_t i) {
      return EVP_RAND_generate(made.rand.get(), results[i].data(), 32, 0, 0, nullptr, 0) == 1;
    };
    REQUIRE(generate(0));
    REQUIRE(in_child([&] { return generate(1); }));
    REQUIRE(generate(2));
    CHECK(results[1] != results[2]);
  }
}

TEST_CASE("a child with its parent's process number has bytes of its own", "[fork]") {
  const Library library = chain();
  const Results results;
  REQUIRE(draw(library, results[0]));
  const pid_t first = fork();
  if (first == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(77);
    _exit(in_child([&] {
      // Number 1 of a namespace, as its child in the next one will be.
      if (!draw(library, results[0]) || unshare(CLONE_NEWPID) != 0) return false;
      return in_child([&] { return getpid() == 1 && draw(library, results[1]); }) && getpid() == 1 &&
             draw(library, results[2]);
    })
              ? 0
              : 1);
  }
  int status = 0;
  waitpid(first, &status, 0);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    WARN("not allowed to make a pid namespace");
    return;
  }
  REQUIRE(WEXITSTATUS(status) == 0);
  CHECK(results[1] != results[2]);
}

TEST_CASE("threads: no two have the same bytes, whether they share a generator or not") {
  const Library library = chain();
  const RandContextPtr shared = make(library, "SUNXI-RAND");
  REQUIRE(EVP_RAND_enable_locking(shared.get()) == 1);
  REQUIRE(start(shared.get()));
  constexpr std::size_t turns = 1000;
  std::array<std::vector<Output>, 8> seen;
  std::vector<std::thread> threads;
  std::atomic<bool> good{true};
  for (auto& mine : seen) {
    threads.emplace_back([&] {
      mine.resize(2 * turns);
      for (std::size_t i = 0; i < turns; ++i) {
        if (!draw(library, mine[2 * i])) good = false;
        Output& output = mine[2 * i + 1];
        if (EVP_RAND_generate(shared.get(), output.data(), output.size(), 0, i % 100 == 0 ? 1 : 0, nullptr,
                              0) != 1)
          good = false;
        if (i % 200 == 0 && EVP_RAND_reseed(shared.get(), 0, nullptr, 0, nullptr, 0) != 1) good = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good);
  std::vector<Output> all;
  for (const auto& mine : seen) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("a fork while other threads draw and reseed") {
  const Library library = chain();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const RandContextPtr seed = make(library, "SUNXI-SEED");
      static_cast<void>(EVP_RAND_instantiate(seed.get(), 0, 0, nullptr, 0, nullptr));
      Output output{};
      while (!stop) EVP_RAND_generate(seed.get(), output.data(), output.size(), 0, 0, nullptr, 0);
    });
  }
  // libcrypto's own locks may be held at the fork, ours are not in the child's way.
  const RandContextPtr seed = make(library, "SUNXI-SEED");
  REQUIRE(EVP_RAND_instantiate(seed.get(), 0, 0, nullptr, 0, nullptr) == 1);
  for (int i = 0; i < 20; ++i) {
    CHECK(in_child([&] {
      Output output{};
      alarm(20);
      return EVP_RAND_generate(seed.get(), output.data(), output.size(), 0, 0, nullptr, 0) == 1;
    }));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// As OpenSSH's filter before authentication: few calls, open and fstat refused, everything else kills.
bool enter_sandbox() {
#define SUNXI_ANSWER(number, answer) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, answer)
#define SUNXI_ALLOW(name) SUNXI_ANSWER(__NR_##name, SECCOMP_RET_ALLOW)
#define SUNXI_REFUSE(name) SUNXI_ANSWER(__NR_##name, SECCOMP_RET_ERRNO | EACCES)
  static const sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      SUNXI_REFUSE(openat),
      SUNXI_REFUSE(fstat),
#ifdef __NR_newfstatat
      SUNXI_REFUSE(newfstatat),
#else
      SUNXI_REFUSE(fstatat64),
#endif
      SUNXI_REFUSE(statx),
#ifdef __NR_open
      SUNXI_REFUSE(open),
      SUNXI_REFUSE(stat),
#endif
      SUNXI_ALLOW(read),
      SUNXI_ALLOW(write),
      SUNXI_ALLOW(close),
      SUNXI_ALLOW(brk),
#ifdef __NR_mmap
      SUNXI_ALLOW(mmap),
#else
      SUNXI_ALLOW(mmap2),
#endif
      SUNXI_ALLOW(munmap),
      SUNXI_ALLOW(mremap),
      SUNXI_ALLOW(mprotect),
      SUNXI_ALLOW(madvise),
      SUNXI_ALLOW(getpid),
      SUNXI_ALLOW(clock_gettime),
      SUNXI_ALLOW(gettimeofday),
      SUNXI_ALLOW(getrandom),
      SUNXI_ALLOW(futex),
      SUNXI_ALLOW(rt_sigprocmask),
      SUNXI_ALLOW(exit),
      SUNXI_ALLOW(exit_group),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
#undef SUNXI_REFUSE
#undef SUNXI_ALLOW
#undef SUNXI_ANSWER
  sock_fprog program{sizeof filter / sizeof filter[0], const_cast<sock_filter*>(filter)};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_CASE("in a sandbox it goes on with getrandom, and no call kills", "[seccomp]") {
  for (const bool used_before : {true, false}) {
    CHECK(in_child([&] {
      const Library library = chain();
      Output output{};
      if (used_before && !draw(library, output)) return false;
      const RandContextPtr seed = make(library, "SUNXI-SEED");
      if (EVP_RAND_instantiate(seed.get(), 0, 0, nullptr, 0, nullptr) != 1) return false;
      if (used_before && EVP_RAND_generate(seed.get(), output.data(), 32, 0, 0, nullptr, 0) != 1)
        return false;
      if (!enter_sandbox()) return false;
      bool good = true;
      for (int i = 0; i < 5; ++i) {
        good = good && draw(library, output);
        good = good && EVP_RAND_generate(seed.get(), output.data(), 32, 0, 0, nullptr, 0) == 1;
        good = good && EVP_RAND_reseed(RAND_get0_primary(library.get()), 1, nullptr, 0, nullptr, 0) == 1;
      }
      // Nothing is torn down: a sanitizer's own calls would kill.
      syscall(SYS_exit_group, good ? 0 : 1);
      return good;
    }));
  }
}

TEST_CASE("without rights: the device cannot be opened, and seeds go on") {
  if (getuid() != 0) return;
  CHECK(in_child([] {
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) return false;
    const Library library = chain();
    Output output{};
    return draw(library, output);
  }));
  CHECK(in_child([] {
    const Library library = chain();
    Output output{};
    if (!draw(library, output)) return false;
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) return false;
    return draw(library, output) &&
           EVP_RAND_reseed(RAND_get0_primary(library.get()), 1, nullptr, 0, nullptr, 0) == 1;
  }));
}

}  // namespace
}  // namespace sunxi::test
