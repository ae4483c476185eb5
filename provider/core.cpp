// SPDX-License-Identifier: Apache-2.0
#include "provider/core.h"

#include <openssl/params.h>

#include <array>
#include <cstdarg>
#include <cstdint>
#include <string_view>

namespace sunxi {

Core::Core(const OSSL_CORE_HANDLE* handle, const OSSL_DISPATCH* in) noexcept : handle_(handle) {
  for (; in->function_id != 0; ++in) {
    switch (in->function_id) {
      case OSSL_FUNC_CORE_GET_PARAMS:
        get_params_ = OSSL_FUNC_core_get_params(in);
        break;
      case OSSL_FUNC_CORE_NEW_ERROR:
        new_error_ = OSSL_FUNC_core_new_error(in);
        break;
      case OSSL_FUNC_CORE_SET_ERROR_DEBUG:
        set_error_debug_ = OSSL_FUNC_core_set_error_debug(in);
        break;
      case OSSL_FUNC_CORE_VSET_ERROR:
        vset_error_ = OSSL_FUNC_core_vset_error(in);
        break;
      case OSSL_FUNC_PROVIDER_REGISTER_CHILD_CB:
        register_child_ = OSSL_FUNC_provider_register_child_cb(in);
        break;
      case OSSL_FUNC_PROVIDER_DEREGISTER_CHILD_CB:
        deregister_child_ = OSSL_FUNC_provider_deregister_child_cb(in);
        break;
      case OSSL_FUNC_PROVIDER_NAME:
        name_ = OSSL_FUNC_provider_name(in);
        break;
      default:
        break;
    }
  }
}

OtherProviders::OtherProviders(const Core& core) noexcept : core_(core) {
  if (core.register_child_ == nullptr || core.deregister_child_ == nullptr || core.name_ == nullptr) return;
  watching_ = core.register_child_(
                  core.handle_, activated, [](const OSSL_CORE_HANDLE*, void*) noexcept { return 1; },
                  [](const char*, void*) noexcept { return 1; }, this) != 0;
}

OtherProviders::~OtherProviders() {
  stop();
}

void OtherProviders::stop() noexcept {
  if (watching_) core_.deregister_child_(core_.handle_);
  watching_ = false;
}

// libcrypto holds its locks: no more than the flag.
int OtherProviders::activated(const OSSL_CORE_HANDLE* provider, void* opaque) noexcept {
  auto& self = *static_cast<OtherProviders*>(opaque);
  const std::string_view name = self.core_.name_(provider);
  if (name != "sunxi" && name != "base" && name != "legacy" && name != "null")
    self.seen_.store(true, std::memory_order_relaxed);
  return 1;
}

std::optional<std::string> Core::setting(const char* key) const {
  if (get_params_ == nullptr) return std::nullopt;
  char* value = nullptr;
  std::array params{OSSL_PARAM_construct_utf8_ptr(key, &value, 0), OSSL_PARAM_construct_end()};
  if (get_params_(handle_, params.data()) == 0 || OSSL_PARAM_modified(params.data()) == 0 || value == nullptr)
    return std::nullopt;
  return std::string(value);
}

void Core::raise(Reason reason, const char* format, ...) const noexcept {
  if (new_error_ == nullptr || vset_error_ == nullptr) return;
  new_error_(handle_);
  if (set_error_debug_ != nullptr) set_error_debug_(handle_, "sunxi", 0, "sunxi");
  va_list arguments;
  va_start(arguments, format);
  vset_error_(handle_, static_cast<std::uint32_t>(reason), format, arguments);
  va_end(arguments);
}

}  // namespace sunxi
