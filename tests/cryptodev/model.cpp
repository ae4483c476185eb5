// SPDX-License-Identifier: Apache-2.0
// The modelled module. Each ioctl has two parts: what it reads, without any effect, so that a frontend that
// has to fetch the caller's memory first can call it again; and what it does.
#include "tests/cryptodev/model.h"

#include <fnmatch.h>
#include <linux/futex.h>
#include <openssl/crypto.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>
#include <vector>

namespace sunxi::standin {
namespace {

// ---- The interface: the second of each pair is that of a 32-bit caller.

struct Number {
  std::uint32_t lp64;
  std::uint32_t ilp32;
};
constexpr Number crioget{0xC0046365, 0xC0046365};
constexpr Number cioc_gsession{0xC0306366, 0xC01C6366};
constexpr Number cioc_fsession{0x40046367, 0x40046367};
constexpr Number cioc_crypt{0xC0306368, 0xC01C6368};
constexpr Number cioc_asymfeat{0x8004636A, 0x8004636A};
constexpr Number cioc_gsessinfo{0xC10C636B, 0xC10C636B};
constexpr Number cioc_authcrypt{0xC048636D, 0xC02C636D};
constexpr Number cioc_cphash{0x40086370, 0x40086370};

constexpr std::uint16_t flag_update = 1;
constexpr std::uint16_t flag_final = 2;
constexpr std::uint16_t flag_write_iv = 4;
constexpr std::uint16_t flag_no_zc = 8;
constexpr std::uint16_t flag_reset = 64;
constexpr std::uint16_t known_flags = flag_update | flag_final | flag_write_iv | flag_no_zc | flag_reset;

constexpr std::size_t most_cipher_key = 64;
constexpr std::size_t most_hash_key = 512;
constexpr std::size_t page = 4096;

// Offsets for the two word sizes.
struct Offset {
  std::size_t lp64;
  std::size_t ilp32;
};

// A structure of the caller's.
class Structure {
 public:
  Structure(Abi abi, Offset size) : wide_(abi == Abi::lp64), bytes_(pick(size)) {}

