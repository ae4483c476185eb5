// SPDX-License-Identifier: Apache-2.0
// Cipher contexts: the EVP contract on one side, the software path and the router on the other.
//
// A stream has one owner at a time. While the default provider's context owns it, everything (IV,
// partial block, held-back block, padding) lives there and our code is one compare and one indirect
// call. The first request that a backend takes makes the stream ours: IV and partial block are here
// then, until something comes that software has to do.
//
// Four kinds of request find their way to backends: updates of a block mode (route_update and below),
// CTR at any byte (route_counter), data units of XTS, which have no state (route_data_unit), and TLS
// records (route_record).
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/proverr.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "provider/provider.h"
#include "provider/tls_record.h"

namespace sunxi {
namespace {

constexpr std::size_t max_block = 16;
constexpr const char* param_backend = "sunxi-backend";
constexpr const char* param_min_bytes = "sunxi-min-bytes";

enum class Owner : std::uint8_t { software, ours };

// libcrypto's update and cipher functions. They are C and throw nothing; said in the type, the compiler
// can jump to them instead of calling.
using Transform = int (*)(void* context, unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                          const unsigned char* in, std::size_t length) noexcept;

// Keys and IVs are short: in the usual lengths a move or two instead of a call.
inline void copy_key(std::uint8_t* to, const unsigned char* from, std::size_t bytes) noexcept {
  if (bytes == 16) {
    std::memcpy(to, from, 16);
  } else if (bytes == 32) {
    std::memcpy(to, from, 32);
  } else {
    std::memcpy(to, from, bytes);
  }
}
inline void copy_iv(std::uint8_t* to, const unsigned char* from, std::size_t bytes) noexcept {
  if (bytes == max_iv_bytes) {
    std::memmove(to, from, max_iv_bytes);
  } else {
    std::memmove(to, from, bytes);
  }
}

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
  int cipher(unsigned char* out, std::size_t* out_bytes, std::size_t out_size, const unsigned char* in,
             std::size_t length) noexcept {
    if (length < stream_.limit) [[likely]]
      return software_cipher(out, out_bytes, out_size, in, length);
    return route_cipher(out, out_bytes, out_size, in, length);
  }

