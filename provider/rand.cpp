// SPDX-License-Identifier: Apache-2.0
// SUNXI-RAND: the default provider's CTR-DRBG with AES-256, seeded by SUNXI-SEED. Calls, states, counters and
// errors are that DRBG's; what is ours is its parent where it has none, or a foreign one, and that a forked
// child is known by more than its process number.
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/params.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "provider/dispatch.h"
#include "provider/drbg.h"
#include "provider/provider.h"

namespace sunxi {
namespace {

constexpr const char* core_cipher = "AES-256-CTR";

// What stands in for the parent of a DRBG that has none, or one that is not ours: seeds from SUNXI-SEED, the
// parent's among their input. Everything else is the parent's answer.
class Parent {
 public:
  Parent(SeedSource& seeds, void* parent, const OSSL_DISPATCH* calls) noexcept
      : seeds_(seeds), parent_(parent) {
    if (parent == nullptr) return;
    for (; calls != nullptr && calls->function_id != 0; ++calls) {
      switch (calls->function_id) {
        case OSSL_FUNC_RAND_ENABLE_LOCKING:
          enable_locking_ = OSSL_FUNC_rand_enable_locking(calls);
          break;
        case OSSL_FUNC_RAND_LOCK:
          lock_ = OSSL_FUNC_rand_lock(calls);
          break;
        case OSSL_FUNC_RAND_UNLOCK:
          unlock_ = OSSL_FUNC_rand_unlock(calls);
          break;
        case OSSL_FUNC_RAND_GET_CTX_PARAMS:
          get_ctx_params_ = OSSL_FUNC_rand_get_ctx_params(calls);
          break;
        case OSSL_FUNC_RAND_GET_SEED:
          get_seed_ = OSSL_FUNC_rand_get_seed(calls);
          break;
        case OSSL_FUNC_RAND_CLEAR_SEED:
          clear_seed_ = OSSL_FUNC_rand_clear_seed(calls);
          break;
        default:
          break;
      }
    }
  }

  // For the DRBG. A nonce is not among them: it then asks for a longer seed instead.
  static const OSSL_DISPATCH* calls() noexcept {
    static const std::array table{
        entry(OSSL_FUNC_RAND_ENABLE_LOCKING, enable_locking),
        entry(OSSL_FUNC_RAND_LOCK, lock),
        entry(OSSL_FUNC_RAND_UNLOCK, unlock),
        entry(OSSL_FUNC_RAND_GET_CTX_PARAMS, get_ctx_params),
        entry(OSSL_FUNC_RAND_GET_SEED, get_seed),
        entry(OSSL_FUNC_RAND_CLEAR_SEED, clear_seed),
        OSSL_DISPATCH{0, nullptr},
    };
    return table.data();
  }

 private:
  static Parent& of(void* opaque) noexcept { return *static_cast<Parent*>(opaque); }

  static int enable_locking(void* opaque) noexcept {
    const Parent& self = of(opaque);
    return self.enable_locking_ == nullptr ? 1 : self.enable_locking_(self.parent_);
  }
  static int lock(void* opaque) noexcept {
    const Parent& self = of(opaque);
    return self.lock_ == nullptr ? 1 : self.lock_(self.parent_);
  }
  static void unlock(void* opaque) noexcept {
    const Parent& self = of(opaque);
    if (self.unlock_ != nullptr) self.unlock_(self.parent_);
  }
  static int get_ctx_params(void* opaque, OSSL_PARAM params[]) noexcept {
    const Parent& self = of(opaque);
    if (self.parent_ != nullptr)
      return self.get_ctx_params_ == nullptr ? 0 : self.get_ctx_params_(self.parent_, params);
    OSSL_PARAM* strength = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_STRENGTH);
    return strength == nullptr ? 1 : OSSL_PARAM_set_uint(strength, 1024);
  }

