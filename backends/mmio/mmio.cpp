// SPDX-License-Identifier: Apache-2.0
// From a request to the engine's registers: which SoC, whose engine, the mapping, the lock, pieces.
#include "backends/mmio/mmio.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <string>
#include <utility>

#include "backends/mmio/clock_unit.h"
#include "backends/mmio/device.h"
#include "backends/mmio/engine.h"
#include "backends/mmio/known_answer.h"
#include "backends/mmio/lock.h"
#include "backends/mmio/registers.h"
#include "backends/mmio/soc.h"

namespace sunxi {
namespace {

// The lock is held for one piece at a time: half a millisecond on an A20, half of what a waiter waits, and
// less for digests.
constexpr std::size_t piece_bytes = 16384;
constexpr std::uint64_t ownership_interval = 1'000'000'000;

// Everything that is mapped. Made once; a forked child goes on with it.
struct Attachment {
  Attachment(const Soc& of, const RegisterNode& through, Mapping page, Mapping lock_page,
             const Process& process)
      : soc(of),
        node(through),
        registers(std::move(page)),
        lock_file(std::move(lock_page)),
        lock(*reinterpret_cast<LockWords*>(lock_file.data())),
        engine(make_engine(of, MappedRegisters(registers_at(registers, of.base), process))) {}

  static volatile std::uint32_t* registers_at(const Mapping& page, std::uint64_t address) noexcept {
    return reinterpret_cast<volatile std::uint32_t*>(page.data() + RegisterNode::in_page(address));
  }

  const Soc& soc;
  RegisterNode node;
  Mapping registers;
  Mapping lock_file;
  EngineLock lock;
  std::unique_ptr<Engine> engine;
};

// This process, as the lock knows it, and what it has seen the engine do right: a bit for each algorithm.
struct Self : LockIdentity {
  explicit Self(const Self* inherited = nullptr) noexcept : LockIdentity(inherited) {}
  std::atomic<std::uint32_t> proven{0};
};

std::size_t length_of_text(const ClockBit& bit, std::uint64_t base, std::span<char> text) {
  if (bit.offset == 0) return 0;
  const int size = std::snprintf(text.data(), text.size(), " 0x%08" PRIx64 " bit %u,", base + bit.offset,
                                 static_cast<unsigned>(bit.bit));
  return std::min(text.size(), static_cast<std::size_t>(std::max(size, 0)));
}

class MmioBackend final : public Backend {
 public:
  MmioBackend(Process& process, const BackendOptions& options)
      : process_(process),
        device_(options.mmio_device),
        address_(options.mmio_address),
        uio_(options.mmio_uio),
        under_seccomp_(options.under_seccomp),
        detect_(options.mmio_soc == "auto"),
        soc_(detect_ ? nullptr : find_soc_by_name(options.mmio_soc)) {
    // What the configuration alone rules out is never asked for again.
    if (enabled() && soc_ != nullptr && !engine_driven(soc_->kind)) {
      decline(Reason::not_driven, "the engine of %.*s is not driven by this version",
              static_cast<int>(soc_->name.size()), soc_->name.data());
    }
    if (enabled() && options.mmio_map_at_startup && attach() == Outcome::served) open_clocks_early();
  }
  ~MmioBackend() override { delete attachment_.load(std::memory_order_acquire); }

  [[nodiscard]] std::string_view name() const noexcept override { return "mmio"; }

  [[nodiscard]] bool supports(const CipherSpec& spec) const noexcept override { return reaches(spec); }