  int final(unsigned char* out, std::size_t* out_bytes, std::size_t out_size) noexcept;
  int get_params(OSSL_PARAM* params) const noexcept;
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
  [[nodiscard]] bool note_params(const OSSL_PARAM* params) noexcept;
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
    if (stream_.tls) stream_.may_share_mac = true;
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

CipherContext::~CipherContext() {
  release_sessions();
  provider_.router.add_software(stream_.requests - foreign_requests_,
                                stream_.update_bytes + stream_.cipher_bytes - foreign_bytes_);
  software().freectx(inner_);
  if (spec().key_bytes <= 32) {
    wipe(stream_.key.data(), 32);
  } else {
    wipe(stream_.key.data(), stream_.key.size());
  }
  if (is_ours()) wipe(stream_.buffer.data(), stream_.buffer.size());
  if (stream_.records) wipe(stream_.mac.data(), stream_.mac.size());
}

CipherContext* CipherContext::duplicate() const noexcept {
  // The default provider's contexts share the MAC of the last record, and free it twice
  // (openssl/openssl#30548).
  if (stream_.may_share_mac && stream_.direction == Direction::decrypt) {
    provider_.core.raise(Reason::bad_parameter, "a context that opened such TLS records has no duplicates");
    return nullptr;
  }
  void* inner = software().dupctx(inner_);
  if (inner == nullptr) return nullptr;
  auto* copy = new (std::nothrow) CipherContext(provider_, software(), stream_.row, inner);
  if (copy == nullptr) {
    software().freectx(inner);
    return nullptr;
  }
  copy->stream_ = stream_;
  copy->foreign_requests_ = stream_.requests;
  copy->foreign_bytes_ = stream_.update_bytes + stream_.cipher_bytes;
  return copy;
}

void CipherContext::set_limit() noexcept {
  stream_.may_buffer = 1;
  if (stream_.tls && !stream_.records) stream_.may_share_mac = true;
  if (is_ours()) {
    stream_.limit = 0;
  } else if (!stream_.has_key || (!stream_.has_iv && spec().iv_bytes != 0) || !stream_.trusted ||
             (stream_.tls && !stream_.records)) {
    stream_.limit = never;
  } else {
    stream_.may_buffer = stream_.tls || mode() == Mode::xts || holds_back() ? 1 : 0;
    stream_.limit = stream_.records ? 0 : provider_.router.limit(route());
  }
}

void CipherContext::remember_key(const unsigned char* key) noexcept {
  const std::size_t bytes = spec().key_bytes;
  stream_.schedule = stream_.direction;
  // Programs that pass the same key again keep their session.
  if (stream_.has_key && CRYPTO_memcmp(stream_.key.data(), key, bytes) == 0) return;
  release_sessions();
  copy_key(stream_.key.data(), key, bytes);
  stream_.has_key = true;
}

void CipherContext::forget_key() noexcept {
  release_sessions();
  wipe(stream_.key.data(), stream_.key.size());
  stream_.has_key = false;
}

int CipherContext::init(Direction direction, const unsigned char* key, std::size_t key_bytes,
                        const unsigned char* iv, std::size_t iv_bytes, const OSSL_PARAM* params) noexcept {
  if (is_ours()) {
    // What may fail may fail half-way, and then the old stream goes on: that must be there.
    const bool may_fail = params != nullptr || (key != nullptr && key_bytes != spec().key_bytes) ||
                          (iv != nullptr && iv_bytes != spec().iv_bytes);
    const bool goes_on = iv == nullptr && mode() == Mode::ctr;
    if (may_fail || goes_on ? !hand_back() : !drop_stream()) return 0;
  }
  const unsigned char* use_key = key;
  if (key == nullptr && stream_.has_key && direction != stream_.schedule) {
    if (mode() == Mode::xts && direction == Direction::encrypt && halves_are_equal()) {
      forget_key();  // good for decryption only; a key that follows need not suffer from it
    } else {
      use_key = stream_.key.data();
      key_bytes = spec().key_bytes;
    }
  }
  const unsigned char* use_iv = iv;
  std::array<std::uint8_t, max_iv_bytes> start_iv;
  if (iv == nullptr && stream_.inner_start_iv_is_stale && mode() == Mode::cbc) {
    start_iv = stream_.start_iv;
    use_iv = start_iv.data();
    iv_bytes = spec().iv_bytes;
  }
  const int good = software().init[static_cast<std::size_t>(direction)](inner_, use_key, key_bytes, use_iv,
                                                                        iv_bytes, params);
  stream_.direction = direction;
  begin_stream(0);
  stream_.iv_is_here = false;
  if (good == 0) {
    note_failed_init(use_key != nullptr, use_iv, iv_bytes, params);
    return 0;
  }
  stream_.trusted = true;
  if (use_key != nullptr) remember_key(use_key);
  if (use_iv != nullptr && spec().iv_bytes != 0) {
    copy_iv(stream_.iv.data(), use_iv, spec().iv_bytes);  // may be the pointer that get_params gave
    stream_.start_iv = stream_.iv;
    stream_.iv_is_here = stream_.has_iv = true;
    stream_.inner_start_iv_is_stale = false;
  }
  if (params != nullptr && !note_params(params)) return 0;
  set_limit();
  return 1;
}

// Forgets a stream that is ours, because a new one begins.
bool CipherContext::drop_stream() noexcept {
  stream_.owner = Owner::software;
  stream_.buffered = 0;
  wipe(stream_.buffer.data(), stream_.buffer.size());
  return set_inner_padding(stream_.padding);
}

// The default provider's context may have taken any part of it: what we know by heart is asked for or
// forgotten, and software has the stream until the next good init.
void CipherContext::note_failed_init(bool with_key, const unsigned char* iv, std::size_t iv_bytes,
                                     const OSSL_PARAM* params) noexcept {
  distrust();
  if (with_key) forget_key();
  if (iv != nullptr && iv_bytes == spec().iv_bytes) {
    std::array<std::uint8_t, max_iv_bytes> inner{};
    std::array query{OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_IV, inner.data(), iv_bytes),
                     OSSL_PARAM_construct_end()};
    if (software().get_ctx_params(inner_, query.data()) != 0 &&
        std::memcmp(inner.data(), iv, iv_bytes) == 0) {
      stream_.start_iv = inner;
      stream_.inner_start_iv_is_stale = false;
      stream_.has_iv = true;
    }
  }
  if (params != nullptr) note_failed_params(params);
}

// A list of parameters that was refused may have been obeyed up to the bad one.
void CipherContext::note_failed_params(const OSSL_PARAM* params) noexcept {
  distrust();
  if (OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_TLS_VERSION) != nullptr)
    stream_.tls = stream_.may_share_mac = true;
  unsigned int on = stream_.padding ? 1 : 0;
  std::array query{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_PADDING, &on), OSSL_PARAM_construct_end()};
  if (software().get_ctx_params(inner_, query.data()) != 0) stream_.padding = stream_.inner_padding = on != 0;
}

