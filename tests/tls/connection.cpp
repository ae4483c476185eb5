// SPDX-License-Identifier: Apache-2.0
#include "tests/tls/connection.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <array>
#include <new>
#include <random>
#include <stdexcept>

namespace sunxi::test {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + errors());
}

void require(bool good, const char* what) {
  if (!good) fail(what);
}

using KeyContextPtr = std::unique_ptr<EVP_PKEY_CTX, Deleter<EVP_PKEY_CTX_free>>;
using NumberPtr = std::unique_ptr<BIGNUM, Deleter<BN_free>>;

// A group that libcrypto has at hand: to make a new one takes long.
KeyPtr make_dsa_key() {
  char group[] = "dh_1024_160";
  std::array named{OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
                   OSSL_PARAM_construct_end()};
  EVP_PKEY* key = nullptr;
  KeyContextPtr context(EVP_PKEY_CTX_new_from_name(nullptr, "DHX", nullptr));
  require(EVP_PKEY_fromdata_init(context.get()) > 0 &&
              EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_KEY_PARAMETERS, named.data()) > 0,
          "DH group");
  const KeyPtr source(key);
  std::array<Bytes, 3> numbers;
  const std::array names{OSSL_PKEY_PARAM_FFC_P, OSSL_PKEY_PARAM_FFC_Q, OSSL_PKEY_PARAM_FFC_G};
  std::vector<OSSL_PARAM> params;
  for (std::size_t i = 0; i < names.size(); ++i) {
    BIGNUM* number = nullptr;
    require(EVP_PKEY_get_bn_param(source.get(), names[i], &number) == 1, "DH parameter");
    const NumberPtr owner(number);
    numbers[i].resize(static_cast<std::size_t>(BN_num_bytes(number)));
    BN_bn2nativepad(number, numbers[i].data(), static_cast<int>(numbers[i].size()));
    params.push_back(OSSL_PARAM_construct_BN(names[i], numbers[i].data(), numbers[i].size()));
  }
  params.push_back(OSSL_PARAM_construct_end());
  context.reset(EVP_PKEY_CTX_new_from_name(nullptr, "DSA", nullptr));
  key = nullptr;
  require(EVP_PKEY_fromdata_init(context.get()) > 0 &&
              EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_KEY_PARAMETERS, params.data()) > 0,
          "DSA parameters");
  const KeyPtr parameters(key);
  context.reset(EVP_PKEY_CTX_new_from_pkey(nullptr, parameters.get(), nullptr));
  key = nullptr;
  require(EVP_PKEY_keygen_init(context.get()) > 0 && EVP_PKEY_keygen(context.get(), &key) > 0, "DSA key");
  return KeyPtr(key);
}

Identity make_identity(const KeyPtr& key) {
  require(key != nullptr, "key");
  const CertificatePtr certificate(X509_new());
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -86400);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 86400);
  X509_set_pubkey(certificate.get(), key.get());
  const NamePtr subject(X509_NAME_new());
  const std::array<unsigned char, 5> common{'l', 'o', 'c', 'a', 'l'};
  X509_NAME_add_entry_by_txt(subject.get(), "CN", MBSTRING_ASC, common.data(),
                             static_cast<int>(common.size()), -1, 0);
  X509_set_subject_name(certificate.get(), subject.get());
  X509_set_issuer_name(certificate.get(), subject.get());
  require(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0, "certificate");
  Identity identity;
  unsigned char* der = nullptr;
  int length = i2d_PrivateKey(key.get(), &der);
  require(length > 0, "key");
  identity.key.assign(der, der + length);
  OPENSSL_free(der);
  der = nullptr;
  length = i2d_X509(certificate.get(), &der);
  require(length > 0, "certificate");
  identity.certificate.assign(der, der + length);
  OPENSSL_free(der);
  return identity;
}

// A provider of repeatable random numbers. The public generator answers every request with the same numbers
// until it is seeded again: for each record without encrypt-then-mac the default provider draws a MAC from
// it, which sunxi draws elsewhere, and what is drawn later must not depend on that. The private generator
// goes on from request to request, because some users of it draw until a number suits them.
constexpr const char* seed_parameter = "seed";
constexpr const char* repeats_parameter = "repeats";

