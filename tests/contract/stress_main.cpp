// SPDX-License-Identifier: Apache-2.0
// Threads, forks and closed descriptors over the module as it is installed, on whatever backend.
//
// stress MODULE-DIRECTORY BACKEND threads|fork|close [ROUNDS]
//
// threads: 64 threads, contexts of their own, keys in common, and digests that are copies of shared ones.
// fork: in the middle of streams and messages, parent and children go on, with threads too. close: every
// descriptor beyond standard error is closed in the middle of streams and its number taken by pipes, sockets
// and files, on which nothing may arrive.
// Every byte is compared with the default provider's. BACKEND must have served requests.
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/evp.h"

namespace {

using namespace sunxi::test;

constexpr std::size_t key_count = 4;

// Both sides of one stream or message, byte for byte.
class Pair {
 public:
  Pair() = default;
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  virtual ~Pair() = default;
  virtual bool step() = 0;  // false at the first difference

 protected:
  static constexpr std::size_t largest = 5000;
};

class CipherPair final : public Pair {
 public:
  CipherPair(const Library& ours, const Library& reference, std::mt19937_64& random) : random_(&random) {
    static const std::vector<std::string> names = ours.ciphers();
    const std::string& name = names[random() % names.size()];
    const CipherPtr a = ours.cipher(name);
    const CipherPtr b = reference.cipher(name);
    std::array<std::uint8_t, 64> key{};
    key.fill(static_cast<std::uint8_t>(1 + random() % key_count));
    key.front() = 0xff;  // XTS takes no equal halves
    least_ = EVP_CIPHER_get_mode(a.get()) == EVP_CIPH_XTS_MODE ? 16 : 0;
    std::array<std::uint8_t, 16> iv{};
    iv.fill(static_cast<std::uint8_t>(random()));
    const int encrypt = static_cast<int>(random() % 2);
    EVP_CipherInit_ex2(ours_.get(), a.get(), key.data(), iv.data(), encrypt, nullptr);
    EVP_CipherInit_ex2(reference_.get(), b.get(), key.data(), iv.data(), encrypt, nullptr);
  }
  bool step() override {
    const std::size_t bytes = least_ + (*random_)() % largest;
    in_.resize(bytes + 1);
    for (std::uint8_t& byte : in_) byte = static_cast<std::uint8_t>((*random_)());
    a_.assign(bytes + 32, 0);
    b_.assign(bytes + 32, 0);
    int done_a = 0;
    int done_b = 0;
    return EVP_CipherUpdate(ours_.get(), a_.data(), &done_a, in_.data(), static_cast<int>(bytes)) == 1 &&
           EVP_CipherUpdate(reference_.get(), b_.data(), &done_b, in_.data(), static_cast<int>(bytes)) == 1 &&
           done_a == done_b && std::memcmp(a_.data(), b_.data(), static_cast<std::size_t>(done_a)) == 0;
  }

 private:
  std::mt19937_64* random_;
  std::size_t least_;
  CipherContextPtr ours_{EVP_CIPHER_CTX_new()}, reference_{EVP_CIPHER_CTX_new()};
  std::vector<std::uint8_t> in_, a_, b_;
};

// Two messages, the second of which begins as a copy of the first.
class DigestPair final : public Pair {
 public:
  DigestPair(const Library& ours, const Library& reference, std::mt19937_64& random) : random_(&random) {
    static const std::vector<std::string> names = ours.digests();
    const std::string& name = names[random() % names.size()];
    ours_digest_ = ours.digest(name);
    reference_digest_ = reference.digest(name);
    good_ = start();
  }
  bool step() override {
    std::vector<std::uint8_t> in((*random_)() % largest);
    for (std::uint8_t& byte : in) byte = static_cast<std::uint8_t>((*random_)());
    Side& side = sides_[(*random_)() % 2];
    good_ = good_ && EVP_DigestUpdate(side.ours.get(), in.data(), in.size()) == 1 &&
            EVP_DigestUpdate(side.reference.get(), in.data(), in.size()) == 1;
    switch ((*random_)() % 8) {
      case 0:
        good_ = good_ && copy(sides_[0], sides_[1]);
        break;
      case 1:
        good_ = good_ && copy(sides_[1], sides_[0]);
        break;
      case 2: {
        Side end;
        good_ = good_ && copy(end, side) && finish(end);
        break;
      }
      case 3:
        good_ = good_ && finish(sides_[0]) && finish(sides_[1]) && start();
        break;
      default:
        break;
    }
    return good_;
  }