bool CipherContext::set_inner_padding(bool on) noexcept {
  if (stream_.inner_padding == on) return true;
  unsigned int value = on ? 1 : 0;
  const std::array params{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_PADDING, &value),
                          OSSL_PARAM_construct_end()};
  if (software().set_ctx_params(inner_, params.data()) == 0) return false;
  stream_.inner_padding = on;
  return true;
}

// Whether the default provider's context has no partial block, while its padding is off.
bool CipherContext::inner_is_empty() noexcept {
  std::array<std::uint8_t, max_block> nothing;
  std::size_t bytes = 0;
  ERR_set_mark();
  const bool empty = software().final(inner_, nothing.data(), &bytes, nothing.size()) != 0;
  ERR_pop_to_mark();
  return empty && bytes == 0;
}

bool CipherContext::load_iv() noexcept {
  if (spec().iv_bytes == 0) return true;
  if (stream_.iv_is_here && nothing_updated() && nothing_ciphered()) return true;
  std::array<OSSL_PARAM, 3> params{
      OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_UPDATED_IV, stream_.iv.data(), spec().iv_bytes),
      OSSL_PARAM_construct_end(), OSSL_PARAM_construct_end()};
  if (!stream_.inner_start_iv_is_stale)
    params[1] =
        OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_IV, stream_.start_iv.data(), spec().iv_bytes);
  return software().get_ctx_params(inner_, params.data()) != 0;
}

// As load_iv; `position` <- how many bytes of the key stream's current block are used.
bool CipherContext::load_counter(unsigned int& position) noexcept {
  position = 0;
  if (stream_.iv_is_here && nothing_updated() && nothing_ciphered()) return true;
  const std::array params{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_NUM, &position),
                          OSSL_PARAM_construct_end()};
  std::array query = params;
  return software().get_ctx_params(inner_, query.data()) != 0 && load_iv();
}

Routed CipherContext::try_backends(std::size_t request, unsigned char* out, const unsigned char* in,
                                   std::size_t length) noexcept {
  return provider_.router.crypt(route(), request,
                                CipherRequest{.spec = spec(),
                                              .direction = stream_.direction,
                                              .key = std::span(stream_.key.data(), spec().key_bytes),
                                              .iv = stream_.iv.data(),
                                              .in = in,
                                              .out = out,
                                              .length = length},
                                slots_);
}

void CipherContext::remember_who(const Routed& routed, std::size_t request) noexcept {
  stream_.last = routed.most >= request - routed.done ? routed.busiest : software_index;
  if (routed.busiest == no_index) stream_.last = software_index;
  stream_.requests_at_last = stream_.requests;
}

// Gives a stream that is ours to the default provider's context.
bool CipherContext::hand_back() noexcept {
  const auto direction = static_cast<std::size_t>(stream_.direction);
  const bool with_iv = spec().iv_bytes != 0;
  bool good = software().init[direction](inner_, nullptr, 0, with_iv ? stream_.iv.data() : nullptr,
                                         spec().iv_bytes, nullptr) != 0;
  stream_.inner_start_iv_is_stale = with_iv;
  good = good && set_inner_padding(stream_.padding);
  if (good && stream_.buffered != 0) {
    std::array<std::uint8_t, 2 * max_block> nothing;
    std::size_t bytes = 0;
    good = inner_update_(inner_, nothing.data(), &bytes, nothing.size(), stream_.buffer.data(),
                         stream_.buffered) != 0 &&
           bytes == 0;
  }
  begin_stream(stream_.buffered);
  stream_.iv_is_here = true;
  stream_.owner = Owner::software;
  stream_.buffered = 0;
  wipe(stream_.buffer.data(), stream_.buffer.size());
  if (!good) {
    distrust();
    return false;
  }
  set_limit();
  return true;
}

