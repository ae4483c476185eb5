// SPDX-License-Identifier: Apache-2.0
// The board's folder and settings.
#include "tests/board/state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstring>
#include <new>

namespace sunxi::board {
namespace {

constexpr std::uint64_t magic = 0x73756e7869'0003;

constexpr Traits sun4i{.iv_readback_wrong = true};
constexpr Traits sun7i{.iv_readback_wrong = false};
constexpr Traits sun6i{.iv_readback_wrong = false, .has_reset = true, .pll_bias = 1};
constexpr Traits sun8i{.iv_readback_wrong = false,
                       .has_cts_length = true,
                       .sha1_big_endian = true,
                       .has_reset = true,
                       .pll_bias = 1};

constexpr std::array socs{
    BoardSoc{"A10", "allwinner,sun4i-a10", "1c15000.crypto-engine", 0x01c15000, sun4i},
    BoardSoc{"A10s", "allwinner,sun5i-a10s", "1c15000.crypto-engine", 0x01c15000, sun4i},
    BoardSoc{"A13", "allwinner,sun5i-a13", "1c15000.crypto-engine", 0x01c15000, sun4i},
    BoardSoc{"A20", "allwinner,sun7i-a20", "1c15000.crypto-engine", 0x01c15000, sun7i},
    BoardSoc{"A31", "allwinner,sun6i-a31", "1c15000.crypto-engine", 0x01c15000, sun6i},
    BoardSoc{"A33", "allwinner,sun8i-a33", "1c15000.crypto-engine", 0x01c15000, sun8i},
    BoardSoc{"V3s", "allwinner,sun8i-v3s", "1c15000.crypto", 0x01c15000, sun8i},
};

constexpr unsigned all_clocks = Model::bus_gate | Model::module_clock | Model::reset_line;

constexpr std::array<std::string_view, 6> fault_names{"none",  "stall", "overcount",
                                                      "zeros", "ones",  "wrong-data"};

using Path = std::array<char, PATH_MAX>;

const char* join(Path& path, const char* folder, const char* name) {
  std::snprintf(path.data(), path.size(), "%s/%s", folder, name);
  return path.data();
}

int raw_open(const char* path, int flags, mode_t mode) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

bool write_file(const char* folder, const char* name, std::string_view content) {
  Path path;
  const int file = raw_open(join(path, folder, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    std::fprintf(stderr, "board: cannot create %s\n", path.data());
    return false;
  }
  const bool written = write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  syscall(SYS_close, file);
  return written;
}

// The arguments of syscall() are not converted: an int would fill half a register.
State* map_state(int file) {
#if defined(SYS_mmap2)
  const long address =
      syscall(SYS_mmap2, nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
#else
  const long address =
      syscall(SYS_mmap, nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0L);
#endif
  syscall(SYS_close, file);
  return address == -1 ? nullptr : reinterpret_cast<State*>(address);
}

bool number(std::string_view& text, std::uint64_t& value) {
  const std::string_view one = text.substr(0, text.find(':'));
  const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), value);
  text.remove_prefix(std::min(text.size(), one.size() + 1));
  return error == std::errc{} && end == one.data() + one.size();
}

bool parse_fault(std::string_view text, Fault& fault) {
  const std::string_view kind = text.substr(0, text.find(':'));
  text.remove_prefix(std::min(text.size(), kind.size() + 1));
  const auto* name = std::find(fault_names.begin(), fault_names.end(), kind);
  if (name == fault_names.end()) return false;
  fault.kind = static_cast<FaultKind>(name - fault_names.begin());
  if (!text.empty() && !number(text, fault.after)) return false;
  if (!text.empty() && !number(text, fault.duration)) return false;
  std::uint64_t amount = fault.amount;
  if (!text.empty() && !number(text, amount)) return false;
  fault.amount = static_cast<std::uint32_t>(amount);
  return text.empty();
}

}  // namespace

const BoardSoc* find_board_soc(std::string_view name) {
  const auto* row =
      std::find_if(socs.begin(), socs.end(), [&](const BoardSoc& soc) { return soc.name == name; });
  return row == socs.end() ? nullptr : row;
}

bool create_board(const char* folder, std::string_view soc) {
  const BoardSoc* row = find_board_soc(soc);
  if (row == nullptr) {
    std::fprintf(stderr, "board: unknown SoC %.*s\n", static_cast<int>(soc.size()), soc.data());
    return false;
  }
  std::array<char, 128> compatible{};
  const int size = std::snprintf(compatible.data(), compatible.size(), "modelled,board%c%.*s", '\0',
                                 static_cast<int>(row->compatible.size()), row->compatible.data());
  std::array<char, 16> base{};
  std::array<char, 16> clock_base{};
  std::snprintf(base.data(), base.size(), "0x%08x\n", static_cast<unsigned>(row->base));
  std::snprintf(clock_base.data(), clock_base.size(), "0x%08x\n", static_cast<unsigned>(Model::clock_base));
  if (!write_file(folder, "mem", "") || !write_file(folder, "uio1", "") ||
      !write_file(folder, "uio1-name", "crypto\n") ||
      !write_file(folder, "uio1-maps-map0-addr", base.data()) ||
      !write_file(folder, "uio1-maps-map0-offset", "0x0\n") ||
      !write_file(folder, "uio1-maps-map1-addr", clock_base.data()) ||
      !write_file(folder, "uio1-maps-map1-offset", "0x0\n") ||
      !write_file(folder, "compatible", {compatible.data(), static_cast<std::size_t>(size) + 1})) {
    return false;
  }
  Path path;
  const int file = raw_open(join(path, folder, "state.new"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(State)) != 0) return false;
  State* state = map_state(file);
  if (state == nullptr) return false;
  new (state) State{};
  state->base = row->base;
  std::memcpy(state->device.data(), row->device.data(), row->device.size());
  state->model.traits = row->traits;
  state->model.pll = row->traits.pll_bias != 0 ? 0x90041811 : 0xa1009911;  // 600 MHz
  state->magic = magic;
  munmap(state, sizeof *state);
  Path complete;
  return std::rename(path.data(), join(complete, folder, "state")) == 0;
}

State* open_board(const char* folder) {
  Path path;
  const int file = raw_open(join(path, folder, "state"), O_RDWR | O_CLOEXEC, 0);
  if (file < 0) return nullptr;
  State* state = map_state(file);
  if (state != nullptr && state->magic != magic) {
    munmap(state, sizeof *state);
    return nullptr;
  }
  return state;
}

bool configure_board(State& state, std::string_view key, std::string_view value) {
  const auto pid = static_cast<std::uint32_t>(getpid());
  bool good = true;
  state.model.enter(pid);
  if (key == "engine-ns") {
    std::uint64_t ns = 0;
    good = number(value, ns);
    if (good) state.model.engine_ps = ns * 1000;
  } else if (key == "fault") {
    Fault fault;
    good = parse_fault(value, fault);
    if (good) state.model.set_fault(fault);
  } else if (key == "bound") {
    good = value.size() < state.bound.size();
    if (good) {
      state.bound = {};
      if (value != "none") std::memcpy(state.bound.data(), value.data(), value.size());
    }
  } else if (key == "gated") {
    state.model.set_clocks(value == "1" || value == "yes" ? 0 : all_clocks);
  } else if (key == "closed") {
    unsigned open = all_clocks;
    if (value.find("bus") != std::string_view::npos) open &= ~unsigned{Model::bus_gate};
    if (value.find("module") != std::string_view::npos) open &= ~unsigned{Model::module_clock};
    if (value.find("reset") != std::string_view::npos) open &= ~unsigned{Model::reset_line};
    state.model.set_clocks(open);
  } else if (key == "pll") {
    std::uint64_t word = 0;
    good = number(value, word);
    if (good) state.model.pll = static_cast<std::uint32_t>(word);
  } else if (key == "early-fetch") {
    state.model.traits.early_fetch = value == "1" || value == "yes";
  } else if (key == "sha1-word4-plain") {
    state.model.traits.sha1_word4_plain = value == "1" || value == "yes";
  } else {
    int* setting = key == "refuse-open"    ? &state.refuse_open
                   : key == "refuse-map"   ? &state.refuse_map
                   : key == "refuse-clock" ? &state.refuse_clock
                   : key == "refuse-uio"   ? &state.refuse_uio
                   : key == "uio"          ? &state.uio
                                           : nullptr;
    std::uint64_t word = 0;
    good = setting != nullptr && number(value, word);
    if (good) *setting = static_cast<int>(word);
  }
  state.model.leave();
  return good;
}

}  // namespace sunxi::board
