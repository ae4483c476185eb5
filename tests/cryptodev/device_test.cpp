// SPDX-License-Identifier: Apache-2.0
// What /dev/crypto has to do, by its ioctls alone: run on the stand-in, whichever frontend serves it, and on
// the real module. Declarations of its own, from the public header crypto/cryptodev.h of
// cryptodev-linux 1.14. What would damage a kernel, and what needs faults, is done on the stand-in only.
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cryptodev/control.h"
#include "tests/support/catch.h"

namespace {

using sunxi::standin::Control;
using Bytes = std::vector<std::uint8_t>;

struct SessionOp {
  std::uint32_t cipher;
  std::uint32_t mac;
  std::uint32_t keylen;
  const std::uint8_t* key;
  std::uint32_t mackeylen;
  const std::uint8_t* mackey;
  std::uint32_t ses;
};
struct CryptOp {
  std::uint32_t ses;
  std::uint16_t op;
  std::uint16_t flags;
  std::uint32_t len;
  const std::uint8_t* src;
  std::uint8_t* dst;
  std::uint8_t* mac;
  std::uint8_t* iv;
};
struct AuthOp {
  std::uint32_t ses;
  std::uint16_t op;
  std::uint16_t flags;
  std::uint32_t len;
  std::uint32_t auth_len;
  const std::uint8_t* auth_src;
  const std::uint8_t* src;
  std::uint8_t* dst;
  std::uint8_t* tag;
  std::uint32_t tag_len;
  std::uint8_t* iv;
  std::uint32_t iv_len;
};
struct InfoOp {
  std::uint32_t ses;
  std::array<char, 64> cipher_name;
  std::array<char, 64> cipher_driver;
  std::array<char, 64> hash_name;
  std::array<char, 64> hash_driver;
  std::uint16_t alignmask;
  std::uint32_t flags;
};
struct CopyOp {
  std::uint32_t to;
  std::uint32_t from;
};

const unsigned long gsession = _IOWR('c', 102, SessionOp);
const unsigned long fsession = _IOW('c', 103, std::uint32_t);
const unsigned long crypt_call = _IOWR('c', 104, CryptOp);
const unsigned long asymfeat = _IOR('c', 106, std::uint32_t);
const unsigned long info_call = _IOWR('c', 107, InfoOp);
const unsigned long authcrypt = _IOWR('c', 109, AuthOp);
const unsigned long cphash = _IOW('c', 112, CopyOp);

constexpr std::uint32_t des_cbc = 1;
constexpr std::uint32_t des3_cbc = 2;
constexpr std::uint32_t aes_cbc = 11;
constexpr std::uint32_t aes_ctr = 21;
constexpr std::uint32_t aes_xts = 22;
constexpr std::uint32_t aes_ecb = 23;
constexpr std::uint32_t aes_gcm = 50;
constexpr std::uint32_t md5 = 13;
constexpr std::uint32_t sha1 = 14;
constexpr std::uint32_t sha256_hmac = 18;
constexpr std::uint32_t sha224 = 103;
constexpr std::uint32_t sha256 = 104;
constexpr std::uint32_t sha384 = 105;
constexpr std::uint32_t sha512 = 106;
constexpr std::uint16_t update = 1;
constexpr std::uint16_t final = 2;
constexpr std::uint16_t write_iv = 4;
constexpr std::uint16_t no_zc = 8;
constexpr std::uint16_t reset = 64;

Bytes numbered(std::size_t bytes, unsigned first = 0) {
  Bytes data(bytes);
  std::iota(data.begin(), data.end(), static_cast<std::uint8_t>(first));
  return data;
}

class Device {
 public:
  explicit Device(int flags = O_RDWR | O_CLOEXEC) : number_(open("/dev/crypto", flags)) {
    REQUIRE(number_ >= 0);
  }
  explicit Device(const Device& other) : number_(dup(other.number_)) {}
  Device& operator=(const Device&) = delete;
  ~Device() { shut(); }
  void shut() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }
  [[nodiscard]] int number() const { return number_; }

  // 0 or the errno.
  int call(unsigned long request, void* argument) const {
    return ioctl(number_, request, argument) == 0 ? 0 : errno;
  }
  int make(SessionOp& op) const { return call(gsession, &op); }
  std::uint32_t cipher(std::uint32_t which, const Bytes& key) const {
    SessionOp op{};
    op.cipher = which;
    op.keylen = static_cast<std::uint32_t>(key.size());
    op.key = key.data();
    REQUIRE(make(op) == 0);
    return op.ses;
  }
  std::uint32_t digest(std::uint32_t which, const Bytes& key = {}) const {
    SessionOp op{};
    op.mac = which;
    op.mackeylen = static_cast<std::uint32_t>(key.size());
    op.mackey = key.data();
    REQUIRE(make(op) == 0);
    return op.ses;
  }
  int free(std::uint32_t session) const { return call(fsession, &session); }
  int crypt(CryptOp op) const { return call(crypt_call, &op); }
  int run(std::uint32_t session, std::uint16_t direction, const Bytes& in, std::uint8_t* out,
          std::uint8_t* iv, std::uint16_t flags = 0) const {
    return crypt({.ses = session,
                  .op = direction,
                  .flags = flags,
                  .len = static_cast<std::uint32_t>(in.size()),
                  .src = in.data(),
                  .dst = out,
                  .mac = nullptr,
                  .iv = iv});
  }
  int hash(std::uint32_t session, std::uint16_t flags, const Bytes& in, std::uint8_t* digest) const {
    return crypt({.ses = session,
                  .op = 0,
                  .flags = flags,
                  .len = static_cast<std::uint32_t>(in.size()),
                  .src = in.data(),
                  .dst = nullptr,
                  .mac = digest,
                  .iv = nullptr});
  }
  int copy(std::uint32_t to, std::uint32_t from) const {
    CopyOp op{.to = to, .from = from};
    return call(cphash, &op);
  }

