// Tokens that do not count: whatever the plan, loss, gradients and updates are those of one device whose mean is over the tokens that
// count.
#include <gtest/gtest.h>

#include <cmath>

#include "train/against_one.hpp"
#include "train/random_tokens.hpp"

namespace flotilla::train {
namespace {

constexpr double tolerance = 1e-5;

/// How a mask is laid over the test's tokens.
using Counts = std::function<bool(std::int64_t token)>;

/// 20,000 random tokens with this mask, in a folder of this process.
data::Sampler masked_sampler(const plan::Plan& plan, const std::string& name, const Counts& counts) {
  static const tests::TemporaryFolder folder;
  constexpr std::int32_t count = 20000;
  const auto base = folder / name;
  if (!std::filesystem::exists(base.string() + ".mask")) {
    tests::write_random_tokens(base, std::vector{count});
    tests::write_mask(base, count, counts);
  }
  return {tests::corpus_of(base), tests::sampling(plan)};
}

std::unique_ptr<Trainer> trainer(const comm::World& crew, const plan::Plan& plan, const data::Sampler& data, double clip = 1) {
  Options options;
  options.clip = clip;
  return tests::trainer_on(data, crew, plan, tests::runtime(), options);
}

/// Most sequences count nothing; some count a few tokens or all. Replicas and microbatches get very different counts.
bool seldom(std::int64_t token) { return token % 977 < 60 || token % 331 == 5; }
bool every_third(std::int64_t token) { return token % 3 == 0; }

void expect_same(const plan::Plan& plan, const std::string& name, const Counts& counts, double bound) {
  const std::string what = plan.model.name + " " + plan::summary(plan) + " " + name;
  const auto data = masked_sampler(plan, name, counts);
  const auto one = trainer(tests::myself(), tests::on_one_rank(plan), data), ours = trainer(tests::everybody(), plan, data);
  for (int step = 0; step < 3; ++step) {
    const auto want = one->step(step), got = ours->step(step);
    EXPECT_EQ(got.counted_tokens, want.counted_tokens) << what;
    if (want.empty()) continue;
    EXPECT_NEAR(got.loss, want.loss, bound * want.loss) << what << " step " << step;
    EXPECT_NEAR(got.gradient_norm, want.gradient_norm, 10 * bound * want.gradient_norm) << what << " step " << step;
  }
  const auto want = one->evaluate(), got = ours->evaluate();
  EXPECT_EQ(got.tokens, want.tokens) << what;
  EXPECT_NEAR(got.loss, want.loss, 10 * bound * want.loss) << what;
}

TEST(LossMask, EveryCombinationOfDegrees) {
  for (const std::string name : {"gpt2-tiny", "llama-tiny"}) {
    const auto model = model::built_in(name);
    tests::for_all_degrees(model, [&](int data, int pipeline, int tensor) {
      auto plan = plan::even_plan(model, tests::short_on_gpus(24), 12, Precision::fp32, data, pipeline, tensor, 1);
      plan.shard_optimizer = pipeline == 1;
      expect_same(plan, "seldom", seldom, tolerance);
      if (name == "llama-tiny") expect_same(plan, "third", every_third, tolerance);
    });
  }
}

TEST(LossMask, AnyPlan) {
  std::mt19937 random{static_cast<unsigned>(17 + tests::everybody().size())};
  for (int tried = 0; tried < 4 && !HasFailure(); ++tried) {
    auto plan = tests::any_plan_of_all(random);
    if (tried % 3 == 0) plan = tests::in_chunks(plan, random);
    expect_same(plan, "seldom", seldom, 2 * tolerance);
  }
}

/// What counts here and what counts there make up all: losses add up, and so do gradients, which are those of sums divided by all tokens.
/// The norm on record, which clipping judges, is that of the mean over the tokens that count.
TEST(LossMask, ThePartsAddUpToTheWhole) {
  const int ranks = tests::everybody().size();
  const auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 24, 12, Precision::fp32, ranks, 1, 1, 1);
  const auto& crew = tests::everybody();
  const auto whole = trainer(crew, plan, masked_sampler(plan, "all", [](std::int64_t) { return true; })),
             part = trainer(crew, plan, masked_sampler(plan, "third", every_third)),
             rest = trainer(crew, plan, masked_sampler(plan, "rest", [](std::int64_t t) { return !every_third(t); }));
  const auto all = whole->step(0), a = part->step(0), b = rest->step(0);
  const std::int64_t tokens = std::int64_t{plan.length} * plan.global_batch;
  EXPECT_EQ(all.counted_tokens, tokens);
  EXPECT_EQ(a.counted_tokens + b.counted_tokens, tokens);
  const auto sum_of = [](const StepResult& r) { return r.loss * static_cast<double>(r.counted_tokens); };
  EXPECT_NEAR(sum_of(a) + sum_of(b), sum_of(all), 1e-6 * sum_of(all));
  double norm = 0;
  for (std::size_t t = 0; t < whole->program().tensors.size(); ++t) {
    const auto g = whole->gradient(static_cast<int>(t)), ga = part->gradient(static_cast<int>(t)), gb = rest->gradient(static_cast<int>(t));
    double apart = 0, length = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      apart += std::pow(double{ga[i]} + gb[i] - g[i], 2);
      length += double{g[i]} * g[i];
      norm += double{ga[i]} * ga[i];
    }
    EXPECT_LE(std::sqrt(apart), tolerance * std::sqrt(length) + 1e-9) << whole->program().tensors[t].name;
  }
  EXPECT_NEAR(a.gradient_norm, std::sqrt(norm) * static_cast<double>(tokens) / static_cast<double>(a.counted_tokens),
              1e-5 * a.gradient_norm);
}

