// SPDX-License-Identifier: Apache-2.0
// The first generation's engine ("Security System") in polled PIO. Registers and sequence as in Linux
// drivers/crypto/allwinner/sun4i-ss and the vendor's sunxi-ss driver; one context, no queue, no interrupt
// needed, no status but the fill counts of its two FIFOs and, for digests, the end of the work.
//
// A template over the register access, so that a model of the engine can take the device's place:
//   std::uint32_t Io::read(std::size_t offset);
//   void Io::write(std::size_t offset, std::uint32_t value);
//   std::uint64_t Io::now();  // nanoseconds, may be coarse
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "backends/backend.h"
#include "backends/mmio/engine.h"
#include "backends/mmio/soc.h"
#include "backends/process.h"

namespace sunxi {

namespace sun4i_ss {

// "RX" is what the engine receives, "TX" what it gives.
enum Register : std::size_t {
  reg_ctl = 0x00,
  reg_key0 = 0x04,
  reg_iv0 = 0x24,  // of a cipher, or the words of a digest's state, the fifth being CNT0 of the vendor
  reg_fcsr = 0x44,
  reg_md0 = 0x4c,
  reg_rxfifo = 0x200,
  reg_txfifo = 0x204,
};

inline constexpr std::size_t key_registers = 8;
inline constexpr std::size_t state_registers = 5;
inline constexpr std::size_t rx_words = 32;
inline constexpr std::size_t tx_words = 33;

enum Control : std::uint32_t {
  ctl_enable = 1U << 0,    // 0: stop, both FIFOs are emptied
  ctl_data_end = 1U << 2,  // digests: falls when the words written so far are in the state
  ctl_method = 7U << 4,
  ctl_aes = 0U << 4,
  ctl_des = 1U << 4,
  ctl_des3 = 2U << 4,
  ctl_sha1 = 3U << 4,
  ctl_md5 = 4U << 4,
  ctl_prng = 5U << 4,
  ctl_decrypt = 1U << 7,
  ctl_key_128 = 0U << 8,  // AES only
  ctl_key_192 = 1U << 8,
  ctl_key_256 = 2U << 8,
  ctl_ecb = 0U << 12,
  ctl_cbc = 1U << 12,
  ctl_prng_continuous = 1U << 15,
  ctl_given_state = 1U << 14,  // digests: start from the words in IV0 and so on, latched when enabled
};

struct CipherRow {
  CipherSpec spec;
  std::uint32_t control;
  std::uint8_t key_words;  // in registers: a key of fewer bytes is repeated from its start
};

struct DigestRow {
  DigestSpec spec;
  std::uint32_t control;
  std::uint8_t state_words;
};

// The engines' own CTR is broken: ours is ECB over counters that we generate. They have no XTS.
inline constexpr std::array ciphers{
    CipherRow{{Cipher::aes, Mode::cbc, 16, 16, 16}, ctl_aes | ctl_key_128 | ctl_cbc, 4},
    CipherRow{{Cipher::aes, Mode::cbc, 24, 16, 16}, ctl_aes | ctl_key_192 | ctl_cbc, 6},
    CipherRow{{Cipher::aes, Mode::cbc, 32, 16, 16}, ctl_aes | ctl_key_256 | ctl_cbc, 8},
    CipherRow{{Cipher::aes, Mode::ecb, 16, 16, 0}, ctl_aes | ctl_key_128 | ctl_ecb, 4},
    CipherRow{{Cipher::aes, Mode::ecb, 24, 16, 0}, ctl_aes | ctl_key_192 | ctl_ecb, 6},
    CipherRow{{Cipher::aes, Mode::ecb, 32, 16, 0}, ctl_aes | ctl_key_256 | ctl_ecb, 8},
    CipherRow{{Cipher::aes, Mode::ctr, 16, 16, 16}, ctl_aes | ctl_key_128 | ctl_ecb, 4},
    CipherRow{{Cipher::aes, Mode::ctr, 24, 16, 16}, ctl_aes | ctl_key_192 | ctl_ecb, 6},
    CipherRow{{Cipher::aes, Mode::ctr, 32, 16, 16}, ctl_aes | ctl_key_256 | ctl_ecb, 8},
    CipherRow{{Cipher::des3, Mode::cbc, 24, 8, 8}, ctl_des3 | ctl_cbc, 6},
    CipherRow{{Cipher::des3, Mode::ecb, 24, 8, 0}, ctl_des3 | ctl_ecb, 6},
    CipherRow{{Cipher::des3, Mode::cbc, 16, 8, 8}, ctl_des3 | ctl_cbc, 6},
    CipherRow{{Cipher::des3, Mode::ecb, 16, 8, 0}, ctl_des3 | ctl_ecb, 6},
    CipherRow{{Cipher::des, Mode::cbc, 8, 8, 8}, ctl_des | ctl_cbc, 2},
    CipherRow{{Cipher::des, Mode::ecb, 8, 8, 0}, ctl_des | ctl_ecb, 2},
};

// Where a cipher's row would be, if there is one: short requests notice a search.
inline constexpr std::size_t cipher_slots = std::size_t{3} * 4 * 8;
constexpr std::size_t cipher_slot(const CipherSpec& spec) noexcept {
  return (static_cast<std::size_t>(spec.cipher) * 4 + static_cast<std::size_t>(spec.mode)) * 8 +
         (spec.key_bytes / 8U - 1U) % 8U;
}
inline constexpr auto cipher_rows = [] {
  std::array<std::uint8_t, cipher_slots> rows{};
  for (std::size_t row = 0; row < ciphers.size(); ++row) {
    rows[cipher_slot(ciphers[row].spec)] = static_cast<std::uint8_t>(row);
  }
  return rows;
}();

inline constexpr std::array digests{
    DigestRow{{Digest::md5, 64, 16}, ctl_md5, 4},
    DigestRow{{Digest::sha1, 64, 20}, ctl_sha1, 5},
};

// The counter blocks of CTR, a word at a time as the FIFO takes them: big-endian, 128 bits, without a branch
// on their value.
class CounterWords {
 public:
  explicit CounterWords(const std::uint8_t* block) noexcept {
    std::memcpy(&high_, block, sizeof high_);
    std::memcpy(&low_, block + sizeof high_, sizeof low_);
    high_ = __builtin_bswap64(high_);
    low_ = __builtin_bswap64(low_);
  }

