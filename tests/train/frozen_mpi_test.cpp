// Frozen tensors: whatever the plan, what is trained is trained as if nothing were frozen, and what is frozen keeps its bits.
#include <gtest/gtest.h>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/train/move_state.hpp"
#include "train/against_one.hpp"

namespace flotilla::train {
namespace {

using Patterns = std::vector<std::string>;

const Patterns attention{"block.*.attention.*", "embedding.position"}, lower_half{"embedding.*", "block.0.*"}, small{"*.bias", "*norm*"};

plan::Plan without_freezing(plan::Plan plan) {
  plan.model.frozen.clear();
  return plan;
}

/// The gradients of what is trained against those of one rank that trains everything, and their norm alone in the norm.
void expect_gradients_of_full_training(const plan::Plan& plan, double tolerance, const program::RankLocations& placement = {}) {
  const auto& crew = tests::everybody();
  const std::string what = plan.model.name + " " + plan.model.frozen.front() + " " + plan::summary(plan);
  const auto full = tests::trainer(tests::myself(), tests::on_one_rank(without_freezing(plan)));
  const auto ours = tests::trainer(crew, plan, {}, placement);
  const double want = full->step(0).loss;
  const auto got = ours->step(0);
  EXPECT_NEAR(got.loss, want, tolerance * want) << what;
  const double norm = tests::expect_gradients_of(*full, *ours, tolerance, what);
  EXPECT_NEAR(got.gradient_norm, norm, tolerance * norm) << what;
}

/// Some steps against one rank that freezes the same; the frozen bits stay, the others do not.
void expect_training_of_the_rest(const plan::Plan& plan, double tolerance) {
  const auto one = tests::trainer(tests::myself(), tests::on_one_rank(plan)), ours = tests::trainer(tests::everybody(), plan);
  tests::expect_training_of_the_rest(*one, *ours, tolerance, plan.model.name + " " + plan.model.frozen.front() + " " + plan::summary(plan));
}

TEST(Frozen, EveryCombinationOfDegrees) {
  for (const auto& name : tests::families({"gpt2-tiny", "llama-tiny", "opt-post-tiny", "qwen3-tiny"})) {
    auto model = model::built_in(name);
    tests::for_all_degrees(model, [&](int data, int pipeline, int tensor) {
      for (const auto& patterns : {attention, lower_half, small}) {
        const bool biased = model.qkv_bias;
        model.frozen = !biased && patterns == attention ? Patterns{"block.*.attention.*"} : patterns;
        if (!biased && patterns == small) model.frozen = {"*norm*", "head.word"};
        auto plan = plan::even_plan(model, tests::short_on_gpus(24), 8, Precision::fp32, data, pipeline, tensor, 1);
        plan.shard_optimizer = patterns != small;
        expect_gradients_of_full_training(plan, 1e-5);
        if (patterns == lower_half) expect_training_of_the_rest(plan, 1e-5);
      }
    });
  }
}

TEST(Frozen, AnyPlan) {
  std::mt19937 random{static_cast<unsigned>(31 + tests::everybody().size())};
  for (int tried = 0; tried < 12 && !HasFailure(); ++tried) {
    auto plan = tests::any_plan_of_all(random);
    if (tried % 3 == 0) plan = tests::in_chunks(plan, random);
    plan.shard_optimizer = tried % 2 == 0;
    plan.model.frozen = tried % 3 == 0 ? Patterns{"block.*.attention.*"} : tried % 3 == 1 ? lower_half : Patterns{"*norm*", "block.1.*"};
    expect_gradients_of_full_training(plan, 2e-5, tests::any_placement(random, tests::everybody().size()));
  }
}

/// In half precision the frozen parameters stay in fp32 as they were, beside a sharded optimizer as well, and so do their copies.
TEST(Frozen, HalfPrecisionKeepsTheBits) {
  const int ranks = tests::everybody().size();
  auto model = model::built_in("gpt2-tiny");
  model.frozen = attention;
  for (const bool shards : {false, true}) {
    auto plan = plan::even_plan(model, tests::short_on_gpus(24), 12, Precision::bf16, ranks, 1, 1, 1);
    plan.shard_optimizer = shards;
    expect_training_of_the_rest(plan, 5e-3);
  }
}

/// A split backward pass makes no weights' halves of what is frozen, and its bits are those of whole passes.
TEST(Frozen, SplitBackwardPassesKeepTheBits) {
  const int ranks = tests::everybody().size();
  if (ranks != 2 && ranks != 3) return;
  auto model = model::built_in("gpt2-mini");
  for (const auto& patterns : {attention, lower_half, Patterns{"*.weight"}}) {
    model.frozen = patterns;
    auto plan = plan::even_plan(model, 16, 6, Precision::fp32, 1, ranks, 1, 1);
    const auto whole = tests::trainer(tests::everybody(), plan);
    plan.schedule = plan::ScheduleKind::zero_bubble;
    const auto split = tests::trainer(tests::everybody(), plan);
    for (int step = 0; step < 2; ++step) {
      const auto want = whole->step(step), got = split->step(step);
      EXPECT_EQ(got.loss, want.loss) << patterns.front();
      EXPECT_EQ(got.gradient_norm, want.gradient_norm) << patterns.front();
    }
  }
}

std::filesystem::path shared_folder() {
  const auto name = std::filesystem::temp_directory_path() / ("flotilla-frozen-test-" + std::to_string(getpid()));
  return mpi::broadcast_string(tests::everybody().control(), name.string(), 0, tests::patience);
}

/// Two plans of all ranks.
std::pair<plan::Plan, plan::Plan> two_plans(Precision precision) {
  const int ranks = tests::everybody().size();
  auto model = model::built_in("gpt2-tiny");
  model.frozen = attention;
  auto first = plan::even_plan(model, tests::short_on_gpus(24), 12, precision, ranks, 1, 1, 1),
       second = plan::even_plan(model, tests::short_on_gpus(24), 12, precision, 1, 1, ranks, 2);
  first.shard_optimizer = true;
  return {first, second};
}

/// What is saved under one plan goes on under another; there are no moments of what is frozen in the file. Who trains it after that finds
/// them zero.
TEST(Frozen, CheckpointsHoldWhatIsThere) {
  const auto& crew = tests::everybody();
  const auto run = shared_folder();
  if (crew.rank() == Rank{0}) std::filesystem::create_directories(run);
  mpi::barrier(crew.control(), tests::patience);
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    const auto [first, second] = two_plans(precision);
    const auto old = tests::trainer(crew, first);
    for (int step = 0; step < 2; ++step) old->step(step);
    checkpoint::Manifest manifest;
    manifest.step = precision == Precision::fp32 ? 2 : 3;
    manifest.optimizer_steps = 2;
    checkpoint::save(crew, run, old->state(), manifest, {4, tests::patience});
    const auto directory = checkpoint::step_directory(run, manifest.step);
    for (const auto& tensor : checkpoint::describe(directory, true).tensors) {
      EXPECT_TRUE(tensor.damaged.empty());
      EXPECT_TRUE(tensor.kind == checkpoint::StateKind::parameters || tensor.name.find(".attention.") == std::string::npos) << tensor.name;
    }

    const auto fresh = tests::trainer(crew, second);
    const auto loaded = checkpoint::load(crew, directory, fresh->state(), {tests::patience});
    EXPECT_EQ(loaded.frozen.size(), 9u);
    fresh->adopt(2);
    for (int step = 2; step < 4; ++step) {
      const double want = old->step(step).loss;
      EXPECT_NEAR(fresh->step(step).loss, want, (precision == Precision::fp32 ? 1e-5 : 5e-3) * want);
    }

    const auto thawed = tests::trainer(crew, without_freezing(second));
    const auto state = thawed->state();
    for (const auto& part : state.parts) std::ranges::fill(part.moment1, 1.0f);
    checkpoint::load(crew, directory, state, {tests::patience});
    for (const auto& part : state.parts) {
      const bool was_frozen = !fresh->program().tensors[static_cast<std::size_t>(part.tensor)].trained;
      EXPECT_TRUE(!was_frozen || std::ranges::all_of(part.moment1, [](float m) { return m == 0; }));
    }
    mpi::barrier(crew.control(), tests::patience);
  }
  if (crew.rank() == Rank{0}) std::filesystem::remove_all(run);
}

/// A change of plan moves the parameters of what is frozen and no moments.
TEST(Frozen, MovesToAnotherPlan) {
  const auto& crew = tests::everybody();
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    const auto [first, second] = two_plans(precision);
    const auto old = tests::trainer(crew, first), moved = tests::trainer(crew, second);
    for (int step = 0; step < 2; ++step) old->step(step);
    const auto migration = program::migrate(first, second), all = program::migrate(without_freezing(first), without_freezing(second));
    EXPECT_TRUE(crew.size() == 1 || migration.moved() < all.moved());
    move_state(crew, migration, old->state(), moved->state(), tests::patience);
    moved->adopt(2);
    for (int step = 2; step < 4; ++step) {
      const double want = old->step(step).loss;
      EXPECT_NEAR(moved->step(step).loss, want, (precision == Precision::fp32 ? 1e-5 : 5e-3) * want);
    }
  }
}

}  // namespace
}  // namespace flotilla::train
