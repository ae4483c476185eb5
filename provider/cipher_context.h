// SPDX-License-Identifier: Apache-2.0
// Cipher contexts: the EVP contract on one side, the software path and the router on the other.
//
// A stream has one owner at a time. While the default provider's context owns it, everything (IV,
// partial block, held-back block, padding) lives there and our code is one compare and one indirect
// call. The first request that a backend takes makes the stream ours: IV and partial block are here
// then, until something comes that software has to do.
//
// cipher.cpp: the dispatch tables; cipher_context.cpp: life, keys, parameters; cipher_route.cpp: requests.
#pragma once

#include <openssl/crypto.h>

#include <array>
#include <cstdlib>
#include <new>

#include "provider/provider.h"
#include "provider/tls_record.h"

namespace sunxi {

constexpr std::size_t max_block = 16;
constexpr const char* param_backend = "sunxi-backend";
constexpr const char* param_min_bytes = "sunxi-min-bytes";

enum class Owner : std::uint8_t { software, ours };

// libcrypto's update and cipher functions. They are C and throw nothing; said in the type, the compiler
// can jump to them instead of calling.
using Transform = int (*)(void* context, unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                          const unsigned char* in, std::size_t length) noexcept;

// The state of a context, all of it plain data: a duplicate is a copy.
struct Stream {
  std::size_t limit = never;  // shorter requests go straight to software; 0 while the stream is ours

  // What went into the default provider's context, and how much of that came before the stream began.
  // The hot ones stand apart, so that they are two additions to memory and no vector code.
  std::uint64_t requests = 0;
  std::size_t may_buffer = 1;    // 0 if whole blocks go through update as they go through cipher
  std::size_t within_block = 0;  // the bits of a length that whole blocks have not
  std::uint64_t update_bytes = 0;
  std::uint64_t update_bytes_before = 0;
  std::uint64_t cipher_bytes = 0;
  std::uint64_t cipher_bytes_before = 0;
  std::size_t row = 0;
  std::size_t own_min_bytes = 0;
  std::uint64_t requests_at_last = 0;  // when `last` was set

  bool has_own_min_bytes = false;
  Owner owner = Owner::software;
  Direction direction = Direction::encrypt;
  Direction schedule = Direction::encrypt;  // what the inner key schedule is for
  bool has_key = false;
  bool has_iv = false;  // without one, what an init without IV does depends on the inner context
  bool padding = true;
  bool inner_padding = true;  // what the default provider's context has just now
  bool tls = false;           // every update is a record ...
  bool records = false;       // ... of a kind that is padded and opened here
  bool explicit_iv = false;   // which begins with an IV
  bool has_mac = false;
  bool iv_escaped = false;     // the application has a pointer to the inner context's running IV
  bool may_share_mac = false;  // records went past us: see duplicate
  bool trusted = true;         // false after an error: nobody knows what is in the inner context's buffer
  bool iv_is_here = false;     // iv is the running IV, as long as nothing went into the inner context
  bool inner_start_iv_is_stale = false;
  BackendIndex last = no_index;
  std::uint8_t buffered = 0;  // bytes in buffer, while the stream is ours
  std::array<std::uint8_t, max_iv_bytes> iv{};
  std::array<std::uint8_t, max_iv_bytes> start_iv{};  // valid after an init with an IV
  // Not set before they are used, and no more than that is wiped: contexts are made for single short
  // messages too.
  std::array<std::uint8_t, max_key_bytes> key;
  std::array<std::uint8_t, max_block> buffer;
  std::array<std::uint8_t, max_mac_bytes> mac;  // of the last record that was opened
  std::size_t mac_bytes = 0;
};

class CipherContext {
 public:
  CipherContext(Provider& provider, const SoftwareCipher& software, std::size_t row, void* inner) noexcept
      : inner_(inner),
        inner_update_(reinterpret_cast<Transform>(software.update)),
        inner_cipher_(reinterpret_cast<Transform>(software.cipher)),
        provider_(provider) {
    stream_.row = row;
    stream_.within_block = mode() == Mode::ctr ? 0 : block() - 1;
  }
  CipherContext(const CipherContext&) = delete;
  CipherContext& operator=(const CipherContext&) = delete;
  ~CipherContext();

