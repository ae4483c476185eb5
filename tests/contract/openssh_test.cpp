// SPDX-License-Identifier: Apache-2.0
// OpenSSH's ways with ciphers (cipher.c, packet.c, monitor_wrap.c of 9.2): IV first and key later, one
// EVP_Cipher for a packet or two with the first block alone, and the state exported in the middle of the
// connection to a context of another process.
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "provider/provider.h"
#include "tests/contract/case.h"
#include "tests/support/catch.h"
#include "tests/support/fake_backend.h"

namespace sunxi::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::array ssh_ciphers{"AES-128-CTR", "AES-192-CTR", "AES-256-CTR", "AES-128-CBC",
                                 "AES-192-CBC", "AES-256-CBC", "DES-EDE3-CBC"};

// One direction of a connection at one end.
class Stream {
 public:
  Stream(const Library& library, const std::string& name, const Bytes& key, const Bytes& iv, int encrypt)
      : cipher_(library.cipher(name)),
        block_(static_cast<std::size_t>(EVP_CIPHER_get_block_size(cipher_.get()))) {
    good_ = EVP_CipherInit(context_.get(), cipher_.get(), nullptr, iv.data(), encrypt) == 1;
    const int key_bytes = static_cast<int>(key.size());
    if (EVP_CIPHER_CTX_get_key_length(context_.get()) != key_bytes)
      good_ = good_ && EVP_CIPHER_CTX_set_key_length(context_.get(), key_bytes) == 1;
    good_ = good_ && EVP_CipherInit(context_.get(), nullptr, key.data(), nullptr, -1) == 1;
    if (block_ == 1) block_ = 16;  // what OpenSSH takes for CTR
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::size_t block() const { return block_; }

  // Empty after an error.
  Bytes crypt(const Bytes& data, bool first_block_alone) {
    Bytes out(data.size());
    const std::size_t first = first_block_alone ? block_ : data.size();
    if (!call(out.data(), data.data(), first)) return {};
    if (first != data.size() && !call(out.data() + first, data.data() + first, data.size() - first))
      return {};
    return out;
  }

  // As OpenSSH exports it, and in the two other ways that there are; empty if they differ.
  [[nodiscard]] Bytes iv() const {
    const auto bytes = static_cast<std::size_t>(EVP_CIPHER_CTX_get_iv_length(context_.get()));
    Bytes iv(bytes);
    if (EVP_CIPHER_CTX_get_updated_iv(context_.get(), iv.data(), bytes) != 1) return {};
    const State state = read_state(context_.get());
    return state.updated_iv == iv && state.updated_iv_pointer == iv ? iv : Bytes();
  }

 private:
  bool call(std::uint8_t* out, const std::uint8_t* in, std::size_t bytes) {
    return EVP_Cipher(context_.get(), out, in, static_cast<unsigned int>(bytes)) == static_cast<int>(bytes);
  }
  CipherPtr cipher_;
  CipherContextPtr context_{EVP_CIPHER_CTX_new()};
  std::size_t block_;
  bool good_ = false;
};

class Connection {
 public:
  Connection(const Library& ours, const Library& reference, const std::string& name, std::uint64_t seed)
      : random_(seed), ours_library_(ours), name_(name) {
    const CipherPtr cipher = reference.cipher(name);
    key_.resize(static_cast<std::size_t>(EVP_CIPHER_get_key_length(cipher.get())));
    iv_.resize(static_cast<std::size_t>(EVP_CIPHER_get_iv_length(cipher.get())));
    random_.fill(key_.data(), key_.size());
    random_.fill(iv_.data(), iv_.size());
    if (random_.one_in(2)) std::fill(iv_.begin() + 1, iv_.end(), std::uint8_t{0xff});
    encrypt_ = random_.one_in(2) ? 1 : 0;
    has_etm_ = random_.one_in(2);
    ours_.emplace(ours, name, key_, iv_, encrypt_);
    expected_.emplace(reference, name, key_, iv_, encrypt_);
  }

