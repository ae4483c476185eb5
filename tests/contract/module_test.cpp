// SPDX-License-Identifier: Apache-2.0
// The module as it is installed, without any backend: constants, names, parameters, configuration,
// errors, loading and unloading.
#include <dirent.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/evp.h"

namespace sunxi::test {
namespace {

constexpr const char* module_directory = SUNXI_MODULE_DIRECTORY;

void add_name(const char* name, void* set) {
  static_cast<std::set<std::string>*>(set)->insert(name);
}

std::set<std::string> names_of(const EVP_CIPHER* cipher) {
  std::set<std::string> names;
  EVP_CIPHER_names_do_all(cipher, add_name, &names);
  return names;
}

std::set<std::string> names_of(const EVP_MD* digest) {
  std::set<std::string> names;
  EVP_MD_names_do_all(digest, add_name, &names);
  return names;
}

std::set<std::string> keys_of(const OSSL_PARAM* list) {
  std::set<std::string> keys;
  for (; list != nullptr && list->key != nullptr; ++list) keys.insert(list->key);
  return keys;
}

std::size_t entries(const char* directory) {
  std::size_t count = 0;
  DIR* open = opendir(directory);
  while (readdir(open) != nullptr) ++count;
  closedir(open);
  return count;
}

// A file that lives as long as the object.
class ConfigFile {
 public:
  // providers: the lines of that section.
  explicit ConfigFile(const std::string& section,
                      const std::string& providers = "default = default_sect\nsunxi = sunxi_sect\n") {
    const int number = mkstemp(path_.data());
    close(number);
    std::ofstream(path_) << "openssl_conf = init\n[init]\nproviders = providers\nalg_section = algorithms\n"
                            "[algorithms]\ndefault_properties = ?provider=sunxi\n"
                            "[providers]\n"
                         << providers << "[default_sect]\nactivate = 1\n[sunxi_sect]\nactivate = 1\nmodule = "
                         << module_directory << "/sunxi.so\n"
                         << section;
  }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  ~ConfigFile() { unlink(path_.c_str()); }
  [[nodiscard]] const char* path() const { return path_.c_str(); }

 private:
  std::string path_ = "/tmp/sunxi-test-XXXXXX";
};

LibraryPtr configured(const ConfigFile& file) {
  LibraryPtr library(OSSL_LIB_CTX_new());
  OSSL_LIB_CTX_load_config(library.get(), file.path());
  return library;
}

std::string provider_of(OSSL_LIB_CTX* library, const char* cipher) {
  const CipherPtr found(EVP_CIPHER_fetch(library, cipher, nullptr));
  return found ? OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(found.get())) : "";
}

// What a call writes to standard error.
template <class Call>
std::string said(const Call& call) {
  std::FILE* file = std::tmpfile();
  const int before = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  call();
  dup2(before, STDERR_FILENO);
  close(before);
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

// A variable that is set as long as the object lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

// Every constant that a cipher says it has.
std::vector<std::pair<std::string, std::uint64_t>> constants_of(EVP_CIPHER* cipher) {
  std::vector<std::pair<std::string, std::uint64_t>> all;
  for (const OSSL_PARAM* entry = EVP_CIPHER_gettable_params(cipher);
       entry != nullptr && entry->key != nullptr; ++entry) {
    std::uint64_t value = 0xdeadbeef;
    std::array params{OSSL_PARAM_construct_uint64(entry->key, &value), OSSL_PARAM_construct_end()};
    const int good = EVP_CIPHER_get_params(cipher, params.data());
    all.emplace_back(entry->key, good == 1 && params[0].return_size != OSSL_PARAM_UNMODIFIED ? value : 0xbad);
  }
  return all;
}

// All keys in one call, in types of their own, as EVP asks.
std::vector<std::uint64_t> constants_at_once(EVP_CIPHER* cipher) {
  unsigned int mode = 9;
  std::array<std::size_t, 3> sizes{9, 9, 9};
  std::array<int, 5> flags{9, 9, 9, 9, 9};
  std::array params{OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_MODE, &mode),
                    OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_KEYLEN, sizes.data()),
                    OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_IVLEN, &sizes[1]),
                    OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_BLOCK_SIZE, &sizes[2]),
                    OSSL_PARAM_construct_int(OSSL_CIPHER_PARAM_AEAD, flags.data()),
                    OSSL_PARAM_construct_int(OSSL_CIPHER_PARAM_CUSTOM_IV, &flags[1]),
                    OSSL_PARAM_construct_int(OSSL_CIPHER_PARAM_CTS, &flags[2]),
                    OSSL_PARAM_construct_int(OSSL_CIPHER_PARAM_TLS1_MULTIBLOCK, &flags[3]),
                    OSSL_PARAM_construct_int(OSSL_CIPHER_PARAM_HAS_RAND_KEY, &flags[4]),
                    OSSL_PARAM_construct_end()};
  std::vector<std::uint64_t> all{static_cast<std::uint64_t>(EVP_CIPHER_get_params(cipher, params.data())),
                                 mode};
  all.insert(all.end(), sizes.begin(), sizes.end());
  for (const int flag : flags) all.push_back(static_cast<std::uint64_t>(flag));
  return all;
}