  [[nodiscard]] std::uint32_t next() noexcept {
    const std::uint64_t half = word_ < 2 ? high_ : low_;
    const std::uint64_t number = (word_ & 1U) != 0 ? half : half >> 32;
    word_ = (word_ + 1) & 3U;
    low_ += static_cast<std::uint64_t>(word_ == 0);
    high_ += static_cast<std::uint64_t>(word_ == 0) & static_cast<std::uint64_t>(low_ == 0);
    return __builtin_bswap32(static_cast<std::uint32_t>(number));
  }

 private:
  std::uint64_t high_ = 0;
  std::uint64_t low_ = 0;
  unsigned word_ = 0;
};

// Keeps the books of one request and holds every FCSR value against them: the counts are all that the
// engine tells, so whatever cannot be true of them means that the words it gave cannot be trusted either.
class FifoAccount {
 public:
  enum class Output : std::uint8_t { as_input, none };
  enum class Verdict : std::uint8_t {
    progress,
    waiting,  // sound, but nothing has moved since the last time
    silent,   // all zero: a full input and an empty output, or an engine that is gone. Proves nothing
    insane,
  };

  explicit FifoAccount(Output output = Output::as_input) noexcept : output_(output) {}

  void wrote(std::size_t words) noexcept {
    written_ += words;
    free_ -= words;
  }
  void got(std::size_t words) noexcept { taken_ += words; }

  [[nodiscard]] Verdict check(std::uint32_t fcsr) noexcept {
    const std::size_t free = (fcsr >> 24) & 0x3f;
    const std::size_t available = (fcsr >> 16) & 0x3f;
    if (free > rx_words || available > tx_words) return Verdict::insane;
    const std::size_t queued = rx_words - free;
    if (queued > written_) return Verdict::insane;
    const std::size_t consumed = written_ - queued;
    const std::size_t produced = taken_ + available;
    if (produced > consumed) return Verdict::insane;
    if (output_ == Output::none ? available != 0 : consumed - produced > inside_limit) return Verdict::insane;
    if (consumed < consumed_ || produced < produced_) return Verdict::insane;
    if (fcsr == 0) return Verdict::silent;
    const bool moved = consumed != consumed_ || produced != produced_;
    consumed_ = consumed;
    produced_ = produced;
    free_ = free;
    return moved ? Verdict::progress : Verdict::waiting;
  }

