// Whole layers from tables, published link fits, and collectives as libraries run them: by hand arithmetic.
#include <gtest/gtest.h>

#include "cost/layer_cost.hpp"
#include "cost/layer_operations.hpp"
#include "cost/layer_split.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/plan/allocate.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "network/library_collective.hpp"
#include "network/route.hpp"

namespace flotilla::simulate::layer_cost_test {
namespace {

using cluster::LayerTime;
using cluster::LinkFit;

LayerTime row(int sequences, double forward, double backward, int tensor_parallel = 2) {
  LayerTime time;
  time.model = "m";
  time.device_type = "A";
  time.first_layer = 0;
  time.last_layer = 4;
  time.tensor_parallel = tensor_parallel;
  time.sequences = sequences;
  time.forward = {forward};
  time.backward = {backward};
  time.update = {0.6};
  return time;
}

cluster::Profile library() {
  cluster::Profile profile;
  cluster::DeviceType type;
  type.name = "A";
  type.per_node = 2;
  type.memory = {1LL << 34};
  profile.device_types = {type};
  // The smallest microbatch was disturbed: longer than the next.
  profile.layer_times = {row(1, 9, 2), row(2, 4, 3), row(8, 16, 12)};
  for (int layer = 0; layer < 4; ++layer) profile.layer_sizes.push_back({"m", layer, layer + 1, 2, 100, 10, 10, 50});
  profile.link_fits = {
      {"z", "A", 1, "z", "A", 1, 0, 0, 2, {2e9}}, {"z", "A", 2, "z", "A", 2, 0, 0, 3, {3e9}}, {"", "A", 2, "", "A", 2, 0, 0, 50, {5e10}}};
  return profile;
}

const LayerCosts::LayerKey block{"m", "A", 1, 2, Precision::fp32};

double forward(const LayerCosts& costs, int sequences, double host = 0, LayerCosts::LayerKey what = block) {
  const auto cost = costs.pass(what, LayerCosts::Pass::forward, sequences, {host});
  return cost ? cost->time.value : -1;
}

TEST(LayerCosts, InterpolatesBetweenMeasuredMicrobatches) {
  const auto profile = library();
  const LayerCosts costs{profile};
  EXPECT_DOUBLE_EQ(forward(costs, 2), 4);
  EXPECT_DOUBLE_EQ(forward(costs, 5), 10);
  EXPECT_DOUBLE_EQ(forward(costs, 16), 32);
  EXPECT_DOUBLE_EQ(forward(costs, 1), 4);  // no more than two sequences take
  EXPECT_LT(costs.pass(block, LayerCosts::Pass::forward, 2, {})->relative_error,
            costs.pass(block, LayerCosts::Pass::forward, 5, {})->relative_error);
}

TEST(LayerCosts, SayWhatTheyDoNotKnow) {
  const auto profile = library();
  const LayerCosts costs{profile};
  EXPECT_EQ(forward(costs, 2, 0, {"other", "A", 1, 2, Precision::fp32}), -1);
  EXPECT_EQ(forward(costs, 2, 0, {"m", "A", 1, 2, Precision::bf16}), -1);
  const auto wider = costs.pass({"m", "A", 1, 4, Precision::fp32}, LayerCosts::Pass::forward, 2, {});
  ASSERT_TRUE(wider);
  EXPECT_DOUBLE_EQ(wider->time.value, 2);
  EXPECT_TRUE(wider->estimated);
}

// Two sequences take 3 s backward where the device needs 12 / 8 each: it is busy all the time, nothing is the host's. One takes 2 s: half a
// second of it is idle.
TEST(LayerCosts, TakeTheProfilersHostTimeOffWhatIsIdle) {
  const auto profile = library();
  const LayerCosts costs{profile};
  const auto backward = [&](int sequences, double host) {
    return costs.pass(block, LayerCosts::Pass::backward, sequences, {host})->time.value;
  };
  EXPECT_DOUBLE_EQ(backward(2, 0.2), 3);
  EXPECT_DOUBLE_EQ(backward(1, 0.2), 1.8);
  EXPECT_DOUBLE_EQ(backward(1, 9), 1.5);
}

TEST(LayerCosts, UpdateIsPerParameterOfTheProfiledModel) {
  const auto profile = library();
  const LayerCosts costs{profile};
  // Embedding, two blocks and head: 400 parameters in 0.6 s.
  EXPECT_DOUBLE_EQ(costs.update({"m", "A", 0, 2, Precision::fp32}, 4, 1000)->time.value, 1.5);
}

TEST(LayerSplit, OperationsAddUpToTheMeasuredLayer) {
  auto profile = library();
  profile.device_types[0].peak_fp32 = {1e13};
  profile.device_types[0].memory_bandwidth = {1e12};
  const auto model = model::built_in("gpt2");
  for (auto& time : profile.layer_times) {
    time.model = model.name;
    time.last_layer = model.layers();
    time.tensor_parallel = 1;
  }
  const LayerCosts costs{profile};
  const FitsByTypes fits{profile};
  const auto sum = [&](std::span<const model::Operation> operations) {
    double seconds = 0;
    for (auto operation : operations)
      seconds += split_of_layer(profile, fits, costs, model, "A", operation, {2, model.positions, 1, 0, Precision::fp32})->time.value;
    return seconds;
  };
  for (int layer : {0, 1, model.layers() - 1}) {
    EXPECT_NEAR(sum(forward_operations(model, layer)), 4, 1e-9);
    EXPECT_NEAR(sum(backward_operations(model, layer)), 3, 1e-9);
  }
  EXPECT_FALSE(split_of_layer(profile, fits, costs, model, "B", model::Operation::mlp_forward, {2, 64, 1, 0, Precision::fp32}));
}

TEST(Fits, FlowsShareWhatTheyReachTogether) {
  const LinkFit one{"z", "A", 1, "z", "A", 1, 0, 0, 2, {2e9}}, two{"z", "A", 2, "z", "A", 2, 0, 0, 3, {3e9}};
  EXPECT_DOUBLE_EQ(fitted_time(one, {2'000'000}, 1).value, 1e-3);
  EXPECT_DOUBLE_EQ(fitted_time(two, {3'000'000}, 2).value, 2e-3);
  EXPECT_DOUBLE_EQ(fitted_time(two, {3'000'000}, 4).value, 4e-3);
  EXPECT_DOUBLE_EQ(fitted_time(one, {1}, 1).value, fitted_time(one, {65536}, 1).value);
  // A parabola below zero at its small end still takes time.
  const LinkFit steep{"", "A", 2, "", "A", 2, 0.8, 16, 33, {2.5e11}};
  EXPECT_GT(fitted_time(steep, {65536}, 1).value, 0);
  EXPECT_LT(fitted_time(steep, {65536}, 1).value, 1e-4);
}

/// Ranks on hosts of two.
struct Hosts {
  explicit Hosts(int ranks) : profile{library()} {
    for (int r = 0; r < ranks; ++r) profile.devices.push_back({Rank{r}, "A", text("h", r / 2), "z", r % 2, 1});
    for (int r = 0; r < ranks; ++r) group.members.emplace_back(r);
    group.algorithm = program::Group::Algorithm::library;
  }
  double all_reduce(std::int64_t bytes, int flows = 1) {
    const FitsByTypes fits{profile};
    Paths paths{profile, fits};
    return library_all_reduce(paths, group, {bytes}, flows).value;
  }
  cluster::Profile profile;
  program::Group group;
};

TEST(LibraryCollectives, TakeTheFastestWay) {
  // Inside a host: 2 steps of half the bytes; 50 GB/s for two together.
  EXPECT_DOUBLE_EQ(Hosts{2}.all_reduce(100'000'000), 2 * 50e6 * 2 / 50e9);
  // Two hosts of two: node by node beats the ring of four, whose slow steps are three more than a pair's. Shares of half cross, two flows
  // at 3 GB/s together.
  const double inside = 2 * 50e6 * 2 / 50e9, between = 2 * 25e6 * 2 / 3e9;
  EXPECT_NEAR(Hosts{4}.all_reduce(100'000'000), inside + between, 1e-9);
  // Equal groups at the same time share the cards.
  EXPECT_GT(Hosts{4}.all_reduce(100'000'000, 2), 1.9 * between);
}

TEST(LibraryCollectives, AreCappedBetweenHostsOnly) {
  Hosts four{4}, two{2};
  const double free = two.all_reduce(100'000'000);
  four.group.most = two.group.most = {1e6};
  EXPECT_DOUBLE_EQ(four.all_reduce(100'000'000), 1.5 * 100);
  EXPECT_DOUBLE_EQ(two.all_reduce(100'000'000), free);
}

TEST(LibraryCollectives, NeverFasterWithMoreBytesOrFlows) {
  for (int ranks : {2, 3, 4, 7}) {
    double before = 0;
    for (std::int64_t bytes = 1000; bytes < 1'000'000'000; bytes *= 3) {
      const double here = Hosts{ranks}.all_reduce(bytes);
      EXPECT_GE(here, before);
      EXPECT_GE(Hosts{ranks}.all_reduce(bytes, 3), here);
      before = here;
    }
  }
}

}  // namespace
}  // namespace flotilla::simulate::layer_cost_test
