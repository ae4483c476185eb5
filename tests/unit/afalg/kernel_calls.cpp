// SPDX-License-Identifier: Apache-2.0
// Replaces the C library's socket calls in this program. Semantics of the model: Linux crypto/af_alg.c and
// crypto/algif_skcipher.c and crypto/algif_hash.c, checked against Linux 6.1 by the cases that run on both.
#include "tests/unit/afalg/kernel_calls.h"

#include <fcntl.h>
#include <linux/if_alg.h>
#include <openssl/evp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kernel_calls {
namespace {

std::atomic<std::size_t> send_buffer{default_send_buffer};

struct Plan {
  std::atomic<int> skip{0};
  std::atomic<int> times{0};
  std::atomic<int> error{0};
};
std::array<Plan, call_count> plans;
std::array<std::atomic<int>, call_count> counts;
std::atomic<int> last_socket{-1};
std::atomic<int> unaligned{0};
std::atomic<bool> modelled{false};
std::atomic<bool> stealing{true};
std::atomic<int> swap_ours{-1};
std::atomic<int> swap_theirs{-1};

// 1 if this call shall fail.
bool fails(Call call, int& error) {
  const auto index = static_cast<std::size_t>(call);
  ++counts[index];
  Plan& plan = plans[index];
  if (plan.times <= 0) return false;
  if (plan.skip > 0) {
    --plan.skip;
    return false;
  }
  --plan.times;
  error = plan.error;
  return true;
}

int refuse(int error) {
  errno = error;
  return -1;
}

[[noreturn]] void would_hang(const char* what) {
  std::fprintf(stderr, "model of AF_ALG: %s would never return\n", what);
  std::abort();
}

enum class Mode { ecb, cbc, ctr, xts };

struct Algorithm {
  const char* name;
  const char* driver;  // its first half
  Mode mode;
  std::size_t block_bytes;
  std::vector<std::size_t> key_bytes;
  // By key size, in the same order. DES is triple DES with one key three times, which needs no legacy
  // provider.
  std::vector<const EVP_CIPHER* (*)()> ciphers;
  [[nodiscard]] std::size_t iv_bytes() const { return mode == Mode::ecb ? 0 : block_bytes; }
};

const Algorithm* find_algorithm(const std::string& name) {
  static const std::array algorithms{
      Algorithm{"ecb(aes)",
                "ecb-aes",
                Mode::ecb,
                16,
                {16, 24, 32},
                {EVP_aes_128_ecb, EVP_aes_192_ecb, EVP_aes_256_ecb}},
      Algorithm{"cbc(aes)",
                "cbc-aes",
                Mode::cbc,
                16,
                {16, 24, 32},
                {EVP_aes_128_cbc, EVP_aes_192_cbc, EVP_aes_256_cbc}},
      Algorithm{"ctr(aes)",
                "ctr-aes",
                Mode::ctr,
                16,
                {16, 24, 32},
                {EVP_aes_128_ctr, EVP_aes_192_ctr, EVP_aes_256_ctr}},
      Algorithm{"xts(aes)", "xts-aes", Mode::xts, 16, {32, 64}, {EVP_aes_128_xts, EVP_aes_256_xts}},
      Algorithm{"ecb(des3_ede)", "ecb-des3", Mode::ecb, 8, {24}, {EVP_des_ede3_ecb}},
      Algorithm{"cbc(des3_ede)", "cbc-des3", Mode::cbc, 8, {24}, {EVP_des_ede3_cbc}},
      Algorithm{"ecb(des)", "ecb-des", Mode::ecb, 8, {8}, {EVP_des_ede3_ecb}},
      Algorithm{"cbc(des)", "cbc-des", Mode::cbc, 8, {8}, {EVP_des_ede3_cbc}},
  };
  for (const Algorithm& algorithm : algorithms) {
    const std::string driver = algorithm.driver;
    if (name == algorithm.name || name == driver + "-model" || name == driver + "-sun8i-ce")
      return &algorithm;
  }
  return nullptr;
}

const EVP_MD* find_hash(const std::string& name) {
  for (const char* known : {"md5", "sha1", "sha224", "sha256", "sha384", "sha512"}) {
    const std::string plain = known;
    if (name == plain || name == plain + "-model" || name == plain + "-sun4i-ss" ||
        name == plain + "-sun8i-ce")
      return EVP_get_digestbyname(known);
  }
  return nullptr;
}

using HashState = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

struct Tfm {
  const Algorithm* algorithm = nullptr;
  const EVP_MD* hash = nullptr;  // instead of an algorithm
  const EVP_CIPHER* cipher = nullptr;
  std::vector<unsigned char> key;  // as libcrypto wants it
  std::atomic<int> operations{0};
};

struct Socket {
  bool bound = false;
  std::shared_ptr<Tfm> tfm;
  bool operation = false;
  std::atomic<bool> in_use{false};
  bool unread = false;
  bool encrypt = false;
  std::array<unsigned char, 16> iv{};
  std::vector<unsigned char> queue;
  HashState hash{nullptr, EVP_MD_CTX_free};  // of a message that goes on
  std::vector<unsigned char> digest;         // unread
  ~Socket() {
    if (operation) --tfm->operations;
  }
};

// By identity, so that duplicates of a descriptor are the same socket and reused numbers are none.
using Identity = std::pair<dev_t, ino_t>;
std::mutex sockets_mutex;
std::map<Identity, std::shared_ptr<Socket>> sockets;

Identity identity_of(int number) {
  struct stat status {};
  if (syscall(SYS_fstat, number, &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

// Null if the number is none of the model's, or not any more.
std::shared_ptr<Socket> find(int number) {
  if (!modelled) return nullptr;
  const std::lock_guard lock(sockets_mutex);
  const auto found = sockets.find(identity_of(number));
  return found == sockets.end() ? nullptr : found->second;
}

// A real socket lends its number and identity.
int create(std::shared_ptr<Socket> socket, int flags) {
  const auto number = static_cast<int>(
      syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | (flags & (SOCK_CLOEXEC | SOCK_NONBLOCK)), 0));
  if (number < 0) return number;
  const int half = static_cast<int>(send_buffer / 2);  // the kernel doubles it
  syscall(SYS_setsockopt, number, SOL_SOCKET, SO_SNDBUF, &half, sizeof half);
  const std::lock_guard lock(sockets_mutex);
  sockets[identity_of(number)] = std::move(socket);
  return number;
}

class InUse {
 public:
  explicit InUse(Socket& socket) : socket_(socket), mine_(!socket.in_use.exchange(true)) {}
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  ~InUse() {
    if (mine_) socket_.in_use = false;
  }
  explicit operator bool() const { return mine_; }

 private:
  Socket& socket_;
  bool mine_;
};

ssize_t model_send(Socket& socket, const msghdr& message, int flags) {
  const InUse use(socket);
  if (!use) return refuse(EBUSY);
  if (!socket.operation) return refuse(EOPNOTSUPP);
  if (socket.tfm->key.empty()) return refuse(ENOKEY);
  if (socket.unread) return refuse(EINVAL);
  if ((flags & MSG_MORE) != 0) return refuse(EINVAL);
  bool encrypt = socket.encrypt;
  auto iv = socket.iv;
  if (message.msg_controllen != 0) encrypt = false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
    if (header->cmsg_level != SOL_ALG) continue;
    std::uint32_t word = 0;
    if (header->cmsg_len < CMSG_LEN(sizeof word)) return refuse(EINVAL);
    std::memcpy(&word, CMSG_DATA(header), sizeof word);
    if (header->cmsg_type == ALG_SET_OP && word <= 1) {
      encrypt = word == ALG_OP_ENCRYPT;
    } else if (header->cmsg_type == ALG_SET_IV && word != 0 && word == socket.tfm->algorithm->iv_bytes() &&
               header->cmsg_len >= CMSG_LEN(4 + word)) {
      std::memcpy(iv.data(), CMSG_DATA(header) + 4, word);
    } else {
      return refuse(EINVAL);
    }
  }
  socket.encrypt = encrypt;
  socket.iv = iv;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const auto* data = static_cast<const unsigned char*>(message.msg_iov[i].iov_base);
    const std::size_t room = send_buffer.load() - socket.queue.size();
    const std::size_t bytes = message.msg_iov[i].iov_len;
    if (bytes > room && (flags & MSG_DONTWAIT) == 0) would_hang("sendmsg");
    socket.queue.insert(socket.queue.end(), data, data + std::min(room, bytes));
  }
  socket.unread = true;
  return static_cast<ssize_t>(socket.queue.size());
}

ssize_t model_receive(Socket& socket, void* out, std::size_t bytes, int flags) {
  const InUse use(socket);
  if (!use) return refuse(EBUSY);
  if (!socket.operation) return refuse(EOPNOTSUPP);
  if (!socket.unread || bytes > socket.queue.size()) {
    if ((flags & MSG_DONTWAIT) == 0) would_hang("recv");
    if (!socket.unread) return refuse(EAGAIN);
  }
  const Tfm& tfm = *socket.tfm;
  const Algorithm& algorithm = *tfm.algorithm;
  if (bytes < socket.queue.size()) bytes &= ~(algorithm.block_bytes - 1);
  bytes = std::min(bytes, socket.queue.size());
  const bool whole = bytes == socket.queue.size();
  const bool fits = algorithm.mode == Mode::ctr   ? true
                    : algorithm.mode == Mode::xts ? bytes >= 16
                                                  : bytes % algorithm.block_bytes == 0;
  if (!fits || bytes == 0) {
    if (whole) {
      socket.queue.clear();
      socket.unread = false;
    }
    return refuse(EINVAL);
  }
  const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context(EVP_CIPHER_CTX_new(),
                                                                                EVP_CIPHER_CTX_free);
  int length = 0;
  if (EVP_CipherInit_ex(context.get(), tfm.cipher, nullptr, tfm.key.data(), socket.iv.data(),
                        socket.encrypt ? 1 : 0) != 1 ||
      EVP_CIPHER_CTX_set_padding(context.get(), 0) != 1 ||
      EVP_CipherUpdate(context.get(), static_cast<unsigned char*>(out), &length, socket.queue.data(),
                       static_cast<int>(bytes)) != 1)
    return refuse(EIO);
  socket.iv.fill(0xdd);  // a driver that does not write it back
  socket.queue.erase(socket.queue.begin(), socket.queue.begin() + static_cast<std::ptrdiff_t>(bytes));
  socket.unread = !socket.queue.empty();
  return static_cast<ssize_t>(bytes);
}

// Linux 6.1, hash_sendmsg: control messages are not looked at.
ssize_t model_hash_send(Socket& socket, const msghdr& message, int flags) {
  const InUse use(socket);
  if (!use) would_hang("a hash socket in use by two threads");
  if (!socket.hash) {
    socket.hash.reset(EVP_MD_CTX_new());
    EVP_DigestInit_ex(socket.hash.get(), socket.tfm->hash, nullptr);
  }
  socket.digest.clear();
  std::size_t sent = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    EVP_DigestUpdate(socket.hash.get(), message.msg_iov[i].iov_base, message.msg_iov[i].iov_len);
    sent += message.msg_iov[i].iov_len;
  }
  if ((flags & MSG_MORE) == 0) {
    socket.digest.resize(static_cast<std::size_t>(EVP_MD_get_size(socket.tfm->hash)));
    EVP_DigestFinal_ex(socket.hash.get(), socket.digest.data(), nullptr);
    socket.hash.reset();
  }
  return static_cast<ssize_t>(sent);
}

