// SPDX-License-Identifier: Apache-2.0
// Catch2's main program. SUNXI_TEST_LEAVE_OUT names tags, separated by blanks, of cases that cannot run here
// (tests/cross sets it, where programs are emulated).
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#define CATCH_CONFIG_RUNNER
#include "tests/support/catch.h"

int main(int argc, char** argv) {
  Catch::Session session;
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
  const char* left_out = std::getenv("SUNXI_TEST_LEAVE_OUT");
  std::istringstream tags(left_out != nullptr ? left_out : "");
  for (std::string tag; tags >> tag;) {
    std::cerr << "left out here: cases tagged [" << tag << "]\n";
    session.configData().testsOrTags.push_back("~[" + tag + "]");
  }
  return session.run();
}
