// SPDX-License-Identifier: Apache-2.0
// Digest contexts. Software works on a state in the context itself from the first byte. An update that is
// long enough may go to a backend: its whole blocks into the state's words, or, from a message's start
// alone, the message into a session that holds the state from then on.
//
// A session's state cannot be had. What it was given is kept up to max_kept, so that software can do it again
// if the session fails or its state is asked for; a longer message that loses its session is an error.
#define OPENSSL_SUPPRESS_DEPRECATED  // libcrypto's digest functions: see digest_core.h
#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/params.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "provider/digest_core.h"
#include "provider/digest_state.h"
#include "provider/dispatch.h"
#include "provider/provider.h"

namespace sunxi {
namespace {

constexpr std::size_t max_kept = std::size_t{1} << 20U;

// What a session was given, while it is little enough.
class Kept {
 public:
  enum class Status : std::uint8_t { whole, too_long, no_memory };

  Kept() = default;
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() { clear(); }

  // Where it does not fit, nothing is kept any more.
  void append(const std::uint8_t* data, std::size_t bytes) noexcept {
    if (status_ != Status::whole) return;
    if (bytes > max_kept - used_) return give_up(Status::too_long);
    if (!reserve(used_ + bytes)) return give_up(Status::no_memory);
    if (bytes != 0) std::memcpy(data_ + used_, data, bytes);
    used_ += bytes;
  }
  // Into one that has nothing yet.
  void copy(const Kept& other) noexcept {
    status_ = other.status_;
    append(other.data_, other.used_);
  }
  [[nodiscard]] Status status() const noexcept { return status_; }
  [[nodiscard]] const std::uint8_t* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return used_; }

 private:
  void give_up(Status why) noexcept {
    clear();
    status_ = why;
  }
  void clear() noexcept {
    if (data_ != nullptr) wipe(data_, used_);
    std::free(data_);
    data_ = nullptr;
    used_ = room_ = 0;
  }
  bool reserve(std::size_t bytes) noexcept {
    if (bytes <= room_) return true;
    const std::size_t room = std::max(bytes, std::min(2 * room_, max_kept));
    auto* fresh = static_cast<std::uint8_t*>(std::malloc(room));
    if (fresh == nullptr) return false;
    if (data_ != nullptr) {
      std::memcpy(fresh, data_, used_);
      wipe(data_, used_);
      std::free(data_);
    }
    data_ = fresh;
    room_ = room;
    return true;
  }

  std::uint8_t* data_ = nullptr;
  std::size_t used_ = 0, room_ = 0;
  Status status_ = Status::whole;
};

// While a message is with a backend.
struct Committed {
  DigestSession session;
  Kept kept;
};

template <std::size_t Row>
class DigestContext {
 public:
  using Core = DigestCore<digest_rows[Row].spec.digest>;

  explicit DigestContext(Provider& provider) noexcept : provider_(&provider) {}
  // Of a context that nobody has initialised.
  void clear() noexcept { std::memset(&state_, 0, sizeof state_); }
  DigestContext& operator=(const DigestContext&) = delete;
  ~DigestContext() {
    give_up_session();
    provider_->router.add_software(requests_, earlier_bytes_ + Core::counted(state_));
    wipe(&state_, sizeof state_);
  }

  static void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
  static void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
  // NOLINTNEXTLINE(cert-dcl54-cpp,misc-new-delete-overloads): there is no throwing new to match
  static void operator delete(void* memory) noexcept { std::free(memory); }

  // Null when memory is out. Where a session can neither be doubled nor replaced, the copy is spoiled:
  // libcrypto goes on with the target of a copy that failed, whatever it was told.
  [[nodiscard]] DigestContext* duplicate() noexcept {
    std::unique_ptr<DigestContext> copy(new (std::nothrow) DigestContext(*provider_));
    if (copy) copy->take(*this);
    return copy.release();
  }
  void assign(DigestContext& from) noexcept {
    give_up_session();
    earlier_bytes_ += Core::counted(state_);
    take(from);
  }

  int init() noexcept {
    if (committed_ != nullptr) [[unlikely]]
      give_up_session();
    limit_ = provider_->router.digest_limit(Row);
    earlier_bytes_ += Core::counted(state_);
    Core::init(state_);
    return 1;
  }

  int update(const unsigned char* in, std::size_t length) noexcept {
    if (length < limit_) [[likely]]
      return software(in, length);
    return route(in, length) ? 1 : 0;
  }

