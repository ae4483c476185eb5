// SPDX-License-Identifier: Apache-2.0
// Digests: several contexts at once, split, duplicated, restarted and thrown away at random; and the same
// through the provider's own functions, with what EVP would not ask for.
#include <openssl/core_names.h>
#include <openssl/params.h>

#include <cstring>

#include "tests/contract/case.h"
#include "tests/contract/digest_functions.h"

namespace sunxi::test {
namespace {

// A backend that loses a longer message ends it with an error (docs); few cases go that far.
constexpr std::size_t kept_bytes = std::size_t{1} << 20U;
constexpr std::size_t few_bytes = 700'000, many_bytes = 3'000'000;

class DigestCase {
 public:
  DigestCase(const Library& ours, const Library& reference, const std::string& name, std::uint64_t seed,
             std::size_t largest)
      : ours_library_(ours),
        reference_library_(reference),
        name_(name),
        random_(seed),
        largest_(largest),
        most_(random_.one_in(150) ? many_bytes : few_bytes),
        ours_(ours.digest(name)),
        reference_(reference.digest(name)),
        bytes_(static_cast<std::size_t>(EVP_MD_get_size(reference_.get()))),
        block_(static_cast<std::size_t>(EVP_MD_get_block_size(reference_.get()))),
        is_ours_(ours.provider_name() == "sunxi") {}
  DigestCase(const DigestCase&) = delete;
  DigestCase& operator=(const DigestCase&) = delete;
  virtual ~DigestCase() = default;

  std::string run() {
    play();
    return trouble_.empty() ? "" : trouble_ + "\n" + log_.str();
  }

 protected:
  virtual void play() = 0;

  void complain(const std::string& what) {
    if (trouble_.empty()) trouble_ = what;
  }
  [[nodiscard]] bool fine() const noexcept { return trouble_.empty(); }

