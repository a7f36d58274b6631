#include <algorithm>
#include <set>

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

/// Where the work runs out before any plan is found: the best of its types one by one, which are soon searched. The bound is that of the
/// whole pool.
void take_best_of_one_type(PoolAnswer& a, const PoolRequest& request, const cluster::Profile& library, double least) {
  std::set<std::string> types;
  for (const PoolEntry& entry : request.pool) types.insert(entry.device_type);
  if (types.size() < 2) return;
  for (const std::string& type : types) {
    PoolRequest alone = request;
    alone.previous.reset();
    std::erase_if(alone.pool, [&](const PoolEntry& entry) { return entry.count == 0 || entry.device_type != type; });
    if (alone.pool.empty()) continue;
    PoolAnswer of_type = plan_by_rules(alone, library);
    if (!of_type.best || (a.best && a.best->value <= of_type.best->value)) continue;
    of_type.considered += a.considered, of_type.pruned += a.pruned;
    of_type.space = a.space;
    a = std::move(of_type);
    a.bound_gap = std::clamp(1 - std::min(least, a.best->value) / a.best->value, 0.0, 1.0);
    a.finished = false;
  }
}

}  // namespace

PoolAnswer plan_by_rules(const PoolRequest& request, const cluster::Profile& library) {
  const Problem problem{request, library};
  Search search{problem};
  search.run();
  PoolAnswer a = answer(problem, search);
  if (!a.best && !(request.should_stop && request.should_stop())) take_best_of_one_type(a, request, library, search.least());
  prefer_what_moves_least(a, request);
  if (!a.best) a.no_plan_reason = search.stopped() ? "stopped before any plan was found" : why_none(problem, library);
  return a;
}

}  // namespace flotilla::search