  static std::size_t get_seed(void* opaque, unsigned char** out, int entropy, std::size_t least,
                              std::size_t most, int prediction_resistance, const unsigned char* extra,
                              std::size_t extra_bytes) noexcept {
    const Parent& self = of(opaque);
    const std::size_t wanted = std::max(entropy > 0 ? (static_cast<std::size_t>(entropy) + 7) / 8 : 0, least);
    const std::size_t bytes = std::min(wanted, most);
    unsigned char* theirs = nullptr;
    std::size_t their_bytes = 0;
    if (self.parent_ != nullptr) {
      if (self.get_seed_ == nullptr) return 0;
      their_bytes = self.get_seed_(self.parent_, &theirs, entropy, least, most, prediction_resistance, extra,
                                   extra_bytes);
      if (their_bytes < least || their_bytes > most) {
        self.clear_theirs(theirs, their_bytes);
        return 0;
      }
    }
    auto* seed = static_cast<unsigned char*>(OPENSSL_secure_malloc(bytes));
    bool good = seed != nullptr;
    good = good && self.seeds_.fill({seed, bytes}, {theirs, their_bytes},
                                    {extra, extra == nullptr ? 0 : extra_bytes});
    self.clear_theirs(theirs, their_bytes);
    if (!good) {
      OPENSSL_secure_clear_free(seed, bytes);
      return 0;
    }
    *out = seed;
    return bytes;
  }
  static void clear_seed(void*, unsigned char* seed, std::size_t bytes) noexcept {
    OPENSSL_secure_clear_free(seed, bytes);
  }

  void clear_theirs(unsigned char* seed, std::size_t bytes) const noexcept {
    if (seed != nullptr && clear_seed_ != nullptr) clear_seed_(parent_, seed, bytes);
  }

