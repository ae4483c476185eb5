// SPDX-License-Identifier: Apache-2.0
// Every algorithm of the AF_ALG backend against libcrypto: random requests, the limits of an operation,
// counters that wrap, data units of XTS, refused keys. For the environment see test_backend.cpp.
#include <kcapi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "tests/unit/afalg/bed.h"
#include "tests/unit/backend/random_comparison.h"

using namespace afalg_test;

namespace {

// libkcapi's answer: nothing of our own is in its way.
Bytes second_opinion(const std::string& driver, const Variant& variant, bool encrypt, Bytes key, const Iv& iv,
                     const Bytes& in) {
  if (variant.cipher == Cipher::des3 && key.size() == 16) {
    const Bytes first(key.begin(), key.begin() + 8);
    key.insert(key.end(), first.begin(), first.end());
  }
  kcapi_set_verbosity(KCAPI_LOG_NONE);
  kcapi_handle* handle = nullptr;
  REQUIRE(kcapi_cipher_init(&handle, driver.c_str(), 0) == 0);
  REQUIRE(kcapi_cipher_setkey(handle, key.data(), static_cast<std::uint32_t>(key.size())) == 0);
  Bytes out(in.size());
  const auto length = static_cast<ssize_t>(in.size());
  const std::uint8_t* start = variant.iv_bytes() != 0 ? iv.data() : nullptr;
  const auto got = encrypt ? kcapi_cipher_encrypt(handle, in.data(), in.size(), start, out.data(), out.size(),
                                                  KCAPI_ACCESS_SENDMSG)
                           : kcapi_cipher_decrypt(handle, in.data(), in.size(), start, out.data(), out.size(),
                                                  KCAPI_ACCESS_SENDMSG);
  CHECK(got == length);
  kcapi_cipher_destroy(handle);
  return out;
}

void random_comparison(Bed& bed, std::size_t cases, bool kcapi) {
  std::vector<const Variant*> served;
  for (const Variant& variant : variants) {
    if (is_served(bed, variant)) served.push_back(&variant);
  }
  const auto declines = [&bed](const Variant& variant, std::size_t length) {
    return variant.mode == Mode::xts && length > chunk_of(bed, variant);
  };
  const auto check = [&](const Variant& variant, bool encrypt, const Bytes& key, const Iv& iv,
                         const Bytes& in, const std::uint8_t* out, std::size_t number) {
    if (!kcapi || in.size() > 65536 || number % 8 != 0) return;
    std::array<char, 64> driver{};
    bed.backend->driver(variant.spec(), driver);
    const Bytes second = second_opinion(driver.data(), variant, encrypt, key, iv, in);
    if (!std::equal(second.begin(), second.end(), out)) FAIL("libkcapi differs");
  };
  const std::vector<std::size_t> counts = backend_test::random_comparison(
      *bed.backend, bed.process, cases, served,
      [&bed](const Variant& variant) { return chunk_of(bed, variant); }, declines, check);
  if (bed.model) return;
  for (const Variant* variant : served) {
    std::array<char, 64> driver{};
    bed.backend->driver(variant->spec(), driver);
    std::cout << variant->name << " on " << driver.data() << ": "
              << counts[static_cast<std::size_t>(variant - variants.data())] << " cases\n";
  }
}

// One request, apart or in place, that must be served in `operations` operations.
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
  const int sent = kernel_calls::count(Call::send);
  const Result result =
      bed.backend->crypt(slot, {.spec = variant.spec(),
                                .direction = encrypt ? Direction::encrypt : Direction::decrypt,
                                .key = key,
                                .iv = variant.iv_bytes() != 0 ? our_iv.data() : nullptr,
                                .in = memory.data(),
                                .out = target,
                                .length = length});
  if (variant.mode == Mode::xts && length > chunk) {
    CHECK(result.outcome == Outcome::busy);
    CHECK(result.done == 0);
    CHECK(our_iv == iv);
    CHECK(std::equal(in.begin(), in.end(), memory.begin()));
    CHECK(kernel_calls::count(Call::send) == sent);
    return;
  }
  CHECK(result.outcome == Outcome::served);
  CHECK(result.done == length);
  const Bytes expected = reference(variant, encrypt, key, iv, in);
  REQUIRE(expected.size() == length);
  CHECK(std::equal(expected.begin(), expected.end(), target));
  CHECK(our_iv == iv);
  CHECK(kernel_calls::count(Call::send) == sent + static_cast<int>((length + chunk - 1) / chunk));
}

