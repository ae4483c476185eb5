// SPDX-License-Identifier: Apache-2.0
// The first generation's engine ("Security System") in polled PIO. Registers and sequence as in Linux
// drivers/crypto/allwinner/sun4i-ss and the vendor's sunxi-ss driver; one context, no queue, no interrupt
// needed, no status but the fill counts of its two FIFOs.
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
#include <string_view>

#include "backends/backend.h"
#include "backends/mmio/engine.h"
#include "backends/process.h"

namespace sunxi {

namespace sun4i_ss {

// "RX" is what the engine receives, "TX" what it gives.
enum Register : std::size_t {
  reg_ctl = 0x00,
  reg_key0 = 0x04,
  reg_iv0 = 0x24,
  reg_fcsr = 0x44,
  reg_rxfifo = 0x200,
  reg_txfifo = 0x204,
};

inline constexpr std::size_t key_registers = 8;
inline constexpr std::size_t rx_words = 32;
inline constexpr std::size_t tx_words = 33;

enum Control : std::uint32_t {
  ctl_enable = 1U << 0,
  ctl_aes = 0U << 4,
  ctl_decrypt = 1U << 7,
  ctl_key_size_shift = 8,  // 0, 1, 2 for 128, 192, 256
  ctl_cbc = 1U << 12,
};

// Keeps the books of one request and holds every FCSR value against them: the counts are all that the
// engine tells, so whatever cannot be true of them means that the words it gave cannot be trusted either.
class FifoAccount {
 public:
  enum class Verdict : std::uint8_t {
    progress,
    waiting,  // sound, but nothing has moved since the last time
    silent,   // all zero: a full input and an empty output, or an engine that is gone. Proves nothing
    insane,
  };

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
    if (produced > consumed || consumed - produced > inside_limit) return Verdict::insane;
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
  // A block being computed and one on its way out. All else is in a FIFO.
  static constexpr std::size_t inside_limit = 8;

  std::size_t written_ = 0;
  std::size_t taken_ = 0;
  std::size_t consumed_ = 0;
  std::size_t produced_ = 0;
  std::size_t free_ = rx_words;  // known without asking: enabling empties both FIFOs
};

}  // namespace sun4i_ss

template <class Io>
class Sun4iSs {
  static_assert(std::endian::native == std::endian::little, "FIFO words hold the byte stream little-endian");

 public:
  static constexpr std::string_view name = "sun4i-ss";
  static constexpr std::array ciphers{
      CipherSpec{Cipher::aes, Mode::cbc, 16, 16, 16},
      CipherSpec{Cipher::aes, Mode::cbc, 24, 16, 16},
      CipherSpec{Cipher::aes, Mode::cbc, 32, 16, 16},
  };

  // `io` outlives the driver.
  explicit Sun4iSs(Io& io) noexcept : io_(io) {}

  [[nodiscard]] static constexpr bool supports(const CipherSpec& spec) noexcept {
    return std::find(ciphers.begin(), ciphers.end(), spec) != ciphers.end();
  }

  [[nodiscard]] bool alive() noexcept {
    io_.write(sun4i_ss::reg_ctl, sun4i_ss::ctl_enable);
    const std::uint32_t control = io_.read(sun4i_ss::reg_ctl);
    const std::uint32_t fcsr = io_.read(sun4i_ss::reg_fcsr);
    stop();
    return (control & sun4i_ss::ctl_enable) != 0 && control != ~std::uint32_t{0} &&
           ((fcsr >> 24) & 0x3f) == sun4i_ss::rx_words && ((fcsr >> 16) & 0x3f) == 0;
  }

  void stop() noexcept { io_.write(sun4i_ss::reg_ctl, 0); }

  void wipe_keys() noexcept {
    for (std::size_t word = 0; word < sun4i_ss::key_registers; ++word) {
      io_.write(sun4i_ss::reg_key0 + 4 * word, 0);
    }
  }

