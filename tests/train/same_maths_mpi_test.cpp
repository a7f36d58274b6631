// Whatever the plan, the loss and every gradient are those of one device over the global batch.
#include <gtest/gtest.h>

#include <cmath>

#include "flotilla/mpi/communicator.hpp"
#include "flotilla/plan/batch_partition.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "program/random_plan.hpp"
#include "support/same_loss.hpp"
#include "support/tier.hpp"
#include "train/fixture.hpp"

namespace flotilla::train {
namespace {

constexpr double loss_tolerance = 1e-5;
constexpr double gradient_tolerance = 1e-5;  // x max(norm of the tensor, 1e-3 x the largest norm in its layer)
constexpr double small_tensor = 1e-3;

/// For each number of ranks. A few on stand-in GPUs, which take ten times as long.
int any_plans() { return tests::test_device() == "cpu" ? tests::of_tier(25, 50) : 5; }

/// Squared norms of (ours - reference) and of the reference by tensor, every element once, summed over the active ranks.
struct Difference {
  std::vector<double> apart, norm;
};

Difference compare(const comm::World& crew, const Trainer& ours, const Trainer& reference) {
  const auto& tensors = ours.program().tensors;
  std::vector<double> apart(tensors.size() + 1), norm(tensors.size());
  auto& elements = apart.back();  // owned, of all tensors together
  double expected = 0;
  for (int t = 0; t < static_cast<int>(tensors.size()); ++t) {
    for (float g : reference.gradient(t)) norm[static_cast<std::size_t>(t)] += double{g} * g;
    expected += static_cast<double>(tensors[static_cast<std::size_t>(t)].elements());
  }
  for (const auto& mine : ours.owned_gradients()) {
    const auto whole = reference.gradient(mine.tensor);
    for (const auto& box : mine.boxes)
      for (std::int64_t o = 0; o < box.outer; ++o)
        for (std::int64_t i = 0; i < box.inner; ++i) {
          const double d = double{mine.values[static_cast<std::size_t>(box.local_offset + o * box.local_stride + i)]} -
                           whole[static_cast<std::size_t>(box.global_offset + o * box.global_stride + i)];
          apart[static_cast<std::size_t>(mine.tensor)] += d * d;
          ++elements;
        }
  }
  const auto all = mpi::all_gather_bytes(crew.control(), std::as_bytes(std::span{apart}), tests::patience);
  std::vector<double> sum(apart.size());
  const auto* values = reinterpret_cast<const double*>(all.data());
  for (std::size_t k = 0; k < all.size() / sizeof(double); ++k) sum[k % apart.size()] += values[k];
  EXPECT_EQ(sum.back(), expected) << "elements that some rank owns";
  return {sum, norm};
}

void expect_same_gradients(const comm::World& crew, const Trainer& ours, const Trainer& reference, double tolerance,
                           const std::string& what) {
  const auto difference = compare(crew, ours, reference);
  const auto& tensors = ours.program().tensors;
  std::vector<double> largest(static_cast<std::size_t>(ours.program().plan.model.layers()));
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    auto& most = largest[static_cast<std::size_t>(tensors[t].layer)];
    most = std::max(most, std::sqrt(difference.norm[t]));
  }
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const double scale = std::max(std::sqrt(difference.norm[t]), small_tensor * largest[static_cast<std::size_t>(tensors[t].layer)]);
    EXPECT_LE(std::sqrt(difference.apart[t]), tolerance * scale) << what << ": " << tensors[t].name;
  }
}

void expect_same_maths(const plan::Plan& plan, int steps, double loss_bound, double gradient_bound,
                       const program::RankLocations& placement = {}) {
  const auto& crew = tests::everybody();
  const std::string what = plan.model.name + " " + plan::summary(plan);
  const auto reference = tests::trainer(tests::myself(), tests::on_one_rank(plan));
  const auto ours = tests::trainer(crew, plan, {}, placement);
  for (int step = 0; step < steps; ++step) {
    const auto want = reference->step(step), got = ours->step(step);
    EXPECT_NEAR(got.loss, want.loss, loss_bound * want.loss) << what << " step " << step;
    EXPECT_NEAR(got.gradient_norm, want.gradient_norm, 10 * gradient_bound * want.gradient_norm) << what << " step " << step;
    if (step == 0) expect_same_gradients(crew, *ours, *reference, gradient_bound, what);
  }
  EXPECT_NEAR(ours->evaluate().mean(), reference->evaluate().mean(), loss_bound * 6) << what;
}