  [[nodiscard]] Result crypt(KeySlot& slot, const CipherRequest& request) noexcept override {
    Access access;
    if (const Outcome outcome = open_access(request.spec, access); outcome != Outcome::served) {
      return {outcome, 0};
    }
    // Output that runs ahead of the input would destroy what somebody else needs to go on after a failure.
    if (std::less<>{}(request.in, static_cast<const std::uint8_t*>(request.out)) &&
        std::less<>{}(static_cast<const std::uint8_t*>(request.out), request.in + request.length)) {
      return {Outcome::busy, 0};
    }
    slot.session = this;  // so that it is released
    slot.generation = process_.generation();
    CipherRequest piece = request;
    return serve(access, request.length, [&](Engine& engine, std::size_t done, std::size_t bytes) {
      key_left_.store(true, std::memory_order_relaxed);
      piece.in = request.in + done;
      piece.out = request.out + done;
      piece.length = bytes;
      return engine.crypt(piece);
    });
  }

  [[nodiscard]] DigestWay digest_way(const DigestSpec& spec) const noexcept override {
    return reaches(spec) ? DigestWay::absorb : DigestWay::none;
  }

  [[nodiscard]] Result absorb(const AbsorbRequest& request) noexcept override {
    Access access;
    if (const Outcome outcome = open_access(request.spec, access); outcome != Outcome::served) {
      return {outcome, 0};
    }
    return absorb_pieces(access, request);
  }

  // Keys go to the engine with each request; what stays is in its registers, until the next request or
  // now. If somebody else has the engine at the moment, his request writes its own key over it.
  void release(KeySlot& slot) noexcept override {
    const bool ours = slot.session != nullptr && slot.generation == process_.generation();
    slot = {};
    Attachment* attachment = attachment_.load(std::memory_order_acquire);
    if (!ours || attachment == nullptr || !key_left_.load(std::memory_order_relaxed)) return;
    const Self* self = identities_.peek(process_.generation());
    if (self == nullptr || usable(attachment->soc) != Outcome::served) return;
    if (!attachment->lock.try_acquire(*self)) return;
    attachment->engine->wipe_registers();
    key_left_.store(false, std::memory_order_relaxed);
    attachment->lock.release(process_);
  }

  // Of EnginePrng.
  Outcome random_step(std::span<const std::uint8_t, prng_seed_bytes> seed,
                      std::span<std::uint8_t, prng_step_bytes> out) noexcept {
    if (!enabled()) return Outcome::unsupported;
    // There is no right answer to compare with: that the engine answers has to do.
    Access access{attachment_.load(std::memory_order_acquire), identity(), no_algorithm, true};
    if (access.attachment == nullptr) {
      if (const Outcome outcome = attach(); outcome != Outcome::served) return outcome;
      access.attachment = attachment_.load(std::memory_order_acquire);
    }
    if (access.attachment->soc.kind != EngineKind::sun4i_ss) return Outcome::unsupported;
    if (access.self == nullptr) return Outcome::unavailable;
    return serve_piece(access, false,
                       [&](Engine& engine) -> Progress {
                         const bool sound = engine.random(seed, out);
                         return {sound ? out.size() : 0, sound};
                       })
        .outcome;
  }

  void driver(const CipherSpec& spec, std::span<char> text) const noexcept override {
    name_driver(spec, text);
  }
  void digest_driver(const DigestSpec& spec, std::span<char> text) const noexcept override {
    name_driver(spec, text);
  }

 private:
  // What every piece of a request needs.
  struct Access {
    Attachment* attachment = nullptr;
    Self* self = nullptr;
    std::size_t algorithm = no_algorithm;
    bool proving = false;
  };

  Result absorb_pieces(const Access& access, const AbsorbRequest& request) noexcept {
    AbsorbRequest piece = request;
    return serve(access, request.length, [&](Engine& engine, std::size_t done, std::size_t bytes) {
      piece.in = request.in + done;
      piece.length = bytes;
      return engine.absorb(piece);
    });
  }

