#include "best_plans.hpp"

#include <algorithm>

namespace flotilla::search::rules {
namespace {

bool same_plan(const sailor::SailorPlan& x, const sailor::SailorPlan& y) {
  const auto same_run = [](const sailor::SailorRun& a, const sailor::SailorRun& b) { return a.kind == b.kind && a.count == b.count; };
  return x.sequences == y.sequences && std::ranges::equal(x.stages, y.stages, [&](const auto& a, const auto& b) {
           return a.first_layer == b.first_layer && std::ranges::equal(a.replicas, b.replicas, same_run);
         });
}

}  // namespace

bool BestPlans::add(const FormulaPlan& c) {
  if (c.value >= never) return false;
  const auto same = [&](const FormulaPlan& known) { return same_plan(known.plan, c.plan); };
  if (std::ranges::any_of(plans_, same)) return false;
  const auto place = std::ranges::find_if(plans_, [&](const FormulaPlan& known) { return is_better(c, known); });
  const bool first = place == plans_.begin();
  plans_.insert(place, c);
  if (plans_.size() > most_) plans_.pop_back();
  return first;
}

}  // namespace flotilla::search::rules