struct Generator {
  std::uint64_t seed = 0;
  std::uint64_t drawn = 0;
  unsigned int repeats = 0;
};

void* generator_new(void*, void*, const OSSL_DISPATCH*) {
  return new (std::nothrow) Generator;
}

void generator_free(void* generator) {
  delete static_cast<Generator*>(generator);
}

int generator_set(void* opaque, const OSSL_PARAM* params) {
  Generator& generator = *static_cast<Generator*>(opaque);
  const OSSL_PARAM* seed = OSSL_PARAM_locate_const(params, seed_parameter);
  if (seed == nullptr) return 1;
  generator.drawn = 0;
  return OSSL_PARAM_get_uint64(seed, &generator.seed) == 1 &&
                 OSSL_PARAM_get_uint(OSSL_PARAM_locate_const(params, repeats_parameter),
                                     &generator.repeats) == 1
             ? 1
             : 0;
}

int generator_get(void*, OSSL_PARAM* params) {
  OSSL_PARAM* found = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_STATE);
  if (found != nullptr && OSSL_PARAM_set_int(found, EVP_RAND_STATE_READY) == 0) return 0;
  found = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_STRENGTH);
  if (found != nullptr && OSSL_PARAM_set_uint(found, 256) == 0) return 0;
  found = OSSL_PARAM_locate(params, OSSL_RAND_PARAM_MAX_REQUEST);
  return found == nullptr ? 1 : OSSL_PARAM_set_size_t(found, 1U << 20U);
}

int generator_generate(void* opaque, unsigned char* out, std::size_t length, unsigned, int,
                       const unsigned char*, std::size_t) {
  Generator& generator = *static_cast<Generator*>(opaque);
  std::mt19937_64 random(generator.seed << 32U | generator.drawn);
  std::generate(out, out + length, [&] { return static_cast<unsigned char>(random()); });
  if (generator.repeats == 0) ++generator.drawn;
  return 1;
}

template <class Function>
OSSL_DISPATCH entry(int id, Function* function) {
  return {id, reinterpret_cast<void (*)()>(function)};
}

const OSSL_ALGORITHM* repeatable_query(void*, int operation, int* no_store) {
  static const std::array generator{
      entry(OSSL_FUNC_RAND_NEWCTX, generator_new),
      entry(OSSL_FUNC_RAND_FREECTX, generator_free),
      entry(
          OSSL_FUNC_RAND_INSTANTIATE,
          +[](void*, unsigned, int, const unsigned char*, std::size_t, const OSSL_PARAM*) { return 1; }),
      entry(
          OSSL_FUNC_RAND_UNINSTANTIATE, +[](void*) { return 1; }),
      entry(OSSL_FUNC_RAND_GENERATE, generator_generate),
      entry(
          OSSL_FUNC_RAND_ENABLE_LOCKING, +[](void*) { return 1; }),
      entry(
          OSSL_FUNC_RAND_LOCK, +[](void*) { return 1; }),
      entry(
          OSSL_FUNC_RAND_UNLOCK, +[](void*) {}),
      entry(OSSL_FUNC_RAND_GET_CTX_PARAMS, generator_get),
      entry(OSSL_FUNC_RAND_SET_CTX_PARAMS, generator_set),
      OSSL_DISPATCH{0, nullptr},
  };
  static const std::array algorithms{
      OSSL_ALGORITHM{"REPEATABLE", "provider=repeatable", generator.data(), nullptr},
      OSSL_ALGORITHM{nullptr, nullptr, nullptr, nullptr},
  };
  *no_store = 0;
  return operation == OSSL_OP_RAND ? algorithms.data() : nullptr;
}

int repeatable_init(const OSSL_CORE_HANDLE*, const OSSL_DISPATCH*, const OSSL_DISPATCH** out,
                    void** context) {
  static const std::array dispatch{entry(OSSL_FUNC_PROVIDER_QUERY_OPERATION, repeatable_query),
                                   OSSL_DISPATCH{0, nullptr}};
  static int nothing = 0;
  *out = dispatch.data();
  *context = &nothing;
  return 1;
}

