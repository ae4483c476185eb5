// SPDX-License-Identifier: Apache-2.0
// What the tests of the AF_ALG backend have in common: the list of drivers and the backend that a case runs
// on.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "backends/afalg/afalg.h"
#include "tests/support/catch.h"
#include "tests/unit/afalg/kernel_calls.h"
#include "tests/unit/backend/requests.h"

namespace afalg_test {

using namespace backend_test;
using kernel_calls::Call;
// A file in the place of /proc/crypto.
class List {
 public:
  explicit List(const std::string& text) {
    const int number = mkstemp(path_.data());
    REQUIRE(number >= 0);
    REQUIRE(write(number, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    close(number);
  }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() { unlink(path_.c_str()); }
  [[nodiscard]] const char* path() const { return path_.c_str(); }

 private:
  std::string path_ = "/tmp/sunxi-test-crypto-XXXXXX";
};

// Two drivers for each algorithm, one of them known as hardware.
inline const std::string& model_list() {
  static const std::string text = [] {
    std::string made;
    std::string last;
    for (const Variant& variant : variants) {
      if (last == variant.kernel_name || made.find(variant.kernel_name) != std::string::npos) continue;
      last = variant.kernel_name;
      for (const char* end : {"-model\npriority : 450", "-sun8i-ce\npriority : 400"}) {
        made += "name : " + last + "\ndriver : " + variant.kernel_driver + end +
                "\nselftest : passed\ninternal : no\ntype : skcipher\n\n";
      }
    }
    return made;
  }();
  return text;
}

// Of digests alike; theirs known as hardware is the one that hashes in pieces.
inline std::string model_hash_list() {
  std::string made;
  for (const char* name : {"md5", "sha1", "sha224", "sha256", "sha384", "sha512"}) {
    for (const char* end : {"-model\npriority : 450\ntype : shash", "-sun8i-ce\npriority : 400\ntype : ahash",
                            "-sun4i-ss\npriority : 300\ntype : ahash"}) {
      made += std::string("name : ") + name + "\ndriver : " + name + end +
              "\nselftest : passed\ninternal : no\n\n";
    }
  }
  return made;
}

inline bool kernel_has_afalg() {
  const int number = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (number < 0) return false;
  close(number);
  return true;
}

// What a case runs on: the model, or the kernel that it finds.
class Bed {
 public:
  explicit Bed(bool on_model, bool hardware = std::getenv("SUNXI_TEST_HARDWARE") != nullptr)
      : model(on_model) {
    kernel_calls::clear();
    kernel_calls::use_model(model);
    if (!model && !kernel_has_afalg()) {
      if (std::getenv("SUNXI_TEST_MAY_SKIP") != nullptr) {
        std::cout << "skipped: this kernel has no AF_ALG" << std::endl;
        std::_Exit(77);
      }
      FAIL("this case needs a kernel with AF_ALG");
    }
    kernel_calls::clear();
    options.accelerated_only = hardware;
    process.set_log_level(LogLevel::info);
    reset();
  }
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;
  ~Bed() {
    backend.reset();
    kernel_calls::clear();
    kernel_calls::use_model(false);
  }
  // A backend that knows of no driver yet.
  void reset() {
    backend = model ? make_afalg_backend_with(process, options, list_.path())
                    : make_afalg_backend(process, options);
  }

 private:
  List list_{model_list() + model_hash_list()};

 public:
  const bool model;
  BackendOptions options;
  TestProcess process;
  std::unique_ptr<Backend> backend;
};

// Whether what runs here serves the algorithm: all of them, but only AES-CBC on the guest's hardware.
inline bool is_served(Bed& bed, const Variant& variant) {
  KeySlot slot;
  Random random(variant.key_bytes);
  const Answer answer =
      ask(*bed.backend, slot, variant.spec(), random.bytes(variant.key_bytes), {}, Bytes(16));
  bed.backend->release(slot);
  const bool served = answer.result.outcome == Outcome::served;
  if (!served && (bed.model || !bed.options.accelerated_only ||
                  (variant.cipher == Cipher::aes && variant.mode == Mode::cbc)))
    FAIL(variant.name << " is not served");
  return served;
}

// Bytes of one operation.
inline std::size_t chunk_of(Bed& bed, const Variant& variant) {
  std::array<char, 64> driver{};
  bed.backend->driver(variant.spec(), driver);
  return std::strstr(driver.data(), "sun8i") != nullptr ? 32768 : 65536;
}

}  // namespace afalg_test
