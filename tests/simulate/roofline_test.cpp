// Efficiency's formula, by hand.
#include <gtest/gtest.h>

#include "cluster_fixture.hpp"
#include "cost/operation_cost.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/simulate/profile_cost.hpp"

namespace flotilla::simulate::roofline_test {
namespace {

using model::Operation;

const model::Config small = model::built_in("opt-350m");
constexpr model::LayerShape shape{2, 512, 1, 0, Precision::fp32};

cluster::Profile with(const cluster::Efficiency& efficiency) {
  auto profile = fixture::uniform_cluster(1, 1, fixture::device_type("slow", 1000, 100));
  profile.device_types[0].efficiency = efficiency;
  return profile;
}

double seconds(const cluster::Profile& profile, const OperationWork& work, Precision precision = Precision::fp32, Seconds host = {}) {
  return roofline(profile, "slow", precision, work, host).value;
}

TEST(Roofline, DefaultsAreTheLargerOfProductsAndStreaming) {
  const auto profile = with({});
  EXPECT_DOUBLE_EQ(seconds(profile, {2e12, 4, {1'000'000'000}, 5}), 2);
  EXPECT_DOUBLE_EQ(seconds(profile, {2e9, 4, {1'000'000'000}, 5}), 0.01);
}

TEST(Roofline, WithoutOverlapTheyAdd) {
  cluster::Efficiency e;
  e.overlap = 0;
  e.memory = 0.5;
  e.matrix = 0.8;
  EXPECT_DOUBLE_EQ(seconds(with(e), {2e12, 1, {1'000'000'000}, 1}), 2 / 0.8 + 0.02);
  e.overlap = 0.25;
  EXPECT_DOUBLE_EQ(seconds(with(e), {2e12, 1, {1'000'000'000}, 1}), 2 / 0.8 + 0.75 * 0.02);
}

TEST(Roofline, SmallProductsReachLess) {
  cluster::Efficiency e;
  e.half = 1e9;
  EXPECT_DOUBLE_EQ(seconds(with(e), {4e9, 4, {0}, 1}), 8e-3);         // four products of 1e9: half of the peak
  EXPECT_NEAR(seconds(with(e), {4e15, 4, {0}, 1}), 4e3, 4e3 * 2e-6);  // large ones: all of it
}

TEST(Roofline, HalfPrecisionHasItsOwnCurve) {
  cluster::Efficiency e;
  e.matrix_16 = 0.5;
  const auto profile = with(e);
  EXPECT_DOUBLE_EQ(seconds(profile, {2e12, 1, {0}, 1}, Precision::bf16), 2);  // twice the rate, half of it reached
  EXPECT_DOUBLE_EQ(seconds(profile, {2e12, 1, {0}, 1}, Precision::fp16), 2);  // bf16's peak where fp16 has none
  auto other = profile;
  other.device_types[0].peak_fp16 = {8e12};
  EXPECT_DOUBLE_EQ(seconds(other, {2e12, 1, {0}, 1}, Precision::fp16), 0.5);
}

TEST(Roofline, KernelsTakeTheirLaunchAtLeast) {
  cluster::Efficiency e;
  e.launch = {1e-3};
  EXPECT_DOUBLE_EQ(seconds(with(e), {1e6, 1, {1000}, 7}), 7e-3);
  EXPECT_DOUBLE_EQ(seconds(with(e), {1e12, 1, {1000}, 7}), 1);  // hidden behind work
  EXPECT_DOUBLE_EQ(seconds(with(e), {1e6, 1, {1000}, 7}, Precision::fp32, {2e-3}), 14e-3);
}

TEST(Roofline, EstimatesHaveTheTypesErrorAndStreamsItsMemoryShare) {
  cluster::Efficiency e;
  e.error = 0.11;
  e.error_16 = 0.22;
  e.memory = 0.5;
  const auto profile = with(e);
  EXPECT_EQ(operation_cost(profile, small, "slow", Operation::mlp_forward, shape).relative_error, 0.11);
  model::LayerShape half = shape;
  half.precision = Precision::bf16;
  EXPECT_EQ(operation_cost(profile, small, "slow", Operation::mlp_forward, half).relative_error, 0.22);
  const ProfileCost costs{profile};
  EXPECT_DOUBLE_EQ(costs.adamw("slow", 1000, Precision::fp32).time.value, 28e3 / 50e9);
  EXPECT_EQ(costs.adamw("slow", 1000, Precision::fp32).relative_error, 0.11);
}

TEST(Roofline, StoredScoresAreWholeSquaresAndCrossTheMemory) {
  const Execution stores{6, 22, {}};
  const double square = 1024.0 * 512 * small.hidden;  // tokens x length x columns of all heads
  const auto causal = square * 513 / 1024;
  const auto extra = [&](Operation operation) {
    const OperationWork fused = work_of(small, shape, operation), stored = work_of(small, shape, operation, stores);
    return std::pair{stored.flops - fused.flops, stored.traffic - fused.traffic};
  };
  const Bytes scores{2LL * small.heads * 512 * 512 * 4};
  EXPECT_DOUBLE_EQ(extra(Operation::attention_forward).first, 2 * 2 * (square - causal));
  EXPECT_EQ(extra(Operation::attention_forward).second, scores * 6);
  EXPECT_DOUBLE_EQ(extra(Operation::attention_backward).first, 2 * (4 * square - 5 * causal));
  EXPECT_EQ(extra(Operation::attention_backward).second, scores * 22);
  EXPECT_EQ(extra(Operation::mlp_forward), (std::pair{0.0, Bytes{0}}));
}

/// Mixtral's feed-forward layer on one device: an expert's two products and activation once or eight times, and the router. Each of eight
/// experts computes half a tile of rows for nothing.
TEST(Roofline, ExpertsAreOneLayerOrOneEach) {
  const model::Config mixtral = model::built_in("mixtral-8x7b");
  const model::LayerShape here{1, 2048, 1, 0, Precision::bf16};
  Execution grouped;
  grouped.groups_experts = true;
  const OperationWork each = work_of(mixtral, here, Operation::mlp_forward),
                      together = work_of(mixtral, here, Operation::mlp_forward, grouped);
  EXPECT_EQ(each.products, 8 * 2 + 1);
  EXPECT_EQ(together.products, 2 + 1);
  EXPECT_EQ(each.kernels - together.kernels, 7 * 3);
  EXPECT_EQ(each.started, 0);
  EXPECT_EQ(together.started, 7 * 2) << "by the library, without the framework";
  EXPECT_EQ(each.flops, together.flops);
  const double rows = model::flops(mixtral, here, Operation::mlp_forward) + 2.0 * 8 * 64 * 3 * 4096 * 14336;
  EXPECT_NEAR(each.flops, rows, 1e-6 * rows);
  cluster::Efficiency e;
  e.launch = {1e-3};
  EXPECT_DOUBLE_EQ(seconds(with(e), {1e6, 1, {1000}, 7, 5}, Precision::fp32, {2e-3}), 7 * 2e-3 + 5 * 1e-3);
}

TEST(Roofline, EveryOperationOfEveryPrecisionHasATime) {
  const auto profile = with({0.9, 0.8, 1e9, {1e-6}, 0.1, 0.7, 1e9, 0.1, 0});
  for (auto precision : {Precision::fp32, Precision::bf16, Precision::fp16})
    for (int o = 0; o < model::operation_count; ++o) {
      model::LayerShape here = shape;
      here.precision = precision;
      const auto operation = static_cast<Operation>(o);
      const OperationWork work = work_of(small, here, operation);
      EXPECT_GT(work.kernels, 0);
      EXPECT_EQ(work.flops > 0, work.products > 0) << model::to_string(operation);
      EXPECT_GT(operation_cost(profile, small, "slow", operation, here).time.value, 0);
    }
}

}  // namespace
}  // namespace flotilla::simulate::roofline_test