TEST_CASE("names, numbers, flags and lengths are the default provider's") {
  const Environment every("SUNXI_ALGORITHMS", every_algorithm);
  const Library ours("sunxi", module_directory);
  const Library reference = reference_library();
  CHECK(ours.ciphers().size() == 17);
  for (const std::string& name : ours.ciphers()) {
    INFO(name);
    const CipherPtr a = ours.cipher(name);
    const CipherPtr b = reference.cipher(name);
    CHECK(names_of(a.get()) == names_of(b.get()));
    CHECK(std::string(EVP_CIPHER_get0_name(a.get())) == EVP_CIPHER_get0_name(b.get()));
    CHECK(EVP_CIPHER_get0_description(a.get()) != nullptr);
    CHECK(EVP_CIPHER_get_nid(a.get()) == EVP_CIPHER_get_nid(b.get()));
    CHECK(EVP_CIPHER_get_type(a.get()) == EVP_CIPHER_get_type(b.get()));
    CHECK(EVP_CIPHER_get_flags(a.get()) == EVP_CIPHER_get_flags(b.get()));
    CHECK(EVP_CIPHER_get_mode(a.get()) == EVP_CIPHER_get_mode(b.get()));
    CHECK(EVP_CIPHER_get_block_size(a.get()) == EVP_CIPHER_get_block_size(b.get()));
    CHECK(EVP_CIPHER_get_key_length(a.get()) == EVP_CIPHER_get_key_length(b.get()));
    CHECK(EVP_CIPHER_get_iv_length(a.get()) == EVP_CIPHER_get_iv_length(b.get()));
    CHECK(keys_of(EVP_CIPHER_gettable_params(a.get())) == keys_of(EVP_CIPHER_gettable_params(b.get())));
    CHECK(constants_of(a.get()) == constants_of(b.get()));
    CHECK(constants_at_once(a.get()) == constants_at_once(b.get()));
    auto gettable = keys_of(EVP_CIPHER_gettable_ctx_params(b.get()));
    gettable.insert("sunxi-backend");
    CHECK(keys_of(EVP_CIPHER_gettable_ctx_params(a.get())) == gettable);
    auto settable = keys_of(EVP_CIPHER_settable_ctx_params(b.get()));
    settable.insert("sunxi-min-bytes");
    CHECK(keys_of(EVP_CIPHER_settable_ctx_params(a.get())) == settable);
    // As a context has them too.
    const CipherContextPtr in_a(EVP_CIPHER_CTX_new());
    const CipherContextPtr in_b(EVP_CIPHER_CTX_new());
    REQUIRE(EVP_CipherInit_ex2(in_a.get(), a.get(), nullptr, nullptr, 1, nullptr) == 1);
    REQUIRE(EVP_CipherInit_ex2(in_b.get(), b.get(), nullptr, nullptr, 1, nullptr) == 1);
    CHECK(keys_of(EVP_CIPHER_CTX_gettable_params(in_a.get())) == gettable);
    CHECK(keys_of(EVP_CIPHER_CTX_settable_params(in_a.get())) == settable);
    CHECK(EVP_CIPHER_CTX_get_key_length(in_a.get()) == EVP_CIPHER_CTX_get_key_length(in_b.get()));
    CHECK(EVP_CIPHER_CTX_get_iv_length(in_a.get()) == EVP_CIPHER_CTX_get_iv_length(in_b.get()));
    CHECK(EVP_CIPHER_CTX_get_tag_length(in_a.get()) == EVP_CIPHER_CTX_get_tag_length(in_b.get()));
  }
}