  // Before an algorithm is first used in a process, and again after anything has gone wrong: the engine's
  // words are checked nowhere else.
  template <class Spec>
  Outcome prove(const Access& access, const Spec& spec) noexcept {
    const std::uint32_t bit = std::uint32_t{1} << access.algorithm;
    if ((refuted_.load(std::memory_order_relaxed) & bit) != 0) return Outcome::unsupported;
    const char* name = nullptr;
    bool right = false;
    const Outcome outcome = ask(access, spec, name, right);
    if (outcome == Outcome::failed && served_.load(std::memory_order_relaxed) == 0) {
      decline(Reason::stuck,
              "the registers answer, but the engine does not work: is its module clock on (0x%08" PRIx64
              " bit %u)?",
              access.attachment->soc.clocks.base + access.attachment->soc.clocks.module.offset,
              static_cast<unsigned>(access.attachment->soc.clocks.module.bit));
      return Outcome::unavailable;
    }
    if (outcome != Outcome::served) return outcome;
    if (!right) {
      refuted_.fetch_or(bit, std::memory_order_relaxed);
      process_.log(LogLevel::error, "mmio is not used for %s: the engine fails the known-answer test", name);
      return Outcome::unsupported;
    }
    access.self->proven.fetch_or(bit, std::memory_order_relaxed);
    reason_.store(Reason::none, std::memory_order_relaxed);
    return Outcome::served;
  }

  Outcome ask(const Access& access, const CipherSpec& spec, const char*& name, bool& right) noexcept {
    CipherAnswer answer{};
    if (!known_answer(spec, answer)) return Outcome::unsupported;
    name = answer.name;
    right = true;
    for (const Direction direction : {Direction::encrypt, Direction::decrypt}) {
      const bool encrypts = direction == Direction::encrypt;
      std::array<std::uint8_t, 32> data{};
      std::array<std::uint8_t, max_iv_bytes> iv{};
      std::copy_n(encrypts ? answer.plaintext : answer.ciphertext, answer.length, data.begin());
      std::copy_n(answer.iv, spec.iv_bytes, iv.begin());
      const CipherRequest request{spec,        direction,   answer.key,   iv.data(),
                                  data.data(), data.data(), answer.length};
      const Result one = serve_piece(access, false, [&](Engine& engine) { return engine.crypt(request); });
      if (one.outcome != Outcome::served) return one.outcome;
      right = right && std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(answer.length),
                                  encrypts ? answer.ciphertext : answer.plaintext);
    }
    return Outcome::served;
  }

  Outcome ask(const Access& access, const DigestSpec& spec, const char*& name, bool& right) noexcept {
    DigestAnswer answer{};
    if (!known_answer(spec, answer)) return Outcome::unsupported;
    name = answer.name;
    std::array<std::uint32_t, 5> state = answer.before;
    for (std::size_t at = 0; at < answer.blocks.size(); at += spec.block_bytes) {
      const AbsorbRequest request{spec, state.data(), answer.blocks.data() + at, spec.block_bytes};
      const Result one = serve_piece(access, false, [&](Engine& engine) { return engine.absorb(request); });
      if (one.outcome != Outcome::served) return one.outcome;
    }
    right = state == answer.after;
    return Outcome::served;
  }

  // Why the engine is not used; each is logged when it becomes the reason.
  enum class Reason : std::uint8_t {
    none,
    no_soc,
    wrong_address,
    not_driven,
    filtered,
    owned,
    no_sys,
    no_device,
    forbidden,
    not_mapped,
    no_lock,
    gated,
    stuck,
    no_memory,
  };

  [[nodiscard]] bool enabled() const noexcept { return device_ != BackendOptions::MmioDevice::off; }

  // From capability data.
  template <class Spec>
  [[nodiscard]] bool reaches(const Spec& spec) const noexcept {
    if (!enabled()) return false;
    if (!detect_) return soc_ != nullptr && engine_algorithm(soc_->kind, spec) != no_algorithm;
    const auto socs = known_socs();
    return std::any_of(socs.begin(), socs.end(),
                       [&](const Soc& soc) { return engine_algorithm(soc.kind, spec) != no_algorithm; });
  }

