// SPDX-License-Identifier: Apache-2.0
// A program that does to its process what programs do, with the provider that OPENSSL_CONF names in the
// middle of a stream and of a message. Every byte is compared with the default provider's.
//
// processes_program CASE [ARGUMENT]
//
// Exit status 0: as it should be; 1: it was not, and why is on standard error; else a signal. A line "then"
// on standard error parts what was before the deed from what came after it.
#include <dirent.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/evp.h"

namespace {

using sunxi::test::CipherContextPtr;
using sunxi::test::CipherPtr;
using sunxi::test::DigestContextPtr;
using sunxi::test::DigestPtr;
using sunxi::test::LibraryPtr;

constexpr const char* cipher_name = "AES-128-CBC";
constexpr const char* digest_name = "SHA1";  // each backend has it
constexpr std::size_t longest = 40000;

void require(bool truth, const char* what) {
  if (!truth) throw std::runtime_error(std::string(what) + " (errno " + std::to_string(errno) + ")");
}

std::vector<std::uint8_t> data(std::size_t bytes, unsigned seed) {
  std::vector<std::uint8_t> made(bytes);
  for (std::uint8_t& byte : made)
    byte = static_cast<std::uint8_t>((seed = seed * 1103515245U + 12345U) >> 16U);
  return made;
}

// A stream of a cipher, in two contexts: what is preferred, and the default provider's.
class Stream {
 public:
  explicit Stream(std::uint8_t key_byte = 1, OSSL_LIB_CTX* library = nullptr) {
    const CipherPtr preferred(EVP_CIPHER_fetch(library, cipher_name, nullptr));
    const CipherPtr reference(EVP_CIPHER_fetch(library, cipher_name, "provider=default"));
    require(preferred != nullptr && reference != nullptr, "cipher");
    std::array<std::uint8_t, 16> key{};
    key.fill(key_byte);
    require(EVP_EncryptInit_ex2(preferred_.get(), preferred.get(), key.data(), key.data(), nullptr) == 1,
            "init");
    require(EVP_EncryptInit_ex2(reference_.get(), reference.get(), key.data(), key.data(), nullptr) == 1,
            "init");
  }
  void step(std::size_t bytes) {
    const std::vector<std::uint8_t> in = data(bytes, ++count_);
    std::vector<std::uint8_t> a(bytes + 32);
    std::vector<std::uint8_t> b(bytes + 32);
    int done_a = 0;
    int done_b = 0;
    require(EVP_EncryptUpdate(preferred_.get(), a.data(), &done_a, in.data(), static_cast<int>(bytes)) == 1,
            "update");
    require(EVP_EncryptUpdate(reference_.get(), b.data(), &done_b, in.data(), static_cast<int>(bytes)) == 1,
            "update");
    require(done_a == done_b && a == b, "other bytes than the default provider's");
  }

 private:
  CipherContextPtr preferred_{EVP_CIPHER_CTX_new()};
  CipherContextPtr reference_{EVP_CIPHER_CTX_new()};
  unsigned count_ = 0;
};

// The same of a message.
class Message {
 public:
  explicit Message(OSSL_LIB_CTX* library = nullptr) {
    const DigestPtr preferred(EVP_MD_fetch(library, digest_name, nullptr));
    const DigestPtr reference(EVP_MD_fetch(library, digest_name, "provider=default"));
    require(preferred != nullptr && reference != nullptr, "digest");
    require(EVP_DigestInit_ex2(preferred_.get(), preferred.get(), nullptr) == 1, "init");
    require(EVP_DigestInit_ex2(reference_.get(), reference.get(), nullptr) == 1, "init");
  }
  void step(std::size_t bytes) {
    const std::vector<std::uint8_t> in = data(bytes, ++count_);
    require(EVP_DigestUpdate(preferred_.get(), in.data(), in.size()) == 1, "update of a digest");
    require(EVP_DigestUpdate(reference_.get(), in.data(), in.size()) == 1, "update of a digest");
  }
  void end() {
    std::array<std::uint8_t, 20> a{};
    std::array<std::uint8_t, 20> b{};
    require(EVP_DigestFinal_ex(preferred_.get(), a.data(), nullptr) == 1, "end of a digest");
    require(EVP_DigestFinal_ex(reference_.get(), b.data(), nullptr) == 1, "end of a digest");
    require(a == b, "another digest than the default provider's");
  }