 private:
  struct Side {
    DigestContextPtr ours{EVP_MD_CTX_new()}, reference{EVP_MD_CTX_new()};
  };
  static bool copy(Side& to, const Side& from) {
    return EVP_MD_CTX_copy_ex(to.ours.get(), from.ours.get()) == 1 &&
           EVP_MD_CTX_copy_ex(to.reference.get(), from.reference.get()) == 1;
  }
  bool start() {
    const std::vector<std::uint8_t> in(64 + (*random_)() % largest, 0x5a);
    Side& first = sides_[0];
    return EVP_DigestInit_ex2(first.ours.get(), ours_digest_.get(), nullptr) == 1 &&
           EVP_DigestInit_ex2(first.reference.get(), reference_digest_.get(), nullptr) == 1 &&
           EVP_DigestUpdate(first.ours.get(), in.data(), in.size()) == 1 &&
           EVP_DigestUpdate(first.reference.get(), in.data(), in.size()) == 1 && copy(sides_[1], first);
  }
  static bool finish(Side& side) {
    std::array<std::array<std::uint8_t, EVP_MAX_MD_SIZE>, 2> out{};
    return EVP_DigestFinal_ex(side.ours.get(), out[0].data(), nullptr) == 1 &&
           EVP_DigestFinal_ex(side.reference.get(), out[1].data(), nullptr) == 1 && out[0] == out[1];
  }

  std::mt19937_64* random_;
  DigestPtr ours_digest_, reference_digest_;
  std::array<Side, 2> sides_;
  bool good_ = false;
};

std::unique_ptr<Pair> make_pair(const Library& ours, const Library& reference, std::mt19937_64& random) {
  if (random() % 3 == 0) return std::make_unique<DigestPair>(ours, reference, random);
  return std::make_unique<CipherPair>(ours, reference, random);
}

bool some_streams(const Library& ours, const Library& reference, std::uint64_t seed, int streams, int steps) {
  std::mt19937_64 random(seed);
  for (int i = 0; i < streams; ++i) {
    const std::unique_ptr<Pair> pair = make_pair(ours, reference, random);
    for (int j = 0; j < steps; ++j) {
      if (!pair->step()) return false;
    }
  }
  return true;
}

// Messages that everybody copies and nobody goes on with.
class Templates {
 public:
  Templates(const Library& ours, const Library& reference) {
    const std::vector<std::uint8_t> in(20'000, 0x33);
    for (const std::string& name : ours.digests()) {
      One one{DigestContextPtr(EVP_MD_CTX_new()), {}};
      const DigestPtr digest = ours.digest(name);
      const DigestPtr other = reference.digest(name);
      good_ = good_ && EVP_DigestInit_ex2(one.context.get(), digest.get(), nullptr) == 1 &&
              EVP_DigestUpdate(one.context.get(), in.data(), in.size()) == 1 &&
              EVP_Digest(in.data(), in.size(), one.result.data(), nullptr, other.get(), nullptr) == 1;
      all_.push_back(std::move(one));
    }
  }
  [[nodiscard]] bool copies_are_right() const {
    const DigestContextPtr copy(EVP_MD_CTX_new());
    bool good = good_;
    for (const One& one : all_) {
      Result out{};
      good = good && EVP_MD_CTX_copy_ex(copy.get(), one.context.get()) == 1 &&
             EVP_DigestFinal_ex(copy.get(), out.data(), nullptr) == 1 && out == one.result;
    }
    return good;
  }

 private:
  using Result = std::array<std::uint8_t, EVP_MAX_MD_SIZE>;
  struct One {
    DigestContextPtr context;
    Result result;
  };
  std::vector<One> all_;
  bool good_ = true;
};

bool with_threads(const Library& ours, const Library& reference, int count, int rounds, std::uint64_t seed) {
  const Templates shared(ours, reference);
  std::atomic<bool> good{true};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      if (!some_streams(ours, reference, seed + static_cast<std::uint64_t>(i), rounds, 6)) good = false;
      if (!shared.copies_are_right()) good = false;
    });
  for (std::thread& thread : threads) thread.join();
  return good;
}

bool child_was_good(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return false;
  if (WIFSIGNALED(status)) std::printf("child ended by signal %d\n", WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool fork_round(const Library& ours, const Library& reference, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 6; ++i) pairs.push_back(make_pair(ours, reference, random));
  const auto all = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      for (const auto& pair : pairs) {
        if (!pair->step()) return false;
      }
    }
    return true;
  };
  if (!all(3)) return false;
  // A thread keeps the backend's locks busy at the moment of the fork.
  std::atomic<bool> stop{false};
  std::atomic<bool> good{true};
  std::thread busy([&] {
    for (std::uint64_t i = 0; !stop; ++i) {
      if (!some_streams(ours, reference, seed + 1000 + i, 1, 3)) good = false;
    }
  });
  const pid_t child = fork();
  if (child == 0) {
    bool fine = all(5);
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(all(3) ? 0 : 1);
    fine = all(3) && child_was_good(grandchild) && fine;
    pairs.clear();
    _exit(fine && some_streams(ours, reference, seed + 7, 2, 3) ? 0 : 1);
  }
  const bool parent = all(5);
  const bool childs = child_was_good(child);
  stop = true;
  busy.join();
  return parent && childs && good;
}