  template <class Spec>
  void name_driver(const Spec& spec, std::span<char> text) const noexcept {
    if (text.empty()) return;
    text[0] = '\0';
    const Attachment* attachment = attachment_.load(std::memory_order_acquire);
    if (attachment == nullptr) return;
    const std::size_t algorithm = engine_algorithm(attachment->soc.kind, spec);
    if (algorithm == no_algorithm || (served_.load(std::memory_order_relaxed) >> algorithm & 1U) == 0) return;
    const std::string_view name = attachment->engine->name();
    std::snprintf(text.data(), text.size(), "%.*s", static_cast<int>(name.size()), name.data());
  }

  template <class Spec>
  Outcome open_access(const Spec& spec, Access& access) noexcept {
    access.attachment = attachment_.load(std::memory_order_acquire);
    if (access.attachment == nullptr) [[unlikely]] {
      if (!reaches(spec)) return Outcome::unsupported;
      const Outcome outcome = attach();
      if (outcome != Outcome::served) return outcome;
      access.attachment = attachment_.load(std::memory_order_acquire);
    }
    access.algorithm = engine_algorithm(access.attachment->soc.kind, spec);
    if (access.algorithm == no_algorithm) return Outcome::unsupported;
    access.self = identity();
    if (access.self == nullptr) return Outcome::unavailable;
    if (unproven_.load(std::memory_order_relaxed) ||
        (access.self->proven.load(std::memory_order_relaxed) >> access.algorithm & 1U) == 0) [[unlikely]] {
      access.proving = true;
      const Outcome outcome = prove(access, spec);
      access.proving = false;
      return outcome;
    }
    return Outcome::served;
  }

  // Calls work(engine, done, bytes), which returns Progress, for one piece after the other.
  template <class Work>
  Result serve(const Access& access, std::size_t length, Work&& work) noexcept {
    Result result{Outcome::served, 0};
    while (result.done < length) {
      const std::size_t bytes = std::min(piece_bytes, length - result.done);
      const Result one = serve_piece(access, result.done + bytes < length,
                                     [&](Engine& engine) { return work(engine, result.done, bytes); });
      result.done += one.done;
      if (one.outcome != Outcome::served) {
        result.outcome = one.outcome;
        return result;
      }
    }
    const std::uint32_t bit = std::uint32_t{1} << access.algorithm;
    if ((served_.load(std::memory_order_relaxed) & bit) == 0) [[unlikely]]
      served_.fetch_or(bit, std::memory_order_relaxed);
    return result;
  }

  Outcome decline(Reason reason, const char* format, ...) noexcept __attribute__((format(printf, 3, 4))) {
    if (reason_.exchange(reason, std::memory_order_relaxed) != reason && process_.logs(LogLevel::info)) {
      std::array<char, 460> text{};
      va_list arguments;
      va_start(arguments, format);
      std::vsnprintf(text.data(), text.size(), format, arguments);
      va_end(arguments);
      process_.log(LogLevel::info, "mmio is not used: %s", text.data());
    }
    return Outcome::unavailable;
  }

  // Null if this process has not been looked up and must not make system calls any more.
  Self* identity() noexcept {
    const std::uint64_t generation = process_.generation();
    Self* known = identities_.peek(generation);
    if (known != nullptr) [[likely]]
      return known;
    const ErrnoGuard guard;
    if (!process_.sandboxed()) known = identities_.get(generation);
    return known;
  }

  // One thread of a process at a time. A child that was forked meanwhile starts anew.
  Outcome attach() noexcept {
    if (absent_.load(std::memory_order_relaxed)) return Outcome::unavailable;
    const ErrnoGuard guard;
    Outcome outcome = Outcome::unavailable;
    if (!process_.sandboxed()) {
      const std::uint64_t generation = process_.generation();
      std::uint64_t attaching = attaching_.load(std::memory_order_acquire);
      if (attaching == generation ||
          !attaching_.compare_exchange_strong(attaching, generation, std::memory_order_acquire)) {
        outcome = Outcome::busy;
      } else {
        outcome = attachment_.load(std::memory_order_acquire) != nullptr ? Outcome::served : attach_alone();
        attaching_.store(0, std::memory_order_release);
      }
    }
    return outcome;
  }

