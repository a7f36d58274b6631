#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "flotilla/base/exit_code.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/checkpoint/loss_scale.hpp"
#include "flotilla/plan/plan.hpp"

/// A run is a sequence of segments: the steps that it makes under one plan.
namespace flotilla::session {

/// A plan to go on with, bound to the job's ranks, and who wants it: "requested in control.json".
struct NextPlan {
  plan::Plan plan;
  std::string reason;
  std::string refused;                    ///< why the wish cannot be met; `plan` means nothing then
  std::optional<std::size_t> phase = {};  ///< which begins with it; nothing: the one in hand goes on
};

/// How the steps under a plan ended, on every rank of the active ranks alike.
struct SegmentResult {
  ExitCode code = ExitCode::done;
  std::string reason;
  std::int64_t step = 0;                              ///< steps done
  bool next = false;                                  ///< the run goes on under another plan, in place
  Seconds since{};                                    ///< this rank's clock when it ended
  std::int64_t updates = 0;                           ///< optimizer steps made, where the run goes on
  bool temporary = false;                             ///< it failed for what may be over soon: the run directory is full or away
  std::optional<checkpoint::LossScale> loss_scale{};  ///< of the next step in fp16, where the run goes on
};

/// An ending as text for ranks that were not there, without the rank's own clock, and back.
std::string to_text(const SegmentResult&);
SegmentResult segment_result_from_text(const std::string&);

/// What came of a wish for another plan.
struct PlanChange {
  std::int64_t step = 0;  ///< after which
  std::string reason;     ///< of the wish
  Seconds since;          ///< this rank's clock when the last step under the old plan was over
  Bytes moved;            ///< over the network, all ranks together
  std::string refused;    ///< why the old plan goes on; empty: it does not
  /// The plans do not fit side by side: saved under the new one, to be started again.
  std::optional<SegmentResult> segment_result;
};

}  // namespace flotilla::session