TEST_CASE("digests: names, numbers, flags and lengths are the default provider's") {
  const Library ours("sunxi", module_directory);
  const Library reference("default");
  CHECK(ours.digests() == std::vector<std::string>{"MD5", "SHA1", "SHA2-224", "SHA2-256", "SHA2-384",
                                                   "SHA2-512", "SHA2-512/224", "SHA2-512/256"});
  for (const std::string& name : ours.digests()) {
    INFO(name);
    const DigestPtr a = ours.digest(name);
    const DigestPtr b = reference.digest(name);
    CHECK(names_of(a.get()) == names_of(b.get()));
    CHECK(std::string(EVP_MD_get0_name(a.get())) == EVP_MD_get0_name(b.get()));
    CHECK(EVP_MD_get0_description(a.get()) != nullptr);
    CHECK(EVP_MD_get_type(a.get()) == EVP_MD_get_type(b.get()));
    CHECK(EVP_MD_get_type(a.get()) != NID_undef);
    CHECK(EVP_MD_get_pkey_type(a.get()) == EVP_MD_get_pkey_type(b.get()));
    CHECK(EVP_MD_get_flags(a.get()) == EVP_MD_get_flags(b.get()));
    CHECK(EVP_MD_get_size(a.get()) == EVP_MD_get_size(b.get()));
    CHECK(EVP_MD_get_block_size(a.get()) == EVP_MD_get_block_size(b.get()));
    CHECK(keys_of(EVP_MD_gettable_params(a.get())) == keys_of(EVP_MD_gettable_params(b.get())));
    CHECK(keys_of(EVP_MD_gettable_ctx_params(a.get())) == keys_of(EVP_MD_gettable_ctx_params(b.get())));
    CHECK(keys_of(EVP_MD_settable_ctx_params(a.get())) == keys_of(EVP_MD_settable_ctx_params(b.get())));
    const auto constants = [](const EVP_MD* digest) {
      std::array<std::size_t, 2> sizes{9, 9};
      std::array<int, 2> flags{9, 9};
      std::array params{OSSL_PARAM_construct_size_t(OSSL_DIGEST_PARAM_SIZE, sizes.data()),
                        OSSL_PARAM_construct_size_t(OSSL_DIGEST_PARAM_BLOCK_SIZE, &sizes[1]),
                        OSSL_PARAM_construct_int(OSSL_DIGEST_PARAM_XOF, flags.data()),
                        OSSL_PARAM_construct_int(OSSL_DIGEST_PARAM_ALGID_ABSENT, &flags[1]),
                        OSSL_PARAM_construct_end()};
      CHECK(EVP_MD_get_params(digest, params.data()) == 1);
      return std::array{sizes[0], sizes[1], static_cast<std::size_t>(flags[0]),
                        static_cast<std::size_t>(flags[1])};
    };
    CHECK(constants(a.get()) == constants(b.get()));
    // As a context has them too.
    const DigestContextPtr in_a(EVP_MD_CTX_new());
    const DigestContextPtr in_b(EVP_MD_CTX_new());
    REQUIRE(EVP_DigestInit_ex2(in_a.get(), a.get(), nullptr) == 1);
    REQUIRE(EVP_DigestInit_ex2(in_b.get(), b.get(), nullptr) == 1);
    CHECK(keys_of(EVP_MD_CTX_gettable_params(in_a.get())) == keys_of(EVP_MD_CTX_gettable_params(in_b.get())));
    CHECK(keys_of(EVP_MD_CTX_settable_params(in_a.get())) == keys_of(EVP_MD_CTX_settable_params(in_b.get())));
    CHECK(EVP_MD_CTX_get_size(in_a.get()) == EVP_MD_CTX_get_size(in_b.get()));
  }
  // AlgorithmIdentifiers without NULL, which signatures and CMS go by.
  for (const char* name : {"SHA1", "SHA2-256", "SHA2-512/256"})
    CHECK((EVP_MD_get_flags(ours.digest(name).get()) & EVP_MD_FLAG_DIGALGID_ABSENT) != 0);
}

TEST_CASE("no other digest") {
  const Library ours("sunxi", module_directory);
  for (const char* name :
       {"MD5-SHA1", "MD4", "SHA3-224", "SHA3-256", "SHA3-384", "SHA3-512", "SHAKE-128", "SHAKE-256",
        "KECCAK-KMAC-128", "BLAKE2B-512", "BLAKE2S-256", "SM3", "RIPEMD-160", "WHIRLPOOL", "MDC2", "NULL"}) {
    INFO(name);
    const DigestPtr digest(EVP_MD_fetch(ours.get(), name, nullptr));
    CHECK_FALSE(digest);
    static_cast<void>(errors());
  }
  const Environment some("SUNXI_ALGORITHMS", "-SHA-1, -md5");
  CHECK(Library("sunxi", module_directory).digests().size() == 6);
}

