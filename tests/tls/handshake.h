// SPDX-License-Identifier: Apache-2.0
// Handshakes and nothing else, many of them: both sides in one library context, over memory.
#pragma once

#include "tests/tls/connection.h"

namespace sunxi::test {

// The default provider, and sunxi preferred to it, for whatever libssl fetches, where a module's directory is
// given.
class PreferringLibrary {
 public:
  explicit PreferringLibrary(const std::string& module_directory = {});
  [[nodiscard]] OSSL_LIB_CTX* get() const noexcept { return library_.get(); }
  // Requests that software or a backend of ours has served; 0 without sunxi.
  [[nodiscard]] std::uint64_t requests(const std::string& backend) const;

 private:
  LibraryPtr library_;
  ProviderPtr sunxi_, default_;
};

// One suite of one version, with a certificate of the server's. Any number of threads may use one.
class Handshakes {
 public:
  // "" for TLS 1.3's own choice. Throws std::runtime_error.
  Handshakes(const PreferringLibrary& library, int version, const std::string& suite,
             const Identity& identity);
  // A handshake, `payload` bytes to and fro, and the end. False where anything fails.
  [[nodiscard]] bool run(std::size_t payload) const;

 private:
  SslContextPtr client_, server_;
};

}  // namespace sunxi::test