  // The bytes of an update. Messages that start long are those that a backend of whole messages takes.
  std::vector<std::uint8_t> data(bool first) {
    std::size_t bytes = random_.size(largest_);
    if (first && random_.one_in(5))
      bytes = random_.in(std::min<std::size_t>(largest_, 16384), std::min<std::size_t>(largest_, 50'000));
    if (most_ == many_bytes && random_.one_in(3)) bytes = random_.in(largest_ / 2, largest_);
    if (random_.one_in(4)) bytes = bytes / block_ * block_;  // whole blocks
    offset_ = random_.in(0, 17);
    std::vector<std::uint8_t> all(offset_ + bytes);
    random_.fill(all.data(), std::min<std::size_t>(all.size(), 4096));
    for (std::size_t at = 4096; at < all.size(); ++at)
      all[at] = static_cast<std::uint8_t>(all[at - 4096] + at / 4096);
    return all;
  }

  // Whether ours may fail where the reference does not.
  [[nodiscard]] bool may_be_lost(std::size_t message) const {
    return is_ours_ && message > kept_bytes && errors().find("could not go on") != std::string::npos;
  }

  const Library& ours_library_;
  const Library& reference_library_;
  std::string name_;
  Random random_;
  std::size_t largest_, most_;
  DigestPtr ours_, reference_;
  std::size_t bytes_, block_;
  bool is_ours_;
  std::size_t offset_ = 0;  // where data() begins
  std::string trouble_;
  std::ostringstream log_;
};

// ---- Through EVP -----------------------------------------------------------------------------------

enum class Stage : std::uint8_t { empty, running, finished };

struct Pair {
  DigestContextPtr ours{EVP_MD_CTX_new()}, reference{EVP_MD_CTX_new()};
  Stage stage = Stage::empty;
  std::size_t message = 0;  // bytes so far
};

class EvpCase final : public DigestCase {
 public:
  using DigestCase::DigestCase;

 private:
  void play() override {
    pairs_.resize(random_.in(2, 5));
    for (std::size_t steps = random_.in(4, 40); steps != 0 && fine(); --steps)
      step(random_.in(0, pairs_.size() - 1));
    for (std::size_t i = 0; i < pairs_.size() && fine(); ++i) {
      if (pairs_[i].stage == Stage::running) final(i);
    }
  }

  void step(std::size_t i) {
    Pair& pair = pairs_[i];
    switch (random_.in(0, 20)) {
      case 20:
        return hand_on(i);
      case 0:
        return init(i);
      case 1:
        return one_shot();
      case 2:
      case 3:
      case 4:
        return copy(i);
      case 5:
        log_ << i << ": reset\n";
        EVP_MD_CTX_reset(pair.ours.get());
        EVP_MD_CTX_reset(pair.reference.get());
        pair.stage = Stage::empty;
        return;
      case 6:
        log_ << i << ": new\n";
        pair = Pair();
        return;
      case 7:
        return parameters(i);
      case 8:
      case 9:
        if (pair.stage == Stage::running) return final(i);
        return init(i);
      default:
        if (pair.stage != Stage::running || pair.message > most_) init(i);
        return update(i);
    }
  }

  template <class Call>
  int both(std::size_t i, const std::string& what, Call&& call) {
    log_ << i << ": " << what << "\n";
    Pair& pair = pairs_[i];
    const int b = call(pair.reference.get(), reference_.get(), 1);
    static_cast<void>(errors());
    const int a = call(pair.ours.get(), ours_.get(), 0);
    if (a == b) return b;
    if (a == 0 && b == 1 && may_be_lost(pair.message)) {
      log_ << "lost\n";
      pair.stage = Stage::finished;  // only an init is of use
      return -1;
    }
    complain(what + ": returned " + std::to_string(a) + " instead of " + std::to_string(b) + " " + errors());
    return b;
  }

  void init(std::size_t i) {
    Pair& pair = pairs_[i];
    const bool again = pair.stage != Stage::empty && random_.one_in(2);
    both(i, again ? "init again" : "init", [&](EVP_MD_CTX* context, const EVP_MD* digest, int) {
      return EVP_DigestInit_ex2(context, again ? nullptr : digest, nullptr);
    });
    pair.stage = Stage::running;
    pair.message = 0;
  }

  void update(std::size_t i) {
    Pair& pair = pairs_[i];
    const auto in = data(pair.message == 0);
    const std::size_t length = in.size() - offset_;
    pair.message += length;
    both(i, "update " + std::to_string(length), [&](EVP_MD_CTX* context, const EVP_MD*, int) {
      return EVP_DigestUpdate(context, in.data() + offset_, length);
    });
  }

  void final(std::size_t i) {
    std::array<std::array<std::uint8_t, EVP_MAX_MD_SIZE + 16>, 2> out;
    std::array<unsigned int, 2> written{77, 77};
    for (auto& one : out) one.fill(0xaa);
    // None of ours has a length of choice; the default provider's SHA-1 obeys nevertheless.
    const bool chosen = random_.one_in(15);
    const std::size_t length = random_.in(0, 70);
    const std::string what = chosen ? "final of " + std::to_string(length) + " bytes" : "final";
    const int good = both(i, what, [&](EVP_MD_CTX* context, const EVP_MD*, std::size_t side) {
      if (chosen) return EVP_DigestFinalXOF(context, out[side].data(), length);
      return EVP_DigestFinal_ex(context, out[side].data(), no_length_ ? nullptr : &written[side]);
    });
    pairs_[i].stage = Stage::finished;
    if (good >= 0) check("final", out, written);
  }

  template <class Out>
  void check(const std::string& what, const Out& out, const std::array<unsigned int, 2>& written) {
    if (out[0] != out[1]) complain(what + ": another result");
    if (written[0] != written[1]) complain(what + ": another length");
  }

  // Into a used context or a fresh one.
  void copy(std::size_t from) {
    const std::size_t to = random_.in(0, pairs_.size() - 1);
    if (to == from) return;
    if (random_.one_in(3)) pairs_[to] = Pair();
    Pair& source = pairs_[from];
    Pair& target = pairs_[to];
    const std::size_t message = target.message;
    target.message = source.message;  // whose loss it would be
    const int good = both(
        to, "copy of " + std::to_string(from), [&](EVP_MD_CTX* context, const EVP_MD*, std::size_t side) {
          return EVP_MD_CTX_copy_ex(context, side == 0 ? source.ours.get() : source.reference.get());
        });
    if (good < 0) {
      // OpenSSL has emptied one of the two and not the other.
      target = Pair();
      return;
    }
    if (good == 1) {
      target.stage = source.stage;
    } else {
      target.message = message;
    }
  }

  // The state of one into another; what comes of it is what comes of a copy. The default provider's own
  // states are not compared: those of MD5 and SHA-1 it does not give.
  void hand_on([[maybe_unused]] std::size_t from) {
#if OPENSSL_VERSION_MAJOR >= 4
    if (!is_ours_) return;
    const std::size_t to = random_.in(0, pairs_.size() - 1);
    Pair& source = pairs_[from];
    log_ << to << ": takes the state of " << from << "\n";
    std::array<std::uint8_t, 300> state{};
    std::size_t bytes = 0;
    static_cast<void>(errors());
    const bool good = EVP_MD_CTX_serialize(source.ours.get(), nullptr, &bytes) == 1 &&
                      bytes <= state.size() &&
                      EVP_MD_CTX_serialize(source.ours.get(), state.data(), &bytes) == 1;
    if (!good) {
      const bool gone = source.message > kept_bytes && errors().find("backend") != std::string::npos;
      if (source.stage == Stage::running && !gone) complain("serialize failed");
      return;
    }
    if (source.stage != Stage::running) return complain("serialize: the state of nothing");
    if (to == from) return;
    Pair& target = pairs_[to];
    if (target.stage != Stage::running) init(to);
    if (EVP_MD_CTX_deserialize(target.ours.get(), state.data(), bytes) != 1 ||
        EVP_MD_CTX_copy_ex(target.reference.get(), source.reference.get()) != 1)
      complain("deserialize failed " + errors());
    target.stage = source.stage;
    target.message = source.message;
#endif
  }

  void one_shot() {
    const auto in = data(true);
    const std::size_t length = in.size() - offset_;
    const bool quick = random_.one_in(2);
    const std::string what = (quick ? "EVP_Q_digest " : "EVP_Digest ") + std::to_string(length);
    log_ << what << "\n";
    std::array<std::array<std::uint8_t, EVP_MAX_MD_SIZE + 16>, 2> out;
    std::array<unsigned int, 2> written{77, 77};
    for (std::size_t side : {0U, 1U}) {
      const Library& library = side == 0 ? ours_library_ : reference_library_;
      out[side].fill(0xaa);
      int good = 0;
      if (quick) {
        std::size_t bytes = 77;
        good = EVP_Q_digest(library.get(), name_.c_str(), nullptr, in.data() + offset_, length,
                            out[side].data(), &bytes);
        written[side] = static_cast<unsigned int>(bytes);
      } else {
        good = EVP_Digest(in.data() + offset_, length, out[side].data(), &written[side],
                          side == 0 ? ours_.get() : reference_.get(), nullptr);
      }
      if (good != 1) complain(what + ": failed " + errors());
    }
    check(what, out, written);
  }

  void parameters(std::size_t i) {
    Pair& pair = pairs_[i];
    if (pair.stage != Stage::running) return;
    std::array<std::uint8_t, 64> secret{};
    random_.fill(secret.data(), secret.size());
    const int bytes = random_.one_in(4) ? static_cast<int>(random_.in(0, 64)) : 48;
    if (random_.one_in(2)) {
      pair.message += 100;
      both(i, "ssl3-ms by ctrl " + std::to_string(bytes), [&](EVP_MD_CTX* context, const EVP_MD*, int) {
        return EVP_MD_CTX_ctrl(context, EVP_CTRL_SSL3_MASTER_SECRET, bytes, secret.data());
      });
      return;
    }
    const std::array<const char*, 3> keys{"ssl3-ms", "no-such-parameter", "xoflen"};
    const char* key = random_.of(keys);
    std::array params{OSSL_PARAM_construct_octet_string(key, secret.data(), static_cast<std::size_t>(bytes)),
                      OSSL_PARAM_construct_end()};
    const bool as_init = random_.one_in(3);
    if (as_init) pair.message = 0;
    both(i, std::string(as_init ? "init with " : "set ") + key + " " + std::to_string(bytes),
         [&](EVP_MD_CTX* context, const EVP_MD* digest, int) {
           return as_init ? EVP_DigestInit_ex2(context, digest, params.data())
                          : EVP_MD_CTX_set_params(context, params.data());
         });
    // What a refused init leaves is not defined.
    if (as_init) init(i);
    both(i, std::string("get ") + key, [&](EVP_MD_CTX* context, const EVP_MD*, int) {
      return EVP_MD_CTX_get_params(context, params.data());
    });
  }

  std::vector<Pair> pairs_;
  bool no_length_ = random_.one_in(10);  // nobody asks for the length
};

// ---- Through the provider's own functions ----------------------------------------------------------

class DispatchCase final : public DigestCase {
 public:
  using DigestCase::DigestCase;

 private:
  struct Context {
    void* opaque;
    Stage stage = Stage::empty;
    std::vector<std::uint8_t> message;
    bool lost = false;
  };

  void play() override {
    functions_ = digest_functions(ours_library_, name_);
    if (functions_.newctx == nullptr || functions_.dupctx == nullptr ||
        (is_ours_ && (functions_.copyctx == nullptr || functions_.serialize == nullptr ||
                      functions_.deserialize == nullptr)))
      return complain("functions are missing");
    for (std::size_t i = random_.in(2, 5); i != 0; --i)
      contexts_.push_back({fresh(), Stage::empty, {}, false});
    for (std::size_t steps = random_.in(4, 40); steps != 0 && fine(); --steps)
      step(random_.in(0, contexts_.size() - 1));
    for (std::size_t i = 0; i < contexts_.size(); ++i) {
      if (fine() && contexts_[i].stage == Stage::running) final(i, bytes_);
      functions_.freectx(contexts_[i].opaque);
    }
  }

  void* fresh() { return functions_.newctx(OSSL_PROVIDER_get0_provider_ctx(ours_library_.provider())); }

  void step(std::size_t i) {
    Context& context = contexts_[i];
    const std::size_t other = random_.in(0, contexts_.size() - 1);
    switch (random_.in(0, is_ours_ ? 18 : 15)) {
      case 18:
        return spoilt_state(i, other);
      case 17:
      case 16:
        return hand_on(i, other);
      case 0:
        log_ << i << ": new\n";
        functions_.freectx(context.opaque);
        context = {fresh(), Stage::empty, {}, false};
        return;
      case 1:
        return init(i);
      case 2:
      case 3:
        return duplicate(i, other);
      case 4:
      case 5:
        return copy(i, other);
      case 6:
        if (context.stage != Stage::running) return;
        if (final(i, random_.in(0, bytes_ - 1))) complain("final: into too little room");
        return;
      case 7:
      case 8:
        if (context.stage == Stage::running) final(i, bytes_ + random_.in(0, 9));
        return;
      default:
        if (context.stage != Stage::running || context.message.size() > most_) init(i);
        return update(i);
    }
  }

  void init(std::size_t i) {
    log_ << i << ": init\n";
    Context& context = contexts_[i];
    if (functions_.init(context.opaque, nullptr) != 1) complain("init failed " + errors());
    context.stage = Stage::running;
    context.message.clear();
    context.lost = false;
  }

  // After a failure that is allowed.
  bool lost(Context& context, const std::string& what) {
    if (!may_be_lost(context.message.size())) complain(what + " failed");
    context.lost = true;
    return false;
  }

  void update(std::size_t i) {
    Context& context = contexts_[i];
    const auto in = data(context.message.empty());
    const std::size_t length = in.size() - offset_;
    log_ << i << ": update " << length << "\n";
    context.message.insert(context.message.end(), in.begin() + static_cast<std::ptrdiff_t>(offset_),
                           in.end());
    static_cast<void>(errors());
    if (functions_.update(context.opaque, in.data() + offset_, length) != 1) {
      lost(context, "update");
    } else if (context.lost && length != 0) {
      complain("update: a lost message goes on");
    }
  }

  bool final(std::size_t i, std::size_t room) {
    Context& context = contexts_[i];
    log_ << i << ": final, " << room << " bytes of room\n";
    std::array<std::uint8_t, EVP_MAX_MD_SIZE + 16> out, expected;
    out.fill(0xaa);
    expected.fill(0xaa);
    std::size_t written = 77;
    static_cast<void>(errors());
    const bool good = functions_.final(context.opaque, out.data(), &written, room) == 1;
    if (room < bytes_) {
      if (out != expected) complain("final: wrote into too little room");
      return good;
    }
    context.stage = Stage::finished;
    if (!good) return lost(context, "final");
    if (context.lost) complain("final: of a lost message");
    if (EVP_Digest(context.message.data(), context.message.size(), expected.data(), nullptr, reference_.get(),
                   nullptr) != 1)
      complain("the reference fails");
    if (out != expected || written != bytes_) complain("final: another result");
    return true;
  }

  void take_over(Context& from, Context& to) {
    to.stage = from.stage;
    to.message = from.message;
    to.lost = from.lost;
  }

  void duplicate(std::size_t i, std::size_t from) {
    Context& source = contexts_[from];
    Context& target = contexts_[i];
    log_ << i << ": duplicate of " << from << "\n";
    static_cast<void>(errors());
    void* made = functions_.dupctx(source.opaque);
    if (made == nullptr) return complain("dupctx failed");
    if (!errors().empty()) complain("dupctx left an error");
    functions_.freectx(target.opaque);
    target.opaque = made;
    if (i != from) take_over(source, target);
  }

  void copy(std::size_t i, std::size_t from) {
    if (functions_.copyctx == nullptr) return;
    Context& source = contexts_[from];
    Context& target = contexts_[i];
    log_ << i << ": copy of " << from << "\n";
    static_cast<void>(errors());
    functions_.copyctx(target.opaque, source.opaque);
    if (!errors().empty()) complain("copyctx left an error");
    if (i != from) take_over(source, target);
  }

  // The state of a context as bytes; nothing where there is none.
  std::vector<std::uint8_t> state_of(Context& context) {
    std::size_t bytes = 7;
    if (functions_.serialize(context.opaque, nullptr, &bytes) != 1) complain("serialize: no size");
    std::vector<std::uint8_t> state(bytes + 8, 0xaa);
    std::size_t room = bytes + random_.in(0, 8);
    static_cast<void>(errors());
    if (functions_.serialize(context.opaque, state.data(), &room) != 1) {
      const bool gone = context.message.size() > kept_bytes && errors().find("backend") != std::string::npos;
      if (context.stage == Stage::running && !gone) complain("serialize failed");
      if (context.lost && !gone) complain("serialize: no reason");
      return {};
    }
    if (context.stage == Stage::empty) complain("serialize: the state of nothing");
    if (room != bytes || std::any_of(state.begin() + static_cast<std::ptrdiff_t>(bytes), state.end(),
                                     [](std::uint8_t byte) { return byte != 0xaa; }))
      complain("serialize: wrote too much");
    state.resize(bytes);
    return state;
  }

  void hand_on(std::size_t i, std::size_t from) {
    log_ << i << ": takes the state of " << from << "\n";
    Context& source = contexts_[from];
    const auto state = state_of(source);
    if (state.empty() || source.stage != Stage::running) return;
    if (functions_.deserialize(contexts_[i].opaque, state.data(), state.size()) != 1)
      complain("deserialize failed " + errors());
    take_over(source, contexts_[i]);
    contexts_[i].lost = false;
  }

  // Some other bytes change nothing, or make a context that can be used.
  void spoilt_state(std::size_t i, std::size_t from) {
    log_ << i << ": is given what is no state, of " << from << "\n";
    auto state = state_of(contexts_[from]);
    if (state.empty()) return;
    std::size_t bytes = state.size();
    if (random_.one_in(3)) bytes = random_.in(0, bytes - 1);
    const bool whole = bytes == state.size();
    if (whole) {
      for (std::size_t flips = random_.in(1, 4); flips != 0; --flips)
        state[random_.in(0, bytes - 1)] ^= static_cast<std::uint8_t>(random_.in(1, 255));
    }
    // Memory that ends where the bytes do.
    const std::vector<std::uint8_t> exactly(state.begin(),
                                            state.begin() + static_cast<std::ptrdiff_t>(bytes));
    if (functions_.deserialize(contexts_[i].opaque, exactly.data(), bytes) != 1) return;
    if (!whole) complain("deserialize: took a part");
    std::array<std::uint8_t, EVP_MAX_MD_SIZE> out{};
    std::size_t written = 0;
    if (functions_.update(contexts_[i].opaque, exactly.data(), bytes) != 1 ||
        functions_.final(contexts_[i].opaque, out.data(), &written, out.size()) != 1)
      complain("deserialize: of no use");
    contexts_[i].stage = Stage::finished;
  }

  DigestFunctions functions_;
  std::vector<Context> contexts_;
};

}  // namespace

std::string run_digest_case(const Library& ours, const Library& reference, const std::string& name,
                            std::uint64_t seed, std::size_t largest) {
  if (seed % 4 == 0) return DispatchCase(ours, reference, name, seed, largest).run();
  return EvpCase(ours, reference, name, seed, largest).run();
}

}  // namespace sunxi::test