  Memory::Access fetch(Memory& memory, std::uint64_t address) {
    return memory.read(address, data_.data(), bytes_);
  }
  [[nodiscard]] bool store(Memory& memory, std::uint64_t address) const {
    return memory.write(address, data_.data(), bytes_);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  [[nodiscard]] std::uint32_t u32(Offset at) const { return get<std::uint32_t>(at); }
  [[nodiscard]] std::uint16_t u16(Offset at) const { return get<std::uint16_t>(at); }
  [[nodiscard]] std::uint64_t pointer(Offset at) const {
    return wide_ ? get<std::uint64_t>(at) : get<std::uint32_t>(at);
  }
  void put(Offset at, const void* from, std::size_t bytes) {
    std::memcpy(data_.data() + pick(at), from, bytes);
  }

 private:
  [[nodiscard]] std::size_t pick(Offset at) const { return wide_ ? at.lp64 : at.ilp32; }
  template <class Value>
  [[nodiscard]] Value get(Offset at) const {
    Value value{};
    std::memcpy(&value, data_.data() + pick(at), sizeof value);
    return value;
  }

  bool wide_;
  std::size_t bytes_;
  std::array<std::uint8_t, 268> data_{};
};

// Plaintext and keys go through these.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  [[nodiscard]] std::uint8_t* data() { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::uint8_t> bytes_;
};

// ---- Names of drivers.

bool ends_with(std::string_view text, std::string_view end) {
  return text.ends_with(end);
}

// What a driver of this style calls itself for an algorithm.
void styled(std::string_view style, std::string_view name, std::array<char, 64>& driver) {
  const auto print = [&](const char* format, std::string_view one, std::string_view two = {}) {
    std::snprintf(driver.data(), driver.size(), format, static_cast<int>(one.size()), one.data(),
                  static_cast<int>(two.size()), two.data());
  };
  const std::size_t open = name.find('(');
  const std::string_view outer = open == std::string_view::npos ? name : name.substr(0, open);
  std::string_view inner = open == std::string_view::npos ? std::string_view{} : name.substr(open + 1);
  if (!inner.empty()) inner.remove_suffix(1);
  const bool aes = inner == "aes";
  const bool plain_mode = aes && outer != "gcm" && outer != "ccm";
  if (style.starts_with("sun")) {
    if (inner == "des3_ede") inner = "des3";
    std::array<char, 64> start{};
    if (inner.empty()) {
      std::snprintf(start.data(), start.size(), "%.*s-", static_cast<int>(outer.size()), outer.data());
    } else {
      std::snprintf(start.data(), start.size(), "%.*s-%.*s-", static_cast<int>(outer.size()), outer.data(),
                    static_cast<int>(inner.size()), inner.data());
    }
    print("%.*s%.*s", start.data(), style);
  } else if (style == "aesni" && plain_mode) {
    print("%.*s-aes-aesni", outer);
  } else if (style == "ce" && plain_mode) {
    print("%.*s-aes-ce", outer);
  } else if (style == "ce" && (name == "sha1" || name == "sha224" || name == "sha256")) {
    print("%.*s-ce", name);
  } else if (style == "virtio" && name == "cbc(aes)") {
    print("%.*s", "virtio_crypto_aes_cbc");
  } else if (name == "ecb(cipher_null)") {
    print("%.*s", "ecb-cipher_null");
  } else if (outer == "xts") {
    print("%.*s(ecb(%.*s-generic))", outer, inner);
  } else if (!inner.empty()) {
    print("%.*s(%.*s-generic)", outer, inner);
  } else {
    print("%.*s-generic", name);
  }
}

void name_driver(const Settings& settings, const char* name, std::array<char, 64>& driver) {
  std::string_view chosen = "generic";
  for (const DriverRule& rule : settings.drivers) {
    if (rule.pattern[0] != '\0' && fnmatch(rule.pattern.data(), name, 0) == 0) chosen = rule.driver.data();
  }
  driver = {};
  for (const std::string_view style :
       {"sun8i-ce", "sun8i-ss", "sun4i-ss", "generic", "aesni", "ce", "virtio"}) {
    if (style == chosen) return styled(style, name, driver);
  }
  std::copy_n(chosen.begin(), std::min(chosen.size(), driver.size() - 1), driver.begin());
}

std::uint16_t alignmask_of(const Settings& settings, const std::array<char, 64>& driver, bool cipher) {
  if (settings.alignmask >= 0) return static_cast<std::uint16_t>(settings.alignmask);
  const std::string_view name(driver.data());
  if (ends_with(name, "-sun8i-ce") || ends_with(name, "-sun8i-ss")) return cipher ? 15 : 3;
  if (ends_with(name, "-sun4i-ss")) return 3;
  return ends_with(name, "-aesni") ? 15 : 0;
}

bool is_absent(const Settings& settings, std::string_view name) {
  return std::any_of(settings.absent.begin(), settings.absent.end(),
                     [&](const auto& one) { return one[0] != '\0' && name == one.data(); });
}

// ---- Faults.

struct Strike {
  FaultKind kind = FaultKind::none;
  int error = 0;
  bool dirty = false;
};

Strike strike(State& state, std::uint32_t number) {
  for (Fault& fault : state.faults) {
    const FaultKind kind = fault.kind.load();
    if (kind == FaultKind::none || fault.number != number) continue;
    const std::uint64_t call = fault.calls.fetch_add(1) + 1;
    if (fault.every ? call % fault.nth == 0 : call == fault.nth) {
      return {.kind = kind, .error = fault.error, .dirty = fault.dirty};
    }
  }
  return {};
}

// As a driver that waits for an interrupt: no signal ends it.
void hang(State& state) {
  const std::uint32_t seen = state.released.load();
  state.hanging.fetch_add(1);
  while (state.released.load() == seen) {
    const timespec limit{.tv_sec = 0, .tv_nsec = 50'000'000};
    syscall(SYS_futex, &state.released, FUTEX_WAIT, seen, &limit, nullptr, 0L);
  }
  state.hanging.fetch_sub(1);
}

// ---- Files and sessions.

std::uint32_t random_id() {
  std::uint32_t id = 0;
  if (getrandom(&id, sizeof id, 0) != sizeof id) id = 0x5eed;
  return id;
}

Session* find(State& state, const OpenFile& file, std::uint32_t id) {
  for (std::int32_t i = file.sessions; i >= 0; i = state.sessions[static_cast<std::size_t>(i)].next) {
    Session& session = state.sessions[static_cast<std::size_t>(i)];
    if (session.id == id) return &session;
  }
  return nullptr;
}

Session* take_session(State& state) {
  state.pool.enter();
  Session* session = nullptr;
  if (state.free_sessions >= 0) {
    session = &state.sessions[static_cast<std::size_t>(state.free_sessions)];
    state.free_sessions = session->next;
  } else if (state.fresh_sessions < State::most_sessions) {
    session = &state.sessions[state.fresh_sessions++];
  }
  state.pool.leave();
  if (session == nullptr) violate(state, "more sessions than the model has: do they leak?");
  return session;
}

}  // namespace

int Model::open(std::uint32_t pid, std::uint32_t& number) {
  state_.counters.opens.fetch_add(1);
  if (state_.settings.refuse_open != 0) return state_.settings.refuse_open;
  const Strike fault = strike(state_, 0);
  if (fault.kind == FaultKind::error) return fault.error;
  for (int attempt = 0; attempt < 2; ++attempt) {
    state_.pool.enter();
    for (std::size_t i = 0; i < state_.files.size(); ++i) {
      OpenFile& file = state_.files[i];
      if (file.used) continue;
      file.used = true;
      file.pid = pid;
      file.serial = state_.serial++;
      file.sessions = -1;
      file.made = 0;
      state_.pool.leave();
      state_.counters.files_open.fetch_add(1);
      number = static_cast<std::uint32_t>(i);
      return 0;
    }
    state_.pool.leave();
    settle(state_);
  }
  return ENFILE;
}

void Model::close(std::uint32_t file) {
  if (file < state_.files.size() && state_.files[file].used) close_file(state_, state_.files[file]);
}

// One ioctl.
class Model::Call {
 public:
  Call(State& state, std::uint32_t file, const Caller& caller, std::uint64_t argument, Memory& memory)
      : state_(state), file_(state.files[file]), caller_(caller), argument_(argument), memory_(memory) {}

