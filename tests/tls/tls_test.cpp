// SPDX-License-Identifier: Apache-2.0
// CBC records of TLS and DTLS as libssl makes them, the module on either side and on both. Every connection
// is made twice with the same random numbers, once with the default provider alone, and every byte on the
// wire must be the same; so must be what a receiver says about a record that was damaged on its way.
//
// Environment: SUNXI_TEST_BACKEND, the backend that must have served (default: software); SUNXI_TEST_STRIDE,
// of the many like cases only every so many-th is run, for slow machines (default: 1).
#include "tests/support/catch.h"
#include "tests/tls/connection.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <random>
#include <set>

namespace sunxi::test {
namespace {

constexpr const char* module_directory = SUNXI_MODULE_DIRECTORY;

std::string environment(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : value;
}

const std::string& backend() {
  static const std::string name = environment("SUNXI_TEST_BACKEND", "software");
  return name;
}

std::size_t min_bytes() {
  return std::strtoul(environment("SUNXI_MIN_BYTES", "512").c_str(), nullptr, 10);
}

// Of many like cases, whether this one is run.
class Stride {
 public:
  explicit Stride(std::size_t times = 1) : stride_(wanted() == 1 ? 1 : wanted() * times) {}
  bool skips() { return count_++ % stride_ != 0; }

 private:
  static std::size_t wanted() {
    return std::getenv("SUNXI_TEST_CASES") != nullptr  // a long campaign
               ? 1
               : std::strtoul(environment("SUNXI_TEST_STRIDE", "1").c_str(), nullptr, 10);
  }
  std::size_t stride_;
  std::size_t count_ = 0;
};

const std::vector<Identity>& identities() {
  static const std::vector<Identity> all = make_identities();
  return all;
}

// All that may be an end of a connection. Client and server have libraries, and random numbers, of their own.
struct Sides {
  Side plain_client, plain_server;
  Side our_client{module_directory}, our_server{module_directory};

  Sides() {
    // With these libssl would never call the plain cipher of anybody.
    if (EVP_CIPHER* stitched = EVP_CIPHER_fetch(plain_client.library(), "AES-128-CBC-HMAC-SHA1", nullptr)) {
      EVP_CIPHER_free(stitched);
      FAIL("stitched ciphers: run this with OPENSSL_ia32cap=~0x200000200000000");
    }
  }
  [[nodiscard]] const Side& client(bool ours) const { return ours ? our_client : plain_client; }
  [[nodiscard]] const Side& server(bool ours) const { return ours ? our_server : plain_server; }
};

// The SSL_CTX of all sides for one variant.
class Contexts {
 public:
  Contexts(const Sides& sides, const Variant& variant) : sides_(sides), variant_(variant) {
    for (const bool ours : {false, true}) {
      const Side& client = sides.client(ours);
      const Side& server = sides.server(ours);
      clients_[ours ? 1 : 0] = make_context(client.library(), client.properties(), false, variant, {});
      servers_[ours ? 1 : 0] =
          make_context(server.library(), server.properties(), true, variant, identities());
    }
  }
  [[nodiscard]] std::unique_ptr<Connection> connect(bool our_client, bool our_server,
                                                    std::uint64_t seed) const {
    sides_.client(our_client).seed(2 * seed);
    sides_.server(our_server).seed(2 * seed + 1);
    return std::make_unique<Connection>(clients_[our_client ? 1 : 0].get(),
                                        servers_[our_server ? 1 : 0].get(), variant_);
  }