model::Config small(const std::string& name) {
  auto model = model::built_in(name);
  model.dropout = model.attention_dropout = 0.1;  // masks do not depend on the plan either
  return model;
}

TEST(SameMaths, EveryCombinationOfDegrees) {
  const int ranks = tests::everybody().size();
  int combinations = 0;
  for (const auto& name : tests::families(
           {"gpt2-tiny", "llama-tiny", "opt-post-tiny", "gpt-neo-tiny", "qwen3-tiny", "pythia-tiny", "bloom-tiny", "gemma2-tiny"}))
    for (int data : {1, 2, 4})
      for (int pipeline : {1, 2, 4})
        for (int tensor : {1, 2, 4})
          if (data * pipeline * tensor == ranks && tensor <= model::largest_tensor_parallel(small(name))) {
            const auto kind = combinations++ % 2 ? plan::ScheduleKind::gpipe : plan::ScheduleKind::one_f_one_b;
            expect_same_maths(plan::even_plan(small(name), tests::short_on_gpus(24), 8, Precision::fp32, data, pipeline, tensor, 1, kind),
                              2, loss_tolerance, gradient_tolerance);
          }
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  EXPECT_EQ(combinations > 0, power_of_two);
}

TEST(SameMaths, RandomPlansThatDoNotDivideEvenly) {
  const auto& crew = tests::everybody();
  std::mt19937 random{static_cast<unsigned>(41 + crew.size())};
  int tried = 0;
  for (int draw = 0; draw < 4000 && tried < 4; ++draw) {
    auto plan = tests::random_plan(random, std::max(3, crew.size()));
    if (plan::rank_count(plan) != crew.size() || plan.precision != Precision::fp32) continue;
    plan.model.dropout = 0.1;
    ++tried;
    expect_same_maths(plan, 1, loss_tolerance, gradient_tolerance);
  }
  EXPECT_EQ(tried, 4);
}

/// bf16 rounds to 2^-9 relative; two roundings or so lie between a pre-activation under one plan and under another, 2^-8 of its deviation.
/// Through a smooth activation that stays a few per cent of a small gradient. ReLU turns on or off the 0.8 x 2 x 2^-8 of its units
/// (0.8 is the normal density at 0 times two) that lie so near to zero, and a part p of the terms changes a gradient by sqrt(p): 8 %.
double bf16_tolerance(const model::Config& model) { return model.activation == model::Activation::relu ? 8e-2 : 4e-2; }

/// Replica counts, degrees, microbatches and shares that differ from stage to stage and within one.
plan::Plan any_plan_of(int ranks, std::mt19937& random) {
  for (;;) {
    auto plan = tests::any_plan(random);
    if (plan::rank_count(plan) != ranks) continue;
    plan.model.dropout = plan.model.attention_dropout = 0.1;
    return plan;
  }
}

int largest_degree(const plan::Plan& plan) {
  int most = 1;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) most = std::max(most, replica.tensor_parallel);
  return most;
}

TEST(SameMaths, AnyPlan) {
  std::mt19937 random{static_cast<unsigned>(77 + tests::everybody().size())}, cuts{static_cast<unsigned>(tests::everybody().size())};
  for (int trial = 0; trial < any_plans(); ++trial) {
    auto plan = any_plan_of(tests::everybody().size(), random);
    if (trial % 3 == 0) plan = tests::in_chunks(plan, cuts);
    plan.shard_optimizer = tests::between(random, 0, 1) == 1;
    const auto placement = tests::any_placement(random, tests::everybody().size());
    if (plan.precision == Precision::fp32)
      expect_same_maths(plan, 1, loss_tolerance, gradient_tolerance, placement);
    else
      expect_same_maths(plan, 1, 2e-3, bf16_tolerance(plan.model), placement);
    if (HasFailure()) return;
  }
}