TEST_CASE("SHA-1 takes the master secret of SSL 3.0 as the default provider's does, the others do not") {
  const Library ours("sunxi", module_directory);
  const Library reference("default");
  for (const std::string& name : ours.digests()) {
    const auto answers = [&](const Library& library, int bytes) {
      const DigestPtr digest = library.digest(name);
      const DigestContextPtr context(EVP_MD_CTX_new());
      std::array<std::uint8_t, 64> secret{};
      std::iota(secret.begin(), secret.end(), std::uint8_t{3});
      std::vector<int> all{EVP_DigestInit_ex2(context.get(), digest.get(), nullptr),
                           EVP_DigestUpdate(context.get(), secret.data(), 61),
                           EVP_MD_CTX_ctrl(context.get(), EVP_CTRL_SSL3_MASTER_SECRET, bytes, secret.data())};
      std::array<std::uint8_t, EVP_MAX_MD_SIZE> out{};
      all.push_back(EVP_DigestFinal_ex(context.get(), out.data(), nullptr));
      all.insert(all.end(), out.begin(), out.end());
      return all;
    };
    for (const int bytes : {0, 47, 48, 49}) {
      INFO(name << " " << bytes);
      CHECK(answers(ours, bytes) == answers(reference, bytes));
      if (bytes == 48) CHECK((answers(ours, bytes)[2] == 1) == (name == "SHA1"));
      static_cast<void>(errors());
    }
  }
}

TEST_CASE("random keys: where the default provider makes them, with DES's odd parity") {
  const Environment every("SUNXI_ALGORITHMS", every_algorithm);
  const Library ours("sunxi", module_directory);
  const Library reference = reference_library();
  for (const std::string& name : ours.ciphers()) {
    INFO(name);
    const CipherPtr a = ours.cipher(name);
    const CipherPtr b = reference.cipher(name);
    const CipherContextPtr in_a(EVP_CIPHER_CTX_new());
    const CipherContextPtr in_b(EVP_CIPHER_CTX_new());
    EVP_CipherInit_ex2(in_a.get(), a.get(), nullptr, nullptr, 1, nullptr);
    EVP_CipherInit_ex2(in_b.get(), b.get(), nullptr, nullptr, 1, nullptr);
    std::array<std::uint8_t, 64> key{}, other{}, again{};
    if ((EVP_CIPHER_get_flags(b.get()) & EVP_CIPH_RAND_KEY) == 0) continue;
    CHECK(EVP_CIPHER_CTX_rand_key(in_a.get(), key.data()) ==
          EVP_CIPHER_CTX_rand_key(in_b.get(), other.data()));
    CHECK(EVP_CIPHER_CTX_rand_key(in_a.get(), again.data()) == 1);
    CHECK(key != again);
    const auto length = static_cast<std::size_t>(EVP_CIPHER_get_key_length(a.get()));
    CHECK(std::all_of(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(length), [](std::uint8_t byte) {
      unsigned ones = 0;
      for (unsigned bit = 0; bit < 8; ++bit) ones += (byte >> bit) & 1U;
      return ones % 2 == 1;
    }));
    CHECK(std::all_of(key.begin() + static_cast<std::ptrdiff_t>(length), key.end(),
                      [](std::uint8_t byte) { return byte == 0; }));
  }
}

TEST_CASE("no AEAD, OFB, CFB, CTS or stitched cipher; single DES only where named") {
  const Library ours("sunxi", module_directory);
  const auto offered = [](const Library& library, const char* name) {
    const CipherPtr cipher(EVP_CIPHER_fetch(library.get(), name, nullptr));
    static_cast<void>(errors());
    return cipher != nullptr;
  };
  for (const char* name : {"AES-128-GCM",
                           "AES-256-CCM",
                           "AES-128-OCB",
                           "AES-256-SIV",
                           "AES-128-OFB",
                           "AES-128-CFB",
                           "AES-192-CFB1",
                           "AES-256-CFB8",
                           "AES-128-CBC-CTS",
                           "AES-128-WRAP",
                           "AES-192-XTS",
                           "DES-EDE3-OFB",
                           "DES-EDE3-CFB",
                           "DES-EDE3-WRAP",
                           "DES-OFB",
                           "DES-CFB",
                           "AES-128-CBC-HMAC-SHA1",
                           "AES-256-CBC-HMAC-SHA256",
                           "NULL",
                           "DES-ECB",
                           "DES-CBC",
                           "DES"}) {
    INFO(name);
    CHECK_FALSE(offered(ours, name));
  }
  CHECK(ours.ciphers().size() == 15);
  const Environment named("SUNXI_ALGORITHMS", "DES-CBC,");
  const Library des("sunxi", module_directory);
  CHECK(des.ciphers().size() == 1);
  CHECK(offered(des, "DES"));
}

