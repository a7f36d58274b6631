#pragma once
#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "flotilla/plan/plan.hpp"
#include "support/random.hpp"

namespace flotilla::plan::testing {

using tests::between;

/// `total` as `parts` positive numbers.
inline std::vector<int> split(std::mt19937& random, int total, int parts) {
  std::vector<int> cuts{0, total}, inner(static_cast<std::size_t>(total) - 1);
  for (int i = 1; i < total; ++i) inner[static_cast<std::size_t>(i) - 1] = i;
  std::ranges::shuffle(inner, random);
  cuts.insert(cuts.end(), inner.begin(), inner.begin() + parts - 1);
  std::ranges::sort(cuts);
  std::vector<int> sizes;
  for (std::size_t i = 1; i < cuts.size(); ++i) sizes.push_back(cuts[i] - cuts[i - 1]);
  return sizes;
}

/// Of those with one stage a device.
inline ScheduleKind any_schedule(std::mt19937& random) {
  constexpr std::array kinds{ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble};
  return kinds[static_cast<std::size_t>(between(random, 0, 2))];
}

/// A valid, bound plan in which everything may differ: stages, replicas per stage, degrees, shares, microbatches. Ranks are shuffled.
inline Plan random_plan(std::mt19937& random) {
  Plan plan;
  const std::vector<const char*> models{"gpt2-tiny", "gpt2-mini", "opt-tiny", "opt-post-tiny", "gpt-neo-tiny", "llama-tiny"};
  plan.model = model::built_in(models[static_cast<std::size_t>(between(random, 0, 5))]);
  plan.length = between(random, 1, plan.model.positions);
  plan.quantum = between(random, 1, 3);
  const int quanta = between(random, 4, 12);
  plan.global_batch = quanta * plan.quantum;
  plan.precision = between(random, 0, 1) ? Precision::fp32 : Precision::bf16;
  plan.schedule = any_schedule(random);
  int layer = 0, devices = 0;
  for (const int layers : split(random, plan.model.layers(), between(random, 1, 3))) {
    Stage stage{layer, layer + layers, static_cast<Recompute>(between(random, 0, 2)), {}};
    layer += layers;
    for (const int share : split(random, quanta, between(random, 1, 4))) {
      const int degree = between(random, 1, plan.model.groups());
      stage.replicas.push_back(
          {between(random, 0, 1) ? "fast" : "slow", "z", degree, {}, between(random, 1, quanta), share * plan.quantum});
      devices += degree;
    }
    plan.stages.push_back(stage);
  }
  std::vector<Rank> ranks;
  for (int r = 0; r < devices; ++r) ranks.emplace_back(r);
  std::ranges::shuffle(ranks, random);
  for (Stage& stage : plan.stages)
    for (Replica& replica : stage.replicas)
      for (int t = 0; t < replica.tensor_parallel; ++t) {
        replica.devices.push_back(ranks.back());
        ranks.pop_back();
      }
  plan.sequence_parallel = between(random, 0, 1) == 1;
  return plan;
}

}  // namespace flotilla::plan::testing