 private:
  int number_;
};

Bytes reference(const char* name, const Bytes& key, const Bytes& iv, bool encrypt, const Bytes& in) {
  EVP_CIPHER* cipher = EVP_CIPHER_fetch(nullptr, name, "provider=default");
  REQUIRE(cipher != nullptr);
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  Bytes out(in.size() + 16);
  int bytes = 0;
  REQUIRE(EVP_CipherInit_ex2(context, cipher, key.data(), iv.empty() ? nullptr : iv.data(), encrypt ? 1 : 0,
                             nullptr) == 1);
  EVP_CIPHER_CTX_set_padding(context, 0);
  REQUIRE(EVP_CipherUpdate(context, out.data(), &bytes, in.data(), static_cast<int>(in.size())) == 1);
  out.resize(static_cast<std::size_t>(bytes));
  EVP_CIPHER_CTX_free(context);
  EVP_CIPHER_free(cipher);
  return out;
}

Bytes reference_digest(const char* name, const Bytes& in) {
  EVP_MD* digest = EVP_MD_fetch(nullptr, name, "provider=default");
  REQUIRE(digest != nullptr);
  Bytes out(static_cast<std::size_t>(EVP_MD_get_size(digest)));
  REQUIRE(EVP_Digest(in.data(), in.size(), out.data(), nullptr, digest, nullptr) == 1);
  EVP_MD_free(digest);
  return out;
}

// A whole page or more, so that its alignment and protection can be chosen.
class Pages {
 public:
  explicit Pages(std::size_t bytes) : bytes_(bytes) {
    void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(address != MAP_FAILED);
    data_ = static_cast<std::uint8_t*>(address);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(data_, bytes_); }
  void protect(int protection) { REQUIRE(mprotect(data_, bytes_, protection) == 0); }
  [[nodiscard]] std::uint8_t* data() const { return data_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_;
};

// On the stand-in: exactly one violation with these words since the last look. On the module: nothing.
void expect_violation(const std::string& words) {
  Control* control = Control::find();
  if (control == nullptr) return;
  const auto violations = control->take_violations();
  REQUIRE(violations.size() == 1);
  INFO(violations[0]);
  CHECK(violations[0].find(words) != std::string::npos);
}

// As it is at first, whatever other programs have set.
Control* stand_in() {
  Control* control = Control::find();
  REQUIRE(control != nullptr);
  REQUIRE(control->set("defaults=1"));
  return control;
}

// Settings of one test, gone after it.
class Setting {
 public:
  Setting(Control& control, const std::string& setting, std::string undo)
      : control_(control), undo_(std::move(undo)) {
    REQUIRE(control.set(setting));
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { static_cast<void>(control_.set(undo_)); }

 private:
  Control& control_;
  std::string undo_;
};

const Bytes key128 = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6,
                      0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c};
const Bytes iv_zero(16, 0);

}  // namespace

TEST_CASE("device: it is a character device", "[device]") {
  const Device device;
  struct stat status {};
  REQUIRE(fstat(device.number(), &status) == 0);
  CHECK(S_ISCHR(status.st_mode));
  CHECK(access("/dev/crypto", R_OK | W_OK) == 0);
}

TEST_CASE("device: AES-128-CBC of NIST SP 800-38A, in both directions and in place", "[device]") {
  const Device device;
  const Bytes plain = {0x6b, 0xc1, 0xbe, 0xe2, 0x2e, 0x40, 0x9f, 0x96, 0xe9, 0x3d, 0x7e,
                       0x11, 0x73, 0x93, 0x17, 0x2a, 0xae, 0x2d, 0x8a, 0x57, 0x1e, 0x03,
                       0xac, 0x9c, 0x9e, 0xb7, 0x6f, 0xac, 0x45, 0xaf, 0x8e, 0x51};
  const Bytes secret = {0x76, 0x49, 0xab, 0xac, 0x81, 0x19, 0xb2, 0x46, 0xce, 0xe9, 0x8e,
                        0x9b, 0x12, 0xe9, 0x19, 0x7d, 0x50, 0x86, 0xcb, 0x9b, 0x50, 0x72,
                        0x19, 0xee, 0x95, 0xdb, 0x11, 0x3a, 0x91, 0x76, 0x78, 0xb2};
  Bytes iv = numbered(16);
  Bytes out(32);
  const std::uint32_t session = device.cipher(aes_cbc, key128);
  REQUIRE(device.run(session, 0, plain, out.data(), iv.data()) == 0);
  CHECK(out == secret);
  CHECK(iv == numbered(16));
  REQUIRE(device.run(session, 1, secret, out.data(), iv.data()) == 0);
  CHECK(out == plain);
  Bytes place = plain;
  REQUIRE(device.run(session, 0, place, place.data(), iv.data()) == 0);
  CHECK(place == secret);
  CHECK(device.free(session) == 0);
  CHECK(device.run(session, 0, plain, out.data(), iv.data()) == EINVAL);
}

