// What candidates are estimated as: how their batch is dealt, what leaves a zone.
#include <gtest/gtest.h>

#include <cmath>

#include "flotilla/base/error.hpp"
#include "pool_checks.hpp"
#include "pool_parts.hpp"

namespace flotilla::fixture::pool_estimate_test {
namespace {

using namespace search;
using namespace search::pool;

int share_of(const PipelineReplica& pipeline) { return (pipeline.sequences + pipeline.count - 1) / pipeline.count; }

Range small_models() {
  Range range;
  range.models = {"gpt2-tiny", "opt-tiny"};
  range.devices = 24;
  return range;
}

/// A stage on each of the pool's places, or as many as the model has layers for; one device each.
CandidatePlan one_of_each(const DevicePool& device_pool, int stages) {
  CandidatePlan candidate{{0}, {}, {}};
  for (int s = 0; s < stages; ++s) {
    candidate.cuts.push_back(s + 1 == stages ? device_pool.request.model.layers() : s + 1);
    candidate.recompute.push_back(plan::Recompute::none);
  }
  for (int p = 0; p < static_cast<int>(device_pool.places.size()); ++p) {
    const int count = device_pool.places[at(p)].count / stages;
    if (count > 0) candidate.pipelines.push_back({std::vector<Slot>(at(stages), Slot{p, 1}), 2, count});
  }
  return candidate;
}

TEST(PoolEstimate, LevelSharesAreTheBatchInEvenMicrobatches) {
  int looked_at = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const Instance i = random_instance(seed, small_models());
    Parts parts{i};
    if (!parts.estimate.balances()) continue;
    for (const int most : parts.estimate.sizes()) {
      CandidatePlan candidate = one_of_each(parts.device_pool, 1);
      candidate.partition = BatchPartition::balanced;
      for (PipelineReplica& pipeline : candidate.pipelines) pipeline.microbatch = most;
      if (parts.estimate(candidate).seconds <= 0) continue;
      int all = 0;
      for (const PipelineReplica& pipeline : candidate.pipelines) {
        all += pipeline.sequences;
        const int each = share_of(pipeline), turns = (each + pipeline.microbatch - 1) / pipeline.microbatch;
        EXPECT_EQ(turns, (each + most - 1) / most) << seed << ": as many as the size asked for";
        EXPECT_EQ(pipeline.microbatch, (each + turns - 1) / turns) << seed << ": no larger than they must be";
      }
      EXPECT_EQ(all, i.request.global_batch) << seed;
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 100);
}

/// Of one stage a sequence more or less of a share is all that columns can be apart.
TEST(PoolEstimate, LevelSharesEndTogether) {
  Instance i = random_instance(1, small_models());
  i.library.device_types = {made_up_type("fast", 500), made_up_type("slow", 100)};
  i.library.links = made_up_links();
  i.request = {};
  i.request.model = model::built_in("gpt2-tiny");
  i.request.length = 64;
  i.request.global_batch = 1024;
  i.request.pool = {{"fast", "", 32, 4}, {"slow", "", 96, 4}};
  i.runtime = {};
  Parts parts{i};
  CandidatePlan candidate = one_of_each(parts.device_pool, 1);
  candidate.partition = BatchPartition::balanced;
  for (PipelineReplica& pipeline : candidate.pipelines) pipeline.microbatch = 4;
  ASSERT_GT(parts.estimate(candidate).seconds, 0);
  ASSERT_EQ(candidate.pipelines.size(), 2U);
  // 32 x 5 + 96 x 1 sequences take as long as one of each: 4 sequences more than that are 1,024.
  EXPECT_EQ(share_of(candidate.pipelines[0]), 20);
  EXPECT_EQ(share_of(candidate.pipelines[1]), 4);
}

/// But for scalars and what does not divide evenly; the token embedding of several stages is counted at both ends.
TEST(PoolEstimate, WhatLeavesAZoneIsTheForecasts) {
  int looked_at = 0;
  for (int seed = 0; seed < 120; ++seed) {
    const Instance i = random_instance(seed, small_models());
    Parts parts{i};
    const Judge judge{i};
    for (const int stages : {1, 2}) {
      CandidatePlan candidate = one_of_each(parts.device_pool, stages);
      if (candidate.pipelines.empty() || parts.estimate(candidate).seconds <= 0 || candidate.pipelines.empty()) continue;
      std::optional<double> usd;
      try {
        usd = judge.forecast(plan_of(candidate, parts.device_pool)).forecast.expense.egress_usd;
      } catch (const Error&) {
        continue;  // the runtime cannot
      }
      if (!usd || *usd <= 0) continue;
      EXPECT_NEAR(parts.network.egress(candidate) / *usd, 1, stages == 1 ? 0.02 : 0.5) << seed << ", " << stages << " stages";
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 15);
}

}  // namespace
}  // namespace flotilla::fixture::pool_estimate_test