TEST_CASE("published vectors") {
  // NIST SP 800-38A, F.2.1: CBC-AES128.Encrypt.
  const Library ours("sunxi", module_directory);
  const auto bytes = [](const char* hex) {
    long count = 0;
    std::uint8_t* data = OPENSSL_hexstr2buf(hex, &count);
    std::vector<std::uint8_t> all(data, data + count);
    OPENSSL_free(data);
    return all;
  };
  const auto key = bytes("2b7e151628aed2a6abf7158809cf4f3c");
  const auto iv = bytes("000102030405060708090a0b0c0d0e0f");
  const auto plain = bytes("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
  const auto expected = bytes("7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2");
  const CipherPtr cipher = ours.cipher("AES-128-CBC");
  const CipherContextPtr context(EVP_CIPHER_CTX_new());
  std::vector<std::uint8_t> out(64);
  int length = 0;
  REQUIRE(EVP_EncryptInit_ex2(context.get(), cipher.get(), key.data(), iv.data(), nullptr) == 1);
  REQUIRE(EVP_EncryptUpdate(context.get(), out.data(), &length, plain.data(),
                            static_cast<int>(plain.size())) == 1);
  out.resize(static_cast<std::size_t>(length));
  CHECK(out == expected);
}

TEST_CASE("sunxi-backend and sunxi-min-bytes") {
  const Library ours("sunxi", module_directory);
  const CipherPtr cipher = ours.cipher("AES-256-CBC");
  CipherContextPtr context(EVP_CIPHER_CTX_new());
  const std::array<std::uint8_t, 32> zeros{};
  EVP_EncryptInit_ex2(context.get(), cipher.get(), zeros.data(), zeros.data(), nullptr);
  const auto backend = [&](EVP_CIPHER_CTX* of) {
    std::array<char, 32> text{};
    std::array params{OSSL_PARAM_construct_utf8_string("sunxi-backend", text.data(), text.size()),
                      OSSL_PARAM_construct_end()};
    return EVP_CIPHER_CTX_get_params(of, params.data()) == 1 ? std::string(text.data()) : "error";
  };
  CHECK(backend(context.get()) == "none");
  std::array<std::uint8_t, 64> out{};
  int bytes = 0;
  EVP_EncryptUpdate(context.get(), out.data(), &bytes, zeros.data(), 32);
  CHECK(backend(context.get()) == "software");
  EVP_EncryptFinal_ex(context.get(), out.data(), &bytes);
  CHECK(backend(context.get()) == "software");
  const CipherContextPtr copy(EVP_CIPHER_CTX_new());
  EVP_CIPHER_CTX_copy(copy.get(), context.get());
  CHECK(backend(copy.get()) == "software");
  // Too small a buffer is an error, as for any other parameter.
  std::array<char, 2> small{};
  std::array params{OSSL_PARAM_construct_utf8_string("sunxi-backend", small.data(), small.size()),
                    OSSL_PARAM_construct_end()};
  CHECK(EVP_CIPHER_CTX_get_params(context.get(), params.data()) == 0);
  std::array<char, 4> word{"abc"};
  std::array wrong{OSSL_PARAM_construct_utf8_string("sunxi-min-bytes", word.data(), 0),
                   OSSL_PARAM_construct_end()};
  CHECK(EVP_CIPHER_CTX_set_params(context.get(), wrong.data()) == 0);
  CHECK(errors().find("sunxi-min-bytes") != std::string::npos);
}

TEST_CASE("wrong lengths, no key, bad padding: the default provider's answers") {
  const Environment every("SUNXI_ALGORITHMS", every_algorithm);
  const Library ours("sunxi", module_directory);
  const Library reference = reference_library();
  for (const std::string& name : ours.ciphers()) {
    INFO(name);
    const auto answers = [&](const Library& library) {
      std::vector<std::string> all;
      const CipherPtr cipher = library.cipher(name);
      const CipherContextPtr context(EVP_CIPHER_CTX_new());
      const std::array<std::uint8_t, 64> zeros{};
      std::array<std::uint8_t, 96> out{};
      int bytes = 0;
      const auto note = [&](int good) {
        std::string reasons;
        while (const unsigned long code = ERR_get_error()) {
          const char* reason = ERR_reason_error_string(code);
          reasons += std::string(reason == nullptr ? "?" : reason) + ";";
        }
        all.push_back(std::to_string(good) + " " + reasons);
      };
      ERR_clear_error();
      note(EVP_EncryptInit_ex2(context.get(), cipher.get(), nullptr, nullptr, nullptr));
      note(EVP_EncryptUpdate(context.get(), out.data(), &bytes, zeros.data(), 16));
      note(EVP_EncryptFinal_ex(context.get(), out.data(), &bytes));
      note(EVP_CIPHER_CTX_set_key_length(context.get(), 5));
      note(EVP_EncryptInit_ex2(context.get(), nullptr, zeros.data(), zeros.data(), nullptr));
      note(EVP_CIPHER_CTX_set_padding(context.get(), 0));
      note(EVP_EncryptUpdate(context.get(), out.data(), &bytes, zeros.data(), 21));
      note(EVP_EncryptFinal_ex(context.get(), out.data(), &bytes));  // wrong final block length
      note(EVP_DecryptInit_ex2(context.get(), cipher.get(), zeros.data(), zeros.data(), nullptr));
      note(EVP_DecryptUpdate(context.get(), out.data(), &bytes, zeros.data(), 32));
      note(EVP_DecryptFinal_ex(context.get(), out.data(), &bytes));  // bad decrypt
      note(EVP_DecryptInit_ex2(context.get(), nullptr, nullptr, nullptr, nullptr));
      note(EVP_DecryptUpdate(context.get(), out.data(), &bytes, zeros.data(), 17));
      note(EVP_DecryptFinal_ex(context.get(), out.data(), &bytes));  // wrong final block length
      std::array unknown{OSSL_PARAM_construct_utf8_string("no-such-parameter", nullptr, 0),
                         OSSL_PARAM_construct_end()};
      note(EVP_CIPHER_CTX_set_params(context.get(), unknown.data()));
      note(EVP_CIPHER_CTX_get_params(context.get(), unknown.data()));
      return all;
    };
    CHECK(answers(ours) == answers(reference));
  }
}

TEST_CASE("openssl.cnf: preferred, and its keys are read") {
  const ConfigFile file(
      "min_bytes = 99\nmin_bytes_for = sizes\nalgorithms = -AES-192-CBC\n[sizes]\naes128 = 5\n");
  const LibraryPtr library = configured(file);
  CHECK(provider_of(library.get(), "AES-128-CBC") == "sunxi");
  CHECK(provider_of(library.get(), "AES-192-CBC") == "default");
  CHECK(provider_of(library.get(), "AES-128-GCM") == "default");
  const CipherPtr ours(EVP_CIPHER_fetch(library.get(), "AES-128-CBC", "provider=default"));
  REQUIRE(ours);
  CHECK(std::string(OSSL_PROVIDER_get0_name(EVP_CIPHER_get0_provider(ours.get()))) == "default");
}

TEST_CASE("openssl.cnf: a bad value leaves the application with the default provider") {
  for (const char* bad : {"min_bytes = many\n", "backends = usb\n", "min_bytes_for = nowhere\n",
                          "min_bytes_for = sizes\n[sizes]\nAES-128-CBC = x\n", "algorithms = AES-999\n",
                          "mmio = devmem:0x0\n"}) {
    INFO(bad);
    setenv("SUNXI_LOG", "off", 1);
    const ConfigFile file(bad);
    const LibraryPtr library = configured(file);
    unsetenv("SUNXI_LOG");
    CHECK(provider_of(library.get(), "AES-128-CBC") == "default");
    ERR_clear_error();
  }
}

TEST_CASE("openssl.cnf: a file that forgets the default provider is complained of, once") {
  const auto fetch_twice = [](const std::string& section, const std::string& providers) {
    const ConfigFile file(section, providers);
    return said([&file] {
      const LibraryPtr library = configured(file);
      for (const char* name : {"AES-128-CBC", "AES-256-CBC"})
        CHECK(provider_of(library.get(), name) == "sunxi");
      CHECK(EVP_MAC_fetch(library.get(), "HMAC", nullptr) == nullptr);
      ERR_clear_error();
    });
  };
  const auto quiet = [](const std::string& providers) {
    const ConfigFile file("", providers);
    return said([&file] { CHECK(provider_of(configured(file).get(), "AES-128-CBC") == "sunxi"); }).empty();
  };
  const std::string text = fetch_twice("", "sunxi = sunxi_sect\n");
  CHECK(text.find("default") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  // These two have none of what is missing.
  CHECK_FALSE(fetch_twice("[other]\nactivate = 1\n", "sunxi = sunxi_sect\nbase = other\n").empty());
  CHECK(fetch_twice("log = off\n", "sunxi = sunxi_sect\n").empty());
  CHECK(quiet("default = default_sect\nsunxi = sunxi_sect\n"));
  CHECK(quiet("sunxi = sunxi_sect\ndefault = default_sect\n"));
  // Who loads it by a call knows what else there is.
  CHECK(said([] {
          const LibraryPtr library(OSSL_LIB_CTX_new());
          OSSL_PROVIDER_set_default_search_path(library.get(), module_directory);
          OSSL_PROVIDER* provider = OSSL_PROVIDER_load(library.get(), "sunxi");
          CHECK(provider_of(library.get(), "AES-128-CBC") == "sunxi");
          OSSL_PROVIDER_unload(provider);
        }).empty());
}

TEST_CASE("a bad value in an explicit load: the error names key, value and what is allowed") {
  setenv("SUNXI_LOG", "off", 1);
  setenv("SUNXI_MIN_BYTES", "many", 1);
  std::string what;
  try {
    const Library ours("sunxi", module_directory);
  } catch (const std::exception& problem) {
    what = problem.what();
  }
  unsetenv("SUNXI_MIN_BYTES");
  unsetenv("SUNXI_LOG");
  CHECK(what.find("SUNXI_MIN_BYTES = \"many\": allowed: 0 to 2147483647, or never") != std::string::npos);
}

TEST_CASE("CTR-DRBG is there, and with the default provider active its own is taken") {
  const Library ours("sunxi", module_directory);
  std::array<std::uint8_t, 48> bytes{};
  CHECK(RAND_bytes_ex(ours.get(), bytes.data(), bytes.size(), 0) == 1);
  CHECK(std::any_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b != 0; }));
  CHECK(RAND_status() == 1);

  const ConfigFile file("");
  const LibraryPtr library = configured(file);
  EVP_RAND* generator = EVP_RAND_fetch(library.get(), "CTR-DRBG", nullptr);
  REQUIRE(generator != nullptr);
  CHECK(std::string(OSSL_PROVIDER_get0_name(EVP_RAND_get0_provider(generator))) == "default");
  EVP_RAND_free(generator);
}