TEST_CASE("device: each cipher as the default provider has it, at any alignment", "[device]") {
  struct Row {
    std::uint32_t number;
    const char* name;
    std::size_t key_bytes;
    std::size_t iv_bytes;
  };
  const Device device;
  const std::size_t shift = GENERATE(0U, 1U, 4U);
  for (const Row& row : {Row{aes_cbc, "AES-128-CBC", 16, 16}, Row{aes_cbc, "AES-192-CBC", 24, 16},
                         Row{aes_cbc, "AES-256-CBC", 32, 16}, Row{aes_ecb, "AES-128-ECB", 16, 0},
                         Row{aes_ecb, "AES-256-ECB", 32, 0}, Row{aes_ctr, "AES-256-CTR", 32, 16},
                         Row{aes_xts, "AES-128-XTS", 32, 16}, Row{aes_xts, "AES-256-XTS", 64, 16},
                         Row{des3_cbc, "DES-EDE3-CBC", 24, 8}}) {
    INFO(row.name << ", shifted by " << shift);
    const Bytes key = numbered(row.key_bytes, 3);
    Bytes iv = numbered(row.iv_bytes, 0xf8);
    const std::uint32_t session = device.cipher(row.number, key);
    // XTS is cut into pages where it is not aligned.
    const std::size_t bytes = row.number == aes_xts ? 4096 : 9600;
    const Bytes plain = numbered(bytes, 7);
    Pages in(4 * 4096);
    Pages out(4 * 4096);
    std::copy(plain.begin(), plain.end(), in.data() + shift);
    CryptOp op{.ses = session,
               .op = 0,
               .flags = 0,
               .len = static_cast<std::uint32_t>(bytes),
               .src = in.data() + shift,
               .dst = out.data() + shift,
               .mac = nullptr,
               .iv = iv.empty() ? nullptr : iv.data()};
    REQUIRE(device.crypt(op) == 0);
    const Bytes secret = reference(row.name, key, iv, true, plain);
    CHECK(std::equal(secret.begin(), secret.end(), out.data() + shift));
    op.op = 1;
    op.src = out.data() + shift;
    op.dst = out.data() + shift;
    REQUIRE(device.crypt(op) == 0);
    CHECK(std::equal(plain.begin(), plain.end(), out.data() + shift));
    CHECK(device.free(session) == 0);
  }
}

TEST_CASE("device: without an IV the session goes on with its own", "[device]") {
  const Device device;
  const std::uint32_t which = GENERATE(aes_cbc, aes_ctr);
  const std::uint32_t session = device.cipher(which, key128);
  const Bytes plain = numbered(96);
  const Bytes whole =
      reference(which == aes_cbc ? "AES-128-CBC" : "AES-128-CTR", key128, numbered(16), true, plain);
  Bytes iv = numbered(16);
  Bytes out(96);
  REQUIRE(device.run(session, 0, {plain.begin(), plain.begin() + 32}, out.data(), iv.data()) == 0);
  REQUIRE(device.run(session, 0, {plain.begin() + 32, plain.end()}, out.data() + 32, nullptr) == 0);
  CHECK(out == whole);
  // A fresh session begins with zeros.
  const std::uint32_t fresh = device.cipher(aes_cbc, key128);
  REQUIRE(device.run(fresh, 0, plain, out.data(), nullptr) == 0);
  CHECK(out == reference("AES-128-CBC", key128, iv_zero, true, plain));
}

TEST_CASE("device: WRITE_IV gives the next IV", "[device]") {
  const Device device;
  Bytes out(48);
  Bytes iv = numbered(16);
  const std::uint32_t cbc = device.cipher(aes_cbc, key128);
  REQUIRE(device.run(cbc, 0, numbered(48), out.data(), iv.data(), write_iv) == 0);
  CHECK(std::equal(iv.begin(), iv.end(), out.begin() + 32));
  // A counter is rounded up to whole blocks, and wraps.
  const std::uint32_t ctr = device.cipher(aes_ctr, key128);
  iv.assign(16, 0xff);
  REQUIRE(device.run(ctr, 0, numbered(37), out.data(), iv.data(), write_iv) == 0);
  Bytes expected(16, 0);
  expected[15] = 2;
  CHECK(iv == expected);
}

TEST_CASE("device: lengths", "[device]") {
  const Device device;
  Bytes iv = numbered(16);
  Bytes out(64, 0x11);
  const std::uint32_t session = device.cipher(aes_cbc, key128);
  for (const std::size_t bytes : {1U, 15U, 17U, 20U, 33U}) {
    CHECK(device.run(session, 0, numbered(bytes), out.data(), iv.data()) == EINVAL);
  }
  CHECK(out == Bytes(64, 0x11));
  CHECK(device.run(session, 0, {}, out.data(), iv.data()) == 0);
  CHECK(out == Bytes(64, 0x11));
  const std::uint32_t ctr = device.cipher(aes_ctr, key128);
  CHECK(device.run(ctr, 0, numbered(1), out.data(), iv.data()) == 0);
  const std::uint32_t xts = device.cipher(aes_xts, numbered(32));
  CHECK(device.run(xts, 0, numbered(24), out.data(), iv.data()) == EINVAL);
}

TEST_CASE("device: 64 KiB and more", "[device]") {
  const Device device;
  Control* control = Control::find();
  const bool daemon = control != nullptr && control->is_daemon();
  const std::uint32_t session = device.cipher(aes_cbc, key128);
  for (const std::size_t bytes : {std::size_t{65536}, std::size_t{1} << 20U}) {
    const Bytes plain = numbered(bytes);
    Bytes out(bytes);
    Bytes iv = numbered(16);
    const int error = device.run(session, 0, plain, out.data(), iv.data());
    if (daemon && bytes > 65536) {
      CHECK(error == EINVAL);
      expect_violation("CUSE");
      continue;
    }
    REQUIRE(error == 0);
    CHECK(out == reference("AES-128-CBC", key128, numbered(16), true, plain));
  }
}