  // As Engine::crypt, for a spec of `ciphers`. When the engine keeps up, every word is written once and
  // read once, and FCSR is read once for each 32 words and once more at the end: below that, the output
  // of a burst would be trusted before the engine has confirmed it.
  [[nodiscard]] Progress crypt(const CipherRequest& request) noexcept {
    using Account = sun4i_ss::FifoAccount;
    const std::size_t words = request.length / word_bytes;
    const std::size_t block_words = request.spec.block_bytes / word_bytes;
    Account account;
    std::size_t delivered = 0;                            // words of `out` that are final
    std::array<std::uint32_t, sun4i_ss::tx_words> burst;  // [delivered, account.taken()), unconfirmed
    std::size_t kept_back = 0;
    unsigned fruitless = 0;
    std::uint64_t fruitless_since = 0;

    start(request);
    for (;;) {
      feed(request, account, std::min(account.room(), words - account.written()));
      take(account, burst, delivered, kept_back);

      const Account::Verdict verdict = account.check(io_.read(sun4i_ss::reg_fcsr));
      if (verdict == Account::Verdict::insane) break;
      if (verdict == Account::Verdict::progress) {
        fruitless = 0;
      } else if (fruitless++ % clock_interval == 0) {
        const std::uint64_t now = io_.now();
        if (fruitless == 1) fruitless_since = now;
        if (fruitless > poll_limit || now - fruitless_since > wait_limit) break;
      }
      if (verdict == Account::Verdict::silent) {
        kept_back = 0;
        continue;
      }

      deliver(request, burst, delivered, account.taken());
      delivered = account.taken();
      if (delivered == words) break;

      // Whole blocks only. While there is more to write, the last block of the burst stays in the FIFO
      // until it is written: reading takes longer than the engine needs for a block, so that the next
      // FCSR value then finds all that was written done.
      const std::size_t ready =
          (account.taken() + account.available()) / block_words * block_words - account.taken();
      const bool more = account.room() != 0 && account.written() < words;
      kept_back = more ? std::min(ready, block_words) : 0;
      take(account, burst, delivered, ready - kept_back);
    }
    stop();
    wipe(burst.data(), sizeof burst);
    return {delivered * word_bytes, delivered == words};
  }

 private:
  static constexpr std::size_t word_bytes = sizeof(std::uint32_t);
  // About 200 us of polls at the speed of an A20's bus, 1,400 times what a block takes; and a bound in
  // time, looked at now and then, for where a register access is slow.
  static constexpr unsigned poll_limit = 2048;
  static constexpr unsigned clock_interval = 64;
  static constexpr std::uint64_t wait_limit = 10'000'000;

  static std::uint32_t word_at(const std::uint8_t* bytes) noexcept {
    std::uint32_t word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
  }

  void start(const CipherRequest& request) noexcept {
    // Even if the key is the last one's: AES leaves other values in the registers.
    for (std::size_t byte = 0; byte < request.key.size(); byte += word_bytes) {
      io_.write(sun4i_ss::reg_key0 + byte, word_at(request.key.data() + byte));
    }
    for (std::size_t byte = 0; byte < request.spec.iv_bytes; byte += word_bytes) {
      io_.write(sun4i_ss::reg_iv0 + byte, word_at(request.iv + byte));
    }
    std::uint32_t control = sun4i_ss::ctl_enable | sun4i_ss::ctl_aes | sun4i_ss::ctl_cbc;
    control |= (request.spec.key_bytes - 16U) / 8U << sun4i_ss::ctl_key_size_shift;
    if (request.direction == Direction::decrypt) control |= sun4i_ss::ctl_decrypt;
    io_.write(sun4i_ss::reg_ctl, control);
  }

  void feed(const CipherRequest& request, sun4i_ss::FifoAccount& account, std::size_t words) noexcept {
    const std::uint8_t* from = request.in + account.written() * word_bytes;
    for (std::size_t word = 0; word < words; ++word) {
      io_.write(sun4i_ss::reg_rxfifo, word_at(from + word * word_bytes));
    }
    account.wrote(words);
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
    const auto* output = reinterpret_cast<const std::uint8_t*>(burst.data());
    const std::uint8_t* ciphertext =
        request.direction == Direction::encrypt ? output : request.in + from * word_bytes;
    std::memcpy(request.iv, ciphertext + bytes - iv_bytes, iv_bytes);
    std::memcpy(request.out + from * word_bytes, output, bytes);
  }

  Io& io_;
};

}  // namespace sunxi
