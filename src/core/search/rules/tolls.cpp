// What of a box's stages can be part of a plan below the target, by sums that charge for units (Lagrangian relaxation): no plan takes more
// units than there are, so a plan's sum is at least the least that any way comes to with tolls, less the tolls of all units.
#include <algorithm>

#include "rest.hpp"

namespace flotilla::search::rules {
namespace {

constexpr int most_rounds = 5;
constexpr double beyond = 1.05;  // of the way to what is aimed at
constexpr int work_of_round = 6;

}  // namespace

double Family::toll(const Team& team, const Tolls& tolls) const {
  double sum = 0;
  for (std::size_t r = 0; r < resources_.size(); ++r) sum += tolls[r] * team.units[r];
  return sum;
}

/// Linear in the number of replicas of the one kind.
double Family::least_toll(const Look& look, const Tolls& tolls) const {
  if (look.other < 0) return toll(teams_[at(look.teams.front())], tolls);
  double mine = 0, theirs = 0;
  for (std::size_t r = 0; r < resources_.size(); ++r) {
    mine += tolls[r] * need(resources_[r], look.kind);
    theirs += tolls[r] * need(resources_[r], look.other);
  }
  int least = replicas_, most = 0;
  for (const int team : look.teams) least = std::min(least, teams_[at(team)].least), most = std::max(most, teams_[at(team)].most);
  const auto of = [&](int count) { return (count * mine + (replicas_ - count) * theirs) / replicas_; };
  return std::min(of(least), of(most));
}

/// Where stages of one kind stand for those of two, they do so for those with kinds that have not enough devices alone, too.
double Rest::toll_of(const Look& look, const Tolls& tolls, bool for_all) const {
  double least = never;
  if (!for_all) {
    for (const int team : look.teams) least = std::min(least, family_.toll(family_.teams()[at(team)], tolls));
    return least;
  }
  least = family_.least_toll(look, tolls);
  if (look.other >= 0) return least;
  for (const Look& mixed : family_.looks()) {
    if (mixed.other < 0 || (mixed.kind != look.kind && mixed.other != look.kind)) continue;
    if (alone_[at(mixed.kind == look.kind ? mixed.other : mixed.kind)] == 0) least = std::min(least, family_.least_toll(mixed, tolls));
  }
  return least;
}

/// The moves' costs with tolls; returns the tolls of all units.
double Rest::charges(const Tolls& tolls, bool for_all, std::vector<double>& costs) const {
  std::vector<double> by_look;
  by_look.reserve(family_.looks().size());
  for (const Look& look : family_.looks()) by_look.push_back(toll_of(look, tolls, for_all));
  costs.clear();
  for (const Move& move : moves_) costs.push_back(move.weighted + by_look[at(move.look)]);
  double all = 0;
  for (std::size_t r = 0; r < family_.resources(); ++r) all += tolls[r] * units(r, for_all);
  return all / rounding;
}

/// Changes tolls by what the best way takes more of each resource than there is, as far as would raise the sum by `by`; returns 0 where no
/// change raises it.
double Rest::step(const Sweep& sweep, double by, bool for_all, Tolls& tolls) const {
  Tolls over{};
  for (const int i : sweep.best(moves_)) {
    const Team& team = family_.teams()[at(moves_[at(i)].team)];
    for (std::size_t r = 0; r < family_.resources(); ++r) over[r] += team.units[r];
  }
  double square = 0;
  for (std::size_t r = 0; r < family_.resources(); ++r) {
    const double all = units(r, for_all);
    over[r] = all > 0 ? over[r] / all - 1 : 0;
    if (over[r] < 0 && tolls[r] <= 0) over[r] = 0;
    square += over[r] * over[r];
  }
  for (std::size_t r = 0; r < family_.resources() && square > 0; ++r)
    if (over[r] != 0) tolls[r] = std::max(0.0, tolls[r] + by * over[r] / square / units(r, for_all));
  return square;
}

/// Drops the moves of which no plan below the target can consist when units are charged; false when that leaves none. Tolls are looked for
/// along the subgradient. `for_all`: stages of one kind stand for those of two.
bool Rest::charge(double target, bool for_all) {
  const double most = value_.most_time(target, least_price_) - family_.measures().least_update();
  if (most == never || moves_.empty() || sides_ > 1) return true;  // over regions they do not pay
  Tolls& best = family_.last_tolls(static_cast<int>(box_.depth));
  Tolls tolls = best;
  Sweep sweep{nodes_, sides_, !few()};
  std::vector<double> costs;
  costs.reserve(moves_.size());
  double highest = -never, factor = beyond;
  for (int round = 0; round < most_rounds; ++round) {
    work_ += static_cast<std::int64_t>(moves_.size()) * work_of_round;
    const double all = charges(tolls, for_all, costs), sum = sweep.forward(moves_, costs) * rounding - all;
    if (sum > highest)
      highest = sum, best = tolls;
    else
      factor /= 2;
    if (highest > most) return false;
    if (step(sweep, factor * (most - sum), for_all, tolls) == 0) break;
  }
  const double all = charges(best, for_all, costs);
  sweep.forward(moves_, costs);
  sweep.backward(moves_, costs);
  keep(sweep, costs, most + all);
  return true;
}

}  // namespace flotilla::search::rules
