// SPDX-License-Identifier: Apache-2.0
// TLS and DTLS between two library contexts over memory: every record passes through the test's hands, and
// every random number comes from a seed, so that two connections with the same seed write the same bytes.
#pragma once

#include <openssl/bio.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/evp.h"

namespace sunxi::test {

using SslContextPtr = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Deleter<SSL_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using NamePtr = std::unique_ptr<X509_NAME, Deleter<X509_NAME_free>>;
using CertificatePtr = std::unique_ptr<X509, Deleter<X509_free>>;

using Bytes = std::vector<std::uint8_t>;
using Record = Bytes;  // with its header

// The default provider in a library context of its own, and sunxi preferred before it where a module's
// directory is given. Its random numbers are those of seed().
class Side {
 public:
  explicit Side(const std::string& module_directory = {});
  // Until the next call all public random numbers repeat.
  void seed(std::uint64_t number) const;
  [[nodiscard]] OSSL_LIB_CTX* library() const noexcept { return library_.get(); }
  [[nodiscard]] bool ours() const noexcept { return sunxi_ != nullptr; }
  [[nodiscard]] const char* properties() const noexcept { return ours() ? "?provider=sunxi" : ""; }
  // Requests that a backend of ours has served; 0 without sunxi.
  [[nodiscard]] std::uint64_t requests(const std::string& backend) const;

 private:
  LibraryPtr library_;
  ProviderPtr repeatable_;
  ProviderPtr sunxi_;
  ProviderPtr default_;
};

// A key and its certificate, DER.
struct Identity {
  Bytes key, certificate;
};
// One for each kind of authentication: RSA, ECDSA, DSS.
[[nodiscard]] std::vector<Identity> make_identities();

struct Variant {
  std::string suite;
  int version;
  bool encrypt_then_mac;
};
[[nodiscard]] std::string name(const Variant& variant);
[[nodiscard]] inline bool is_datagram(int version) noexcept {
  return version == DTLS1_VERSION || version == DTLS1_2_VERSION;
}

// Every suite with AES or DES in CBC mode that needs neither PSK nor SRP, in every version that has it.
[[nodiscard]] std::vector<Variant> cbc_variants();
// One of them for each way to form a record.
[[nodiscard]] std::vector<Variant> record_variants();
// The bytes of a record with that many bytes of payload, its header included.
[[nodiscard]] std::size_t record_size(const Variant& variant, std::size_t payload);

[[nodiscard]] SslContextPtr make_context(OSSL_LIB_CTX* library, const char* properties, bool server,
                                         const Variant& variant, const std::vector<Identity>& identities);

class Peer {
 public:
  Peer(SSL_CTX* context, bool server, bool datagrams);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  [[nodiscard]] SSL* ssl() const noexcept { return ssl_.get(); }
  // The records written since the last call.
  [[nodiscard]] std::vector<Record> take();
  // Bytes from the other side, all of which are then processed.
  void give(const Record& record);
  // Goes on with a handshake, else reads what there is into `received`.
  void advance();
  void send(const Bytes& data);

  Bytes received;
  std::string alerts;        // sent and got, in words
  std::string last_failure;  // SSL_get_error() and the error queue, unless all is well

 private:
  static void on_event(const SSL* ssl, int where, int value);
  bool datagrams_;
  BIO* in_ = nullptr;   // of ssl_
  BIO* out_ = nullptr;  // of ssl_
  SslPtr ssl_;
};

class Connection {
 public:
  // Throws std::runtime_error where the handshake fails.
  Connection(SSL_CTX* client_context, SSL_CTX* server_context, const Variant& variant);
  // Carries records to and fro until no side has any; throws where a side fails.
  void exchange();
  void renegotiate(Peer& initiator);

  Peer client;
  Peer server;
  std::vector<Record> records;  // all that exchange() has carried

 private:
  Variant variant_;
};

}  // namespace sunxi::test
