// SPDX-License-Identifier: Apache-2.0
// Runs NIST's response files (CAVP: AESVS, TDES, XTS and SHAVS) and files of their form through the module.
//
// vectors MODULE-DIRECTORY BACKEND EXPECTED FILE...
//
// EXPECTED are the algorithms, separated by commas, whose whole blocks must all go through BACKEND; "" for
// none. The files tell the algorithm by their path: .../AES/CBC/CBCMMT128.rsp, .../SHA2/SHA256LongMsg.rsp. A
// vector of triple DES with equal keys is one of DES-EDE and DES as well. Of a Monte Carlo test of a digest,
// 1000 messages for each case, a backend gets only the first cases. Environment: the module's, e.g.
// SUNXI_MIN_BYTES=0.
//
// Prints a line for each algorithm: "through" counts cases of which BACKEND did every whole block.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/evp.h"

namespace {

using namespace sunxi::test;
using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(const std::string& hex) {
  if (hex.size() % 2 != 0) throw std::runtime_error("odd number of hexadecimal digits: " + hex);
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    std::size_t used = 0;
    bytes.push_back(static_cast<std::uint8_t>(std::stoul(hex.substr(i, 2), &used, 16)));
    if (used != 2) throw std::runtime_error("not hexadecimal: " + hex);
  }
  return bytes;
}

// One record of a file: its fields by lower-case name.
struct Record {
  std::string place;  // file:line, of its first field
  bool encrypt = true;
  std::map<std::string, std::string> fields;

  [[nodiscard]] bool has(const char* name) const { return fields.count(name) != 0; }
  // The first of the names that is there.
  [[nodiscard]] std::string text(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (const auto found = fields.find(name); found != fields.end()) return found->second;
    }
    throw std::runtime_error(place + ": no " + *names.begin());
  }
};

std::vector<Record> read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Record> records;
  Record record;
  bool encrypt = true;
  const auto finish = [&] {
    if (record.has("count")) records.push_back(record);
    record = {};
  };
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    line.erase(std::remove_if(line.begin(), line.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
               line.end());
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      finish();
      encrypt = line == "[ENCRYPT]";
      if (!encrypt && line != "[DECRYPT]") throw std::runtime_error(path + ": unknown section " + line);
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) throw std::runtime_error(path + ": not a field: " + line);
    std::string name = line.substr(0, equals);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == "count") finish();
    if (record.fields.empty()) record.place = path + ":" + std::to_string(number);
    record.encrypt = encrypt;
    record.fields[name] = line.substr(equals + 1);
  }
  finish();
  if (records.empty()) throw std::runtime_error("no vectors in " + path);
  return records;
}

// What EVP is asked to do.
struct Case {
  std::string algorithm;
  Bytes key, iv, in, expected;
};

std::string mode_of(const std::string& path) {
  for (const char* mode : {"ECB", "CBC", "CTR", "XTS"}) {
    if (path.find(std::string("/") + mode + "/") != std::string::npos) return mode;
  }
  throw std::runtime_error("no mode in the path " + path);
}