const SSL_METHOD* method(int version) {
  return is_datagram(version) ? DTLS_method() : TLS_method();
}

}  // namespace

Side::Side(const std::string& module_directory) : library_(OSSL_LIB_CTX_new()) {
  OSSL_PROVIDER_add_builtin(library_.get(), "repeatable", repeatable_init);
  repeatable_.reset(OSSL_PROVIDER_load(library_.get(), "repeatable"));
  require(repeatable_ != nullptr &&
              RAND_set_DRBG_type(library_.get(), "REPEATABLE", nullptr, nullptr, nullptr) == 1,
          "random numbers");
  if (!module_directory.empty()) {
    OSSL_PROVIDER_set_default_search_path(library_.get(), module_directory.c_str());
    sunxi_.reset(OSSL_PROVIDER_load(library_.get(), "sunxi"));
    require(sunxi_ != nullptr, "no provider sunxi");
  }
  default_.reset(OSSL_PROVIDER_load(library_.get(), "default"));
  require(default_ != nullptr, "no provider default");
  seed(0);
}

void Side::seed(std::uint64_t number) const {
  const std::array generators{RAND_get0_public(library_.get()), RAND_get0_private(library_.get())};
  for (std::size_t i = 0; i < generators.size(); ++i) {
    std::uint64_t start = generators.size() * number + i;
    unsigned int repeats = i == 0 ? 1 : 0;
    std::array params{OSSL_PARAM_construct_uint64(seed_parameter, &start),
                      OSSL_PARAM_construct_uint(repeats_parameter, &repeats), OSSL_PARAM_construct_end()};
    require(generators[i] != nullptr && EVP_RAND_CTX_set_params(generators[i], params.data()) == 1, "seed");
  }
}

std::uint64_t Side::requests(const std::string& backend) const {
  if (!ours()) return 0;
  std::uint64_t value = 0;
  const std::string parameter = "sunxi." + backend + ".requests";
  std::array params{OSSL_PARAM_construct_uint64(parameter.c_str(), &value), OSSL_PARAM_construct_end()};
  require(OSSL_PROVIDER_get_params(sunxi_.get(), params.data()) == 1, "no such counter");
  return value;
}

std::vector<Identity> make_identities() {
  std::vector<Identity> all;
  all.push_back(make_identity(KeyPtr(EVP_RSA_gen(1024))));  // short for speed; DH groups go by it
  all.push_back(make_identity(KeyPtr(EVP_EC_gen("P-256"))));
  all.push_back(make_identity(make_dsa_key()));
  return all;
}

std::string name(const Variant& variant) {
  const char* version = "TLS 1.2";
  if (variant.version == TLS1_VERSION) version = "TLS 1.0";
  if (variant.version == TLS1_1_VERSION) version = "TLS 1.1";
  if (variant.version == DTLS1_VERSION) version = "DTLS 1.0";
  if (variant.version == DTLS1_2_VERSION) version = "DTLS 1.2";
  return std::string(version) + " " + variant.suite +
         (variant.encrypt_then_mac ? " encrypt-then-mac" : " mac-then-encrypt");
}

std::vector<Variant> cbc_variants() {
  const SslContextPtr context(SSL_CTX_new(TLS_method()));
  require(SSL_CTX_set_cipher_list(context.get(), "ALL:COMPLEMENTOFALL:@SECLEVEL=0") == 1, "suites");
  std::vector<Variant> all;
  const STACK_OF(SSL_CIPHER)* suites = SSL_CTX_get_ciphers(context.get());
  for (int i = 0; i < sk_SSL_CIPHER_num(suites); ++i) {
    const SSL_CIPHER* suite = sk_SSL_CIPHER_value(suites, i);
    const int cipher = SSL_CIPHER_get_cipher_nid(suite);
    const int exchange = SSL_CIPHER_get_kx_nid(suite);
    if (cipher != NID_aes_128_cbc && cipher != NID_aes_256_cbc && cipher != NID_des_ede3_cbc) continue;
    if (exchange != NID_kx_rsa && exchange != NID_kx_dhe && exchange != NID_kx_ecdhe) continue;
    const bool newest_only = SSL_CIPHER_get_digest_nid(suite) != NID_sha1;
    for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION, DTLS1_VERSION, DTLS1_2_VERSION}) {
      if (newest_only && version != TLS1_2_VERSION && version != DTLS1_2_VERSION) continue;
      for (const bool encrypt_then_mac : {true, false})
        all.push_back({SSL_CIPHER_get_name(suite), version, encrypt_then_mac});
    }
  }
  return all;
}

