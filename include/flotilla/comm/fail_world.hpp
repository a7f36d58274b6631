#pragma once
#include <functional>
#include <string>

#include "flotilla/base/exit_code.hpp"
#include "flotilla/comm/watch.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::comm {

/// What an exception that escaped says: exit code by kind, one line.
struct LastWords {
  ExitCode code = ExitCode::internal;
  std::string line;
};
/// Of the exception being handled; call inside a catch block.
LastWords last_words() noexcept;

/// Ends the whole job because this rank cannot go on alone: prints "rank 3 on n2: <line>" on standard error, tells the others through
/// `watch` (if given), runs `before_abort` (the outcome file; its exceptions are swallowed), then aborts every rank with the code, which
/// the launcher passes on. Any thread; the first caller wins, others sleep.
[[noreturn]] void fail_world(const World* world, Watch* watch, const LastWords& words,
                             const std::function<void(const LastWords&)>& before_abort = {}) noexcept;

}  // namespace flotilla::comm