  Outcome attach_alone() noexcept {
    if (!under_seccomp_ && Process::filtered()) {
      return decline(Reason::filtered, "the process is under a seccomp filter, see under_seccomp");
    }
    const Soc* soc = soc_;
    if (soc == nullptr && detect_) soc = detect_soc();
    if (soc == nullptr) {
      absent_.store(true, std::memory_order_relaxed);  // a device tree does not change
      return decline(Reason::no_soc, "no Allwinner engine: the device tree names none");
    }
    const int name_size = static_cast<int>(soc->name.size());
    if (device_ == BackendOptions::MmioDevice::devmem && address_ != soc->base) {
      absent_.store(true, std::memory_order_relaxed);
      return decline(Reason::wrong_address, "no engine at 0x%08" PRIx64 ": that of %.*s is at 0x%08" PRIx64,
                     address_, name_size, soc->name.data(), soc->base);
    }
    if (!engine_driven(soc->kind)) {
      absent_.store(true, std::memory_order_relaxed);
      return decline(Reason::not_driven, "the engine of %.*s is not driven by this version", name_size,
                     soc->name.data());
    }
    if (Outcome outcome = check_ownership(*soc); outcome != Outcome::served) return outcome;

    RegisterNode node;
    const bool by_uio = device_ == BackendOptions::MmioDevice::uio;
    if (device_ != BackendOptions::MmioDevice::devmem && !node.find_uio(*soc, uio_) && by_uio) {
      return decline(Reason::no_device, "there is no UIO device %s with a map of the engine at 0x%08" PRIx64,
                     uio_.c_str(), soc->base);
    }
    const Descriptor device = node.open();
    if (!device) return decline_device(node, errno);
    struct stat status {};
    if (fstat(device.get(), &status) != 0) return decline_device(node, errno);
    const char* why = nullptr;
    const Descriptor lock_file = open_lock_file(soc->base, status, why);
    if (!lock_file) return decline(Reason::no_lock, "%s (/run/sunxi-%" PRIx64 ".lock)", why, soc->base);

    Mapping registers = node.map_engine(device, *soc);
    if (!registers) return decline_device(node, errno);
    Mapping lock_page(lock_file.get(), 0, lock_file_bytes);
    if (!lock_page) return decline(Reason::no_lock, "cannot map the lock file: %s", std::strerror(errno));

    auto* attachment =
        new (std::nothrow) Attachment(*soc, node, std::move(registers), std::move(lock_page), process_);
    if (attachment == nullptr || attachment->engine == nullptr || identity() == nullptr) {
      delete attachment;
      return decline(Reason::no_memory, "out of memory");
    }
    attachment_.store(attachment, std::memory_order_release);
    return Outcome::served;
  }

  Outcome decline_device(const RegisterNode& node, int error) noexcept {
    switch (error) {
      case ENOENT:
      case ENXIO:
      case ENODEV:
        return decline(Reason::no_device, "there is no %s in this kernel or container", node.path());
      case EPERM:
      case EACCES:
        if (node.is_uio()) {
          return decline(Reason::forbidden, "%s is refused: a udev rule gives it to a group", node.path());
        }
        return decline(
            Reason::forbidden,
            "%s is refused: it takes root with CAP_SYS_RAWIO, no kernel lockdown, and with "
            "IO_STRICT_DEVMEM an engine that no driver has claimed or the boot option iomem=relaxed; a UIO "
            "device needs none of these (see sun4i-ss.md)",
            node.path());
      default:
        return decline(Reason::not_mapped, "cannot map the engine through %s: %s", node.path(),
                       std::strerror(error));
    }
  }

