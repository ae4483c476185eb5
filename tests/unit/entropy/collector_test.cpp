// SPDX-License-Identifier: Apache-2.0
// The collector: start-up test, drop, one report, retry with a growing pause, bounds of time, threads.
#include "backends/entropy/collector.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace sunxi::entropy {
namespace {

class Clock final : public Process {
 public:
  [[nodiscard]] std::uint64_t now() const noexcept override { return time; }
  std::uint64_t time = 1'000'000'000;
  std::string log_text;

 protected:
  void write_line(const char* line, std::size_t length) noexcept override { log_text.append(line, length); }
};

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

// What the test makes it.
class Scripted final : public Source {
 public:
  using Script = std::function<ReadResult(std::span<std::uint8_t>, std::uint64_t)>;
  explicit Scripted(Script script, std::uint64_t* reads = nullptr)
      : script_(std::move(script)), reads_(reads) {}
  [[nodiscard]] const char* name() const noexcept override { return "scripted"; }
  [[nodiscard]] ReadResult read(std::span<std::uint8_t> out, std::uint64_t deadline) noexcept override {
    if (reads_ != nullptr) ++*reads_;
    return script_(out, deadline);
  }
  void tidy() noexcept override { ++tidied; }

  static inline int tidied = 0;

 private:
  Script script_;
  std::uint64_t* reads_;
};

ReadResult all(std::size_t bytes) {
  return {Read::done, bytes, nullptr, 0};
}

struct Fair {
  std::mt19937_64 random{1};
  ReadResult operator()(std::span<std::uint8_t> out, std::uint64_t) {
    for (auto& byte : out) byte = static_cast<std::uint8_t>(random());
    return all(out.size());
  }
};

std::unique_ptr<Collector> collector_of(Process& process, Scripted::Script script,
                                        std::uint64_t* reads = nullptr, Collector* inherited = nullptr) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<Scripted>(std::move(script), reads));
  return std::make_unique<Collector>(inherited, process, std::move(sources));
}

// Gives so many bytes and then nothing until the time is up.
Scripted::Script drip(std::size_t bytes) {
  return [bytes, left = bytes, fair = Fair{}](std::span<std::uint8_t> out, std::uint64_t deadline) mutable {
    const std::size_t now = std::min(left, out.size());
    static_cast<void>(fair(out.first(now), deadline));
    while (fine_clock() < deadline) std::this_thread::yield();
    left = bytes;
    return all(now);
  };
}

std::size_t gathered(Collector& collector) {
  Collector::Gathered got;
  collector.gather(got);
  return got.size;
}

TEST_CASE("the first 1024 bytes are tested and thrown away") {
  Clock process;
  Fair fair;
  std::vector<std::uint8_t> given;
  const auto collector = collector_of(process, [&](std::span<std::uint8_t> out, std::uint64_t deadline) {
    const ReadResult result = fair(out, deadline);
    given.insert(given.end(), out.begin(), out.end());
    return result;
  });
  Collector::Gathered got;
  collector->gather(got);
  REQUIRE(got.size == bytes_per_source);
  REQUIRE(given.size() == startup_bytes + bytes_per_source);
  CHECK(std::equal(got.bytes.begin(), got.bytes.begin() + bytes_per_source, given.end() - bytes_per_source));
  CHECK(std::string(got.names[0]) == "scripted");
  collector->gather(got);
  CHECK(given.size() == startup_bytes + 2 * bytes_per_source);
  CHECK(std::equal(got.bytes.begin(), got.bytes.begin() + bytes_per_source, given.end() - bytes_per_source));
}

TEST_CASE("the start-up test goes on where it was left, and a slow source is used once it has passed") {
  Clock process;
  Fair fair;
  std::size_t left = 0;  // bytes that the source has at the moment
  const auto collector = collector_of(process, [&](std::span<std::uint8_t> out, std::uint64_t deadline) {
    const std::size_t bytes = std::min(left, out.size());
    static_cast<void>(fair(out.first(bytes), deadline));
    left -= bytes;
    while (bytes < out.size() && fine_clock() < deadline) std::this_thread::yield();
    return all(bytes);
  });
  for (int i = 0; i < 4; ++i) {
    left = 256;
    CHECK(gathered(*collector) == 0);
    process.time += first_rest << i;
  }
  left = bytes_per_source;
  CHECK(gathered(*collector) == bytes_per_source);
}