TEST_CASE("device: sessions that cannot be", "[device]") {
  const Device device;
  const Bytes key = numbered(600);
  const auto make = [&](std::uint32_t cipher, std::uint32_t key_bytes, std::uint32_t mac = 0,
                        std::uint32_t mac_key_bytes = 0) {
    SessionOp op{};
    op.cipher = cipher;
    op.keylen = key_bytes;
    op.key = key.data();
    op.mac = mac;
    op.mackeylen = mac_key_bytes;
    op.mackey = key.data();
    return device.make(op);
  };
  CHECK(make(0, 16) == EINVAL);
  for (const std::uint32_t unknown : {4U, 5U, 12U, 13U, 60U, 109U, 110U, 1000U}) {
    CHECK(make(unknown, 16) == EINVAL);
  }
  CHECK(make(0, 0, 99) == EINVAL);
  for (const std::uint32_t bytes : {0U, 8U, 15U, 17U, 20U, 33U, 48U, 64U, 65U}) {
    CHECK(make(aes_cbc, bytes) == EINVAL);
  }
  CHECK(make(des_cbc, 8) == 0);
  CHECK(make(des_cbc, 16) == EINVAL);
  CHECK(make(des3_cbc, 16) == EINVAL);
  CHECK(make(des3_cbc, 24) == 0);
  CHECK(make(aes_xts, 16) == EINVAL);
  CHECK(make(aes_xts, 65) == EINVAL);
  CHECK(make(0, 0, sha256_hmac, 512) == 0);
  CHECK(make(0, 0, sha256_hmac, 513) == EINVAL);
  // Weak keys are keys.
  const Bytes weak(24, 1);
  SessionOp op{};
  op.cipher = des3_cbc;
  op.keylen = 24;
  op.key = weak.data();
  CHECK(device.make(op) == 0);
  op.key = nullptr;
  CHECK(device.make(op) == EFAULT);
  CHECK(device.call(gsession, nullptr) == EFAULT);
}

TEST_CASE("device: numbers that it does not know", "[device]") {
  const Device device;
  std::array<std::uint64_t, 64> argument{};
  for (const unsigned long request : {0xC0506369UL, 0xC01C6366UL, 0xC01C6368UL, 0xC02C636DUL, 0x4030636EUL,
                                      0x8030636FUL, 0xC0306367UL, 0x6365UL, 0UL}) {
    if (sizeof(void*) == 4) break;
    INFO(std::hex << request);
    CHECK(device.call(request, argument.data()) == EINVAL);
  }
  std::uint32_t features = 7;
  CHECK(device.call(asymfeat, &features) == 0);
  CHECK(features == 0);
}

TEST_CASE("device: calls that cannot be", "[device]") {
  const Device device;
  Bytes out(16);
  Bytes iv = numbered(16);
  const std::uint32_t session = device.cipher(aes_cbc, key128);
  CHECK(device.run(session + 1, 0, numbered(16), out.data(), iv.data()) == EINVAL);
  CHECK(device.run(session, 2, numbered(16), out.data(), iv.data()) == EINVAL);
  CHECK(device.call(crypt_call, nullptr) == EFAULT);
  CHECK(device.call(fsession, nullptr) == EFAULT);
  auto* nowhere = reinterpret_cast<std::uint8_t*>(std::uintptr_t{16});
  CHECK(device.run(session, 0, numbered(16), out.data(), nowhere) == EFAULT);
  // The slow path takes a wrong address for what it is.
  CryptOp op{};
  op.ses = session;
  op.flags = no_zc;
  op.len = 16;
  op.dst = out.data();
  op.src = nowhere;
  CHECK(device.crypt(op) == EFAULT);
  op.src = out.data();
  op.dst = nowhere;
  CHECK(device.crypt(op) == EFAULT);
  // It still works.
  CHECK(device.run(session, 0, numbered(16), out.data(), iv.data()) == 0);
}

TEST_CASE("device: an unknown session is freed without a complaint", "[device]") {
  const Device device;
  CHECK(device.free(0x12345678) == 0);
}

TEST_CASE("device: many sessions, all with different ids", "[device]") {
  const Device device;
  std::set<std::uint32_t> ids;
  for (unsigned i = 0; i < 100; ++i) ids.insert(device.cipher(aes_cbc, numbered(16, i)));
  CHECK(ids.size() == 100);
  Bytes out(16);
  Bytes iv = numbered(16);
  for (const std::uint32_t id : ids) CHECK(device.run(id, 0, numbered(16), out.data(), iv.data()) == 0);
}

TEST_CASE("device: the names of algorithm and driver", "[device]") {
  const Device device;
  InfoOp info{};
  info.ses = device.cipher(aes_cbc, key128);
  REQUIRE(device.call(info_call, &info) == 0);
  CHECK(std::string(info.cipher_name.data()) == "cbc(aes)");
  CHECK(std::string(info.cipher_driver.data()).find("aes") != std::string::npos);
  CHECK(info.hash_name[0] == '\0');
  CHECK(((info.alignmask + 1) & info.alignmask) == 0);
  info.ses = device.digest(sha256);
  REQUIRE(device.call(info_call, &info) == 0);
  CHECK(info.cipher_name[0] == '\0');
  CHECK(std::string(info.hash_name.data()) == "sha256");
  CHECK(std::string(info.hash_driver.data()).starts_with("sha256-"));
  info.ses += 1;
  CHECK(device.call(info_call, &info) == EINVAL);
}