  // System calls; the result is remembered for usable().
  Outcome check_ownership(const Soc& soc) noexcept {
    std::array<char, 64> driver{};
    const std::uint64_t now = process_.now();
    const Ownership ownership = engine_ownership(soc, driver);
    // Whoever had it leaves the clock gates closed and the registers as he likes.
    if (ownership != Ownership::free) unproven_.store(true, std::memory_order_relaxed);
    owned_.store(ownership != Ownership::free, std::memory_order_relaxed);
    checked_.store(now, std::memory_order_release);
    switch (ownership) {
      case Ownership::free:
        return Outcome::served;
      case Ownership::driven:
        return decline(Reason::owned, "the kernel's driver %s has the engine: afalg and cryptodev use it",
                       driver.data());
      case Ownership::unknown:
        break;
    }
    return decline(Reason::no_sys, "no /sys to tell whether a kernel driver has the engine");
  }

  Outcome usable(const Soc& soc) noexcept {
    if (process_.now() - checked_.load(std::memory_order_acquire) < ownership_interval) [[likely]] {
      return owned_.load(std::memory_order_relaxed) ? Outcome::unavailable : Outcome::served;
    }
    const ErrnoGuard guard;
    return process_.sandboxed() ? Outcome::unavailable : check_ownership(soc);
  }

  template <class Work>
  Result serve_piece(const Access& access, bool more, Work&& work) noexcept {
    Attachment& attachment = *access.attachment;
    Engine& engine = *attachment.engine;
    if (const Outcome outcome = usable(attachment.soc); outcome != Outcome::served) return {outcome, 0};
    const EngineLock::Taken taken = attachment.lock.acquire(*access.self, process_);
    if (taken == EngineLock::Taken::no) return {Outcome::busy, 0};
    if (taken == EngineLock::Taken::from_dead) [[unlikely]]
      engine.stop();
    if (attachment.lock.changed_hands(*access.self)) [[unlikely]]
      engine.taken_over();

    Result result{Outcome::served, 0};
    Clocks clocks = Clocks::running;
    if (unproven_.load(std::memory_order_relaxed)) [[unlikely]] {
      if (access.proving) clocks = wake(attachment);
      access.self->proven.store(0, std::memory_order_relaxed);
      if (!access.proving) {
        result.outcome = Outcome::busy;  // it became so while this request was on its way
      } else if (clocks != Clocks::closed && engine.alive()) {
        unproven_.store(false, std::memory_order_relaxed);
      } else {
        result.outcome = Outcome::unavailable;
      }
    }
    if (result.outcome == Outcome::served) [[likely]] {
      const Progress progress = work(engine);
      result.done = progress.done;
      if (!progress.sound) [[unlikely]] {
        engine.wipe_registers();
        unproven_.store(true, std::memory_order_relaxed);
        access.self->proven.store(0, std::memory_order_relaxed);
        result.outcome = Outcome::failed;
      }
    }
    const bool waited_for = attachment.lock.release(process_);
    if (result.outcome == Outcome::unavailable) [[unlikely]]
      decline_gated(attachment, clocks);
    if (waited_for && more) attachment.lock.give_way(process_);
    return result;
  }

  enum class Clocks : std::uint8_t {
    running,
    refused,  // the unit's registers cannot be had; errno of the attempt in clock_error_
    closed,   // they can, and the bits do not stay set
  };

  // Sees to it that the engine has its clocks, under its lock: of our processes only one at a time changes
  // the words, which are the kernel's as well. The unit is mapped for that moment only.
  Clocks wake(const Attachment& attachment) noexcept {
    const ErrnoGuard guard;
    clock_error_.store(EACCES, std::memory_order_relaxed);
    if (process_.sandboxed() || (!under_seccomp_ && Process::filtered())) return Clocks::refused;
    const Descriptor device = attachment.node.open();
    const Mapping page = device ? attachment.node.map_clock_unit(device, attachment.soc) : Mapping();
    if (!page) {
      clock_error_.store(errno, std::memory_order_relaxed);
      return Clocks::refused;
    }
    MappedRegisters unit(Attachment::registers_at(page, attachment.soc.clocks.base), process_);
    return open_clocks(attachment.soc.clocks, unit) ? Clocks::running : Clocks::closed;
  }

