// SPDX-License-Identifier: Apache-2.0
// Ciphers of the /dev/crypto backend against libcrypto: random requests, the limits of an operation, counters
// that wrap, placements of input and output, refused keys. SUNXI_TEST_CASES and SUNXI_TEST_SEED set the
// random comparison.
#include <sys/mman.h>

#include "tests/unit/backend/random_comparison.h"
#include "tests/unit/backend/surroundings.h"
#include "tests/unit/cryptodev/bed.h"

using namespace cryptodev_test;

namespace {

void compare(Bed& bed, std::size_t cases) {
  const std::vector<const Variant*> served = served_variants(bed);
  REQUIRE_FALSE(served.empty());
  const auto chunk = [&bed](const Variant& variant) { return chunk_of(bed, variant); };
  const auto declines = [&](const Variant& variant, std::size_t length) {
    return variant.mode == Mode::xts && (length > chunk(variant) || length % 16 != 0);
  };
  // Half of the units of XTS end in a part of a block.
  const auto counts = random_comparison(
      *bed.backend, bed.process, cases, served, chunk, declines, [](auto&&...) {}, 4);
  if (bed.control != nullptr) {
    CHECK(bed.count("misaligned") == 0);
    CHECK(bed.count("no-zero-copy") == 0);
    CHECK(bed.count("errors") == 0);
    return;
  }
  for (const Variant* variant : served) {
    std::array<char, 64> driver{};
    bed.backend->driver(variant->spec(), driver);
    std::cout << variant->name << " on " << driver.data() << ": "
              << counts[static_cast<std::size_t>(variant - variants.data())] << " cases\n";
  }
}

// One request, that must be served in as few operations as may be.
void must_split(Bed& bed, KeySlot& slot, const Variant& variant, const Bytes& key, Iv iv, std::size_t length,
                bool encrypt, bool in_place) {
  INFO(variant.name << ", " << length << " bytes, encrypt " << encrypt << ", in place " << in_place);
  Random random(length);
  const Bytes in = random.bytes(length);
  Bytes memory(2 * length);
  std::copy(in.begin(), in.end(), memory.begin());
  std::uint8_t* target = memory.data() + (in_place ? 0 : length);
  const std::size_t chunk = chunk_of(bed, variant);
  Iv our_iv = iv;
  bed.clear();
  const Result result =
      request(*bed.backend, slot, variant, key, our_iv, memory.data(), target, length, encrypt);
  if (variant.mode == Mode::xts && (length > chunk || length % 16 != 0)) {
    CHECK(result.outcome == Outcome::busy);
    CHECK(result.done == 0);
    CHECK(our_iv == iv);
    CHECK(std::equal(in.begin(), in.end(), memory.begin()));
    if (bed.control != nullptr) CHECK(bed.count("crypt") == 0);
    return;
  }
  CHECK(result.outcome == Outcome::served);
  CHECK(result.done == length);
  const Bytes expected = reference(variant, encrypt, key, iv, in);
  REQUIRE(expected.size() == length);
  CHECK(std::equal(expected.begin(), expected.end(), target));
  CHECK(our_iv == iv);
  if (bed.control != nullptr) CHECK(bed.count("crypt") == static_cast<int>((length + chunk - 1) / chunk));
}

}  // namespace

TEST_CASE("each algorithm and no other, without a system call") {
  Bed bed;
  for (const Cipher cipher : {Cipher::aes, Cipher::des, Cipher::des3}) {
    for (const Mode mode : {Mode::ecb, Mode::cbc, Mode::ctr, Mode::xts}) {
      for (std::uint16_t key_bytes = 0; key_bytes <= max_key_bytes + 8; ++key_bytes) {
        for (const std::uint8_t block_bytes : std::array<std::uint8_t, 3>{0, 8, 16}) {
          for (const std::uint8_t iv_bytes : std::array<std::uint8_t, 4>{0, 8, 12, 16}) {
            const CipherSpec spec{.cipher = cipher,
                                  .mode = mode,
                                  .key_bytes = key_bytes,
                                  .block_bytes = block_bytes,
                                  .iv_bytes = iv_bytes};
            const bool known = std::any_of(variants.begin(), variants.end(), [&](const Variant& variant) {
              return is_known(variant) && variant.spec() == spec;
            });
            if (bed.backend->supports(spec) != known)
              FAIL(static_cast<int>(cipher) << " " << static_cast<int>(mode) << " " << key_bytes);
          }
        }
      }
    }
  }
  CHECK(bed.backend->name() == "cryptodev");
  std::array<char, 8> text{'x'};
  bed.backend->driver(spec_of(16), text);
  CHECK(text[0] == '\0');
  bed.backend->driver(spec_of(16), {});
  KeySlot slot;
  CHECK(ask(*bed.backend, slot, Bytes(20), {}, Bytes(16)).result.outcome == Outcome::unsupported);
  bed.backend->release(slot);
  if (bed.control != nullptr) CHECK(bed.count("opens") == 0);
}

