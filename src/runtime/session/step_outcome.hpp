#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "flotilla/train/trainer.hpp"
#include "save_schedule.hpp"

/// What follows a step: functions of what every rank of the active ranks knows alike, so that all do the same.
namespace flotilla::session {

struct StepOutcome {
  enum class Then {
    next_step,
    change_plan,  ///< somebody wants another plan, or it is ready
    stop,         ///< somebody wants the run to end, and steps are left
    finish        ///< that was the last step
  };
  Then then = Then::next_step;
  bool save = false;
  bool ends() const { return then == Then::stop || then == Then::finish; }
  bool operator==(const StepOutcome&) const = default;
};

/// After a step that was not given up: `done` of `steps` steps are made, this one counted. The last step finishes whatever else was wished;
/// a stop goes before a change of plan, which the restart makes superfluous.
StepOutcome outcome_of(const train::StepResult&, std::int64_t done, std::int64_t steps, const SaveSchedule&);

/// Why a step had nothing to learn from.
std::string nothing_counts_in_words(int length);
/// One line about a step whose gradient fp16 could not hold.
std::string overflow_in_words(const train::StepResult&, std::int64_t step);
/// One line about a step whose sums are not finite. `name` is of a rank of the active ranks.
std::string not_finite_in_words(const train::StepResult&, std::int64_t step, const std::function<std::string(Rank)>& name);

}  // namespace flotilla::session