/// Norms of heads, whose gradients members sum; sub-layers side by side; slopes and a norm of the embedding; norms behind sub-layers.
TEST(SameMaths, AnyPlanOfNewerFamilies) {
  std::mt19937 random{static_cast<unsigned>(91 + tests::everybody().size())};
  for (const std::string name : {"qwen3-tiny", "pythia-tiny", "bloom-tiny", "gemma3-tiny"})
    for (int tried = 0; tried < (tests::test_device() == "cpu" ? 6 : 2) && !HasFailure();) {
      auto plan = any_plan_of(tests::everybody().size(), random);
      auto model = small(name);
      model.blocks = plan.model.blocks;
      if (plan.precision != Precision::fp32 || largest_degree(plan) > model::largest_tensor_parallel(model)) continue;
      plan.model = model;
      plan.shard_optimizer = tried++ % 2 == 1;
      expect_same_maths(plan, 1, loss_tolerance, gradient_tolerance, tests::any_placement(random, tests::everybody().size()));
    }
}

/// Two or three stages on each device, of which two or three follow one another; stages that are dealt unlike among them.
TEST(SameMaths, InterleavedStagesOfADeeperModel) {
  std::mt19937 random{static_cast<unsigned>(55 + tests::everybody().size())};
  int unlike = 0;
  for (int tried = 0; tried < 3 && !HasFailure() && tests::everybody().size() > 1;) {
    auto plan = any_plan_of(tests::everybody().size(), random);
    if (plan.stages.size() < 2 || plan.precision != Precision::fp32) continue;
    // In five blocks some unit of a ReLU lies so near to zero that fp32 rounding turns it on or off: all gradients below it jump.
    if (plan.model.activation == model::Activation::relu) continue;
    plan.model.blocks = 5;
    plan = tests::in_chunks(plan, random);
    ASSERT_GT(plan.chunks, 1);
    ++tried;
    unlike += plan::partitioned_alike(plan, 0, 1) ? 0 : 1;
    expect_same_maths(plan, 2, loss_tolerance, gradient_tolerance);
  }
  EXPECT_TRUE(unlike > 0 || tests::everybody().size() < 3);
}

/// Stages that all stand on the same devices are one stage to the bit, whatever each of them recomputes.
TEST(SameMaths, ChunksOfOneDeviceWorkInPlace) {
  const auto& crew = tests::everybody();
  auto plan = plan::even_plan(small("opt-tiny"), 5, 6, Precision::bf16, crew.size() % 2 ? crew.size() : crew.size() / 2, 1,
                              crew.size() % 2 ? 1 : 2, 1);
  auto chunked = plan;
  chunked.schedule = plan::ScheduleKind::interleaved;
  chunked.chunks = 3;
  chunked.stages = {plan.stages[0], plan.stages[0], plan.stages[0]};
  chunked.stages[0].last_layer = chunked.stages[1].first_layer = 1;
  chunked.stages[1].last_layer = chunked.stages[2].first_layer = 2;
  chunked.stages[1].recompute = plan::Recompute::full;
  const auto whole = tests::trainer(crew, plan), cut = tests::trainer(crew, chunked);
  for (int step = 0; step < 3; ++step) {
    const auto want = whole->step(step), got = cut->step(step);
    EXPECT_EQ(got.loss, want.loss) << step;
    EXPECT_EQ(got.gradient_norm, want.gradient_norm) << step;
  }
  EXPECT_EQ(cut->evaluate().loss, whole->evaluate().loss);
}

/// Three stages of unlike replicas, one of which cuts its tensors, against the even plan of two replicas of two stages.
TEST(SameMaths, TheSameCurveOver200Steps) {
  const auto& crew = tests::everybody();
  if (crew.size() != 4) return;
  auto even = plan::even_plan(small("gpt2-tiny"), 16, 12, Precision::fp32, 2, 2, 1, 2);
  plan::Plan mixed = even;
  mixed.quantum = 1;
  mixed.stages = {{0, 1, plan::Recompute::none, {{"", "", 1, {Rank{3}}, 3, 12}}},
                  {1, 2, plan::Recompute::full, {{"", "", 2, {Rank{0}, Rank{2}}, 2, 12}}},
                  {2, 4, plan::Recompute::none, {{"", "", 1, {Rank{1}}, 5, 12}}}};
  auto split = mixed;  // and two replicas that differ in degree, share and microbatch
  split.stages = {{0, 2, plan::Recompute::none, {{"", "", 2, {Rank{0}, Rank{1}}, 2, 7}, {"", "", 1, {Rank{2}}, 1, 5}}},
                  {2, 4, plan::Recompute::none, {{"", "", 1, {Rank{3}}, 4, 12}}}};
  const auto reference = tests::trainer(crew, even);
  auto shared = split;  // the same with its optimizer sharded, the ranks on two nodes
  shared.shard_optimizer = true;
  const auto first = tests::trainer(crew, mixed), second = tests::trainer(crew, split);
  const auto third = tests::trainer(crew, shared, {}, {{0, 0, 1, 1}, {0, 0, 0, 0}});
  for (int step = 0; step < 200; ++step) {
    const double want = reference->step(step).loss;
    ASSERT_NEAR(third->step(step).loss / want, 1, 1e-4) << step;
    ASSERT_NEAR(first->step(step).loss / want, 1, 1e-4) << step;
    ASSERT_NEAR(second->step(step).loss / want, 1, 1e-4) << step;
  }
}