int CipherContext::route_update(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                const unsigned char* in, std::size_t length) noexcept {
  if (stream_.tls) return route_record(out, out_bytes, out_size, in, length);
  if (mode() == Mode::ctr) return route_counter(out, out_bytes, out_size, in, length);
  if (mode() == Mode::xts) return route_data_unit(true, out, out_bytes, out_size, in, length);
  if (is_ours()) return continue_stream(out, out_bytes, out_size, in, length);
  return take_stream(out, out_bytes, out_size, in, length);
}

// An update of a stream that is ours.
int CipherContext::continue_stream(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                   const unsigned char* in, std::size_t length) noexcept {
  const std::size_t room = (holds_back() ? block() : block() - 1) - stream_.buffered;
  if (length <= room) {  // nothing to compute yet
    if (length != 0) std::memcpy(stream_.buffer.data() + stream_.buffered, in, length);
    stream_.buffered = static_cast<std::uint8_t>(stream_.buffered + length);
    *out_bytes = 0;
    return 1;
  }
  std::size_t whole = length - length % block();
  if (holds_back() && whole == length) whole -= block();
  if (stream_.buffered != 0 || length < provider_.router.limit(route()) || out_size < whole) {
    if (!hand_back()) return 0;
    return update(out, out_bytes, out_size, in, length);
  }
  const Routed routed = try_backends(length, out, in, whole);
  return finish_update(routed, whole, out, out_bytes, out_size, in, length);
}

// An update of a stream that software owns, long enough for a backend.
int CipherContext::take_stream(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                               const unsigned char* in, std::size_t length) noexcept {
  set_limit();  // raised while all backends rest, so that shorter requests do not come here again
  if (length < stream_.limit || !provider_.router.ready(route(), length))
    return software_update(out, out_bytes, out_size, in, length);
  const std::size_t partial = (stream_.update_bytes - stream_.update_bytes_before) % block();
  const std::size_t fill = partial == 0 ? 0 : block() - partial;
  // Without a partial block there may be a held-back one, even with padding off again; and a call that
  // failed was counted although it left less. Only the inner context knows.
  const bool something_buffered = !nothing_updated();
  const std::size_t first = something_buffered ? block() : 0;
  std::size_t whole = length < fill ? 0 : (length - fill) - (length - fill) % block();
  if (holds_back() && whole != 0 && fill + whole == length) whole -= block();
  if (whole == 0 || out_size < first + whole) return software_update(out, out_bytes, out_size, in, length);

  std::size_t flushed = 0;
  bool empty = true;
  if (something_buffered) {
    if (!set_inner_padding(false)) return 0;
    stream_.update_bytes += fill;
    if (inner_update_(inner_, out, &flushed, out_size, in, fill) == 0) {
      distrust();
      static_cast<void>(set_inner_padding(stream_.padding));
      return 0;
    }
    empty = inner_is_empty();
  }
  Routed routed{.done = 0, .most = 0, .busiest = no_index};
  if (!empty) {
    // An earlier call failed half-way and left what nobody can know: software keeps the stream.
    distrust();
  } else if (load_iv()) {
    routed = try_backends(length, out + flushed, in + fill, whole);
  }
  std::size_t more = 0;
  int good = 0;
  if (routed.done == 0) {
    if (set_inner_padding(stream_.padding))
      good = software_update(out + flushed, &more, out_size - flushed, in + fill, length - fill);
    set_limit();
    remember_who(routed, length);
  } else {
    stream_.owner = Owner::ours;
    stream_.limit = 0;
    good = finish_update(routed, whole, out + flushed, &more, out_size - flushed, in + fill, length - fill);
  }
  *out_bytes = flushed + more;
  return good;
}

// After backends did routed.done of the `offered` whole blocks at the start of in[0, length), of a
// stream that is ours: buffers what is left, or gives it to software.
int CipherContext::finish_update(const Routed& routed, std::size_t offered, unsigned char* out,
                                 std::size_t* out_bytes, std::size_t out_size, const unsigned char* in,
                                 std::size_t length) noexcept {
  int good = 1;
  std::size_t more = 0;
  if (routed.done == offered) {
    stream_.buffered = static_cast<std::uint8_t>(length - offered);
    std::memcpy(stream_.buffer.data(), in + offered, length - offered);
  } else if (hand_back()) {
    good = software_update(out + routed.done, &more, out_size - routed.done, in + routed.done,
                           length - routed.done);
  } else {
    good = 0;
  }
  *out_bytes = routed.done + more;
  remember_who(routed, length);
  return good;
}

