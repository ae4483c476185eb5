// SPDX-License-Identifier: Apache-2.0
// The engine's model. May run inside a signal handler: no allocation, no locale, no stdio stream.
#define OPENSSL_SUPPRESS_DEPRECATED  // the block function itself; EVP would allocate
#include "tests/board/model.h"

#include <fcntl.h>
#include <openssl/md5.h>
#include <openssl/sha.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace sunxi::board {
namespace {

constexpr std::size_t ctl = 0x00;
constexpr std::size_t key0 = 0x04;
constexpr std::size_t iv0 = 0x24;
constexpr std::size_t cnt0 = 0x34;
constexpr std::size_t fcsr = 0x44;
constexpr std::size_t icsr = 0x48;
constexpr std::size_t md0 = 0x4c;
constexpr std::size_t md_end = 0x60;
constexpr std::size_t cts_len = 0x60;
constexpr std::size_t rxfifo = 0x200;
constexpr std::size_t txfifo = 0x204;

constexpr std::size_t clock_pll = 0x28;
constexpr std::size_t clock_bus = 0x60;
constexpr std::size_t clock_module = 0x9c;
constexpr std::size_t clock_reset = 0x2c0;
constexpr std::uint32_t clock_gate = 1U << 31;

constexpr std::uint32_t enable = 1;
constexpr std::uint32_t data_end = 1U << 2;
constexpr std::uint32_t given_state = 1U << 14;
enum Method : std::uint32_t { aes, des, des3, sha1, md5, prng };
constexpr std::array<std::size_t, 6> words_of_block{4, 2, 2, 16, 16, 1};
constexpr std::array<std::size_t, 6> words_of_state{0, 0, 0, 5, 4, 0};
constexpr std::size_t words_of_seed = 6;
constexpr std::size_t words_of_step = 5;
constexpr std::array<std::uint32_t, 5> initial_state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                                     0xc3d2e1f0};
constexpr std::uint32_t undefined_word = 0xdeadbeef;

constexpr std::uint32_t field(std::uint32_t word, unsigned low, unsigned bits) {
  return (word >> low) & ((1U << bits) - 1);
}

constexpr std::uint32_t method_of(std::uint32_t control) {
  return std::min<std::uint32_t>(field(control, 4, 3), prng);  // the others are violations anyway
}

}  // namespace

bool process_is_dead(std::uint32_t pid) {
  const int saved = errno;
  bool dead = kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
  if (!dead) {
    std::array<char, 32> path{};
    std::snprintf(path.data(), path.size(), "/proc/%u/stat", pid);
    const auto file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path.data(), O_RDONLY | O_CLOEXEC));
    if (file >= 0) {
      std::array<char, 256> text{};
      if (syscall(SYS_read, file, text.data(), text.size() - 1) > 0) {
        const char* state = std::strrchr(text.data(), ')');
        dead = state != nullptr && (state[2] == 'Z' || state[2] == 'X');
      }
      syscall(SYS_close, file);
    }
  }
  errno = saved;
  return dead;
}

void Model::enter(std::uint32_t pid) {
  for (unsigned turn = 1;; ++turn) {
    std::uint32_t expected = 0;
    if (inside_.compare_exchange_strong(expected, pid, std::memory_order_acquire)) return;
    if (turn % 64 == 0) sched_yield();
    if (turn % 4096 == 0 && expected != pid && process_is_dead(expected) &&
        inside_.compare_exchange_strong(expected, pid, std::memory_order_acquire)) {
      return;
    }
  }
}

void Model::leave() {
  inside_.store(0, std::memory_order_release);
}

void Model::violate(const char* format, ...) {
  if (violations++ != 0) return;
  va_list arguments;
  va_start(arguments, format);
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is initialised one line up
  std::vsnprintf(first_violation.data(), first_violation.size(), format, arguments);
  va_end(arguments);
}

void Model::set_fault(const Fault& fault) {
  fault_ = fault;
  fault_age_ = 0;
}

bool Model::fault_active() const {
  return fault_.kind != FaultKind::none && fault_age_ > fault_.after &&
         (fault_.duration == 0 || fault_age_ - fault_.after <= fault_.duration);
}