  // *out_bytes is what there will be.
  int final(unsigned char* out, std::size_t* out_bytes) noexcept {
    if (committed_ == nullptr) [[likely]]
      return Core::final(state_, out);
    return conclude(out, out_bytes);
  }

  [[gnu::noinline]] int conclude(unsigned char* out, std::size_t* out_bytes) noexcept {
    const bool good = !is_lost() && provider_->router.conclude(Row, committed_->session, out);
    if (!good && !recover()) {
      *out_bytes = 0;
      return 0;
    }
    give_up_session();
    return good ? 1 : Core::final(state_, out);
  }

  // As the default provider's of OpenSSL 4.0: without `out` only the size; *out_bytes is the room.
  int serialize(unsigned char* out, std::size_t* out_bytes) noexcept {
    if (out == nullptr && out_bytes == nullptr) return 0;
    if (out != nullptr) {
      if (out_bytes != nullptr && *out_bytes < Saved::bytes) {
        raise(Reason::bad_parameter, "the state needs more room than there is");
        return 0;
      }
      if (!write_state(out)) return 0;
    }
    if (out_bytes != nullptr) *out_bytes = Saved::bytes;
    return 1;
  }

  int deserialize(const unsigned char* in, std::size_t length) noexcept {
    typename Core::State state{};
    if (in == nullptr || length != Saved::bytes || !Saved::read(state, in)) {
      raise(Reason::bad_parameter, "no state of this digest");
      return 0;
    }
    give_up_session();
    limit_ = provider_->router.digest_limit(Row);
    earlier_bytes_ += Core::counted(state_);
    state_ = state;
    earlier_bytes_ -= Core::counted(state_);
    wipe(&state, sizeof state);
    return 1;
  }

  // SSL 3.0's way to put the master secret into a handshake hash (RFC 6101, 5.6.8).
  int absorb_ssl3_master_secret(const unsigned char* secret, std::size_t bytes) noexcept {
    constexpr std::size_t secret_bytes = 48;
    constexpr std::size_t pad_bytes = digest_rows[Row].spec.digest == Digest::md5 ? 48 : 40;
    if (bytes != secret_bytes) return 0;
    std::array<unsigned char, pad_bytes> pad;
    std::array<unsigned char, digest_bytes> inner;
    std::size_t inner_bytes = inner.size();
    pad.fill(0x36);
    bool good = update(secret, bytes) != 0 && update(pad.data(), pad.size()) != 0 &&
                final(inner.data(), &inner_bytes) != 0;
    pad.fill(0x5c);
    good = good && init() != 0 && update(secret, bytes) != 0 && update(pad.data(), pad.size()) != 0 &&
           update(inner.data(), inner_bytes) != 0;
    wipe(inner.data(), inner.size());
    return good ? 1 : 0;
  }

  [[nodiscard]] const Provider& provider() const noexcept { return *provider_; }

  static constexpr std::size_t block_bytes = digest_rows[Row].spec.block_bytes;
  static constexpr std::size_t digest_bytes = digest_rows[Row].spec.digest_bytes;

 private:
  using Saved = DigestState<digest_rows[Row].spec>;

  DigestContext(const DigestContext&) = default;

  void take(DigestContext& from) noexcept {
    state_ = from.state_;
    limit_ = from.limit_;
    earlier_bytes_ -= Core::counted(state_);  // the original's
    if (from.committed_ != nullptr) double_session(from);
  }

  int software(const unsigned char* in, std::size_t length) noexcept {
    ++requests_;
    return Core::update(state_, in, length);
  }

  [[gnu::noinline]] bool route(const unsigned char* in, std::size_t length) noexcept {
    if (length == 0) return true;
    if (committed_ != nullptr) return extend(in, length);
    Router& router = provider_->router;
    limit_ = router.digest_limit(Row);
    if (length < limit_ || !router.digest_ready(Row, length)) return software(in, length) != 0;
    if (router.hashes_messages(Row) && Core::is_at_start(state_)) {
      const std::size_t first = std::min(length, max_kept);
      if (commit(in, first)) return first == length || extend(in + first, length - first);
    }
    std::size_t by_others = 0;
    const std::size_t all = length;
    if constexpr (Core::words) {
      const std::size_t buffered = Core::buffered(state_);
      const std::size_t fill = buffered == 0 ? 0 : block_bytes - buffered;
      if (length >= fill + block_bytes) {
        if (fill != 0 && Core::update(state_, in, fill) == 0) return false;
        in += fill;
        length -= fill;
        const std::size_t whole = length - length % block_bytes;
        std::array<std::uint32_t, 8> words;
        Core::get_words(state_, words.data());
        const Routed routed = router.absorb(
            Row, fill + length,
            AbsorbRequest{.spec = digest_rows[Row].spec, .state = words.data(), .in = in, .length = whole});
        by_others = routed.done;
        if (by_others != 0) {
          Core::set_words(state_, words.data());
          Core::skip(state_, by_others);
          earlier_bytes_ -= by_others;
          in += by_others;
          length -= by_others;
        }
        wipe(words.data(), sizeof words);
      }
    }
    if (by_others != all) ++requests_;  // both pieces are one request of software's
    return length == 0 || Core::update(state_, in, length) != 0;
  }

