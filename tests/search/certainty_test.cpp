// Objective::confidence: plans by the upper end of their interval, and memory that is enough with 99 %.
#include "certainty.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/sailor/artifact.hpp"
#include "simulate/cluster_fixture.hpp"

namespace flotilla::certainty_test {
namespace {

using search::PlanRequest;
using simulate::ProgramForecaster;

TEST(Certainty, WidensTheBarByTheNormalQuantile) {
  search::RankedPlan plan;
  plan.value = 2;
  plan.relative_error = 0.1;
  EXPECT_NEAR(search::value_at_most(plan, 0.9), 2.2, 1e-9) << "the bar is the interval of 90 %";
  EXPECT_NEAR(search::value_at_most(plan, 0.99), 2 * (1 + 0.1 * 2.5758 / 1.6449), 1e-4);
  EXPECT_LT(search::value_at_most(plan, 0.5), 2.2);
}

PlanRequest request_for(const std::string& model, int batch, search::Pool pool) {
  PlanRequest r;
  r.model = model::built_in(model);
  r.length = 1024;
  r.global_batch = batch;
  r.precision = Precision::bf16;
  r.pool = std::move(pool);
  return r;
}

/// Two equal types but for the error of what is known of them.
cluster::Profile sure_and_unsure() {
  auto profile = fixture::uniform_cluster(1, 1, fixture::device_type("unsure", 100, 20));
  auto sure = fixture::device_type("sure", 99, 20);
  profile.device_types.front().efficiency.error = 0.4;
  sure.efficiency.error = 0.05;
  profile.device_types.push_back(sure);
  for (auto& type : profile.device_types) type.per_node = 2;
  profile.devices.clear();
  return profile;
}

TEST(Certainty, PrefersTheDevicesThatAreKnown) {
  const auto profile = sure_and_unsure();
  const ProgramForecaster forecaster{profile, {}, Bytes{16 << 20}};
  PlanRequest r;
  r.model = model::built_in("gpt2-mini");
  r.length = 64;
  r.global_batch = 8;
  r.pool = {{"unsure", "", 1, 1}, {"sure", "", 1, 1}};
  r.objective.limits.devices = 1;
  const auto usual = search::plan(r, forecaster);
  r.objective.confidence = 0.9;
  const auto certain = search::plan(r, forecaster);
  ASSERT_TRUE(usual.best && certain.best);
  EXPECT_EQ(usual.best->plan.stages.front().replicas.front().device_type, "unsure");
  EXPECT_EQ(certain.best->plan.stages.front().replicas.front().device_type, "sure");
  EXPECT_LT(search::value_at_most(*certain.best, 0.9), search::value_at_most(*usual.best, 0.9));
  EXPECT_GE(certain.best->value, usual.best->value) << "the forecast itself is no better";
}

/// Over models, batches and pools: never later at most than the default answer, where that fits with 99 %, and within that memory.
TEST(Certainty, IsNeverWorseAtMostThanTheDefaultAnswerAndFits) {
  const auto catalogue = files::built_in_catalogue();
  const auto profile = cluster::complete_from_catalogue({}, catalogue, {"A100-80", "H100", "V100-16"});
  const std::vector<search::Pool> pools{{{"A100-80", "", 8, 8}}, {{"A100-80", "", 4, 4}, {"H100", "", 4, 4}}, {{"V100-16", "", 8, 8}}};
  for (const char* runtime : {"megatron-core", "pytorch-fsdp"}) {
    const ProgramForecaster forecaster{profile, program::runtime_named(runtime), {}};
    const double error = forecaster.runtime().layers->memory_error_half;
    ASSERT_GT(error, 0);
    for (const auto& pool : pools)
      for (const auto& [model, batch] : {std::pair{"opt-1.3b", 32}, {"opt-350m", 64}}) {
        PlanRequest r = request_for(model, batch, pool);
        if (pool.front().device_type == "V100-16") r.precision = Precision::fp16;
        const auto usual = search::plan(r, forecaster);
        r.objective.confidence = 0.9;
        const auto certain = search::plan(r, forecaster);
        if (!certain.best) continue;
        const auto memory_of = [&](const search::RankedPlan& plan) {
          Bytes least{std::int64_t{1} << 50};
          for (const auto& stage : plan.plan.stages)
            for (const auto& replica : stage.replicas) least = std::min(least, cluster::find_type(profile, replica.device_type)->memory);
          return static_cast<double>(least.count);
        };
        const auto needs = [&](const search::RankedPlan& plan) { return (1 + error) * static_cast<double>(plan.peak_memory.count); };
        if (pool.size() == 1) {
          EXPECT_LE(needs(*certain.best), memory_of(*certain.best) + 1) << runtime << " " << model;
        }
        ASSERT_TRUE(usual.best);
        if (needs(*usual.best) <= memory_of(*usual.best)) {
          EXPECT_LE(search::value_at_most(*certain.best, 0.9), search::value_at_most(*usual.best, 0.9) * (1 + 1e-12))
              << runtime << " " << model;
        }
      }
  }
}

TEST(Certainty, IsNotKnownOfClosedFormulas) {
  const auto profile = fixture::uniform_cluster(1, 2);
  const sailor::SailorArtifact formulas{profile};
  PlanRequest r;
  r.model = model::built_in("gpt2-mini");
  r.length = 64;
  r.global_batch = 8;
  r.objective.confidence = 0.9;
  EXPECT_THROW(search::plan(r, formulas), Error);
}

}  // namespace
}  // namespace flotilla::certainty_test