// False if the registers do not answer.
bool Model::begin_access(std::size_t offset, Who who, bool stop) {
  ++fault_age_;
  run();
  if (offset % 4 != 0) violate("access at 0x%zx is not aligned", offset);
  const bool gone =
      !answers() || (fault_active() && (fault_.kind == FaultKind::zeros || fault_.kind == FaultKind::ones));
  if (gone != vanished_) {
    // What was in it is lost.
    ctl_ = 0;
    rx_count_ = tx_count_ = 0;
    working_ = false;
    tainted_ = true;
    vanished_ = gone;
  }
  if (fault_active()) tainted_ = true;
  if (gone) return false;
  if ((ctl_ & enable) != 0 && who != user_) {
    if (!stop || !process_is_dead(static_cast<std::uint32_t>(user_ >> 32))) {
      violate("access at 0x%zx by %u:%u inside the request of %u:%u", offset,
              static_cast<unsigned>(who >> 32), static_cast<unsigned>(who),
              static_cast<unsigned>(user_ >> 32), static_cast<unsigned>(user_));
    }
    tainted_ = true;
  }
  return true;
}

Model::Cell* Model::cell(std::size_t offset) {
  if (offset >= key0 && offset < iv0) return &key_[(offset - key0) / 4];
  if (offset >= iv0 && offset <= cnt0) return &iv_[(offset - iv0) / 4];
  return nullptr;
}

std::uint32_t Model::read(std::size_t offset, Who who) {
  ++counters.reads;
  counters.picoseconds += read_ps;
  if (offset == fcsr) ++counters.status_reads;
  if (!begin_access(offset, who, false)) return fault_.kind == FaultKind::ones && answers() ? ~0U : 0;
  if (offset == ctl) {
    if (end_declared_ && !end_seen_ && (ctl_ & data_end) == 0) {
      end_seen_ = true;
      state_at_ = counters.picoseconds + traits.state_lag_ps;
    }
    return ctl_;
  }
  if (offset == fcsr) return status();
  if (offset == txfifo) return give();
  if (offset == icsr) return interrupts_;
  if (offset >= md0 && offset < md_end) return digest_word((offset - md0) / 4);
  if (offset == cts_len && traits.has_cts_length) return cts_length_;
  if (offset > cnt0 && offset < fcsr) return counter_[(offset - cnt0) / 4 - 1];
  if (const Cell* held = cell(offset)) {
    if (offset >= iv0 && traits.iv_readback_wrong)
      violate("the IV registers of this SoC cannot be read back");
    return held->value;
  }
  violate("load from 0x%zx, where nothing can be read", offset);
  return 0;
}

void Model::write(std::size_t offset, std::uint32_t value, Who who) {
  ++counters.writes;
  counters.picoseconds += write_ps;
  if (!begin_access(offset, who, offset == ctl && value == 0)) return;
  if (offset == ctl) {
    control(value, who);
  } else if (offset == rxfifo) {
    receive(value, who);
  } else if (offset == icsr) {
    interrupts_ = value;
  } else if (offset == fcsr) {
    if ((value & ~0x1f1fU) != 0) violate("store of 0x%08x to FCSR, whose counts are read-only", value);
  } else if (offset == cts_len && traits.has_cts_length) {
    cts_length_ = value;
  } else if (offset > cnt0 && offset < fcsr) {
    counter_[(offset - cnt0) / 4 - 1] = value;
  } else if (Cell* held = cell(offset)) {
    if ((ctl_ & enable) != 0) violate("store to 0x%zx while the engine runs", offset);
    *held = {value, true, who};
  } else {
    violate("store to 0x%zx, where nothing can be written", offset);
  }
}

bool Model::answers() const {
  return !gated && (bus_gates_ & engine_bit) != 0 && (!traits.has_reset || (resets_ & engine_bit) != 0);
}

void Model::set_clocks(unsigned open_parts) {
  bus_gates_ = (bus_gates_ & ~engine_bit) | ((open_parts & bus_gate) != 0 ? engine_bit : 0);
  resets_ = (resets_ & ~engine_bit) | ((open_parts & reset_line) != 0 ? engine_bit : 0);
  // Two stores: g++ 12 for armhf with -O1 makes 3 of the constant in a conditional expression.
  module_ = (open_parts & module_clock) != 0 ? clock_gate : 0;
  if (module_ != 0) module_ |= 0x01000003;
}