 private:
  DigestContextPtr preferred_{EVP_MD_CTX_new()};
  DigestContextPtr reference_{EVP_MD_CTX_new()};
  unsigned count_ = 0;
};

// Streams of several keys and a message, in use.
class Work {
 public:
  explicit Work(OSSL_LIB_CTX* library = nullptr) : message_(library) {
    for (std::uint8_t key = 1; key <= 3; ++key) streams_.emplace_back(key, library);
    go_on();
  }
  void go_on() {
    for (const std::size_t bytes :
         {std::size_t{16}, std::size_t{1000}, std::size_t{16384}, longest, std::size_t{7}}) {
      for (Stream& stream : streams_) stream.step(bytes);
      message_.step(bytes);
    }
  }
  void end() { message_.end(); }

 private:
  std::vector<Stream> streams_;
  Message message_;
};

// What was in use goes on, and something new is begun.
void all(Work& work) {
  work.go_on();
  work.end();
  Work fresh;
  fresh.go_on();
  fresh.end();
}

void then() {
  std::fputs("then\n", stderr);
}

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder), closedir);
  while (open != nullptr && readdir(open.get()) != nullptr) ++count;
  return count;
}

std::size_t lines(const char* file) {
  std::ifstream text(file);
  std::string line;
  std::size_t count = 0;
  while (std::getline(text, line)) ++count;
  return count;
}

// The exit status of what a child does.
int in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) {
    try {
      body();
      _exit(0);
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "in a child: %s\n", problem.what());
    }
    _exit(1);
  }
  int status = 0;
  require(waitpid(child, &status, 0) == child, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Parent, child and grandchild go on with the same stream, at the same time.
void forks(const std::string&) {
  Work work;
  then();
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) {
    int status = 1;
    try {
      work.go_on();
      status = in_child([&] { all(work); });
      all(work);
    } catch (const std::exception& problem) {
      std::fprintf(stderr, "in the child: %s\n", problem.what());
      status = 1;
    }
    _exit(status);
  }
  for (int i = 0; i < 20; ++i) work.go_on();
  all(work);
  int status = 0;
  require(waitpid(child, &status, 0) == child && status == 0, "the child");
}

// All descriptors are closed, and the program takes every number that it can get for sockets of its own.
void closes(const std::string&) {
  const rlimit limit{.rlim_cur = 1024, .rlim_max = 1024};
  require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  auto work = std::make_unique<Work>();
  then();
  closefrom(3);
  std::vector<int> sockets;
  std::array<int, 2> pair{};
  while (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()) == 0)
    sockets.insert(sockets.end(), pair.begin(), pair.end());
  require(sockets.size() > 1000, "numbers");
  work->go_on();
  work->go_on();
  all(*work);
  work.reset();
  for (const int socket : sockets) {
    char byte = 0;
    require(fcntl(socket, F_GETFD) >= 0, "a socket of the program was closed");
    require(recv(socket, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN, "a byte arrived that nobody has sent");
  }
  for (const int socket : sockets) close(socket);
  Work again;  // there are numbers again
  all(again);
}

void drop_privileges() {
  constexpr unsigned nobody = 65534;
  require(setgid(nobody) == 0 && setuid(nobody) == 0, "setuid");
}

void enter_empty_folder(const std::string& folder) {
  require(chdir(folder.c_str()) == 0 && chroot(".") == 0, "chroot");
  drop_privileges();
  require(access("/proc", F_OK) != 0 && access("/dev", F_OK) != 0, "the folder is not empty");
}