ssize_t model_hash_receive(Socket& socket, void* out, std::size_t bytes) {
  if (socket.digest.empty()) {
    // Linux before 4.9 gives anything here.
    if (!socket.hash) would_hang("a digest without a message");
    msghdr end{};
    model_hash_send(socket, end, 0);
  }
  const InUse use(socket);
  if (!use) would_hang("a hash socket in use by two threads");
  bytes = std::min(bytes, socket.digest.size());
  std::memcpy(out, socket.digest.data(), bytes);
  socket.digest.clear();
  return static_cast<ssize_t>(bytes);
}

}  // namespace

void use_model(bool on, std::size_t buffer) {
  modelled = on;
  send_buffer = buffer;
}

void inject(Call call, int error, int skip, int times) {
  Plan& plan = plans[static_cast<std::size_t>(call)];
  plan.skip = skip;
  plan.error = error;
  plan.times = times;
}

void set_stealing(bool on) {
  stealing = on;
}

void before_send(int ours, int theirs) {
  swap_theirs = theirs;
  swap_ours = ours;
}

void clear() {
  swap_ours = -1;
  stealing = true;
  for (Plan& plan : plans) plan.times = 0;
  for (std::atomic<int>& count : counts) count = 0;
  unaligned = 0;
}

int count(Call call) {
  return counts[static_cast<std::size_t>(call)];
}
int unaligned_receives() {
  return unaligned;
}
// The backend moves it to another number at once.
int last_operation_socket() {
  return last_socket;
}

}  // namespace kernel_calls