  // The message so far, which is its first update, to a session.
  bool commit(const unsigned char* in, std::size_t length) noexcept {
    DigestSession session;
    if (!provider_->router.begin(Row, session, in, length)) return false;
    committed_ = new (std::nothrow) Committed;
    if (committed_ == nullptr) {
      provider_->router.abandon(session);
      return false;
    }
    committed_->session = session;
    committed_->kept.append(in, length);
    limit_ = 0;
    return true;
  }

  // Seen before what software could go on from is given up: a signature's last step is a copy of its
  // message (EVP_DigestSignFinal).
  [[nodiscard]] bool can_be_copied(const DigestSession& session) const noexcept {
    DigestSession copy;
    if (!provider_->router.clone(session, copy)) return false;
    provider_->router.abandon(copy);
    return true;
  }

  // Without a state and without a session, until the next init. Needs no memory.
  void spoil(Kept::Status why) noexcept {
    give_up_session();
    committed_ = spoiled(why);
    limit_ = 0;
  }
  // Addresses, nothing more: one for each reason.
  [[nodiscard]] static Committed* spoiled(Kept::Status why) noexcept {
    alignas(Committed) static constinit std::array<std::byte, 2 * sizeof(Committed)> marks{};
    auto* const mark = reinterpret_cast<Committed*>(marks.data());
    return why == Kept::Status::no_memory ? mark + 1 : mark;
  }
  [[nodiscard]] bool is_spoiled() const noexcept {
    return committed_ == spoiled(Kept::Status::too_long) || committed_ == spoiled(Kept::Status::no_memory);
  }
  [[nodiscard]] bool is_lost() const noexcept {
    return is_spoiled() || committed_->session.backend == no_index;
  }
  // What is left of the message that a session was given.
  [[nodiscard]] Kept::Status status() const noexcept {
    if (committed_ == spoiled(Kept::Status::no_memory)) return Kept::Status::no_memory;
    return is_spoiled() ? Kept::Status::too_long : committed_->kept.status();
  }

  bool extend(const unsigned char* in, std::size_t length) noexcept {
    const bool last_chance = status() == Kept::Status::whole && length > max_kept - committed_->kept.size();
    if (!is_lost() && (!last_chance || can_be_copied(committed_->session)) &&
        provider_->router.extend(Row, committed_->session, in, length)) {
      committed_->kept.append(in, length);
      return true;
    }
    if (!recover()) return false;
    give_up_session();
    return Core::update(state_, in, length) != 0;  // and what came before it is one request
  }

  // After a session was lost: the state by software. False, again and again until the next init, if what
  // the session was given is gone.
  bool recover() noexcept {
    if (status() != Kept::Status::whole) {
      raise_gone("was with a backend that could not go on");
      return false;
    }
    limit_ = never;
    return software(committed_->kept.data(), committed_->kept.size()) != 0;
  }

  // The session of `from`, or its state by software, or neither.
  void double_session(DigestContext& from) noexcept {
    Kept::Status why = from.status();
    if (from.is_spoiled()) return spoil(why);
    const Committed& other = *from.committed_;
    if (!from.is_lost()) {
      committed_ = new (std::nothrow) Committed;
      if (committed_ != nullptr) {
        committed_->kept.copy(other.kept);
        if (provider_->router.clone(other.session, committed_->session)) return;
        give_up_session();
      } else if (why != Kept::Status::whole) {
        why = Kept::Status::no_memory;
      }
    }
    // Software has the state from before the session, and can have the rest.
    limit_ = never;
    if (why != Kept::Status::whole || software(other.kept.data(), other.kept.size()) == 0) spoil(why);
  }

