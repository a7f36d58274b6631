// What of a node's stages can be part of a plan below the target, by sums that charge for units (Lagrangian relaxation): no plan takes more
// units than there are, so a plan's sum is at least the least that any way comes to with multipliers, less the multipliers of all units.
#include <algorithm>

#include "dp_relaxation.hpp"

namespace flotilla::search::rules {
double PlanFamily::multiplier_cost(const StageGroup& stage_group, const Multipliers& multipliers) const {
  double sum = 0;
  for (std::size_t r = 0; r < resources_.size(); ++r) sum += multipliers[r] * stage_group.units[r];
  return sum;
}

/// Linear in the number of replicas of the one kind.
double PlanFamily::least_multiplier_cost(const StageType& stage_type, const Multipliers& multipliers) const {
  if (stage_type.other < 0) return multiplier_cost(stage_groups_[at(stage_type.stage_groups.front())], multipliers);
  double mine = 0, theirs = 0;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    mine += multipliers[r] * need(resources_[r], stage_type.kind);
    theirs += multipliers[r] * need(resources_[r], stage_type.other);
  }
  int least = replicas_, most = 0;
  for (const int stage_group : stage_type.stage_groups)
    least = std::min(least, stage_groups_[at(stage_group)].least), most = std::max(most, stage_groups_[at(stage_group)].most);
  const auto of = [&](int count) { return (count * mine + (replicas_ - count) * theirs) / replicas_; };
  return std::min(of(least), of(most));
}

/// Where stages of one kind stand for those of two, they do so for those with kinds that have not enough devices alone, too.
double DpRelaxation::multiplier_cost_of(const StageType& stage_type, const Multipliers& multipliers, bool for_all) const {
  double least = never;
  if (!for_all) {
    for (const int stage_group : stage_type.stage_groups)
      least = std::min(least, family_.multiplier_cost(family_.stage_groups()[at(stage_group)], multipliers));
    return least;
  }
  least = family_.least_multiplier_cost(stage_type, multipliers);
  if (stage_type.other >= 0) return least;
  for (const StageType& mixed : family_.stage_types()) {
    if (mixed.other < 0 || (mixed.kind != stage_type.kind && mixed.other != stage_type.kind)) continue;
    if (alone_[at(mixed.kind == stage_type.kind ? mixed.other : mixed.kind)] == 0)
      least = std::min(least, family_.least_multiplier_cost(mixed, multipliers));
  }
  return least;
}

/// The moves' costs with multipliers; returns the multipliers of all units.
double DpRelaxation::charges(const Multipliers& multipliers, bool for_all, std::vector<double>& costs) const {
  std::vector<double> by_look;
  by_look.reserve(family_.stage_types().size());
  for (const StageType& stage_type : family_.stage_types()) by_look.push_back(multiplier_cost_of(stage_type, multipliers, for_all));
  costs.clear();
  for (const StageMove& move : moves_) costs.push_back(move.weighted + by_look[at(move.stage_type)]);
  double all = 0;
  for (std::size_t r = 0; r < family_.resources(); ++r) all += multipliers[r] * units(r, for_all);
  return all / rounding;
}

/// Changes multipliers by what the best way takes more of each resource than there is, as far as would raise the sum by `by`; returns 0
/// where no change raises it.
double DpRelaxation::step(const PathSweep& sweep, double by, bool for_all, Multipliers& multipliers) const {
  Multipliers over{};
  for (const int i : sweep.best(moves_)) {
    const StageGroup& stage_group = family_.stage_groups()[at(moves_[at(i)].stage_group)];
    for (std::size_t r = 0; r < family_.resources(); ++r) over[r] += stage_group.units[r];
  }
  double square = 0;
  for (std::size_t r = 0; r < family_.resources(); ++r) {
    const double all = units(r, for_all);
    over[r] = all > 0 ? over[r] / all - 1 : 0;
    if (over[r] < 0 && multipliers[r] <= 0) over[r] = 0;
    square += over[r] * over[r];
  }
  for (std::size_t r = 0; r < family_.resources() && square > 0; ++r)
    if (over[r] != 0) multipliers[r] = std::max(0.0, multipliers[r] + by * over[r] / square / units(r, for_all));
  return square;
}

/// Drops the moves of which no plan below the target can consist when units are charged; false when that leaves none. Tolls are looked for
/// along the subgradient. `for_all`: stages of one kind stand for those of two.
bool DpRelaxation::charge(double target, bool for_all) {
  const double most = value_.most_time(target, least_price_) - family_.measures().least_update();
  if (most == never || moves_.empty() || sides_ > 1) return true;  // over regions they do not pay
  Multipliers& best = family_.last_multipliers(static_cast<int>(branch_node_.depth));
  Multipliers multipliers = best;
  PathSweep sweep{nodes_, sides_, !few()};
  std::vector<double> costs;
  costs.reserve(moves_.size());
  double highest = -never, factor = tuning::rules_beyond;
  for (int round = 0; round < tuning::rules_rounds_of_multipliers; ++round) {
    work_ += static_cast<std::int64_t>(moves_.size()) * tuning::rules_steps_of_a_round;
    const double all = charges(multipliers, for_all, costs), sum = sweep.forward(moves_, costs) * rounding - all;
    if (sum > highest)
      highest = sum, best = multipliers;
    else
      factor /= 2;
    if (highest > most) return false;
    if (step(sweep, factor * (most - sum), for_all, multipliers) == 0) break;
  }
  const double all = charges(best, for_all, costs);
  sweep.forward(moves_, costs);
  sweep.backward(moves_, costs);
  keep(sweep, costs, most + all);
  return true;
}

}  // namespace flotilla::search::rules