std::uint64_t Model::module_hz() const {
  constexpr std::uint64_t oscillator = 24'000'000;
  std::uint64_t parent = oscillator;
  if (field(module_, 24, 2) == 1) {
    parent = (pll & clock_gate) == 0
                 ? 0
                 : oscillator * (field(pll, 8, 5) + traits.pll_bias) * (field(pll, 4, 2) + 1) / 2;
  } else if (field(module_, 24, 2) != 0) {
    parent = ~std::uint64_t{0};
  }
  return (parent >> field(module_, 16, 2)) / (field(module_, 0, 4) + 1);
}

std::uint32_t Model::read_clock(std::size_t offset) {
  if (offset == clock_pll) return pll;
  if (offset == clock_bus) return bus_gates_;
  if (offset == clock_module) return module_;
  if (offset == clock_reset && traits.has_reset) return resets_;
  violate("load from the clock unit's 0x%zx, which is not the engine's", offset);
  return 0;
}

void Model::write_clock(std::size_t offset, std::uint32_t value) {
  ++clock_writes;
  if (offset == clock_bus || (offset == clock_reset && traits.has_reset)) {
    std::uint32_t& word = offset == clock_bus ? bus_gates_ : resets_;
    if (value != (word | engine_bit))
      violate("0x%08x to the clock unit's 0x%zx changes what it must not", value, offset);
    if (value == word) violate("a store to the clock unit's 0x%zx for nothing", offset);
    word = value;
  } else if (offset == clock_module) {
    if ((module_ & clock_gate) != 0) violate("the module clock is changed while it runs");
    if ((value & clock_gate) != 0 && (value & ~clock_gate) != module_) {
      violate("the module clock's gate is opened before its rate is set");
    }
    module_ = value;
    const std::uint64_t hz = module_hz();
    if (hz == 0 || hz > 150'000'000) violate("a module clock of %" PRIu64 " Hz", hz);
  } else {
    violate("store to the clock unit's 0x%zx, which is not the engine's", offset);
  }
}

void Model::control(std::uint32_t value, Who who) {
  if ((value & enable) == 0) {
    if (value != 0) violate("stopped with 0x%08x instead of 0", value);
    stop();
  } else if ((ctl_ & enable) == 0) {
    start(value, who);
  } else if (digesting() && (value & data_end) != 0) {
    end_data(value);
  } else {
    violate("started with 0x%08x while it runs", value);
  }
}

void Model::start(std::uint32_t value, Who who) {
  const std::uint32_t method = field(value, 4, 3);
  if ((value & 0xf0f80008U) != 0) violate("reserved bits of CTL are set: 0x%08x", value);
  if (method > prng) violate("method %u is not modelled", method);
  if ((value & 0x6) != 0) violate("PRNG_START or DATA_END at the start: 0x%08x", value);
  if (method == prng) {
    if ((value & 0x0f00ff80U) != 0x8000U)
      violate("the generator is not started in its continuous mode: 0x%08x", value);
  } else if (method >= sha1) {
    if ((value & 0x0f00bf80U) != 0) violate("bits that are not the digest's: 0x%08x", value);
  } else {
    if (field(value, 8, 2) == 3) violate("key size 3 does not exist");
    if (method != aes && field(value, 8, 2) != 0) violate("a key size that is not AES's: 0x%08x", value);
    if (field(value, 12, 2) > 1) violate("mode %u is unusable on this engine", field(value, 12, 2));
    if ((value & 0x0f00cc00U) != 0) violate("bits that are not the cipher's: 0x%08x", value);
  }
  ctl_ = value;
  user_ = who;
  rx_count_ = tx_count_ = 0;
  request_blocks_ = 0;
  working_ = false;
  end_declared_ = end_seen_ = false;
  tainted_ = fault_active();
  if (digesting()) start_digest(value);
  if (method == prng) {
    check_keys(words_of_seed);
    step_done_ = false;
    done_at_ = counters.picoseconds + engine_ps;
  }
}

