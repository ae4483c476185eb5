// SPDX-License-Identifier: Apache-2.0
// Messages of digests through a backend, and libcrypto's idea of them.
#pragma once

#include "tests/unit/backend/requests.h"

namespace backend_test {

struct Kernel {
  const char* name;
  DigestSpec spec;
  const EVP_MD* (*evp)();
};
inline const std::array hashes{
    Kernel{"md5", {Digest::md5, 64, 16}, EVP_md5},
    Kernel{"sha1", {Digest::sha1, 64, 20}, EVP_sha1},
    Kernel{"sha224", {Digest::sha224, 64, 28}, EVP_sha224},
    Kernel{"sha256", {Digest::sha256, 64, 32}, EVP_sha256},
    Kernel{"sha384", {Digest::sha384, 128, 48}, EVP_sha384},
    Kernel{"sha512", {Digest::sha512, 128, 64}, EVP_sha512},
};
inline const Kernel& sha256 = hashes[3];

inline Bytes reference(const Kernel& hash, const Bytes& message) {
  Bytes digest(hash.spec.digest_bytes);
  return EVP_Digest(message.data(), message.size(), digest.data(), nullptr, hash.evp(), nullptr) == 1
             ? digest
             : Bytes{};
}

// A message and libcrypto's idea of it.
struct Message {
  const Kernel* hash = &sha256;
  KeySlot slot;
  Bytes text;

  Outcome extend(Backend& backend, const Bytes& part) {
    const Outcome outcome = backend.extend(slot, hash->spec, part.data(), part.size());
    if (outcome == Outcome::served) {
      text.insert(text.end(), part.begin(), part.end());
    } else {
      text.clear();
    }
    return outcome;
  }
  // Whether the digest is right.
  bool conclude(Backend& backend) {
    Bytes digest(hash->spec.digest_bytes + 16U, 0xcc);
    Bytes expected = reference(*hash, text);
    expected.resize(digest.size(), 0xcc);
    const Outcome outcome = backend.conclude(slot, hash->spec, digest.data());
    text.clear();
    return outcome == Outcome::served && digest == expected && slot.session == nullptr;
  }
  Outcome lose(Backend& backend) {
    Bytes digest(hash->spec.digest_bytes);
    text.clear();
    return backend.conclude(slot, hash->spec, digest.data());
  }
  void abandon(Backend& backend) {
    backend.abandon(slot);
    text.clear();
  }
};

// Without Catch: for children and threads.
inline bool whole(Backend& backend, const Kernel& hash, Random& random, std::size_t length) {
  Message message{.hash = &hash, .slot = {}, .text = {}};
  return message.extend(backend, random.bytes(length)) == Outcome::served && message.conclude(backend);
}

inline void must_hash(Backend& backend, const Kernel& hash = sha256, std::size_t length = 1000) {
  Random random(length);
  INFO(hash.name << ", " << length << " bytes");
  CHECK(whole(backend, hash, random, length));
}

inline std::size_t some_length(Random& random) {
  const std::size_t kind = random.below(100);
  if (kind < 5) return 0;
  if (kind < 70) return 1 + random.below(300);
  if (kind < 97) return random.below(20000);
  return random.below(300000);
}

inline void random_messages(Backend& backend, std::size_t cases) {
  const std::uint64_t seed = setting("SUNXI_TEST_SEED", 1);
  INFO("seed " << seed);
  Random random(seed);
  std::array<Message, 12> messages;
  for (Message& message : messages) message.hash = &hashes[random.below(hashes.size())];
  std::array<std::size_t, 6> concluded{};
  std::size_t clones = 0;
  for (std::size_t number = 0; number < cases; ++number) {
    Message& message = messages[random.below(messages.size())];
    INFO("case " << number << ": " << message.hash->name << ", " << message.text.size() << " bytes");
    switch (random.below(8)) {
      case 0: {
        Message& other = messages[random.below(messages.size())];
        if (message.slot.session == nullptr || &other == &message) break;
        other.abandon(backend);
        other.hash = message.hash;
        if (backend.clone(message.slot, other.slot) != Outcome::served) FAIL("clone");
        other.text = message.text;
        ++clones;
        break;
      }
      case 1:
        message.abandon(backend);
        if (message.slot.session != nullptr) FAIL("not abandoned");
        message.hash = &hashes[random.below(hashes.size())];
        break;
      case 2:
      case 3:
        if (!message.conclude(backend)) FAIL("digest");
        ++concluded[static_cast<std::size_t>(message.hash - hashes.data())];
        message.hash = &hashes[random.below(hashes.size())];
        break;
      default: {
        // At any alignment.
        const std::size_t offset = random.below(70);
        const Bytes part = random.bytes(offset + some_length(random));
        if (backend.extend(message.slot, message.hash->spec, part.data() + offset, part.size() - offset) !=
            Outcome::served)
          FAIL("extend");
        message.text.insert(message.text.end(), part.begin() + static_cast<std::ptrdiff_t>(offset),
                            part.end());
      }
    }
  }
  for (Message& message : messages) {
    CHECK(message.conclude(backend));
  }
  if (cases < 1000) return;
  CHECK(clones > cases / 50);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    INFO(hashes[i].name);
    CHECK(concluded[i] > cases / 100);
  }
}

}  // namespace backend_test
