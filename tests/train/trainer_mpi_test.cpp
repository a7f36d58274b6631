// The step itself: same bits every run, poisoned temporaries change nothing, wishes reach everybody, bad numbers leave the parameters
// alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "flotilla/base/error.hpp"
#include "support/refusal.hpp"
#include "support/standin_count.hpp"
#include "train/fixture.hpp"

namespace flotilla::train {
namespace {

plan::Plan mixed_plan(Precision precision = Precision::fp32, plan::Recompute recompute = plan::Recompute::none) {
  const int ranks = tests::everybody().size();
  auto model = model::built_in("opt-post-tiny");
  model.dropout = 0.1;
  auto plan = ranks == 4   ? plan::even_plan(model, 16, 7, precision, 1, 2, 2, 2)
              : ranks == 3 ? plan::even_plan(model, 16, 7, precision, 1, 3, 1, 1)
                           : plan::even_plan(model, 16, 7, precision, ranks, 1, 1, 2);
  for (auto& stage : plan.stages) stage.recompute = recompute;
  return plan;
}

std::vector<float> parameters(Trainer& trainer) {
  std::vector<float> all;
  const auto state = trainer.state();
  for (const auto& part : state.parts) all.insert(all.end(), part.parameters.begin(), part.parameters.end());
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> after_steps(const plan::Plan& plan, int steps, Options options = {}) {
  const auto trainer = tests::trainer(tests::everybody(), plan, options);
  for (int step = 0; step < steps; ++step) trainer->step(step);
  return parameters(*trainer);
}

TEST(Trainer, TwoRunsGiveTheSameBits) {
  for (auto precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    EXPECT_TRUE(same_bits(after_steps(mixed_plan(precision), 3), after_steps(mixed_plan(precision), 3))) << to_string(precision);
}

TEST(Trainer, PoisonedTemporariesChangeNothing) {
  Options poisoned;
  poisoned.poison = true;
  for (auto recompute : {plan::Recompute::none, plan::Recompute::full})
    EXPECT_TRUE(
        same_bits(after_steps(mixed_plan(Precision::fp32, recompute), 2), after_steps(mixed_plan(Precision::fp32, recompute), 2, poisoned)))
        << to_string(recompute);
  auto shared = mixed_plan(Precision::bf16);
  shared.shard_optimizer = true;
  EXPECT_TRUE(same_bits(after_steps(shared, 2), after_steps(shared, 2, poisoned)));
  for (auto recompute : {plan::Recompute::none, plan::Recompute::selective}) {
    auto whole = mixed_plan(Precision::fp32, recompute);
    if (whole.stages.size() < 2) continue;
    whole.sequence_parallel = true;
    auto split = whole;
    split.schedule = plan::ScheduleKind::zero_bubble;
    EXPECT_TRUE(same_bits(after_steps(whole, 2), after_steps(split, 2, poisoned))) << to_string(recompute);
  }
}

/// Kernels, products, copies and events that a step puts on the streams of a stand-in GPU.
std::int64_t enqueued_by_a_step(int microbatches, int blocks) {
  auto model = model::built_in("gpt2-tiny");
  model.blocks = blocks;
  const auto trainer = tests::trainer(tests::everybody(), plan::even_plan(model, 16, microbatches, Precision::bf16, 1, 1, 1, 1));
  trainer->step(0);
  const std::int64_t before = tests::standin_count();
  trainer->step(1);
  return tests::standin_count() - before;
}

/// A block's passes are those of compute_launches_test, without an event between them. Each of its 12 tensors is summed and updated by one
/// kernel, and its gradients are cleared by one.
TEST(Launches, OfAStepAreThoseOfItsBlocksAndFewMore) {
  if (tests::everybody().size() > 1 || tests::test_device() != "gpu") GTEST_SKIP() << "one rank on a GPU";
  const std::int64_t one = enqueued_by_a_step(1, 1), deeper = enqueued_by_a_step(1, 2), longer = enqueued_by_a_step(2, 1),
                     both = enqueued_by_a_step(2, 2);
  const std::int64_t passes = both - longer - (deeper - one), updates = deeper - one - passes, ends = longer - one - passes;
  EXPECT_EQ(passes, 9 + 21);
  EXPECT_EQ(updates, 12 + 12 + 1);
  EXPECT_EQ(ends, 15) << "of embedding and head, for each microbatch";
  EXPECT_EQ(one - passes - updates - ends, 23) << "once";
}

/// What GPUs exchange by themselves: not on CPUs.
class OverNccl : public testing::Test {
 protected:
  void SetUp() override {
    if (tests::test_device() == "cpu") GTEST_SKIP() << "needs FLOTILLA_TEST_DEVICE";
  }
};

/// Of the ranks whose GPUs NCCL connects: this one is among them in every plan of two GPUs and more.
void expect_nccl(const Trainer& trainer, bool there) {
  EXPECT_EQ(trainer.description().find("NCCL 2.") != std::string::npos, there) << trainer.description();
}

/// Sharded optimizers, shared tokens, recomputation, in both precisions, with messages between stages: not a bit depends on whether GPUs
/// exchange by themselves.
TEST_F(OverNccl, TheBitsAreThoseOfGroupsOverMpi) {
  Options over_mpi;
  over_mpi.transport = cluster::Transport::host;
  expect_nccl(*tests::trainer(tests::everybody(), mixed_plan()), true);
  expect_nccl(*tests::trainer(tests::everybody(), mixed_plan(), over_mpi), false);
  for (auto precision : {Precision::fp32, Precision::bf16}) {
    auto plan = mixed_plan(precision);
    EXPECT_TRUE(same_bits(after_steps(plan, 2), after_steps(plan, 2, over_mpi))) << plan::summary(plan);
    plan.shard_optimizer = true;
    plan.sequence_parallel = plan.stages.front().replicas.front().tensor_parallel > 1;
    EXPECT_TRUE(same_bits(after_steps(plan, 2), after_steps(plan, 2, over_mpi))) << plan::summary(plan);
  }
}

/// By an MPI library that takes device memory: the same bits, whether a message goes by it or not.
TEST(OverDeviceMemory, TheBitsAreThoseOfGroupsThroughTheHosts) {
  if (tests::test_device() == "cpu") GTEST_SKIP() << "needs FLOTILLA_TEST_DEVICE";
  Options over_devices, through_hosts;
  over_devices.transport = cluster::Transport::device_mpi;
  through_hosts.transport = cluster::Transport::host;
  const auto described = [](const Options& options) {
    return tests::trainer(tests::everybody(), mixed_plan(), options)->description().find("; MPI on device memory, ") != std::string::npos;
  };
  EXPECT_TRUE(described(over_devices));
  EXPECT_FALSE(described(through_hosts));
  for (auto precision : {Precision::fp32, Precision::bf16}) {
    auto plan = mixed_plan(precision);
    EXPECT_TRUE(same_bits(after_steps(plan, 2, over_devices), after_steps(plan, 2, through_hosts))) << plan::summary(plan);
    plan.shard_optimizer = true;
    plan.sequence_parallel = plan.stages.front().replicas.front().tensor_parallel > 1;
    EXPECT_TRUE(same_bits(after_steps(plan, 2, over_devices), after_steps(plan, 2, through_hosts))) << plan::summary(plan);
  }
}

/// One transport for each group and pair: all three in one step.
TEST(OverDeviceMemory, NcclAndHostsShareAPlan) {
  if (tests::test_device() == "cpu") GTEST_SKIP() << "needs FLOTILLA_TEST_DEVICE";
  using cluster::Transport;
  const auto plan = mixed_plan();
  const auto program = program::lower(plan, tests::runtime());
  Options through_hosts, shared;
  through_hosts.transport = Transport::host;
  auto& chosen = shared.transports.emplace();
  constexpr Transport turns[] = {Transport::device_mpi, Transport::nccl, Transport::host};
  for (std::size_t g = 0; g < program.groups.size(); ++g) chosen.groups.push_back(turns[g % 3]);
  for (int from = 0; from < tests::everybody().size(); ++from)
    for (int to = 0; to < tests::everybody().size(); ++to) chosen.pairs[{from, to}] = turns[static_cast<std::size_t>(from + 2 * to) % 3];
  EXPECT_TRUE(same_bits(after_steps(plan, 2, shared), after_steps(plan, 2, through_hosts)));
}

/// FLOTILLA_STANDIN_CUDA_AWARE leaves out a rank.
TEST(OverDeviceMemory, IsRefusedWhereALibraryTakesNone) {
  if (tests::test_device() == "cpu") GTEST_SKIP() << "needs FLOTILLA_TEST_DEVICE";
  Options options;
  options.transport = cluster::Transport::device_mpi;
  const std::string what = tests::refusal(ErrorKind::unavailable, [&] { tests::trainer(tests::everybody(), mixed_plan(), options); });
  EXPECT_EQ(what.find("rank 1 on "), 0u) << what;
  tests::expect_contains(what, "takes no device memory, by its own word");
  tests::expect_contains(what, "choose --comm.transport auto, nccl or mpi");
  options.transports.emplace();  // by what was measured, with the same library: through the hosts where it is missing
  const auto program = program::lower(mixed_plan(), tests::runtime());
  options.transports->groups.assign(program.groups.size(), cluster::Transport::device_mpi);
  EXPECT_TRUE(same_bits(after_steps(mixed_plan(), 1, options), after_steps(mixed_plan(), 1)));
}

/// FLOTILLA_STANDIN_MPI_FAULTS: rank 0 sends other bytes than stand in its GPU's memory.
TEST(OverDeviceMemory, AGroupThatFailsItsProofGoesThroughTheHosts) {
  if (tests::test_device() == "cpu") GTEST_SKIP() << "needs FLOTILLA_TEST_DEVICE";
  Options over_devices;
  over_devices.transport = cluster::Transport::device_mpi;
  EXPECT_TRUE(same_bits(after_steps(mixed_plan(), 2, over_devices), after_steps(mixed_plan(), 2)));
}

/// NCCL's own all-reduce: another order of sums, the same mathematics.
TEST_F(OverNccl, ItsOwnAllReduceHasTheSameCurve) {
  const auto& crew = tests::everybody();
  const auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 16, 8, Precision::fp32, crew.size(), 1, 1, 1);
  const auto ordered = tests::trainer(crew, plan), native = tests::trainer(crew, plan, {}, {}, true);
  EXPECT_EQ(native->program().groups.back().algorithm, program::Group::Algorithm::library_all_reduce);
  for (int step = 0; step < 3; ++step) EXPECT_NEAR(native->step(step).loss / ordered->step(step).loss, 1, 1e-5);
}

/// Two stages; the first asks for the first gradient before it has sent the second activation.
plan::Plan two_stages() { return plan::even_plan(model::built_in("gpt2-tiny"), 16, 8, Precision::fp32, 1, 2, 1, 1); }

void ask_too_soon(program::LaunchOrder& order) {
  const auto program = program::lower(two_stages(), tests::runtime());
  const auto list = program::expand(program, Rank{0});
  const auto& c = program.classes[static_cast<std::size_t>(program.ranks[0].rank_class)];
  auto& mine = order[0];
  const auto gradient = std::ranges::find_if(mine, [&](int place) {
    return c.instructions[static_cast<std::size_t>(list[static_cast<std::size_t>(place)].instruction)].receives();
  });
  ASSERT_GT(gradient - mine.begin(), 1);
  std::rotate(mine.begin() + 1, gradient, gradient + 1);
}

TEST_F(OverNccl, AnotherOrderOfLaunchesIsRefused) {
  Options options;
  options.change_launches = ask_too_soon;
  const Error error = tests::error_of([&] { tests::trainer(tests::everybody(), two_stages(), options); });
  tests::expect_contains(error.what(), "the order of launches is not valid: rank 0 ");
}

/// FLOTILLA_STANDIN_NCCL_SERIAL: a GPU that one exchange fills. Without the proof the ranks wait for each other, and the deadline finds it.
TEST_F(OverNccl, WithoutTheProofAnotherOrderHangsAndTheDeadlineFindsIt) {
  Options options;
  options.change_launches = ask_too_soon;
  options.prove_launches = false;
  options.deadline = Seconds{10};  // what is formed and proved before must not take as long
  const auto trainer = tests::trainer(tests::everybody(), two_stages(), options);
  const Error error = tests::error_of([&] { trainer->step(0); });
  tests::expect_contains(error.what(), "nothing has moved for ");
  tests::expect_contains(error.what(), "by NCCL, pair group of rank ");
}

TEST(Trainer, RecomputationChangesNoBits) {
  EXPECT_TRUE(same_bits(after_steps(mixed_plan(), 2), after_steps(mixed_plan(Precision::fp32, plan::Recompute::full), 2)));
}

TEST(Trainer, LossFalls) {
  const auto trainer = tests::trainer(tests::everybody(), mixed_plan(), [] {
    Options options;
    options.learning_rates = {{0, {1e-2, 1e-3, 2, 40}}};
    return options;
  }());
  const double first = trainer->step(0).loss;
  double last = first;
  for (int step = 1; step < 40; ++step) last = trainer->step(step).loss;
  EXPECT_LT(last, first - 1.0) << "from " << first;
}

TEST(Trainer, AWishOfAnyRankReachesAll) {
  const auto& world = tests::everybody();
  const auto trainer = tests::trainer(world, mixed_plan());
  const int last = world.size() - 1;
  EXPECT_FALSE(trainer->step(0).stop);
  auto result = trainer->step(1, {world.rank().value == last, false});
  EXPECT_TRUE(result.stop);
  EXPECT_FALSE(result.save);
  result = trainer->step(2, {false, world.rank().value == 0});
  EXPECT_FALSE(result.stop);
  EXPECT_TRUE(result.save);
}

TEST(Trainer, ABadGradientLeavesTheParametersAlone) {
  const auto& world = tests::everybody();
  const auto trainer = tests::trainer(world, mixed_plan());
  trainer->step(0);
  const auto state = trainer->state();
  for (const auto& part : state.parts)
    if (trainer->program().tensors[static_cast<std::size_t>(part.tensor)].name == "block.1.feed_forward.down.bias")
      part.parameters[0] = std::nanf("");
  trainer->adopt(1);
  const auto before = parameters(*trainer);
  const auto result = trainer->step(1);
  EXPECT_FALSE(result.finite);
  EXPECT_GE(result.not_finite_ranks, 1);
  EXPECT_TRUE(same_bits(before, parameters(*trainer)));
  EXPECT_EQ(trainer->optimizer_steps(), 1);
}

/// The gradient of a logit is the scale over the tokens at most, 2^24 / 96: too much for fp16 until the scale has been halved twice or
/// more.
TEST(Trainer, AnOverflowHalvesTheLossScaleOnAllRanksAndUpdatesNothing) {
  Options options;
  options.loss_scale = largest_loss_scale;
  const auto trainer = tests::trainer(tests::everybody(), mixed_plan(Precision::fp16), options);
  const auto before = parameters(*trainer);
  std::int64_t scale = largest_loss_scale;
  int overflows = 0;
  for (;; ++overflows) {
    const auto result = trainer->step(0);
    ASSERT_EQ(result.loss_scale, scale);
    EXPECT_TRUE(std::isfinite(result.loss));
    if (result.finite) break;
    ASSERT_TRUE(result.overflowed);
    EXPECT_EQ(trainer->optimizer_steps(), 0);
    EXPECT_TRUE(same_bits(before, parameters(*trainer)));
    scale /= 2;
    EXPECT_EQ(trainer->loss_scale(), (LossScale{scale, 0}));
  }
  EXPECT_GE(overflows, 2);
  EXPECT_LE(overflows, 12);
  EXPECT_EQ(trainer->optimizer_steps(), 1);
  EXPECT_EQ(trainer->loss_scale(), (LossScale{scale, 1}));
  EXPECT_FALSE(same_bits(before, parameters(*trainer)));
}

/// A scale is a power of two and moves no digits as long as nothing is too small or too large for fp16.
TEST(Trainer, TheLossScaleChangesTheUpdateByRoundingAtMost) {
  Options high, low;
  high.loss_scale = 8192;
  low.loss_scale = 4096;
  const auto a = tests::trainer(tests::everybody(), mixed_plan(Precision::fp16), high),
             b = tests::trainer(tests::everybody(), mixed_plan(Precision::fp16), low);
  for (int step = 0; step < 3; ++step) {
    const auto one = a->step(step), other = b->step(step);
    EXPECT_FALSE(one.overflowed || other.overflowed);
    EXPECT_NEAR(one.gradient_norm, other.gradient_norm, 1e-3 * one.gradient_norm);
    EXPECT_NEAR(one.loss, other.loss, 1e-4 * one.loss);
  }
}

/// A loss that is not finite is not the scale's fault: it stays, and the run ends or skips as in every precision.
TEST(Trainer, ABadWeightLeavesTheLossScaleAlone) {
  const auto trainer = tests::trainer(tests::everybody(), mixed_plan(Precision::fp16));
  trainer->step(0);
  const auto scale = trainer->loss_scale();
  ASSERT_TRUE(scale.has_value());
  for (const auto& part : trainer->state().parts)
    if (trainer->program().tensors[static_cast<std::size_t>(part.tensor)].name == "block.1.feed_forward.down.bias")
      part.parameters[0] = std::nanf("");
  trainer->adopt(1, scale);
  const auto result = trainer->step(1);
  EXPECT_FALSE(result.finite);
  EXPECT_FALSE(result.overflowed);
  EXPECT_EQ(trainer->loss_scale(), scale);
}

TEST(Trainer, OnlyFp16HasALossScale) {
  for (auto precision : {Precision::fp32, Precision::bf16})
    EXPECT_EQ(tests::trainer(tests::everybody(), mixed_plan(precision))->loss_scale(), std::nullopt);
}

/// One rank gives up after so many computations, from none to more than a step has: all ranks update or none does, nobody hangs, and the
/// step done again is the step that was never given up.
TEST(Trainer, AStepIsGivenUpByAllOrByNone) {
  const auto& world = tests::everybody();
  const auto before = after_steps(mixed_plan(), 1), after = after_steps(mixed_plan(), 2);
  Options options;
  options.poison = true;
  const auto trainer = tests::trainer(world, mixed_plan(), options);
  trainer->step(0);
  const auto all = static_cast<int>(program::expand(trainer->program(), world.rank()).size());
  int transfer_sources = 0, patience = 0, quitter = 0, given_up = 0;
  trainer->give_up_when([&](std::int64_t step) { return step == 1 && world.rank().value == quitter && ++transfer_sources > patience; });
  for (const int share : {0, 1, 3, 6, 9}) {  // tenths of its instructions
    for (quitter = 0; quitter < world.size(); ++quitter) {
      transfer_sources = 0;
      patience = all * share / 10;
      const auto result = trainer->step(1, {world.rank().value == quitter, false});
      EXPECT_TRUE(result.stop);
      if (!result.given_up) {  // too late
        EXPECT_GE(given_up, world.size());
        EXPECT_TRUE(same_bits(after, parameters(*trainer)));
        return;
      }
      ++given_up;
      EXPECT_TRUE(same_bits(before, parameters(*trainer))) << quitter << " after " << patience << " of " << all;
      EXPECT_EQ(trainer->optimizer_steps(), 1);
    }
  }
  EXPECT_GE(given_up, world.size());
  quitter = -1;
  EXPECT_FALSE(trainer->step(1).given_up);
  EXPECT_TRUE(same_bits(after, parameters(*trainer)));
}

/// Shares of what is packed are gathered as they were.
TEST(Trainer, ABadGradientLeavesSharedOutParametersAlone) {
  const auto& world = tests::everybody();
  if (world.size() != 3) return;
  auto plan = plan::even_plan(model::built_in("gpt2-tiny"), 16, 6, Precision::fp32, 1, 1, 1, 1);
  plan.stages.front().replicas = {{"", "", 2, {Rank{0}, Rank{1}}, 1, 4}, {"", "", 1, {Rank{2}}, 1, 2}};
  plan.shard_optimizer = true;
  const auto trainer = tests::trainer(world, plan);
  trainer->step(0);
  const auto state = trainer->state();
  for (const auto& part : state.parts)
    if (trainer->program().tensors[static_cast<std::size_t>(part.tensor)].name == "block.1.feed_forward.down.bias")
      std::ranges::fill(part.parameters, std::nanf(""));
  trainer->adopt(1);
  const auto before = parameters(*trainer);
  EXPECT_FALSE(trainer->step(1).finite);
  EXPECT_TRUE(same_bits(before, parameters(*trainer)));
}

TEST(Trainer, ArenaIsTheProgramsToTheByte) {
  const auto plan = mixed_plan();
  const auto trainer = tests::trainer(tests::everybody(), plan);
  const auto training = program::lower(plan, tests::runtime()),
             evaluation = program::lower_evaluation(plan, tests::runtime(), plan.global_batch);
  const auto arena = [&](const program::Program& p) {
    return p.classes[static_cast<std::size_t>(p.ranks[tests::everybody().rank().index()].rank_class)].arena;
  };
  EXPECT_EQ(trainer->arena(), std::max(arena(training), arena(evaluation)));
}

TEST(Trainer, TimelineHoldsEveryInstructionInItsTime) {
  Options options;
  options.record = true;
  const auto trainer = tests::trainer(tests::everybody(), mixed_plan(), options);
  trainer->step(0);
  const auto issued_instructions = program::expand(trainer->program(), tests::everybody().rank());
  const auto timeline = trainer->timeline();
  ASSERT_EQ(timeline.size(), issued_instructions.size());
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    EXPECT_LE(timeline[i].start, timeline[i].end);
    for (int wait : issued_instructions[i].waits) EXPECT_GE(timeline[i].start, timeline[static_cast<std::size_t>(wait)].end) << i;
  }
}

}  // namespace
}  // namespace flotilla::train