// The algorithm is not known: any function of the seed does. The registers then hold the next seed.
void Model::finish_step() {
  std::array<std::uint32_t, words_of_seed> seed{};
  for (std::size_t word = 0; word < seed.size(); ++word) seed[word] = key_[word].value;
  SHA_CTX context{};
  SHA1_Init(&context);
  SHA1_Update(&context, seed.data(), sizeof seed);
  SHA1_Final(reinterpret_cast<unsigned char*>(tx_.data()), &context);
  tx_count_ = words_of_step;
  for (std::size_t word = 0; word < seed.size(); ++word)
    key_[word].value = tx_[word % words_of_step] * 0x9e3779b9U + 1;
  step_done_ = true;
  ++request_blocks_;
  ++counters.blocks;
}

// The state is latched at this moment.
void Model::start_digest(std::uint32_t value) {
  check_keys(0);
  state_ = initial_state;
  state_at_ = 0;
  if ((value & given_state) == 0) return;
  for (std::size_t word = 0; word < words_of_state[method_of(value)]; ++word) {
    if (!iv_[word].fresh) violate("state word %zu was not written since the last request", word);
    if (iv_[word].fresh && iv_[word].writer != user_) violate("state word %zu is another user's", word);
    state_[word] = swapped(iv_[word].value, word, true);
  }
}

void Model::end_data(std::uint32_t value) {
  if ((value & ~given_state) != ((ctl_ & ~given_state) | data_end)) {
    violate("the end of data declared with 0x%08x", value);
  }
  if (end_declared_) violate("the end of data declared twice");
  if (!tainted_) {
    const std::size_t rest = rx_count_ % block_words();
    if (rest != 0) violate("the end of data declared with %zu words of an incomplete block", rest);
    if (rx_count_ == 0 && request_blocks_ == 0) violate("the end of data declared before any");
  }
  end_declared_ = true;
  ctl_ |= data_end;
}

void Model::stop() {
  if ((ctl_ & enable) != 0 && !tainted_) {
    if (rx_count_ % block_words() != 0) violate("stopped with %zu words of an incomplete block", rx_count_);
    if (rx_count_ != 0) violate("stopped with %zu words that it has not worked on", rx_count_);
    if (working_) violate("stopped in the middle of a block");
    if (tx_count_ != 0) violate("stopped with %zu words that nobody has read", tx_count_);
  }
  if (request_blocks_ != 0) {
    ++counters.requests;
    counters.last_picoseconds = counters.picoseconds - stopped_at_;
    for (Cell& word : key_) word.fresh = false;
    for (Cell& word : iv_) word.fresh = false;
    if (method_of(ctl_) == aes) {
      for (std::size_t word = 0; word < std::min<std::size_t>(4 + 2 * field(ctl_, 8, 2), 8); ++word) {
        key_[word].value = key_[word].value * 0x9e3779b9U + 0x7f4a7c15U;
      }
    }
    if (!digesting() && field(ctl_, 12, 2) == 1) {
      for (std::size_t word = 0; word < block_words(); ++word) {
        std::uint32_t last = 0;
        std::memcpy(&last, chain_.data() + 4 * word, 4);
        iv_[word].value = traits.iv_readback_wrong ? ~last : last;
      }
    }
  }
  stopped_at_ = counters.picoseconds;
  explicit_bzero(&schedule_, sizeof schedule_);
  explicit_bzero(des_.data(), sizeof des_);
  explicit_bzero(state_.data(), sizeof state_);
  explicit_bzero(block_.data(), sizeof block_);
  ctl_ = 0;
  rx_count_ = tx_count_ = 0;
  request_blocks_ = 0;
  working_ = false;
}

void Model::receive(std::uint32_t value, Who /*who*/) {
  if ((ctl_ & enable) == 0) {
    if (!tainted_) violate("data written while the engine is stopped");
    return;
  }
  if (method_of(ctl_) == prng) violate("data written to the generator");
  if (end_declared_ && !tainted_) violate("data written after its end");
  if (rx_count_ == rx_words) {
    if (!tainted_) violate("data written into a full FIFO");
    return;
  }
  rx_[rx_count_++] = value;
  run();
}

std::uint32_t Model::give() {
  if (tx_count_ == 0) {
    if (!tainted_) violate("data read from an empty FIFO");
    return undefined_word;
  }
  const std::uint32_t value = tx_[0];
  --tx_count_;
  std::memmove(tx_.data(), tx_.data() + 1, tx_count_ * sizeof tx_[0]);
  run();
  return fault_active() && fault_.kind == FaultKind::wrong_data ? value ^ 0x100U : value;
}

