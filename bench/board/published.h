// SPDX-License-Identifier: Apache-2.0
// Published measurements of the kernel's sun4i-ss driver on an A20, reduced to a straight line each.
//
// Source: the driver author's announcement of the driver for the "Security System" (2014), whose tables give
// the time per request through cryptodev, for the kernel's own software and for the engine in polled PIO.
// The lines are least-squares fits of the relative error over all sizes of a table; the worst row is off
// by 3.5 % for the engine and by 4.5 % for software.
#pragma once

#include <array>

#include "backends/backend.h"

namespace sunxi::bench {

struct Line {
  double fixed_us;
  double ns_per_byte;
  [[nodiscard]] constexpr double at(double bytes) const { return fixed_us + bytes * ns_per_byte / 1000; }
};

struct Published {
  unsigned key_bits;
  Line software;
  Line engine;
};

// Digests went through AF_ALG, in the same tables. The MD5 fit of the engine has one row off by 17 %, the
// others by at most 4.1 %.
struct PublishedDigest {
  const char* name;
  Digest digest;
  Line software;
  Line engine;
};

inline constexpr std::array published_digests{
    PublishedDigest{"MD5", Digest::md5, {83.0, 12.45}, {84.6, 8.36}},
    PublishedDigest{"SHA1", Digest::sha1, {84.3, 20.52}, {85.2, 8.28}},
};

// From the driver author's later page: AES-128 through AF_ALG.
inline constexpr Published published_afalg{128, {154.0, 52.44}, {146.7, 37.42}};

inline constexpr std::array published{
    Published{128, {11.83, 50.24}, {12.79, 32.36}},
    Published{192, {19.21, 55.95}, {13.19, 32.70}},
    Published{256, {12.03, 62.68}, {13.62, 34.15}},
};

}  // namespace sunxi::bench
