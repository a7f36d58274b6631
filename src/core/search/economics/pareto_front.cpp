#include <algorithm>
#include <cmath>

#include "flotilla/base/error.hpp"
#include "flotilla/search/economics.hpp"

namespace flotilla::search {
namespace {

constexpr double nothing = 1e-4;      // relative: what makes no difference to a reader
constexpr int asked_for_beside = 20;  // runner-up plans of each search that join the front
constexpr int budgets = 4;            // between the cheapest plan's cost and the fastest one's

bool dominates(const RankedPlan& a, const RankedPlan& b) {
  return a.iteration.value <= b.iteration.value * (1 + nothing) && *a.usd <= *b.usd * (1 + nothing);
}

class Front {
 public:
  void add(const PlanAnswer& answer) {
    if (answer.best) add(*answer.best);
    for (const RankedPlan& plan : answer.alternatives) add(plan);
  }

  /// The fastest within a budget; nullptr: none is known.
  const RankedPlan* within(double usd) const {
    for (const RankedPlan& plan : plans_)
      if (*plan.usd <= usd) return &plan;
    return nullptr;
  }

  /// The fastest and the cheapest always; of the others those that stand farthest apart.
  std::vector<RankedPlan> thinned(std::size_t points) const {
    std::vector<RankedPlan> out = plans_;
    while (out.size() > std::max<std::size_t>(2, points)) {
      std::size_t least = 1;
      const auto gap = [&](std::size_t i) { return std::log(*out[i - 1].usd / *out[i + 1].usd); };
      for (std::size_t i = 2; i + 1 < out.size(); ++i)
        if (gap(i) < gap(least)) least = i;
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(least));
    }
    return out;
  }

  bool empty() const { return plans_.empty(); }
  const RankedPlan& fastest() const { return plans_.front(); }
  const RankedPlan& cheapest() const { return plans_.back(); }

 private:
  void add(const RankedPlan& plan) {
    if (!plan.usd || std::ranges::any_of(plans_, [&](const RankedPlan& known) { return dominates(known, plan); })) return;
    std::erase_if(plans_, [&](const RankedPlan& known) { return dominates(plan, known); });
    const auto place = std::ranges::upper_bound(plans_, plan.iteration, {}, &RankedPlan::iteration);
    plans_.insert(place, plan)->reason.clear();
  }

  std::vector<RankedPlan> plans_;  ///< the fastest first
};

void require_prices(const PlanRequest& request, const cluster::Profile& profile) {
  for (const PoolEntry& entry : request.pool)
    FLOTILLA_REQUIRE(entry.count == 0 || cluster::usd_per_hour(profile, entry.device_type, entry.zone) > 0, ErrorKind::bad_input,
                     "time against cost needs prices, and no figure is known for the price of ", entry.device_type);
}

}  // namespace

std::vector<RankedPlan> pareto_front(const PlanRequest& request, const simulate::Forecaster& forecaster, const PlanAnswer& answer,
                                     std::size_t points) {
  require_prices(request, forecaster.profile());
  PlanRequest asked = request;
  asked.alternatives = asked_for_beside;
  asked.wants_proof = false;
  asked.previous.reset();
  Front front;
  if (answer.best && request.objective.limits == Limits{}) front.add(answer);
  const auto search = [&](Goal goal, std::optional<double> budget) {
    PlanRequest one = asked;
    one.objective.goal = goal;
    if (budget) one.objective.limits.usd_per_iteration = budget;
    if (const auto* known = budget ? front.within(*budget) : nullptr) one.previous = known->plan, one.near_best = 0;
    front.add(plan(one, forecaster));
  };
  search(Goal::throughput, request.objective.limits.usd_per_iteration);
  search(Goal::cost, request.objective.limits.usd_per_iteration);
  if (front.empty()) return {};
  const double most = *front.fastest().usd, least = *front.cheapest().usd;
  for (int i = budgets; i >= 1 && most > least * (1 + nothing); --i)
    search(Goal::throughput, least * std::pow(most / least, static_cast<double>(i) / (budgets + 1)));
  return front.thinned(points);
}

}  // namespace flotilla::search
