// SPDX-License-Identifier: Apache-2.0
// TLS CBC records under valgrind: what is decrypted is marked as undefined, so that memcheck reports
// every branch and every address that depends on it (Adam Langley's ctgrind). A backend of the test's own
// marks its output, and the whole provider runs behind it, compiled as it is released.
//
// "records selftest" branches on a secret, which valgrind has to report.
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <valgrind/memcheck.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "provider/provider.h"
#include "tests/support/evp.h"

namespace sunxi {
namespace {

// "Decrypts" by leaving the data as it is, and calls it a secret.
class Marker final : public Backend {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "mmio"; }
  [[nodiscard]] bool supports(const CipherSpec&) const noexcept override { return true; }
  [[nodiscard]] Result crypt(KeySlot&, const CipherRequest& request) noexcept override {
    std::memmove(request.out, request.in, request.length);
    VALGRIND_MAKE_MEM_UNDEFINED(request.out, request.length);
    ++requests;
    return {Outcome::served, request.length};
  }
  void release(KeySlot&) noexcept override {}
  void driver(const CipherSpec&, std::span<char> text) const noexcept override { text[0] = '\0'; }
  static inline int requests = 0;
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::string_view name, Process&, const BackendOptions&) {
  return name == "mmio" ? std::make_unique<Marker>() : nullptr;
}

}  // namespace sunxi

namespace {

using namespace sunxi::test;

int complain(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  return 1;
}

// Returns what became of it, for the caller's eyes: no branch here may see a secret either.
int open_one(const EVP_CIPHER* cipher, unsigned int version, std::size_t mac_bytes,
             std::vector<unsigned char> record) {
  const CipherContextPtr context(EVP_CIPHER_CTX_new());
  const std::array<unsigned char, 64> zeros{};
  unsigned int tls_version = version;
  std::array params{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_TLS_VERSION, &tls_version),
                    OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_TLS_MAC_SIZE, &mac_bytes),
                    OSSL_PARAM_construct_end()};
  if (EVP_CipherInit_ex2(context.get(), cipher, zeros.data(), zeros.data(), 0, params.data()) == 0)
    return complain("init");
  int bytes = 0;
  if (EVP_CipherUpdate(context.get(), record.data(), &bytes, record.data(),
                       static_cast<int>(record.size())) == 0)
    return complain("a record with a MAC was refused");
  unsigned char* mac = nullptr;
  std::array query{
      OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_TLS_MAC, reinterpret_cast<void**>(&mac), mac_bytes),
      OSSL_PARAM_construct_end()};
  if (EVP_CIPHER_CTX_get_params(context.get(), query.data()) == 0 || mac == nullptr)
    return complain("no MAC");
  // From here on the caller knows.
  VALGRIND_MAKE_MEM_DEFINED(&bytes, sizeof bytes);
  VALGRIND_MAKE_MEM_DEFINED(mac, mac_bytes);
  return bytes < 0 ? complain("length") : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (RUNNING_ON_VALGRIND == 0) return complain("to be run under valgrind");
  if (argc > 1 && std::string_view(argv[1]) == "selftest") {
    std::array<unsigned char, 1> secret{3};
    VALGRIND_MAKE_MEM_UNDEFINED(secret.data(), 1);
    const volatile unsigned char* const look = secret.data();
    return *look == 3 ? 0 : 5;
  }
  setenv("SUNXI_MIN_BYTES", "0", 1);
  setenv("SUNXI_BACKENDS", "mmio,", 1);
  const Library ours("sunxi", sunxi::initialise);
  int records = 0;
  for (const char* name : {"AES-128-CBC", "DES-EDE3-CBC"}) {
    const CipherPtr cipher = ours.cipher(name);
    const auto block = static_cast<std::size_t>(EVP_CIPHER_get_block_size(cipher.get()));
    for (const unsigned version : {0x0301U, 0x0303U, 0xfefdU}) {
      for (const std::size_t mac_bytes : {20U, 32U, 48U}) {
        for (const std::size_t blocks : {7U, 8U, 25U, 40U}) {
          for (const unsigned padding : {0U, 1U, 7U, 15U, 200U, 255U}) {
            for (const bool damaged : {false, true}) {
              std::vector<unsigned char> record((blocks + 2) * block, static_cast<unsigned char>(padding));
              if (damaged) record[record.size() - 2] ^= 0x40;
              if (open_one(cipher.get(), version, mac_bytes, record) != 0) return 1;
              ++records;
            }
          }
        }
      }
    }
  }
  if (sunxi::Marker::requests != records) return complain("some records did not go through the backend");
  std::printf("%d records\n", records);
  return 0;
}