  // False at the first difference.
  bool packets(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!ours_->good() || !packet()) return false;
    }
    return true;
  }

  // The IV is what the default provider says; goes on in a context that knows only that and the key.
  bool hand_over() {
    const Bytes iv = ours_->iv();
    if (iv.empty() || iv != expected_->iv()) return false;
    ours_.emplace(ours_library_, name_, key_, iv, encrypt_);
    return ours_->good();
  }

  // In a child, while the parent waits.
  bool in_a_child() {
    const pid_t child = fork();
    if (child == 0) _exit(hand_over() && packets(6) && hand_over() && packets(2) ? 0 : 1);
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  [[nodiscard]] Random& random() { return random_; }

 private:
  bool packet() {
    const std::size_t block = ours_->block();
    std::size_t bytes = 0;
    switch (random_.in(0, 5)) {
      case 0:
        bytes = random_.in(420, 620);  // about the usual threshold
        break;
      case 1:
        bytes = random_.in(1, 32768 + 64);
        break;
      default:
        bytes = random_.in(1, 120);
        break;
    }
    Bytes data((bytes + block - 1) / block * block);
    random_.fill(data.data(), data.size());
    const bool first_alone = encrypt_ == 0 && !has_etm_;
    return ours_->crypt(data, first_alone) == expected_->crypt(data, first_alone) &&
           (!random_.one_in(3) || (!ours_->iv().empty() && ours_->iv() == expected_->iv()));
  }

  Random random_;
  const Library& ours_library_;
  std::string name_;
  Bytes key_, iv_;
  int encrypt_ = 1;
  bool has_etm_ = false;
  std::optional<Stream> ours_, expected_;
};

void connections(int each) {
  setenv("SUNXI_LOG", "off", 1);
  const Library ours("sunxi", initialise);
  const Library reference("default");
  for (const char* name : ssh_ciphers) {
    for (int i = 0; i < each; ++i) {
      INFO(name << " " << i);
      Connection connection(ours, reference, name, static_cast<std::uint64_t>(i) + 1);
      REQUIRE(connection.packets(connection.random().in(0, 8)));
      REQUIRE(connection.in_a_child());
      REQUIRE(connection.packets(4));
      REQUIRE(connection.hand_over());
      REQUIRE(connection.packets(8));
      REQUIRE(connection.in_a_child());
      REQUIRE(connection.hand_over());
      REQUIRE(connection.packets(2));
    }
  }
  for (const char* name : {"mmio", "cryptodev", "afalg"}) CHECK(fake_plan(name).contract_violations == 0);
}

class MinBytes {
 public:
  explicit MinBytes(const char* bytes) { setenv("SUNXI_MIN_BYTES", bytes, 1); }
  MinBytes(const MinBytes&) = delete;
  MinBytes& operator=(const MinBytes&) = delete;
  ~MinBytes() { unsetenv("SUNXI_MIN_BYTES"); }
};

TEST_CASE("OpenSSH over a backend that takes everything") {
  reset_fake_plans();
  fake_plan("afalg").exists = true;
  const MinBytes all("0");
  connections(10);
  CHECK(fake_plan("afalg").served_by[static_cast<std::size_t>(Mode::ctr)] > 300);
  CHECK(fake_plan("afalg").served_by[static_cast<std::size_t>(Mode::cbc)] > 300);
}

TEST_CASE("OpenSSH over a backend that takes what is long") {
  reset_fake_plans();
  fake_plan("afalg").exists = true;
  connections(10);
  CHECK(fake_plan("afalg").served_by[static_cast<std::size_t>(Mode::ctr)] > 100);
}

TEST_CASE("OpenSSH over backends that fail now and then") {
  for (const unsigned every : {2U, 3U, 5U}) {
    reset_fake_plans();
    fake_plan("mmio").exists = true;
    fake_plan("mmio").fails_every = every;
    const MinBytes all("0");
    connections(6);
    CHECK(fake_plan("mmio").served_by[static_cast<std::size_t>(Mode::ctr)] > 50);
  }
}

TEST_CASE("OpenSSH over two backends of which one is busy now and then") {
  reset_fake_plans();
  fake_plan("mmio").exists = true;
  fake_plan("mmio").fails_every = 2;
  fake_plan("afalg").exists = true;
  fake_plan("afalg").fails_every = 3;
  const MinBytes all("16");
  connections(6);
}

TEST_CASE("OpenSSH over software") {
  reset_fake_plans();
  connections(6);
}

}  // namespace
}  // namespace sunxi::test