Bytes joined(const Bytes& a, const Bytes& b, const Bytes& c = {}) {
  Bytes all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// XTS numbers its data units; the tweak is the number, low byte first (IEEE 1619).
Bytes tweak(const Record& record) {
  if (record.has("i")) return bytes_of(record.fields.at("i"));
  Bytes bytes(16);
  const std::uint64_t number = std::stoull(record.text({"dataunitseqnumber"}));
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return bytes;
}

// The cases that a record stands for.
std::vector<Case> cases_of(const Record& record, const std::string& path) {
  const std::string mode = mode_of(path);
  Case base;
  base.in = bytes_of(record.text({"plaintext", "pt"}));
  base.expected = bytes_of(record.text({"ciphertext", "ct"}));
  if (!record.encrypt) std::swap(base.in, base.expected);
  if (mode == "XTS") {
    base.iv = tweak(record);
  } else if (mode != "ECB") {
    base.iv = bytes_of(record.text({"iv"}));
  }
  std::vector<Case> cases;
  const auto add = [&](const std::string& cipher, const Bytes& key) {
    cases.push_back(base);
    cases.back().algorithm = cipher + "-" + mode;
    cases.back().key = key;
  };
  if (path.find("/AES/") != std::string::npos) {
    const Bytes key = bytes_of(record.text({"key"}));
    add("AES-" + std::to_string(key.size() * (mode == "XTS" ? 4 : 8)), key);
  } else if (path.find("/3DES/") != std::string::npos) {
    const Bytes one = bytes_of(record.text({"key1", "keys"}));
    const Bytes two = bytes_of(record.text({"key2", "keys"}));
    const Bytes three = bytes_of(record.text({"key3", "keys"}));
    add("DES-EDE3", joined(one, two, three));
    if (one == three) add("DES-EDE", joined(one, two));
    if (one == two && two == three) add("DES", one);
  } else {
    throw std::runtime_error("no cipher in the path " + path);
  }
  return cases;
}

Bytes crypt(const EVP_CIPHER* cipher, bool encrypt, const Case& what) {
  const CipherContextPtr context(EVP_CIPHER_CTX_new());
  if (static_cast<std::size_t>(EVP_CIPHER_get_key_length(cipher)) != what.key.size() ||
      static_cast<std::size_t>(EVP_CIPHER_get_iv_length(cipher)) != what.iv.size())
    throw std::runtime_error("key or IV of another length");
  Bytes out(what.in.size() + 32);
  int bytes = 0;
  int rest = 0;
  if (EVP_CipherInit_ex2(context.get(), cipher, what.key.data(), what.iv.empty() ? nullptr : what.iv.data(),
                         encrypt ? 1 : 0, nullptr) == 0 ||
      EVP_CIPHER_CTX_set_padding(context.get(), 0) == 0 ||
      EVP_CipherUpdate(context.get(), out.data(), &bytes, what.in.data(), static_cast<int>(what.in.size())) ==
          0 ||
      EVP_CipherFinal_ex(context.get(), out.data() + bytes, &rest) == 0)
    throw std::runtime_error("EVP fails: " + errors());
  out.resize(static_cast<std::size_t>(bytes + rest));
  return out;
}

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// The digest that a file is about, by our canonical name; empty if it is about a cipher.
std::string digest_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string file = path.substr(slash + 1);
  const auto in_folder = [&](const char* folder) {
    return path.find(std::string("/") + folder + "/") != std::string::npos;
  };
  if (in_folder("MD5")) return "MD5";
  if (in_folder("SHA1")) return "SHA1";
  if (!in_folder("SHA2")) return {};
  for (const char* bits : {"512_224", "512_256", "224", "256", "384", "512"}) {
    if (file.rfind(std::string("SHA") + bits, 0) != 0) continue;
    std::string name = std::string("SHA2-") + bits;
    std::replace(name.begin(), name.end(), '_', '/');
    return name;
  }
  throw std::runtime_error("no digest in the path " + path);
}

struct Tally {
  std::uint64_t cases = 0, whole = 0, through = 0, requests = 0, bits = 0;
};

class Runner {
 public:
  Runner(const std::string& module_path, std::string backend)
      : ours_("sunxi", module_path), backend_(std::move(backend)) {
    for (const std::string& name : ours_.ciphers()) ciphers_[name] = ours_.cipher(name);
    for (const std::string& name : ours_.digests()) digests_[name] = ours_.digest(name);
  }

  // False if a case failed.
  bool run(const std::string& path) {
    bool good = true;
    if (const std::string digest = digest_of(path); !digest.empty()) return run_digest(path, digest);
    for (const Record& record : read(path)) {
      // Three interleaved streams, a mode of its own (TCBC-I): neither we nor the default provider have it.
      if (record.has("iv1")) continue;
      for (const Case& one : cases_of(record, path)) {
        const auto cipher = ciphers_.find(one.algorithm);
        if (cipher == ciphers_.end()) continue;
        Tally& tally = tallies_[one.algorithm];
        if (record.has("dataunitlen") && std::stoul(record.fields.at("dataunitlen")) % 8 != 0) {
          ++tally.bits;
          continue;
        }
        good = run(cipher->second.get(), record, one, tally) && good;
      }
    }
    return good;
  }

  // Prints the counts. False if an expected algorithm did not go through.
  [[nodiscard]] bool report(const std::set<std::string>& expected) const {
    bool good = true;
    for (const std::string& name : expected) {
      if (tallies_.count(name) != 0 && tallies_.at(name).whole != 0) continue;
      std::printf("vectors: no case of %s\n", name.c_str());
      good = false;
    }
    for (const auto& [name, tally] : tallies_) {
      const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
      std::printf("vectors: %s %s cases %llu requests %llu through %llu of %llu\n", name.c_str(),
                  backend_.c_str(), number(tally.cases), number(tally.requests), number(tally.through),
                  number(tally.whole));
      if (tally.bits != 0)
        std::printf("vectors: %s: %llu more are left out: data units that are not whole bytes\n",
                    name.c_str(), number(tally.bits));
      if (expected.count(name) != 0 && tally.through < tally.whole) {
        std::printf("vectors: too few requests of %s went through %s\n", name.c_str(), backend_.c_str());
        good = false;
      }
    }
    return good;
  }

