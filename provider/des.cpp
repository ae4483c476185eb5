// SPDX-License-Identifier: Apache-2.0
#define OPENSSL_SUPPRESS_DEPRECATED  // libcrypto has no other single DES outside of its legacy provider
#include "provider/des.h"

#include <openssl/opensslconf.h>

#ifdef OPENSSL_NO_DES
namespace sunxi {
const OSSL_DISPATCH* des_dispatch(Mode) noexcept {
  return nullptr;
}
}  // namespace sunxi
#else

#include <openssl/core_names.h>
#include <openssl/des.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/proverr.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "backends/process.h"
#include "provider/dispatch.h"
#include "provider/libcrypto.h"
#include "provider/tls_record.h"

namespace sunxi {
namespace {

constexpr std::size_t block = 8;
constexpr std::size_t key_bytes = 8;
using Block = std::array<std::uint8_t, block>;

struct DesContext {
  OSSL_LIB_CTX* library;
  Mode mode;
  int encrypt = 0;
  bool has_key = false;
  bool has_iv = false;
  unsigned int padding = 1;
  unsigned int num = 0;
  unsigned int tls_version = 0;
  std::size_t tls_mac_bytes = 0;
  bool has_tls_mac = false;
  std::size_t buffered = 0;
  DES_key_schedule schedule{};
  Block iv{};
  Block start_iv{};
  Block buffer{};
  std::array<std::uint8_t, max_mac_bytes> tls_mac{};