  // Straight to malloc: contexts are made for single short messages too.
  static void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
  static void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
  // NOLINTNEXTLINE(cert-dcl54-cpp,misc-new-delete-overloads): there is no throwing new to match
  static void operator delete(void* memory) noexcept { std::free(memory); }

  // Null when memory is out. Has no session of its own before it needs one.
  [[nodiscard]] CipherContext* duplicate() const noexcept;

  int init(Direction direction, const unsigned char* key, std::size_t key_bytes, const unsigned char* iv,
           std::size_t iv_bytes, const OSSL_PARAM* params) noexcept;

  // The hot path: while software owns the stream, nothing but this happens.
  int update(unsigned char* out, std::size_t* out_bytes, std::size_t out_size, const unsigned char* in,
             std::size_t length) noexcept {
    if (length < stream_.limit) [[likely]] {
      // Whole blocks of a stream that needs no buffer have the shorter of the two ways.
      if (((length & stream_.within_block) | stream_.may_buffer) == 0 && nothing_updated())
        return software_cipher(out, out_bytes, out_size, in, length);
      return software_update(out, out_bytes, out_size, in, length);
    }
    return route_update(out, out_bytes, out_size, in, length);
  }
  // The same of a mode without blocks (CTR, XTS): one way for all lengths.
  int update_stream(unsigned char* out, std::size_t* out_bytes, std::size_t out_size, const unsigned char* in,
                    std::size_t length) noexcept {
    if (length < stream_.limit) [[likely]] {
      ++stream_.requests;
      stream_.cipher_bytes += length;
      return inner_update_(inner_, out, out_bytes, out_size, in, length);
    }
    return route_update(out, out_bytes, out_size, in, length);
  }
  int cipher(unsigned char* out, std::size_t* out_bytes, std::size_t out_size, const unsigned char* in,
             std::size_t length) noexcept {
    if (length < stream_.limit) [[likely]]
      return software_cipher(out, out_bytes, out_size, in, length);
    return route_cipher(out, out_bytes, out_size, in, length);
  }

  int final(unsigned char* out, std::size_t* out_bytes, std::size_t out_size) noexcept;
  int get_params(OSSL_PARAM* params) noexcept;
  int set_params(const OSSL_PARAM* params) noexcept;

 private:
  [[nodiscard]] const SoftwareCipher& software() const noexcept {
    return provider_.software->cipher(stream_.row);
  }
  [[nodiscard]] const CipherSpec& spec() const noexcept { return cipher_rows[stream_.row].spec; }
  [[nodiscard]] std::size_t block() const noexcept { return spec().block_bytes; }
  [[nodiscard]] Route route() const noexcept {
    return {stream_.row, stream_.direction, stream_.own_min_bytes, stream_.has_own_min_bytes};
  }
  [[nodiscard]] Mode mode() const noexcept { return spec().mode; }
  [[nodiscard]] bool is_ours() const noexcept { return stream_.owner == Owner::ours; }
  // Whether the last whole block waits for final, which removes its padding.
  [[nodiscard]] bool holds_back() const noexcept {
    return stream_.direction == Direction::decrypt && stream_.padding && mode() != Mode::ctr;
  }
  [[nodiscard]] bool nothing_updated() const noexcept {
    return stream_.update_bytes == stream_.update_bytes_before;
  }
  [[nodiscard]] bool nothing_ciphered() const noexcept {
    return stream_.cipher_bytes == stream_.cipher_bytes_before;
  }
  void begin_stream(std::size_t buffered) noexcept {
    stream_.update_bytes_before = stream_.update_bytes - buffered;
    stream_.cipher_bytes_before = stream_.cipher_bytes;
  }