/// Members of a tensor-parallel group that hold a part of the tokens each, in pieces of unlike size: forward, no sum of ours changes its
/// order, so the loss is the same to the last bit; and everybody keeps less.
TEST(SameMaths, SharedTokensKeepTheLossToTheLastBit) {
  const int ranks = tests::everybody().size();
  if (ranks != 2 && ranks != 3 && ranks != 6) return;
  const int tensor = std::min(ranks, 3), pipeline = ranks / tensor;
  for (const auto& name : tests::families({"gpt2-tiny", "llama-tiny", "opt-post-tiny"}))
    for (const auto recompute : {plan::Recompute::none, plan::Recompute::selective, plan::Recompute::full}) {
      if (tensor > model::largest_tensor_parallel(small(name))) continue;
      if (ranks == 6 && (name != "gpt2-tiny" || recompute != plan::Recompute::selective)) continue;  // one is enough where it takes long
      auto plan = plan::even_plan(small(name), tests::short_on_gpus(23), tests::short_on_gpus(15), Precision::fp32, 1, pipeline, tensor, 2,
                                  plan::ScheduleKind::gpipe);
      for (auto& stage : plan.stages) stage.recompute = recompute;
      const auto whole = tests::trainer(tests::everybody(), plan);
      plan.sequence_parallel = true;
      const auto shared = tests::trainer(tests::everybody(), plan);
      tests::expect_same_loss(shared->step(0).loss, whole->step(0).loss, name + " " + std::string{plan::to_string(recompute)});
      EXPECT_LT(shared->arena(), whole->arena()) << name << ' ' << plan::to_string(recompute);
    }
}

/// Halves of backward passes, whatever they keep, drop or gather again: the same products on the same numbers in the same order.
TEST(SameMaths, SplitBackwardPassesKeepTheBits) {
  const int ranks = tests::everybody().size();
  if (ranks < 2 || ranks > 4) return;
  const int tensor = ranks == 4 ? 2 : 1, steps = ranks == 4 ? 1 : 2;
  for (const std::string name : {"gpt2-tiny", "opt-post-tiny", "llama-tiny", "gemma2-tiny"}) {
    std::vector<double> norms;  // whatever is computed again
    for (const auto recompute : {plan::Recompute::none, plan::Recompute::selective, plan::Recompute::full}) {
      if (ranks == 4 && recompute != plan::Recompute::selective && name != "gpt2-tiny") continue;  // enough where it takes long
      const Precision precision = name == "llama-tiny" ? Precision::bf16 : Precision::fp32;
      auto plan = plan::even_plan(small(name), 11, 7, precision, 1, ranks / tensor, tensor, 2);
      for (auto& stage : plan.stages) stage.recompute = recompute;
      plan.sequence_parallel = tensor > 1;
      const auto whole = tests::trainer(tests::everybody(), plan);
      plan.schedule = plan::ScheduleKind::zero_bubble;
      const auto split = tests::trainer(tests::everybody(), plan);
      for (int step = 0; step < steps; ++step) {
        const auto want = whole->step(step), got = split->step(step);
        EXPECT_EQ(got.loss, want.loss) << name << ' ' << plan::to_string(recompute) << step;
        EXPECT_EQ(got.gradient_norm, want.gradient_norm) << name << ' ' << plan::to_string(recompute) << step;
        if (norms.size() <= static_cast<std::size_t>(step)) norms.push_back(want.gradient_norm);
        EXPECT_EQ(want.gradient_norm, norms[static_cast<std::size_t>(step)]) << name << ' ' << plan::to_string(recompute) << step;
      }
    }
  }
}