void limits(Bed& bed) {
  std::string last;
  for (const Variant& variant : variants) {
    if (!is_served(bed, variant)) continue;
    // An emulated processor has no time for every key size.
    if (!bed.model && std::exchange(last, variant.kernel_name) == variant.kernel_name) continue;
    Random random(variant.key_bytes);
    const Bytes key = random.bytes(variant.key_bytes);
    const std::size_t block = variant.block_bytes();
    const std::size_t chunk = chunk_of(bed, variant);
    std::vector<std::size_t> lengths{
        block,         2 * block, 4096 - block,   4096,          4096 + block,
        chunk - block, chunk,     chunk + block,  2 * chunk,     2 * chunk + block,
        65536 - block, 65536,     196608 + block, 65536 + block,
    };
    if (variant.mode == Mode::xts) {
      for (const std::size_t length : std::initializer_list<std::size_t>{
               17, 31, 33, 4095, 4097, chunk - 17, chunk - 15, chunk - 1, chunk + 1, 1U << 24U})
        lengths.push_back(length);
    }
    KeySlot slot;
    for (const std::size_t length : lengths) {
      for (const bool encrypt : {true, false}) {
        for (const bool in_place : {true, false})
          must_split(bed, slot, variant, key, random.iv(variant), length, encrypt, in_place);
      }
    }
    bed.backend->release(slot);
  }
  INFO(bed.process.text());
  CHECK(bed.process.text().find("sendmsg") == std::string::npos);
  CHECK(bed.process.text().find("recv") == std::string::npos);
}

// The counter passes 2^32, 2^64 and 2^128 within an operation, between two, and at the end.
void counters(Bed& bed) {
  for (const Variant& variant : variants) {
    if (variant.mode != Mode::ctr || !is_served(bed, variant)) continue;
    Random random(variant.key_bytes);
    const Bytes key = random.bytes(variant.key_bytes);
    const std::size_t chunk = chunk_of(bed, variant);
    KeySlot slot;
    for (const std::size_t width : {4U, 8U, 16U}) {
      for (const std::size_t before : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{255},
                                       chunk / 16 - 1, chunk / 16, chunk / 16 + 1, 2 * chunk / 16}) {
        Iv iv{0x11, 0x22};
        std::fill(iv.end() - static_cast<std::ptrdiff_t>(width), iv.end(), std::uint8_t{0});
        // Minus `before`.
        std::size_t borrow = before;
        for (std::size_t i = 16; i-- != 16 - width;) {
          const std::size_t digit = iv[i] + 256U - (borrow & 255U);
          iv[i] = static_cast<std::uint8_t>(digit);
          borrow = (borrow >> 8U) + (digit < 256 ? 1U : 0U);
        }
        INFO("width " << width << ", before " << before);
        for (const std::size_t length : {16 * before, 16 * before + 16, 16 * before + 160, 2 * chunk + 16})
          must_split(bed, slot, variant, key, iv, length, true, false);
      }
    }
    bed.backend->release(slot);
  }
}