// Bits 30 and 22 say that a count is not zero.
std::uint32_t Model::status() const {
  auto free = static_cast<std::uint32_t>(rx_words - rx_count_);
  auto available = static_cast<std::uint32_t>(tx_count_);
  if (fault_active() && fault_.kind == FaultKind::overcount) available = (available + fault_.amount) & 0x3f;
  return (free != 0 ? 1U << 30 : 0) | free << 24 | (available != 0 ? 1U << 22 : 0) | available << 16;
}

// Brings the engine to the present.
void Model::run() {
  const std::uint64_t now = counters.picoseconds;
  if ((ctl_ & enable) != 0 && method_of(ctl_) == prng) {
    const bool stalled = fault_active() && fault_.kind == FaultKind::stall;
    if (!step_done_ && done_at_ <= now && !stalled) finish_step();
    return;
  }
  try_block(now);
  while (working_ && done_at_ <= now) {
    finish_block();
    try_block(done_at_);
  }
  if ((ctl_ & data_end) != 0 && !working_ && rx_count_ < block_words()) ctl_ &= ~data_end;
}

bool Model::digesting() const {
  return method_of(ctl_) == sha1 || method_of(ctl_) == md5;
}

std::size_t Model::block_words() const {
  return words_of_block[method_of(ctl_)];
}

std::uint32_t Model::swapped(std::uint32_t value, std::size_t word, bool in) const {
  if (method_of(ctl_) != sha1 || !traits.sha1_big_endian) return value;
  return in && word == 4 && traits.sha1_word4_plain ? value : __builtin_bswap32(value);
}

std::uint32_t Model::digest_word(std::size_t word) {
  const char* mistake = nullptr;
  if ((ctl_ & enable) == 0 || !digesting()) {
    mistake = "while no digest runs";
  } else if (rx_count_ != 0 || working_ || (ctl_ & data_end) != 0) {
    mistake = "before its data are worked on";
  } else if (end_declared_ && !end_seen_) {
    mistake = "without a look whether it is done";
  } else if (counters.picoseconds < state_at_) {
    mistake = "too early";
  }
  if (mistake != nullptr) {
    if (!tainted_) violate("a digest's word is read %s", mistake);
    return undefined_word;
  }
  const std::uint32_t value = word < words_of_state[method_of(ctl_)] ? swapped(state_[word], word, false) : 0;
  return fault_active() && fault_.kind == FaultKind::wrong_data ? value ^ 0x100U : value;
}

// It starts by itself when a block is there and its result will fit.
void Model::try_block(std::uint64_t at) {
  if ((ctl_ & enable) == 0 || working_ || rx_count_ < block_words()) return;
  if (!digesting() && tx_count_ + block_words() > tx_words) return;
  if ((module_ & clock_gate) == 0) {
    tainted_ = true;
    return;
  }
  if (fault_active() && fault_.kind == FaultKind::stall) return;
  if (request_blocks_ == 0 && !digesting()) first_block();
  ++request_blocks_;
  working_ = true;
  if (traits.early_fetch) fetch_block();
  done_at_ = at + engine_ps;
}

// The key's words are this request's, and of longer keys before it nothing is left.
void Model::check_keys(std::size_t words) {
  for (std::size_t word = 0; word < key_.size(); ++word) {
    if (word >= words) {
      if (key_[word].value != 0) violate("key word %zu is left of another key", word);
    } else if (!key_[word].fresh) {
      violate("key word %zu was not written since the last request", word);
    } else if (key_[word].writer != user_) {
      violate("key word %zu is another user's", word);
    }
  }
}

