#pragma once
#include <functional>

#include "flotilla/comm/last_words.hpp"
#include "flotilla/comm/watch.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::comm {

/// What is done on this rank before the job ends: the outcome file. Its exceptions are swallowed.
using BeforeAbort = std::function<void(const LastWords&)>;

/// Ends the whole job because this rank cannot go on alone: prints "rank 3 on n2: <line>" on standard error, runs `before_abort`, tells the
/// others through `watch` (if given; up to 2 s), then aborts every rank with the code, which the launcher passes on. Any thread; the first
/// caller wins, later ones sleep.
[[noreturn]] void fail_world(const World* world, Watch* watch, const LastWords& words, const BeforeAbort& before_abort = {}) noexcept;

/// A Watch callback. For a silent peer: one rank (0, or 1 when 0 is silent) prints it, all run `before_abort` and abort with
/// ExitCode::lost_peer. For one that failed: runs `before_abort` with its words and gives that rank time (5 s) to end the job itself, so
/// that its exit code is the job's. Never returns; the main thread's own fail_world() then sleeps. `world` must outlive the watch.
Watch::OnTrouble end_world_on_trouble(const World& world, BeforeAbort before_abort = {});

}  // namespace flotilla::comm