  // Whoever drops privileges later cannot.
  void open_clocks_early() noexcept {
    Attachment& attachment = *attachment_.load(std::memory_order_acquire);
    const Self* self = identity();
    if (self == nullptr || attachment.lock.acquire(*self, process_) == EngineLock::Taken::no) return;
    static_cast<void>(wake(attachment));
    attachment.lock.release(process_);
  }

  void decline_gated(const Attachment& attachment, Clocks clocks) noexcept {
    const Soc& soc = attachment.soc;
    std::array<char, 128> bits{};
    std::span<char> rest(bits);
    for (const ClockBit& bit : {soc.clocks.module, soc.clocks.bus, soc.clocks.reset, soc.clocks.memory}) {
      rest = rest.subspan(length_of_text(bit, soc.clocks.base, rest));
    }
    switch (clocks) {
      case Clocks::refused:
        if (attachment.node.is_uio()) {
          decline(Reason::gated,
                  "the engine's clock or reset is off, and %s has no map of the clock unit:%s must be 1; add "
                  "that map, or a bus node that enables clocks (see sun4i-ss.md)",
                  attachment.node.path(), bits.data());
        } else {
          decline(Reason::gated,
                  "the engine's clock or reset is off, and the kernel refuses the clock unit (%s):%s must be "
                  "1. Boot with iomem=relaxed, or make a UIO device (see sun4i-ss.md), or bind the kernel's "
                  "driver and use afalg or cryptodev",
                  std::strerror(clock_error_.load(std::memory_order_relaxed)), bits.data());
        }
        return;
      case Clocks::closed:
        decline(Reason::gated, "the engine's clock or reset is off and cannot be switched on:%s must be 1",
                bits.data());
        return;
      case Clocks::running:
        break;
    }
    decline(Reason::gated, "the registers do not answer, though clock and reset are on:%s", bits.data());
  }

  Process& process_;
  const BackendOptions::MmioDevice device_;
  const std::uint64_t address_;
  const std::string uio_;  // empty: any
  const bool under_seccomp_;
  const bool detect_;
  const Soc* const soc_;  // null if it is to be detected, or unknown

  std::atomic<Attachment*> attachment_{nullptr};
  std::atomic<std::uint64_t> attaching_{0};  // the generation whose thread does it
  std::atomic<bool> absent_{false};
  std::atomic<std::uint64_t> checked_{0};  // Process::now() of the last look at /sys
  std::atomic<bool> owned_{false};
  std::atomic<bool> unproven_{true};       // the engine has yet to show that it answers
  std::atomic<bool> key_left_{false};      // a key of ours may be in the engine's registers
  std::atomic<std::uint32_t> refuted_{0};  // failed the known-answer test, as in served_
  std::atomic<std::uint32_t> served_{0};   // a bit for each algorithm of the engine
  std::atomic<int> clock_error_{0};
  std::atomic<Reason> reason_{Reason::none};
  PerProcess<Self> identities_;
};

class MmioPrng final : public EnginePrng {
 public:
  MmioPrng(Process& process, const BackendOptions& options) : backend_(process, options) {}
  [[nodiscard]] Outcome step(std::span<const std::uint8_t, prng_seed_bytes> seed,
                             std::span<std::uint8_t, prng_step_bytes> out) noexcept override {
    return backend_.random_step(seed, out);
  }

 private:
  MmioBackend backend_;
};

}  // namespace

std::unique_ptr<EnginePrng> make_mmio_prng(Process& process, const BackendOptions& options) {
  return std::unique_ptr<EnginePrng>(new (std::nothrow) MmioPrng(process, options));
}

std::unique_ptr<Backend> make_mmio_backend(Process& process, const BackendOptions& options) {
  return std::unique_ptr<Backend>(new (std::nothrow) MmioBackend(process, options));
}

}  // namespace sunxi