TEST_CASE("an alarm drops the source, is reported once, and the pauses grow") {
  Clock process;
  std::uint64_t reads = 0;
  bool stuck = true;
  std::size_t asked = 0;
  Fair fair;
  const auto collector = collector_of(
      process,
      [&](std::span<std::uint8_t> out, std::uint64_t deadline) {
        asked = out.size();
        if (!stuck) return fair(out, deadline);
        std::fill(out.begin(), out.end(), std::uint8_t{0xaa});
        return all(out.size());
      },
      &reads);
  std::uint64_t pause = first_rest;
  for (int failure = 0; failure < 12; ++failure) {
    const std::uint64_t before = reads;
    CHECK(gathered(*collector) == 0);
    CHECK(reads == before + 1);
    process.time += pause - 1;
    CHECK(gathered(*collector) == 0);
    CHECK(reads == before + 1);
    process.time += 1;
    pause = std::min(pause * 2, longest_rest);
  }
  CHECK(pause == longest_rest);
  CHECK(lines(process.log_text) == 1);
  CHECK(process.log_text.find("repetition count") != std::string::npos);
  // It has to pass the start-up test again.
  stuck = false;
  CHECK(gathered(*collector) == bytes_per_source);
  CHECK(asked == startup_bytes + bytes_per_source);
  CHECK(gathered(*collector) == bytes_per_source);
  CHECK(asked == bytes_per_source);
  stuck = true;
  CHECK(gathered(*collector) == 0);
  CHECK(lines(process.log_text) == 1);
  process.time += longest_rest;
  stuck = false;
  CHECK(gathered(*collector) == bytes_per_source);
  CHECK(asked == startup_bytes + bytes_per_source);
}

TEST_CASE("a source that fails after good bytes gives none of them") {
  Clock process;
  Fair fair;
  std::size_t good = startup_bytes + bytes_per_source + 10;
  const auto collector = collector_of(process, [&](std::span<std::uint8_t> out, std::uint64_t deadline) {
    static_cast<void>(fair(out, deadline));
    for (auto& byte : out) {
      if (good == 0) {
        byte = 0;
      } else {
        --good;
      }
    }
    return all(out.size());
  });
  CHECK(gathered(*collector) == bytes_per_source);
  Collector::Gathered got;
  got.bytes.fill(1);
  collector->gather(got);
  CHECK(got.size == 0);
  CHECK(got.names[0] == nullptr);
  CHECK(std::all_of(got.bytes.begin(), got.bytes.begin() + bytes_per_source,
                    [](std::uint8_t byte) { return byte == 0; }));
}

TEST_CASE("a source that fails between two reads of one request gives nothing") {
  Clock process;
  // As often as it takes on a machine that is short of time: there is no second read once the time is up.
  std::size_t reads = 0;
  for (int tries = 0; tries < 500 && reads < 2; ++tries) {
    reads = 0;
    const auto collector = collector_of(
        process, [&, fair = Fair{}](std::span<std::uint8_t> out, std::uint64_t deadline) mutable {
          ++reads;
          if (reads == 1) return fair(out.first(startup_bytes + 30), deadline);
          std::fill(out.begin(), out.end(), std::uint8_t{0});
          return all(out.size());
        });
    Collector::Gathered got;
    got.bytes.fill(1);
    collector->gather(got);
    CHECK(got.size == 0);
    CHECK(std::all_of(got.bytes.begin(), got.bytes.begin() + bytes_per_source,
                      [](std::uint8_t byte) { return byte == 0; }));
  }
  CHECK(reads == 2);
}

TEST_CASE("a source that is not there, or is broken, rests and is reported once") {
  for (const Read read : {Read::absent, Read::failed}) {
    Clock process;
    process.set_log_level(LogLevel::info);
    std::uint64_t reads = 0;
    const auto collector = collector_of(
        process,
        [&](std::span<std::uint8_t>, std::uint64_t) {
          return ReadResult{read, 0, "not today", 5};
        },
        &reads);
    for (int i = 0; i < 5; ++i) CHECK(gathered(*collector) == 0);
    CHECK(reads == 1);
    process.time += first_rest;
    CHECK(gathered(*collector) == 0);
    CHECK(reads == 2);
    CHECK(lines(process.log_text) == 1);
    CHECK(process.log_text.find("not today") != std::string::npos);
  }
}

TEST_CASE("a source that says nothing costs the patience once, then a pause") {
  Clock process;
  std::uint64_t reads = 0;
  const auto collector = collector_of(
      process,
      [&](std::span<std::uint8_t>, std::uint64_t deadline) {
        while (fine_clock() < deadline) std::this_thread::yield();
        return all(0);
      },
      &reads);
  for (int i = 0; i < 100; ++i) CHECK(gathered(*collector) == 0);
  CHECK(reads == 1);
}

TEST_CASE(
    "a source that gives too little in its time costs the patience once as well, then a pause that grows") {
  Clock process;
  std::uint64_t reads = 0;
  const auto collector = collector_of(process, drip(10), &reads);
  std::uint64_t pause = first_rest;
  for (std::uint64_t turn = 1; turn < 6; ++turn) {
    for (int i = 0; i < 20; ++i) CHECK(gathered(*collector) == 0);
    CHECK(reads == turn);
    process.time += pause - 1;
    CHECK(gathered(*collector) == 0);
    CHECK(reads == turn);
    process.time += 1;
    pause *= 2;
  }
}