  Answer run(std::uint32_t request) {
    const auto is = [&](const Number& number) {
      return request == (caller_.abi == Abi::lp64 ? number.lp64 : number.ilp32);
    };
    const bool compat = caller_.abi == Abi::compat;
    if (is(cioc_crypt)) return crypt();
    if (is(cioc_gsession)) return make_session();
    if (is(cioc_fsession)) return free_session();
    if (is(cioc_gsessinfo)) return describe();
    if (is(cioc_cphash) && !compat) return copy_hash();
    if (is(cioc_authcrypt) && !compat) return authenticated();
    if (is(cioc_asymfeat)) return asymmetric();
    if (is(crioget)) return duplicate();
    count(0);
    return done(EINVAL);
  }

 private:
  static constexpr Answer again{.kind = Answer::Kind::again, .error = 0};

  Answer done(int error) {
    if (error != 0) state_.counters.errors.fetch_add(1);
    return {.kind = Answer::Kind::done, .error = error};
  }
  void count(std::uint32_t number) { state_.counters.ioctls[number == 0 ? 0 : number - 100].fetch_add(1); }
  // Counts the call. 0, or the error that it ends with before any effect.
  int begin(std::uint32_t number) {
    count(number);
    fault_ = strike(state_, number);
    if (fault_.kind == FaultKind::hang && number != 104) hang(state_);
    if (state_.settings.gone) return ENODEV;
    return fault_.kind == FaultKind::error && !fault_.dirty ? fault_.error : 0;
  }
  void check_maker(std::uint32_t maker, const char* what) {
    if (maker == caller_.pid) return;
    violate(state_, "process %u %s of process %u", static_cast<unsigned>(caller_.pid), what,
            static_cast<unsigned>(maker));
  }
  // Reads one part; an error in `error`, unless there is one already.
  void fetch(std::uint64_t address, void* to, std::size_t bytes, int& error) {
    if (bytes != 0 && memory_.read(address, to, bytes) == Memory::Access::fault && error == 0) error = EFAULT;
  }
  // The session, locked. As in the module, whoever waits for it holds up the file's other sessions.
  Session* acquire(std::uint32_t id) {
    file_.lock.enter();
    Session* session = find(state_, file_, id);
    if (session != nullptr) session->lock.enter();
    file_.lock.leave();
    return session;
  }

