// SPDX-License-Identifier: Apache-2.0
// digest MODULE-DIRECTORY NAME FILE: the digest of a file by the module, in hex. Can be built with
// sanitizers, unlike the program openssl.
#include <openssl/evp.h>

#include <array>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/support/evp.h"

int main(int argc, char** argv) {
  using namespace sunxi::test;
  if (argc != 4) return 2;
  try {
    const Library library("sunxi", argv[1]);
    std::ifstream file(argv[3], std::ios::binary);
    const std::vector<char> data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    std::size_t bytes = 0;
    if (EVP_Q_digest(library.get(), argv[2], nullptr, data.data(), data.size(), digest.data(), &bytes) != 1) {
      std::fputs(errors().c_str(), stderr);
      return 1;
    }
    for (std::size_t i = 0; i < bytes; ++i) std::printf("%02x", digest[i]);
    std::puts("");
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