using namespace kernel_calls;

extern "C" {

int socket(int family, int type, int protocol) noexcept {
  if (family != AF_ALG) return static_cast<int>(syscall(SYS_socket, family, type, protocol));
  int error = 0;
  if (fails(Call::socket, error)) return refuse(error);
  if (!modelled) return static_cast<int>(syscall(SYS_socket, family, type, protocol));
  if ((type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) != SOCK_SEQPACKET) return refuse(ESOCKTNOSUPPORT);
  if (protocol != 0) return refuse(EPROTONOSUPPORT);
  return create(std::make_shared<Socket>(), type);
}

int bind(int number, const sockaddr* address, socklen_t length) noexcept {
  if (address->sa_family != AF_ALG) return static_cast<int>(syscall(SYS_bind, number, address, length));
  int error = 0;
  if (fails(Call::bind, error)) return refuse(error);
  const auto found = find(number);
  if (!found) return static_cast<int>(syscall(SYS_bind, number, address, length));
  const auto* alg = reinterpret_cast<const sockaddr_alg*>(address);
  if (length < sizeof *alg || alg->salg_feat != 0 || alg->salg_mask != 0) return refuse(EINVAL);
  if (found->tfm && found->tfm->operations != 0) return refuse(EBUSY);
  const std::string name(reinterpret_cast<const char*>(alg->salg_name));
  const std::string type(reinterpret_cast<const char*>(alg->salg_type));
  const Algorithm* algorithm = type == "skcipher" ? find_algorithm(name) : nullptr;
  const EVP_MD* hash = type == "hash" ? find_hash(name) : nullptr;
  if (algorithm == nullptr && hash == nullptr) return refuse(ENOENT);
  found->bound = true;
  found->tfm = std::make_shared<Tfm>();
  found->tfm->algorithm = algorithm;
  found->tfm->hash = hash;
  return 0;
}

int setsockopt(int number, int level, int option, const void* value, socklen_t length) noexcept {
  if (level != SOL_ALG)
    return static_cast<int>(syscall(SYS_setsockopt, number, level, option, value, length));
  int error = 0;
  if (fails(Call::set_key, error)) return refuse(error);
  const auto found = find(number);
  if (!found) return static_cast<int>(syscall(SYS_setsockopt, number, level, option, value, length));
  if (found->operation || option != ALG_SET_KEY) return refuse(EOPNOTSUPP);
  if (!found->bound) return refuse(EINVAL);
  if (found->tfm->hash != nullptr) return refuse(ENOPROTOOPT);
  Tfm& tfm = *found->tfm;
  const auto& sizes = tfm.algorithm->key_bytes;
  const auto size = std::find(sizes.begin(), sizes.end(), length);
  if (size == sizes.end()) return refuse(EINVAL);
  if (tfm.operations != 0) return refuse(EBUSY);
  const auto* key = static_cast<const unsigned char*>(value);
  tfm.cipher = tfm.algorithm->ciphers[static_cast<std::size_t>(size - sizes.begin())]();
  tfm.key.clear();
  for (int copy = 0; copy < (length == 8 ? 3 : 1); ++copy) tfm.key.insert(tfm.key.end(), key, key + length);
  return 0;
}

int fcntl(int number, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
#ifdef SYS_fcntl64
  const int result = static_cast<int>(syscall(SYS_fcntl64, number, command, argument));
#else
  const int result = static_cast<int>(syscall(SYS_fcntl, number, command, argument));
#endif
  if (command == F_DUPFD_CLOEXEC && result >= 0 && number == last_socket) last_socket = result;
  return result;
}

int accept4(int number, sockaddr* address, socklen_t* length, int flags) {
  const auto found = find(number);
  int error = 0;
  if (fails(Call::accept, error)) return refuse(error);
  int fresh = -1;
  if (!found) {
    fresh = static_cast<int>(syscall(SYS_accept4, number, address, length, flags));
  } else if ((found->operation && found->tfm->hash == nullptr) || (!found->operation && !found->bound) ||
             address != nullptr) {
    return refuse(EOPNOTSUPP);
  } else {
    auto operation = std::make_shared<Socket>();
    operation->tfm = found->tfm;
    operation->operation = true;
    ++operation->tfm->operations;
    if (found->hash) {
      operation->hash.reset(EVP_MD_CTX_new());
      EVP_MD_CTX_copy_ex(operation->hash.get(), found->hash.get());
    }
    fresh = create(std::move(operation), flags);
  }
  last_socket = fresh;
  return fresh;
}

ssize_t sendmsg(int number, const msghdr* message, int flags) {
  int error = 0;
  if (number == swap_ours) {
    swap_ours = -1;
    syscall(SYS_dup3, swap_theirs.load(), number, 0);
  }
  if (fails(Call::send, error)) {
    if (error != 0) return refuse(error);
    return static_cast<ssize_t>(message->msg_iov[0].iov_len) - 16;
  }
  const auto found = find(number);
  if (!found) return syscall(SYS_sendmsg, number, message, flags);
  return found->tfm && found->tfm->hash != nullptr && found->operation
             ? model_hash_send(*found, *message, flags)
             : model_send(*found, *message, flags);
}

ssize_t recv(int number, void* out, size_t bytes, int flags) {
  int error = 0;
  bool fail = fails(Call::receive, error);
  if (!stealing && bytes % 16 != 0) {
    fail = true;
    error = EINVAL;
  }
  if (reinterpret_cast<std::uintptr_t>(out) % 4096 != 0) ++unaligned;
  const auto found = find(number);
  ssize_t got = 0;
  if (!found) {
    got = syscall(SYS_recvfrom, number, out, bytes, flags, nullptr, nullptr);
  } else if (found->tfm && found->tfm->hash != nullptr && found->operation) {
    got = model_hash_receive(*found, out, bytes);
  } else {
    got = model_receive(*found, out, bytes, flags);
  }
  if (!fail) return got;
  std::memset(out, 0xee, bytes);
  return error != 0 ? refuse(error) : got - 16;
}

}  // extern "C"