TEST_CASE("loading and unloading leaves no descriptor and no thread") {
  const auto once = [] {
    const Library ours("sunxi", module_directory);
    const CipherPtr cipher = ours.cipher("AES-128-CBC");
    const CipherContextPtr context(EVP_CIPHER_CTX_new());
    const std::array<std::uint8_t, 2048> zeros{};
    std::array<std::uint8_t, 2064> out{};
    int bytes = 0;
    EVP_EncryptInit_ex2(context.get(), cipher.get(), zeros.data(), zeros.data(), nullptr);
    return EVP_EncryptUpdate(context.get(), out.data(), &bytes, zeros.data(), zeros.size());
  };
  REQUIRE(once() == 1);
  const std::size_t descriptors = entries("/proc/self/fd");
  const std::size_t threads = entries("/proc/self/task");
  // One that was left would show after the first. An emulator translates the module anew for each.
  for (int i = 0; i < 100; ++i) REQUIRE(once() == 1);
  CHECK(entries("/proc/self/fd") == descriptors);
  CHECK(entries("/proc/self/task") == threads);
}

TEST_CASE("two library contexts, each with its own configuration") {
  const ConfigFile one("algorithms = AES-128-CBC,\n");
  const ConfigFile two("algorithms = AES-256-CBC,\n");
  const LibraryPtr a = configured(one);
  const LibraryPtr b = configured(two);
  CHECK(provider_of(a.get(), "AES-128-CBC") == "sunxi");
  CHECK(provider_of(a.get(), "AES-256-CBC") == "default");
  CHECK(provider_of(b.get(), "AES-128-CBC") == "default");
  CHECK(provider_of(b.get(), "AES-256-CBC") == "sunxi");
}

