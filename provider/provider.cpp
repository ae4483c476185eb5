// SPDX-License-Identifier: Apache-2.0
// The provider's life: start, algorithm tables, provider parameters, teardown.
#include "provider/provider.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/opensslv.h>
#include <openssl/params.h>

#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "provider/dispatch.h"
#include "provider/version.h"

namespace sunxi {
namespace {

constexpr std::array counted{"software", "afalg", "cryptodev", "mmio"};
constexpr std::array counts{"requests", "bytes", "failures", "declines"};

// "sunxi.<backend>.<count>"
struct CounterName {
  std::array<char, 32> text{};
};
constexpr CounterName counter_name(std::string_view backend, std::string_view count) {
  CounterName name;
  std::size_t at = 0;
  for (const std::string_view part : {std::string_view("sunxi."), backend, std::string_view("."), count}) {
    for (const char c : part) name.text[at++] = c;
  }
  return name;
}
constexpr auto counter_names = [] {
  std::array<CounterName, counted.size() * counts.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = counter_name(counted[i / counts.size()], counts[i % counts.size()]);
  return names;
}();

const OSSL_PARAM* provider_gettable_params(void*) noexcept {
  static const auto list = [] {
    std::array<OSSL_PARAM, 5 + counter_names.size()> params;
    std::size_t at = 0;
    params[at++] = OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_NAME, nullptr, 0);
    params[at++] = OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_VERSION, nullptr, 0);
    params[at++] = OSSL_PARAM_utf8_ptr(OSSL_PROV_PARAM_BUILDINFO, nullptr, 0);
    params[at++] = OSSL_PARAM_int(OSSL_PROV_PARAM_STATUS, nullptr);
    for (const CounterName& name : counter_names) params[at++] = OSSL_PARAM_uint64(name.text.data(), nullptr);
    params[at] = OSSL_PARAM_construct_end();
    return params;
  }();
  return list.data();
}

int provider_get_params(void* opaque, OSSL_PARAM params[]) noexcept {
  return static_cast<Provider*>(opaque)->get_params(params) ? 1 : 0;
}

const OSSL_ALGORITHM* provider_query(void* opaque, int operation, int* no_store) noexcept {
  auto& provider = *static_cast<Provider*>(opaque);
  provider.complain_if_alone();
  *no_store = 0;
  switch (operation) {
    case OSSL_OP_CIPHER:
      return provider.ciphers();
    case OSSL_OP_DIGEST:
      return provider.digests();
    case OSSL_OP_RAND:
      return provider.random_generators();
    default:
      return nullptr;
  }
}

void provider_teardown(void* opaque) noexcept {
  const CancelGuard no_cancel;
  delete static_cast<Provider*>(opaque);
}