TEST_CASE("random comparison") {
  const std::string driver = GENERATE("sun4i-ss", "sun8i-ce", "generic", "aesni");
  INFO(driver);
  Bed bed(driver, driver.starts_with("sun"));
  if (bed.control == nullptr && driver != "generic") return;
  compare(bed, setting("SUNXI_TEST_CASES", 2000));
}

TEST_CASE("random comparison with a driver that wants whole pages") {
  Bed bed;
  if (is_real(bed)) return;
  bed.set("alignmask=4095");
  compare(bed, setting("SUNXI_TEST_CASES", 2000));
}

TEST_CASE("lengths at the limits of an operation") {
  const std::string driver = GENERATE("sun4i-ss", "sun8i-ce");
  Bed bed(driver);
  for (const Variant* variant : served_variants(bed)) {
    Random random(variant->key_bytes);
    const Bytes key = random.bytes(variant->key_bytes);
    const std::size_t block = variant->block_bytes();
    const std::size_t chunk = chunk_of(bed, *variant);
    std::vector<std::size_t> lengths{block,         2 * block, 4096 - block,  4096,      4096 + block,
                                     chunk - block, chunk,     chunk + block, 2 * chunk, 3 * chunk + block};
    if (variant->mode == Mode::xts) {
      for (const std::size_t length :
           std::initializer_list<std::size_t>{17, 31, 33, 4095, 4097, chunk - 15, chunk + 1})
        lengths.push_back(length);
    }
    KeySlot slot;
    must_serve(*bed.backend, slot, *variant, key);
    for (const std::size_t length : lengths) {
      for (const bool encrypt : {true, false}) {
        for (const bool in_place : {true, false})
          must_split(bed, slot, *variant, key, random.iv(*variant), length, encrypt, in_place);
      }
    }
    bed.backend->release(slot);
  }
}

TEST_CASE("counters that wrap") {
  Bed bed;
  for (const Variant* variant : served_variants(bed)) {
    if (variant->mode != Mode::ctr) continue;
    Random random(variant->key_bytes);
    const Bytes key = random.bytes(variant->key_bytes);
    const std::size_t chunk = chunk_of(bed, *variant);
    KeySlot slot;
    must_serve(*bed.backend, slot, *variant, key);
    for (const std::size_t width : {4U, 8U, 16U}) {
      for (const unsigned before : {1U, 2U, 7U, 255U}) {
        Iv iv{0x11, 0x22};
        std::fill(iv.end() - static_cast<std::ptrdiff_t>(width), iv.end(), std::uint8_t{0xff});
        iv.back() = static_cast<std::uint8_t>(0x100 - before);
        for (const std::size_t length :
             std::initializer_list<std::size_t>{std::size_t{16} * before, 16 * before + 16, 2 * chunk + 16})
          must_split(bed, slot, *variant, key, iv, length, true, false);
      }
    }
    bed.backend->release(slot);
  }
}

