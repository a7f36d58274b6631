#include "incumbents.hpp"

#include <algorithm>
#include <set>

namespace flotilla::search::even {
namespace {

/// What people call a stage by, whatever its layers and wherever it stands.
struct Shape {
  std::set<int> degrees;
  std::size_t replicas = 0;
  int microbatch = 0;
  bool operator==(const Shape&) const = default;
};

Shape shape_of(const plan::Stage& stage, int quantum) {
  Shape shape{{}, stage.replicas.size(), 0};
  for (const auto& replica : stage.replicas) {
    shape.degrees.insert(replica.tensor_parallel);
    shape.microbatch = std::max(shape.microbatch, replica.quanta * quantum);
  }
  return shape;
}

}  // namespace

Evaluated evaluate(const Problem& problem, plan::Plan plan) {
  auto forecast = problem.forecaster.forecast(plan);
  return evaluated(std::move(plan), std::move(forecast), problem.request.objective.goal,
                   [&](Rank rank) { return std::optional{problem.limit(rank)}; });
}

bool same_shape(const plan::Plan& a, const plan::Plan& b) {
  if (a.stages.size() != b.stages.size() || a.schedule != b.schedule || a.sequence_parallel != b.sequence_parallel ||
      a.shard_optimizer != b.shard_optimizer)
    return false;
  return std::ranges::equal(a.stages, b.stages, [&](const plan::Stage& x, const plan::Stage& y) {
    return x.recompute == y.recompute && shape_of(x, a.quantum) == shape_of(y, b.quantum);
  });
}

void Incumbents::insert(std::vector<Evaluated>& list, const Evaluated& ranked) const {
  const auto like = std::ranges::find_if(list, [&](const Evaluated& e) { return same_shape(e.plan, ranked.plan); });
  if (like != list.end()) {
    if (!better(ranked, *like)) return;
    list.erase(like);
  }
  list.insert(std::ranges::upper_bound(list, ranked, better), ranked);
  if (list.size() > kept_) list.pop_back();
}

void Incumbents::offer(Evaluated ranked) {
  insert(ranked.fits() ? fitting_ : missing_, ranked);
  if (ranked.fits()) return;
  const auto closer = [](const Evaluated& a, const Evaluated& b) {
    return a.excess() != b.excess() ? a.excess() < b.excess() : better(a, b);
  };
  if (!nearest_ || closer(ranked, *nearest_)) nearest_ = std::move(ranked);
}

}  // namespace flotilla::search::even