TEST_CASE("a source that was slow once and is good again has a short pause the next time") {
  Clock process;
  bool slow = true;
  std::uint64_t reads = 0;
  const auto collector = collector_of(
      process,
      [&, dripping = drip(10), fair = Fair{}](std::span<std::uint8_t> out, std::uint64_t deadline) mutable {
        return slow ? dripping(out, deadline) : fair(out, deadline);
      },
      &reads);
  for (int i = 0; i < 4; ++i) {
    CHECK(gathered(*collector) == 0);
    process.time += longest_rest;
  }
  slow = false;
  CHECK(gathered(*collector) == bytes_per_source);
  slow = true;
  CHECK(gathered(*collector) == 0);
  slow = false;
  process.time += first_rest - 1;
  CHECK(gathered(*collector) == 0);
  process.time += 1;
  CHECK(gathered(*collector) == bytes_per_source);
}

TEST_CASE("a child begins with the pause that its parent's last try led to, and its children as well") {
  const auto stuck = [](std::span<std::uint8_t> out, std::uint64_t) {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    return all(out.size());
  };
  const auto absent = [](std::span<std::uint8_t>, std::uint64_t) {
    return ReadResult{Read::absent, 0, "not today", 0};
  };
  for (const Scripted::Script& script :
       {drip(0), drip(10), Scripted::Script(stuck), Scripted::Script(absent)}) {
    Clock process;
    process.set_log_level(LogLevel::info);
    const auto parent = collector_of(process, script);
    CHECK(gathered(*parent) == 0);
    process.log_text.clear();
    process.time += longest_rest;  // however long the parent has not tried again
    std::uint64_t reads = 0;
    const auto child = collector_of(process, script, &reads, parent.get());
    const auto grandchild = collector_of(process, script, &reads, child.get());
    process.time += first_rest - 1;
    CHECK(gathered(*child) == 0);
    CHECK(gathered(*grandchild) == 0);
    CHECK(reads == 0);
    process.time += 1;
    CHECK(gathered(*child) == 0);
    CHECK(reads == 1);
    process.time += 2 * first_rest - 1;
    CHECK(gathered(*child) == 0);
    CHECK(reads == 1);
    process.time += 1;
    CHECK(gathered(*child) == 0);
    CHECK(reads == 2);
    CHECK(process.log_text.empty());  // its parent has said it
  }
}

TEST_CASE("a child of a process whose source was good tries at once") {
  Clock process;
  bool slow = true;
  const auto parent = collector_of(process, [&, dripping = drip(0), fair = Fair{}](
                                                std::span<std::uint8_t> out, std::uint64_t deadline) mutable {
    return slow ? dripping(out, deadline) : fair(out, deadline);
  });
  CHECK(gathered(*parent) == 0);
  process.time += first_rest;
  slow = false;
  CHECK(gathered(*parent) == bytes_per_source);
  std::uint64_t reads = 0;
  const auto child = collector_of(process, Fair{}, &reads, parent.get());
  CHECK(gathered(*child) == bytes_per_source);
  CHECK(reads == 1);
}

TEST_CASE("a source that rests is given the occasion to tidy up") {
  Clock process;
  const auto collector = collector_of(process, drip(0));
  CHECK(gathered(*collector) == 0);
  Scripted::tidied = 0;
  CHECK(gathered(*collector) == 0);
  CHECK(Scripted::tidied == 1);
}

TEST_CASE("two sources go on without each other") {
  Clock process;
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<Scripted>([](std::span<std::uint8_t> out, std::uint64_t) {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    return all(out.size());
  }));
  sources.push_back(std::make_unique<Scripted>(Fair{}));
  Collector collector(nullptr, process, std::move(sources));
  Collector::Gathered got;
  collector.gather(got);
  CHECK(got.size == bytes_per_source);
  CHECK(got.names[0] != nullptr);
  CHECK(got.names[1] == nullptr);
}

TEST_CASE("while one thread waits for a source, the others go on without it") {
  Clock process;
  std::atomic<bool> inside{false};
  std::atomic<bool> release{false};
  const auto collector = collector_of(process, [&](std::span<std::uint8_t>, std::uint64_t) {
    inside = true;
    while (!release) std::this_thread::yield();
    return ReadResult{Read::absent, 0, "gone", 0};
  });
  std::thread first([&] { CHECK(gathered(*collector) == 0); });
  while (!inside) std::this_thread::yield();
  CHECK(gathered(*collector) == 0);
  release = true;
  first.join();
}

TEST_CASE("the kernel's bytes are never the same twice") {
  std::array<std::uint8_t, 64> a{};
  std::array<std::uint8_t, 64> b{};
  REQUIRE(kernel_random(a));
  REQUIRE(kernel_random(b));
  CHECK(a != b);
  CHECK(kernel_random({}));
}

}  // namespace
}  // namespace sunxi::entropy
