// Programs of described runtimes: whole layers, messages that hold the queue, interleaved passes, what is kept in memory.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/program/program.hpp"
#include "support/refusal.hpp"

namespace flotilla::program::layers_test {
namespace {

model::Config model_of(int hidden, int blocks, int heads) {
  model::Config config = model::built_in("gpt2");
  config.name = "tested";
  config.hidden = config.embedding_width = hidden;
  config.blocks = blocks;
  config.heads = heads;
  config.feed_forward = 4 * hidden;
  config.vocabulary = 51200;
  config.positions = 2048;
  return config;
}

struct Shape {
  int depth = 1, chunks = 1, data = 1, tensor = 1, microbatch = 1, microbatches = 1;
};

plan::Plan plan_of(const model::Config& model, const Shape& s, Precision precision = Precision::fp16) {
  plan::Plan plan;
  plan.model = model;
  plan.length = model.positions;
  plan.quantum = s.microbatch;
  plan.global_batch = s.microbatch * s.microbatches * s.data;
  plan.precision = precision;
  plan.chunks = s.chunks;
  if (s.chunks > 1) plan.schedule = plan::ScheduleKind::interleaved;
  const int stages = s.depth * s.chunks;
  for (int v = 0; v < stages; ++v) {
    plan::Stage stage;
    stage.first_layer = v == 0 ? 0 : 1 + model.blocks * v / stages;
    stage.last_layer = v + 1 == stages ? model.layers() : 1 + model.blocks * (v + 1) / stages;
    for (int r = 0; r < s.data; ++r) {
      plan::Replica replica;
      replica.device_type = "A";
      replica.tensor_parallel = s.tensor;
      replica.sequences = s.microbatch * s.microbatches;
      for (int t = 0; t < s.tensor; ++t) replica.devices.emplace_back(((v % s.depth) * s.data + r) * s.tensor + t);
      stage.replicas.push_back(replica);
    }
    plan.stages.push_back(stage);
  }
  return plan;
}

std::string first_violation(const Program& program) {
  const auto violations = validate(program);
  return violations.empty() ? "" : violations.front().what;
}

/// How often each (layer, direction) runs on a rank.
std::map<std::pair<int, bool>, int> passes(const Program& program, Rank rank) {
  std::map<std::pair<int, bool>, int> count;
  const auto& c = program.classes[static_cast<std::size_t>(program.ranks[rank.index()].rank_class)];
  for (const auto& issued : expand(program, rank)) {
    const auto& instruction = c.instructions[static_cast<std::size_t>(issued.instruction)];
    if (const auto* pass = instruction.as<LayerPass>()) ++count[{pass->layer, instruction.backward}];
  }
  return count;
}

TEST(LayerPrograms, EveryPassRunsOnceAndTheProofHolds) {
  std::mt19937 random{7};
  const auto one_of = [&](int least, int most) { return std::uniform_int_distribution{least, most}(random); };
  const auto model = model_of(64, 12, 4);
  for (int trial = 0; trial < 120; ++trial) {
    const bool interleaved = trial % 3 == 0;
    Shape shape{one_of(1, 5), 1, one_of(1, 3), 1 << one_of(0, 2), one_of(1, 3), one_of(1, 9)};
    if (interleaved) {
      shape.depth = one_of(3, 5);
      shape.chunks = one_of(2, 12 / shape.depth);
      shape.microbatches = shape.depth * one_of(1, 3);
    }
    const auto runtime = runtime_named(interleaved || trial % 2 ? "megatron-lm" : "megatron-deepspeed");
    const auto plan = plan_of(model, shape, Precision::fp32);
    const auto program = lower(plan, runtime);
    EXPECT_EQ(first_violation(program), "") << runtime.name << ": " << plan::summary(plan);
    for (std::size_t r = 0; r < program.ranks.size(); ++r)
      for (const auto& [pass, count] : passes(program, Rank{static_cast<int>(r)})) EXPECT_EQ(count, shape.microbatches) << pass.first;
  }
}

TEST(LayerPrograms, AMemberWithoutAMessageMeetsTheOthers) {
  auto plan = plan_of(model_of(64, 6, 4), {2, 1, 1, 4, 1, 3}, Precision::fp32);
  auto& narrow = plan.stages[1].replicas[0];
  narrow.tensor_parallel = 2;
  narrow.devices.resize(2);
  const auto program = lower(plan, runtime_named("megatron-deepspeed"));
  EXPECT_EQ(first_violation(program), "");
  EXPECT_EQ(program.ranks[3].peers.size(), 0u);
  std::set<Group::Kind> kinds;
  for (int group : program.ranks[3].groups) kinds.insert(program.groups[static_cast<std::size_t>(group)].kind);
  EXPECT_TRUE(kinds.contains(Group::Kind::tensor));
}

Bytes of(const RankClass& c, Category category) { return arena_breakdown(c)[static_cast<std::size_t>(category)]; }

constexpr double GiB = 1 << 30;

// Korthikanti et al. 2022, figure 1 and table 2: s b h L / t (34 + 5 a s / h) bytes, with what tensor parallelism leaves whole, and the
// first stage of an interleaved pipeline keeping 1 + (p - 1) / (p m) times that. The embedding's dropout mask, which they leave out, is
// there too.
TEST(LayerPrograms, KeepActivationsAsTheFormulasSay) {
  auto plan = plan_of(model_of(6144, 48, 64), {1, 1, 1, 8, 4, 1});
  const auto runtime = runtime_named("megatron-lm");
  const double mask = 2048.0 * 4 * 6144, logits = 2048.0 * 4 * 6400 * 4 + 2 * 2 * 2048.0 * 4 * 6144;
  const auto activations = [&] { return static_cast<double>(of(lower(plan, runtime).classes[0], Category::activations).count); };
  EXPECT_NEAR((activations() - mask - logits) / GiB, 59.25, 1e-6);
  plan.sequence_parallel = true;
  plan.stages[0].recompute = plan::Recompute::selective;
  // Fullest when the last block's scores are computed again: the head's share is gone by then.
  EXPECT_NEAR((activations() - mask / 8) / GiB, 9.5625, 1e-6);

  plan = plan_of(model_of(12288, 96, 96), {8, 3, 1, 8, 1, 64});
  const auto first_stage = [&] { return static_cast<double>(of(lower(plan, runtime).classes[0], Category::activations).count) / GiB; };
  const double masks = 2 * 8 * 2048.0 * 12288 / GiB;  // 2 p passes of the first chunk are in flight
  EXPECT_NEAR(first_stage() - masks, 66.84375, 1e-6);
  plan.sequence_parallel = true;
  for (auto& stage : plan.stages) stage.recompute = plan::Recompute::selective;
  EXPECT_NEAR(first_stage() - masks / 8, 12.3515625, 1e-6);
}

// 18 bytes per parameter (2 weights, 4 gradients, 12 optimizer); figure 1 counts the matrices of the blocks alone.
TEST(LayerPrograms, KeepParametersAndOptimizer) {
  const auto plan = plan_of(model_of(6144, 48, 64), {1, 1, 1, 8, 4, 1});
  const auto program = lower(plan, runtime_named("megatron-lm"));
  const auto& c = program.classes[0];
  const double state = static_cast<double>((of(c, Category::parameters) + of(c, Category::gradients) + of(c, Category::optimizer)).count);
  const double matrices = 12.0 * 48 * 6144 * 6144 / 8 * 18;
  EXPECT_NEAR(matrices / GiB, 45.5625, 1e-6);
  double others = 0;  // embeddings, biases, norms
  for (const auto& tensor : program.tensors)
    if (tensor.shape.size() == 1 || tensor.layer == 0)
      others += static_cast<double>(tensor.axis == model::Axis::none ? tensor.elements() : tensor.elements() / 8);
  EXPECT_NEAR(state, matrices + 18 * others, 1e3);
}

/// Mixtral on eight replicas of Megatron-Core: groups of g replicas hold all experts of a block once, and the rest everywhere. Weights of
/// 2 bytes, gradients of 4 and a sharded optimizer of 12, of which experts are on 8 / g replicas.
TEST(LayerPrograms, ShareExpertsAmongReplicas) {
  model::Config model = model::built_in("mixtral-8x7b");
  model.positions = 2048;
  auto plan = plan_of(model, {1, 1, 8, 1, 1, 2}, Precision::bf16);
  plan.shard_optimizer = true;
  const double experts = 32.0 * 8 * 3 * 4096 * 14336, all = 46702792704.0;
  const auto state = [&](const Runtime& runtime) {
    const auto program = lower(plan, runtime);
    const auto& c = program.classes[0];
    return static_cast<double>((of(c, Category::parameters) + of(c, Category::gradients) + of(c, Category::optimizer)).count);
  };
  Runtime runtime = runtime_named("megatron-core");
  const auto expected = [&](double group) { return (all - experts) * (6 + 12.0 / 8) + experts / group * (6 + 12 * group / 8); };
  EXPECT_NEAR(state(runtime), expected(8), 1e3) << "as many as divide experts and replicas";
  EXPECT_EQ(lower(plan, runtime).classes[0].shape.expert_parallel, 8);
  for (const int group : {1, 2, 4}) {
    runtime.layers->expert_parallel = group;
    EXPECT_NEAR(state(runtime), expected(group), 1e3) << group;
  }
  EXPECT_EQ(lower(plan, runtime_named("pytorch-fsdp")).classes[0].shape.expert_parallel, 1) << "every replica holds all of them";
  runtime.layers->expert_parallel = 3;
  const auto refused = tests::refusal(ErrorKind::unavailable, [&] { lower(plan, runtime); });
  EXPECT_NE(refused.find("among 3 replicas; expected a divisor of the 8 experts"), std::string::npos) << refused;
  runtime.layers->expert_parallel = 8;
  const auto group = [&](int replicas) {
    return lower(plan_of(model, {1, 1, replicas, 1, 1, 2}, Precision::bf16), runtime).classes[0].shape.expert_parallel;
  };
  EXPECT_EQ(group(1), 1) << "as a search tries out a layer";
  EXPECT_EQ(group(12), 4);
}

/// Of Mixtral's blocks a token keeps: four rows of `hidden` and its heads' queries, keys, values and outputs, as of any block; the columns
/// of two experts, gate, other and product; rows before and behind each of the two. Of DeepSeekMoE's first block the dense columns.
TEST(LayerPrograms, KeepWhatTokensGoThrough) {
  model::Config model = model::built_in("mixtral-8x7b");
  model.positions = 2048;
  const auto kept = [&](int blocks) {
    model.blocks = blocks;
    const auto program = lower(plan_of(model, {1, 1, 1, 1, 1, 1}, Precision::bf16), runtime_named("megatron-core"));
    return static_cast<double>(of(program.classes[0], Category::activations).count);
  };
  const double token = 2 * (4.0 * 4096 + (4096 + 2 * 1024) + 4096 + 2 * 3 * 14336 + 2 * 2 * 4096);
  EXPECT_NEAR(kept(3) - kept(2), 2048 * token, 1);
  model = model::built_in("deepseek-moe-16b");
  model.positions = 2048;
  const double alike = 2 * (4.0 * 2048 + 4 * 2048), experts = 2 * (3.0 * (6 * 1408 + 2816) + 2 * 6 * 2048), dense = 2 * 3.0 * 10944;
  EXPECT_NEAR(kept(3) - kept(2), 2048 * (alike + experts), 1);
  model.experts.dense_blocks = {0, 1};
  EXPECT_NEAR(kept(4) - kept(3), 2048 * (alike + experts), 1);
  const double two = kept(3);
  model.experts.dense_blocks = {0};
  EXPECT_NEAR(kept(3) - two, 2048 * (experts - dense), 1);
}

/// DeepSpeed copies up to 500 million gradients in fp32 together for their sum.
TEST(LayerPrograms, SumsInFp32HaveACopyOfGradients) {
  const auto buckets = [](int hidden, Precision precision) {
    Runtime runtime = runtime_named("megatron-deepspeed");
    const auto plan = plan_of(model_of(hidden, 8, 16), {1, 1, 1, 1, 1, 1}, precision);
    const Bytes with = of(lower(plan, runtime).classes[0], Category::communication);
    const auto elements = of(lower(plan, runtime).classes[0], Category::parameters).count / 2;
    runtime.layers->summed_together = 0;
    return std::pair{with - of(lower(plan, runtime).classes[0], Category::communication), elements};
  };
  const auto [few, elements] = buckets(1024, Precision::bf16);
  EXPECT_NEAR(static_cast<double>(few.count), 4.0 * static_cast<double>(elements), 1e4);
  EXPECT_NEAR(static_cast<double>(buckets(4096, Precision::bf16).first.count), 2e9, 1e4);
  EXPECT_EQ(buckets(4096, Precision::fp16).first, Bytes{});
}

/// InternEvo's step holds 14 bytes more of an updated parameter, where the activations of its passes were.
TEST(LayerPrograms, UpdatesTakeThePlaceOfActivations) {
  Runtime runtime = runtime_named("internevo");
  const auto transient = [&](const plan::Plan& plan) {
    const auto& c = lower(plan, runtime).classes[0];
    return of(c, Category::activations) + of(c, Category::workspace);
  };
  const auto elements = [&](const plan::Plan& plan) { return of(lower(plan, runtime).classes[0], Category::parameters).count / 2; };
  auto plan = plan_of(model_of(1024, 8, 16), {1, 1, 4, 1, 1, 1}, Precision::bf16);
  const Bytes whole = transient(plan);
  plan.shard_optimizer = true;
  const Bytes shared = transient(plan);
  EXPECT_NEAR(static_cast<double>(whole.count), 14.0 * static_cast<double>(elements(plan)), 1e4);
  EXPECT_LT(shared, whole) << "four replicas update a quarter each";
  runtime.layers->update_temporaries_half = {};
  const Bytes passes = transient(plan);
  runtime = runtime_named("internevo");
  EXPECT_EQ(shared, std::max(passes, Bytes{14 * elements(plan) / 4}));
}

TEST(LayerPrograms, RecomputationKeepsLess) {
  auto plan = plan_of(model_of(1024, 8, 16), {2, 1, 1, 2, 2, 4});
  Bytes before{std::numeric_limits<std::int64_t>::max()};
  for (const auto recompute : {plan::Recompute::none, plan::Recompute::selective, plan::Recompute::full}) {
    for (auto& stage : plan.stages) stage.recompute = recompute;
    const auto here = of(lower(plan, runtime_named("megatron-lm")).classes[0], Category::activations);
    EXPECT_LT(here, before);
    before = here;
  }
}

TEST(LayerPrograms, RefuseWhatTheRuntimeCannotDo) {
  const auto expect_refused = [](const plan::Plan& plan, const char* runtime, const char* part) {
    tests::expect_contains(tests::refusal(ErrorKind::unavailable, [&] { lower(plan, runtime_named(runtime)); }), part);
  };
  const auto model = model_of(64, 12, 4);
  expect_refused(plan_of(model, {3, 2, 1, 1, 1, 6}), "megatron-deepspeed", "the plan says interleaved");
  expect_refused(plan_of(model, {3, 2, 1, 1, 1, 4}), "megatron-lm", "a multiple of 3 microbatches; the plan has 4");
  auto unequal = plan_of(model, {1, 1, 2, 1, 1, 4});  // one would wait for weights that the other gathers no more
  unequal.shard_optimizer = true;
  unequal.stages[0].replicas[0].sequences -= 1, unequal.stages[0].replicas[1].sequences += 1;
  expect_refused(unequal, "pytorch-fsdp", "replica 0 has 3, replica 1 has 5");
  EXPECT_EQ(first_violation(lower(unequal, runtime_named("megatron-core"))), "") << "it sums gradients after the passes";
  expect_refused(plan_of(model, {2, 2, 1, 1, 1, 4}), "megatron-lm", "on 3 devices in a row at least");
  auto plan = plan_of(model, {2, 1, 2, 1, 1, 4});
  plan.schedule = plan::ScheduleKind::gpipe;
  expect_refused(plan, "megatron-lm", "gpipe");
  EXPECT_THROW(runtime_named("megatron-dpeespeed"), Error);
}

}  // namespace
}  // namespace flotilla::program::layers_test
