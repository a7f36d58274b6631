// What follows a step: to save, to stop, to change plan, to finish.
#include "step_outcome.hpp"

#include <gtest/gtest.h>

#include "recent_steps.hpp"

namespace flotilla::session {
namespace {

using Then = StepOutcome::Then;

train::StepResult told(bool stop, bool save, bool change) {
  train::StepResult result;
  result.stop = stop;
  result.save = save;
  result.change = change;
  return result;
}

StepOutcome outcome(const train::StepResult& result, std::int64_t done, SaveSchedule schedule = {}) {
  return outcome_of(result, done, 100, schedule);
}

TEST(StepOutcome, GoesOnWhereNobodyWantsAnything) {
  EXPECT_EQ(outcome(told(false, false, false), 7), (StepOutcome{Then::next_step, false}));
  EXPECT_FALSE(outcome(told(false, false, false), 7).ends());
}

TEST(StepOutcome, SavesWhenAskedAndOnSchedule) {
  const SaveSchedule every_ten{10, {}};
  EXPECT_TRUE(outcome(told(false, true, false), 7).save);
  EXPECT_FALSE(outcome(told(false, false, false), 19, every_ten).save);
  EXPECT_TRUE(outcome(told(false, false, false), 20, every_ten).save);
  EXPECT_EQ(outcome(told(false, true, true), 20, every_ten), (StepOutcome{Then::change_plan, true})) << "a save, then the change";
}

TEST(StepOutcome, AStopSavesAndGoesBeforeAChangeOfPlan) {
  EXPECT_EQ(outcome(told(true, false, true), 7), (StepOutcome{Then::stop, true}));
  EXPECT_TRUE(outcome(told(true, false, false), 7).ends());
}

TEST(StepOutcome, TheLastStepFinishesWhateverElseWasWished) {
  for (const bool stop : {false, true})
    for (const bool change : {false, true}) EXPECT_EQ(outcome(told(stop, false, change), 100), (StepOutcome{Then::finish, true}));
}

TEST(SaveSchedule, TimeIsSinceTheLastSave) {
  const SaveSchedule off, every_minute{0, Seconds{60}};
  EXPECT_FALSE(off.due_at(Seconds{1e9}, Seconds{0}));
  EXPECT_FALSE(every_minute.due_at(Seconds{159}, Seconds{100}));
  EXPECT_TRUE(every_minute.due_at(Seconds{160}, Seconds{100}));
  EXPECT_FALSE(off.due_after(10));
}

TEST(StepOutcome, NamesWhereTheFirstValueWasNotFinite) {
  const auto name = [](Rank rank) { return "n" + std::to_string(rank.value); };
  train::StepResult result;
  result.loss = 3;
  result.gradient_norm = 5;
  result.not_finite_ranks = 1;
  result.not_finite_rank = Rank{2};
  EXPECT_EQ(not_finite_in_words(result, 8, name), "step 8: loss 3, gradient norm 5: not finite, first on n2");
  result.not_finite_ranks = 3;
  EXPECT_EQ(not_finite_in_words(result, 8, name), "step 8: loss 3, gradient norm 5: not finite, on 3 ranks");
  result.not_finite_ranks = 0;
  EXPECT_EQ(not_finite_in_words(result, 8, name), "step 8: loss 3, gradient norm 5: not finite, in the sum over the ranks");
}

TEST(RecentSteps, OldOnesAreForgotten) {
  RecentSteps recent;
  EXPECT_EQ(recent.longest(), Seconds{0});
  recent.add(Seconds{9});
  for (std::size_t i = 1; i < RecentSteps::most; ++i) recent.add(Seconds{1});
  EXPECT_EQ(recent.longest(), Seconds{9});
  recent.add(Seconds{2});
  EXPECT_EQ(recent.longest(), Seconds{2}) << "the first has left";
  EXPECT_EQ(recent.seconds().size(), RecentSteps::most);
}

}  // namespace
}  // namespace flotilla::session
