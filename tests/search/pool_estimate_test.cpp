// What sketches are estimated as: how their batch is dealt, what leaves a zone.
#include <gtest/gtest.h>

#include <cmath>

#include "flotilla/base/error.hpp"
#include "pool_checks.hpp"
#include "pool_parts.hpp"

namespace flotilla::fixture {
namespace {

using namespace search;
using namespace search::pool;

int share_of(const Column& column) { return (column.sequences + column.count - 1) / column.count; }

Range small_models() {
  Range range;
  range.models = {"gpt2-tiny", "opt-tiny"};
  range.devices = 24;
  return range;
}

/// A stage on each of the pool's places, or as many as the model has layers for; one device each.
Sketch one_of_each(const Stock& stock, int stages) {
  Sketch sketch{{0}, {}, {}};
  for (int s = 0; s < stages; ++s) {
    sketch.cuts.push_back(s + 1 == stages ? stock.request.model.layers() : s + 1);
    sketch.recompute.push_back(plan::Recompute::none);
  }
  for (int p = 0; p < static_cast<int>(stock.places.size()); ++p) {
    const int count = stock.places[at(p)].count / stages;
    if (count > 0) sketch.columns.push_back({std::vector<Slot>(at(stages), Slot{p, 1}), 2, count});
  }
  return sketch;
}

TEST(PoolEstimate, LevelSharesAreTheBatchInEvenMicrobatches) {
  int looked_at = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const Instance i = random_instance(seed, small_models());
    Parts parts{i};
    if (!parts.estimate.levels()) continue;
    for (const int most : parts.estimate.sizes()) {
      Sketch sketch = one_of_each(parts.stock, 1);
      sketch.dealing = Dealing::level;
      for (Column& column : sketch.columns) column.microbatch = most;
      if (parts.estimate(sketch).seconds <= 0) continue;
      int all = 0;
      for (const Column& column : sketch.columns) {
        all += column.sequences;
        const int each = share_of(column), turns = (each + column.microbatch - 1) / column.microbatch;
        EXPECT_EQ(turns, (each + most - 1) / most) << seed << ": as many as the size asked for";
        EXPECT_EQ(column.microbatch, (each + turns - 1) / turns) << seed << ": no larger than they must be";
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
  Sketch sketch = one_of_each(parts.stock, 1);
  sketch.dealing = Dealing::level;
  for (Column& column : sketch.columns) column.microbatch = 4;
  ASSERT_GT(parts.estimate(sketch).seconds, 0);
  ASSERT_EQ(sketch.columns.size(), 2U);
  // 32 x 5 + 96 x 1 sequences take as long as one of each: 4 sequences more than that are 1,024.
  EXPECT_EQ(share_of(sketch.columns[0]), 20);
  EXPECT_EQ(share_of(sketch.columns[1]), 4);
}

/// But for scalars and what does not divide evenly; the word table of several stages is counted at both ends.
TEST(PoolEstimate, WhatLeavesAZoneIsTheForecasts) {
  int looked_at = 0;
  for (int seed = 0; seed < 120; ++seed) {
    const Instance i = random_instance(seed, small_models());
    Parts parts{i};
    const Judge judge{i};
    for (const int stages : {1, 2}) {
      Sketch sketch = one_of_each(parts.stock, stages);
      if (sketch.columns.empty() || parts.estimate(sketch).seconds <= 0 || sketch.columns.empty()) continue;
      std::optional<double> usd;
      try {
        usd = judge.forecast(plan_of(sketch, parts.stock)).forecast.expense.egress_usd;
      } catch (const Error&) {
        continue;  // the runtime cannot
      }
      if (!usd || *usd <= 0) continue;
      EXPECT_NEAR(parts.network.egress(sketch) / *usd, 1, stages == 1 ? 0.02 : 0.5) << seed << ", " << stages << " stages";
      ++looked_at;
    }
  }
  EXPECT_GT(looked_at, 15);
}

}  // namespace
}  // namespace flotilla::fixture
