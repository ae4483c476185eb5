// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/case.h"

#include <openssl/core_names.h>
#include <openssl/params.h>

#include <iomanip>

namespace sunxi::test {
namespace {

constexpr std::uint8_t before = 0xaa, elsewhere = 0xbb;

std::vector<std::uint8_t> octets(const OSSL_PARAM& param) {
  if (param.return_size == OSSL_PARAM_UNMODIFIED || param.return_size > 16) return {0xde, 0xad};
  const auto* data = static_cast<const std::uint8_t*>(
      param.data_type == OSSL_PARAM_OCTET_PTR ? *static_cast<void**>(param.data) : param.data);
  if (data == nullptr) return {};
  return {data, data + param.return_size};
}

void hex(std::ostringstream& text, const char* what, const std::vector<std::uint8_t>& bytes) {
  text << " " << what << " " << std::hex << std::setfill('0');
  for (const std::uint8_t byte : bytes) text << std::setw(2) << static_cast<unsigned>(byte);
  text << std::dec;
}

}  // namespace

State read_state(EVP_CIPHER_CTX* context) {
  State state;
  std::array<std::uint8_t, 16> iv{}, updated{};
  void* iv_pointer = nullptr;
  void* updated_pointer = nullptr;
  std::array params{
      OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_IV, iv.data(), iv.size()),
      OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_UPDATED_IV, updated.data(), updated.size()),
      OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_PADDING, &state.padding),
      OSSL_PARAM_construct_uint(OSSL_CIPHER_PARAM_NUM, &state.num),
      OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_KEYLEN, &state.key_bytes),
      OSSL_PARAM_construct_size_t(OSSL_CIPHER_PARAM_IVLEN, &state.iv_bytes),
      OSSL_PARAM_construct_end()};
  std::array pointers{OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_IV, &iv_pointer, 0),
                      OSSL_PARAM_construct_octet_ptr(OSSL_CIPHER_PARAM_UPDATED_IV, &updated_pointer, 0),
                      OSSL_PARAM_construct_end()};
  state.good = EVP_CIPHER_CTX_get_params(context, params.data()) +
               2 * EVP_CIPHER_CTX_get_params(context, pointers.data());
  state.iv = octets(params[0]);
  state.updated_iv = octets(params[1]);
  state.iv_pointer = octets(pointers[0]);
  state.updated_iv_pointer = octets(pointers[1]);
  return state;
}

std::string describe(const State& state) {
  std::ostringstream text;
  text << "returned " << state.good;
  hex(text, "iv", state.iv);
  hex(text, "or", state.iv_pointer);
  hex(text, "updated-iv", state.updated_iv);
  hex(text, "or", state.updated_iv_pointer);
  text << " num " << state.num << " padding " << state.padding << " keylen " << state.key_bytes << " ivlen "
       << state.iv_bytes;
  return text.str();
}

Case::Case(const Library& ours, const Library& reference, const std::string& name, std::uint64_t seed,
           std::size_t largest)
    : random_(seed),
      largest_(largest),
      ours_cipher_(ours.cipher(name)),
      reference_cipher_(reference.cipher(name)),
      ours_(EVP_CIPHER_CTX_new()),
      reference_(EVP_CIPHER_CTX_new()),
      mode_(EVP_CIPHER_get_mode(reference_cipher_.get())),
      block_(static_cast<std::size_t>(EVP_CIPHER_get_block_size(reference_cipher_.get()))),
      iv_bytes_(static_cast<std::size_t>(EVP_CIPHER_get_iv_length(reference_cipher_.get()))),
      key_(static_cast<std::size_t>(EVP_CIPHER_get_key_length(reference_cipher_.get()))),
      is_ours_(ours.provider_name() == "sunxi") {}

std::string Case::run() {
  play();
  return trouble_.empty() ? "" : trouble_ + "\n" + log_.str();
}

void Case::compare(const std::string& what, const Answer& a, const Answer& b) {
  if (a == b) return;
  std::ostringstream text;
  text << what << ": returned " << a.good << " and " << a.bytes << " bytes instead of " << b.good << " and "
       << b.bytes;
  const auto different = std::mismatch(a.data.begin(), a.data.end(), b.data.begin(), b.data.end());
  text << ", first difference at byte " << different.first - a.data.begin();
  complain(text.str());
}

void Case::compare_state(const std::string& where) {
  const State a = read_state(ours_.get());
  const State b = read_state(reference_.get());
  if (a != b)
    complain("context parameters differ " + where + ":\n  " + describe(a) + "\n  instead of\n  " +
             describe(b));
}