  [[nodiscard]] std::size_t iv_bytes() const noexcept { return mode == Mode::ecb ? 0 : block; }
};

DesContext& des(void* opaque) noexcept {
  return *static_cast<DesContext*>(opaque);
}

int refuse(int reason) noexcept {
  ERR_raise(ERR_LIB_PROV, reason);
  return 0;
}

// Whole blocks. The functions count in `long`.
void crypt(DesContext& context, std::uint8_t* out, const std::uint8_t* in, std::size_t length) noexcept {
  if (context.mode == Mode::ecb) {
    for (std::size_t at = 0; at < length; at += block) {
      DES_cblock piece;
      std::memcpy(piece, in + at, block);
      DES_ecb_encrypt(&piece, &piece, &context.schedule, context.encrypt);
      std::memcpy(out + at, piece, block);
    }
    return;
  }
  constexpr std::size_t most = std::size_t{1} << 30U;
  auto* iv = reinterpret_cast<DES_cblock*>(context.iv.data());
  for (std::size_t at = 0; at < length; at += most)
    DES_ncbc_encrypt(in + at, out + at, static_cast<long>(std::min(most, length - at)), &context.schedule, iv,
                     context.encrypt);
}

int set_params(void* opaque, const OSSL_PARAM params[]) noexcept {
  DesContext& context = des(opaque);
  if (params == nullptr) return 1;
  const auto number = [&](const char* key, unsigned int& value) {
    const OSSL_PARAM* found = OSSL_PARAM_locate_const(params, key);
    return found == nullptr || OSSL_PARAM_get_uint(found, &value) != 0;
  };
  unsigned int padding = context.padding;
  if (!number(OSSL_CIPHER_PARAM_PADDING, padding)) return refuse(PROV_R_FAILED_TO_GET_PARAMETER);
  context.padding = padding != 0 ? 1 : 0;
  if (!number(OSSL_CIPHER_PARAM_TLS_VERSION, context.tls_version))
    return refuse(PROV_R_FAILED_TO_GET_PARAMETER);
  if (const OSSL_PARAM* found = OSSL_PARAM_locate_const(params, OSSL_CIPHER_PARAM_TLS_MAC_SIZE)) {
    if (OSSL_PARAM_get_size_t(found, &context.tls_mac_bytes) == 0)
      return refuse(PROV_R_FAILED_TO_GET_PARAMETER);
  }
  if (!number(OSSL_CIPHER_PARAM_NUM, context.num)) return refuse(PROV_R_FAILED_TO_GET_PARAMETER);
  return 1;
}

int init(DesContext& context, int encrypt, const unsigned char* key, std::size_t key_length,
         const unsigned char* iv, std::size_t iv_length, const OSSL_PARAM params[]) noexcept {
  context.num = 0;
  context.buffered = 0;
  context.encrypt = encrypt;
  if (iv != nullptr) {
    if (iv_length != context.iv_bytes()) return refuse(PROV_R_INVALID_IV_LENGTH);
    std::memcpy(context.iv.data(), iv, iv_length);
    context.start_iv = context.iv;
    context.has_iv = true;
  } else if (context.has_iv) {
    context.iv = context.start_iv;
  }
  if (key != nullptr) {
    if (key_length != key_bytes) return refuse(PROV_R_INVALID_KEY_LENGTH);
    DES_cblock copy;
    std::memcpy(copy, key, key_bytes);
    DES_set_key_unchecked(&copy, &context.schedule);
    wipe(copy, sizeof copy);
    context.has_key = true;
  }
  return set_params(&context, params);
}

// One record in place.
int update_record(DesContext& context, unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                  const unsigned char* in, std::size_t length) noexcept {
  const auto explicit_iv = tls_explicit_iv(context.tls_version);
  context.has_tls_mac = false;
  const std::size_t total = context.encrypt != 0 ? length + block - length % block : length;
  if (in == nullptr || in != out || context.padding == 0 || !explicit_iv || out_size < total ||
      total % block != 0 || context.tls_mac_bytes > max_mac_bytes)
    return refuse(PROV_R_CIPHER_OPERATION_FAILED);
  if (context.encrypt != 0) pad_tls_record(out, length, total);
  crypt(context, out, in, total);
  *out_bytes = total;
  if (context.encrypt != 0) return 1;
  std::array<std::uint8_t, max_mac_bytes> random{};
  if (context.tls_mac_bytes != 0 &&
      RAND_bytes_ex(context.library, random.data(), context.tls_mac_bytes, 0) <= 0)
    return refuse(PROV_R_CIPHER_OPERATION_FAILED);
  const std::size_t skip = *explicit_iv ? block : 0;
  if (total < skip || !open_tls_record(out + skip, total - skip, context.tls_mac_bytes, random.data(),
                                       context.tls_mac.data(), out_bytes))
    return refuse(PROV_R_CIPHER_OPERATION_FAILED);
  context.has_tls_mac = context.tls_mac_bytes != 0;
  return 1;
}

int update(void* opaque, unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
           const unsigned char* in, std::size_t length) noexcept {
  DesContext& context = des(opaque);
  if (!context.has_key) return refuse(PROV_R_NO_KEY_SET);
  if (context.tls_version != 0) return update_record(context, out, out_bytes, out_size, in, length);
  const bool holds_back = context.encrypt == 0 && context.padding != 0;
  std::size_t given = 0;
  if (context.buffered != 0) {
    const std::size_t fill = std::min(block - context.buffered, length);
    if (fill != 0) std::memcpy(context.buffer.data() + context.buffered, in, fill);
    context.buffered += fill;
    in += fill;
    length -= fill;
    if (context.buffered == block && (!holds_back || length != 0)) {
      if (out_size < block) return refuse(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
      crypt(context, out, context.buffer.data(), block);
      context.buffered = 0;
      given = block;
    }
  }
  std::size_t whole = length - length % block;
  if (holds_back && whole != 0 && whole == length) whole -= block;
  if (out_size < given + whole) return refuse(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
  crypt(context, out + given, in, whole);
  if (length != whole) {
    std::memcpy(context.buffer.data() + context.buffered, in + whole, length - whole);
    context.buffered += length - whole;
  }
  *out_bytes = given + whole;
  return 1;
}

int final(void* opaque, unsigned char* out, std::size_t* out_bytes, std::size_t out_size) noexcept {
  DesContext& context = des(opaque);
  if (!context.has_key) return refuse(PROV_R_NO_KEY_SET);
  if (context.tls_version != 0) return refuse(PROV_R_CIPHER_OPERATION_FAILED);
  if (context.padding == 0) {
    if (context.buffered == 0) {
      *out_bytes = 0;
      return 1;
    }
    if (context.buffered != block) return refuse(PROV_R_WRONG_FINAL_BLOCK_LENGTH);
  }
  std::size_t give = block;
  if (context.encrypt != 0) {
    if (context.padding != 0)
      std::memset(context.buffer.data() + context.buffered, static_cast<int>(block - context.buffered),
                  block - context.buffered);
    if (out_size < block) return refuse(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
    crypt(context, context.buffer.data(), context.buffer.data(), block);
  } else {
    if (context.buffered != block) return refuse(PROV_R_WRONG_FINAL_BLOCK_LENGTH);
    crypt(context, context.buffer.data(), context.buffer.data(), block);
    if (context.padding != 0) {
      const std::size_t padding = context.buffer[block - 1];
      bool good = padding != 0 && padding <= block;
      for (std::size_t i = block - std::min(padding, block); good && i < block; ++i)
        good = context.buffer[i] == padding;
      if (!good) return refuse(PROV_R_BAD_DECRYPT);
      give -= padding;
    }
    if (out_size < give) return refuse(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
  }
  std::memcpy(out, context.buffer.data(), give);
  wipe(context.buffer.data(), block);
  context.buffered = 0;
  *out_bytes = give;
  return 1;
}

int cipher(void* opaque, unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
           const unsigned char* in, std::size_t length) noexcept {
  DesContext& context = des(opaque);
  if (!context.has_key) return refuse(PROV_R_NO_KEY_SET);
  if (out_size < length) return refuse(PROV_R_OUTPUT_BUFFER_TOO_SMALL);
  if (length % block != 0) return refuse(PROV_R_WRONG_FINAL_BLOCK_LENGTH);
  crypt(context, out, in, length);
  *out_bytes = length;
  return 1;
}

int give_random_key(DesContext& context, OSSL_PARAM* param) noexcept {
  DES_cblock key;
  // EVP_CIPHER_CTX_rand_key gives no size.
  if (param->data_type != OSSL_PARAM_OCTET_STRING || param->data == nullptr ||
      (param->data_size != 0 && param->data_size < sizeof key) ||
      RAND_priv_bytes_ex(context.library, key, sizeof key, 0) <= 0)
    return 0;
  DES_set_odd_parity(&key);
  std::memcpy(param->data, key, sizeof key);
  param->return_size = sizeof key;
  wipe(key, sizeof key);
  return 1;
}

int get_ctx_params(void* opaque, OSSL_PARAM params[]) noexcept {
  DesContext& context = des(opaque);
  const auto give = [&](const char* key, auto&& set) {
    OSSL_PARAM* found = OSSL_PARAM_locate(params, key);
    return found == nullptr || set(found) != 0;
  };
  const bool good =
      give(OSSL_CIPHER_PARAM_IVLEN,
           [&](OSSL_PARAM* p) { return OSSL_PARAM_set_size_t(p, context.iv_bytes()); }) &&
      give(OSSL_CIPHER_PARAM_PADDING,
           [&](OSSL_PARAM* p) { return OSSL_PARAM_set_uint(p, context.padding); }) &&
      give(OSSL_CIPHER_PARAM_IV,
           [&](OSSL_PARAM* p) { return give_octets(p, context.start_iv.data(), context.iv_bytes()); }) &&
      give(OSSL_CIPHER_PARAM_UPDATED_IV,
           [&](OSSL_PARAM* p) { return give_octets(p, context.iv.data(), context.iv_bytes()); }) &&
      give(OSSL_CIPHER_PARAM_NUM, [&](OSSL_PARAM* p) { return OSSL_PARAM_set_uint(p, context.num); }) &&
      give(OSSL_CIPHER_PARAM_KEYLEN, [&](OSSL_PARAM* p) { return OSSL_PARAM_set_size_t(p, key_bytes); }) &&
      give(OSSL_CIPHER_PARAM_TLS_MAC,
           [&](OSSL_PARAM* p) {
             return OSSL_PARAM_set_octet_ptr(p, context.has_tls_mac ? context.tls_mac.data() : nullptr,
                                             context.tls_mac_bytes);
           }) &&
      give(OSSL_CIPHER_PARAM_RANDOM_KEY, [&](OSSL_PARAM* p) { return give_random_key(context, p); });
  return good ? 1 : refuse(PROV_R_FAILED_TO_SET_PARAMETER);
}

template <Mode M>
void* newctx(void* library) noexcept {
  auto* context = new (std::nothrow) DesContext{.library = static_cast<OSSL_LIB_CTX*>(library), .mode = M};
  if (context == nullptr) ERR_raise(ERR_LIB_PROV, ERR_R_MALLOC_FAILURE);
  return context;
}

void freectx(void* opaque) noexcept {
  if (opaque == nullptr) return;
  auto* context = &des(opaque);
  wipe(&context->schedule, sizeof context->schedule);
  wipe(context->buffer.data(), context->buffer.size());
  wipe(context->tls_mac.data(), context->tls_mac.size());
  delete context;
}

void* dupctx(void* opaque) noexcept {
  auto* copy = new (std::nothrow) DesContext(des(opaque));
  if (copy == nullptr) ERR_raise(ERR_LIB_PROV, ERR_R_MALLOC_FAILURE);
  return copy;
}

template <int Encrypt>
int start(void* opaque, const unsigned char* key, std::size_t key_length, const unsigned char* iv,
          std::size_t iv_length, const OSSL_PARAM params[]) noexcept {
  return init(des(opaque), Encrypt, key, key_length, iv, iv_length, params);
}

template <Mode M>
int get_params(OSSL_PARAM params[]) noexcept {
  const auto give = [&](const char* key, auto value) {
    OSSL_PARAM* found = OSSL_PARAM_locate(params, key);
    if (found == nullptr) return true;
    if constexpr (std::is_same_v<decltype(value), std::size_t>) {
      return OSSL_PARAM_set_size_t(found, value) != 0;
    } else if constexpr (std::is_same_v<decltype(value), unsigned int>) {
      return OSSL_PARAM_set_uint(found, value) != 0;
    } else {
      return OSSL_PARAM_set_int(found, value) != 0;
    }
  };
  constexpr unsigned int mode = M == Mode::ecb ? EVP_CIPH_ECB_MODE : EVP_CIPH_CBC_MODE;
  constexpr std::size_t iv_bytes = M == Mode::ecb ? 0 : block;
  const bool good = give(OSSL_CIPHER_PARAM_MODE, mode) && give(OSSL_CIPHER_PARAM_KEYLEN, key_bytes) &&
                    give(OSSL_CIPHER_PARAM_IVLEN, iv_bytes) && give(OSSL_CIPHER_PARAM_BLOCK_SIZE, block) &&
                    give(OSSL_CIPHER_PARAM_AEAD, 0) && give(OSSL_CIPHER_PARAM_CUSTOM_IV, 0) &&
                    give(OSSL_CIPHER_PARAM_CTS, 0) && give(OSSL_CIPHER_PARAM_TLS1_MULTIBLOCK, 0) &&
                    give(OSSL_CIPHER_PARAM_HAS_RAND_KEY, 1);
#ifdef OSSL_CIPHER_PARAM_ENCRYPT_THEN_MAC  // since OpenSSL 3.6
  if (!give(OSSL_CIPHER_PARAM_ENCRYPT_THEN_MAC, 0)) return refuse(PROV_R_FAILED_TO_SET_PARAMETER);
#endif
  return good ? 1 : refuse(PROV_R_FAILED_TO_SET_PARAMETER);
}

const OSSL_PARAM* gettable_params(void*) noexcept {
  static const OSSL_PARAM list[] = {OSSL_PARAM_uint(OSSL_CIPHER_PARAM_MODE, nullptr),
                                    OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, nullptr),
                                    OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, nullptr),
                                    OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_BLOCK_SIZE, nullptr),
                                    OSSL_PARAM_int(OSSL_CIPHER_PARAM_AEAD, nullptr),
                                    OSSL_PARAM_int(OSSL_CIPHER_PARAM_CUSTOM_IV, nullptr),
                                    OSSL_PARAM_int(OSSL_CIPHER_PARAM_CTS, nullptr),
                                    OSSL_PARAM_int(OSSL_CIPHER_PARAM_TLS1_MULTIBLOCK, nullptr),
                                    OSSL_PARAM_int(OSSL_CIPHER_PARAM_HAS_RAND_KEY, nullptr),
#ifdef OSSL_CIPHER_PARAM_ENCRYPT_THEN_MAC
                                    OSSL_PARAM_int(OSSL_CIPHER_PARAM_ENCRYPT_THEN_MAC, nullptr),
#endif
                                    OSSL_PARAM_END};
  return list;
}

const OSSL_PARAM* gettable_ctx_params(void*, void*) noexcept {
  static const OSSL_PARAM list[] = {OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_KEYLEN, nullptr),
                                    OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_IVLEN, nullptr),
                                    OSSL_PARAM_uint(OSSL_CIPHER_PARAM_PADDING, nullptr),
                                    OSSL_PARAM_uint(OSSL_CIPHER_PARAM_NUM, nullptr),
                                    OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_IV, nullptr, 0),
                                    OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_UPDATED_IV, nullptr, 0),
                                    OSSL_PARAM_octet_string(OSSL_CIPHER_PARAM_RANDOM_KEY, nullptr, 0),
                                    OSSL_PARAM_END};
  return list;
}