/// Every share updated by one rank alone, sums made hierarchically: the parameters that everybody ends with are those of the plan that does
/// neither, to what another order of sums does to them.
TEST(SameMaths, SharedOptimizersUpdateEveryElementOnce) {
  const auto& crew = tests::everybody();
  if (crew.size() < 2) return;
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    auto plan = plan::even_plan(small("gpt2-tiny"), 16, 8, precision, crew.size(), 1, 1, 1);
    program::RankLocations placement;
    for (int rank = 0; rank < crew.size(); ++rank) {
      placement.node.push_back(rank / 3);
      placement.zone.push_back(rank / 6);
    }
    const auto whole = tests::trainer(crew, plan);
    plan.shard_optimizer = true;
    const auto shared = tests::trainer(crew, plan, {}, placement);
    EXPECT_LT(shared->arena(), whole->arena());
    for (int step = 0; step < 5; ++step) {
      const auto want = whole->step(step), got = shared->step(step);
      ASSERT_NEAR(got.loss, want.loss, (precision == Precision::fp32 ? 1e-5 : 2e-3) * want.loss) << step;
      ASSERT_NEAR(got.gradient_norm, want.gradient_norm, (precision == Precision::fp32 ? 1e-4 : 4e-2) * want.gradient_norm) << step;
    }
  }
}

/// The order of every sum is the program's: the same bits twice.
TEST(SameMaths, SumsInTeamsGiveTheSameBitsTwice) {
  const auto& crew = tests::everybody();
  if (crew.size() < 4) return;
  const auto plan = plan::even_plan(small("gpt2-tiny"), 16, 8, Precision::fp32, crew.size(), 1, 1, 1);
  program::RankLocations placement;
  for (int rank = 0; rank < crew.size(); ++rank) placement.node.push_back(rank * 2 / 3 % 3);
  placement.zone.assign(placement.node.size(), 0);
  const auto one = tests::trainer(crew, plan, {}, placement), other = tests::trainer(crew, plan, {}, placement);
  for (int step = 0; step < 4; ++step) {
    const auto a = one->step(step), b = other->step(step);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  }
}

/// Windows, and heads that share keys, in shares of unlike size, computed again in backward; with the head apart and tied.
TEST(SameMaths, FamiliesInUnevenSharesRecomputed) {
  const int ranks = tests::everybody().size();
  if (ranks != 2 && ranks != 3 && ranks != 6) return;
  const int tensor = std::min(ranks, 3), pipeline = ranks / tensor;
  auto tied = small("llama-tiny");
  tied.tied_head = true;
  for (const auto& model : {small("gpt-neo-tiny"), small("llama-tiny"), tied}) {
    auto plan = plan::even_plan(model, 24, 5, Precision::fp32, 1, pipeline, tensor, 2);
    for (auto& stage : plan.stages) stage.recompute = plan::Recompute::full;
    expect_same_maths(plan, 2, loss_tolerance, gradient_tolerance);
  }
}

void expect_same_within_rounding(Precision precision, double loss_bound, double gradient_bound) {
  const int ranks = tests::everybody().size();
  if (ranks > 4 || ranks == 3) return;
  const bool by_cudnn = tests::device_of(tests::everybody()).attention == compute::AttentionKernel::cudnn;
  for (const std::string name : {"gpt2-tiny", "gpt-neo-tiny", "llama-tiny"}) {
    auto model = small(name);
    if (by_cudnn) model.attention_dropout = 0;  // its numbers are not ours
    const auto plan = plan::even_plan(model, tests::short_on_gpus(24), 8, precision, 1, ranks == 4 ? 2 : 1, ranks == 4 ? 2 : ranks, 1);
    expect_same_maths(plan, 1, loss_bound, gradient_bound);
    if (by_cudnn) {
      EXPECT_NE(tests::trainer(tests::everybody(), plan)->description().find(", cuDNN "), std::string::npos);
    }
  }
}

/// bf16 keeps 8 significant bits: one rounding is 2^-9 relative. Activations and weights are rounded alike under every plan; only sums
/// over the tensor-parallel group and the order of accumulation differ, a few roundings per layer.
TEST(SameMaths, Bf16WithinItsRounding) { expect_same_within_rounding(Precision::bf16, 2e-3, 4e-2); }

/// 11 significant bits: an eighth of that.
TEST(SameMaths, Fp16WithinItsRounding) { expect_same_within_rounding(Precision::fp16, 2.5e-4, 5e-3); }

}  // namespace
}  // namespace flotilla::train