 private:
  const Sides& sides_;
  Variant variant_;
  std::array<SslContextPtr, 2> clients_, servers_;
};

Bytes pattern(std::size_t size, std::uint64_t seed) {
  std::minstd_rand random(static_cast<std::uint_fast32_t>(seed + 1));
  Bytes data(size);
  std::generate(data.begin(), data.end(), [&] { return static_cast<std::uint8_t>(random() >> 8U); });
  return data;
}

// Counts the records that a backend cannot but have been asked for.
class LongRecords {
 public:
  explicit LongRecords(const Variant& variant) : variant_(variant) {}
  void add(std::size_t payload) {
    // 64: header, MAC and some padding, which may or may not belong to the request.
    if (record_size(variant_, payload) >= min_bytes() + 64) ++count_;
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  Variant variant_;
  std::size_t count_ = 0;
};

// Sends data from one side, checks what arrives, and that every record has the size that the kind of the
// record asks for.
void transfer(Connection& connection, const Variant& variant, bool from_client, std::size_t size,
              LongRecords& long_records) {
  Peer& from = from_client ? connection.client : connection.server;
  Peer& to = from_client ? connection.server : connection.client;
  const Bytes data = pattern(size, size);
  to.received.clear();
  const std::size_t first = connection.records.size();
  from.send(data);
  connection.exchange();
  // Not compared by Catch, which would print all of it.
  const bool equal = to.received == data;
  REQUIRE(equal);
  const std::size_t count = connection.records.size() - first;
  if (variant.version == TLS1_VERSION) {  // an empty record first, against the known IV
    REQUIRE(count == 2);
    REQUIRE(connection.records[first].size() == record_size(variant, 0));
  } else {
    REQUIRE(count == 1);
  }
  REQUIRE(connection.records.back().size() == record_size(variant, size));
  long_records.add(size);
}

// Runs the script over all four pairs of sides. Pairs with sunxi in them must write what the others write,
// and its backend must have served every record long enough.
void compare(const Sides& sides, const Variant& variant, std::uint64_t seed, Stride& stride,
             const std::function<void(Connection&, LongRecords&)>& script) {
  std::vector<std::array<bool, 2>> pairs;
  for (const std::array<bool, 2> pair : {std::array{true, false}, {false, true}, {true, true}}) {
    if (!stride.skips()) pairs.push_back(pair);
  }
  if (pairs.empty()) return;
  pairs.insert(pairs.begin(), {false, false});
  const Contexts contexts(sides, variant);
  std::vector<Record> reference;
  for (const auto [our_client, our_server] : pairs) {
    INFO(name(variant) << (our_client ? ", our client" : "") << (our_server ? ", our server" : ""));
    const std::uint64_t before_client = sides.our_client.requests(backend());
    const std::uint64_t before_server = sides.our_server.requests(backend());
    LongRecords long_records(variant);
    {
      const std::unique_ptr<Connection> connection = contexts.connect(our_client, our_server, seed);
      script(*connection, long_records);
      if (!our_client && !our_server) {
        reference = connection->records;
      } else {
        REQUIRE(connection->records.size() == reference.size());
        for (std::size_t i = 0; i < reference.size(); ++i) {
          INFO("record " << i << " of " << reference.size());
          const bool equal = connection->records[i] == reference[i];
          REQUIRE(equal);
        }
      }
    }  // software counts when a context goes
    if (our_client) REQUIRE(sides.our_client.requests(backend()) >= before_client + long_records.count());
    if (our_server) REQUIRE(sides.our_server.requests(backend()) >= before_server + long_records.count());
  }
}

TEST_CASE("every suite, version and kind of record, on either side and on both") {
  const Sides sides;
  std::set<std::string> suites;
  Stride stride;
  std::uint64_t seed = 1;
  for (const Variant& variant : cbc_variants()) {
    suites.insert(variant.suite);
    compare(sides, variant, ++seed, stride, [&](Connection& connection, LongRecords& long_records) {
      for (const std::size_t size :
           {std::size_t{1}, std::size_t{700}, static_cast<std::size_t>(16 + seed % 97)}) {
        transfer(connection, variant, true, size, long_records);
        transfer(connection, variant, false, size + 5, long_records);
      }
    });
  }
  // RSA, DHE-RSA, ECDHE-RSA, ECDHE-ECDSA with 128 and 256 bits; with fewer this library has been cut down.
  CHECK(suites.size() >= 14);
}

TEST_CASE("records of 1 to 16384 bytes") {
  const Sides sides;
  Stride stride;
  for (const Variant& variant : record_variants()) {
    std::mt19937 random(7);
    std::vector<std::size_t> sizes{1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 511, 512, 513, 16383, 16384};
    for (int i = 0; i < 12; ++i) sizes.push_back(1 + random() % 1024);
    for (int i = 0; i < 2; ++i) sizes.push_back(1 + random() % 16384);
    std::shuffle(sizes.begin(), sizes.end(), random);
    compare(sides, variant, 1, stride, [&](Connection& connection, LongRecords& long_records) {
      for (std::size_t i = 0; i < sizes.size(); ++i)
        transfer(connection, variant, i % 2 == 0, sizes[i], long_records);
    });
  }
}

TEST_CASE("data in several records, without empty ones") {
  const Sides sides;
  Stride stride;
  for (const Variant& variant : record_variants()) {
    if (is_datagram(variant.version)) continue;
    compare(sides, variant, 2, stride, [&](Connection& connection, LongRecords& long_records) {
      for (Peer* peer : {&connection.client, &connection.server}) {
        SSL_set_options(peer->ssl(), SSL_OP_DONT_INSERT_EMPTY_FRAGMENTS);
        SSL_set_max_send_fragment(peer->ssl(), 512);
        SSL_set_split_send_fragment(peer->ssl(), 512);
      }
      const Bytes data = pattern(3333, 3);
      connection.client.send(data);
      connection.server.send(data);
      connection.exchange();
      for (const Peer* peer : {&connection.client, &connection.server}) {
        const bool equal = peer->received == data;
        REQUIRE(equal);
      }
      for (int i = 0; i < 12; ++i) long_records.add(512);
    });
  }
}

TEST_CASE("renegotiation") {
  const Sides sides;
  Stride stride;
  for (const Variant& variant : record_variants()) {
    compare(sides, variant, 3, stride, [&](Connection& connection, LongRecords& long_records) {
      transfer(connection, variant, true, 1000, long_records);
      connection.renegotiate(connection.client);
      transfer(connection, variant, true, 1001, long_records);
      transfer(connection, variant, false, 1002, long_records);
      connection.renegotiate(connection.server);
      transfer(connection, variant, true, 1003, long_records);
      transfer(connection, variant, false, 600, long_records);
    });
  }
}

struct Damage {
  std::string name;
  bool only_body;  // type, version, sequence number and length are as they were
  std::function<Record(Record)> apply;
};

void set_length(Record& record, std::size_t header, std::size_t length) {
  record[header - 2] = static_cast<std::uint8_t>(length >> 8U);
  record[header - 1] = static_cast<std::uint8_t>(length);
}

// What can happen to a record of that many bytes.
std::vector<Damage> damages(std::size_t size, std::size_t header, std::mt19937& random) {
  std::vector<Damage> all;
  const auto flip = [&](std::size_t at, unsigned bit) {
    all.push_back({"bit " + std::to_string(bit) + " of byte " + std::to_string(at), at >= header,
                   [at, bit](Record record) {
                     record[at] = static_cast<std::uint8_t>(record[at] ^ 1U << bit);
                     return record;
                   }});
  };
  // The last block ends with the padding and, without encrypt-then-mac, part of the MAC; what is flipped in
  // the block before comes out of the last one.
  for (std::size_t back = 1; back <= std::min<std::size_t>(80, size); ++back) flip(size - back, random() % 8);
  for (std::size_t at = 0; at < header + 20; ++at) flip(at, random() % 8);
  for (int i = 0; i < 20; ++i) flip(random() % size, random() % 8);
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16},
                                   std::size_t{17}, std::size_t{32}, std::size_t{36}, std::size_t{48},
                                   std::size_t{52}, std::size_t{64}, std::size_t{80}, std::size_t{81}}) {
    all.push_back({"cut to " + std::to_string(length), false, [header, length](Record record) {
                     if (record.size() > header + length) record.resize(header + length);
                     set_length(record, header, record.size() - header);
                     return record;
                   }});
  }
  for (const std::size_t less : {1, 15, 16, 17, 32, 48, 64}) {
    all.push_back({"last " + std::to_string(less) + " cut off", false, [header, less](Record record) {
                     record.resize(std::max(header, record.size() - std::min(less, record.size())));
                     set_length(record, header, record.size() - header);
                     return record;
                   }});
    all.push_back({std::to_string(less) + " more", false, [header, less](Record record) {
                     record.resize(record.size() + less, 0x5a);
                     set_length(record, header, record.size() - header);
                     return record;
                   }});
  }
  for (const int change : {-17, -16, -1, 1, 16, 17}) {
    all.push_back({"length " + std::to_string(change), false, [header, change](Record record) {
                     set_length(record, header,
                                static_cast<std::size_t>(
                                    std::max(0, static_cast<int>(record.size() - header) + change)));
                     return record;
                   }});
  }
  for (const std::size_t length : {16384 + 256, 16384 + 2048, 16384 + 2049, 65535}) {
    all.push_back({"length " + std::to_string(length), false, [header, length](Record record) {
                     record.resize(header + length, 0x33);
                     set_length(record, header, length);
                     return record;
                   }});
  }
  all.push_back({"twice", false, [](Record record) {
                   const Record once = record;
                   record.insert(record.end(), once.begin(), once.end());
                   return record;
                 }});
  all.push_back({"first two blocks exchanged", true, [header](Record record) {
                   const auto at = record.begin() + static_cast<std::ptrdiff_t>(header);
                   std::swap_ranges(at, at + 16, at + 16);
                   return record;
                 }});
  all.push_back({"none", false, [](Record record) { return record; }});
  return all;
}

