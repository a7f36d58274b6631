#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "flotilla/base/exit_code.hpp"
#include "flotilla/base/units.hpp"

namespace flotilla::app {

/// A plan to go on with, bound to the job's ranks, as JSON, and who wants it: "asked for in control.json".
struct NextPlan {
  std::string plan, reason;
  std::string refused;  ///< why the wish cannot be met; `plan` is empty then
};

/// How the steps under a plan ended, on every rank of the crew alike.
struct Ending {
  ExitCode code = ExitCode::done;
  std::string reason;
  std::int64_t step = 0;         ///< steps done
  std::optional<NextPlan> next;  ///< the run goes on under this plan, in place
  Seconds since{};               ///< this rank's clock when it ended
  std::int64_t updates = 0;      ///< optimizer steps made, where the run goes on
};

/// What came of a wish for another plan.
struct PlanChange {
  std::int64_t step = 0;  ///< after which
  std::string reason;     ///< of the wish
  Seconds since;          ///< this rank's clock when the last step under the old plan was over
  Bytes moved;            ///< over the network, all ranks together
  std::string refused;    ///< why the old plan goes on; empty: it does not
  /// The plans do not fit side by side: saved under the new one, to be started again.
  std::optional<Ending> ending;
};

}  // namespace flotilla::app
