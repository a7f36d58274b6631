// What a stage may be made of: numbers of replicas of its own, several types, tensor-parallel groups over several nodes.
#include <gtest/gtest.h>

#include <set>

#include "flotilla/model/tensors.hpp"
#include "pool_checks.hpp"
#include "pool_parts.hpp"
#include "uneven_pipeline.hpp"
#include "wide_groups.hpp"

namespace flotilla::fixture::pool_stages_test {
namespace {

using namespace search::pool;

/// Two types in one zone, one four times as fast as the other, each device of which holds a part of the model.
Instance parts_of_a_model(int fast, int slow, double part) {
  Instance i;
  i.request.model = model::built_in("gpt2-mini");
  i.request.length = 64;
  i.request.global_batch = 120;
  Bytes state{};
  for (const auto& tensor : model::tensors(i.request.model)) state += tensor.elements() * Bytes{16};
  for (const auto& [name, gigaflops, count] : {std::tuple{"fast", 400, fast}, {"slow", 100, slow}}) {
    i.library.device_types.push_back(
        made_up_type(name, gigaflops, {static_cast<std::int64_t>(part * static_cast<double>(state.count)) + (4 << 20)}));
    if (count > 0) i.request.pool.push_back({name, "", count, count});
  }
  i.library.links = made_up_links();
  return i;
}

/// Five devices: two columns of two stages leave one idle, two stages of two and three replicas do not.
TEST(PoolStages, HaveTheirOwnNumbersOfReplicas) {
  Instance i = parts_of_a_model(5, 0, 0.625);
  i.request.constraints.shard_optimizer = false;  // sharded, the model fits every device
  const auto free = plan(i);
  i.request.restrictions.equal_replicas = true;
  const auto equal = plan(i);
  ASSERT_TRUE(free.best && equal.best) << free.no_plan_reason << equal.no_plan_reason;
  std::set<std::size_t> counts;
  for (const auto& stage : free.best->plan.stages) counts.insert(stage.replicas.size());
  EXPECT_GT(counts.size(), 1u) << plan::summary(free.best->plan);
  EXPECT_LT(free.best->value, equal.best->value) << plan::summary(free.best->plan) << "; " << plan::summary(equal.best->plan);
}

/// Messages and sums between two zones whose hosts share the way.
TEST(PoolStages, AreEstimatedWithZonesUplinks) {
  Instance i = parts_of_a_model(1, 1, 2);
  i.request.pool = {{"fast", "east", 4, 1}, {"fast", "west", 4, 1}};
  const auto seconds = [&](int replicas) {
    Parts parts{i};
    return parts.network.message({0, 1, false, 1, 1, replicas}, 4);
  };
  const auto sum = [&] {
    Parts parts{i};
    const PipelineReplica east{{{0, 1}}, 4, 4, 0}, west{{{1, 1}}, 4, 4, 0};
    const CandidatePlan candidate{{0, i.request.model.layers()}, {plan::Recompute::none}, {east, west}};
    return parts.network.sums(candidate, 0, {0, 0}).block;
  };
  const double alone = seconds(1), sum_without = sum();
  EXPECT_EQ(seconds(4), alone);
  i.library.uplinks = {{"east", {1e30}}};
  EXPECT_EQ(seconds(4), alone) << "room for all";
  EXPECT_EQ(sum(), sum_without);
  i.library.uplinks = {{"east", {1e5}}};
  EXPECT_EQ(seconds(1), alone);
  EXPECT_GT(seconds(2), alone);
  EXPECT_GT(seconds(4), 1.5 * seconds(2));
  EXPECT_GT(sum(), 1.5 * sum_without);
}

/// Two fast ones, then one fast and two slow ones side by side, which take the batch as fast as each of them is.
TEST(PoolStages, MixTypesAndKeepTheirOwnNumbers) {
  const Instance i = parts_of_a_model(3, 2, 0.85);
  Parts parts{i};
  UnevenPipelineEstimator estimate{parts.estimate, parts.network};
  UnevenPipeline line{{{{0, 1, 2, 2}}, {{0, 1, 1, 2}, {1, 1, 2, 1}}}, {}, {}};
  const auto seconds = estimate.cut(line);
  ASSERT_TRUE(seconds);
  const StageReplicas& mixed = line.stages_replicas[1];
  EXPECT_EQ(mixed[0].sequences + mixed[1].sequences, i.request.global_batch);
  EXPECT_NEAR(static_cast<double>(mixed[0].sequences) / mixed[1].sequences, 2, 0.5);  // 4 : 2 x 1, small microbatches on the slow ones
  const auto plan = plan_of(line, parts.device_pool);
  EXPECT_TRUE(plan::validate(plan).empty());
  const auto evaluation = parts.evaluator.forecast(plan);
  ASSERT_TRUE(evaluation);
  EXPECT_TRUE(evaluation->fits()) << plan::summary(plan) << ": " << evaluation->tightest->needed << " of " << evaluation->tightest->limit;
  EXPECT_NEAR(*seconds / evaluation->forecast.iteration.value, 1, 0.1);
  const auto answer = fixture::plan(i);
  ASSERT_TRUE(answer.best);
  EXPECT_LE(answer.best->value, evaluation->forecast.iteration.value) << plan::summary(answer.best->plan);
}

TEST(PoolStages, LinesThatDoNotGoRoundAreNoPlans) {
  Instance i = parts_of_a_model(3, 2, 0.85);
  i.request.global_batch = 4;
  Parts parts{i};
  UnevenPipelineEstimator estimate{parts.estimate, parts.network};
  const int layers = i.request.model.layers();
  UnevenPipeline line{{{{0, 1, 1, 1}}, {{0, 1, 2, 1}, {1, 1, 2, 1}}}, {0, 2, layers}, {plan::Recompute::none, plan::Recompute::none}};
  EXPECT_FALSE(estimate(line));  // four sequences, of which each fast one would take nearly two and the slow ones nothing
}

/// Four nodes of two, and one sequence to work on: whoever wants more than two devices must split the layers over nodes.
Instance one_sequence(double between_nodes) {
  Instance i;
  i.request.model = model::built_in("gpt2");
  i.request.length = 512;
  i.request.global_batch = 1;
  i.library.device_types.push_back(made_up_type("t", 400));
  i.request.pool.push_back({"t", "", 8, 2});
  i.library.links = made_up_links(10e9, between_nodes);
  for (auto& link : i.library.links) link.lanes = 2;
  return i;
}

int widest_of(const Instance& i) {
  Parts parts{i};
  widen_groups(parts.device_pool, parts.layer_cost_table, parts.network);
  return parts.device_pool.types.front().widest;
}

int widest_of(const plan::Plan& plan) {
  int widest = 1;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) widest = std::max(widest, replica.tensor_parallel);
  return widest;
}

TEST(PoolStages, TensorParallelGroupsStayInsideANodeUnlessTheLinksSayOtherwise) {
  const Instance slow = one_sequence(1e8), quick = one_sequence(1e11);
  EXPECT_EQ(widest_of(slow), 2);
  EXPECT_GT(widest_of(quick), 2);
  const auto near = plan(slow), far = plan(quick);
  ASSERT_TRUE(near.best && far.best);
  EXPECT_LE(widest_of(near.best->plan), 2) << plan::summary(near.best->plan);
  EXPECT_GT(widest_of(far.best->plan), 2) << plan::summary(far.best->plan);
  EXPECT_TRUE(Judge{quick}.problems(far).empty());
}

TEST(PoolStages, GroupsOverNodesTakeWholeOnes) {
  Instance i = one_sequence(1e11);
  i.request.pool = {{"t", "", 11, 4}};  // two nodes of four and three devices
  Parts parts{i};
  parts.device_pool.types.front().widest = 8;
  EXPECT_EQ(parts.device_pool.groups(0, 8), 1);
  EXPECT_EQ(parts.device_pool.groups(0, 4), 2);
  EXPECT_EQ(parts.device_pool.groups(0, 2), 5);
  const auto holds = [&](std::vector<int> degrees) {
    CandidatePlan candidate;
    for (const int degree : degrees) candidate.pipelines.push_back({{{0, degree}}, 1, 1});
    return parts.device_pool.holds(candidate);
  };
  EXPECT_TRUE(holds({8, 2, 1}));
  EXPECT_FALSE(holds({8, 4}));
  EXPECT_FALSE(holds({8, 8}));
  EXPECT_TRUE(holds({1, 2, 4, 4}));
  parts.device_pool.types.front().widest = 4;
  EXPECT_FALSE(holds({8}));
}

}  // namespace
}  // namespace flotilla::fixture::pool_stages_test
