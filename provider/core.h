// SPDX-License-Identifier: Apache-2.0
// The upcalls that libcrypto hands to a provider: configuration values and errors. See
// provider-base(7).
#pragma once

#include <openssl/core.h>
#include <openssl/core_dispatch.h>
#include <openssl/err.h>

#include <atomic>
#include <optional>
#include <string>

namespace sunxi {

// Reasons of the errors that the provider raises: of those that libcrypto has for everybody. A provider with
// texts of its own crashes a program which frees its last context after OPENSSL_cleanup, as destructors of
// static objects do: libcrypto then takes a lock that has gone, to forget the texts.
enum class Reason : int {
  bad_setting = ERR_R_PASSED_INVALID_ARGUMENT,
  no_default_provider = ERR_R_FETCH_FAILED,
  out_of_memory = ERR_R_MALLOC_FAILURE,
  bad_parameter = ERR_R_PASSED_INVALID_ARGUMENT,
  session_lost = ERR_R_OPERATION_FAIL,
  bad_parent = ERR_R_PASSED_INVALID_ARGUMENT,
  not_instantiated = ERR_R_SHOULD_NOT_HAVE_BEEN_CALLED,
  no_entropy = ERR_R_OPERATION_FAIL,
};

class Core {
 public:
  Core(const OSSL_CORE_HANDLE* handle, const OSSL_DISPATCH* in) noexcept;

  // The value of a key of our section, or nothing. Keys of a subsection read "key.subkey".
  [[nodiscard]] std::optional<std::string> setting(const char* key) const;

  // Puts an error on the application's queue. The whole message goes into `format`.
  void raise(Reason reason, const char* format, ...) const noexcept __attribute__((format(printf, 3, 4)));

 private:
  friend class OtherProviders;

  const OSSL_CORE_HANDLE* handle_;
  OSSL_FUNC_core_get_params_fn* get_params_ = nullptr;
  OSSL_FUNC_core_new_error_fn* new_error_ = nullptr;
  OSSL_FUNC_core_set_error_debug_fn* set_error_debug_ = nullptr;
  OSSL_FUNC_core_vset_error_fn* vset_error_ = nullptr;
  OSSL_FUNC_provider_register_child_cb_fn* register_child_ = nullptr;
  OSSL_FUNC_provider_deregister_child_cb_fn* deregister_child_ = nullptr;
  OSSL_FUNC_provider_name_fn* name_ = nullptr;
};

// Whether a provider with keys, MACs and the rest has been active beside us in the application's context.
// libcrypto tells, at construction and then at each activation, until stop().
class OtherProviders {
 public:
  explicit OtherProviders(const Core& core) noexcept;
  OtherProviders(const OtherProviders&) = delete;
  OtherProviders& operator=(const OtherProviders&) = delete;
  ~OtherProviders();

  // To be called once the answer is known. Our teardown is too late for that: contexts in static objects
  // keep us alive beyond OPENSSL_cleanup, when libcrypto's list of watchers is gone.
  void stop() noexcept;

  // True as well where libcrypto does not tell.
  [[nodiscard]] bool seen() const noexcept { return !watching_ || seen_.load(std::memory_order_relaxed); }

 private:
  static int activated(const OSSL_CORE_HANDLE* provider, void* opaque) noexcept;

  const Core& core_;
  std::atomic<bool> seen_{false};
  bool watching_ = false;
};

}  // namespace sunxi