TEST_CASE("parameters of a context: what the default provider answers, in both forms") {
  const Library ours("sunxi", module_directory);
  const Library reference("default");
  const auto values = [](const Library& library) {
    const CipherPtr cipher = library.cipher("AES-128-CBC");
    const CipherContextPtr context(EVP_CIPHER_CTX_new());
    std::array<std::uint8_t, 64> data{};
    std::iota(data.begin(), data.end(), std::uint8_t{1});
    std::array<std::uint8_t, 96> out{};
    int bytes = 0;
    EVP_EncryptInit_ex2(context.get(), cipher.get(), data.data(), data.data() + 16, nullptr);
    EVP_EncryptUpdate(context.get(), out.data(), &bytes, data.data(), 37);
    const void* iv = nullptr;
    const void* updated = nullptr;
    std::size_t key_bytes = 0;
    std::size_t iv_bytes = 0;
    std::array params{
        OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_IV, const_cast<void**>(&iv), 0),
        OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_UPDATED_IV, const_cast<void**>(&updated), 0),
        OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_KEYLEN, &key_bytes),
        OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_IVLEN, &iv_bytes), OSSL_PARAM_construct_end()};
    REQUIRE(EVP_CIPHER_CTX_get_params(context.get(), params.data()) == 1);
    std::string all(static_cast<const char*>(iv), 16);
    all.append(static_cast<const char*>(updated), 16);
    all.append(" " + std::to_string(key_bytes) + " " + std::to_string(iv_bytes));
    return all;
  };
  CHECK(values(ours) == values(reference));
}

// Entries of the dispatch table that we do not have.
#if OPENSSL_VERSION_MAJOR > 3 || OPENSSL_VERSION_MINOR >= 5

using KeyPtr = std::unique_ptr<EVP_SKEY, Deleter<EVP_SKEY_free>>;