TEST_CASE("device: digests at once and in pieces", "[device]") {
  struct Row {
    std::uint32_t number;
    const char* name;
  };
  const Device device;
  for (const Row& row : {Row{md5, "MD5"}, Row{sha1, "SHA1"}, Row{sha224, "SHA2-224"}, Row{sha256, "SHA2-256"},
                         Row{sha384, "SHA2-384"}, Row{sha512, "SHA2-512"}}) {
    INFO(row.name);
    const std::uint32_t session = device.digest(row.number);
    for (const std::size_t bytes : {0U, 1U, 64U, 1000U, 20000U}) {
      const Bytes message = numbered(bytes);
      const Bytes expected = reference_digest(row.name, message);
      Bytes digest(64, 0xee);
      REQUIRE(device.hash(session, 0, message, digest.data()) == 0);
      CHECK(std::equal(expected.begin(), expected.end(), digest.begin()));
      CHECK(std::all_of(digest.begin() + static_cast<std::ptrdiff_t>(expected.size()), digest.end(),
                        [](std::uint8_t byte) { return byte == 0xee; }));
      digest.assign(64, 0xee);
      if (bytes < 3) continue;
      const auto cut = static_cast<std::ptrdiff_t>(bytes / 3);
      REQUIRE(device.hash(session, update | reset, {message.begin(), message.begin() + cut}, nullptr) == 0);
      REQUIRE(device.hash(session, update, {message.begin() + cut, message.begin() + 2 * cut}, nullptr) == 0);
      SECTION(std::string(row.name) + " with data in the last call " + std::to_string(bytes)) {
        REQUIRE(device.hash(session, update | final, {message.begin() + 2 * cut, message.end()},
                            digest.data()) == 0);
        CHECK(std::equal(expected.begin(), expected.end(), digest.begin()));
      }
      SECTION(std::string(row.name) + " without " + std::to_string(bytes)) {
        REQUIRE(device.hash(session, update, {message.begin() + 2 * cut, message.end()}, nullptr) == 0);
        REQUIRE(device.hash(session, final, {}, digest.data()) == 0);
        CHECK(std::equal(expected.begin(), expected.end(), digest.begin()));
      }
    }
    CHECK(device.free(session) == 0);
  }
}

TEST_CASE("device: RESET drops a message half way", "[device]") {
  const Device device;
  const std::uint32_t session = device.digest(sha256);
  Bytes digest(32);
  REQUIRE(device.hash(session, update | reset, numbered(100), nullptr) == 0);
  REQUIRE(device.hash(session, update | reset, numbered(70), nullptr) == 0);
  REQUIRE(device.hash(session, final, {}, digest.data()) == 0);
  CHECK(digest == reference_digest("SHA2-256", numbered(70)));
  REQUIRE(device.hash(session, final | reset, {}, digest.data()) == 0);
  CHECK(digest == reference_digest("SHA2-256", {}));
}

TEST_CASE("device: HMAC, alone and with a cipher", "[device]") {
  const Device device;
  const Bytes message = numbered(160);
  for (const std::size_t key_bytes : {0U, 20U, 64U, 200U}) {
    const Bytes key = numbered(key_bytes, 9);
    const std::uint32_t session = device.digest(sha256_hmac, key);
    Bytes expected(32);
    Bytes mac(32);
    const std::uint8_t none = 0;
    HMAC(EVP_sha256(), key.empty() ? &none : key.data(), static_cast<int>(key_bytes), message.data(),
         message.size(), expected.data(), nullptr);
    REQUIRE(device.hash(session, 0, message, mac.data()) == 0);
    CHECK(mac == expected);
  }
  const Bytes mac_key = numbered(20, 9);
  SessionOp op{};
  op.cipher = aes_cbc;
  op.keylen = 16;
  op.key = key128.data();
  op.mac = sha256_hmac;
  op.mackeylen = 20;
  op.mackey = mac_key.data();
  REQUIRE(device.make(op) == 0);
  Bytes expected(32);
  HMAC(EVP_sha256(), mac_key.data(), 20, message.data(), message.size(), expected.data(), nullptr);
  Bytes mac(32);
  Bytes out(160);
  Bytes iv = numbered(16);
  CryptOp request{.ses = op.ses,
                  .op = 0,
                  .flags = 0,
                  .len = 160,
                  .src = message.data(),
                  .dst = out.data(),
                  .mac = mac.data(),
                  .iv = iv.data()};
  REQUIRE(device.crypt(request) == 0);
  CHECK(mac == expected);
  CHECK(out == reference("AES-128-CBC", key128, numbered(16), true, message));
}

TEST_CASE("device: a digest's state is copied", "[device]") {
  const Device device;
  const std::uint32_t one = device.digest(sha256);
  const std::uint32_t other = device.digest(sha256);
  Bytes digest(32);
  REQUIRE(device.hash(one, update | reset, numbered(100), nullptr) == 0);
  REQUIRE(device.copy(other, one) == 0);
  REQUIRE(device.hash(other, update, numbered(50), nullptr) == 0);
  REQUIRE(device.hash(one, final, {}, digest.data()) == 0);
  CHECK(digest == reference_digest("SHA2-256", numbered(100)));
  REQUIRE(device.hash(other, final, {}, digest.data()) == 0);
  Bytes both = numbered(100);
  const Bytes more = numbered(50);
  both.insert(both.end(), more.begin(), more.end());
  CHECK(digest == reference_digest("SHA2-256", both));
  const std::uint32_t cipher = device.cipher(aes_cbc, key128);
  CHECK(device.copy(one, one) == EDEADLK);
  CHECK(device.copy(one, 0x12345678) == ENOENT);
  CHECK(device.copy(0x12345678, one) == ENOENT);
  CHECK(device.copy(one, cipher) == EINVAL);
  CHECK(device.copy(cipher, one) == EINVAL);
  const Device elsewhere;
  const std::uint32_t foreign = elsewhere.digest(sha256);
  if (foreign != one && foreign != other) CHECK(device.copy(one, foreign) == ENOENT);
}