std::optional<std::string> environment(const char* variable) {
  const char* value = secure_getenv(variable);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace

Provider::Provider(const Core& upcalls, std::unique_ptr<Software> default_provider, const Settings& settings,
                   std::unique_ptr<Process> surroundings)
    : core(upcalls),
      process(std::move(surroundings)),
      software(std::move(default_provider)),
      router(*process, settings),
      seeds(*process, settings.entropy),
      random_dispatch_(pass_through_drbg(*software)),
      rand_dispatch_(rand_dispatch(*software, drbg)),
      seed_dispatch_(seed_source_dispatch()) {
  for (std::size_t row = 0; row < cipher_count; ++row) {
    if (!settings.registered[row]) continue;
    if (offer_cipher(*software, row, offered[row])) {
      cipher_table_.push_back({cipher_rows[row].names, "provider=sunxi", offered[row].dispatch.data(),
                               cipher_rows[row].description});
    } else {
      log_left_out(row);
    }
  }
  cipher_table_.push_back({nullptr, nullptr, nullptr, nullptr});
  for (std::size_t row = 0; row < digest_count; ++row) {
    if (!settings.registered[algorithm_of_digest(row)]) continue;
    offered_digests[row] = offer_digest(*software, row);
    if (!offered_digests[row].empty()) {
      digest_table_.push_back({digest_rows[row].names, "provider=sunxi", offered_digests[row].data(),
                               digest_rows[row].description});
    } else {
      log_left_out(algorithm_of_digest(row));
    }
  }
  digest_table_.push_back({nullptr, nullptr, nullptr, nullptr});
  // No `provider=` property: with the default provider active its own generator is taken, even where
  // `?provider=sunxi` is preferred.
  if (!random_dispatch_.empty())
    random_table_.push_back({"CTR-DRBG", "", random_dispatch_.data(), "the default provider's CTR-DRBG"});
  if (!rand_dispatch_.empty())
    random_table_.push_back({"SUNXI-RAND", "provider=sunxi", rand_dispatch_.data(),
                             "the default provider's CTR-DRBG, seeded by SUNXI-SEED"});
  random_table_.push_back({"SUNXI-SEED", "provider=sunxi", seed_dispatch_.data(),
                           "getrandom, with the hardware's generators mixed in"});
  random_table_.push_back({nullptr, nullptr, nullptr, nullptr});
  // Only a section of a file has this key: who loads us by a call knows what else is loaded.
  if (core.setting("activate")) others_.emplace(core);
}

void Provider::complain_if_alone() noexcept {
  if (!others_ || asked_.exchange(true, std::memory_order_relaxed)) return;
  const bool alone = !others_->seen();
  others_->stop();
  if (!alone) return;
  process->log(
      LogLevel::error,
      "no other provider is active, so that random numbers, MACs and public keys may be missing (sshd "
      "refuses every login): list default among the providers, with a section \"activate = 1\"");
}

void Provider::log_left_out(std::size_t algorithm) const noexcept {
  const std::string_view name = canonical_name(algorithm);
  process->log(
      LogLevel::info,
      "%.*s is not offered: this libcrypto lacks it, or the program has functions under the names of "
      "libcrypto's",
      static_cast<int>(name.size()), name.data());
}

Provider::~Provider() {
  if (!process->logs(LogLevel::debug)) return;
  for (const char* name : counted) {
    const Router::Counts numbers = router.counts(name);
    if (numbers.requests + numbers.failures + numbers.declines == 0) continue;
    process->log(LogLevel::debug,
                 "%s: %" PRIu64 " requests, %" PRIu64 " bytes, %" PRIu64 " failures, %" PRIu64 " declines",
                 name, numbers.requests, numbers.bytes, numbers.failures, numbers.declines);
  }
}

bool Provider::get_params(OSSL_PARAM* params) const noexcept {
  OSSL_PARAM* found = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_NAME);
  if (found != nullptr && OSSL_PARAM_set_utf8_ptr(found, "sunxi: OpenSSL on crypto accelerators") == 0)
    return false;
  found = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_VERSION);
  if (found != nullptr && OSSL_PARAM_set_utf8_ptr(found, SUNXI_VERSION) == 0) return false;
  found = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_BUILDINFO);
  if (found != nullptr &&
      OSSL_PARAM_set_utf8_ptr(found, SUNXI_VERSION ", built for OpenSSL " OPENSSL_VERSION_STR) == 0)
    return false;
  found = OSSL_PARAM_locate(params, OSSL_PROV_PARAM_STATUS);
  if (found != nullptr && OSSL_PARAM_set_int(found, 1) == 0) return false;
  for (std::size_t i = 0; i < counter_names.size(); ++i) {
    found = OSSL_PARAM_locate(params, counter_names[i].text.data());
    if (found == nullptr) continue;
    const Router::Counts numbers = router.counts(counted[i / counts.size()]);
    const std::array values{numbers.requests, numbers.bytes, numbers.failures, numbers.declines};
    if (OSSL_PARAM_set_uint64(found, values[i % counts.size()]) == 0) return false;
  }
  return true;
}

int initialise(const OSSL_CORE_HANDLE* handle, const OSSL_DISPATCH* in, const OSSL_DISPATCH** out,
               void** provider_context) noexcept {
  static const std::array dispatch{
      entry(OSSL_FUNC_PROVIDER_TEARDOWN, provider_teardown),
      entry(OSSL_FUNC_PROVIDER_GETTABLE_PARAMS, provider_gettable_params),
      entry(OSSL_FUNC_PROVIDER_GET_PARAMS, provider_get_params),
      entry(OSSL_FUNC_PROVIDER_QUERY_OPERATION, provider_query),
      OSSL_DISPATCH{0, nullptr},
  };
  const CancelGuard no_cancel;
  const Core core(handle, in);
  try {
    auto process = std::make_unique<Process>();
    try {
      const Settings settings = read_settings([&](const char* key) { return core.setting(key); }, environment,
                                              [&](LogLevel level) { process->set_log_level(level); });
      process->log(LogLevel::debug, "set: %s", settings.given.empty() ? "nothing" : settings.given.c_str());
      std::unique_ptr<Software> software = Software::load();
      if (!software) {
        core.raise(Reason::no_default_provider,
                   "sunxi needs libcrypto's default provider for its software path");
        process->log(LogLevel::error, "not loaded: libcrypto's default provider cannot be loaded");
        return 0;
      }
      *provider_context = new Provider(core, std::move(software), settings, std::move(process));
    } catch (const BadSetting& problem) {
      core.raise(Reason::bad_setting, "%s", problem.what());
      process->log(LogLevel::error, "not loaded: %s", problem.what());
      return 0;
    }
  } catch (...) {
    core.raise(Reason::out_of_memory, "no memory for the provider");
    return 0;
  }
  *out = dispatch.data();
  return 1;
}

}  // namespace sunxi
