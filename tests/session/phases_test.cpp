// Phases of a run: what they inherit, where they end, what each step's learning rate is.
#include "flotilla/session/phases.hpp"

#include <gtest/gtest.h>

#include "flotilla/session/same_run.hpp"
#include "support/refusal.hpp"

namespace flotilla::session {
namespace {

using train::RateSchedule;

RunConfig without_phases() {
  RunConfig config;
  config.architecture = model::built_in("gpt2-tiny");
  config.training.steps = 100;
  config.training.length = 16;
  config.training.global_batch = 4;
  config.training.learning_rate = 1;
  config.training.minimum_learning_rate = 0.1;
  config.training.warmup_steps = 10;
  return config;
}

RunConfig::DataSource source(const std::string& name, double weight = 1) {
  RunConfig::DataSource source;
  source.name = name;
  source.weight = weight;
  return source;
}

RunConfig::Phase phase(const std::string& name, std::int64_t steps, int length = 0, int global_batch = 0,
                       std::vector<std::string> sources = {}) {
  RunConfig::Phase phase;
  phase.name = name;
  phase.steps = steps;
  phase.length = length;
  phase.global_batch = global_batch;
  phase.sources = std::move(sources);
  return phase;
}

/// 100 steps: the job's length and batch; a larger batch; a longer sequence, annealed, on one source.
RunConfig with_phases() {
  auto config = without_phases();
  config.data.sources = {source("web", 3), source("code")};
  config.phases = {phase("small", 40), phase("large", 40, 0, 8), phase("anneal", 20, 32, 8, {"code"})};
  auto& anneal = config.phases.back();
  anneal.learning_rate_schedule = RateSchedule::linear;
  anneal.learning_rate = 0.5;
  anneal.minimum_learning_rate = 0;
  return config;
}

TEST(Phases, OfAJobWithoutAnyAreOne) {
  const auto phases = phases_of(without_phases());
  ASSERT_EQ(phases.size(), 1u);
  EXPECT_EQ(phases[0].name, "");
  EXPECT_EQ(phases[0].end, 100);
  EXPECT_EQ(phases[0].length, 16);
  EXPECT_EQ(sequences_before(phases, 7), 28);
  EXPECT_EQ(end_of_shape(phases, 0), 1u);
}

TEST(Phases, InheritFromTrainingAndFollowEachOther) {
  const auto phases = phases_of(with_phases());
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(in_words(phases[0]), "phase 'small': steps 1 to 40, length 16, global batch 4");
  EXPECT_EQ(in_words(phases[1]), "phase 'large': steps 41 to 80, length 16, global batch 8");
  EXPECT_EQ(in_words(phases[2]), "phase 'anneal': steps 81 to 100, length 32, global batch 8");
  EXPECT_EQ(phases[2].weights, (std::vector<double>{0, 1}));
  EXPECT_EQ(declared_steps(with_phases()), 100);
  EXPECT_EQ(sequences_before(phases, 40), 160);
  EXPECT_EQ(sequences_before(phases, 90), 160 + 320 + 80);
  EXPECT_EQ(phase_after(phases, 39), 0u);
  EXPECT_EQ(phase_after(phases, 40), 1u);
  EXPECT_EQ(phase_after(phases, 100), 2u);
  EXPECT_EQ(equivalent_steps_left(phases, phases[1], 70), 10 + 2 * 20);
}

TEST(Phases, EndWhereTheRunIsToEnd) {
  auto config = with_phases();
  config.training.steps = 50;
  const auto phases = phases_of(config);
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[1].end, 50);
  const auto rates = learning_rates(config, phases, run_schedule(config, std::nullopt));
  EXPECT_EQ(rates.at(0).total_steps, 100) << "a trial follows the schedule of the whole";
}

TEST(Phases, OfTheSameShapeShareAPlan) {
  auto config = with_phases();
  config.phases[1].global_batch = 0;
  config.phases.push_back(phase("last", 5, 32, 8));
  config.training.steps = 105;
  const auto phases = phases_of(config);
  EXPECT_EQ(end_of_shape(phases, 0), 2u);
  EXPECT_EQ(end_of_shape(phases, 2), 4u);
}

TEST(Phases, FollowTheRunsScheduleOrTheirOwn) {
  const auto config = with_phases();
  const auto rates = learning_rates(config, phases_of(config), run_schedule(config, std::nullopt));
  const auto at = [&](std::int64_t step) { return learning_rate(std::prev(rates.upper_bound(step))->second, step); };
  const train::LearningRate whole{1, 0.1, 10, 100};
  for (const std::int64_t step : {0, 9, 10, 39, 40, 79}) EXPECT_EQ(at(step), learning_rate(whole, step)) << step;
  EXPECT_DOUBLE_EQ(at(80), 0.5);
  EXPECT_DOUBLE_EQ(at(99), 0);
  EXPECT_NEAR(at(90), 0.5 * 9 / 19, 1e-12);
}

TEST(PhaseWeights, AreTheSourcesOwnOrThePhases) {
  const std::vector<RunConfig::DataSource> sources{source("web", 3), source("a=b"), source("code")};
  const auto weights = [&](std::vector<std::string> words) { return phase_weights(phase("p", 1, 0, 0, std::move(words)), sources); };
  EXPECT_EQ(weights({}), std::vector<double>{});
  EXPECT_EQ(weights({"web", "code=0.25"}), (std::vector<double>{3, 0, 0.25}));
  EXPECT_EQ(weights({"a=b", "web=1"}), (std::vector<double>{1, 1, 0})) << "a name with = in it";
  const auto refused = [&](std::vector<std::string> words) { return tests::refusal([&] { weights(std::move(words)); }); };
  EXPECT_EQ(refused({"books"}), "'books' is the name of no [[data.source]]");
  EXPECT_EQ(refused({"web", "web=2"}), "'web' is named twice");
  for (const char* word : {"web=", "web=x", "web=0", "web=-1", "web=1e10", "web=nan"})
    tests::expect_contains(refused({word}), "expected a number above 0 and of at most 1e+09 behind =");
}

TEST(TrainingIdentity, IsOfThePhasesThatHaveBegun) {
  const auto config = with_phases();
  EXPECT_EQ(training_identity(config, 40), training_identity(without_phases(), 40)) << "phases may be added to a run";
  EXPECT_NE(training_identity(config, 41), training_identity(without_phases(), 41));
  tests::expect_contains(training_identity(config, 81),
                         "\nphase 2 = from step 40, length 16, global-batch 8\n"
                         "phase 3 = from step 80, length 32, global-batch 8, sources code=1\n");
  auto later = config;
  later.phases[2].length = 8;
  EXPECT_EQ(training_identity(later, 80), training_identity(config, 80)) << "what has not begun may change";
  EXPECT_NE(training_identity(later, 81), training_identity(config, 81));
  auto longer = config;
  longer.phases[0].steps = 50;
  EXPECT_EQ(training_identity(longer, 40), training_identity(config, 40));
  EXPECT_NE(training_identity(longer, 60), training_identity(config, 60));
}

TEST(TrainingIdentity, OfAChangedPhaseIsRefusedWithTheLine) {
  auto config = with_phases();
  checkpoint::Loaded saved;
  saved.directory = "run/step-60";
  saved.manifest.training = training_identity(config, 60);
  saved.manifest.seed = 1;
  saved.manifest.step = 60;
  saved.manifest.sequences = 160 + 160;
  EXPECT_NO_THROW(require_same_run(config, "", saved));
  config.phases[0].steps = 50;
  const auto message = tests::refusal([&] { require_same_run(config, "", saved); });
  tests::expect_contains(message, "saved with 'phase 2 = from step 40, length 16, global-batch 8'");
  tests::expect_contains(message, "the job says 'phase 2 = from step 50, length 16, global-batch 8'");
}

}  // namespace
}  // namespace flotilla::session
