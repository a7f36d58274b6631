#include "variants.hpp"

#include <algorithm>
#include <optional>

namespace flotilla::search::pool {
namespace {

bool has_groups(const plan::Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const plan::Stage& stage) {
    return std::ranges::any_of(stage.replicas, [](const plan::Replica& replica) { return replica.tensor_parallel > 1; });
  });
}

/// Every stage's layers in two halves, the first halves before the second ones along the model.
std::optional<plan::Plan> in_two_chunks(plan::Plan plan) {
  const std::size_t stages = plan.stages.size();
  std::vector<plan::Stage> chunks;
  int layer = 0;
  for (const bool second : {false, true})
    for (std::size_t s = 0; s < stages; ++s) {
      plan::Stage chunk = plan.stages[s];
      const int layers = chunk.last_layer - chunk.first_layer;
      chunk.first_layer = layer;
      layer += second ? layers - layers / 2 : layers / 2;
      chunk.last_layer = layer;
      if (chunk.first_layer == chunk.last_layer) return std::nullopt;
      chunks.push_back(std::move(chunk));
    }
  plan.stages = std::move(chunks);
  plan.chunks = 2;
  plan.schedule = plan::ScheduleKind::interleaved;
  return plan;
}

}  // namespace

std::vector<plan::Plan> variants_of(const plan::Plan& plan) {
  std::vector<plan::Plan> out;
  std::vector<plan::Plan> bases{plan};
  if (has_groups(plan)) {
    plan::Plan parallel = plan;
    parallel.sequence_parallel = true;
    out.push_back(parallel);
    bases.push_back(std::move(parallel));
  }
  if (plan.stages.size() < 2) return out;
  for (const plan::Plan& base : bases) {
    plan::Plan other = base;
    other.schedule = base.schedule == plan::ScheduleKind::gpipe ? plan::ScheduleKind::one_f_one_b : plan::ScheduleKind::gpipe;
    out.push_back(std::move(other));
    plan::Plan split = base;
    split.schedule = plan::ScheduleKind::zero_bubble;
    out.push_back(std::move(split));
    if (auto chunked = in_two_chunks(base)) out.push_back(std::move(*chunked));
  }
  return out;
}

}  // namespace flotilla::search::pool
