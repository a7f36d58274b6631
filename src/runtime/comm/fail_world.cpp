#include "flotilla/comm/fail_world.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "flotilla/base/log.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/mpi/session.hpp"
#include "flotilla/nccl/communicator.hpp"

namespace flotilla::comm {
namespace {

constexpr Seconds to_spread_the_word{2.0};
constexpr Seconds to_give_up_devices{2.0};
constexpr std::chrono::seconds to_write_the_outcome{10};    // a disk that hangs must not keep the job alive
constexpr std::chrono::seconds to_end_the_job_yourself{5};  // what the rank has that speaks

std::atomic_flag failing;

template <class Action>
void quietly(const Action& action) noexcept {
  try {
    action();
  } catch (...) {  // on the way out nothing may keep us from the abort
  }
}

void abort_later(int code) {
  std::thread{[code] {
    std::this_thread::sleep_for(to_write_the_outcome);
    mpi::abort(code);
  }}.detach();
}

void print(const World* world, const std::string& line) {
  log::error(world != nullptr ? text(world->name(world->rank()), ": ", line) : line);
}

/// What this rank says is often the consequence of what another said before: then that counts.
LastWords with_first_cause(const World* world, const Watch* watch, const LastWords& words) {
  const std::optional<Trouble> trouble = watch != nullptr ? watch->trouble() : std::nullopt;
  if (!trouble || world == nullptr || trouble->rank == world->rank()) return words;
  return {trouble->words.code, text(words.line, " (before that, ", to_string(*trouble), ")")};
}

/// What GPUs exchange with a lost rank would not end: all groups are given up as one.
void give_up_devices() noexcept {
  if (!nccl::abort_every(to_give_up_devices))
    quietly([] { log::error("NCCL does not give up its communicators: the GPU hangs; see nvidia-smi and dmesg"); });
}

[[noreturn]] void end(const LastWords& words, const BeforeAbort& before_abort, Watch* watch) noexcept {
  const int code = static_cast<int>(words.code);
  quietly([&] { abort_later(code); });
  quietly([&] {
    if (before_abort) before_abort(words);
  });
  quietly([&] {
    if (watch != nullptr) watch->announce_failure(words, to_spread_the_word);
  });
  give_up_devices();
  mpi::abort(code);
}

void only_once() noexcept {
  if (!failing.test_and_set()) return;
  for (;;) std::this_thread::sleep_for(std::chrono::seconds{1});
}

/// Of the ranks that lost the same peer one is enough to say so.
bool speaks_for_all(const World& world, const Trouble& trouble) { return world.rank() == Rank{trouble.rank == Rank{0} ? 1 : 0}; }

}  // namespace

void fail_world(const World* world, Watch* watch, const LastWords& words, const BeforeAbort& before_abort) noexcept {
  only_once();
  LastWords all = words;
  quietly([&] { all = with_first_cause(world, watch, words); });
  quietly([&] { print(world, all.line); });
  end(all, before_abort, watch);
}

Watch::OnTrouble end_world_on_trouble(const World& world, BeforeAbort before_abort) {
  return [&world, before_abort = std::move(before_abort)](const Trouble& trouble) {
    only_once();
    const bool silent = trouble.kind == Trouble::Kind::silent;
    const bool speaks = silent && speaks_for_all(world, trouble);
    if (speaks) print(&world, trouble.words.line);
    if (!speaks) {
      give_up_devices();
      quietly([&] {
        if (before_abort) before_abort(trouble.words);
      });
      std::this_thread::sleep_for(to_end_the_job_yourself);
      // It has not ended the job: it may not have noticed yet (a rank that was held up itself gives the others the time that it missed), or
      // be lost, too. Said twice is better than not at all.
      if (silent) print(&world, trouble.words.line);
    }
    end(trouble.words, speaks ? before_abort : BeforeAbort{}, nullptr);
  };
}

}  // namespace flotilla::comm
