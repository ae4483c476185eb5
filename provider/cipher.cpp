// SPDX-License-Identifier: Apache-2.0
// The C side of cipher contexts: one dispatch table for each row of the algorithm table.
#include <openssl/params.h>

#include <new>
#include <utility>

#include "provider/cipher_context.h"
#include "provider/dispatch.h"

namespace sunxi {
namespace {

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

[[gnu::aligned(64)]] int cipher_update_stream(void* opaque, unsigned char* out, std::size_t* out_bytes,
                                              std::size_t out_size, const unsigned char* in,
                                              std::size_t length) noexcept {
  return context(opaque)->update_stream(out, out_bytes, out_size, in, length);
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

constexpr bool is_stream(std::size_t row) noexcept {
  return cipher_rows[row].spec.mode == Mode::ctr || cipher_rows[row].spec.mode == Mode::xts;
}

template <std::size_t Row>
std::vector<OSSL_DISPATCH> dispatch(const SoftwareCipher& software) {
  return {
      entry(OSSL_FUNC_CIPHER_NEWCTX, cipher_newctx<Row>),
      entry(OSSL_FUNC_CIPHER_FREECTX, cipher_freectx),
      entry(OSSL_FUNC_CIPHER_DUPCTX, cipher_dupctx),
      entry(OSSL_FUNC_CIPHER_ENCRYPT_INIT, cipher_init<Direction::encrypt>),
      entry(OSSL_FUNC_CIPHER_DECRYPT_INIT, cipher_init<Direction::decrypt>),
      entry(OSSL_FUNC_CIPHER_UPDATE, is_stream(Row) ? cipher_update_stream : cipher_update),
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
