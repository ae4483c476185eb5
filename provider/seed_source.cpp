// SPDX-License-Identifier: Apache-2.0
// SUNXI-SEED as libcrypto sees it; it answers as the default provider's SEED-SRC does.
#define OPENSSL_SUPPRESS_DEPRECATED  // libcrypto's SHA-512, which allocates nothing and cannot fail
#include "provider/seed_source.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/sha.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include "provider/dispatch.h"
#include "provider/libcrypto.h"
#include "provider/provider.h"

namespace sunxi {
namespace {

constexpr std::size_t block_bytes = 32;
// SP 800-90C 5.3: full entropy takes 64 bits more than there is output.
constexpr std::size_t kernel_bytes = 64;
static_assert(kernel_bytes >= block_bytes + 8);

constexpr unsigned int seed_strength = 1024;
constexpr std::size_t seed_request = 128;
constexpr const char* sources_key = "sunxi-sources";

void absorb(SHA512_CTX& hash, std::span<const std::uint8_t> data) noexcept {
  const std::uint64_t size = data.size();
  SHA512_Update(&hash, &size, sizeof size);
  if (!data.empty()) SHA512_Update(&hash, data.data(), data.size());
}

struct SeedContext {
  explicit SeedContext(Provider& of) noexcept : provider(of) {}
  Provider& provider;
  // libcrypto shares a seed source between threads, and default's own has no lock either.
  std::atomic<int> state{EVP_RAND_STATE_UNINITIALISED};
  std::array<std::atomic<const char*>, entropy::most_sources> names{};  // in the last output
};

SeedContext& of(void* opaque) noexcept {
  return *static_cast<SeedContext*>(opaque);
}

void* seed_newctx(void* opaque, void* parent, const OSSL_DISPATCH*) noexcept {
  auto& provider = *static_cast<Provider*>(opaque);
  if (parent != nullptr) {
    provider.core.raise(Reason::bad_parent, "SUNXI-SEED takes no parent");
    return nullptr;
  }
  return new (std::nothrow) SeedContext(provider);
}

void seed_freectx(void* opaque) noexcept {
  delete static_cast<SeedContext*>(opaque);
}

int seed_instantiate(void* opaque, unsigned int, int, const unsigned char*, std::size_t,
                     const OSSL_PARAM*) noexcept {
  of(opaque).state = EVP_RAND_STATE_READY;
  return 1;
}

int seed_uninstantiate(void* opaque) noexcept {
  of(opaque).state = EVP_RAND_STATE_UNINITIALISED;
  return 1;
}

bool ready(SeedContext& context) noexcept {
  if (context.state == EVP_RAND_STATE_READY) return true;
  context.provider.core.raise(Reason::not_instantiated, "SUNXI-SEED is not instantiated");
  return false;
}

int seed_generate(void* opaque, unsigned char* out, std::size_t bytes, unsigned int strength, int,
                  const unsigned char* extra, std::size_t extra_bytes) noexcept {
  SeedContext& context = of(opaque);
  if (!ready(context)) return 0;
  if (bytes < (std::size_t{strength} + 7) / 8) {
    context.provider.core.raise(Reason::no_entropy, "so few bytes cannot have that much entropy");
    return 0;
  }
  SeedSource::Names names{};
  if (!context.provider.seeds.fill({out, bytes}, {extra, extra == nullptr ? 0 : extra_bytes}, {}, &names)) {
    context.provider.core.raise(Reason::no_entropy, "the kernel's getrandom failed");
    return 0;
  }
  for (std::size_t i = 0; i < names.size(); ++i) context.names[i] = names[i];
  return 1;
}

int seed_reseed(void* opaque, int, const unsigned char*, std::size_t, const unsigned char*,
                std::size_t) noexcept {
  return ready(of(opaque)) ? 1 : 0;
}

std::size_t seed_get_seed(void* opaque, unsigned char** out, int entropy, std::size_t least, std::size_t most,
                          int prediction_resistance, const unsigned char* extra,
                          std::size_t extra_bytes) noexcept {
  SeedContext& context = of(opaque);
  const std::size_t bytes = std::max(entropy > 0 ? (static_cast<std::size_t>(entropy) + 7) / 8 : 0, least);
  if (bytes > most) {
    context.provider.core.raise(Reason::no_entropy, "so few bytes cannot have that much entropy");
    return 0;
  }
  auto* seed = static_cast<unsigned char*>(OPENSSL_secure_malloc(bytes));
  if (seed == nullptr) {
    context.provider.core.raise(Reason::out_of_memory, "no memory for a seed");
    return 0;
  }
  if (seed_generate(opaque, seed, bytes, 0, prediction_resistance, extra, extra_bytes) == 0) {
    OPENSSL_secure_clear_free(seed, bytes);
    return 0;
  }
  *out = seed;
  return bytes;
}

void seed_clear_seed(void*, unsigned char* seed, std::size_t bytes) noexcept {
  OPENSSL_secure_clear_free(seed, bytes);
}

// Nothing is shared that has no lock of its own.
int seed_enable_locking(void*) noexcept {
  return 1;
}
int seed_lock(void*) noexcept {
  return 1;
}
void seed_unlock(void*) noexcept {}

int seed_verify_zeroization(void*) noexcept {
  return 1;
}

// "getrandom", and what else was in the last output.
int give_sources(OSSL_PARAM* param, const SeedContext& context) noexcept {
  std::array<char, 160> text{"getrandom"};
  for (const auto& name : context.names) {
    const char* one = name.load();
    if (one == nullptr) continue;
    const std::size_t used = std::strlen(text.data());
    if (used + std::strlen(one) + 3 > text.size()) continue;
    std::snprintf(text.data() + used, text.size() - used, ", %s", one);
  }
  return OSSL_PARAM_set_utf8_string(param, text.data());
}

int seed_get_ctx_params(void* opaque, OSSL_PARAM params[]) noexcept {
  const SeedContext& context = of(opaque);
  OSSL_PARAM* found = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_STATE);
  if (found != nullptr && OSSL_PARAM_set_int(found, context.state) == 0) return 0;
  found = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_STRENGTH);
  if (found != nullptr && OSSL_PARAM_set_uint(found, seed_strength) == 0) return 0;
  found = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_MAX_REQUEST);
  if (found != nullptr && OSSL_PARAM_set_size_t(found, seed_request) == 0) return 0;
  found = OSSL_PARAM_locate(params, sources_key);
  if (found != nullptr && give_sources(found, context) == 0) return 0;
  return 1;
}