// libcrypto gives a cipher no key object of another provider, and we have none: docs/limitations.md.
TEST_CASE("key objects (EVP_SKEY) are refused with an error, and their raw keys are as good") {
  const Environment every("SUNXI_ALGORITHMS", every_algorithm);
  Library ours("sunxi", module_directory);
  REQUIRE(ours.add("default"));
  const Library reference = reference_library();
  std::array<std::uint8_t, 512> data{};
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  for (const std::string& name : ours.ciphers()) {
    const CipherPtr cipher(EVP_CIPHER_fetch(ours.get(), name.c_str(), "provider=sunxi"));
    REQUIRE(cipher);
    const auto key_bytes = static_cast<std::size_t>(EVP_CIPHER_get_key_length(cipher.get()));
    const auto iv_bytes = static_cast<std::size_t>(EVP_CIPHER_get_iv_length(cipher.get()));
    for (const char* kind : {"GENERIC-SECRET", "AES"}) {
      for (const int encrypt : {1, 0}) {
        INFO(name << " " << kind << " " << encrypt);
        const KeyPtr key(EVP_SKEY_import_raw_key(ours.get(), kind, data.data(), key_bytes, nullptr));
        static_cast<void>(errors());
        if (!key) continue;  // no AES key has this length
        const CipherContextPtr context(EVP_CIPHER_CTX_new());
        CHECK(EVP_CipherInit_SKEY(context.get(), cipher.get(), key.get(), data.data(), iv_bytes, encrypt,
                                  nullptr) != 1);
        CHECK_FALSE(errors().empty());
        const KeyPtr converted(EVP_SKEY_to_provider(
            key.get(), ours.get(), const_cast<OSSL_PROVIDER*>(EVP_CIPHER_get0_provider(cipher.get())),
            nullptr));
        CHECK_FALSE(converted);
        CHECK_FALSE(errors().empty());

        // The same context goes on with what the object holds.
        const std::uint8_t* raw = nullptr;
        std::size_t raw_bytes = 0;
        REQUIRE(EVP_SKEY_get0_raw_key(key.get(), &raw, &raw_bytes) == 1);
        REQUIRE(raw_bytes == key_bytes);
        const CipherPtr other = reference.cipher(name);
        const CipherContextPtr expected(EVP_CIPHER_CTX_new());
        std::array<std::array<std::uint8_t, 600>, 2> out{};
        std::array<int, 2> bytes{};
        REQUIRE(EVP_CipherInit_ex2(context.get(), nullptr, raw, data.data(), encrypt, nullptr) == 1);
        REQUIRE(EVP_CipherInit_ex2(expected.get(), other.get(), data.data(), data.data(), encrypt, nullptr) ==
                1);
        CHECK(EVP_CipherUpdate(context.get(), out[0].data(), &bytes[0], data.data(), data.size()) == 1);
        CHECK(EVP_CipherUpdate(expected.get(), out[1].data(), &bytes[1], data.data(), data.size()) == 1);
        CHECK(bytes[0] == bytes[1]);
        CHECK(bytes[0] > 0);
        CHECK(out[0] == out[1]);
      }
    }
  }
}

TEST_CASE("pipelines of buffers: refused, as by the default provider") {
  const Library ours("sunxi", module_directory);
  const Library reference("default");
  const auto answers = [](const Library& library, const std::string& name, int encrypt) {
    const CipherPtr cipher = library.cipher(name);
    const CipherContextPtr context(EVP_CIPHER_CTX_new());
    const std::array<std::uint8_t, 64> key{};
    const std::array<const std::uint8_t*, 2> ivs{key.data(), key.data()};
    const auto key_bytes = static_cast<std::size_t>(EVP_CIPHER_get_key_length(cipher.get()));
    const auto iv_bytes = static_cast<std::size_t>(EVP_CIPHER_get_iv_length(cipher.get()));
    const int can = EVP_CIPHER_can_pipeline(cipher.get(), encrypt);
    const auto init = encrypt == 1 ? EVP_CipherPipelineEncryptInit : EVP_CipherPipelineDecryptInit;
    // The function's type says `const unsigned char **`, and nothing is written there.
    auto** const list = const_cast<const std::uint8_t**>(ivs.data());
    const int good = init(context.get(), cipher.get(), key.data(), key_bytes, ivs.size(), list, iv_bytes);
    const bool silent = errors().empty();
    // The context is as good as a new one.
    return std::array{
        can, good, silent ? 1 : 0,
        EVP_CipherInit_ex2(context.get(), cipher.get(), key.data(), key.data(), encrypt, nullptr)};
  };
  for (const std::string& name : ours.ciphers()) {
    for (const int encrypt : {1, 0}) {
      INFO(name << " " << encrypt);
      CHECK(answers(ours, name, encrypt) == answers(reference, name, encrypt));
    }
  }
}

#endif

}  // namespace
}  // namespace sunxi::test
