#include "step_outcome.hpp"

#include "flotilla/base/text.hpp"

namespace flotilla::session {

StepOutcome outcome_of(const train::StepResult& result, std::int64_t done, std::int64_t steps, const SaveSchedule& schedule) {
  using Then = StepOutcome::Then;
  if (done == steps) return {Then::finish, true};
  if (result.stop) return {Then::stop, true};
  return {result.change ? Then::change_plan : Then::next_step, result.save || schedule.due_after(done)};
}

std::string not_finite_in_words(const train::StepResult& result, std::int64_t step, const std::function<std::string(Rank)>& name) {
  const std::string where = result.not_finite_ranks == 1  ? "first on " + name(result.not_finite_rank)
                            : result.not_finite_ranks > 1 ? text("on ", result.not_finite_ranks, " ranks")
                                                          : "in the sum over the ranks";
  return text("step ", step, ": loss ", result.loss, ", gradient norm ", result.gradient_norm, ": not finite, ", where);
}

std::string nothing_counts_in_words(int length) {
  return text("no token of the batch counts in the loss: sequences of ", length,
              " tokens hold prompts without answers; raise --training.length or --training.global-batch, or shorten the prompts");
}

std::string overflow_in_words(const train::StepResult& result, std::int64_t step) {
  return text("step ", step, ": the gradient overflowed fp16 at a loss scale of ", result.loss_scale,
              ": the optimizer step is skipped, and the scale halved");
}

}  // namespace flotilla::session