const OSSL_PARAM* seed_gettable_ctx_params(void*, void*) noexcept {
  static const std::array<OSSL_PARAM, 5> list{{
      OSSL_PARAM_int(OSSL_RAND_PARAM_STATE, nullptr),
      OSSL_PARAM_uint(OSSL_RAND_PARAM_STRENGTH, nullptr),
      OSSL_PARAM_size_t(OSSL_RAND_PARAM_MAX_REQUEST, nullptr),
      OSSL_PARAM_utf8_string(sources_key, nullptr, 0),
      OSSL_PARAM_END,
  }};
  return list.data();
}

}  // namespace

entropy::Collector* SeedSource::collector() noexcept {
  const std::uint64_t generation = process_.generation();
  entropy::Collector* known = collectors_.peek(generation);
  if (known != nullptr) [[likely]]
    return known;
  try {
    return collectors_.get(generation, process_, entropy::make_sources(process_, options_));
  } catch (...) {
    return nullptr;
  }
}

SeedSource::SeedSource(Process& process, entropy::Options options)
    : process_(process),
      options_(std::move(options)),
      can_mix_(are_libcrypto_s({any(SHA512_Init), any(SHA512_Update), any(SHA512_Final)})) {
  if (!can_mix_)
    process_.log(LogLevel::info,
                 "SUNXI-SEED is getrandom alone: the program has functions under the names of libcrypto's");
}

bool SeedSource::fill(std::span<std::uint8_t> out, std::span<const std::uint8_t> extra,
                      std::span<const std::uint8_t> more_extra, Names* names) noexcept {
  if (!can_mix_) {
    if (names != nullptr) names->fill(nullptr);
    return entropy::kernel_random(out);
  }
  entropy::Collector::Gathered gathered;
  gathered.size = 0;
  gathered.names.fill(nullptr);
  if (entropy::Collector* sources = collector()) sources->gather(gathered);
  if (names != nullptr) *names = gathered.names;

  constexpr std::string_view label = "SUNXI-SEED 1";
  std::array<std::uint8_t, kernel_bytes> kernel{};
  std::array<std::uint8_t, SHA512_DIGEST_LENGTH> digest{};
  SHA512_CTX hash;
  bool good = true;
  for (std::uint64_t block = 0; !out.empty(); ++block) {
    good = entropy::kernel_random(kernel);
    if (!good) break;
    SHA512_Init(&hash);
    SHA512_Update(&hash, label.data(), label.size());
    SHA512_Update(&hash, &block, sizeof block);
    absorb(hash, kernel);
    absorb(hash, {gathered.bytes.data(), gathered.size});
    absorb(hash, extra);
    absorb(hash, more_extra);
    SHA512_Final(digest.data(), &hash);
    const std::size_t bytes = std::min(block_bytes, out.size());
    std::memcpy(out.data(), digest.data(), bytes);
    out = out.subspan(bytes);
  }
  wipe(&hash, sizeof hash);
  wipe(kernel.data(), kernel.size());
  wipe(digest.data(), digest.size());
  wipe(gathered.bytes.data(), gathered.bytes.size());
  return good;
}

std::vector<OSSL_DISPATCH> seed_source_dispatch() {
  return {
      entry(OSSL_FUNC_RAND_NEWCTX, seed_newctx),
      entry(OSSL_FUNC_RAND_FREECTX, seed_freectx),
      entry(OSSL_FUNC_RAND_INSTANTIATE, seed_instantiate),
      entry(OSSL_FUNC_RAND_UNINSTANTIATE, seed_uninstantiate),
      entry(OSSL_FUNC_RAND_GENERATE, seed_generate),
      entry(OSSL_FUNC_RAND_RESEED, seed_reseed),
      entry(OSSL_FUNC_RAND_ENABLE_LOCKING, seed_enable_locking),
      entry(OSSL_FUNC_RAND_LOCK, seed_lock),
      entry(OSSL_FUNC_RAND_UNLOCK, seed_unlock),
      entry(OSSL_FUNC_RAND_GETTABLE_CTX_PARAMS, seed_gettable_ctx_params),
      entry(OSSL_FUNC_RAND_GET_CTX_PARAMS, seed_get_ctx_params),
      entry(OSSL_FUNC_RAND_VERIFY_ZEROIZATION, seed_verify_zeroization),
      entry(OSSL_FUNC_RAND_GET_SEED, seed_get_seed),
      entry(OSSL_FUNC_RAND_CLEAR_SEED, seed_clear_seed),
      {0, nullptr},
  };
}

bool is_seed_source(const OSSL_DISPATCH* calls) noexcept {
  return has_function(calls, OSSL_FUNC_RAND_NEWCTX, seed_newctx);
}

}  // namespace sunxi
