// SPDX-License-Identifier: Apache-2.0
// The parser of /proc/crypto and the classification of drivers.
#include <string>

#include "backends/afalg/drivers.h"
#include "tests/support/catch.h"

using sunxi::afalg::Among;
using sunxi::afalg::best_driver;
using sunxi::afalg::driver_traits;
using sunxi::afalg::DriverType;

namespace {

std::string block(const std::string& name, const std::string& driver, int priority,
                  const std::string& type = "skcipher", const std::string& internal = "no",
                  const std::string& selftest = "passed") {
  return "name         : " + name + "\ndriver       : " + driver +
         "\nmodule       : kernel\npriority     : " + std::to_string(priority) +
         "\nrefcnt       : 1\nselftest     : " + selftest + "\ninternal     : " + internal +
         "\ntype         : " + type +
         "\nasync        : yes\nblocksize    : 16\nmin keysize  : 16\nmax keysize  : 32\nivsize       : "
         "16\n\n";
}

std::string best(const std::string& text, bool hardware_only, const std::string& name = "cbc(aes)") {
  const auto entry =
      best_driver(text, DriverType::cipher, name, hardware_only ? Among::hardware : Among::all);
  return entry ? std::string(entry->driver) : "none";
}

std::string best_hash(const std::string& text, Among among) {
  const auto entry = best_driver(text, DriverType::hash, "sha1", among);
  return entry ? std::string(entry->driver) : "none";
}

}  // namespace

TEST_CASE("drivers are known to be hardware by their names") {
  for (const char* name :
       {"cbc-aes-sun4i-ss", "cbc-aes-sun8i-ce", "ecb-des3-sun8i-ss", "hmac-sha1-sun8i-ss",
        "cts(cbc-aes-sun8i-ce)", "xts(ecb-aes-sun8i-ss)", "authenc(hmac(sha1-generic),cbc-aes-sun8i-ss)",
        "virtio_crypto_aes_cbc", "cbc-aes-caam", "cbc-aes-caam-qi", "cbc-aes-caam-qi2", "cbc-aes-qce",
        "cbc-aes-omap", "cbc-aes-rk", "cbc-aes-talitos", "mv-cbc-aes", "atmel-cbc-aes"}) {
    INFO(name);
    CHECK(driver_traits(name).hardware);
  }
  for (const char* name : {"", "cbc(aes-generic)", "cbc-aes-ce", "sha1-ce", "cbc-aes-neon", "cbc-aes-neonbs",
                           "cbc-aes-aesni", "cryptd(__cbc-aes-aesni)", "cbc-aes-arm64", "sun8i-ce",
                           "cbc-aes-sun8i-ce2", "xmv-cbc-aes", "something new", "(((", "virtio_crypto",
                           "cts(cbc-aes-ce)", "xts(ecb-aes-ce)", "ctr(aes-generic)", "cbc-aes-padlock"}) {
    INFO(name);
    CHECK_FALSE(driver_traits(name).hardware);
  }
}

TEST_CASE("the sun8i drivers get what keeps them off their fallback") {
  CHECK(driver_traits("cbc-aes-sun8i-ce").chunk == 32768);
  CHECK(driver_traits("cts(cbc-aes-sun8i-ss)").alignment == 4096);
  CHECK(driver_traits("cbc-aes-sun4i-ss").chunk == 65536);
  CHECK(driver_traits("cbc(aes-generic)").alignment == 1);
}

TEST_CASE("the best driver is the kernel's choice") {
  const std::string generic = block("cbc(aes)", "cbc(aes-generic)", 100);
  const std::string neon = block("cbc(aes)", "cbc-aes-neonbs", 450);
  const std::string engine = block("cbc(aes)", "cbc-aes-sun8i-ce", 400);
  const std::string old_engine = block("cbc(aes)", "cbc-aes-sun4i-ss", 300);
  CHECK(best(generic + neon + engine, false) == "cbc-aes-neonbs");
  CHECK(best(generic + neon + engine, true) == "cbc-aes-sun8i-ce");
  CHECK(best(old_engine + engine, true) == "cbc-aes-sun8i-ce");
  CHECK(best(generic + neon, true) == "none");
  CHECK(best(generic, false) == "cbc(aes-generic)");
  SECTION("at equal priority the first") {
    CHECK(best(block("cbc(aes)", "a", 300) + block("cbc(aes)", "b", 300), false) == "a");
  }
  SECTION("other names and types are not it") {
    CHECK(best(block("ecb(aes)", "ecb-aes-sun8i-ce", 400), false) == "none");
    CHECK(best(block("__cbc(aes)", "__cbc-aes-aesni", 400), false) == "none");
    CHECK(best(block("cbc(aes)", "x-sun8i-ce", 400, "ahash"), true) == "none");
    CHECK(best(block("cbc(aes)", "x-sun8i-ce", 400, "larval"), true) == "none");
    CHECK(best(engine, true, "cbc(ae") == "none");
    CHECK(best(engine, true, "") == "none");
  }
  SECTION("names of the type in other kernels") {
    for (const char* type : {"ablkcipher", "blkcipher", "lskcipher"})
      CHECK(best(block("cbc(aes)", "cbc-aes-sun4i-ss", 300, type), true) == "cbc-aes-sun4i-ss");
  }
  SECTION("internal and untested ones are not it") {
    CHECK(best(block("cbc(aes)", "x-sun8i-ce", 900, "skcipher", "yes") + engine, true) == "cbc-aes-sun8i-ce");
    CHECK(best(block("cbc(aes)", "x-sun8i-ce", 900, "skcipher", "no", "unknown") + engine, true) ==
          "cbc-aes-sun8i-ce");
  }
}

