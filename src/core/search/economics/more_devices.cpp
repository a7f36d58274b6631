#include "flotilla/search/economics.hpp"
#include "places.hpp"

namespace flotilla::search {

std::vector<OneMoreNode> with_one_more_node(const PlanRequest& request, const simulate::Forecaster& forecaster, const RankedPlan& best,
                                            std::size_t most) {
  std::vector<OneMoreNode> all;
  for (const auto& use : economics::uses_of(request.pool, forecaster.profile(), best.plan)) {
    if (all.size() == most || (request.should_stop && request.should_stop())) break;
    PlanRequest larger = request;
    const PoolEntry node{use.device_type, use.zone, use.per_node, use.per_node};
    larger.pool.push_back(node);
    larger.previous = best.plan;  // no answer is worse than what a smaller pool has
    larger.near_best = 0;
    larger.wants_proof = false;
    larger.alternatives = 0;
    auto answer = plan(larger, forecaster);
    all.push_back({node, answer.best && answer.best->value < best.value ? std::move(*answer.best) : best});
  }
  return all;
}

}  // namespace flotilla::search