  bool write_state(unsigned char* out) noexcept {
    bool good = false;
    if (committed_ == nullptr) {
      good = Saved::write(state_, out);
    } else if (status() == Kept::Status::whole) {
      // The session goes on as it was.
      typename Core::State state = state_;
      good = Core::update(state, committed_->kept.data(), committed_->kept.size()) != 0 &&
             Saved::write(state, out);
      wipe(&state, sizeof state);
      ++requests_;
      earlier_bytes_ += committed_->kept.size();
    } else {
      raise_gone(is_lost() ? "was with a backend that could not go on"
                           : "is with a backend, whose state cannot be had");
      return false;
    }
    if (!good) raise(Reason::bad_parameter, "there is no message that could be gone on with");
    return good;
  }

  void raise(Reason reason, const char* what) const noexcept {
    const std::string_view name = canonical_name(algorithm_of_digest(Row));
    provider_->core.raise(reason, "%.*s: %s", static_cast<int>(name.size()), name.data(), what);
  }
  void raise_gone(const char* what) const noexcept {
    const std::string_view name = canonical_name(algorithm_of_digest(Row));
    static_assert(max_kept == 1048576);
    const char* why = status() == Kept::Status::no_memory ? "there was no memory to keep it"
                                                          : "was too long to be kept (1048576 bytes)";
    provider_->core.raise(
        Reason::session_lost,
        "%.*s: the message, or the one that it is a copy of, %s, and %s; with min_bytes_for set to "
        "never software does it",
        static_cast<int>(name.size()), name.data(), what, why);
  }

  // Not inlined: init needs no frame without it.
  [[gnu::noinline]] void give_up_session() noexcept {
    if (committed_ == nullptr) return;
    if (!is_spoiled()) {
      provider_->router.abandon(committed_->session);
      delete committed_;
    }
    committed_ = nullptr;
  }