void Case::fresh_key() {
  random_.fill(key_.data(), key_.size());
  // Weak for DES, one key for all three of EDE.
  if (mode_ != EVP_CIPH_XTS_MODE && random_.one_in(10)) std::fill(key_.begin(), key_.end(), key_[0]);
}

void Case::fresh_iv() {
  random_.fill(iv_.data(), iv_.size());
  if (mode_ != EVP_CIPH_CTR_MODE || !random_.one_in(3)) return;
  // A counter that will soon carry out of its low 32, 64 or 128 bits.
  const std::size_t low = random_.of(std::array<std::size_t, 3>{4, 8, 16});
  std::fill(iv_.end() - static_cast<std::ptrdiff_t>(low), iv_.end(), std::uint8_t{0xff});
  iv_.back() = static_cast<std::uint8_t>(0xff - random_.in(0, 70));
}

void Case::set_padding(bool on) {
  padding_ = on;
  both(on ? "padding on" : "padding off",
       [&](EVP_CIPHER_CTX* c, EVP_CIPHER*) { return EVP_CIPHER_CTX_set_padding(c, on ? 1 : 0); });
}

void Case::set_min_bytes() {
  std::size_t bytes = random_.of(std::array<std::size_t, 7>{0, 1, 8, 16, 100, 512, SIZE_MAX});
  std::array params{OSSL_PARAM_construct_size_t("sunxi-min-bytes", &bytes), OSSL_PARAM_construct_end()};
  log_ << "sunxi-min-bytes " << bytes << "\n";
  if (EVP_CIPHER_CTX_set_params(ours_.get(), params.data()) == 0) complain("sunxi-min-bytes refused");
}

Answer Case::data_call(bool update, const std::uint8_t* data, std::size_t bytes, int shift) {
  const std::string what = update ? "update" : "cipher";
  const bool own = shift <= 0;
  const std::size_t ahead = own ? static_cast<std::size_t>(-shift) : 0;
  const std::size_t in_offset = random_.in(0, 17) + ahead;
  const std::size_t out_offset = own ? in_offset - ahead : random_.in(0, 17);
  log_ << what << " " << bytes << (own ? " in place" : "") << " at " << in_offset << "/" << out_offset
       << "\n";
  const std::size_t extra = block_ > 1 ? block_ : 0;  // what EVP says that there is
  const auto one = [&](EVP_CIPHER_CTX* context) {
    std::vector<std::uint8_t> in(in_offset + bytes + 64, before);
    std::copy(data, data + bytes, in.begin() + static_cast<std::ptrdiff_t>(in_offset));
    std::vector<std::uint8_t> out(own ? 0 : out_offset + bytes + 64, elsewhere);
    const std::uint8_t* from = in.data() + in_offset;
    auto& written = own ? in : out;
    std::uint8_t* to = written.data() + out_offset;
    Answer answer;
    if (update) {
      answer.good = EVP_CipherUpdate(context, to, &answer.bytes, from, static_cast<int>(bytes));
    } else {
      answer.bytes = EVP_Cipher(context, to, from, static_cast<unsigned int>(bytes));
      answer.good = answer.bytes >= 0 ? 1 : 0;
    }
    if (answer.good == 0) answer.bytes = 0;
    if (static_cast<std::size_t>(answer.bytes) > bytes + extra) {
      complain(what + ": more output than there is room for");
      answer.bytes = 0;
    }
    answer.data.assign(to, to + answer.bytes);
    const auto untouched = [&](std::size_t begin, std::size_t end) {
      return std::all_of(written.begin() + static_cast<std::ptrdiff_t>(begin),
                         written.begin() + static_cast<std::ptrdiff_t>(end),
                         [&](std::uint8_t b) { return b == (own ? before : elsewhere); });
    };
    const std::size_t end = (own ? in_offset : out_offset) + bytes + extra;
    if (!untouched(0, out_offset) || !untouched(end, written.size()))
      complain(what + ": written outside of the output");
    if (!own && !std::equal(data, data + bytes, from)) complain(what + ": input changed");
    return answer;
  };
  const Answer a = one(ours_.get());
  Answer b = one(reference_.get());
  compare(what, a, b);
  return b;
}

Answer Case::final_call() {
  log_ << "final\n";
  const auto one = [&](EVP_CIPHER_CTX* context) {
    std::array<std::uint8_t, 64> out{};
    Answer answer;
    answer.good = EVP_CipherFinal_ex(context, out.data(), &answer.bytes);
    if (answer.good == 0) answer.bytes = 0;
    answer.data.assign(out.begin(), out.begin() + answer.bytes);
    return answer;
  };
  const Answer a = one(ours_.get());
  Answer b = one(reference_.get());
  compare("final", a, b);
  return b;
}

}  // namespace sunxi::test