const OSSL_PARAM* settable_ctx_params(void*, void*) noexcept {
  static const OSSL_PARAM list[] = {OSSL_PARAM_uint(OSSL_CIPHER_PARAM_PADDING, nullptr),
                                    OSSL_PARAM_uint(OSSL_CIPHER_PARAM_NUM, nullptr),
                                    OSSL_PARAM_uint(OSSL_CIPHER_PARAM_USE_BITS, nullptr),
                                    OSSL_PARAM_uint(OSSL_CIPHER_PARAM_TLS_VERSION, nullptr),
                                    OSSL_PARAM_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, nullptr),
                                    OSSL_PARAM_END};
  return list;
}

template <Mode M>
const OSSL_DISPATCH* table() noexcept {
  static const std::array entries{
      entry(OSSL_FUNC_CIPHER_NEWCTX, newctx<M>),
      entry(OSSL_FUNC_CIPHER_FREECTX, freectx),
      entry(OSSL_FUNC_CIPHER_DUPCTX, dupctx),
      entry(OSSL_FUNC_CIPHER_ENCRYPT_INIT, start<1>),
      entry(OSSL_FUNC_CIPHER_DECRYPT_INIT, start<0>),
      entry(OSSL_FUNC_CIPHER_UPDATE, update),
      entry(OSSL_FUNC_CIPHER_FINAL, final),
      entry(OSSL_FUNC_CIPHER_CIPHER, cipher),
      entry(OSSL_FUNC_CIPHER_GET_PARAMS, get_params<M>),
      entry(OSSL_FUNC_CIPHER_GETTABLE_PARAMS, gettable_params),
      entry(OSSL_FUNC_CIPHER_GET_CTX_PARAMS, get_ctx_params),
      entry(OSSL_FUNC_CIPHER_SET_CTX_PARAMS, set_params),
      entry(OSSL_FUNC_CIPHER_GETTABLE_CTX_PARAMS, gettable_ctx_params),
      entry(OSSL_FUNC_CIPHER_SETTABLE_CTX_PARAMS, settable_ctx_params),
      OSSL_DISPATCH{0, nullptr},
  };
  return entries.data();
}

}  // namespace

const OSSL_DISPATCH* des_dispatch(Mode mode) noexcept {
  if (!are_libcrypto_s(
          {any(DES_set_key_unchecked), any(DES_set_odd_parity), any(DES_ecb_encrypt), any(DES_ncbc_encrypt)}))
    return nullptr;
  switch (mode) {
    case Mode::ecb:
      return table<Mode::ecb>();
    case Mode::cbc:
      return table<Mode::cbc>();
    default:
      return nullptr;
  }
}

}  // namespace sunxi

#endif