int CipherContext::route_cipher(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                const unsigned char* in, std::size_t length) noexcept {
  if (mode() == Mode::ctr) return route_counter(out, out_bytes, out_size, in, length);
  if (mode() == Mode::xts) return route_data_unit(false, out, out_bytes, out_size, in, length);
  const bool ours = is_ours();
  if (!ours) set_limit();
  // A buffer that update has filled stays where it is: `cipher` passes it by.
  const bool can = (ours ? stream_.buffered == 0 : nothing_updated()) && length != 0 &&
                   length % block() == 0 && out_size >= length && length >= provider_.router.limit(route());
  if (!can) {
    if (ours && !hand_back()) return 0;
    return software_cipher(out, out_bytes, out_size, in, length);
  }
  if (!ours && !load_iv()) return 0;
  *out_bytes = length;
  return transform(length, out, in, length) ? 1 : 0;
}

// Whole blocks, with the IV in our hands: through backends, and what they leave through software.
bool CipherContext::transform(std::size_t request, unsigned char* out, const unsigned char* in,
                              std::size_t length) noexcept {
  const Routed routed = try_backends(request, out, in, length);
  bool good = true;
  if (routed.done != 0) {
    stream_.owner = Owner::ours;
    stream_.limit = 0;
  }
  if (routed.done != length) {
    std::size_t more = 0;
    if (is_ours() && !hand_back()) return false;
    good = software_cipher(out + routed.done, &more, length - routed.done, in + routed.done,
                           length - routed.done) != 0;
    set_limit();
  }
  remember_who(routed, length);
  return good;
}

// CTR, by update or cipher: what is left of a key stream block is software's, and so is what follows the
// last whole block.
int CipherContext::route_counter(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                 const unsigned char* in, std::size_t length) noexcept {
  if (length == 0 && is_ours()) {
    *out_bytes = 0;
    return 1;
  }
  if (!is_ours()) set_limit();
  bool can = out_size >= length && length >= block() && length >= provider_.router.limit(route()) &&
             (is_ours() || provider_.router.ready(route(), length));
  std::size_t head = 0;
  if (can && !is_ours()) {
    unsigned int position = 0;
    if (!load_counter(position)) return 0;
    head = position == 0 ? 0 : block() - position;
    can = position < block() && length >= head + block();
  }
  if (!can) {
    if (is_ours() && !hand_back()) return 0;
    return software_cipher(out, out_bytes, out_size, in, length);
  }
  std::size_t bytes = 0;
  if (head != 0 && (software_cipher(out, &bytes, head, in, head) == 0 || !load_iv())) return 0;
  const std::size_t whole = (length - head) - (length - head) % block();
  if (!transform(length, out + head, in + head, whole)) return 0;
  const std::size_t tail = length - head - whole;
  if (tail != 0) {
    const BackendIndex last = stream_.last;
    if (is_ours() && !hand_back()) return 0;
    if (software_cipher(out + head + whole, &bytes, tail, in + head + whole, tail) == 0) return 0;
    stream_.last = last;
    stream_.requests_at_last = stream_.requests;
  }
  *out_bytes = length;
  return 1;
}

// XTS: every request begins at the IV, and is done as a whole.
int CipherContext::route_data_unit(bool as_update, unsigned char* out, std::size_t* out_bytes,
                                   std::size_t out_size, const unsigned char* in,
                                   std::size_t length) noexcept {
  constexpr std::size_t most_blocks = std::size_t{1} << 20U;  // NIST SP 800-38E
  set_limit();
  if (in != nullptr && out != nullptr && out_size >= length && length >= stream_.limit && length >= block() &&
      length <= most_blocks * block() && provider_.router.ready(route(), length)) {
    stream_.iv = stream_.start_iv;
    const Routed routed = try_backends(length, out, in, length);
    if (routed.done == length) {
      *out_bytes = length;
      remember_who(routed, length);
      return 1;
    }
  }
  return as_update ? software_update(out, out_bytes, out_size, in, length)
                   : software_cipher(out, out_bytes, out_size, in, length);
}