TEST_CASE("device: an empty update finishes", "[device]") {
  const Device device;
  const std::uint32_t session = device.digest(sha256);
  Bytes digest(32);
  REQUIRE(device.hash(session, update | reset, numbered(100), nullptr) == 0);
  REQUIRE(device.hash(session, update, {}, digest.data()) == 0);
  CHECK(digest == reference_digest("SHA2-256", numbered(100)));
  expect_violation("empty update");
}

TEST_CASE("device: going on after the end gives garbage and no error", "[device]") {
  const Device device;
  const std::uint32_t session = device.digest(sha256);
  Bytes digest(32);
  REQUIRE(device.hash(session, update | reset, numbered(100), nullptr) == 0);
  REQUIRE(device.hash(session, final, {}, digest.data()) == 0);
  REQUIRE(device.hash(session, update, numbered(100), nullptr) == 0);
  expect_violation("without RESET");
  REQUIRE(device.hash(session, final, {}, digest.data()) == 0);
  CHECK(digest != reference_digest("SHA2-256", numbered(100)));
  expect_violation("without RESET");
  REQUIRE(device.hash(session, 0, numbered(100), digest.data()) == 0);
  CHECK(digest == reference_digest("SHA2-256", numbered(100)));
}

TEST_CASE("device: sessions belong to what was opened, whatever the descriptor", "[device]") {
  Device first;
  const Device second;
  Bytes out(16);
  Bytes iv = numbered(16);
  const std::uint32_t session = first.cipher(aes_cbc, key128);
  const std::uint32_t other = second.cipher(aes_cbc, key128);
  if (session != other) CHECK(second.run(session, 0, numbered(16), out.data(), iv.data()) == EINVAL);
  Device copy(first);
  first.shut();
  CHECK(copy.run(session, 0, numbered(16), out.data(), iv.data()) == 0);
  const int high = fcntl(copy.number(), F_DUPFD_CLOEXEC, 500);
  REQUIRE(high >= 500);
  copy.shut();
  CryptOp op{.ses = session,
             .op = 0,
             .flags = 0,
             .len = 16,
             .src = key128.data(),
             .dst = out.data(),
             .mac = nullptr,
             .iv = iv.data()};
  CHECK(ioctl(high, crypt_call, &op) == 0);
  close(high);
  errno = 0;
  CHECK(ioctl(high, crypt_call, &op) == -1);
  CHECK(errno == EBADF);
}