// What a receiver says and does when it gets a good record, a damaged one, and two good ones.
struct Outcome {
  std::vector<std::string> steps;
  Record damaged;
};

Outcome receive_damaged(const Contexts& contexts, bool ours, bool server_receives, std::uint64_t seed,
                        std::size_t payload, const Damage& damage) {
  const std::unique_ptr<Connection> connection =
      contexts.connect(ours && !server_receives, ours && server_receives, seed);
  Peer& from = server_receives ? connection->client : connection->server;
  Peer& to = server_receives ? connection->server : connection->client;
  Outcome outcome;
  for (int step = 0; step < 4; ++step) {
    from.send(pattern(step == 1 ? payload : 600, static_cast<std::uint64_t>(step)));
    std::vector<Record> records = from.take();
    if (step == 1) outcome.damaged = records.back() = damage.apply(records.back());
    for (const Record& record : records) {
      to.received.clear();
      to.alerts.clear();
      to.give(record);
      unsigned sum = 0;
      for (const std::uint8_t byte : to.received) sum = sum * 31 + byte;
      outcome.steps.push_back(std::to_string(step) + ": " + std::to_string(to.received.size()) + " bytes " +
                              std::to_string(sum) + ", " + to.alerts + to.last_failure + ", shutdown " +
                              std::to_string(SSL_get_shutdown(to.ssl())) + ", " + SSL_state_string(to.ssl()));
    }
  }
  // What it has written since, alerts that is.
  for (const Record& record : to.take()) outcome.steps.push_back("wrote " + std::to_string(record.size()));
  return outcome;
}

