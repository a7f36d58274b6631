#pragma once
#include <algorithm>
#include <random>
#include <vector>

#include "flotilla/plan/plan.hpp"
#include "flotilla/program/rank_locations.hpp"
#include "plan/random_plan.hpp"
#include "support/random.hpp"

namespace flotilla::tests {

/// Some nodes, each in one of some zones, and ranks anywhere on them; now and then nobody knows.
inline program::RankLocations any_placement(std::mt19937& random, int ranks) {
  program::RankLocations placement;
  if (between(random, 0, 3) == 0) return placement;
  const int nodes = between(random, 1, 4), zones = between(random, 1, 2);
  for (int rank = 0; rank < ranks; ++rank) {
    placement.node.push_back(between(random, 0, nodes - 1));
    placement.zone.push_back(placement.node.back() % zones);
  }
  return placement;
}

/// Any valid plan: besides cuts, schedule, recomputation and precision, every stage has its own replicas, and these their own tensor
/// degrees, microbatches and shares.
inline plan::Plan any_plan(std::mt19937& random) {
  plan::Plan plan = plan::testing::random_plan(random);
  plan.length = between(random, 0, 3) == 0 ? between(random, 1, 5) : 8 * between(random, 1, 3);
  return plan;
}

/// Many microbatches through several stages of unlike replicas, none of which cuts its tensors.
inline plan::Plan long_plan(std::mt19937& random) {
  plan::Plan plan;
  plan.model = model::built_in("gpt2-mini");
  plan.length = 8;
  plan.global_batch = between(random, 20, 120);
  if (between(random, 0, 1)) plan.schedule = plan::ScheduleKind::zero_bubble;
  int layer = 0, rank = 0;
  for (const int layers : plan::testing::split(random, plan.model.layers(), between(random, 2, 5))) {
    plan::Stage stage{layer, layer + layers, plan::Recompute::none, {}};
    layer += layers;
    const int replicas = between(random, 1, 6), most = 1 << between(random, 0, 3);
    const bool equal = between(random, 0, 1) == 0;
    auto shares = plan::testing::split(random, plan.global_batch, replicas);
    for (int r = 0; equal && r < replicas; ++r)
      shares[static_cast<std::size_t>(r)] = plan.global_batch * (r + 1) / replicas - plan.global_batch * r / replicas;
    for (const int share : shares) stage.replicas.push_back({"", "", 1, {Rank{rank++}}, equal ? most : between(random, 1, 8), share});
    plan.stages.push_back(stage);
  }
  return plan;
}

/// A plan of columns, whose stages are dealt alike: random degrees, cuts, uneven shares, microbatches, schedule, recomputation, precision.
/// Without more than three columns there are no plans of five ranks.
inline plan::Plan random_plan(std::mt19937& random, int most_columns = 3) {
  const std::vector<std::string> names{"gpt2-tiny", "gpt2-mini", "opt-tiny", "opt-post-tiny", "gpt-neo-tiny", "llama-tiny"};
  const auto model = model::built_in(names[static_cast<std::size_t>(between(random, 0, 5))]);
  const int data = between(random, 1, most_columns), pipeline = between(random, 1, std::min(4, model.layers())),
            tensor = between(random, 1, 3);
  std::vector<int> cuts{0, model.layers()};
  std::vector<int> inner;
  for (int layer = 1; layer < model.layers(); ++layer) inner.push_back(layer);
  std::shuffle(inner.begin(), inner.end(), random);
  cuts.insert(cuts.end(), inner.begin(), inner.begin() + pipeline - 1);
  std::sort(cuts.begin(), cuts.end());
  const int microbatch = between(random, 1, 3);
  const int batch = data * microbatch * between(random, 1, 5) + between(random, 0, 2);
  auto plan = plan::even_plan(model, 8 * between(random, 1, 3), batch, between(random, 0, 1) ? Precision::bf16 : Precision::fp32, data,
                              pipeline, tensor, 1, plan::testing::any_schedule(random), cuts);
  std::vector<int> share(static_cast<std::size_t>(data), 1);
  for (int left = batch - data; left > 0; --left) ++share[static_cast<std::size_t>(between(random, 0, data - 1))];
  std::vector<int> quanta;
  for (int r = 0; r < data; ++r) quanta.push_back(between(random, 1, microbatch));
  plan.quantum = 1;
  for (auto& stage : plan.stages) {
    stage.recompute = static_cast<plan::Recompute>(between(random, 0, 2));
    for (std::size_t r = 0; r < stage.replicas.size(); ++r) {
      stage.replicas[r].sequences = share[r];
      stage.replicas[r].quanta = quanta[r];
    }
  }
  plan.sequence_parallel = between(random, 0, 1) == 1;
  if (plan.sequence_parallel && between(random, 0, 3) == 0) plan.length = between(random, 1, 5);  // pieces of unlike size, some empty
  return plan;
}

/// The same devices, each with several stages: the layers are cut anew. Plans of too few layers for that stay as they are.
inline plan::Plan in_chunks(plan::Plan plan, std::mt19937& random, int most_chunks = 3) {
  const int depth = static_cast<int>(plan.stages.size()), most = std::min(most_chunks, plan.model.layers() / depth);
  if (most < 2) return plan;
  plan.chunks = between(random, 2, most);
  plan.schedule = plan::ScheduleKind::interleaved;
  const auto own = plan.stages;
  plan.stages.clear();
  int layer = 0;
  for (const int layers : plan::testing::split(random, plan.model.layers(), depth * plan.chunks)) {
    plan::Stage stage = own[plan.stages.size() % own.size()];
    stage.first_layer = layer;
    stage.last_layer = layer += layers;
    stage.recompute = static_cast<plan::Recompute>(between(random, 0, 2));
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace flotilla::tests