void chroots(const std::string& folder) {
  Work work;
  then();
  enter_empty_folder(folder);
  require(in_child([&] { all(work); }) == 0, "a child in the chroot");
  all(work);
}

void chroots_first(const std::string& folder) {
  // The configuration is read, and nothing used.
  require(OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, nullptr) == 1, "configuration");
  then();
  enter_empty_folder(folder);
  Work work;
  all(work);
}

void becomes_nobody(const std::string&) {
  require(OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, nullptr) == 1, "configuration");
  then();
  drop_privileges();
  Work work;
  all(work);
}

void cleans_up(const std::string&) {
  {
    Work work;
    all(work);
  }
  then();
  OPENSSL_cleanup();
}

void cleans_up_in_child(const std::string&) {
  Work work;
  then();
  require(in_child([&] {
            all(work);
            OPENSSL_cleanup();
          }) == 0,
          "the child");
  all(work);
}

// Made after OpenSSL's first use, and so freed before OpenSSL cleans up at exit.
void exits_with_statics(const std::string&) {
  require(OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, nullptr) == 1, "configuration");
  static Work work;
  work.go_on();
  then();
  std::exit(0);
}

// Freed by a destructor that runs after OpenSSL's clean-up.
std::unique_ptr<Work> early;  // NOLINT: a global with a destructor is what is tested

void exits_with_early_statics(const std::string&) {
  early = std::make_unique<Work>();
  then();
  std::exit(0);
}

void exits_with_leaks(const std::string&) {
  auto* work = new Work;
  work->go_on();
  then();
  std::exit(0);  // NOLINT: never freed
}

// A library context comes and goes with all its providers.
void loads_often(const std::string& file_and_rounds) {
  const std::string file = file_and_rounds.substr(0, file_and_rounds.find(':'));
  const int rounds = std::stoi(file_and_rounds.substr(file.size() + 1));
  struct Held {
    std::size_t descriptors;
    std::size_t maps;
  };
  auto look = [] { return Held{entries("/proc/self/fd"), lines("/proc/self/maps")}; };
  Held before{};
  for (int i = 0; i < rounds; ++i) {
    const LibraryPtr library(OSSL_LIB_CTX_new());
    require(OSSL_LIB_CTX_load_config(library.get(), file.c_str()) == 1, "configuration");
    require(OSSL_PROVIDER_available(library.get(), "sunxi") == 1, "no provider");
    Stream stream(1, library.get());
    stream.step(1024);
    Message message(library.get());
    message.step(1024);
    message.end();
    if (i == 20) {
      before = look();
      then();
    }
  }
  const Held after = look();
  std::fprintf(stderr, "descriptors %zu -> %zu, maps %zu -> %zu\n", before.descriptors, after.descriptors,
               before.maps, after.maps);
  require(after.descriptors <= before.descriptors, "descriptors are left over");
  require(after.maps <= before.maps + 2, "mappings are left over");
}

void two_libraries(const std::string& file) {
  const LibraryPtr one(OSSL_LIB_CTX_new());
  LibraryPtr other(OSSL_LIB_CTX_new());
  require(OSSL_LIB_CTX_load_config(one.get(), file.c_str()) == 1, "configuration");
  require(OSSL_LIB_CTX_load_config(other.get(), file.c_str()) == 1, "configuration");
  Work first(one.get());
  {
    Work second(other.get());
    Work third;  // the program's own configuration
    for (int i = 0; i < 3; ++i) {
      first.go_on();
      second.go_on();
      third.go_on();
    }
    second.end();
    third.end();
  }
  other.reset();
  then();
  first.go_on();
  first.end();
}