TEST_CASE("hashes in hardware are those that take a message in pieces") {
  const std::string generic = block("sha1", "sha1-generic", 100, "shash");
  const std::string arm = block("sha1", "sha1-ce", 200, "shash");
  const std::string a20 = block("sha1", "sha1-sun4i-ss", 300, "ahash");
  const std::string h3 = block("sha1", "sha1-sun8i-ce", 300, "ahash");
  const std::string a83 = block("sha1", "sha1-sun8i-ss", 300, "ahash");
  const std::string omap = block("sha1", "omap-sha1", 400, "ahash");
  CHECK(best_hash(generic + arm, Among::all) == "sha1-ce");
  CHECK(best_hash(generic + arm, Among::hardware) == "none");
  CHECK(best_hash(generic + arm, Among::whole_messages_only) == "none");
  CHECK(best_hash(generic + a20, Among::hardware) == "sha1-sun4i-ss");
  CHECK(best_hash(generic + a20, Among::whole_messages_only) == "none");
  for (const std::string& whole : {h3, a83}) {
    CHECK(best_hash(generic + whole, Among::hardware) == "none");
    CHECK(best_hash(generic + whole, Among::whole_messages_only) != "none");
    CHECK(best_hash(generic + whole, Among::all) != "sha1-generic");
    CHECK(best_hash(generic + whole + a20, Among::hardware) == "sha1-sun4i-ss");
  }
  CHECK(best_hash(omap + a20, Among::hardware) == "omap-sha1");
  // Not of this type, whatever their names.
  CHECK(best_hash(block("sha1", "sha1-sun4i-ss", 300, "skcipher"), Among::all) == "none");
  CHECK(best(block("cbc(aes)", "x-sun4i-ss", 300, "shash"), true) == "none");
  // Ciphers of the same driver are not concerned.
  CHECK(best(block("cbc(aes)", "cbc-aes-sun8i-ce", 400), true) == "cbc-aes-sun8i-ce");
}

TEST_CASE("odd texts of /proc/crypto do no harm") {
  CHECK(best("", false) == "none");
  CHECK(best("\n\n\n:\n::\n : \nname\n", false) == "none");
  CHECK(best(std::string(100, '\0'), false) == "none");
  const std::string engine = block("cbc(aes)", "cbc-aes-sun8i-ce", 400);
  SECTION("fields missing") {
    for (const char* field : {"name", "driver", "priority", "selftest", "type"}) {
      INFO(field);
      std::string text = engine;
      const std::size_t at = text.find(std::string(field) + "  ");
      text.erase(at, text.find('\n', at) + 1 - at);
      CHECK(best(text, true) == "none");
      CHECK(best(text + engine, true) == "cbc-aes-sun8i-ce");
    }
    std::string text = engine;  // older kernels have no such line
    const std::size_t at = text.find("internal");
    text.erase(at, text.find('\n', at) + 1 - at);
    CHECK(best(text, true) == "cbc-aes-sun8i-ce");
  }
  SECTION("order, spacing and line ends") {
    CHECK(best("type:skcipher\r\nselftest :\tpassed\r\npriority:7\r\ndriver: mv-cbc-aes "
               "\r\nname:cbc(aes)\r\n\r\n",
               true) == "mv-cbc-aes");
  }
  SECTION("priorities that are no numbers") {
    for (const char* priority : {"", "x", "4 4", "0x10", "99999999999999999999", "4e2"}) {
      INFO(priority);
      std::string text = engine;
      text.replace(text.find("400"), 3, priority);
      CHECK(best(text, true) == "none");
    }
    CHECK(best(block("cbc(aes)", "mv-x", -5), true) == "mv-x");
  }
  SECTION("cut at any byte") {
    const std::string text = block("cbc(aes)", "cbc-aes-sun4i-ss", 300) + engine;
    for (std::size_t length = 0; length <= text.size(); ++length) {
      const std::string found = best(text.substr(0, length), true);
      CHECK((found == "none" || found == "cbc-aes-sun4i-ss" || found == "cbc-aes-sun8i-ce"));
    }
    CHECK(best(text.substr(0, text.size() - 1), true) == "cbc-aes-sun8i-ce");
  }
  SECTION("huge") {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += block("cbc(aes)", "software-" + std::to_string(i), i);
    text += std::string(100000, 'x') + "\n" + std::string(100000, ':') + "\n\n";
    text += engine;
    CHECK(best(text, true) == "cbc-aes-sun8i-ce");
    CHECK(best(text, false) == "software-4999");
  }
}