void Model::first_block() {
  constexpr std::array<std::size_t, 6> words_of_key{4, 2, 6, 0, 0, 0};
  const std::uint32_t method = method_of(ctl_);
  const std::size_t words =
      std::min(words_of_key[method] + (method == aes ? 2 * field(ctl_, 8, 2) : 0), key_.size());
  check_keys(words);
  std::array<std::uint8_t, 32> key{};
  for (std::size_t word = 0; word < words; ++word) std::memcpy(key.data() + 4 * word, &key_[word].value, 4);
  if (method == aes) {
    const int bits = static_cast<int>(words) * 32;
    if (field(ctl_, 7, 1) != 0) {
      AES_set_decrypt_key(key.data(), bits, &schedule_);
    } else {
      AES_set_encrypt_key(key.data(), bits, &schedule_);
    }
  } else {
    for (std::size_t part = 0; part < words / 2; ++part) {
      DES_set_key_unchecked(reinterpret_cast<const_DES_cblock*>(key.data() + 8 * part), &des_[part]);
    }
  }
  explicit_bzero(key.data(), key.size());
  if (field(ctl_, 12, 2) == 1) {
    for (std::size_t word = 0; word < block_words(); ++word) {
      if (!iv_[word].fresh) violate("IV word %zu was not written since the last request", word);
      if (iv_[word].fresh && iv_[word].writer != user_) violate("IV word %zu is another user's", word);
      std::memcpy(chain_.data() + 4 * word, &iv_[word].value, 4);
    }
  }
}

void Model::fetch_block() {
  const std::size_t words = block_words();
  std::memcpy(block_.data(), rx_.data(), 4 * words);
  rx_count_ -= words;
  std::memmove(rx_.data(), rx_.data() + words, rx_count_ * sizeof rx_[0]);
}

void Model::finish_block() {
  if (!traits.early_fetch) fetch_block();
  if (digesting()) {
    digest_block();
    state_at_ = done_at_ + traits.state_lag_ps;
  } else {
    cipher_block();
  }
  working_ = false;
  ++counters.blocks;
}

void Model::cipher_block() {
  const std::size_t bytes = 4 * block_words();
  const std::uint32_t method = method_of(ctl_);
  const bool decrypt = field(ctl_, 7, 1) != 0;
  const bool cbc = field(ctl_, 12, 2) == 1;
  std::array<std::uint8_t, 16> input{};
  std::array<std::uint8_t, 16> out{};
  std::copy_n(block_.begin(), bytes, input.begin());
  if (!decrypt && cbc) {
    for (std::size_t byte = 0; byte < bytes; ++byte) input[byte] ^= chain_[byte];
  }
  auto* const from = reinterpret_cast<DES_cblock*>(input.data());
  auto* const to = reinterpret_cast<DES_cblock*>(out.data());
  const int direction = decrypt ? DES_DECRYPT : DES_ENCRYPT;
  if (method == des) {
    DES_ecb_encrypt(from, to, des_.data(), direction);
  } else if (method == des3) {
    DES_ecb3_encrypt(from, to, &des_[0], &des_[1], &des_[2], direction);
  } else if (decrypt) {
    AES_decrypt(input.data(), out.data(), &schedule_);
  } else {
    AES_encrypt(input.data(), out.data(), &schedule_);
  }
  if (decrypt && cbc) {
    for (std::size_t byte = 0; byte < bytes; ++byte) out[byte] ^= chain_[byte];
  }
  std::copy_n(decrypt ? block_.begin() : out.begin(), bytes, chain_.begin());
  std::memcpy(tx_.data() + tx_count_, out.data(), bytes);
  tx_count_ += block_words();
}

void Model::digest_block() {
  if (method_of(ctl_) == sha1) {
    SHA_CTX context{};
    SHA1_Init(&context);
    context.h0 = state_[0];
    context.h1 = state_[1];
    context.h2 = state_[2];
    context.h3 = state_[3];
    context.h4 = state_[4];
    SHA1_Transform(&context, block_.data());
    state_ = {context.h0, context.h1, context.h2, context.h3, context.h4};
  } else {
    MD5_CTX context{};
    MD5_Init(&context);
    context.A = state_[0];
    context.B = state_[1];
    context.C = state_[2];
    context.D = state_[3];
    MD5_Transform(&context, block_.data());
    state_ = {context.A, context.B, context.C, context.D, 0};
  }
}

bool Model::keys_are_zero() const {
  return std::all_of(key_.begin(), key_.end(), [](const Cell& cell) { return cell.value == 0; });
}

bool Model::state_is_zero() const {
  return std::all_of(iv_.begin(), iv_.end(), [](const Cell& cell) { return cell.value == 0; });
}

}  // namespace sunxi::board
