#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "flotilla/base/error.hpp"
#include "flotilla/comm/world.hpp"

/// One rank throwing alone hangs the rest: a phase that may fail on some ranks ends in agreement. All functions here are collective over
/// the world, called by one thread of each rank and in the same order everywhere; none waits for ever.
namespace flotilla::comm {

/// How a phase ended on one rank.
struct PhaseOutcome {
  bool ok = true;
  ErrorKind kind = ErrorKind::internal;  ///< when not ok
  std::string message;                   ///< one line, when not ok
  bool operator==(const PhaseOutcome&) const = default;
};

/// Thrown by every rank of the world with the same text: all are alive and here, so the program may end in good order (rank 0 prints, all
/// finalize). A failure that includes a silent rank is a plain Error instead, and the job must be aborted.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Which kind wins when ranks fail differently: internal, usage, bad_input, unavailable, temporary, no_plan, communication (which is
/// mostly the consequence of another rank's failure). True when `a` comes before `b`.
bool outranks(ErrorKind a, ErrorKind b) noexcept;

/// Returns when every rank says ok. Otherwise every rank throws the same AgreedError: the kind that wins, the failing ranks and hosts (a
/// few), and the first message of that kind; just the message when all ranks say the same. When ranks do not answer within `deadline` of
/// rank 0's arrival, those that did throw Error (communication, or the kind of a rank that failed) naming the missing; a missing rank 0 is
/// noticed after twice the deadline.
void agree(const World&, const PhaseOutcome& mine, Seconds deadline);

/// Runs `work` and returns how it ended: Error by its kind, std::bad_alloc as unavailable, other exceptions as internal. Local.
PhaseOutcome outcome_of(std::string_view what, const std::function<void()>& work);

/// Runs `work` on this rank, then agrees on how it ended; returns its value. `what` ("reading the job") opens the message of exceptions
/// that are not ours.
template <class Work>
std::invoke_result_t<Work&> agree_on(const World& world, std::string_view what, Work&& work, Seconds deadline) {
  using Value = std::invoke_result_t<Work&>;
  if constexpr (std::is_void_v<Value>) {
    agree(world, outcome_of(what, [&] { work(); }), deadline);
  } else {
    std::optional<Value> value;
    agree(world, outcome_of(what, [&] { value.emplace(work()); }), deadline);
    return std::move(*value);
  }
}

/// Throws AgreedError{bad_input} on every rank when the texts differ ("the job"), naming the ranks in the minority and where the texts
/// part. Any length.
void require_same(const World&, std::string_view name, std::string_view mine, Seconds deadline);

}  // namespace flotilla::comm