  [[nodiscard]] std::size_t written() const noexcept { return written_; }
  [[nodiscard]] std::size_t taken() const noexcept { return taken_; }
  [[nodiscard]] std::size_t room() const noexcept { return free_; }
  [[nodiscard]] std::size_t available() const noexcept { return produced_ - taken_; }

 private:
  // A block being computed and one on its way out, of the longest kind. All else is in a FIFO.
  static constexpr std::size_t inside_limit = 8;

  const Output output_;
  std::size_t written_ = 0;
  std::size_t taken_ = 0;
  std::size_t consumed_ = 0;
  std::size_t produced_ = 0;
  std::size_t free_ = rx_words;  // known without asking: enabling empties both FIFOs
};

// Bounds a wait. About 200 us of polls at the speed of an A20's bus, 400 times what the slowest block takes;
// and a bound in time, looked at now and then, for where a register access is slow.
class Patience {
 public:
  // After a poll: whether another one is worth it.
  template <class Io>
  [[nodiscard]] bool lasts(Io& io, bool progress) noexcept {
    if (progress) {
      fruitless_ = 0;
      return true;
    }
    if (fruitless_++ % clock_interval != 0) return true;
    const std::uint64_t now = io.now();
    if (fruitless_ == 1) since_ = now;
    return fruitless_ <= poll_limit && now - since_ <= wait_limit;
  }

 private:
  static constexpr unsigned poll_limit = 2048;
  static constexpr unsigned clock_interval = 64;
  static constexpr std::uint64_t wait_limit = 10'000'000;

  unsigned fruitless_ = 0;
  std::uint64_t since_ = 0;
};

}  // namespace sun4i_ss

template <class Io>
class Sun4iSs {
  static_assert(std::endian::native == std::endian::little, "FIFO words hold the byte stream little-endian");

 public:
  static constexpr std::string_view name = "sun4i-ss";

  // `io` outlives the driver.
  explicit Sun4iSs(Io& io, Errata errata = {}) noexcept : io_(io), errata_(errata) {}

  // Positions in the tables, digests counted after the ciphers.
  [[nodiscard]] static constexpr std::size_t algorithm(const CipherSpec& spec) noexcept {
    const std::size_t row = sun4i_ss::cipher_rows[sun4i_ss::cipher_slot(spec)];
    return sun4i_ss::ciphers[row].spec == spec ? row : no_algorithm;
  }
  [[nodiscard]] static constexpr std::size_t algorithm(const DigestSpec& spec) noexcept {
    for (std::size_t row = 0; row < sun4i_ss::digests.size(); ++row) {
      if (sun4i_ss::digests[row].spec == spec) return sun4i_ss::ciphers.size() + row;
    }
    return no_algorithm;
  }
  static_assert(sun4i_ss::ciphers.size() + sun4i_ss::digests.size() <= max_algorithms);

  [[nodiscard]] bool alive() noexcept {
    io_.write(sun4i_ss::reg_ctl, sun4i_ss::ctl_enable);
    const std::uint32_t control = io_.read(sun4i_ss::reg_ctl);
    const std::uint32_t fcsr = io_.read(sun4i_ss::reg_fcsr);
    stop();
    taken_over();
    return (control & sun4i_ss::ctl_enable) != 0 && control != ~std::uint32_t{0} && empty(fcsr);
  }

  void stop() noexcept { io_.write(sun4i_ss::reg_ctl, 0); }

  void taken_over() noexcept { foreign_keys_ = sun4i_ss::key_registers; }

  void wipe_registers() noexcept {
    taken_over();
    clear_keys(0);
    clear_state(sun4i_ss::state_registers);
  }