TEST_CASE("damaged records: the default provider's alerts and errors") {
  const Sides sides;
  Stride stride(4);
  const std::uint64_t before = sides.our_client.requests(backend()) + sides.our_server.requests(backend());
  std::uint64_t seed = 100;
  std::size_t cases = 0;
  for (const Variant& variant : record_variants()) {
    const Contexts contexts(sides, variant);
    const bool datagrams = is_datagram(variant.version);
    std::mt19937 random(11);
    for (const std::size_t payload : {37, 600}) {
      const std::size_t size = record_size(variant, payload);
      for (const Damage& damage : damages(size, datagrams ? 13 : 5, random)) {
        if (stride.skips()) continue;
        const bool server_receives = ++seed % 2 == 0;
        INFO(name(variant) << ", " << payload << " bytes, " << damage.name
                           << (server_receives ? ", at the server" : ", at the client"));
        const Outcome theirs = receive_damaged(contexts, false, server_receives, seed, payload, damage);
        const Outcome ours = receive_damaged(contexts, true, server_receives, seed, payload, damage);
        const bool same_record = theirs.damaged == ours.damaged;
        REQUIRE(same_record);
        CHECK(ours.steps == theirs.steps);
        ++cases;
        // With encrypt-then-mac, versions of libssl differ on DTLS: some end the connection.
        if (!damage.only_body || (datagrams && variant.encrypt_then_mac)) continue;
        // So that equality means something: the standards' own answer.
        std::string all;
        for (const std::string& step : ours.steps) all += step + "\n";
        INFO(all);
        if (datagrams) {
          CHECK(all.find("alert") == std::string::npos);
          CHECK(all.find("sent") == std::string::npos);
          CHECK(all.find("3: 600 bytes") != std::string::npos);
        } else {
          CHECK(all.find("sent fatal bad record mac") != std::string::npos);
          CHECK(all.find("3: 0 bytes") != std::string::npos);
        }
      }
    }
  }
  // The first record is always whole and long enough.
  CHECK(sides.our_client.requests(backend()) + sides.our_server.requests(backend()) >= before + cases);
}

}  // namespace
}  // namespace sunxi::test