  SeedSource& seeds_;
  void* const parent_;
  OSSL_FUNC_rand_enable_locking_fn* enable_locking_ = nullptr;
  OSSL_FUNC_rand_lock_fn* lock_ = nullptr;
  OSSL_FUNC_rand_unlock_fn* unlock_ = nullptr;
  OSSL_FUNC_rand_get_ctx_params_fn* get_ctx_params_ = nullptr;
  OSSL_FUNC_rand_get_seed_fn* get_seed_ = nullptr;
  OSSL_FUNC_rand_clear_seed_fn* clear_seed_ = nullptr;
};

struct RandContext {
  RandContext(Provider& from, void* real_parent, const OSSL_DISPATCH* parent_calls) noexcept
      : provider(from),
        drbg(from.drbg),
        parent(from.seeds, real_parent, parent_calls),
        generation(from.process->generation()) {}
  Provider& provider;
  const Drbg& drbg;
  Parent parent;
  void* inner = nullptr;
  // The process that the DRBG was last seeded in. The DRBG itself compares process numbers, and two processes
  // of different pid namespaces can have the same one.
  std::atomic<std::uint64_t> generation;
  // Also one that was refused: the DRBG then has none, and gets none of ours.
  std::atomic<bool> cipher_named{false};
};

RandContext& of(void* opaque) noexcept {
  return *static_cast<RandContext*>(opaque);
}

// OpenSSL's names for what random.cpp's DRBG needs changed, and a cipher if there was none.
bool names_cipher(const OSSL_PARAM* params) noexcept {
  return params != nullptr && OSSL_PARAM_locate_const(params, OSSL_DRBG_PARAM_CIPHER) != nullptr;
}

void* rand_newctx(void* opaque, void* parent, const OSSL_DISPATCH* parent_calls) noexcept;

bool is_ours(const OSSL_DISPATCH* calls) noexcept {
  return is_seed_source(calls) || has_function(calls, OSSL_FUNC_RAND_NEWCTX, rand_newctx);
}

void* rand_newctx(void* opaque, void* parent, const OSSL_DISPATCH* parent_calls) noexcept {
  auto& provider = *static_cast<Provider*>(opaque);
  std::unique_ptr<RandContext> context(new (std::nothrow) RandContext(provider, parent, parent_calls));
  if (!context) {
    provider.core.raise(Reason::out_of_memory, "no memory for a random generator");
    return nullptr;
  }
  void* core = provider.software->context();
  context->inner = parent != nullptr && is_ours(parent_calls)
                       ? provider.drbg.newctx(core, parent, parent_calls)
                       : provider.drbg.newctx(core, &context->parent, Parent::calls());
  return context->inner == nullptr ? nullptr : context.release();
}

void rand_freectx(void* opaque) noexcept {
  if (opaque == nullptr) return;
  const std::unique_ptr<RandContext> context(&of(opaque));
  context->drbg.freectx(context->inner);
}

int rand_set_ctx_params(void* opaque, const OSSL_PARAM params[]) noexcept {
  RandContext& context = of(opaque);
  if (names_cipher(params)) context.cipher_named = true;
  const DefaultProviderParams changed(params);
  return changed ? context.drbg.set_ctx_params(context.inner, changed.get()) : 0;
}

int rand_instantiate(void* opaque, unsigned int strength, int prediction_resistance,
                     const unsigned char* personal, std::size_t personal_bytes,
                     const OSSL_PARAM params[]) noexcept {
  RandContext& context = of(opaque);
  if (names_cipher(params)) context.cipher_named = true;
  if (!context.cipher_named) {
    const std::array cipher{
        OSSL_PARAM_construct_utf8_string(OSSL_DRBG_PARAM_CIPHER, const_cast<char*>(core_cipher), 0),
        OSSL_PARAM_construct_end()};
    if (context.drbg.set_ctx_params(context.inner, cipher.data()) == 0) return 0;
  }
  const DefaultProviderParams changed(params);
  if (!changed) return 0;
  const std::uint64_t generation = context.provider.process->generation();
  if (context.drbg.instantiate(context.inner, strength, prediction_resistance, personal, personal_bytes,
                               changed.get()) == 0)
    return 0;
  context.cipher_named = true;
  context.generation.store(generation, std::memory_order_relaxed);
  return 1;
}

int rand_uninstantiate(void* opaque) noexcept {
  return of(opaque).drbg.uninstantiate(of(opaque).inner);
}

// In a child of the process that seeded: work(1) asks for a fresh seed before any output.
template <class Work>
auto fresh_in_child(RandContext& context, int prediction_resistance, Work&& work) noexcept {
  const std::uint64_t now = context.provider.process->generation();
  const bool child = context.generation.load(std::memory_order_relaxed) != now;
  const auto result = work(child ? 1 : prediction_resistance);
  if (child && result != 0) [[unlikely]]
    context.generation.store(now, std::memory_order_relaxed);
  return result;
}

int rand_generate(void* opaque, unsigned char* out, std::size_t bytes, unsigned int strength,
                  int prediction_resistance, const unsigned char* extra, std::size_t extra_bytes) noexcept {
  RandContext& context = of(opaque);
  return fresh_in_child(context, prediction_resistance, [&](int resistance) {
    return context.drbg.generate(context.inner, out, bytes, strength, resistance, extra, extra_bytes);
  });
}

std::size_t rand_get_seed(void* opaque, unsigned char** out, int entropy, std::size_t least, std::size_t most,
                          int prediction_resistance, const unsigned char* extra,
                          std::size_t extra_bytes) noexcept {
  RandContext& context = of(opaque);
  return fresh_in_child(context, prediction_resistance, [&](int resistance) {
    return context.drbg.get_seed(context.inner, out, entropy, least, most, resistance, extra, extra_bytes);
  });
}

void rand_clear_seed(void* opaque, unsigned char* seed, std::size_t bytes) noexcept {
  of(opaque).drbg.clear_seed(of(opaque).inner, seed, bytes);
}

int rand_reseed(void* opaque, int prediction_resistance, const unsigned char* entropy,
                std::size_t entropy_bytes, const unsigned char* extra, std::size_t extra_bytes) noexcept {
  return of(opaque).drbg.reseed(of(opaque).inner, prediction_resistance, entropy, entropy_bytes, extra,
                                extra_bytes);
}

std::size_t rand_nonce(void* opaque, unsigned char* out, unsigned int strength, std::size_t least,
                       std::size_t most) noexcept {
  return of(opaque).drbg.nonce(of(opaque).inner, out, strength, least, most);
}

int rand_enable_locking(void* opaque) noexcept {
  return of(opaque).drbg.enable_locking(of(opaque).inner);
}
int rand_lock(void* opaque) noexcept {
  return of(opaque).drbg.lock(of(opaque).inner);
}
void rand_unlock(void* opaque) noexcept {
  of(opaque).drbg.unlock(of(opaque).inner);
}

int rand_get_ctx_params(void* opaque, OSSL_PARAM params[]) noexcept {
  return of(opaque).drbg.get_ctx_params(of(opaque).inner, params);
}

int rand_verify_zeroization(void* opaque) noexcept {
  return of(opaque).drbg.verify_zeroization(of(opaque).inner);
}

const OSSL_PARAM* rand_gettable_ctx_params(void* opaque, void* provider) noexcept {
  const auto& from = *static_cast<Provider*>(provider);
  return from.drbg.gettable_ctx_params(opaque == nullptr ? nullptr : of(opaque).inner,
                                       from.software->context());
}
const OSSL_PARAM* rand_settable_ctx_params(void* opaque, void* provider) noexcept {
  const auto& from = *static_cast<Provider*>(provider);
  return from.drbg.settable_ctx_params(opaque == nullptr ? nullptr : of(opaque).inner,
                                       from.software->context());
}

}  // namespace

