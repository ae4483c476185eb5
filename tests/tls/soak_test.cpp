// SPDX-License-Identifier: Apache-2.0
// Many handshakes, eight at a time, with sunxi preferred for every digest and cipher in them: descriptors and
// memory stay what they were.
//
// Environment: SUNXI_TEST_HANDSHAKES, how many (default: 1000).
#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/tls/handshake.h"

namespace sunxi::test {
namespace {

constexpr unsigned at_once = 8;

std::size_t descriptors() {
  std::size_t count = 0;
  DIR* open = opendir("/proc/self/fd");
  while (readdir(open) != nullptr) ++count;
  closedir(open);
  return count;
}

std::size_t resident_bytes() {
  std::size_t all = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// 0 under a sanitizer, which has an allocator of its own (and finds leaks itself).
std::size_t allocated_bytes() {
  return mallinfo2().uordblks;
}

unsigned wanted() {
  const char* text = std::getenv("SUNXI_TEST_HANDSHAKES");
  return text == nullptr ? 1000 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

TEST_CASE("handshakes, eight at a time, leave descriptors and memory as they were") {
  const Identity identity = make_identities()[1];
  const PreferringLibrary library(SUNXI_MODULE_DIRECTORY);
  const std::array kinds{Handshakes(library, TLS1_3_VERSION, "", identity),
                         Handshakes(library, TLS1_2_VERSION, "ECDHE-ECDSA-AES128-SHA256", identity),
                         Handshakes(library, TLS1_2_VERSION, "ECDHE-ECDSA-AES256-SHA384", identity)};
  // Threads, all of which are gone afterwards.
  const auto run = [&](unsigned count) {
    std::atomic<unsigned> started{0}, failed{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < at_once; ++i) {
      threads.emplace_back([&] {
        for (unsigned number = started++; number < count; number = started++) {
          if (!kinds[number % kinds.size()].run(number % 5 == 0 ? 20'000 : 100)) ++failed;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return failed.load();
  };
  const unsigned count = wanted();
  REQUIRE(run(count / 4) == 0);
  malloc_trim(0);
  const std::size_t open = descriptors();
  const std::size_t allocated = allocated_bytes();
  const std::size_t resident = resident_bytes();
  const std::uint64_t requests = library.requests("software");
  REQUIRE(run(count) == 0);
  malloc_trim(0);
  INFO("allocated " << allocated << " -> " << allocated_bytes() << ", resident " << resident << " -> "
                    << resident_bytes() << ", requests in software "
                    << library.requests("software") - requests);
  CHECK(descriptors() == open);
  // Less than 50 bytes for a handshake: no object of anybody's fits in.
  CHECK(allocated_bytes() < allocated + 50UL * count);
  if (allocated != 0) CHECK(resident_bytes() < resident + (4UL << 20U));
  // Our digests carry a handshake: some 140 updates of a client of TLS 1.3 alone.
  CHECK(library.requests("software") - requests > 100UL * count);
}

}  // namespace
}  // namespace sunxi::test