  // As Engine::crypt, for a spec of the table. When the engine keeps up, every word is written once and
  // read once, and FCSR is read once for each 32 words and once more at the end: below that, the output
  // of a burst would be trusted before the engine has confirmed it.
  [[nodiscard]] Progress crypt(const CipherRequest& request) noexcept {
    using Account = sun4i_ss::FifoAccount;
    const std::size_t words = request.length / word_bytes;
    const std::size_t block_words = request.spec.block_bytes / word_bytes;
    Account account;
    sun4i_ss::Patience patience;
    std::size_t delivered = 0;                            // words of `out` that are final
    std::array<std::uint32_t, sun4i_ss::tx_words> burst;  // [delivered, account.taken()), unconfirmed
    std::size_t kept_back = 0;

    // A counter is no secret, and of the key stream only `burst` has more than the caller sees.
    const bool ctr = request.spec.mode == Mode::ctr;
    sun4i_ss::CounterWords counters(ctr ? request.iv : zeros.data());
    start(request);
    for (;;) {
      if (ctr) {
        feed_counters(counters, account, words);
      } else {
        feed(request.in, account, words);
      }
      take(account, burst, delivered, kept_back);

      const Account::Verdict verdict = account.check(io_.read(sun4i_ss::reg_fcsr));
      if (verdict == Account::Verdict::insane) break;
      if (!patience.lasts(io_, verdict == Account::Verdict::progress)) break;
      if (verdict == Account::Verdict::silent) {
        kept_back = 0;
        continue;
      }

      deliver(request, burst, delivered, account.taken());
      delivered = account.taken();
      if (delivered == words) break;

      // Whole blocks only. While there is more to write, the last 16 bytes of the burst stay in the FIFO
      // until it is written: reading takes longer than the engine needs for them, so that the next
      // FCSR value then finds all that was written done.
      const std::size_t ready =
          (account.taken() + account.available()) / block_words * block_words - account.taken();
      const bool more = account.room() != 0 && account.written() < words;
      kept_back = more ? std::min(ready, kept_back_words) : 0;
      take(account, burst, delivered, ready - kept_back);
    }
    stop();
    wipe(burst.data(), sizeof burst);
    return {delivered * word_bytes, delivered == words};
  }

  // As Engine::absorb, for a spec of the table. When the engine keeps up, every word is written once, and
  // FCSR is read once for each 32 words after the first 32. All or nothing.
  [[nodiscard]] Progress absorb(const AbsorbRequest& request) noexcept {
    using Account = sun4i_ss::FifoAccount;
    const sun4i_ss::DigestRow& row = sun4i_ss::digests[algorithm(request.spec) - sun4i_ss::ciphers.size()];
    const std::size_t words = request.length / word_bytes;
    Account account(Account::Output::none);
    sun4i_ss::Patience patience;

    clear_keys(0);
    for (std::size_t word = 0; word < row.state_words; ++word) {
      io_.write(sun4i_ss::reg_iv0 + word_bytes * word, in_register(row, request.state[word]));
    }
    io_.write(sun4i_ss::reg_ctl, sun4i_ss::ctl_enable | row.control | sun4i_ss::ctl_given_state);
    bool sound = true;
    for (;;) {
      feed(request.in, account, words);
      if (account.written() == words) break;
      const Account::Verdict verdict = account.check(io_.read(sun4i_ss::reg_fcsr));
      sound =
          verdict != Account::Verdict::insane && patience.lasts(io_, verdict == Account::Verdict::progress);
      if (!sound) break;
    }
    sound = sound && collect(row, patience, request.state);
    stop();
    clear_state(row.state_words);
    return {sound ? request.length : 0, sound};
  }

