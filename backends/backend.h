// SPDX-License-Identifier: Apache-2.0
// The one interface between the router in provider/ and the accelerators.
//
// A backend turns whole blocks into whole blocks. It knows keys, IVs and devices; it does not know
// OpenSSL, padding, streams or thresholds. Everything that it cannot do, or cannot do now, goes back
// to the router, which finishes the request elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sunxi {

enum class Cipher : std::uint8_t {
  aes,
  des,
  des3,  // EDE; a key of 16 bytes is K1 K2 and stands for K1 K2 K1
};
// What `iv` is, and becomes:
enum class Mode : std::uint8_t {
  ecb,  // nothing
  cbc,  // the last block of ciphertext
  ctr,  // the counter block, a big-endian number of 128 bits that wraps, one more for each block
  xts,  // the tweak of the one data unit that the request is; left alone
};
enum class Direction : std::uint8_t { encrypt, decrypt };

inline constexpr std::size_t max_key_bytes = 64;
inline constexpr std::size_t max_iv_bytes = 16;

// What is to be computed, as data: backends compare it with their capability tables.
struct CipherSpec {
  Cipher cipher;
  Mode mode;
  std::uint16_t key_bytes;
  std::uint8_t block_bytes;  // of the cipher, in stream modes too
  std::uint8_t iv_bytes;

  friend constexpr bool operator==(const CipherSpec&, const CipherSpec&) = default;
};

enum class Digest : std::uint8_t { md5, sha1, sha224, sha256, sha384, sha512, sha512_224, sha512_256 };

struct DigestSpec {
  Digest digest;
  std::uint8_t block_bytes;   // 64 or 128
  std::uint8_t digest_bytes;  // of the result

  friend constexpr bool operator==(const DigestSpec&, const DigestSpec&) = default;
};

// Whole blocks into a chaining state: padding and length are the caller's. All pointers are the caller's
// and stay valid during the call only.
struct AbsorbRequest {
  DigestSpec spec;
  // The chaining state as numbers, in the order of the digest's own standard: 4 words for MD5, 5 for SHA-1, 8
  // for SHA-224 and SHA-256. Updated: after Result::done bytes. Digests of 64-bit words are not absorbed.
  std::uint32_t* state;
  const std::uint8_t* in;  // any alignment
  std::size_t length;      // bytes, > 0, a multiple of spec.block_bytes, any size
};

// One request. All pointers are the caller's and stay valid during the call only.
struct CipherRequest {
  CipherSpec spec;
  Direction direction;
  std::span<const std::uint8_t> key;  // spec.key_bytes
  std::uint8_t* iv;                   // spec.iv_bytes; updated: for the block after Result::done
  const std::uint8_t* in;             // any alignment
  std::uint8_t* out;                  // any alignment; equal to `in`, overlapping it, or apart from it
  // Bytes, > 0, a multiple of spec.block_bytes, any size; XTS: any number from one block to 2^20 blocks.
  std::size_t length;
};

enum class Outcome : std::uint8_t {
  served,       // done == length
  busy,         // in use or at a limit: not a fault, the next request may be lucky
  unsupported,  // not this algorithm, for as long as the process lives
  unavailable,  // not reachable now (absent, no permission, sandbox): ask again after a while
  failed,       // it was tried and went wrong: a fault, counted for the back-off
};

// Bytes [0, done) of `out` are final and `iv` continues after them. Unless `served`, the input from
// `done` on is unharmed even where in and out overlap, so that somebody else can go on from there.
// A data unit of XTS is done whole or not at all.
struct Result {
  Outcome outcome;
  std::size_t done;
};

// The counter block after `blocks` more, without a branch on its value.
inline void advance_counter(std::uint8_t* counter, std::uint64_t blocks) noexcept {
  std::uint64_t carry = blocks;
  for (std::size_t i = 16; i-- != 0;) {
    carry += counter[i];
    counter[i] = static_cast<std::uint8_t>(carry);
    carry >>= 8U;
  }
}