TEST_CASE("any placement of output, and one that cannot be written to") {
  Bed bed;
  if (is_real(bed)) return;
  constexpr std::size_t page = 4096;
  constexpr std::size_t length = 4 * page;
  auto* const memory = static_cast<std::uint8_t*>(
      mmap(nullptr, 8 * length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  const Variant& variant = aes_cbc(16);
  const Bytes key = Random(1).bytes(16);
  KeySlot slot;
  must_serve(*bed.backend, slot, variant, key);
  const Bytes in = Random(2).bytes(length);
  // Apart, in place, overlapping to both sides, at bad addresses, and ending at the end of a mapping.
  for (const std::ptrdiff_t distance :
       {std::ptrdiff_t{2 * length}, std::ptrdiff_t{0}, std::ptrdiff_t{64}, std::ptrdiff_t{-64},
        std::ptrdiff_t{2 * length + 8}, std::ptrdiff_t{2 * length + 1}, std::ptrdiff_t{6 * length}}) {
    for (const bool encrypt : {true, false}) {
      INFO("distance " << distance << ", encrypt " << encrypt);
      std::uint8_t* const source = memory + length;
      std::copy(in.begin(), in.end(), source);
      Iv iv{3};
      Iv expected_iv = iv;
      bed.clear();
      const Result result =
          request(*bed.backend, slot, variant, key, iv, source, source + distance, length, encrypt);
      CHECK(result.outcome == Outcome::served);
      CHECK(bed.count("crypt") == 1);
      CHECK(bed.count("misaligned") == 0);
      const Bytes expected = reference(variant, encrypt, key, expected_iv, in);
      CHECK(std::equal(expected.begin(), expected.end(), source + distance));
      CHECK(iv == expected_iv);
    }
  }
  // It ends in the program, as with software: the module sees memory of ours alone.
  std::uint8_t* const target = memory + 4 * length;
  for (const std::size_t bad : {std::size_t{0}, std::size_t{2}, length / page - 1}) {
    bed.clear();
    CHECK(in_child([&] {
            if (!serves(*bed.backend, slot, key, 1)) return 1;
            bed.clear();
            mprotect(target + bad * page, page, PROT_READ);
            signal(SIGSEGV, [](int) { _exit(77); });
            signal(SIGBUS, [](int) { _exit(77); });
            Iv iv{};
            (void)request(*bed.backend, slot, variant, key, iv, in.data(), target, length, true);
            return 2;
          }) == 77);
  }
  bed.backend->release(slot);
  munmap(memory, 8 * length);
}

TEST_CASE("a driver that fails harms neither input nor IV") {
  Bed bed;
  if (is_real(bed)) return;
  for (const Variant* variant : served_variants(bed)) {
    const Bytes key = Random(13).bytes(variant->key_bytes);
    KeySlot slot;
    must_serve(*bed.backend, slot, *variant, key);
    const std::size_t chunk = chunk_of(bed, *variant);
    const std::size_t length = variant->mode == Mode::xts ? chunk : 200000;
    const Bytes in = Random(14).bytes(length);
    for (const bool encrypt : {true, false}) {
      for (const int distance : {1, 0, -1}) {  // apart, in place, output before input
        for (const char* error : {"EIO", "EINVAL", "ENOMEM", "ETIMEDOUT", "EFAULT", "EBADMSG"}) {
          for (const std::size_t skip : {0U, 2U}) {
            if (skip != 0 && variant->mode == Mode::xts) continue;
            INFO(variant->name << ", encrypt " << encrypt << ", placement " << distance << ", " << error
                               << ", skip " << skip);
            Bytes memory(2 * length + 16);
            std::uint8_t* source = memory.data() + 8;
            std::uint8_t* target = distance > 0 ? source + length : distance == 0 ? source : source - 8;
            std::copy(in.begin(), in.end(), source);
            Iv iv{1, 2, 3};
            Iv expected_iv = iv;
            bed.clear();
            bed.set(std::string("fault=crypt:") + error + ":" + std::to_string(skip + 1) + ":dirty");
            errno = 4711;
            const Result result =
                request(*bed.backend, slot, *variant, key, iv, source, target, length, encrypt);
            REQUIRE(errno == 4711);
            REQUIRE(result.outcome == Outcome::failed);
            REQUIRE(result.done == chunk * skip);
            REQUIRE(bed.count("crypt") == static_cast<int>(skip) + 1);
            REQUIRE(bed.count("fsession") == 1);
            if (result.done != 0) {
              const Bytes part(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(result.done));
              const Bytes expected = reference(*variant, encrypt, key, expected_iv, part);
              REQUIRE(std::equal(expected.begin(), expected.end(), target));
            }
            REQUIRE(iv == expected_iv);
            REQUIRE(std::equal(in.begin() + static_cast<std::ptrdiff_t>(result.done), in.end(),
                               source + result.done));
            bed.clear();
            must_serve(*bed.backend, slot, *variant, key, 48);
          }
        }
      }
    }
    bed.backend->release(slot);
  }
  CHECK(bed.process.text().find("sunxi: cryptodev: AES-CBC (cbc-aes-sun4i-ss): CIOCCRYPT: EIO\n") !=
        std::string::npos);
}

TEST_CASE("weak keys that are refused are software's, and no fault") {
  Bed bed;
  if (is_real(bed)) return;
  bed.set("fips=1");
  for (const Variant& variant : variants) {
    if (!is_known(variant)) continue;
    const bool may_be_weak = variant.cipher != Cipher::aes || variant.mode == Mode::xts;
    INFO(variant.name);
    KeySlot weak;
    KeySlot same;
    KeySlot good;
    const Bytes key(variant.key_bytes, 0x01);
    const Bytes other = Random(variant.key_bytes).bytes(variant.key_bytes);
    // FIPS mode knows no good key of DES, nor two keys of triple DES, where K1 = K3.
    const bool good_is_weak = variant.cipher != Cipher::aes && variant.key_bytes <= 16;
    bed.clear();
    for (int again = 0; again < 3; ++again) {
      for (KeySlot* slot : {&weak, &same}) {
        const Answer answer = ask(*bed.backend, *slot, variant.spec(), key, {}, Bytes(64), false);
        CHECK(answer.result.outcome == (may_be_weak ? Outcome::busy : Outcome::served));
        CHECK(answer.result.done == (may_be_weak ? 0U : 64U));
      }
      bed.process.time += 2'000'000'000;
    }
    CHECK(bed.count("gsession") == 1);
    if (!good_is_weak) must_serve(*bed.backend, good, variant, other);
    for (KeySlot* slot : {&weak, &same, &good}) bed.backend->release(*slot);
  }
  const std::string text = bed.process.text();
  INFO(text);
  CHECK(text.find("sunxi: cryptodev: DES-CBC: a key was refused") != std::string::npos);
  CHECK(text.find("failed") == std::string::npos);
}
