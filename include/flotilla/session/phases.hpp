#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "flotilla/data/sampler.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/session/run_config.hpp"
#include "flotilla/session/run_schedule.hpp"

/// The phases of a run: docs/design/session.md. Pure.
namespace flotilla::session {

/// Steps in a row with one length, batch, mixture and learning-rate schedule; `training` of the job with the phase's own values in it.
struct Phase {
  std::string name;  ///< empty: the only one of a job without phases
  std::int64_t first_step = 0;
  std::int64_t end = 0;  ///< the next one's first step, or where the run ends
  int length = 0, global_batch = 0;
  std::vector<double> weights = {};  ///< of the job's sources; empty: their own
  RunConfig::Phase own = {};         ///< what the job says of it
};

/// One or more, one behind the other from step 0 to training.steps: phases that would begin behind that are left out.
std::vector<Phase> phases_of(const RunConfig&);
/// Steps of all phases that the job declares; training.steps where it declares none.
std::int64_t declared_steps(const RunConfig&);
/// "phase 'long'", for messages.
std::string spelled(const Phase&);
/// "phase 'long': steps 101 to 200, length 512, global batch 8".
std::string in_words(const Phase&);

/// The phase of the step that follows so many; the last one where none does.
std::size_t phase_after(const std::vector<Phase>&, std::int64_t steps_done);
/// Whether a plan's batches are the phase's.
bool fits(const plan::Plan&, const Phase&);
/// The phases from this one on that one plan can serve, since their batches have the same shape: the number of the first behind them.
std::size_t end_of_shape(const std::vector<Phase>&, std::size_t phase);
/// In the steps before.
std::int64_t sequences_before(const std::vector<Phase>&, std::int64_t step);
/// Steps at the size of those of this phase that the rest of the run is worth, by tokens.
std::int64_t equivalent_steps_left(const std::vector<Phase>&, const Phase&, std::int64_t steps_done);

/// The same for the sampler.
std::vector<data::SamplingPhase> sampling(const std::vector<Phase>&);
/// By the step from which each counts: a phase that names a schedule has its own, over its steps; the others follow the run's.
std::map<std::int64_t, train::LearningRate> learning_rates(const RunConfig&, const std::vector<Phase>&, const RunSchedule&);

/// A phase's sources: the place in data.sources, and the weight. Throws Error{bad_input} that says what is wrong with the word.
std::vector<double> phase_weights(const RunConfig::Phase&, const std::vector<RunConfig::DataSource>&);

}  // namespace flotilla::session