// What a backend keeps for one key of one context; empty (null) until the first request. The owner
// gives it back with Backend::release before the key changes or the context goes.
struct KeySlot {
  void* session = nullptr;
  std::uint64_t generation = 0;  // Process::generation() that `session` belongs to
};

// Thread-safety: every function may be called by any number of threads at once, each with a slot of
// its own. No function throws, blocks without a bound of its own (a kernel driver's wait excepted),
// or leaves errno, signals or descriptors of the caller changed.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  // As in the configuration key `backends`: "afalg", "cryptodev", "mmio". Static storage,
  // with a NUL behind it.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  // From capability data alone: touches no device, makes no system call.
  [[nodiscard]] virtual bool supports(const CipherSpec& spec) const noexcept = 0;

  [[nodiscard]] virtual Result crypt(KeySlot& slot, const CipherRequest& request) noexcept = 0;

  // Empties the slot and wipes what no other slot shares. A slot from before a fork is forgotten.
  virtual void release(KeySlot& slot) noexcept = 0;

  // Who does the work behind `name` for this algorithm, such as "cbc-aes-sun8i-ce", for the log;
  // empty before the first served request. Writes at most size - 1 characters and a NUL.
  virtual void driver(const CipherSpec& spec, std::span<char> text) const noexcept = 0;

  // ---- Digests. A backend supports one of two ways, or none.

  // How it computes a digest, from capability data alone as above.
  enum class DigestWay : std::uint8_t {
    none,
    absorb,    // any whole blocks of any message, the state words going in and coming out
    messages,  // whole messages from their start, in a session that holds the state
  };
  [[nodiscard]] virtual DigestWay digest_way(const DigestSpec&) const noexcept { return DigestWay::none; }

  [[nodiscard]] virtual Result absorb(const AbsorbRequest&) noexcept { return {Outcome::unsupported, 0}; }

  // A message: any number of `extend`, the first of which opens a session in an empty slot, then `conclude`,
  // which writes spec.digest_bytes and empties the slot, or `abandon`, which only empties it. After an
  // outcome other than `served` the session is lost and the slot is empty. A session from before a fork is
  // lost: `busy`, as the process may open others.
  [[nodiscard]] virtual Outcome extend(KeySlot&, const DigestSpec&, const std::uint8_t*,
                                       std::size_t) noexcept {
    return Outcome::unsupported;
  }
  [[nodiscard]] virtual Outcome conclude(KeySlot&, const DigestSpec&, std::uint8_t*) noexcept {
    return Outcome::unsupported;
  }
  virtual void abandon(KeySlot&) noexcept {}
  // A session in `copy`, which is empty, with the same state. Not served: `copy` is empty, the original is
  // as it was. Several threads may clone one session at once.
  [[nodiscard]] virtual Outcome clone(const KeySlot&, KeySlot& copy) noexcept {
    copy = {};
    return Outcome::unsupported;
  }
  virtual void digest_driver(const DigestSpec&, std::span<char> text) const noexcept {
    if (!text.empty()) text[0] = '\0';
  }
};

class Process;

struct BackendOptions {
  bool accelerated_only = true;  // serve only where the kernel's driver is known to be hardware
  bool under_seccomp = false;    // open sessions in a process under a seccomp filter too
  // mmio
  enum class MmioDevice : std::uint8_t { autodetect, off, devmem, uio };
  MmioDevice mmio_device = MmioDevice::autodetect;
  std::uint64_t mmio_address = 0;  // devmem: physical base of the engine
  std::string mmio_uio;            // uio: device name, such as "uio0"
  std::string mmio_soc = "auto";   // or a name of the SoC table
  bool mmio_map_at_startup = false;
};

// The list of backends, in backends/list.cpp: one line each, null for an unknown name.
// `process` outlives the backend.
[[nodiscard]] std::unique_ptr<Backend> make_backend(std::string_view name, Process& process,
                                                    const BackendOptions& options);

}  // namespace sunxi