TEST_CASE("device: a child shares the sessions, which is not how it should be used", "[device]") {
  const Device device;
  const std::uint32_t session = device.cipher(aes_cbc, key128);
  Bytes out(16);
  Bytes iv = numbered(16);
  const auto in_child = [&](auto action) {
    const pid_t child = fork();
    if (child == 0) _exit(action() ? 0 : 1);
    int status = 1;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  CHECK(in_child([&] { return device.run(session, 0, key128, out.data(), iv.data()) == 0; }));
  expect_violation("uses a session");
  CHECK(in_child([&] { return device.free(session) == 0; }));
  expect_violation("frees a session");
  CHECK(device.run(session, 0, key128, out.data(), iv.data()) == EINVAL);
  // One of its own.
  CHECK(in_child([&] {
    const int own = open("/dev/crypto", O_RDWR | O_CLOEXEC);
    SessionOp op{};
    op.cipher = aes_cbc;
    op.keylen = 16;
    op.key = key128.data();
    return own >= 0 && ioctl(own, gsession, &op) == 0 && close(own) == 0;
  }));
  if (Control* control = Control::find()) CHECK(control->count("violations") == 0);
}

TEST_CASE("device: threads", "[device]") {
  const Device shared;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  const Bytes plain = numbered(1024);
  const Bytes expected = reference("AES-128-CBC", key128, numbered(16), true, plain);
  for (unsigned number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      const int own = open("/dev/crypto", O_RDWR | O_CLOEXEC);
      for (const int file : {own, shared.number()}) {
        SessionOp op{};
        op.cipher = aes_cbc;
        op.keylen = 16;
        op.key = key128.data();
        if (ioctl(file, gsession, &op) != 0) ++wrong;
        for (unsigned i = 0; i < 50; ++i) {
          Bytes iv = numbered(16);
          Bytes out(1024);
          CryptOp request{.ses = op.ses,
                          .op = 0,
                          .flags = 0,
                          .len = 1024,
                          .src = plain.data(),
                          .dst = out.data(),
                          .mac = nullptr,
                          .iv = iv.data()};
          if (ioctl(file, crypt_call, &request) != 0 || out != expected) ++wrong;
        }
        if (ioctl(file, fsession, &op.ses) != 0) ++wrong;
      }
      close(own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

// ---- On the stand-in only.

TEST_CASE("stand-in: what would damage a kernel", "[standin]") {
  Control* control = stand_in();
  const Device device;
  Pages page(4096);
  Bytes iv = numbered(16);
  const std::uint32_t session = device.cipher(aes_cbc, key128);
  CryptOp op{.ses = session,
             .op = 0,
             .flags = 0,
             .len = 16,
             .src = page.data(),
             .dst = page.data(),
             .mac = nullptr,
             .iv = iv.data()};
  SECTION("a read-only destination") {
    page.protect(PROT_READ);
    CHECK(device.crypt(op) == EFAULT);
    // Behind a real device only the kernel sees it.
    if (!control->is_daemon()) expect_violation("cannot be written");
  }
  SECTION("a source that cannot be read") {
    page.protect(PROT_NONE);
    CHECK(device.crypt(op) == EFAULT);
    if (!control->is_daemon()) expect_violation("cannot be read");
  }
  SECTION("source and destination overlap") {
    op.dst = page.data() + 16;
    op.len = 64;
    CHECK(device.crypt(op) == 0);
    expect_violation("overlap");
  }
  SECTION("a digest's state copied to another algorithm") {
    const std::uint32_t from = device.digest(sha256);
    const std::uint32_t to = device.digest(md5);
    REQUIRE(device.hash(from, update | reset, numbered(64), nullptr) == 0);
    CHECK(device.copy(to, from) == 0);
    expect_violation("CIOCCPHASH");
  }
  SECTION("CIOCCRYPT on an AEAD") {
    op.ses = device.cipher(aes_gcm, key128);
    CHECK(device.crypt(op) == EINVAL);
    expect_violation("gcm(aes)");
  }
  SECTION("flags of AEAD and TLS") {
    op.flags = GENERATE(std::uint16_t{16}, std::uint16_t{32});
    CHECK(device.crypt(op) == EINVAL);
    expect_violation("flags");
  }
  SECTION("CIOCAUTHCRYPT") {
    AuthOp auth{};
    auth.ses = session;
    CHECK(device.call(authcrypt, &auth) == EINVAL);
    expect_violation("CIOCAUTHCRYPT");
  }
  SECTION("XTS over pages that are not used directly") {
    op.ses = device.cipher(aes_xts, numbered(32));
    Pages data(3 * 4096);
    op.src = data.data();
    op.dst = data.data();
    op.len = 8192;
    op.flags = no_zc;
    CHECK(device.crypt(op) == 0);
    expect_violation("XTS of 8192");
    const Bytes expected = reference("AES-128-XTS", numbered(32), numbered(16), true, Bytes(8192, 0));
    CHECK(std::equal(expected.begin(), expected.begin() + 4096, data.data()));
    CHECK(!std::equal(expected.begin() + 4096, expected.end(), data.data() + 4096));
  }
  SECTION("XTS chained") {
    op.ses = device.cipher(aes_xts, numbered(32));
    CHECK(device.crypt(op) == 0);
    op.iv = nullptr;
    CHECK(device.crypt(op) == 0);
    expect_violation("XTS chained");
  }
  SECTION("a digest with a destination") {
    op.ses = device.digest(sha256);
    CHECK(device.crypt(op) == 0);
    expect_violation("pinned");
  }
  CHECK(control->count("violations") == 0);
}

TEST_CASE("stand-in: faults", "[standin]") {
  Control* control = stand_in();
  const Device device;
  Bytes iv = numbered(16);
  alignas(16) std::array<std::uint8_t, 64> out{};
  const std::uint32_t session = device.cipher(aes_cbc, key128);
  const Bytes plain = numbered(64);
  const auto crypt = [&] { return device.run(session, 0, plain, out.data(), iv.data()); };
  SECTION("at one call") {
    const Setting setting(*control, "fault=crypt:EIO:2", "fault=none");
    CHECK(crypt() == 0);
    CHECK(crypt() == EIO);
    CHECK(crypt() == 0);
  }
  SECTION("at every second, with the output half written") {
    const Setting setting(*control, "fault=crypt:ETIMEDOUT:2:every:dirty", "fault=none");
    CHECK(crypt() == 0);
    for (int i = 0; i < 2; ++i) {
      out.fill(0);
      CHECK(crypt() == ETIMEDOUT);
      CHECK(std::any_of(out.begin(), out.begin() + 32, [](std::uint8_t byte) { return byte != 0; }));
      CHECK(std::all_of(out.begin() + 32, out.end(), [](std::uint8_t byte) { return byte == 0; }));
      CHECK(crypt() == 0);
    }
  }
  SECTION("wrong bytes") {
    const Setting setting(*control, "fault=crypt:wrong:1", "fault=none");
    CHECK(crypt() == 0);
    const Bytes expected = reference("AES-128-CBC", key128, numbered(16), true, plain);
    CHECK(!std::equal(expected.begin(), expected.end(), out.begin()));
    CHECK(crypt() == 0);
    CHECK(std::equal(expected.begin(), expected.end(), out.begin()));
  }
  SECTION("other calls") {
    const Setting setting(*control, "fault=cphash:EINVAL:1:every", "fault=none");
    const Setting another(*control, "fault=gsession:EAGAIN:3", "fault=none");
    const std::uint32_t one = device.digest(sha256);
    const std::uint32_t other = device.digest(sha256);
    CHECK(device.copy(one, other) == EINVAL);
    SessionOp op{};
    op.mac = sha256;
    CHECK(device.make(op) == EAGAIN);
    CHECK(device.make(op) == 0);
  }
  SECTION("a limit on sessions") {
    const auto now = control->count("sessions-open");
    const Setting setting(*control, "limit=" + std::to_string(now + 1), "limit=0");
    SessionOp op{};
    op.mac = sha256;
    CHECK(device.make(op) == 0);
    SessionOp second{};
    second.mac = sha256;
    CHECK(device.make(second) == ENOMEM);
    CHECK(device.free(op.ses) == 0);
    CHECK(device.make(second) == 0);
  }
  SECTION("the device is gone") {
    const Setting setting(*control, "gone=1", "gone=0");
    CHECK(crypt() == ENODEV);
    CHECK(device.free(session) == ENODEV);
  }
  SECTION("it cannot be opened") {
    const Setting setting(*control, "refuse-open=EACCES", "refuse-open=0");
    errno = 0;
    CHECK(open("/dev/crypto", O_RDWR | O_CLOEXEC) == -1);
    CHECK(errno == EACCES);
    CHECK(crypt() == 0);
  }
  SECTION("it hangs until it is told to go on") {
    const Setting setting(*control, "fault=crypt:hang:1", "fault=none");
    std::atomic<int> result{-1};
    std::thread thread([&] { result = crypt(); });
    while (control->count("hanging") == 0) std::this_thread::yield();
    CHECK(result == -1);
    // Other sessions go on until somebody asks for the one that hangs.
    Bytes other(16);
    const std::uint32_t free_one = device.cipher(aes_ecb, key128);
    CHECK(device.run(free_one, 0, key128, other.data(), nullptr) == 0);
    control->release();
    thread.join();
    CHECK(result == 0);
  }
  SECTION("an algorithm that the kernel has not") {
    const Setting setting(*control, "absent=xts(aes)", "absent=none");
    const Bytes key = numbered(32);
    SessionOp op{};
    op.cipher = aes_xts;
    op.keylen = 32;
    op.key = key.data();
    CHECK(device.make(op) == EINVAL);
  }
  SECTION("weak keys, as in FIPS mode") {
    const Setting setting(*control, "fips=1", "fips=0");
    const Bytes key(32, 1);
    SessionOp op{};
    op.key = key.data();
    op.keylen = 24;
    op.cipher = des3_cbc;
    CHECK(device.make(op) == EINVAL);
    op.keylen = 32;
    op.cipher = aes_xts;
    CHECK(device.make(op) == EINVAL);
  }
}

TEST_CASE("stand-in: drivers", "[standin]") {
  Control* control = stand_in();
  const Device device;
  const auto driver = [&](std::uint32_t session) {
    InfoOp info{};
    info.ses = session;
    REQUIRE(device.call(info_call, &info) == 0);
    return std::string(info.cipher_name[0] == '\0' ? info.hash_driver.data() : info.cipher_driver.data()) +
           " " + std::to_string(info.alignmask) + " " + std::to_string(info.flags);
  };
  CHECK(driver(device.cipher(aes_cbc, key128)) == "cbc-aes-sun8i-ce 15 0");
  CHECK(driver(device.cipher(des3_cbc, numbered(24))) == "cbc-des3-sun8i-ce 15 0");
  CHECK(driver(device.digest(sha256)) == "sha256-sun8i-ce 3 0");
  const Setting setting(*control, "driver=generic", "driver=sun8i-ce");
  CHECK(driver(device.cipher(aes_cbc, key128)) == "cbc(aes-generic) 0 0");
  CHECK(driver(device.cipher(aes_xts, numbered(32))) == "xts(ecb(aes-generic)) 0 0");
  CHECK(driver(device.digest(sha256)) == "sha256-generic 0 0");
  CHECK(driver(device.digest(sha256_hmac)) == "hmac(sha256-generic) 0 0");
  REQUIRE(control->set("driver=*(aes)=sun4i-ss"));
  REQUIRE(control->set("driver=sha256=sha256-of-mine"));
  CHECK(driver(device.cipher(aes_cbc, key128)) == "cbc-aes-sun4i-ss 3 1");
  CHECK(driver(device.digest(sha256)) == "sha256-of-mine 0 0");
  const Setting mask(*control, "alignmask=7", "alignmask=auto");
  CHECK(driver(device.digest(sha256)) == "sha256-of-mine 7 0");
}

TEST_CASE("stand-in: counters", "[standin]") {
  Control* control = stand_in();
  const auto before = [&](const char* name) { return control->count(name); };
  const std::uint64_t files = before("files-open");
  const std::uint64_t sessions = before("sessions-open");
  const std::uint64_t calls = before("crypt");
  const std::uint64_t bytes = before("bytes");
  const std::uint64_t direct = before("zero-copy");
  const std::uint64_t slow = before("misaligned");
  const std::uint64_t pieces = before("pieces");
  {
    const Device device;
    Bytes iv = numbered(16);
    Pages data(3 * 4096);
    const std::uint32_t session = device.cipher(aes_cbc, key128);
    CHECK(before("files-open") == files + 1);
    CHECK(before("sessions-open") == sessions + 1);
    CryptOp op{.ses = session,
               .op = 0,
               .flags = 0,
               .len = 8192,
               .src = data.data(),
               .dst = data.data(),
               .mac = nullptr,
               .iv = iv.data()};
    REQUIRE(device.crypt(op) == 0);
    CHECK(before("zero-copy") == direct + 1);
    CHECK(before("pieces") == pieces + 1);
    op.src = op.dst = data.data() + 8;
    REQUIRE(device.crypt(op) == 0);
    CHECK(before("misaligned") == slow + 1);
    CHECK(before("pieces") == pieces + 3);
    CHECK(before("crypt") == calls + 2);
    CHECK(before("bytes") == bytes + 2 * 8192);
  }
  // A real device is closed a moment after close().
  while (control->is_daemon() && before("files-open") != files) std::this_thread::yield();
  CHECK(before("files-open") == files);
  CHECK(before("sessions-open") == sessions);
}

TEST_CASE("stand-in: 0 is a session like any other", "[standin]") {
  Control* control = stand_in();
  const Setting setting(*control, "first-id=0", "first-id=alternate");
  const Device device;
  const std::uint32_t session = device.cipher(aes_cbc, key128);
  CHECK(session == 0);
  CHECK(device.cipher(aes_cbc, key128) != 0);
  Bytes out(16);
  Bytes iv = numbered(16);
  CHECK(device.run(session, 0, key128, out.data(), iv.data()) == 0);
  CHECK(device.free(session) == 0);
}

// To see that a run fails.
TEST_CASE("stand-in: a violation that nobody expects", "[.violation]") {
  const Device device;
  CHECK(device.hash(device.digest(sha256), update | reset, {}, nullptr) == 0);
}