std::vector<Variant> record_variants() {
  std::vector<Variant> some;
  for (const Variant& variant : cbc_variants()) {
    for (const char* suite :
         {"ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA384"}) {
      if (variant.suite == suite) some.push_back(variant);
    }
  }
  return some;
}

std::size_t record_size(const Variant& variant, std::size_t payload) {
  const auto ends_with = [&](const std::string& end) {
    return variant.suite.size() > end.size() &&
           variant.suite.compare(variant.suite.size() - end.size(), end.size(), end) == 0;
  };
  const std::size_t mac = ends_with("SHA384") ? 48 : ends_with("SHA256") ? 32 : 20;
  const std::size_t header = is_datagram(variant.version) ? 13 : 5;
  const std::size_t iv = variant.version == TLS1_VERSION ? 0 : 16;
  if (variant.encrypt_then_mac) return header + iv + (payload / 16 + 1) * 16 + mac;
  return header + iv + ((payload + mac) / 16 + 1) * 16;
}

SslContextPtr make_context(OSSL_LIB_CTX* library, const char* properties, bool server, const Variant& variant,
                           const std::vector<Identity>& identities) {
  SslContextPtr context(SSL_CTX_new_ex(library, properties, method(variant.version)));
  require(context != nullptr, "SSL_CTX");
  require(SSL_CTX_set_cipher_list(context.get(), (variant.suite + ":@SECLEVEL=0").c_str()) == 1 &&
              SSL_CTX_set_min_proto_version(context.get(), variant.version) == 1 &&
              SSL_CTX_set_max_proto_version(context.get(), variant.version) == 1 &&
              SSL_CTX_set1_groups_list(context.get(), "P-256") == 1,
          "settings");
  SSL_CTX_set_options(context.get(),
                      SSL_OP_NO_TICKET | SSL_OP_ALLOW_CLIENT_RENEGOTIATION | SSL_OP_NO_QUERY_MTU);
  if (!variant.encrypt_then_mac) SSL_CTX_set_options(context.get(), SSL_OP_NO_ENCRYPT_THEN_MAC);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  if (!server) return context;
  SSL_CTX_set_dh_auto(context.get(), 1);
  for (const Identity& identity : identities) {
    const unsigned char* der = identity.key.data();
    const KeyPtr key(
        d2i_AutoPrivateKey_ex(nullptr, &der, static_cast<long>(identity.key.size()), library, properties));
    der = identity.certificate.data();
    X509* certificate = X509_new_ex(library, properties);
    d2i_X509(&certificate, &der, static_cast<long>(identity.certificate.size()));
    const CertificatePtr owner(certificate);
    require(key != nullptr && SSL_CTX_use_certificate(context.get(), certificate) == 1 &&
                SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1,
            "identity");
  }
  return context;
}

