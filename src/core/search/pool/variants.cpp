#include "variants.hpp"

#include <algorithm>

#include "flotilla/search/constraints.hpp"

namespace flotilla::search::pool {
namespace {

bool has_groups(const plan::Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const plan::Stage& stage) {
    return std::ranges::any_of(stage.replicas, [](const plan::Replica& replica) { return replica.tensor_parallel > 1; });
  });
}

}  // namespace

std::vector<plan::Plan> variants_of(const plan::Plan& plan) {
  if (plan.chunks > 1) return {};
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
    if (auto chunked = in_chunks(base, 2)) out.push_back(std::move(*chunked));
  }
  return out;
}

}  // namespace flotilla::search::pool
