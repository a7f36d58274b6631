// The learning rate's schedule of a run that is continued.
#include "flotilla/session/run_schedule.hpp"

#include <gtest/gtest.h>

#include "support/refusal.hpp"

namespace flotilla::session {
namespace {

using train::RateSchedule;
using Remarks = std::vector<std::string>;

RunConfig config(std::int64_t steps) {
  RunConfig config;
  config.training.steps = steps;
  return config;
}

std::optional<checkpoint::Loaded> saved_with(std::vector<std::pair<std::string, std::string>> provenance) {
  checkpoint::Loaded saved;
  saved.directory = "run/step-3";
  saved.manifest.provenance = std::move(provenance);
  return saved;
}

TEST(RunSchedule, OfANewRunIsTheJobs) {
  auto now = config(50);
  EXPECT_EQ(run_schedule(now, std::nullopt), (RunSchedule{RateSchedule::cosine, 50, 0}));
  now.training.learning_rate_schedule = RateSchedule::wsd;
  EXPECT_EQ(run_schedule(now, std::nullopt), (RunSchedule{RateSchedule::wsd, 50, 5})) << "a tenth";
  now.training.decay_steps = 200;
  now.training.cooldown_steps = 40;
  EXPECT_EQ(run_schedule(now, std::nullopt), (RunSchedule{RateSchedule::wsd, 200, 40}));
  EXPECT_EQ(remarks_on(config(50), run_schedule(config(50), std::nullopt), std::nullopt), Remarks{});
}

TEST(RunSchedule, IsTheCheckpointsWhereTheJobSaysNothing) {
  const auto saved = saved_with(provenance_of({RateSchedule::wsd_sqrt, 30, 7}));
  auto now = config(50);
  EXPECT_EQ(run_schedule(now, saved), (RunSchedule{RateSchedule::wsd_sqrt, 30, 7}));
  EXPECT_EQ(
      remarks_on(now, run_schedule(now, saved), saved),
      (Remarks{"the learning rate keeps the schedule of the checkpoint, wsd-sqrt; to change that: --training.learning-rate-schedule cosine",
               "the learning rate decays over 30 steps, as in the checkpoint, not over the 50 of --training.steps; to change that: "
               "--training.decay-steps 50"}));
  now.training.learning_rate_schedule = RateSchedule::constant;
  EXPECT_EQ(run_schedule(now, saved), (RunSchedule{RateSchedule::constant, 30, 0}));
  EXPECT_EQ(remarks_on(now, run_schedule(now, saved), saved), Remarks{}) << "told with the other options that changed";
  now.training.learning_rate_schedule = RateSchedule::wsd_sqrt;
  now.training.decay_steps = 70;
  EXPECT_EQ(run_schedule(now, saved), (RunSchedule{RateSchedule::wsd_sqrt, 70, 7}));
  EXPECT_EQ(remarks_on(now, run_schedule(now, saved), saved), Remarks{});
}

TEST(RunSchedule, OfACheckpointThatDoesNotSayIsACosineOverTheSteps) {
  const auto saved = saved_with({});
  EXPECT_EQ(run_schedule(config(50), saved), (RunSchedule{RateSchedule::cosine, 50, 0}));
  const auto older = saved_with({{"decay steps", "30"}});
  EXPECT_EQ(run_schedule(config(50), older), (RunSchedule{RateSchedule::cosine, 30, 0}));
  auto flat = config(50);
  flat.training.minimum_learning_rate = flat.training.learning_rate;
  EXPECT_EQ(remarks_on(flat, run_schedule(flat, older), older), Remarks{}) << "nothing decays";
}

TEST(RunSchedule, RefusesWordsWithoutMeaning) {
  for (const char* words : {"", "0", "-3", "30 steps", "99999999999999999999"})
    tests::expect_contains(tests::refusal([&] {
                             run_schedule(config(5), saved_with({{"decay steps", words}}));
                           }),
                           "run/step-3/manifest.json: /provenance/decay steps: expected a number of steps");
  tests::expect_contains(
      tests::refusal([&] {
        run_schedule(config(5), saved_with({{"learning-rate schedule", "up"}}));
      }),
      "/provenance/learning-rate schedule: expected a schedule's name, got 'up'; --training.learning-rate-schedule overrides it");
}

TEST(RunSchedule, CrossesFromRankToRank) {
  for (const auto& schedule : {RunSchedule{RateSchedule::wsd, 100, 10}, RunSchedule{RateSchedule::inverse_sqrt, 1, 0}})
    EXPECT_EQ(run_schedule_from_text(run_schedule_to_text(schedule)), schedule);
}

}  // namespace
}  // namespace flotilla::session