  // As Engine::random. The seed goes in before the start, as the vendor's driver has it, and each word is
  // waited for, which Linux's did not.
  [[nodiscard]] bool random(std::span<const std::uint8_t, 24> seed,
                            std::span<std::uint8_t, 20> out) noexcept {
    sun4i_ss::Patience patience;
    for (std::size_t byte = 0; byte < seed.size(); byte += word_bytes) {
      io_.write(sun4i_ss::reg_key0 + byte, word_at(seed.data() + byte));
    }
    clear_keys(seed.size() / word_bytes);
    io_.write(sun4i_ss::reg_ctl, sun4i_ss::ctl_enable | sun4i_ss::ctl_prng | sun4i_ss::ctl_prng_continuous);
    std::size_t done = 0;
    bool sound = true;
    while (sound && done < out.size()) {
      const std::uint32_t fcsr = io_.read(sun4i_ss::reg_fcsr);
      std::size_t available = (fcsr >> 16) & 0x3f;
      sound = available <= sun4i_ss::tx_words && patience.lasts(io_, available != 0);
      for (; sound && available != 0 && done < out.size(); --available, done += word_bytes) {
        const std::uint32_t word = io_.read(sun4i_ss::reg_txfifo);
        std::memcpy(out.data() + done, &word, word_bytes);
      }
    }
    // An engine that was away in the meantime gives words without work.
    const std::uint32_t control = io_.read(sun4i_ss::reg_ctl);
    sound = sound && (control & (sun4i_ss::ctl_enable | sun4i_ss::ctl_method)) ==
                         (sun4i_ss::ctl_enable | sun4i_ss::ctl_prng);
    stop();
    // They hold the next state.
    taken_over();
    clear_keys(0);
    if (!sound) wipe(out.data(), out.size());
    return sound;
  }

 private:
  static constexpr std::size_t word_bytes = sizeof(std::uint32_t);
  static constexpr std::size_t kept_back_words = 4;
  static constexpr std::array<std::uint8_t, 16> zeros{};

  static std::uint32_t word_at(const std::uint8_t* bytes) noexcept {
    std::uint32_t word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
  }

  // Both FIFOs, and the engine is there.
  static bool empty(std::uint32_t fcsr) noexcept {
    return ((fcsr >> 24) & 0x3f) == sun4i_ss::rx_words && ((fcsr >> 16) & 0x3f) == 0;
  }

  // What a longer key than the next one has left in the registers from `first` on.
  void clear_keys(std::size_t first) noexcept {
    for (std::size_t word = first; word < foreign_keys_; ++word) {
      io_.write(sun4i_ss::reg_key0 + word_bytes * word, 0);
    }
    foreign_keys_ = first;
  }

  // The state of a digest may have come from a key.
  void clear_state(std::size_t words) noexcept {
    for (std::size_t word = 0; word < words; ++word) io_.write(sun4i_ss::reg_iv0 + word_bytes * word, 0);
  }

  void start(const CipherRequest& request) noexcept {
    const sun4i_ss::CipherRow& row =
        sun4i_ss::ciphers[sun4i_ss::cipher_rows[sun4i_ss::cipher_slot(request.spec)]];
    // Even if the key is the last one's: AES leaves other values in the registers.
    const std::uint8_t* key = request.key.data();
    std::size_t byte = 0;
    for (std::size_t word = 0; word < row.key_words; ++word) {
      io_.write(sun4i_ss::reg_key0 + word_bytes * word, word_at(key + byte));
      byte += word_bytes;
      if (byte == row.spec.key_bytes) byte = 0;
    }
    clear_keys(row.key_words);
    const std::size_t iv_bytes = row.spec.mode == Mode::cbc ? row.spec.iv_bytes : 0;
    for (byte = 0; byte < iv_bytes; byte += word_bytes) {
      io_.write(sun4i_ss::reg_iv0 + byte, word_at(request.iv + byte));
    }
    io_.write(sun4i_ss::reg_ctl,
              sun4i_ss::ctl_enable | row.control | (decrypts(request) ? sun4i_ss::ctl_decrypt : 0U));
  }

  // CTR encrypts its counters both ways.
  static bool decrypts(const CipherRequest& request) noexcept {
    return request.direction == Direction::decrypt && request.spec.mode != Mode::ctr;
  }

  void feed_counters(sun4i_ss::CounterWords& counters, sun4i_ss::FifoAccount& account,
                     std::size_t words) noexcept {
    const std::size_t now = std::min(account.room(), words - account.written());
    for (std::size_t word = 0; word < now; ++word) io_.write(sun4i_ss::reg_rxfifo, counters.next());
    account.wrote(now);
  }

  // As many of `words` as there is room for.
  void feed(const std::uint8_t* in, sun4i_ss::FifoAccount& account, std::size_t words) noexcept {
    const std::uint8_t* from = in + account.written() * word_bytes;
    const std::size_t now = std::min(account.room(), words - account.written());
    for (std::size_t word = 0; word < now; ++word) {
      io_.write(sun4i_ss::reg_rxfifo, word_at(from + word * word_bytes));
    }
    account.wrote(now);
  }

