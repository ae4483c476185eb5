// SPDX-License-Identifier: Apache-2.0
// What a case of the /dev/crypto backend runs on: the stand-in for the module, preloaded or behind a real
// device, or the module itself. There the cases that set it up in some way are left out.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cryptodev/cryptodev.h"
#include "tests/cryptodev/control.h"
#include "tests/support/catch.h"
#include "tests/unit/backend/requests.h"

namespace cryptodev_test {

using namespace backend_test;
using standin::Control;

// Descriptors of the device.
inline std::vector<int> device_numbers() {
  struct stat device {};
  std::vector<int> numbers;
  if (stat("/dev/crypto", &device) != 0) return numbers;
  for (int number = 0; number < 1100; ++number) {
    struct stat status {};
    if (fstat(number, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == device.st_rdev)
      numbers.push_back(number);
  }
  return numbers;
}

class Bed {
 public:
  // The stand-in's drivers, and whether only hardware will do.
  explicit Bed(const std::string& driver = "sun4i-ss", bool hardware = true) : control(Control::find()) {
    if (control != nullptr) {
      for (const char* setting : {"alignmask=auto", "absent=none", "limit=0", "refuse-open=0", "gone=0",
                                  "fips=0", "first-id=alternate", "fault=none"})
        set(setting);
      set("driver=" + driver);
      control->settle();
      for (const char* open : {"files-open", "sessions-open"}) open_before_[open] = control->count(open);
    } else if (access("/dev/crypto", R_OK | W_OK) != 0) {
      if (std::getenv("SUNXI_TEST_MAY_SKIP") != nullptr) {
        std::cout << "skipped: there is no /dev/crypto" << std::endl;
        std::_Exit(77);
      }
      FAIL("this case needs /dev/crypto, or the stand-in for it");
    }
    options.accelerated_only = control != nullptr && hardware;
    process.set_log_level(LogLevel::info);
    clear();
    reset();
  }
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;
  ~Bed() {
    backend.reset();
    if (control == nullptr) return;
    clear();
    control->settle();
    for (const auto& [name, before] : open_before_) {
      if (control->count(name) != before)
        FAIL_CHECK(name << ": " << control->count(name) << ", not " << before);
    }
    for (const std::string& violation : control->take_violations()) FAIL_CHECK(violation);
  }

  void reset() { backend = make_cryptodev_backend(process, options); }
  void set(const std::string& setting) {
    INFO(setting);
    REQUIRE(control->set(setting));
  }
  // No faults, and all counts at 0.
  void clear() {
    if (control == nullptr) return;
    set("fault=none");
    for (const char* name :
         {"opens", "gsession", "fsession", "crypt", "info", "cphash", "requests", "bytes", "zero-copy",
          "misaligned", "no-zero-copy", "errors", "files-open", "sessions-open"})
      before_[name] = control->count(name);
  }
  // Since the last clear(). Of what is open: more than then.
  [[nodiscard]] int count(const std::string& name) const {
    return static_cast<int>(static_cast<std::int64_t>(control->count(name) - before_.at(name)));
  }
  // The stand-in's: sessions and files of the backend.
  [[nodiscard]] int sessions() const { return opened("sessions-open"); }
  [[nodiscard]] int files() const { return opened("files-open"); }

  Control* const control;
  BackendOptions options;
  TestProcess process;
  std::unique_ptr<Backend> backend;

 private:
  [[nodiscard]] int opened(const std::string& name) const {
    return static_cast<int>(static_cast<std::int64_t>(control->count(name) - open_before_.at(name)));
  }
  std::map<std::string, std::uint64_t> before_;
  std::map<std::string, std::uint64_t> open_before_;
};

// True, and says so: there is no stand-in to be set up.
inline bool is_real(const Bed& bed) {
  if (bed.control == nullptr) WARN("left out on the real module");
  return bed.control == nullptr;
}

inline bool is_known(const Variant& variant) {
  return variant.cipher == Cipher::aes || variant.mode == Mode::cbc;
}

// All that the backend has and this kernel serves.
inline std::vector<const Variant*> served_variants(Bed& bed) {
  std::vector<const Variant*> served;
  for (const Variant& variant : variants) {
    if (!is_known(variant)) continue;
    KeySlot slot;
    const Bytes key = Random(variant.key_bytes).bytes(variant.key_bytes);
    const bool serves =
        ask(*bed.backend, slot, variant.spec(), key, {}, Bytes(16)).result.outcome == Outcome::served;
    bed.backend->release(slot);
    if (serves) {
      served.push_back(&variant);
    } else if (bed.control != nullptr) {
      FAIL(variant.name << " is not served");
    }
  }
  return served;
}

// Bytes of one operation.
inline std::size_t chunk_of(Bed& bed, const Variant& variant) {
  std::array<char, 64> driver{};
  bed.backend->driver(variant.spec(), driver);
  if (variant.mode == Mode::xts) return 4096;
  return std::strstr(driver.data(), "sun8i") != nullptr ? 32768 : 65536;
}

// One request, at the addresses given. In a child there is no Catch to report to.
inline Result request(Backend& backend, KeySlot& slot, const Variant& variant, const Bytes& key, Iv& iv,
                      const std::uint8_t* in, std::uint8_t* out, std::size_t length, bool encrypt) {
  return backend.crypt(slot, {.spec = variant.spec(),
                              .direction = encrypt ? Direction::encrypt : Direction::decrypt,
                              .key = key,
                              .iv = variant.iv_bytes() != 0 ? iv.data() : nullptr,
                              .in = in,
                              .out = out,
                              .length = length});
}

inline bool serves(Backend& backend, KeySlot& slot, const Bytes& key, std::uint64_t seed) {
  Random random(seed);
  Iv iv = random.iv(aes_cbc(key.size()));
  const Bytes in = random.bytes(random.length());
  const bool encrypt = random.below(2) == 0;
  const Answer answer = ask(backend, slot, key, iv, in, encrypt);
  return answer.result.outcome == Outcome::served && answer.out == reference(encrypt, key, iv, in) &&
         answer.iv == iv;
}

}  // namespace cryptodev_test
