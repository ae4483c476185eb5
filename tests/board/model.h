// SPDX-License-Identifier: Apache-2.0
// A model of the first generation's engine ("sun4i-ss"), for tests of its driver.
//
// Written from what is publicly known of the device (Linux drivers/crypto/allwinner/sun4i-ss, the vendor's
// sunxi-ss driver, mails of the vendor's engineers on linux-crypto), not from our driver, and stricter than
// the device: what the silicon would drop, get wrong or leave undefined is recorded as a violation.
//
// Its clock is virtual: a store takes 33.1 ns and a load 93.4 ns, as measured on an A20; the engine works
// beside them. An object is plain memory, so that it can lie in a mapping that several processes share.
// Nothing in it is thread-safe but enter() and leave().
#pragma once

#include <openssl/aes.h>
#include <openssl/des.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sunxi::board {

enum class FaultKind : std::uint32_t {
  none,
  stall,       // the engine takes no further block
  overcount,   // FCSR counts `amount` more output words than there are
  zeros,       // loads give 0, stores are lost: as behind a closed clock gate
  ones,        // loads give all ones, stores are lost: as where nothing answers
  wrong_data,  // output words come with a flipped bit: nothing can notice
};

struct Fault {
  FaultKind kind = FaultKind::none;
  std::uint32_t amount = 4;
  std::uint64_t after = 0;     // accesses from when it is set until it begins
  std::uint64_t duration = 0;  // accesses that it lasts, 0: until it is taken away
};

// What differs between SoCs.
struct Traits {
  bool iv_readback_wrong = true;  // A10, A13
  bool has_cts_length = false;    // A33, V3s
  bool sha1_big_endian = false;   // A33, V3s: the words of SHA-1's state are byte-swapped, both ways
  // As before, but the fifth word goes in unswapped: what the vendor's driver has for an A33, and Linux has
  // not.
  bool sha1_word4_plain = false;
  bool has_reset = false;      // A31 and later: a bit of the clock unit holds the engine in reset
  std::uint32_t pll_bias = 0;  // A31 and later: the PLL's N is one more than its field says
  // Whether the words of a block leave the input FIFO when its work begins, or when it is done: not known
  // of the silicon, so a driver must be right with both.
  bool early_fetch = true;
  // From when CTL shows that a digest is done until its words can be read: more than one load takes.
  std::uint64_t state_lag_ps = 150'000;
};

struct Counters {
  std::uint64_t writes = 0;
  std::uint64_t reads = 0;
  std::uint64_t status_reads = 0;  // of FCSR, contained in `reads`
  std::uint64_t requests = 0;      // from start to stop with at least one block
  std::uint64_t blocks = 0;
  std::uint64_t picoseconds = 0;       // the virtual clock
  std::uint64_t last_picoseconds = 0;  // what the last request took, with what was written before its start
};

class Model {  // NOLINT(clang-analyzer-optin.performance.Padding): in the order of meaning
 public:
  // The thread that makes the accesses: its process in the upper half.
  using Who = std::uint64_t;

  static constexpr std::size_t window_bytes = 0x1000;
  static constexpr std::uint64_t write_ps = 33'100;
  static constexpr std::uint64_t read_ps = 93'400;

  [[nodiscard]] std::uint32_t read(std::size_t offset, Who who = 0);
  void write(std::size_t offset, std::uint32_t value, Who who = 0);

  // The clock unit, by offset from its base. Strict as well: only the engine's own bits may change, none may
  // be cleared, the rate is set before the gate, and is at most 150 MHz.
  static constexpr std::uint64_t clock_base = 0x01c20000;
  [[nodiscard]] std::uint32_t read_clock(std::size_t offset);
  void write_clock(std::size_t offset, std::uint32_t value);
  enum ClockPart : unsigned { bus_gate = 1, module_clock = 2, reset_line = 4 };
  void set_clocks(unsigned open_parts);  // as a boot loader or the kernel does
  [[nodiscard]] bool clocks_open() const { return answers() && (module_ >> 31) != 0; }
  [[nodiscard]] std::uint64_t module_hz() const;

  // For the driver in the same process.
  [[nodiscard]] std::uint64_t now() const { return counters.picoseconds / 1000; }

