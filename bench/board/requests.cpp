// SPDX-License-Identifier: Apache-2.0
// bench_requests FOLDER-OF-sunxi.so ALGORITHM BYTES COUNT
// COUNT requests of an application: updates of one cipher context, or whole digests. Ends with an error if
// one of them was not served by the mmio backend. For bench/board/instructions, which counts what they
// execute.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "tests/support/evp.h"

namespace {

using namespace sunxi::test;

bool encrypt(const Library& library, const std::string& name, std::vector<unsigned char>& data, int count) {
  const CipherPtr cipher = library.cipher(name);
  const CipherContextPtr context(EVP_CIPHER_CTX_new());
  const std::vector<unsigned char> key(64, 1);
  if (EVP_EncryptInit_ex2(context.get(), cipher.get(), key.data(), key.data(), nullptr) != 1 ||
      EVP_CIPHER_CTX_set_padding(context.get(), 0) != 1) {
    return false;
  }
  for (int i = 0; i < count; ++i) {
    int length = 0;
    if (EVP_EncryptUpdate(context.get(), data.data(), &length, data.data(), static_cast<int>(data.size())) !=
        1) {
      return false;
    }
  }
  return true;
}

bool hash(const Library& library, const std::string& name, const std::vector<unsigned char>& data,
          int count) {
  const DigestPtr digest = library.digest(name);
  const DigestContextPtr context(EVP_MD_CTX_new());
  std::vector<unsigned char> out(EVP_MAX_MD_SIZE);
  for (int i = 0; i < count; ++i) {
    if (EVP_DigestInit_ex2(context.get(), digest.get(), nullptr) != 1 ||
        EVP_DigestUpdate(context.get(), data.data(), data.size()) != 1 ||
        EVP_DigestFinal_ex(context.get(), out.data(), nullptr) != 1) {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s DIRECTORY-OF-sunxi.so ALGORITHM BYTES COUNT\n", argv[0]);
    return 2;
  }
  try {
    const Library library("sunxi", argv[1]);
    const std::string name = argv[2];
    std::vector<unsigned char> data(static_cast<std::size_t>(std::atoi(argv[3])));
    const int count = std::atoi(argv[4]);
    const bool is_cipher = name.find('-') != std::string::npos;
    if (!(is_cipher ? encrypt(library, name, data, count) : hash(library, name, data, count))) {
      std::fputs(errors().c_str(), stderr);
      return 1;
    }
    const std::uint64_t served = library.count("sunxi.mmio.requests");
    if (served < static_cast<std::uint64_t>(count)) {
      std::fprintf(stderr, "mmio served %llu of %d\n", static_cast<unsigned long long>(served), count);
      return 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