  void take(sun4i_ss::FifoAccount& account, std::array<std::uint32_t, sun4i_ss::tx_words>& burst,
            std::size_t delivered, std::size_t words) noexcept {
    std::uint32_t* to = burst.data() + (account.taken() - delivered);
    for (std::size_t word = 0; word < words; ++word) to[word] = io_.read(sun4i_ss::reg_txfifo);
    account.got(words);
  }

  // The next IV comes from the data, because not every SoC's IV registers can be read back; when
  // decrypting, from the input, before the output may overwrite it.
  void deliver(const CipherRequest& request, const std::array<std::uint32_t, sun4i_ss::tx_words>& burst,
               std::size_t from, std::size_t to) noexcept {
    if (from == to) return;
    const std::size_t iv_bytes = request.spec.iv_bytes;
    const std::size_t bytes = (to - from) * word_bytes;
    if (request.spec.mode == Mode::ctr) {
      // Upwards, because `out` may lie before `in` and overlap it.
      for (std::size_t word = from; word < to; ++word) {
        const std::uint32_t text = word_at(request.in + word * word_bytes) ^ burst[word - from];
        std::memcpy(request.out + word * word_bytes, &text, sizeof text);
      }
      advance_counter(request.iv, bytes / request.spec.block_bytes);
      return;
    }
    const auto* output = reinterpret_cast<const std::uint8_t*>(burst.data());
    if (iv_bytes != 0) {
      const std::uint8_t* ciphertext =
          request.direction == Direction::encrypt ? output : request.in + from * word_bytes;
      std::memcpy(request.iv, ciphertext + bytes - iv_bytes, iv_bytes);
    }
    std::memcpy(request.out + from * word_bytes, output, bytes);
  }

  // A word of a digest's state, from number to register and back. Linux takes SHA-1's words out of an A33 and
  // puts them in again as they are, all five alike; the vendor's driver has it that the fifth goes in
  // unswapped.
  [[nodiscard]] std::uint32_t in_register(const sun4i_ss::DigestRow& row, std::uint32_t word) const noexcept {
    const bool swapped = row.spec.digest == Digest::sha1 && errata_.has(Erratum::sha1_big_endian);
    return swapped ? __builtin_bswap32(word) : word;
  }

  // Whether the engine still is at this digest; false if it was away in the meantime, or is.
  static bool at_work(const sun4i_ss::DigestRow& row, std::uint32_t control) noexcept {
    return (control & (sun4i_ss::ctl_enable | sun4i_ss::ctl_method)) == (sun4i_ss::ctl_enable | row.control);
  }

  // All words are written: waits for the state and takes it, if it can be trusted.
  [[nodiscard]] bool collect(const sun4i_ss::DigestRow& row, sun4i_ss::Patience& patience,
                             std::uint32_t* state) noexcept {
    // Before the end is declared, because that would start an engine that has forgotten us.
    if (!at_work(row, io_.read(sun4i_ss::reg_ctl))) return false;
    io_.write(sun4i_ss::reg_ctl, sun4i_ss::ctl_enable | row.control | sun4i_ss::ctl_data_end);
    for (;;) {
      const std::uint32_t control = io_.read(sun4i_ss::reg_ctl);
      if (!at_work(row, control)) return false;
      if ((control & sun4i_ss::ctl_data_end) == 0) break;
      if (!patience.lasts(io_, false)) return false;
    }
    // The words of the state may come a little after that bit: this read is time enough.
    if (!empty(io_.read(sun4i_ss::reg_fcsr))) return false;
    std::array<std::uint32_t, sun4i_ss::state_registers> words;
    for (std::size_t word = 0; word < row.state_words; ++word) {
      words[word] = in_register(row, io_.read(sun4i_ss::reg_md0 + word_bytes * word));
    }
    const bool sound = at_work(row, io_.read(sun4i_ss::reg_ctl));
    if (sound) std::copy_n(words.begin(), row.state_words, state);
    wipe(words.data(), sizeof words);
    return sound;
  }

  Io& io_;
  const Errata errata_;
  // Key registers below this one may hold words of a key; touched under the engine's lock only.
  std::size_t foreign_keys_ = 0;
};

}  // namespace sunxi
