// SPDX-License-Identifier: Apache-2.0
// Stands between the backend and the kernel in the test program: counts the socket calls, lets them fail
// on demand, and, where wanted, answers those of AF_ALG itself (a strict model of algif_skcipher and
// algif_hash: what the kernel would refuse is refused, and what would hang ends the program).
#pragma once

#include <cstddef>
#include <cstdint>

namespace kernel_calls {

enum class Call : std::uint8_t { socket, bind, set_key, accept, send, receive };
inline constexpr int call_count = 6;

// Answer calls of AF_ALG by the model. Its drivers for "cbc(aes)" are "cbc-aes-model", "cbc-aes-sun8i-ce" and
// "cbc(aes)" itself; those of the other algorithms are named alike, with "des" and "des3". None of them
// leaves a usable IV behind. Those for "sha256" are "sha256-model", "sha256-sun4i-ss", "sha256-sun8i-ce" and
// "sha256" itself, and so on.
inline constexpr std::size_t default_send_buffer = 212992;
void use_model(bool on, std::size_t send_buffer = default_send_buffer);

// The calls number `skip` to `skip + times - 1` from now on fail with `error`; 0 stands for a call that
// moves 16 bytes too few. A failing receive leaves garbage in the whole buffer.
void inject(Call call, int error, int skip = 0, int times = 1);
// Whether lengths that are no multiple of 16 are received. If not: EINVAL, and garbage.
void set_stealing(bool on);
// Puts the file `theirs` at the number `ours` right before the next send through it.
void before_send(int ours, int theirs);
// Ends all that the functions above began, but for the model.
void clear();

// Calls since the last clear().
int count(Call call);
// Those of Call::receive whose buffer did not begin at a page.
int unaligned_receives();
// The most recent operation socket.
int last_operation_socket();

}  // namespace kernel_calls