Peer::Peer(SSL_CTX* context, bool server, bool datagrams)
    : datagrams_(datagrams), in_(BIO_new(BIO_s_mem())), out_(BIO_new(BIO_s_mem())), ssl_(SSL_new(context)) {
  SSL_set_bio(ssl_.get(), in_, out_);
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_info_callback(ssl_.get(), on_event);
  if (datagrams) {
    SSL_set_mtu(ssl_.get(), 1400);
    // Nothing is lost here unless the test loses it, so nothing is to be sent twice on a slow machine.
    DTLS_set_timer_cb(ssl_.get(), [](SSL*, unsigned) { return 3'600'000'000U; });
  }
  if (server) {
    SSL_set_accept_state(ssl_.get());
  } else {
    SSL_set_connect_state(ssl_.get());
  }
}

void Peer::on_event(const SSL* ssl, int where, int value) {
  if ((where & SSL_CB_ALERT) == 0) return;
  Peer& peer = *static_cast<Peer*>(SSL_get_app_data(ssl));
  peer.alerts += std::string((where & SSL_CB_READ) != 0 ? "got " : "sent ") +
                 SSL_alert_type_string_long(value) + " " + SSL_alert_desc_string_long(value) + "; ";
}

std::vector<Record> Peer::take() {
  char* data = nullptr;
  const long length = BIO_get_mem_data(out_, &data);
  const Bytes all(data, data + length);
  static_cast<void>(BIO_reset(out_));
  std::vector<Record> records;
  const std::size_t header = datagrams_ ? 13 : 5;
  for (std::size_t at = 0; at < all.size();) {
    if (all.size() - at < header) throw std::runtime_error("half a header");
    const std::size_t end = at + header + (std::size_t{all[at + header - 2]} << 8U | all[at + header - 1]);
    if (end > all.size()) throw std::runtime_error("half a record");
    records.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(at),
                         all.begin() + static_cast<std::ptrdiff_t>(end));
    at = end;
  }
  return records;
}

void Peer::give(const Record& record) {
  if (!record.empty()) BIO_write(in_, record.data(), static_cast<int>(record.size()));
  advance();
}

void Peer::advance() {
  ERR_clear_error();
  std::array<std::uint8_t, 16384> buffer;
  int result = 1;
  if (SSL_in_init(ssl_.get()) != 0) result = SSL_do_handshake(ssl_.get());
  while (result > 0) {
    result = SSL_read(ssl_.get(), buffer.data(), static_cast<int>(buffer.size()));
    if (result > 0) received.insert(received.end(), buffer.begin(), buffer.begin() + result);
  }
  const int kind = SSL_get_error(ssl_.get(), result);
  last_failure.clear();
  if (kind == SSL_ERROR_WANT_READ && ERR_peek_error() == 0) return;
  last_failure = "error " + std::to_string(kind) + ":";
  while (const unsigned long code = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(code);
    last_failure += std::string(" ") + (reason == nullptr ? std::to_string(code) : reason) + ";";
  }
}

void Peer::send(const Bytes& data) {
  ERR_clear_error();
  if (SSL_write(ssl_.get(), data.data(), static_cast<int>(data.size())) != static_cast<int>(data.size()))
    fail("SSL_write");
}

Connection::Connection(SSL_CTX* client_context, SSL_CTX* server_context, const Variant& variant)
    : client(client_context, false, is_datagram(variant.version)),
      server(server_context, true, is_datagram(variant.version)),
      variant_(variant) {
  client.advance();
  exchange();
  for (const Peer* peer : {&client, &server}) {
    if (SSL_is_init_finished(peer->ssl()) == 0) throw std::runtime_error("no handshake: " + peer->alerts);
    if (SSL_version(peer->ssl()) != variant.version) throw std::runtime_error("another version");
    if (SSL_get_cipher_name(peer->ssl()) != variant.suite) throw std::runtime_error("another suite");
  }
}

void Connection::exchange() {
  const auto carry = [&](Peer& from, Peer& to) {
    const std::vector<Record> taken = from.take();
    for (const Record& record : taken) {
      records.push_back(record);
      to.give(record);
      if (!to.last_failure.empty())
        throw std::runtime_error(name(variant_) + ": " + to.last_failure + " " + to.alerts);
    }
    return !taken.empty();
  };
  for (int idle = 0; idle < 2;) {
    const bool one_way = carry(client, server);
    const bool other_way = carry(server, client);
    idle = one_way || other_way ? 0 : idle + 1;
  }
}

void Connection::renegotiate(Peer& initiator) {
  if (SSL_renegotiate(initiator.ssl()) != 1) fail("SSL_renegotiate");
  initiator.advance();
  exchange();
  if (SSL_renegotiate_pending(initiator.ssl()) != 0 || SSL_num_renegotiations(initiator.ssl()) == 0)
    throw std::runtime_error(name(variant_) + ": no renegotiation");
  if (SSL_is_init_finished(client.ssl()) == 0 || SSL_is_init_finished(server.ssl()) == 0)
    throw std::runtime_error(name(variant_) + ": renegotiation not finished");
}

}  // namespace sunxi::test