  // What every call needs comes first, in one cache line.
  std::size_t limit_ = never;   // shorter updates go straight to software; 0 while committed
  std::uint64_t requests_ = 0;  // by software
  Committed* committed_ = nullptr;
  Provider* provider_;
  std::uint64_t earlier_bytes_ = 0;  // by software: this plus what the state has counted
  typename Core::State state_;       // set by clear, init or take
};

// ---- The C side ----------------------------------------------------------------------------------

template <std::size_t Row>
DigestContext<Row>& context(void* opaque) noexcept {
  return *static_cast<DigestContext<Row>*>(opaque);
}

template <std::size_t Row>
void* digest_newctx(void* opaque) noexcept {
  auto& provider = *static_cast<Provider*>(opaque);
  auto* made = new (std::nothrow) DigestContext<Row>(provider);
  if (made == nullptr) {
    provider.core.raise(Reason::out_of_memory, "no memory for a digest context");
  } else {
    made->clear();
  }
  return made;
}

template <std::size_t Row>
void digest_freectx(void* opaque) noexcept {
  delete static_cast<DigestContext<Row>*>(opaque);
}

template <std::size_t Row>
void* digest_dupctx(void* opaque) noexcept {
  return context<Row>(opaque).duplicate();
}

template <std::size_t Row>
void digest_copyctx(void* out, void* in) noexcept {
  if (out != in && out != nullptr) context<Row>(out).assign(context<Row>(in));
}

// As the default provider of the release that this is built for: 4.0 refuses what it used to overlook.
template <class Absorb>
int set_ssl3_params(const Provider& provider, const OSSL_PARAM params[], Absorb&& absorb) noexcept {
  constexpr bool is_strict = OPENSSL_VERSION_MAJOR >= 4;
  if (params == nullptr) return 1;
  const OSSL_PARAM* found = OSSL_PARAM_locate_const(params, OSSL_DIGEST_PARAM_SSL3_MS);
  if (found == nullptr) return 1;
  if (is_strict && OSSL_PARAM_locate_const(found + 1, OSSL_DIGEST_PARAM_SSL3_MS) != nullptr) {
    provider.core.raise(Reason::bad_parameter, "%s is given twice", OSSL_DIGEST_PARAM_SSL3_MS);
    return 0;
  }
  if (found->data_type != OSSL_PARAM_OCTET_STRING) return is_strict ? 0 : 1;
  return absorb(static_cast<const unsigned char*>(found->data), found->data_size);
}

template <std::size_t Row>
int digest_set_ctx_params(void* opaque, const OSSL_PARAM params[]) noexcept {
  DigestContext<Row>& digest = context<Row>(opaque);
  return set_ssl3_params(digest.provider(), params, [&](const unsigned char* secret, std::size_t bytes) {
    return digest.absorb_ssl3_master_secret(secret, bytes);
  });
}

constexpr bool has_ssl3(std::size_t row) noexcept {
  return digest_rows[row].spec.digest == Digest::sha1;
}

template <std::size_t Row>
[[gnu::noinline]] int init_with_params(void* opaque, const OSSL_PARAM params[]) noexcept {
  return context<Row>(opaque).init() == 0 ? 0 : digest_set_ctx_params<Row>(opaque, params);
}

template <std::size_t Row>
[[gnu::aligned(64)]] int digest_init(void* opaque, const OSSL_PARAM params[]) noexcept {
  if constexpr (has_ssl3(Row)) {
    if (params != nullptr) [[unlikely]]
      return init_with_params<Row>(opaque, params);
  }
  return context<Row>(opaque).init();
}

template <std::size_t Row>
[[gnu::aligned(64)]] int digest_update(void* opaque, const unsigned char* in, std::size_t length) noexcept {
  return context<Row>(opaque).update(in, length);
}

template <std::size_t Row>
[[gnu::aligned(64)]] int digest_final(void* opaque, unsigned char* out, std::size_t* out_bytes,
                                      std::size_t out_size) noexcept {
  if (out_size < DigestContext<Row>::digest_bytes) return 0;
  *out_bytes = DigestContext<Row>::digest_bytes;
  return context<Row>(opaque).final(out, out_bytes);
}

template <std::size_t Row>
int digest_serialize(void* opaque, unsigned char* out, std::size_t* out_bytes) noexcept {
  return context<Row>(opaque).serialize(out, out_bytes);
}

template <std::size_t Row>
int digest_deserialize(void* opaque, const unsigned char* in, std::size_t length) noexcept {
  return context<Row>(opaque).deserialize(in, length);
}

const OSSL_PARAM* digest_settable_ctx_params(void*, void*) noexcept {
  static const OSSL_PARAM list[] = {OSSL_PARAM_octet_string(OSSL_DIGEST_PARAM_SSL3_MS, nullptr, 0),
                                    OSSL_PARAM_END};
  return list;
}

// Since OpenSSL 3.5, and the other two since 4.0; earlier ones skip what they do not know.
constexpr int function_copyctx = 15, function_serialize = 16, function_deserialize = 17;

template <std::size_t Row>
std::vector<OSSL_DISPATCH> dispatch(const SoftwareDigest& software) {
  std::vector<OSSL_DISPATCH> table{
      entry(OSSL_FUNC_DIGEST_NEWCTX, digest_newctx<Row>),
      entry(OSSL_FUNC_DIGEST_FREECTX, digest_freectx<Row>),
      entry(OSSL_FUNC_DIGEST_DUPCTX, digest_dupctx<Row>),
      entry(OSSL_FUNC_DIGEST_INIT, digest_init<Row>),
      entry(OSSL_FUNC_DIGEST_UPDATE, digest_update<Row>),
      entry(OSSL_FUNC_DIGEST_FINAL, digest_final<Row>),
      entry(function_copyctx, digest_copyctx<Row>),
      entry(function_serialize, digest_serialize<Row>),
      entry(function_deserialize, digest_deserialize<Row>),
      // Constants are the default provider's own: these need no context.
      entry(OSSL_FUNC_DIGEST_GET_PARAMS, software.get_params),
      entry(OSSL_FUNC_DIGEST_GETTABLE_PARAMS, software.gettable_params),
  };
  if constexpr (has_ssl3(Row)) {
    table.push_back(entry(OSSL_FUNC_DIGEST_SET_CTX_PARAMS, digest_set_ctx_params<Row>));
    table.push_back(entry(OSSL_FUNC_DIGEST_SETTABLE_CTX_PARAMS, digest_settable_ctx_params));
  }
  table.push_back({0, nullptr});
  return table;
}

template <std::size_t... Rows>
constexpr auto dispatch_makers(std::index_sequence<Rows...>) noexcept {
  return std::array{dispatch<Rows>...};
}

template <std::size_t... Rows>
bool is_usable(std::size_t row, std::index_sequence<Rows...>) noexcept {
  return ((row != Rows || DigestContext<Rows>::Core::is_usable()) && ...);
}
bool is_usable(std::size_t row) noexcept {
  return is_usable(row, std::make_index_sequence<digest_count>());
}

}  // namespace

std::vector<OSSL_DISPATCH> offer_digest(const Software& software, std::size_t row) {
  static constexpr auto makers = dispatch_makers(std::make_index_sequence<digest_count>());
  const SoftwareDigest& constants = software.digest(row);
  if (constants.get_params == nullptr || constants.gettable_params == nullptr || !is_usable(row)) return {};
  return makers[row](constants);
}

}  // namespace sunxi
