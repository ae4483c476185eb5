// SPDX-License-Identifier: Apache-2.0
// What sunxi costs a TLS 1.2 connection in CBC that no backend serves (min_bytes = never): sunxi on both
// sides against the default provider on both sides, in one process over memory. Prints the ratio of the
// median rates over alternating pairs; "default" against itself shows the noise. The default provider's
// stitched ciphers are hidden from libssl on every side, so that both take the plain ones with the
// instructions that the processor has.
#include <openssl/core_dispatch.h>
#include <openssl/err.h>
#include <openssl/provider.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tls/connection.h"

namespace {

using namespace sunxi::test;

// The default provider of the process, and its ciphers without the stitched ones.
OSSL_PROVIDER* inner;
std::vector<OSSL_ALGORITHM> plain_ciphers;

const OSSL_ALGORITHM* query_plain(void*, int operation, int* no_store) {
  if (operation != OSSL_OP_CIPHER) return OSSL_PROVIDER_query_operation(inner, operation, no_store);
  *no_store = 0;
  return plain_ciphers.data();
}

int plain_capabilities(void*, const char* capability, OSSL_CALLBACK* callback, void* argument) {
  return OSSL_PROVIDER_get_capabilities(inner, capability, callback, argument);
}

int init_plain(const OSSL_CORE_HANDLE*, const OSSL_DISPATCH*, const OSSL_DISPATCH** out, void** context) {
  static const std::array dispatch{
      OSSL_DISPATCH{OSSL_FUNC_PROVIDER_QUERY_OPERATION, reinterpret_cast<void (*)()>(query_plain)},
      OSSL_DISPATCH{OSSL_FUNC_PROVIDER_GET_CAPABILITIES, reinterpret_cast<void (*)()>(plain_capabilities)},
      OSSL_DISPATCH{0, nullptr}};
  if (plain_ciphers.empty()) {
    inner = OSSL_PROVIDER_load(nullptr, "default");
    int no_store = 0;
    const OSSL_ALGORITHM* ciphers = OSSL_PROVIDER_query_operation(inner, OSSL_OP_CIPHER, &no_store);
    for (; ciphers->algorithm_names != nullptr; ++ciphers) {
      if (std::string_view(ciphers->algorithm_names).find("-CBC-HMAC-") == std::string_view::npos)
        plain_ciphers.push_back(*ciphers);
    }
    plain_ciphers.push_back(*ciphers);
  }
  *out = dispatch.data();
  *context = OSSL_PROVIDER_get0_provider_ctx(inner);
  return 1;
}

// What make_context() wants of a Side, without its repeatable random numbers, which cost time.
class PlainLibrary {
 public:
  explicit PlainLibrary(const std::string& module_directory) : library_(OSSL_LIB_CTX_new()) {
    if (!module_directory.empty()) {
      OSSL_PROVIDER_set_default_search_path(library_.get(), module_directory.c_str());
      sunxi_.reset(OSSL_PROVIDER_load(library_.get(), "sunxi"));
      if (!sunxi_) throw std::runtime_error("no provider sunxi: " + errors());
    }
    OSSL_PROVIDER_add_builtin(library_.get(), "plain", init_plain);
    plain_.reset(OSSL_PROVIDER_load(library_.get(), "plain"));
    if (!plain_) throw std::runtime_error("no plain provider: " + errors());
  }
  [[nodiscard]] OSSL_LIB_CTX* get() const { return library_.get(); }
  [[nodiscard]] const char* properties() const { return sunxi_ ? "?provider=sunxi" : ""; }