void close_everything() {
  DIR* open = opendir("/proc/self/fd");
  std::vector<int> numbers;
  while (const dirent* entry = readdir(open)) {
    const int number = std::atoi(entry->d_name);
    if (number > 2 && number != dirfd(open)) numbers.push_back(number);
  }
  closedir(open);
  for (const int number : numbers) close(number);
}

// Takes the lowest free descriptor numbers; whatever is written to one of them shows.
class Traps {
 public:
  Traps() {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
      std::array<int, 2> both{};
      if (socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, both.data()) != 0) std::abort();
      watched_.push_back(both[0]);
      watched_.push_back(both[1]);
    }
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_NONBLOCK) != 0) std::abort();
    watched_.push_back(ends[0]);
    others_.push_back(ends[1]);
    file_ = memfd_create("trap", 0);
    const int udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(udp, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
        getsockname(udp, reinterpret_cast<sockaddr*>(&address), &length) == 0)
      static_cast<void>(connect(udp, reinterpret_cast<sockaddr*>(&address), length));
    watched_.push_back(udp);
    connected_tcp();
  }
  Traps(const Traps&) = delete;
  Traps& operator=(const Traps&) = delete;
  // True if nothing arrived and all are still open. Closes them.
  bool clean() {
    bool good = true;
    std::array<char, 16> byte{};
    for (const int number : watched_) {
      if (read(number, byte.data(), byte.size()) > 0) {
        std::printf("data arrived on descriptor %d\n", number);
        good = false;
      }
    }
    good = good && lseek(file_, 0, SEEK_END) == 0;
    others_.insert(others_.end(), watched_.begin(), watched_.end());
    others_.push_back(file_);
    for (const int number : others_) {
      if (close(number) != 0) {
        std::printf("descriptor %d had been closed\n", number);
        good = false;
      }
    }
    return good;
  }

 private:
  void connected_tcp() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
      const int client = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(client, reinterpret_cast<sockaddr*>(&address), length) == 0) {
        const int server = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
        fcntl(client, F_SETFL, O_NONBLOCK);
        watched_.push_back(server);
      }
      watched_.push_back(client);
    }
    others_.push_back(listener);
  }
  std::vector<int> watched_, others_;
  int file_ = -1;
};

bool close_round(const Library& ours, const Library& reference, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 8; ++i) pairs.push_back(make_pair(ours, reference, random));
  const auto all = [&] {
    for (const auto& pair : pairs) {
      if (!pair->step()) return false;
    }
    return true;
  };
  if (!all()) return false;
  close_everything();
  Traps traps;
  // Streams that go on, streams that start, streams that end while the traps are there.
  const bool good = all() && some_streams(ours, reference, seed + 1, 4, 3);
  pairs.erase(pairs.begin() + 4, pairs.end());
  const bool more = all();
  pairs.clear();
  return traps.clean() && good && more && some_streams(ours, reference, seed + 2, 4, 3);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s MODULE-DIRECTORY BACKEND threads|fork|close [ROUNDS]\n", argv[0]);
    return 2;
  }
  try {
    const std::string backend = argv[2];
    const std::string what = argv[3];
    const int rounds = argc > 4 ? std::atoi(argv[4]) : 4;
    const Library ours("sunxi", argv[1]);
    const Library reference("default");
    bool good = true;
    if (what == "threads") {
      good = with_threads(ours, reference, 64, rounds, 5);
    } else {
      for (int i = 0; i < rounds && good; ++i) {
        const std::uint64_t seed = 100 * static_cast<std::uint64_t>(i + 1);
        good = what == "fork" ? fork_round(ours, reference, seed) : close_round(ours, reference, seed);
      }
    }
    const std::uint64_t requests = ours.count("sunxi." + backend + ".requests");
    std::printf("%s: %s; %s served %llu requests\n", what.c_str(), good ? "all bytes right" : "WRONG",
                backend.c_str(), static_cast<unsigned long long>(requests));
    return good && requests != 0 ? 0 : 1;
  } catch (const std::exception& problem) {
    std::printf("%s\n", problem.what());
    return 1;
  }
}