// A kernel or driver that knows no ciphertext stealing loses such lengths, and nothing else.
void without_stealing(Bed& bed) {
  const Variant& variant = variant_of("AES-128-XTS");
  const Variant& sibling = variant_of("AES-256-XTS");
  if (!is_served(bed, variant) || !is_served(bed, sibling)) return;
  bed.process.set_log_level(LogLevel::error);
  Random random(4);
  struct User {
    KeySlot slot;
    Bytes key;
  };
  std::array<User, 2> users;
  for (User& user : users) {
    user.key = random.bytes(variant.key_bytes);
    must_serve(*bed.backend, user.slot, variant, user.key, 33);
  }
  kernel_calls::clear();
  kernel_calls::set_stealing(false);
  int served = 0;
  for (const bool encrypt : {true, false}) {
    for (const std::size_t length : {17U, 4095U, 16385U}) {
      for (User& user : users) {
        INFO(length << " bytes, encrypt " << encrypt);
        // In place, where a failing driver leaves garbage.
        const Bytes in = random.bytes(length);
        Bytes memory = in;
        Iv iv = random.iv(variant);
        const Iv before = iv;
        errno = 4711;
        const Result result =
            bed.backend->crypt(user.slot, {.spec = variant.spec(),
                                           .direction = encrypt ? Direction::encrypt : Direction::decrypt,
                                           .key = user.key,
                                           .iv = iv.data(),
                                           .in = memory.data(),
                                           .out = memory.data(),
                                           .length = length});
        CHECK(errno == 4711);
        CHECK(result.outcome == Outcome::busy);
        CHECK(result.done == 0);
        CHECK(memory == in);
        CHECK(iv == before);
        must_serve(*bed.backend, user.slot, variant, user.key, length / 16 * 16, encrypt);
        ++served;
      }
    }
  }
  // Tried once, in this process and its children, for all keys.
  KeySlot wide;
  const Bytes wide_key = random.bytes(sibling.key_bytes);
  CHECK(ask(*bed.backend, wide, sibling.spec(), wide_key, {}, Bytes(17)).result.outcome == Outcome::busy);
  CHECK(kernel_calls::count(Call::send) == served + 1);
  std::cout.flush();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    KeySlot own;
    const Bytes& key = users[0].key;
    kernel_calls::clear();
    kernel_calls::set_stealing(false);
    const Outcome even = ask(*bed.backend, own, variant.spec(), key, {}, Bytes(32)).result.outcome;
    const Outcome odd = ask(*bed.backend, own, variant.spec(), key, {}, Bytes(17)).result.outcome;
    _exit(even == Outcome::served && odd == Outcome::busy && kernel_calls::count(Call::send) == 1 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  bed.backend->release(wide);
  for (User& user : users) bed.backend->release(user.slot);
  CHECK(bed.process.text().empty());
}

// Any other error at such a length is a fault as everywhere, and costs nothing later.
void faults_with_stealing(Bed& bed) {
  const Variant& variant = variant_of("AES-128-XTS");
  if (!is_served(bed, variant)) return;
  Random random(5);
  const Bytes key = random.bytes(variant.key_bytes);
  KeySlot slot;
  for (const Call call : {Call::send, Call::receive}) {
    for (const int error : {0, EIO, ENOMEM, EINVAL, EBADMSG}) {
      for (const std::size_t length : {4096U, 4100U}) {
        if (call == Call::receive && error == EINVAL && length == 4100) continue;
        INFO("call " << static_cast<int>(call) << ", errno " << error << ", " << length << " bytes");
        must_serve(*bed.backend, slot, variant, key, length);
        const Bytes in = random.bytes(length);
        Bytes memory = in;
        Iv iv = random.iv(variant);
        const Iv before = iv;
        kernel_calls::inject(call, error);
        const Result result = bed.backend->crypt(slot, {.spec = variant.spec(),
                                                        .direction = Direction::encrypt,
                                                        .key = key,
                                                        .iv = iv.data(),
                                                        .in = memory.data(),
                                                        .out = memory.data(),
                                                        .length = length});
        kernel_calls::clear();
        CHECK(result.outcome == Outcome::failed);
        CHECK(result.done == 0);
        CHECK(memory == in);
        CHECK(iv == before);
        must_serve(*bed.backend, slot, variant, key, length);
      }
    }
  }
  bed.backend->release(slot);
}

// Keys that may be weak, and a driver that refuses them.
void refused_keys(Bed& bed) {
  bed.process.set_log_level(LogLevel::error);
  Random random(6);
  for (const Variant& variant : variants) {
    if (!is_served(bed, variant)) continue;
    for (const bool equal_halves : {false, true}) {
      for (const int error : {EINVAL, ENOKEY, EKEYREJECTED, EIO, ETIMEDOUT, ENOMEM}) {
        INFO(variant.name << ", errno " << error << ", equal halves " << equal_halves);
        Bytes key = random.bytes(variant.key_bytes);
        const Bytes good = random.bytes(variant.key_bytes);
        if (equal_halves) std::copy_n(key.begin(), key.size() / 2, key.begin() + variant.key_bytes / 2);
        const bool by_the_key =
            (variant.cipher != Cipher::aes || (variant.mode == Mode::xts && equal_halves)) &&
            (error == EINVAL || error == ENOKEY || error == EKEYREJECTED);
        const std::string before = bed.process.text();
        KeySlot slot;
        KeySlot same;
        KeySlot other;
        must_serve(*bed.backend, other, variant, good);
        kernel_calls::clear();
        kernel_calls::inject(Call::set_key, error, 0, 1000);
        const Bytes in(64, 1);
        for (int again = 0; again < 3; ++again) {
          errno = 4711;
          for (KeySlot* used : {&slot, &same}) {
            const Answer answer = ask(*bed.backend, *used, variant.spec(), key, {}, in, false);
            CHECK(answer.result.outcome == (by_the_key || error == ENOMEM ? Outcome::busy : Outcome::failed));
            CHECK(answer.result.done == 0);
          }
          CHECK(errno == 4711);
          must_serve(*bed.backend, other, variant, good);
          bed.process.time += 2'000'000'000;
        }
        CHECK(kernel_calls::count(Call::set_key) == (by_the_key ? 1 : 6));
        CHECK((bed.process.text() == before) == (by_the_key || error == ENOMEM));
        kernel_calls::clear();
        bed.backend->release(slot);
        bed.backend->release(same);
        // The driver may be another one when the key comes again. (Equal halves: libcrypto decrypts only.)
        must_serve(*bed.backend, slot, variant, key, 64, false);
        bed.backend->release(slot);
        bed.backend->release(other);
        bed.process.time += std::uint64_t{20'000'000'000};
      }
    }
  }
}

// Keys that a driver refuses if it checks at all; here none does.
void weak_keys(Bed& bed) {
  for (const Variant& variant : variants) {
    if (!is_served(bed, variant)) continue;
    for (const int byte : {0x00, 0x01, 0xfe, 0xe0}) {
      INFO(variant.name << ", key of " << byte);
      KeySlot slot;
      must_serve(*bed.backend, slot, variant, Bytes(variant.key_bytes, static_cast<std::uint8_t>(byte)), 48,
                 false);
      bed.backend->release(slot);
    }
  }
}

}  // namespace

TEST_CASE("capabilities: each algorithm and no other") {
  kernel_calls::clear();
  TestProcess process;
  const auto backend = make_afalg_backend(process, {});
  for (const Cipher cipher : {Cipher::aes, Cipher::des, Cipher::des3}) {
    for (const Mode mode : {Mode::ecb, Mode::cbc, Mode::ctr, Mode::xts}) {
      for (std::uint16_t key_bytes = 0; key_bytes <= max_key_bytes + 8; ++key_bytes) {
        for (const std::uint8_t block_bytes : std::array<std::uint8_t, 4>{0, 1, 8, 16}) {
          for (const std::uint8_t iv_bytes : std::array<std::uint8_t, 4>{0, 8, 12, 16}) {
            const CipherSpec spec{.cipher = cipher,
                                  .mode = mode,
                                  .key_bytes = key_bytes,
                                  .block_bytes = block_bytes,
                                  .iv_bytes = iv_bytes};
            const bool known = std::any_of(variants.begin(), variants.end(),
                                           [&](const Variant& variant) { return variant.spec() == spec; });
            if (backend->supports(spec) != known)
              FAIL(static_cast<int>(cipher)
                   << " " << static_cast<int>(mode) << " " << key_bytes << " "
                   << static_cast<int>(block_bytes) << " " << static_cast<int>(iv_bytes));
          }
        }
      }
    }
  }
  CHECK(kernel_calls::count(Call::socket) == 0);
}

TEST_CASE("what meets all algorithms alike is told once") {
  Bed bed(true, false);
  kernel_calls::inject(Call::socket, EAFNOSUPPORT, 0, 1000);
  for (const Variant& variant : variants) {
    KeySlot slot;
    CHECK(ask(*bed.backend, slot, variant.spec(), Bytes(variant.key_bytes), {}, Bytes(16)).result.outcome ==
          Outcome::unavailable);
  }
  CHECK(bed.process.text() == "sunxi: afalg is not used: no AF_ALG: this kernel answers EAFNOSUPPORT\n");
}

TEST_CASE("model: random comparison") {
  const bool hardware = GENERATE(false, true);
  Bed bed(true, hardware);
  random_comparison(bed, setting("SUNXI_TEST_CASES", 4000), false);
}
TEST_CASE("model: lengths at the limits of an operation") {
  const bool hardware = GENERATE(false, true);
  Bed bed(true, hardware);
  limits(bed);
}
TEST_CASE("model: counters that wrap") {
  const bool hardware = GENERATE(false, true);
  Bed bed(true, hardware);
  counters(bed);
}
TEST_CASE("model: no ciphertext stealing") {
  Bed bed(true);
  without_stealing(bed);
}
TEST_CASE("model: faults in a data unit") {
  Bed bed(true);
  faults_with_stealing(bed);
}
TEST_CASE("model: refused keys") {
  Bed bed(true);
  refused_keys(bed);
}
TEST_CASE("model: a send buffer smaller than a data unit") {
  Bed bed(true, false);
  kernel_calls::use_model(true, 16384);
  const Variant& variant = variant_of("AES-256-XTS");
  KeySlot slot;
  const Bytes key = Random(1).bytes(64);
  must_serve(*bed.backend, slot, variant, key, 16384);
  must_serve(*bed.backend, slot, variant, key, 16383);
  CHECK(ask(*bed.backend, slot, variant.spec(), key, {}, Bytes(16385)).result.outcome == Outcome::busy);
  bed.backend->release(slot);
}

TEST_CASE("kernel: random comparison", "[kernel]") {
  Bed bed(false);
  random_comparison(bed, setting("SUNXI_TEST_CASES", 2000), true);
}
TEST_CASE("kernel: lengths at the limits of an operation", "[kernel]") {
  Bed bed(false);
  limits(bed);
}
TEST_CASE("kernel: counters that wrap", "[kernel]") {
  Bed bed(false);
  counters(bed);
}
TEST_CASE("kernel: no ciphertext stealing", "[kernel]") {
  Bed bed(false);
  without_stealing(bed);
}
TEST_CASE("kernel: faults in a data unit", "[kernel]") {
  Bed bed(false);
  faults_with_stealing(bed);
}
TEST_CASE("kernel: refused keys", "[kernel]") {
  Bed bed(false);
  refused_keys(bed);
}
TEST_CASE("kernel: weak keys", "[kernel]") {
  Bed bed(false);
  weak_keys(bed);
}
