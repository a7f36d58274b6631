#include <algorithm>

#include "../replan.hpp"
#include "outcome.hpp"
#include "search.hpp"

namespace flotilla::search {
namespace {

using namespace rules;

PoolAnswer answer(const Problem& p, const Search& search) {
  PoolAnswer a;
  a.considered = search.considered();
  a.pruned = search.pruned();
  a.finished = search.finished();
  a.space = space_of(p);
  if (search.plans().empty()) return a;
  const Candidate& best = search.plans().front();
  a.best = pooled(p, best);
  a.binding = binding(p, best);
  a.bound_gap = std::clamp(1 - std::min(search.least(), best.value) / best.value, 0.0, 1.0);
  for (std::size_t i = 1; i < search.plans().size(); ++i) {
    a.alternatives.push_back(pooled(p, search.plans()[i]));
    a.alternatives.back().reason = why_lost(p, search.plans()[i], best);
  }
  return a;
}

}  // namespace

PoolAnswer plan_by_rules(const PoolRequest& request, const cluster::Profile& library) {
  const Problem problem{request, library};
  Search search{problem};
  search.run();
  PoolAnswer a = answer(problem, search);
  prefer_what_moves_least(a, request);
  if (!a.best) a.no_plan_reason = search.stopped() ? "stopped before any plan was found" : why_none(problem, library);
  return a;
}

}  // namespace flotilla::search