// A TLS record, in place as libssl has them. What is not as libssl does it gets the default provider's
// own answer, which is a refusal. It never opens a record here: see duplicate.
int CipherContext::route_record(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                const unsigned char* in, std::size_t length) noexcept {
  const bool encrypt = stream_.direction == Direction::encrypt;
  const std::size_t total = encrypt ? length + block() - length % block() : length;
  if (!stream_.records || !stream_.padding || in != out || in == nullptr || total % block() != 0 ||
      out_size < total) {
    if (is_ours() && !hand_back()) return 0;
    const int good = software_update(out, out_bytes, out_size, in, length);
    begin_stream(0);  // nothing of it is buffered
    stream_.iv_is_here = false;
    return good;
  }
  stream_.has_mac = false;
  if (encrypt) pad_tls_record(out, length, total);
  if (total != 0 && length >= provider_.router.limit(route()) &&
      (is_ours() || provider_.router.ready(route(), length))) {
    if ((!is_ours() && !load_iv()) || !transform(length, out, in, total)) return 0;
  } else if ((is_ours() && !hand_back()) || software_cipher(out, out_bytes, total, in, total) == 0) {
    return 0;
  }
  *out_bytes = total;
  return encrypt ? 1 : open_record(out, out_bytes, total);
}

// Nothing here depends on whether padding and MAC are right, as far as record and MAC lengths allow.
int CipherContext::open_record(unsigned char* out, std::size_t* out_bytes, std::size_t length) noexcept {
  const std::size_t skip = stream_.explicit_iv ? block() : 0;
  std::array<std::uint8_t, max_mac_bytes> random{};
  const bool good = (stream_.mac_bytes == 0 ||
                     RAND_bytes_ex(provider_.software->library(), random.data(), stream_.mac_bytes, 0) > 0) &&
                    length >= skip &&
                    open_tls_record(out + skip, length - skip, stream_.mac_bytes, random.data(),
                                    stream_.mac.data(), out_bytes);
  if (!good) {
    ERR_raise(ERR_LIB_PROV, PROV_R_CIPHER_OPERATION_FAILED);
    return 0;
  }
  stream_.has_mac = stream_.mac_bytes != 0;
  return 1;
}

int CipherContext::final(unsigned char* out, std::size_t* out_bytes, std::size_t out_size) noexcept {
  if (stream_.records) return software().final(inner_, out, out_bytes, out_size);  // refuses
  if (is_ours()) {
    if (mode() == Mode::ctr) {  // has nothing to give, and goes on
      *out_bytes = 0;
      return 1;
    }
    if (!hand_back()) return 0;
  }
  if (software().final(inner_, out, out_bytes, out_size) == 0) {
    distrust();
    return 0;
  }
  begin_stream(0);
  stream_.iv_is_here = false;
  return 1;
}

bool CipherContext::note_params(const OSSL_PARAM* params) noexcept {
  if (mode() != Mode::xts && !note_block_params(params)) return false;
  if (const OSSL_PARAM* found = OSSL_PARAM_locate_const(params, param_min_bytes)) {
    std::size_t bytes = 0;
    if (OSSL_PARAM_get_size_t(found, &bytes) == 0) {
      provider_.core.raise(Reason::bad_parameter, "%s: not a size_t", param_min_bytes);
      return false;
    }
    stream_.own_min_bytes = bytes;
    stream_.has_own_min_bytes = true;
  }
  return true;
}

// XTS ignores these, whatever is in them.
bool CipherContext::note_block_params(const OSSL_PARAM* params) noexcept {
  if (const OSSL_PARAM* found = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_PADDING)) {
    unsigned int on = 1;
    if (OSSL_PARAM_get_uint(found, &on) == 0) return false;
    stream_.padding = stream_.inner_padding = on != 0;
  }
  if (const OSSL_PARAM* found = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_TLS_VERSION)) {
    unsigned int version = 0;
    if (OSSL_PARAM_get_uint(found, &version) == 0) return false;
    note_tls_version(version);
  }
  if (const OSSL_PARAM* found = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_TLS_MAC_SIZE)) {
    if (OSSL_PARAM_get_size_t(found, &stream_.mac_bytes) == 0) return false;
    if (stream_.mac_bytes > max_mac_bytes) stream_.records = false;
  }
  return true;
}