  int software_update(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                      const unsigned char* in, std::size_t length) noexcept {
    ++stream_.requests;
    stream_.update_bytes += length;
    return inner_update_(inner_, out, out_bytes, out_size, in, length);
  }
  int software_cipher(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                      const unsigned char* in, std::size_t length) noexcept {
    ++stream_.requests;
    stream_.cipher_bytes += length;
    return inner_cipher_(inner_, out, out_bytes, out_size, in, length);
  }
  // Never inlined: the hot path saves no register.
  [[gnu::noinline]] int route_update(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                     const unsigned char* in, std::size_t length) noexcept;
  [[gnu::noinline]] int route_cipher(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                     const unsigned char* in, std::size_t length) noexcept;
  int do_route_update(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                      const unsigned char* in, std::size_t length) noexcept;
  int do_route_cipher(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                      const unsigned char* in, std::size_t length) noexcept;
  // Where the application may write to the inner context's IV, the stream does not stay away from there.
  [[nodiscard]] int come_back(int good) noexcept {
    return stream_.iv_escaped && is_ours() && !hand_back() ? 0 : good;
  }
  int route_counter(unsigned char* out, std::size_t* out_bytes, std::size_t out_size, const unsigned char* in,
                    std::size_t length) noexcept;
  int route_data_unit(bool as_update, unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                      const unsigned char* in, std::size_t length) noexcept;
  int route_record(unsigned char* out, std::size_t* out_bytes, std::size_t out_size, const unsigned char* in,
                   std::size_t length) noexcept;
  int open_record(unsigned char* out, std::size_t* out_bytes, std::size_t length) noexcept;
  [[nodiscard]] bool transform(std::size_t request, unsigned char* out, const unsigned char* in,
                               std::size_t length) noexcept;
  int continue_stream(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                      const unsigned char* in, std::size_t length) noexcept;
  int take_stream(unsigned char* out, std::size_t* out_bytes, std::size_t out_size, const unsigned char* in,
                  std::size_t length) noexcept;
  int finish_update(const Routed& routed, std::size_t offered, unsigned char* out, std::size_t* out_bytes,
                    std::size_t out_size, const unsigned char* in, std::size_t length) noexcept;
  [[nodiscard]] Routed try_backends(std::size_t request, unsigned char* out, const unsigned char* in,
                                    std::size_t length) noexcept;
  void remember_who(const Routed& routed, std::size_t request) noexcept;
  [[nodiscard]] bool inner_is_empty() noexcept;
  [[nodiscard]] bool load_iv() noexcept;
  [[nodiscard]] bool load_counter(unsigned int& position) noexcept;
  [[nodiscard]] bool hand_back() noexcept;
  [[nodiscard]] bool set_inner_padding(bool on) noexcept;
  [[nodiscard]] bool drop_stream() noexcept;
  [[nodiscard]] bool check_own_params(const OSSL_PARAM* params, std::size_t& min_bytes) const noexcept;
  [[nodiscard]] bool note_params(const OSSL_PARAM* params) noexcept;
  [[nodiscard]] bool give_length(OSSL_PARAM* params) const noexcept;
  [[nodiscard]] bool note_block_params(const OSSL_PARAM* params) noexcept;
  void note_tls_version(unsigned int version) noexcept;
  void note_failed_params(const OSSL_PARAM* params) noexcept;
  void note_failed_init(bool with_key, const unsigned char* iv, std::size_t iv_bytes,
                        const OSSL_PARAM* params) noexcept;
  void remember_key(const unsigned char* key) noexcept;
  void forget_key() noexcept;
  [[nodiscard]] bool halves_are_equal() const noexcept {
    const std::size_t half = spec().key_bytes / 2;
    return CRYPTO_memcmp(stream_.key.data(), stream_.key.data() + half, half) == 0;
  }
  void release_sessions() noexcept {
    for (const KeySlot& slot : slots_) {
      if (slot.session != nullptr) [[unlikely]] {
        provider_.router.release(slots_);
        return;
      }
    }
  }
  void set_limit() noexcept;
  void distrust() noexcept {
    if (stream_.tls && stream_.direction == Direction::decrypt) stream_.may_share_mac = true;
    stream_.has_mac = false;
    stream_.trusted = stream_.records = false;
    stream_.limit = never;
    stream_.may_buffer = 1;
  }

  // What the hot path needs comes first, in one cache line.
  void* inner_;  // the default provider's context; owned
  Transform inner_update_;
  Transform inner_cipher_;
  Stream stream_;
  Provider& provider_;
  std::uint64_t foreign_requests_ = 0, foreign_bytes_ = 0;  // counted by whom we were duplicated from
  KeySlots slots_{};
};

}  // namespace sunxi