 private:
  LibraryPtr library_;
  ProviderPtr sunxi_, plain_;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A client that sends and a server that receives; what one writes lies in memory until the other reads it.
class Pair {
 public:
  Pair(const PlainLibrary& library, const Variant& variant, const std::vector<Identity>& identities) {
    const SslContextPtr client =
        make_context(library.get(), library.properties(), false, variant, identities);
    const SslContextPtr server = make_context(library.get(), library.properties(), true, variant, identities);
    client_.reset(SSL_new(client.get()));
    server_.reset(SSL_new(server.get()));
    BIO* to_server = BIO_new(BIO_s_mem());
    BIO* to_client = BIO_new(BIO_s_mem());
    BIO_up_ref(to_server);
    BIO_up_ref(to_client);
    SSL_set_bio(client_.get(), to_client, to_server);
    SSL_set_bio(server_.get(), to_server, to_client);
    SSL_set_connect_state(client_.get());
    SSL_set_accept_state(server_.get());
    for (int i = 0; i < 20; ++i) {
      SSL_do_handshake(client_.get());
      SSL_do_handshake(server_.get());
    }
    if (SSL_is_init_finished(server_.get()) == 0 || SSL_get_cipher_name(server_.get()) != variant.suite)
      throw std::runtime_error("no handshake: " + errors());
  }

  // Seconds of the processor, which other processes disturb less than those of the clock: nothing waits here.
  double transfer(std::vector<unsigned char>& data, int count) {
    const int size = static_cast<int>(data.size());
    const double start = cpu_seconds();
    for (int i = 0; i < count; ++i) {
      if (SSL_write(client_.get(), data.data(), size) != size ||
          SSL_read(server_.get(), data.data(), size) != size)
        throw std::runtime_error("transfer: " + errors());
    }
    return cpu_seconds() - start;
  }

 private:
  SslPtr client_, server_;
};

constexpr int slices = 20;

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

int run(const std::string& module_directory, int pairs) {
  const PlainLibrary ours(module_directory);
  const PlainLibrary reference({});
  const std::vector<Identity> identities = make_identities();
  std::printf("%-30s %-17s %8s %12s %8s %8s\n", "suite", "", "bytes", "default MB/s", "sunxi", "default");
  for (const Variant& variant :
       {Variant{"AES128-SHA", TLS1_2_VERSION, false}, Variant{"AES128-SHA256", TLS1_2_VERSION, true},
        Variant{"ECDHE-RSA-AES256-SHA384", TLS1_2_VERSION, false}}) {
    for (const std::size_t size : {1024, 16384}) {
      std::vector<unsigned char> data(size, 7);
      const int count = static_cast<int>(16'000'000 / (size + 2000)) + 1;
      // The reference, sunxi, and the reference again.
      std::array<std::vector<double>, 3> seconds;
      std::vector<std::unique_ptr<char[]>> gaps;
      std::minstd_rand random(1);
      for (int i = 0; i < pairs; ++i) {
        // Connections at ever new addresses, because a cache line more or less is as much as what is
        // measured.
        std::array<std::unique_ptr<Pair>, 3> connections;
        for (std::size_t k = 0; k < connections.size(); ++k) {
          gaps.push_back(std::make_unique<char[]>(16 * (random() % 40) + 1));
          connections[k] = std::make_unique<Pair>(k == 1 ? ours : reference, variant, identities);
        }
        std::array<double, 3> sums{};
        // In slices, so that whatever else the machine does meets all of them.
        for (int slice = 0; slice <= slices; ++slice) {
          for (std::size_t k = 0; k < connections.size(); ++k) {
            const std::size_t which = slice % 2 == 0 ? k : connections.size() - 1 - k;
            const double took = connections[which]->transfer(data, count / slices + 1);
            if (slice > 0) sums[which] += took;  // the first only warms
          }
        }
        for (std::size_t k = 0; k < connections.size(); ++k) seconds[k].push_back(sums[k]);
      }
      const double base = median(seconds[0]);
      std::printf("%-30s %-17s %8zu %12.1f %8.3f %8.3f\n", variant.suite.c_str(),
                  variant.encrypt_then_mac ? "encrypt-then-mac" : "mac-then-encrypt", size,
                  static_cast<double>(size) * (count / slices + 1) * slices / base / 1e6,
                  base / median(seconds[1]), base / median(seconds[2]));
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY-OF-sunxi.so [pairs]\n", argv[0]);
    return 2;
  }
  setenv("SUNXI_MIN_BYTES", "never", 1);
  try {
    return run(argv[1], argc > 2 ? std::atoi(argv[2]) : 15);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
