// SPDX-License-Identifier: Apache-2.0
// Prints the algorithm table and what each backend's capability data says about it, for scripts:
//
//   row: AES-128-CBC cbc(aes) 16 always AES-128-CBC:AES128:2.16.840.1.101.3.4.1.2
//   capability: AES-128-CBC mmio/A10 no REASON
//   row: SHA1 sha1 64 always SHA1:SHA-1:SSL3-SHA1:1.3.14.3.2.26
//   capability: SHA1 mmio/A10 yes
//   way: SHA1 mmio/A10 absorb
//
// A row has the kernel's name for the algorithm ("-": the kernel has none), the bytes of a block, "always" or
// "named" (registered only where the configuration names it), and all names. A way is how a backend computes
// a digest: by absorbing blocks into a state, or by whole messages. Touches no device.
#include <array>
#include <cstdio>
#include <string>

#include "backends/backend.h"
#include "backends/mmio/soc.h"
#include "backends/process.h"
#include "provider/algorithms.h"

namespace {

using namespace sunxi;

const char* mode_name(Mode mode) {
  switch (mode) {
    case Mode::ecb:
      return "ecb";
    case Mode::cbc:
      return "cbc";
    case Mode::ctr:
      return "ctr";
    case Mode::xts:
      return "xts";
  }
  return "?";
}

std::string kernel_name(const CipherSpec& spec) {
  const char* cipher = spec.cipher == Cipher::aes ? "aes" : spec.cipher == Cipher::des ? "des" : "des3_ede";
  return std::string(mode_name(spec.mode)) + "(" + cipher + ")";
}

const char* kernel_name(Digest digest) {
  switch (digest) {
    case Digest::md5:
      return "md5";
    case Digest::sha1:
      return "sha1";
    case Digest::sha224:
      return "sha224";
    case Digest::sha256:
      return "sha256";
    case Digest::sha384:
      return "sha384";
    case Digest::sha512:
      return "sha512";
    case Digest::sha512_224:
    case Digest::sha512_256:
      break;
  }
  return "-";
}

// Why an engine's capability table lacks the algorithm.
std::string engine_reason(const Soc& soc, const CipherSpec& spec) {
  if (soc.kind != EngineKind::sun4i_ss) return "this engine is not driven";
  if (spec.mode == Mode::xts) return "the engine has no XTS";
  return "not driven in this mode";
}

std::string engine_reason(const Soc& soc) {
  return soc.kind == EngineKind::sun4i_ss ? "the engine has no such digest, or it is not driven"
                                          : "this engine is not driven";
}

// One column of the matrix: a backend, and for mmio the engine.
struct Column {
  const char* label;
  const char* backend;
  const char* soc;
};

constexpr std::array columns{
    Column{"afalg", "afalg", nullptr},       Column{"cryptodev", "cryptodev", nullptr},
    Column{"mmio/A10", "mmio", "sun4i-a10"}, Column{"mmio/A10s", "mmio", "sun5i-a13"},
    Column{"mmio/A13", "mmio", "sun5i-a13"}, Column{"mmio/A20", "mmio", "sun7i-a20"},
    Column{"mmio/A31", "mmio", "sun6i-a31"}, Column{"mmio/A33", "mmio", "sun8i-a33"},
    Column{"mmio/V3s", "mmio", "sun8i-v3s"},
};

}  // namespace

int main() {
  Process process;
  for (const CipherRow& row : cipher_rows) {
    const std::string name(canonical_name(row));
    std::printf("row: %s %s %u %s %s\n", name.c_str(), kernel_name(row.spec).c_str(),
                static_cast<unsigned>(row.spec.block_bytes), row.only_if_named ? "named" : "always",
                row.names);
  }
  for (std::size_t row = 0; row < digest_count; ++row) {
    const DigestSpec& spec = digest_rows[row].spec;
    const std::string name(canonical_name(algorithm_of_digest(row)));
    std::printf("row: %s %s %u always %s\n", name.c_str(), kernel_name(spec.digest),
                static_cast<unsigned>(spec.block_bytes), digest_rows[row].names);
  }
  for (const Column& column : columns) {
    BackendOptions options;
    const Soc* soc = column.soc == nullptr ? nullptr : find_soc_by_name(column.soc);
    if (column.soc != nullptr) {
      if (soc == nullptr) return 1;
      options.mmio_soc = column.soc;
    }
    const auto backend = make_backend(column.backend, process, options);
    if (backend == nullptr) return 1;
    for (const CipherRow& row : cipher_rows) {
      const bool yes = backend->supports(row.spec);
      std::string why;
      if (!yes) why = " " + (soc != nullptr ? engine_reason(*soc, row.spec) : "not in the backend's table");
      std::printf("capability: %s %s %s%s\n", std::string(canonical_name(row)).c_str(), column.label,
                  yes ? "yes" : "no", why.c_str());
    }
    for (std::size_t row = 0; row < digest_count; ++row) {
      const std::string name(canonical_name(algorithm_of_digest(row)));
      const Backend::DigestWay way = backend->digest_way(digest_rows[row].spec);
      if (way != Backend::DigestWay::none) {
        std::printf("capability: %s %s yes\nway: %s %s %s\n", name.c_str(), column.label, name.c_str(),
                    column.label, way == Backend::DigestWay::absorb ? "absorb" : "messages");
      } else {
        std::printf("capability: %s %s no %s\n", name.c_str(), column.label,
                    soc != nullptr ? engine_reason(*soc).c_str() : "not in the backend's table");
      }
    }
  }
  return 0;
}