// The program must get the numbers that it needs, whatever the provider does.
void few_numbers(const std::string&) {
  const rlimit limit{.rlim_cur = 8, .rlim_max = 8};
  require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  then();
  Work work;
  all(work);
  std::array<int, 2> mine{};
  require(socketpair(AF_UNIX, SOCK_STREAM, 0, mine.data()) == 0, "no numbers for the program");
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  require(file >= 0, "no third number for the program");
  Work more;
  all(more);
  for (const int number : {mine[0], mine[1], file}) close(number);
}

// A filter for one call; `answer` is a SECCOMP_RET_. With `family` only sockets of that family.
void filter(long number, std::uint32_t answer, int family = -1) {
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0,
               static_cast<std::uint8_t>(family < 0 ? 1 : 3)),
  };
  if (family >= 0) {
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(family), 0, 1));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, answer));
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog list{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  require(
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &list) == 0,
      "filter");
}

// As systemd's RestrictAddressFamilies=AF_INET AF_UNIX does it.
void no_family(const std::string&) {
  filter(SYS_socket, SECCOMP_RET_ERRNO | EAFNOSUPPORT, AF_ALG);
  require(socket(AF_ALG, SOCK_SEQPACKET, 0) < 0 && errno == EAFNOSUPPORT, "the filter");
  then();
  Work work;
  all(work);
}

void no_sockets(const std::string&) {
  filter(SYS_socket, SECCOMP_RET_ERRNO | EPERM);
  then();
  Work work;
  all(work);
}

void deadly_sockets(const std::string&) {
  require(in_child([] {
            filter(SYS_socket, SECCOMP_RET_KILL_PROCESS);
            close(socket(AF_UNIX, SOCK_STREAM, 0));
          }) == 1000 + SIGSYS,
          "the filter does not kill");
  filter(SYS_socket, SECCOMP_RET_KILL_PROCESS);
  then();
  Work work;
  all(work);
}

// The filter comes while sessions are open.
void deadly_sockets_later(const std::string&) {
  Work work;
  filter(SYS_socket, SECCOMP_RET_KILL_PROCESS);
  then();
  all(work);
}

// As systemd's PrivateDevices=yes: a /dev of its own with the harmless devices.
void private_devices(const std::string&) {
  require(unshare(CLONE_NEWNS) == 0, "unshare");
  require(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "mount");
  require(mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755") == 0, "a new /dev");
  struct Device {
    const char* path;
    unsigned minor;
  };
  for (const Device& device :
       {Device{"/dev/null", 3}, Device{"/dev/zero", 5}, Device{"/dev/random", 8}, Device{"/dev/urandom", 9}})
    require(mknod(device.path, S_IFCHR | 0666, makedev(1, device.minor)) == 0, "mknod");
  prctl(PR_CAPBSET_DROP, 17, 0, 0, 0);  // CAP_SYS_RAWIO
  then();
  Work work;
  all(work);
}

}  // namespace

int main(int count, char** words) {
  const std::map<std::string, void (*)(const std::string&)> cases{
      {"forks", forks},
      {"closes", closes},
      {"chroots", chroots},
      {"chroots_first", chroots_first},
      {"becomes_nobody", becomes_nobody},
      {"cleans_up", cleans_up},
      {"cleans_up_in_child", cleans_up_in_child},
      {"exits_with_statics", exits_with_statics},
      {"exits_with_early_statics", exits_with_early_statics},
      {"exits_with_leaks", exits_with_leaks},
      {"loads_often", loads_often},
      {"two_libraries", two_libraries},
      {"few_numbers", few_numbers},
      {"no_family", no_family},
      {"no_sockets", no_sockets},
      {"deadly_sockets", deadly_sockets},
      {"deadly_sockets_later", deadly_sockets_later},
      {"private_devices", private_devices},
  };
  const auto found = count > 1 ? cases.find(words[1]) : cases.end();
  if (found == cases.end()) {
    std::fputs("usage: processes_program CASE [ARGUMENT]\n", stderr);
    return 2;
  }
  try {
    found->second(count > 2 ? words[2] : "");
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s: %s\n", words[1], problem.what());
    return 1;
  }
  return 0;
}
