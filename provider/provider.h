// SPDX-License-Identifier: Apache-2.0
// The provider context: everything that one activation of the provider owns. No state is global.
#pragma once

#include <openssl/core.h>
#include <openssl/core_dispatch.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "backends/process.h"
#include "provider/algorithms.h"
#include "provider/core.h"
#include "provider/drbg.h"
#include "provider/router.h"
#include "provider/seed_source.h"
#include "provider/settings.h"
#include "provider/software.h"

namespace sunxi {

// One algorithm as it is offered to libcrypto: tables made at load from the default provider's own.
struct OfferedCipher {
  std::vector<OSSL_DISPATCH> dispatch;
  std::vector<OSSL_PARAM> gettable;  // context parameters, ours added
  std::vector<OSSL_PARAM> settable;
};

class Provider {
 public:
  // Throws BadSetting, std::bad_alloc.
  Provider(const Core& core, std::unique_ptr<Software> software, const Settings& settings,
           std::unique_ptr<Process> process);
  Provider(const Provider&) = delete;
  Provider& operator=(const Provider&) = delete;
  ~Provider();  // logs a summary; many programs end without teardown

  [[nodiscard]] const OSSL_ALGORITHM* ciphers() const noexcept { return cipher_table_.data(); }
  [[nodiscard]] const OSSL_ALGORITHM* digests() const noexcept { return digest_table_.data(); }
  [[nodiscard]] const OSSL_ALGORITHM* random_generators() const noexcept { return random_table_.data(); }
  [[nodiscard]] bool get_params(OSSL_PARAM* params) const noexcept;
  // A configuration file that activates nothing beside us leaves programs without keys and MACs: says so.
  // To be called at queries, the first of which comes when the whole file has been read; later ones do
  // nothing.
  void complain_if_alone() noexcept;

  Core core;
  std::unique_ptr<Process> process;
  std::unique_ptr<Software> software;
  Router router;
  SeedSource seeds;
  Drbg drbg;  // the core of SUNXI-RAND
  std::array<OfferedCipher, cipher_count> offered;
  std::array<std::vector<OSSL_DISPATCH>, digest_count> offered_digests;

 private:
  // Of one that was to be registered.
  void log_left_out(std::size_t algorithm) const noexcept;

  std::vector<OSSL_ALGORITHM> cipher_table_;
  std::vector<OSSL_ALGORITHM> digest_table_;
  std::vector<OSSL_DISPATCH> random_dispatch_;
  std::vector<OSSL_DISPATCH> rand_dispatch_;
  std::vector<OSSL_DISPATCH> seed_dispatch_;
  std::vector<OSSL_ALGORITHM> random_table_;
  std::optional<OtherProviders> others_;  // where a configuration file has activated us
  std::atomic<bool> asked_{false};        // others_
};

// Fills `offered` for the cipher in `row` (cipher.cpp). False where the default provider lacks it.
[[nodiscard]] bool offer_cipher(const Software& software, std::size_t row, OfferedCipher& offered);

// The dispatch table of the digest in `row` (digest.cpp); empty where the default provider lacks it.
[[nodiscard]] std::vector<OSSL_DISPATCH> offer_digest(const Software& software, std::size_t row);

// The default provider's CTR-DRBG under our name (random.cpp); empty where it has none.
[[nodiscard]] std::vector<OSSL_DISPATCH> pass_through_drbg(const Software& software);

// What OSSL_provider_init does, apart from being exported by the module: tests call it with a list of
// backends of their own.
int initialise(const OSSL_CORE_HANDLE* handle, const OSSL_DISPATCH* in, const OSSL_DISPATCH** out,
               void** provider_context) noexcept;

}  // namespace sunxi