void CipherContext::note_tls_version(unsigned int version) noexcept {
  const std::optional<bool> explicit_iv = tls_explicit_iv(version);
  // A partial block stays where it is while records pass by: only software knows what comes of it.
  const bool empty = nothing_updated();
  stream_.tls = version != 0;
  stream_.records = empty && explicit_iv && mode() == Mode::cbc && stream_.mac_bytes <= max_mac_bytes;
  stream_.explicit_iv = explicit_iv.value_or(false);
  if (!empty) stream_.trusted = false;
}

int CipherContext::set_params(const OSSL_PARAM* params) noexcept {
  if (params == nullptr || params->key == nullptr) return 1;
  const bool only_ours = std::strcmp(params->key, param_min_bytes) == 0 && params[1].key == nullptr;
  if (!only_ours) {
    if (is_ours() && !hand_back()) return 0;
    if (software().set_ctx_params(inner_, params) == 0) {
      note_failed_params(params);
      return 0;
    }
  }
  if (!note_params(params)) return 0;
  set_limit();
  return 1;
}

// As the default provider gives IVs: a copy, or a pointer that stays valid as long as the context.
int give_octets(OSSL_PARAM* param, const void* data, std::size_t bytes) noexcept {
  return param->data_type == OSSL_PARAM_OCTET_PTR ? OSSL_PARAM_set_octet_ptr(param, data, bytes)
                                                  : OSSL_PARAM_set_octet_string(param, data, bytes);
}

int CipherContext::get_params(OSSL_PARAM* params) const noexcept {
  if (params == nullptr) return 1;
  if (software().get_ctx_params(inner_, params) == 0) return 0;
  // EVP asks for lengths at every init: names are told apart by what costs nothing.
  const bool ours = is_ours();
  int good = 1;
  for (OSSL_PARAM* param = params; param->key != nullptr; ++param) {
    const char* const key = param->key;
    if (key[0] == 's' && std::strcmp(key, param_backend) == 0) {
      const BackendIndex last = stream_.requests == stream_.requests_at_last ? stream_.last : software_index;
      good &= OSSL_PARAM_set_utf8_string(param, provider_.router.name(last).data());
    } else if (ours && key[0] == 'u' && std::strcmp(key, OSSL_CIPHER_PARAM_UPDATED_IV) == 0) {
      good &= give_octets(param, stream_.iv.data(), spec().iv_bytes);
    } else if (ours && key[0] == 'p' && std::strcmp(key, OSSL_CIPHER_PARAM_PADDING) == 0) {
      good &= OSSL_PARAM_set_uint(param, stream_.padding ? 1U : 0U);
    } else if (stream_.inner_start_iv_is_stale && key[0] == 'i' &&
               std::strcmp(key, OSSL_CIPHER_PARAM_IV) == 0) {
      good &= give_octets(param, stream_.start_iv.data(), spec().iv_bytes);
    } else if (stream_.has_mac && key[0] == 't' && std::strcmp(key, OSSL_CIPHER_PARAM_TLS_MAC) == 0) {
      good &= OSSL_PARAM_set_octet_ptr(param, stream_.mac.data(), stream_.mac_bytes);
    }
  }
  return good;
}

// ---- The C side ----------------------------------------------------------------------------------

CipherContext* context(void* opaque) noexcept {
  return static_cast<CipherContext*>(opaque);
}

template <std::size_t Row>
void* cipher_newctx(void* opaque) noexcept {
  auto& provider = *static_cast<Provider*>(opaque);
  const SoftwareCipher& software = provider.software->cipher(Row);
  void* inner = software.newctx(provider.software->context(Row));
  if (inner == nullptr) return nullptr;
  auto* made = new (std::nothrow) CipherContext(provider, software, Row, inner);
  if (made == nullptr) {
    software.freectx(inner);
    provider.core.raise(Reason::out_of_memory, "no memory for a cipher context");
  }
  return made;
}

void cipher_freectx(void* opaque) noexcept {
  delete context(opaque);
}

void* cipher_dupctx(void* opaque) noexcept {
  return context(opaque)->duplicate();
}

template <Direction D>
int cipher_init(void* opaque, const unsigned char* key, std::size_t key_bytes, const unsigned char* iv,
                std::size_t iv_bytes, const OSSL_PARAM params[]) noexcept {
  return context(opaque)->init(D, key, key_bytes, iv, iv_bytes, params);
}