/// One rank has every parameter: after a step, AdamW's first moment is (1 - beta1) times the clipped gradient of the mean.
TEST(LossMask, TheOptimizerTakesTheGradientOfTheMean) {
  const auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 24, 12, Precision::fp32, 1, 1, 1, 2);
  for (const double clip : {0.0, 0.01}) {
    const auto one = trainer(tests::myself(), plan, masked_sampler(plan, "seldom", seldom), clip);
    const auto result = one->step(0);
    ASSERT_GT(result.counted_tokens, 0);
    const double mean = 24.0 * 12 / static_cast<double>(result.counted_tokens);
    const double factor = mean * (clip > 0 ? clip / result.gradient_norm : 1);
    const auto state = one->state();
    for (const auto& local : state.parts) {
      const auto gradient = one->gradient(local.tensor);
      for (std::size_t i = 0; i < gradient.size(); i += 97)
        EXPECT_NEAR(local.moment1[i], 0.1 * factor * double{gradient[i]}, 1e-6 * std::abs(factor * double{gradient[i]}) + 1e-12);
    }
  }
}

/// Parameters and moments that a checkpoint takes from this rank.
std::vector<float> state_of(Trainer& trainer) {
  std::vector<float> all;
  for (const auto& local : trainer.state().parts)
    if (local.owner)
      for (const auto values : {local.parameters, local.moment1, local.moment2}) all.insert(all.end(), values.begin(), values.end());
  return all;
}

/// Between steps that have something to learn from, those without move neither weights nor moments, and the schedule goes on.
TEST(LossMask, AStepWithoutACountedTokenUpdatesNothing) {
  const int ranks = tests::everybody().size();
  for (const auto precision : {Precision::fp32, Precision::fp16})
    for (const bool sharded : {false, true}) {
      auto plan = plan::even_plan(model::built_in("gpt2-tiny"), tests::short_on_gpus(24), ranks, precision, ranks, 1, 1, 1);
      plan.shard_optimizer = sharded;
      const auto ours = trainer(tests::everybody(), plan, masked_sampler(plan, "rare", [](std::int64_t t) { return t % 300 < 2; }));
      int empty = 0, full = 0;
      for (int step = 0; step < 16; ++step) {
        const auto before = state_of(*ours);
        const auto updates = ours->optimizer_steps();
        const auto scale = ours->loss_scale();
        const auto result = ours->step(step);
        EXPECT_TRUE(result.finite);
        EXPECT_EQ(state_of(*ours) == before, before.empty() || !result.updated()) << "step " << step;
        EXPECT_EQ(ours->optimizer_steps(), updates + (result.updated() ? 1 : 0));
        if (result.empty() && scale) {
          EXPECT_EQ(ours->loss_scale()->good_steps, scale->good_steps);
        }
        ++(result.empty() ? empty : full);
      }
      EXPECT_GT(empty, 0);
      EXPECT_GT(full, 0);
    }
}

/// Nothing counts: there is no loss, the gradient is 0, and all ranks go on.
TEST(LossMask, AStepWithoutACountedToken) {
  const auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 24, 12, Precision::fp32, 1, tests::everybody().size() % 2 ? 1 : 2, 1, 2);
  const auto& crew = plan.stages.size() == 2 && tests::everybody().size() == 2 ? tests::everybody() : tests::myself();
  const auto used = &crew == &tests::everybody() ? plan : tests::on_one_rank(plan);
  const auto ours = trainer(crew, used, masked_sampler(plan, "none", [](std::int64_t) { return false; }));
  for (int step = 0; step < 2; ++step) {
    const auto result = ours->step(step);
    EXPECT_EQ(result.counted_tokens, 0);
    EXPECT_TRUE(std::isnan(result.loss));
    EXPECT_FALSE(result.updated());
    EXPECT_EQ(result.gradient_norm, 0);
    EXPECT_TRUE(result.finite);
  }
  EXPECT_EQ(ours->evaluate().tokens, 0);
}

/// Gradients in half precision are scaled as ever, and the mean is over what counts.
TEST(LossMask, HalfPrecision) {
  const int ranks = tests::everybody().size();
  const auto plan = plan::even_plan(model::built_in("gpt2-tiny"), tests::short_on_gpus(24), 12, Precision::bf16, ranks, 1, 1, 1);
  expect_same(plan, "third", every_third, 5e-3);
}

}  // namespace
}  // namespace flotilla::train
