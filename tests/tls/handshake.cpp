// SPDX-License-Identifier: Apache-2.0
#include "tests/tls/handshake.h"

#include <openssl/params.h>

#include <array>
#include <stdexcept>

namespace sunxi::test {

PreferringLibrary::PreferringLibrary(const std::string& module_directory) : library_(OSSL_LIB_CTX_new()) {
  default_.reset(OSSL_PROVIDER_load(library_.get(), "default"));
  if (!module_directory.empty()) {
    OSSL_PROVIDER_set_default_search_path(library_.get(), module_directory.c_str());
    sunxi_.reset(OSSL_PROVIDER_load(library_.get(), "sunxi"));
    if (!sunxi_ || EVP_set_default_properties(library_.get(), "?provider=sunxi") != 1)
      throw std::runtime_error("no provider sunxi: " + errors());
  }
  if (!default_) throw std::runtime_error("no provider default: " + errors());
}

std::uint64_t PreferringLibrary::requests(const std::string& backend) const {
  std::uint64_t value = 0;
  const std::string parameter = "sunxi." + backend + ".requests";
  std::array params{OSSL_PARAM_construct_uint64(parameter.c_str(), &value), OSSL_PARAM_construct_end()};
  if (sunxi_ && OSSL_PROVIDER_get_params(sunxi_.get(), params.data()) != 1)
    throw std::runtime_error("no such counter");
  return value;
}

Handshakes::Handshakes(const PreferringLibrary& library, int version, const std::string& suite,
                       const Identity& identity)
    : client_(SSL_CTX_new_ex(library.get(), nullptr, TLS_client_method())),
      server_(SSL_CTX_new_ex(library.get(), nullptr, TLS_server_method())) {
  const unsigned char* der = identity.key.data();
  const KeyPtr key(
      d2i_AutoPrivateKey_ex(nullptr, &der, static_cast<long>(identity.key.size()), library.get(), nullptr));
  der = identity.certificate.data();
  X509* read = X509_new_ex(library.get(), nullptr);
  d2i_X509(&read, &der, static_cast<long>(identity.certificate.size()));
  const CertificatePtr certificate(read);
  bool good = SSL_CTX_use_certificate(server_.get(), certificate.get()) == 1 &&
              SSL_CTX_use_PrivateKey(server_.get(), key.get()) == 1;
  for (SSL_CTX* context : {client_.get(), server_.get()}) {
    good = good && SSL_CTX_set_min_proto_version(context, version) == 1 &&
           SSL_CTX_set_max_proto_version(context, version) == 1 &&
           (suite.empty() || SSL_CTX_set_cipher_list(context, suite.c_str()) == 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  }
  if (!good) throw std::runtime_error("TLS settings: " + errors());
}

bool Handshakes::run(std::size_t payload) const {
  const SslPtr client(SSL_new(client_.get()));
  const SslPtr server(SSL_new(server_.get()));
  BIO* const to_server = BIO_new(BIO_s_mem());
  BIO* const to_client = BIO_new(BIO_s_mem());
  BIO_up_ref(to_server);
  BIO_up_ref(to_client);
  SSL_set_bio(client.get(), to_client, to_server);
  SSL_set_bio(server.get(), to_server, to_client);
  SSL_set_connect_state(client.get());
  SSL_set_accept_state(server.get());
  for (int i = 0; i < 10 && SSL_is_init_finished(client.get()) + SSL_is_init_finished(server.get()) != 2;
       ++i) {
    SSL_do_handshake(client.get());
    SSL_do_handshake(server.get());
  }
  if (SSL_is_init_finished(client.get()) + SSL_is_init_finished(server.get()) != 2) return false;
  const Bytes data(payload, 7);
  const auto carry = [&](SSL* from, SSL* to) {
    Bytes got(payload);
    std::size_t at = 0;
    if (SSL_write(from, data.data(), static_cast<int>(payload)) != static_cast<int>(payload)) return false;
    while (at < payload) {
      const int some = SSL_read(to, got.data() + at, static_cast<int>(payload - at));
      if (some <= 0) return false;
      at += static_cast<std::size_t>(some);
    }
    return got == data;
  };
  if (payload != 0 && !(carry(client.get(), server.get()) && carry(server.get(), client.get()))) return false;
  SSL_shutdown(client.get());
  SSL_shutdown(server.get());
  return true;
}

}  // namespace sunxi::test
