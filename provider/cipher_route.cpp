// SPDX-License-Identifier: Apache-2.0
// How requests find their way to backends: updates of a block mode (route_update and below), CTR at any
// byte (route_counter), data units of XTS, which have no state (route_data_unit), and TLS records
// (route_record). What no backend does, software does from there on.
#include <openssl/err.h>
#include <openssl/proverr.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>

#include "provider/cipher_context.h"

namespace sunxi {

Routed CipherContext::try_backends(std::size_t request, unsigned char* out, const unsigned char* in,
                                   std::size_t length) noexcept {
  return provider_.router.crypt(route(), request,
                                CipherRequest{.spec = spec(),
                                              .direction = stream_.direction,
                                              .key = std::span(stream_.key.data(), spec().key_bytes),
                                              .iv = stream_.iv.data(),
                                              .in = in,
                                              .out = out,
                                              .length = length},
                                slots_);
}

void CipherContext::remember_who(const Routed& routed, std::size_t request) noexcept {
  stream_.last = routed.most >= request - routed.done ? routed.busiest : software_index;
  if (routed.busiest == no_index) stream_.last = software_index;
  stream_.requests_at_last = stream_.requests;
}

int CipherContext::route_update(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                const unsigned char* in, std::size_t length) noexcept {
  return come_back(do_route_update(out, out_bytes, out_size, in, length));
}

int CipherContext::route_cipher(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                const unsigned char* in, std::size_t length) noexcept {
  return come_back(do_route_cipher(out, out_bytes, out_size, in, length));
}

int CipherContext::do_route_update(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                   const unsigned char* in, std::size_t length) noexcept {
  if (stream_.tls) return route_record(out, out_bytes, out_size, in, length);
  if (mode() == Mode::ctr) return route_counter(out, out_bytes, out_size, in, length);
  if (mode() == Mode::xts) return route_data_unit(true, out, out_bytes, out_size, in, length);
  if (is_ours()) return continue_stream(out, out_bytes, out_size, in, length);
  return take_stream(out, out_bytes, out_size, in, length);
}

// An update of a stream that is ours.
int CipherContext::continue_stream(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                   const unsigned char* in, std::size_t length) noexcept {
  const std::size_t room = (holds_back() ? block() : block() - 1) - stream_.buffered;
  if (length <= room) {  // nothing to compute yet
    if (length != 0) std::memcpy(stream_.buffer.data() + stream_.buffered, in, length);
    stream_.buffered = static_cast<std::uint8_t>(stream_.buffered + length);
    *out_bytes = 0;
    return 1;
  }
  std::size_t whole = length - length % block();
  if (holds_back() && whole == length) whole -= block();
  if (stream_.buffered != 0 || length < provider_.router.limit(route()) || out_size < whole) {
    if (!hand_back()) return 0;
    return update(out, out_bytes, out_size, in, length);
  }
  const Routed routed = try_backends(length, out, in, whole);
  return finish_update(routed, whole, out, out_bytes, out_size, in, length);
}

// An update of a stream that software owns, long enough for a backend.
int CipherContext::take_stream(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                               const unsigned char* in, std::size_t length) noexcept {
  set_limit();  // raised while all backends rest, so that shorter requests do not come here again
  if (length < stream_.limit || !provider_.router.ready(route(), length))
    return software_update(out, out_bytes, out_size, in, length);
  const auto partial =
      static_cast<std::size_t>((stream_.update_bytes - stream_.update_bytes_before) % block());
  const std::size_t fill = partial == 0 ? 0 : block() - partial;
  // Without a partial block there may be a held-back one, even with padding off again; and a call that
  // failed was counted although it left less. Only the inner context knows.
  const bool something_buffered = !nothing_updated();
  const std::size_t first = something_buffered ? block() : 0;
  std::size_t whole = length < fill ? 0 : (length - fill) - (length - fill) % block();
  if (holds_back() && whole != 0 && fill + whole == length) whole -= block();
  if (whole == 0 || out_size < first + whole) return software_update(out, out_bytes, out_size, in, length);

  std::size_t flushed = 0;
  bool empty = true;
  if (something_buffered) {
    if (!set_inner_padding(false)) return 0;
    stream_.update_bytes += fill;
    if (inner_update_(inner_, out, &flushed, out_size, in, fill) == 0) {
      distrust();
      static_cast<void>(set_inner_padding(stream_.padding));
      return 0;
    }
    empty = inner_is_empty();
  }
  Routed routed{.done = 0, .most = 0, .busiest = no_index};
  if (!empty) {
    // An earlier call failed half-way and left what nobody can know: software keeps the stream.
    distrust();
  } else if (load_iv()) {
    routed = try_backends(length, out + flushed, in + fill, whole);
  }
  std::size_t more = 0;
  int good = 0;
  if (routed.done == 0) {
    if (set_inner_padding(stream_.padding))
      good = software_update(out + flushed, &more, out_size - flushed, in + fill, length - fill);
    set_limit();
    remember_who(routed, length);
  } else {
    stream_.owner = Owner::ours;
    stream_.limit = 0;
    good = finish_update(routed, whole, out + flushed, &more, out_size - flushed, in + fill, length - fill);
  }
  *out_bytes = flushed + more;
  return good;
}

// After backends did routed.done of the `offered` whole blocks at the start of in[0, length), of a
// stream that is ours: buffers what is left, or gives it to software.
int CipherContext::finish_update(const Routed& routed, std::size_t offered, unsigned char* out,
                                 std::size_t* out_bytes, std::size_t out_size, const unsigned char* in,
                                 std::size_t length) noexcept {
  int good = 1;
  std::size_t more = 0;
  if (routed.done == offered) {
    stream_.buffered = static_cast<std::uint8_t>(length - offered);
    std::memcpy(stream_.buffer.data(), in + offered, length - offered);
  } else if (hand_back()) {
    good = software_update(out + routed.done, &more, out_size - routed.done, in + routed.done,
                           length - routed.done);
  } else {
    good = 0;
  }
  *out_bytes = routed.done + more;
  remember_who(routed, length);
  return good;
}

int CipherContext::do_route_cipher(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                   const unsigned char* in, std::size_t length) noexcept {
  if (mode() == Mode::ctr) return route_counter(out, out_bytes, out_size, in, length);
  if (mode() == Mode::xts) return route_data_unit(false, out, out_bytes, out_size, in, length);
  const bool ours = is_ours();
  if (!ours) set_limit();
  // A buffer that update has filled stays where it is: `cipher` passes it by.
  const bool can = (ours ? stream_.buffered == 0 : nothing_updated()) && length != 0 &&
                   length % block() == 0 && out_size >= length && length >= provider_.router.limit(route());
  if (!can) {
    if (ours && !hand_back()) return 0;
    return software_cipher(out, out_bytes, out_size, in, length);
  }
  if (!ours && !load_iv()) return 0;
  *out_bytes = length;
  return transform(length, out, in, length) ? 1 : 0;
}

// Whole blocks, with the IV in our hands: through backends, and what they leave through software.
bool CipherContext::transform(std::size_t request, unsigned char* out, const unsigned char* in,
                              std::size_t length) noexcept {
  const Routed routed = try_backends(request, out, in, length);
  bool good = true;
  if (routed.done != 0) {
    stream_.owner = Owner::ours;
    stream_.limit = 0;
  }
  if (routed.done != length) {
    std::size_t more = 0;
    if (is_ours() && !hand_back()) return false;
    good = software_cipher(out + routed.done, &more, length - routed.done, in + routed.done,
                           length - routed.done) != 0;
    set_limit();
  }
  remember_who(routed, length);
  return good;
}

// CTR, by update or cipher: what is left of a key stream block is software's, and so is what follows the
// last whole block.
int CipherContext::route_counter(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                 const unsigned char* in, std::size_t length) noexcept {
  if (length == 0 && is_ours()) {
    *out_bytes = 0;
    return 1;
  }
  if (!is_ours()) set_limit();
  bool can = out_size >= length && length >= block() && length >= provider_.router.limit(route()) &&
             (is_ours() || provider_.router.ready(route(), length));
  std::size_t head = 0;
  if (can && !is_ours()) {
    unsigned int position = 0;
    if (!load_counter(position)) return 0;
    head = position == 0 ? 0 : block() - position;
    can = position < block() && length >= head + block();
  }
  if (!can) {
    if (is_ours() && !hand_back()) return 0;
    return software_cipher(out, out_bytes, out_size, in, length);
  }
  std::size_t bytes = 0;
  if (head != 0 && (software_cipher(out, &bytes, head, in, head) == 0 || !load_iv())) return 0;
  const std::size_t whole = (length - head) - (length - head) % block();
  if (!transform(length, out + head, in + head, whole)) return 0;
  const std::size_t tail = length - head - whole;
  if (tail != 0) {
    const BackendIndex last = stream_.last;
    if (is_ours() && !hand_back()) return 0;
    if (software_cipher(out + head + whole, &bytes, tail, in + head + whole, tail) == 0) return 0;
    stream_.last = last;
    stream_.requests_at_last = stream_.requests;
  }
  *out_bytes = length;
  return 1;
}

// XTS: every request begins at the IV, and is done as a whole.
int CipherContext::route_data_unit(bool as_update, unsigned char* out, std::size_t* out_bytes,
                                   std::size_t out_size, const unsigned char* in,
                                   std::size_t length) noexcept {
  constexpr std::size_t most_blocks = std::size_t{1} << 20U;  // NIST SP 800-38E
  set_limit();
  if (in != nullptr && out != nullptr && out_size >= length && length >= stream_.limit && length >= block() &&
      length <= most_blocks * block() && provider_.router.ready(route(), length)) {
    stream_.iv = stream_.start_iv;
    if (stream_.iv_escaped && !load_iv()) return 0;
    const Routed routed = try_backends(length, out, in, length);
    if (routed.done == length) {
      *out_bytes = length;
      remember_who(routed, length);
      return 1;
    }
  }
  return as_update ? software_update(out, out_bytes, out_size, in, length)
                   : software_cipher(out, out_bytes, out_size, in, length);
}

// A TLS record, in place as libssl has them. What is not as libssl does it gets the default provider's
// own answer, which is a refusal. It never opens a record here: see duplicate.
int CipherContext::route_record(unsigned char* out, std::size_t* out_bytes, std::size_t out_size,
                                const unsigned char* in, std::size_t length) noexcept {
  const bool encrypt = stream_.direction == Direction::encrypt;
  const std::size_t total = encrypt ? length + block() - length % block() : length;
  if (!stream_.records || !stream_.padding || in != out || in == nullptr || total % block() != 0 ||
      out_size < total) {
    if (is_ours() && !hand_back()) return 0;
    const int good = software_update(out, out_bytes, out_size, in, length);
    begin_stream(0);  // nothing of it is buffered
    stream_.iv_is_here = false;
    return good;
  }
  stream_.has_mac = false;
  if (encrypt) pad_tls_record(out, length, total);
  if (total != 0 && length >= provider_.router.limit(route()) &&
      (is_ours() || provider_.router.ready(route(), length))) {
    if ((!is_ours() && !load_iv()) || !transform(length, out, in, total)) return 0;
  } else if ((is_ours() && !hand_back()) || software_cipher(out, out_bytes, total, in, total) == 0) {
    return 0;
  }
  *out_bytes = total;
  return encrypt ? 1 : open_record(out, out_bytes, total);
}

// Nothing here depends on whether padding and MAC are right, as far as record and MAC lengths allow.
int CipherContext::open_record(unsigned char* out, std::size_t* out_bytes, std::size_t length) noexcept {
  const std::size_t skip = stream_.explicit_iv ? block() : 0;
  std::array<std::uint8_t, max_mac_bytes> random{};
  const bool good = (stream_.mac_bytes == 0 ||
                     RAND_bytes_ex(provider_.software->library(), random.data(), stream_.mac_bytes, 0) > 0) &&
                    length >= skip &&
                    open_tls_record(out + skip, length - skip, stream_.mac_bytes, random.data(),
                                    stream_.mac.data(), out_bytes);
  if (!good) {
    ERR_raise(ERR_LIB_PROV, PROV_R_CIPHER_OPERATION_FAILED);
    return 0;
  }
  stream_.has_mac = stream_.mac_bytes != 0;
  return 1;
}

}  // namespace sunxi