  void set_fault(const Fault& fault);
  [[nodiscard]] bool stopped() const { return ctl_ == 0; }
  [[nodiscard]] bool keys_are_zero() const;
  // The IV registers, which a digest's state goes through, too.
  [[nodiscard]] bool state_is_zero() const;
  void violate(const char* format, ...) __attribute__((format(printf, 2, 3)));

  // One user at a time; a user who was killed inside is waited for no longer than it takes to notice.
  void enter(std::uint32_t pid);
  void leave();

  Traits traits;
  std::uint64_t engine_ps = 0;     // time for one block
  bool gated = false;              // clock gate closed, whatever the clock unit says
  std::uint32_t pll = 0x90001811;  // the A20's and A31's usual words differ; create_board sets them
  std::uint64_t clock_writes = 0;
  Counters counters;
  std::uint64_t violations = 0;
  std::array<char, 240> first_violation{};

 private:
  static constexpr std::size_t rx_words = 32;
  static constexpr std::size_t tx_words = 33;

  // A register that holds its value, with who wrote it since the last request used it.
  struct Cell {
    std::uint32_t value = 0;
    bool fresh = false;
    Who writer = 0;
  };

  [[nodiscard]] bool answers() const;
  [[nodiscard]] bool begin_access(std::size_t offset, Who who, bool stop);
  [[nodiscard]] bool fault_active() const;
  void control(std::uint32_t value, Who who);
  void start(std::uint32_t value, Who who);
  void start_digest(std::uint32_t value);
  void end_data(std::uint32_t value);
  void finish_step();
  void stop();
  void receive(std::uint32_t value, Who who);
  [[nodiscard]] std::uint32_t give();
  [[nodiscard]] std::uint32_t status() const;
  void run();
  void try_block(std::uint64_t at);
  void first_block();
  void check_keys(std::size_t words);
  void fetch_block();
  void finish_block();
  void cipher_block();
  void digest_block();
  [[nodiscard]] std::uint32_t digest_word(std::size_t word);
  [[nodiscard]] std::uint32_t swapped(std::uint32_t value, std::size_t word, bool in) const;
  [[nodiscard]] bool digesting() const;
  [[nodiscard]] std::size_t block_words() const;
  [[nodiscard]] Cell* cell(std::size_t offset);

  static constexpr std::uint32_t engine_bit = 1U << 5;
  std::uint32_t bus_gates_ = 0x161 | engine_bit;
  std::uint32_t resets_ = 0x140 | engine_bit;
  std::uint32_t module_ = 0x81000003;

  std::uint32_t ctl_ = 0;
  std::array<Cell, 8> key_{};
  std::array<Cell, 5> iv_{};  // the fifth is CNT0
  std::array<std::uint32_t, 3> counter_{};
  std::uint32_t interrupts_ = 0;
  std::uint32_t cts_length_ = 0;

  std::array<std::uint32_t, rx_words> rx_{};
  std::size_t rx_count_ = 0;
  std::array<std::uint32_t, tx_words> tx_{};
  std::size_t tx_count_ = 0;

  AES_KEY schedule_{};
  std::array<DES_key_schedule, 3> des_{};
  std::array<std::uint8_t, 16> chain_{};
  std::array<std::uint32_t, 5> state_{};  // of a digest, as numbers
  std::array<std::uint8_t, 64> block_{};
  bool end_declared_ = false;
  bool end_seen_ = false;
  std::uint64_t state_at_ = 0;  // ps, when its words can be read
  bool working_ = false;
  std::uint64_t done_at_ = 0;  // ps
  bool step_done_ = false;     // of the generator
  std::uint64_t request_blocks_ = 0;
  std::uint64_t stopped_at_ = 0;  // on the virtual clock
  Who user_ = 0;                  // of the request that runs
  bool tainted_ = false;          // a fault has struck it: what its user does now is not his mistake

  Fault fault_;
  std::uint64_t fault_age_ = 0;
  bool vanished_ = false;

  std::atomic<std::uint32_t> inside_{0};
};

// The model's part of a process that is gone, or a corpse.
[[nodiscard]] bool process_is_dead(std::uint32_t pid);

}  // namespace sunxi::board