// A cache line of its own: where it lies within one makes a tenth of a 16-byte request.
[[gnu::aligned(64)]] int cipher_update(void* opaque, unsigned char* out, std::size_t* out_bytes,
                                       std::size_t out_size, const unsigned char* in,
                                       std::size_t length) noexcept {
  return context(opaque)->update(out, out_bytes, out_size, in, length);
}

int cipher_final(void* opaque, unsigned char* out, std::size_t* out_bytes, std::size_t out_size) noexcept {
  return context(opaque)->final(out, out_bytes, out_size);
}

[[gnu::aligned(64)]] int cipher_cipher(void* opaque, unsigned char* out, std::size_t* out_bytes,
                                       std::size_t out_size, const unsigned char* in,
                                       std::size_t length) noexcept {
  return context(opaque)->cipher(out, out_bytes, out_size, in, length);
}

int cipher_get_ctx_params(void* opaque, OSSL_PARAM params[]) noexcept {
  return context(opaque)->get_params(params);
}

int cipher_set_ctx_params(void* opaque, const OSSL_PARAM params[]) noexcept {
  return context(opaque)->set_params(params);
}

template <std::size_t Row>
const OSSL_PARAM* cipher_gettable_ctx_params(void*, void* opaque) noexcept {
  return static_cast<Provider*>(opaque)->offered[Row].gettable.data();
}

template <std::size_t Row>
const OSSL_PARAM* cipher_settable_ctx_params(void*, void* opaque) noexcept {
  return static_cast<Provider*>(opaque)->offered[Row].settable.data();
}

template <class Function>
OSSL_DISPATCH entry(int id, Function* function) noexcept {
  return {id, reinterpret_cast<void (*)()>(function)};
}

template <std::size_t Row>
std::vector<OSSL_DISPATCH> dispatch(const SoftwareCipher& software) {
  return {
      entry(OSSL_FUNC_CIPHER_NEWCTX, cipher_newctx<Row>),
      entry(OSSL_FUNC_CIPHER_FREECTX, cipher_freectx),
      entry(OSSL_FUNC_CIPHER_DUPCTX, cipher_dupctx),
      entry(OSSL_FUNC_CIPHER_ENCRYPT_INIT, cipher_init<Direction::encrypt>),
      entry(OSSL_FUNC_CIPHER_DECRYPT_INIT, cipher_init<Direction::decrypt>),
      entry(OSSL_FUNC_CIPHER_UPDATE, cipher_update),
      entry(OSSL_FUNC_CIPHER_FINAL, cipher_final),
      entry(OSSL_FUNC_CIPHER_CIPHER, cipher_cipher),
      entry(OSSL_FUNC_CIPHER_GET_CTX_PARAMS, cipher_get_ctx_params),
      entry(OSSL_FUNC_CIPHER_SET_CTX_PARAMS, cipher_set_ctx_params),
      entry(OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS, cipher_gettable_ctx_params<Row>),
      entry(OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS, cipher_settable_ctx_params<Row>),
      // Constants are the default provider's own: these need no context.
      entry(OSSL_FUNC_CIPHER_GET_PARAMS, software.get_params),
      entry(OSSL_FUNC_CIPHER_GETTABLE_PARAMS, software.gettable_params),
      {0, nullptr},
  };
}

template <std::size_t... Rows>
constexpr auto dispatch_makers(std::index_sequence<Rows...>) noexcept {
  return std::array{dispatch<Rows>...};
}

std::vector<OSSL_PARAM> with(const OSSL_PARAM* list, const OSSL_PARAM& ours) {
  std::vector<OSSL_PARAM> all;
  for (; list != nullptr && list->key != nullptr; ++list) all.push_back(*list);
  all.push_back(ours);
  all.push_back(OSSL_PARAM_construct_end());
  return all;
}

}  // namespace

bool offer_cipher(const Software& software, std::size_t row, OfferedCipher& offered) {
  static constexpr auto makers = dispatch_makers(std::make_index_sequence<cipher_count>());
  const SoftwareCipher& inner = software.cipher(row);
  if (!inner.complete()) return false;
  offered.dispatch = makers[row](inner);
  offered.gettable = with(inner.gettable_ctx_params(nullptr, software.context(row)),
                          OSSL_PARAM_utf8_string(param_backend, nullptr, 0));
  offered.settable = with(inner.settable_ctx_params(nullptr, software.context(row)),
                          OSSL_PARAM_size_t(param_min_bytes, nullptr));
  return true;
}

}  // namespace sunxi