 private:
  bool run(const EVP_CIPHER* cipher, const Record& record, const Case& one, Tally& tally) {
    const std::uint64_t requests = count("requests");
    const std::uint64_t bytes = count("bytes");
    Bytes got;
    try {
      got = crypt(cipher, record.encrypt, one);
    } catch (const std::exception& problem) {
      std::printf("%s: %s: %s\n", record.place.c_str(), one.algorithm.c_str(), problem.what());
      return false;
    }
    const std::size_t block = one.algorithm[0] == 'A' ? 16 : 8;
    ++tally.cases;
    tally.requests += count("requests") - requests;
    // What is left of a stream's last block is software's; a data unit of XTS is done as a whole, or, where
    // the interface takes whole blocks only and the unit has a part of one, not at all.
    const bool unit = one.algorithm.find("XTS") != std::string::npos;
    const bool refused = unit && backend_ == "cryptodev" && one.in.size() % block != 0;
    if (one.in.size() >= block && !refused) {
      const std::size_t wanted = unit ? one.in.size() : one.in.size() / block * block;
      ++tally.whole;
      if (count("bytes") - bytes >= wanted) ++tally.through;
    }
    if (got == one.expected) return true;
    std::printf("%s: %s: wrong result\n", record.place.c_str(), one.algorithm.c_str());
    return false;
  }

  // SHAVS: messages with their digests; or a seed, and the digest of the last of 1000 messages, each of which
  // is made of the three digests before it.
  bool run_digest(const std::string& path, const std::string& name) {
    const auto found = digests_.find(name);
    if (found == digests_.end()) return true;
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    bool good = true;
    std::uint64_t vectors = 0;
    std::size_t number = 0;
    int chains = 0;
    std::size_t bits = 0;
    std::string message;
    Bytes seed;
    for (std::string line; std::getline(file, line);) {
      ++number;
      const std::size_t equals = line.find('=');
      if (line.empty() || line[0] == '#' || line[0] == '[' || equals == std::string::npos) continue;
      const std::string field = trimmed(line.substr(0, equals));
      const std::string value = trimmed(line.substr(equals + 1));
      if (field == "Len") bits = std::stoul(value);
      if (field == "Msg") message = value;
      if (field == "Seed") seed = bytes_of(value);
      if (field != "MD") continue;
      const std::string place = path + ":" + std::to_string(number);
      const Bytes expected = bytes_of(value);
      ++vectors;
      if (seed.empty()) {
        Bytes in = bytes_of(message);
        if (bits == 0) in.clear();  // "00" stands for nothing
        if (in.size() * 8 != bits) throw std::runtime_error(place + ": not whole bytes");
        good = run_messages(
                   place, name, 1, [&](Bytes&) { return in; }, expected) &&
               good;
      } else if (backend_ == "software" || ++chains <= 3) {
        Bytes a = seed;
        Bytes b = seed;
        Bytes c = seed;
        good = run_messages(
                   place, name, 1000,
                   [&](Bytes& last) {
                     if (!last.empty()) {
                       a = b;
                       b = c;
                       c = last;
                     }
                     return joined(a, b, c);
                   },
                   expected) &&
               good;
        seed = expected;
      }
    }
    if (vectors == 0) throw std::runtime_error("no vectors in " + path);
    return good;
  }

  // One case: `next` makes a message from the digest of the one before.
  template <class Next>
  bool run_messages(const std::string& place, const std::string& name, int messages, Next&& next,
                    const Bytes& expected) {
    const EVP_MD* digest = digests_.at(name).get();
    const auto block = static_cast<std::size_t>(EVP_MD_get_block_size(digest));
    const std::uint64_t requests = count("requests");
    const std::uint64_t bytes = count("bytes");
    std::uint64_t wanted = 0;
    Bytes got;
    for (int i = 0; i < messages; ++i) {
      const Bytes in = next(got);
      wanted += in.size() / block * block;
      got.resize(static_cast<std::size_t>(EVP_MD_get_size(digest)));
      if (EVP_Digest(in.data(), in.size(), got.data(), nullptr, digest, nullptr) != 1) {
        std::printf("%s: %s: %s\n", place.c_str(), name.c_str(), errors().c_str());
        return false;
      }
    }
    Tally& tally = tallies_[name];
    ++tally.cases;
    tally.requests += count("requests") - requests;
    if (wanted != 0) {
      ++tally.whole;
      if (count("bytes") - bytes >= wanted) ++tally.through;
    }
    if (got == expected) return true;
    std::printf("%s: %s: wrong result\n", place.c_str(), name.c_str());
    return false;
  }

  [[nodiscard]] std::uint64_t count(const char* what) const {
    return ours_.count("sunxi." + backend_ + "." + what);
  }

  Library ours_;
  std::string backend_;
  std::map<std::string, CipherPtr> ciphers_;
  std::map<std::string, DigestPtr> digests_;
  std::map<std::string, Tally> tallies_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s MODULE-DIRECTORY BACKEND EXPECTED FILE...\n", argv[0]);
    return 2;
  }
  try {
    std::set<std::string> expected;
    std::istringstream names(argv[3]);
    for (std::string name; std::getline(names, name, ',');) expected.insert(name);
    Runner runner(argv[1], argv[2]);
    bool good = true;
    for (int i = 4; i < argc; ++i) good = runner.run(argv[i]) && good;
    return runner.report(expected) && good ? 0 : 1;
  } catch (const std::exception& problem) {
    std::printf("%s\n", problem.what());
    return 1;
  }
}