  Answer crypt();
  int run_crypt(Session& session);
  int process(Session& session, std::uint8_t* data);
  void pieces(Session& session, std::uint8_t* data);
  [[nodiscard]] bool writes_digest() const;
  void check_hash(const Session& session, bool restarted);
  Answer make_session();
  int make(const Structure& given, Buffer& key, Buffer& hash_key, std::uint32_t& id);
  Answer free_session();
  Answer describe();
  Answer copy_hash();
  Answer authenticated();
  Answer asymmetric();
  Answer duplicate();

  State& state_;
  OpenFile& file_;
  const Caller caller_;
  const std::uint64_t argument_;
  Memory& memory_;
  Strike fault_;

  struct {
    std::uint32_t session;
    std::uint16_t op;
    std::uint16_t flags;
    std::uint32_t bytes;
    std::uint64_t src;
    std::uint64_t dst;
    std::uint64_t mac;
    std::uint64_t iv;
    bool zero_copy;
    bool misaligned;
  } request_{};
  std::array<std::uint8_t, 16> iv_{};
  std::array<std::uint8_t, 64> digest_{};
  bool digest_made_ = false;
};

// ---- CIOCCRYPT

bool Model::Call::writes_digest() const {
  return (request_.flags & flag_final) != 0 || (request_.flags & flag_update) == 0 || request_.bytes == 0;
}

Answer Model::Call::crypt() {
  Structure given(caller_.abi, {48, 28});
  int error = 0;
  if (const auto access = given.fetch(memory_, argument_); access != Memory::Access::done) {
    if (access == Memory::Access::later) return again;
    error = EFAULT;
  }
  request_.session = given.u32({0, 0});
  request_.op = given.u16({4, 4});
  request_.flags = given.u16({6, 6});
  request_.bytes = given.u32({8, 8});
  request_.src = given.pointer({16, 12});
  request_.dst = given.pointer({24, 16});
  request_.mac = given.pointer({32, 20});
  request_.iv = given.pointer({40, 24});

  // What the session is, without waiting for it.
  const CipherRow* cipher = nullptr;
  const HashRow* hash = nullptr;
  std::uint16_t alignmask = 0;
  file_.lock.enter();
  if (const Session* session = find(state_, file_, request_.session); session != nullptr) {
    cipher = session->cipher();
    hash = session->hash();
    alignmask = session->alignmask;
  }
  file_.lock.leave();
  if (error == 0 && ((cipher == nullptr && hash == nullptr) || request_.op > 1)) error = EINVAL;
  if (error == 0 && cipher != nullptr && cipher->kind == CipherKind::aead) {
    violate(state_, "CIOCCRYPT on a session of %s", cipher->name);
    error = EINVAL;
  }
  if (error == 0 && cipher != nullptr && request_.bytes % cipher->block_bytes != 0) error = EINVAL;
  if (error == 0 && (request_.flags & ~known_flags) != 0) {
    violate(state_, "CIOCCRYPT with flags 0x%x", static_cast<unsigned>(request_.flags));
    error = EINVAL;
  }
  const auto aligned = [&](std::uint64_t address) { return (address & alignmask) == 0; };
  request_.misaligned = !aligned(request_.src) || (cipher != nullptr && !aligned(request_.dst));
  request_.zero_copy = (request_.flags & flag_no_zc) == 0 && !request_.misaligned;

  const std::size_t iv_bytes = error == 0 && cipher != nullptr && request_.iv != 0 ? cipher->iv_bytes : 0;
  Buffer data(error == 0 ? request_.bytes : 0);
  fetch(request_.iv, iv_.data(), iv_bytes, error);
  if (error == 0) {
    fetch(request_.src, data.data(), data.size(), error);
    if (error != 0 && request_.zero_copy) violate(state_, "zero copy from a source that cannot be read");
  }
  const bool writes_iv = iv_bytes != 0 && (request_.flags & flag_write_iv) != 0;
  const bool writes_dst = cipher != nullptr && request_.bytes != 0;
  const bool writes_mac = hash != nullptr && request_.mac != 0 && writes_digest();
  if (error == 0) {
    memory_.will_write(argument_, given.bytes());
    if (writes_dst) memory_.will_write(request_.dst, request_.bytes);
    if (writes_mac) memory_.will_write(request_.mac, hash->digest_bytes);
    if (writes_iv) memory_.will_write(request_.iv, iv_bytes);
  }
  if (!memory_.complete()) return again;

  if (const int early = begin(104); early != 0) return done(early);
  if (error != 0) return done(error);
  Session* session = acquire(request_.session);
  if (session == nullptr) return done(EINVAL);
  if (fault_.kind == FaultKind::hang) hang(state_);
  error = process(*session, data.data());
  session->lock.leave();
  if (fault_.dirty && fault_.kind == FaultKind::error) {
    for (std::size_t i = 0; i < data.size() / 2; ++i) data.data()[i] ^= 0x99;
    if (given.store(memory_, argument_) && writes_dst) {
      static_cast<void>(memory_.write(request_.dst, data.data(), data.size() / 2));
    }
    return done(fault_.error);
  }
  if (error != 0) return done(error);
  if (fault_.kind == FaultKind::wrong) (writes_dst ? data.data()[data.size() / 2] : digest_[0]) ^= 0x10;

  if (!given.store(memory_, argument_)) error = EFAULT;
  if (writes_dst && !memory_.write(request_.dst, data.data(), data.size())) {
    if (request_.zero_copy) violate(state_, "zero copy to a destination that cannot be written");
    error = EFAULT;
  }
  if (writes_mac && !memory_.write(request_.mac, digest_.data(), hash->digest_bytes)) error = EFAULT;
  if (writes_iv && !memory_.write(request_.iv, iv_.data(), iv_bytes)) error = EFAULT;
  if (error != 0) return done(error);
  state_.counters.requests.fetch_add(1);
  state_.counters.bytes.fetch_add(request_.bytes);
  return done(0);
}

// What gives garbage without an error.
void Model::Call::check_hash(const Session& session, bool restarted) {
  if (request_.bytes == 0 && (request_.flags & (flag_update | flag_final)) == flag_update) {
    violate(state_, "an empty update, which finishes the digest");
  } else if (!restarted && session.message != Message::running) {
    violate(state_, "flags 0x%x without RESET where no message has begun",
            static_cast<unsigned>(request_.flags));
  }
}

int Model::Call::process(Session& session, std::uint8_t* data) {
  check_maker(session.pid, "uses a session");
  const CipherRow* cipher = session.cipher();
  const HashRow* hash = session.hash();
  if (hash != nullptr) {
    const bool restarted = request_.flags == 0 || (request_.flags & flag_reset) != 0;
    check_hash(session, restarted);
    if (restarted) {
      reset_hash(session.hash_state);
      session.message = Message::running;
    }
  }
  if (cipher != nullptr) {
    if (request_.iv != 0) {
      std::copy_n(iv_.begin(), cipher->iv_bytes, session.cipher_state.iv.begin());
    } else if (cipher->kind == CipherKind::aes_xts && session.xts_used && request_.bytes != 0) {
      violate(state_, "XTS chained: a data unit has no successor");
    }
    session.xts_used = true;
  }
  if (request_.bytes != 0) pieces(session, data);
  if (cipher != nullptr) std::copy_n(session.cipher_state.iv.begin(), cipher->iv_bytes, iv_.begin());
  if (hash != nullptr && writes_digest()) {
    finish_hash(*hash, session.hash_state, digest_.data());
    session.message = Message::none;
  }
  return 0;
}

// Of a page each, where the caller's pages are not used directly.
void Model::Call::pieces(Session& session, std::uint8_t* data) {
  const CipherRow* cipher = session.cipher();
  const HashRow* hash = session.hash();
  const std::size_t bytes = request_.bytes;
  const std::size_t most = request_.zero_copy ? bytes : page;
  if (request_.misaligned) state_.counters.misaligned.fetch_add(1);
  if ((request_.flags & flag_no_zc) != 0) state_.counters.no_zero_copy.fetch_add(1);
  if (request_.zero_copy) state_.counters.zero_copy.fetch_add(1);
  state_.counters.pieces.fetch_add((bytes + most - 1) / most);
  if (cipher != nullptr) {
    const std::uint64_t distance =
        request_.src < request_.dst ? request_.dst - request_.src : request_.src - request_.dst;
    const bool overlap = distance != 0 && distance < bytes;
    if (overlap && (request_.zero_copy || (bytes > page && request_.src < request_.dst))) {
      violate(state_, "source and destination overlap");
    }
    if (cipher->kind == CipherKind::aes_xts && bytes > most) {
      violate(state_, "XTS of %zu bytes without zero copy: each page becomes a data unit of its own", bytes);
    }
  } else if (request_.dst != 0) {
    violate(state_, "a digest with a destination, whose pages are pinned for writing");
  }
  for (std::size_t at = 0; at < bytes; at += most) {
    const std::size_t step = std::min(most, bytes - at);
    if (hash != nullptr && request_.op == 0) update_hash(*hash, session.hash_state, data + at, step);
    if (cipher != nullptr) {
      run_cipher(*cipher, session.cipher_state, request_.op == 0, data + at, data + at, step);
    }
    if (hash != nullptr && request_.op == 1) update_hash(*hash, session.hash_state, data + at, step);
  }
}

// ---- Sessions

Answer Model::Call::make_session() {
  Structure given(caller_.abi, {48, 28});
  int error = 0;
  if (const auto access = given.fetch(memory_, argument_); access != Memory::Access::done) {
    if (access == Memory::Access::later) return again;
    error = EFAULT;
  }
  const std::uint32_t cipher = given.u32({0, 0});
  const std::uint32_t mac = given.u32({4, 4});
  const std::uint32_t key_bytes = given.u32({8, 8});
  const std::uint32_t mac_key_bytes = given.u32({24, 16});
  const HashRow* hash = find_hash(mac);
  const bool keyed = hash != nullptr && hash->keyed;
  if (error == 0 && ((cipher == 0 && mac == 0) || (cipher != 0 && find_cipher(cipher) == nullptr) ||
                     (mac != 0 && hash == nullptr) || (cipher != 0 && key_bytes > most_cipher_key) ||
                     (keyed && mac_key_bytes > most_hash_key))) {
    error = EINVAL;
  }
  Buffer key(error == 0 && cipher != 0 ? key_bytes : 0);
  Buffer mac_key(error == 0 && keyed ? mac_key_bytes : 0);
  if (error == 0) {
    fetch(given.pointer({16, 12}), key.data(), key.size(), error);
    fetch(given.pointer({32, 20}), mac_key.data(), mac_key.size(), error);
    memory_.will_write(argument_, given.bytes());
  }
  if (!memory_.complete()) return again;

  if (const int early = begin(102); early != 0) return done(early);
  if (fault_.kind == FaultKind::error) return done(fault_.error);
  std::uint32_t id = 0;
  if (error == 0) error = make(given, key, mac_key, id);
  if (error != 0) return done(error);
  given.put({40, 24}, &id, sizeof id);
  // The module then takes the session away again.
  if (!given.store(memory_, argument_)) return done(EFAULT);
  return done(0);
}

int Model::Call::make(const Structure& given, Buffer& key, Buffer& hash_key, std::uint32_t& id) {
  const Settings& settings = state_.settings;
  const CipherRow* cipher = find_cipher(given.u32({0, 0}));
  const HashRow* hash = find_hash(given.u32({4, 4}));
  check_maker(file_.pid, "makes a session in a file");
  if (cipher != nullptr && is_absent(settings, cipher->name)) return EINVAL;
  if (hash != nullptr && is_absent(settings, hash->name)) return EINVAL;
  if (settings.limit != 0 && state_.counters.sessions_open.load() >= settings.limit) return ENOMEM;
  Session* session = take_session(state_);
  if (session == nullptr) return ENOMEM;
  session->pid = caller_.pid;
  session->cipher_number = cipher == nullptr ? 0 : cipher->number;
  session->hash_number = hash == nullptr ? 0 : hash->number;
  session->alignmask = 0;
  session->xts_used = false;
  session->message = Message::none;
  session->cipher_driver = {};
  session->hash_driver = {};
  session->cipher_state = {};
  session->hash_state = {};
  if (cipher != nullptr) {
    if (!set_key(*cipher, session->cipher_state, {key.data(), key.size()}, settings.fips)) {
      give_session(state_, *session);
      return EINVAL;
    }
    name_driver(settings, cipher->name, session->cipher_driver);
    session->alignmask = alignmask_of(settings, session->cipher_driver, true);
  }
  if (hash != nullptr) {
    set_hash(*hash, session->hash_state, {hash_key.data(), hash_key.size()});
    name_driver(settings, hash->name, session->hash_driver);
    session->alignmask = std::max(session->alignmask, alignmask_of(settings, session->hash_driver, false));
  }
  file_.lock.enter();
  const bool zero = file_.made == 0 && (settings.first_id == FirstId::zero ||
                                        (settings.first_id == FirstId::alternate && file_.serial % 2 == 0));
  ++file_.made;
  for (id = zero ? 0 : random_id(); find(state_, file_, id) != nullptr;) id = random_id();
  session->id = id;
  session->next = file_.sessions;
  file_.sessions = static_cast<std::int32_t>(session - state_.sessions.data());
  file_.lock.leave();
  const std::uint64_t now = state_.counters.sessions_open.fetch_add(1) + 1;
  std::uint64_t peak = state_.counters.sessions_peak.load();
  while (peak < now && !state_.counters.sessions_peak.compare_exchange_weak(peak, now)) {
  }
  return 0;
}

Answer Model::Call::free_session() {
  std::uint32_t id = 0;
  int error = 0;
  if (const auto access = memory_.read(argument_, &id, sizeof id); access != Memory::Access::done) {
    if (access == Memory::Access::later) return again;
    error = EFAULT;
  }
  if (const int early = begin(103); early != 0) return done(early);
  if (fault_.kind == FaultKind::error) return done(fault_.error);
  if (error != 0) return done(error);
  file_.lock.enter();
  Session* session = find(state_, file_, id);
  if (session != nullptr) {
    session->lock.enter();  // as long as it is in use
    const auto place = static_cast<std::int32_t>(session - state_.sessions.data());
    std::int32_t* link = &file_.sessions;
    while (*link != place) link = &state_.sessions[static_cast<std::size_t>(*link)].next;
    *link = session->next;
    session->lock.leave();
  }
  file_.lock.leave();
  if (session == nullptr) return done(0);  // it is not told apart
  check_maker(session->pid, "frees a session");
  give_session(state_, *session);
  state_.counters.sessions_open.fetch_sub(1);
  return done(0);
}

Answer Model::Call::describe() {
  Structure given(caller_.abi, {268, 268});
  int error = 0;
  if (const auto access = given.fetch(memory_, argument_); access != Memory::Access::done) {
    if (access == Memory::Access::later) return again;
    error = EFAULT;
  }
  memory_.will_write(argument_, given.bytes());
  if (!memory_.complete()) return again;
  if (const int early = begin(107); early != 0) return done(early);
  if (fault_.kind == FaultKind::error) return done(fault_.error);
  if (error != 0) return done(error);
  Session* session = acquire(given.u32({0, 0}));
  if (session == nullptr) return done(EINVAL);
  check_maker(session->pid, "asks for a session");
  const auto put = [&](std::size_t at, const char* text) {
    std::array<char, 64> padded{};
    std::memcpy(padded.data(), text, strnlen(text, padded.size() - 1));
    given.put({at, at}, padded.data(), padded.size());
  };
  std::uint32_t flags = 0;
  const CipherRow* cipher = session->cipher();
  const HashRow* hash = session->hash();
  put(4, cipher == nullptr ? "" : cipher->name);
  put(68, session->cipher_driver.data());
  put(132, hash == nullptr ? "" : hash->name);
  put(196, session->hash_driver.data());
  if (cipher != nullptr && ends_with(session->cipher_driver.data(), "-sun4i-ss")) flags = 1;
  given.put({260, 260}, &session->alignmask, 2);
  given.put({264, 264}, &flags, 4);
  session->lock.leave();
  return done(given.store(memory_, argument_) ? 0 : EFAULT);
}

Answer Model::Call::copy_hash() {
  std::array<std::uint32_t, 2> ids{};  // to, from
  int error = 0;
  if (const auto access = memory_.read(argument_, ids.data(), sizeof ids); access != Memory::Access::done) {
    if (access == Memory::Access::later) return again;
    error = EFAULT;
  }
  if (const int early = begin(112); early != 0) return done(early);
  if (fault_.kind == FaultKind::error) return done(fault_.error);
  if (error != 0) return done(error);
  if (ids[0] == ids[1]) return done(EDEADLK);
  file_.lock.enter();
  Session* to = find(state_, file_, ids[0]);
  Session* from = find(state_, file_, ids[1]);
  if (to != nullptr && from != nullptr) {
    to->lock.enter();
    from->lock.enter();
  }
  file_.lock.leave();
  if (to == nullptr || from == nullptr) return done(ENOENT);
  check_maker(to->pid, "copies to a session");
  check_maker(from->pid, "copies a session");
  if (to->hash() == nullptr || from->hash() == nullptr) {
    error = EINVAL;
  } else if (to->hash_number != from->hash_number) {
    violate(state_, "CIOCCPHASH from %s to %s", from->hash()->name, to->hash()->name);
    spoil_hash(to->hash_state);
  } else {
    to->hash_state.running = from->hash_state.running;
    to->message = from->message;
  }
  from->lock.leave();
  to->lock.leave();
  return done(error);
}

// ---- The rest

Answer Model::Call::authenticated() {
  Structure given(caller_.abi, {72, 44});
  if (const auto access = given.fetch(memory_, argument_); access != Memory::Access::done) {
    return access == Memory::Access::later ? again : done(EFAULT);
  }
  if (const int early = begin(109); early != 0) return done(early);
  violate(state_, "CIOCAUTHCRYPT, which is not safe to use");
  return done(EINVAL);
}

Answer Model::Call::asymmetric() {
  memory_.will_write(argument_, 4);
  if (!memory_.complete()) return again;
  if (const int early = begin(106); early != 0) return done(early);
  const std::uint32_t none = 0;
  return done(memory_.write(argument_, &none, sizeof none) ? 0 : EFAULT);
}

Answer Model::Call::duplicate() {
  memory_.will_write(argument_, 4);
  if (!memory_.complete()) return again;
  if (const int early = begin(101); early != 0) return done(early);
  return {.kind = Answer::Kind::duplicate, .error = 0};
}

Answer Model::ioctl(std::uint32_t file, const Caller& caller, std::uint32_t request, std::uint64_t argument,
                    Memory& memory) {
  if (file >= state_.files.size() || !state_.files[file].used) {
    return {.kind = Answer::Kind::done, .error = EBADF};
  }
  return Call(state_, file, caller, argument, memory).run(request);
}

}  // namespace sunxi::standin