std::vector<OSSL_DISPATCH> rand_dispatch(const Software& software, Drbg& drbg) {
  std::vector<OSSL_DISPATCH> table;
  const OSSL_DISPATCH* theirs = software.random_generator("CTR-DRBG");
  for (; theirs != nullptr && theirs->function_id != 0; ++theirs) {
    // Ours where the DRBG has one; a function that is not known here is not offered.
    const auto take = [&](auto& inner, auto* found, auto* ours) {
      inner = found;
      table.push_back(entry(theirs->function_id, ours));
    };
    switch (theirs->function_id) {
      case OSSL_FUNC_RAND_NEWCTX:
        take(drbg.newctx, OSSL_FUNC_rand_newctx(theirs), rand_newctx);
        break;
      case OSSL_FUNC_RAND_FREECTX:
        take(drbg.freectx, OSSL_FUNC_rand_freectx(theirs), rand_freectx);
        break;
      case OSSL_FUNC_RAND_INSTANTIATE:
        take(drbg.instantiate, OSSL_FUNC_rand_instantiate(theirs), rand_instantiate);
        break;
      case OSSL_FUNC_RAND_UNINSTANTIATE:
        take(drbg.uninstantiate, OSSL_FUNC_rand_uninstantiate(theirs), rand_uninstantiate);
        break;
      case OSSL_FUNC_RAND_GENERATE:
        take(drbg.generate, OSSL_FUNC_rand_generate(theirs), rand_generate);
        break;
      case OSSL_FUNC_RAND_RESEED:
        take(drbg.reseed, OSSL_FUNC_rand_reseed(theirs), rand_reseed);
        break;
      case OSSL_FUNC_RAND_NONCE:
        take(drbg.nonce, OSSL_FUNC_rand_nonce(theirs), rand_nonce);
        break;
      case OSSL_FUNC_RAND_ENABLE_LOCKING:
        take(drbg.enable_locking, OSSL_FUNC_rand_enable_locking(theirs), rand_enable_locking);
        break;
      case OSSL_FUNC_RAND_LOCK:
        take(drbg.lock, OSSL_FUNC_rand_lock(theirs), rand_lock);
        break;
      case OSSL_FUNC_RAND_UNLOCK:
        take(drbg.unlock, OSSL_FUNC_rand_unlock(theirs), rand_unlock);
        break;
      case OSSL_FUNC_RAND_GETTABLE_CTX_PARAMS:
        take(drbg.gettable_ctx_params, OSSL_FUNC_rand_gettable_ctx_params(theirs), rand_gettable_ctx_params);
        break;
      case OSSL_FUNC_RAND_SETTABLE_CTX_PARAMS:
        take(drbg.settable_ctx_params, OSSL_FUNC_rand_settable_ctx_params(theirs), rand_settable_ctx_params);
        break;
      case OSSL_FUNC_RAND_GET_CTX_PARAMS:
        take(drbg.get_ctx_params, OSSL_FUNC_rand_get_ctx_params(theirs), rand_get_ctx_params);
        break;
      case OSSL_FUNC_RAND_SET_CTX_PARAMS:
        take(drbg.set_ctx_params, OSSL_FUNC_rand_set_ctx_params(theirs), rand_set_ctx_params);
        break;
      case OSSL_FUNC_RAND_VERIFY_ZEROIZATION:
        take(drbg.verify_zeroization, OSSL_FUNC_rand_verify_zeroization(theirs), rand_verify_zeroization);
        break;
      case OSSL_FUNC_RAND_GET_SEED:
        take(drbg.get_seed, OSSL_FUNC_rand_get_seed(theirs), rand_get_seed);
        break;
      case OSSL_FUNC_RAND_CLEAR_SEED:
        take(drbg.clear_seed, OSSL_FUNC_rand_clear_seed(theirs), rand_clear_seed);
        break;
      default:
        break;
    }
  }
  if (!drbg.complete()) return {};
  table.push_back({0, nullptr});
  return table;
}

}  // namespace sunxi
