// SPDX-License-Identifier: Apache-2.0
// Life of a cipher context, its key and IV, its parameters, and whose the stream is.
#include "provider/cipher_context.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/params.h>

#include <cstring>

#include "provider/dispatch.h"

namespace sunxi {
namespace {

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

}  // namespace

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
  if (stream_.may_share_mac) {
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
  if (is_ours()) {
    stream_.limit = 0;
  } else if (!stream_.has_key || (!stream_.has_iv && spec().iv_bytes != 0) || !stream_.trusted ||
             (stream_.tls && !stream_.records)) {
    stream_.limit = never;
    stream_.has_mac = false;
    if (stream_.tls && stream_.direction == Direction::decrypt) stream_.may_share_mac = true;
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
  std::size_t min_bytes = 0;
  if (params != nullptr && !check_own_params(params, min_bytes)) return 0;
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
  if (params != nullptr && !note_params(params)) {
    note_failed_params(params);
    return 0;
  }
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
    void* inner = nullptr;
    std::array query{OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_IV, &inner, 0),
                     OSSL_PARAM_construct_end()};
    if (software().get_ctx_params(inner_, query.data()) != 0 && inner != nullptr &&
        std::memcmp(inner, iv, iv_bytes) == 0) {
      std::memcpy(stream_.start_iv.data(), inner, iv_bytes);
      stream_.inner_start_iv_is_stale = false;
      stream_.has_iv = true;
    }
  }
  if (params != nullptr) note_failed_params(params);
}

// A list of parameters that was refused may have been obeyed up to the bad one.
void CipherContext::note_failed_params(const OSSL_PARAM* params) noexcept {
  distrust();
  if (OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_TLS_VERSION) != nullptr) stream_.tls = true;
  if (stream_.tls && stream_.direction == Direction::decrypt) stream_.may_share_mac = true;
  unsigned int on = stream_.padding ? 1 : 0;
  void* mac = nullptr;
  std::array query{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_PADDING, &on),
                   OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_TLS_MAC, &mac, 0),
                   OSSL_PARAM_construct_end()};
  if (software().get_ctx_params(inner_, query.data()) == 0) return;
  stream_.padding = stream_.inner_padding = on != 0;
  if (OSSL_PARAM_modified(&query[1]) != 0) stream_.mac_bytes = query[1].return_size;
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
  if (stream_.iv_is_here && !stream_.iv_escaped && nothing_updated() && nothing_ciphered()) return true;
  // As pointers: asked for a copy, OpenSSL 3.5 leaves an error on the queue while it succeeds.
  void* iv = nullptr;
  void* start_iv = nullptr;
  std::array params{OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_UPDATED_IV, &iv, 0),
                    OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_IV, &start_iv, 0),
                    OSSL_PARAM_construct_end()};
  if (software().get_ctx_params(inner_, params.data()) == 0 || iv == nullptr || start_iv == nullptr)
    return false;
  std::memcpy(stream_.iv.data(), iv, spec().iv_bytes);
  if (!stream_.inner_start_iv_is_stale) std::memcpy(stream_.start_iv.data(), start_iv, spec().iv_bytes);
  return true;
}

// As load_iv; `position` <- how many bytes of the key stream's current block are used.
bool CipherContext::load_counter(unsigned int& position) noexcept {
  position = 0;
  if (stream_.iv_is_here && !stream_.iv_escaped && nothing_updated() && nothing_ciphered()) return true;
  std::array query{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_NUM, &position), OSSL_PARAM_construct_end()};
  return software().get_ctx_params(inner_, query.data()) != 0 && load_iv();
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

// Whether what is ours in the list can be obeyed; asked before anybody obeys the rest.
bool CipherContext::check_own_params(const OSSL_PARAM* params, std::size_t& min_bytes) const noexcept {
  const OSSL_PARAM* found = OSSL_PARAM_locate_const(params, param_min_bytes);
  if (found == nullptr || OSSL_PARAM_get_size_t(found, &min_bytes) != 0) return true;
  provider_.core.raise(Reason::bad_parameter, "%s: not a size_t", param_min_bytes);
  return false;
}

bool CipherContext::note_params(const OSSL_PARAM* params) noexcept {
  if (mode() != Mode::xts && !note_block_params(params)) return false;
  if (OSSL_PARAM_locate_const(params, param_min_bytes) == nullptr) return true;
  stream_.has_own_min_bytes = check_own_params(params, stream_.own_min_bytes);
  return stream_.has_own_min_bytes;
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
  std::size_t min_bytes = 0;
  if (!check_own_params(params, min_bytes)) return 0;
  const bool only_ours = std::strcmp(params->key, param_min_bytes) == 0 && params[1].key == nullptr;
  if (!only_ours) {
    if (is_ours() && !hand_back()) return 0;
    if (software().set_ctx_params(inner_, params) == 0) {
      note_failed_params(params);
      return 0;
    }
  }
  if (!note_params(params)) {
    note_failed_params(params);
    return 0;
  }
  set_limit();
  return 1;
}

// libcrypto 3.0 asks for one of the lengths twice at every init. They never change.
bool CipherContext::give_length(OSSL_PARAM* params) const noexcept {
  const char* const key = params[0].key;
  if (key == nullptr || params[1].key != nullptr || params[0].data_type != OSSL_PARAM_UNSIGNED_INTEGER ||
      params[0].data_size != sizeof(std::size_t) || params[0].data == nullptr)
    return false;
  std::size_t length = 0;
  if (std::strcmp(key, OSSL_CIPHER_PARAM_KEYLEN) == 0) {
    length = spec().key_bytes;
  } else if (std::strcmp(key, OSSL_CIPHER_PARAM_IVLEN) == 0) {
    length = spec().iv_bytes;
  } else {
    return false;
  }
  std::memcpy(params[0].data, &length, sizeof length);
  params[0].return_size = sizeof length;
  return true;
}

int CipherContext::get_params(OSSL_PARAM* params) noexcept {
  if (params == nullptr || give_length(params)) return 1;
  for (const OSSL_PARAM* param = params; param->key != nullptr; ++param) {
    // EVP_CIPHER_CTX_iv_noconst: there is one address for it, and what is written there counts.
    if (param->data_type != OSSL_PARAM_OCTET_PTR ||
        std::strcmp(param->key, OSSL_CIPHER_PARAM_UPDATED_IV) != 0)
      continue;
    stream_.iv_escaped = true;
    if (is_ours() && !hand_back()) return 0;
  }
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

}  // namespace sunxi
