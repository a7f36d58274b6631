// Good plans before there is a proof.
#include <algorithm>

#include "branch_and_bound.hpp"

namespace flotilla::search::rules {
/// What the value may come to: stages as even as the least pace, which bounds do not promise; or as a slower one that costs less.
BranchAndBound::Likely BranchAndBound::likely(const Start& s) const {
  const FormulaProblem& p = s.subproblem->problem;
  const double work = s.measures->least_compute(p.tables.layers());
  const auto time = [&](double pace) {
    const double weights = p.weights->bytes.back() * (work > 0 ? std::min(1.0, pace / work) : 1) / tuning::rules_likely_shares;
    const double ring = s.replicas < 2 ? 0 : s.subproblem->rings.least_of_all(s.replicas, weights);
    return (s.microbatches - 1) * pace + work + ring;
  };
  if (!problem_.by_price()) return {time(s.first.likely_pace), time(s.first.likely_pace)};
  Likely best{never, 0};
  for (int j = 0; j < s.measures->paces(); j += 1 + s.measures->paces() / tuning::rules_paces)
    if (const double seconds = time(s.measures->pace(j)); s.measures->pace(j) >= s.first.likely_pace) {
      const double value = value_.least(seconds, s.replicas * work * s.measures->price(j), 0);
      if (value < best.value) best = {value, seconds};
    }
  return best;
}

/// A good plan early excludes more.
void BranchAndBound::try_likely(bool heuristic) {
  std::vector<int> all;
  for (int s = 0; s < static_cast<int>(starts_.size()); ++s) {
    const Start& start = starts_[at(s)];
    const bool asked = start.subproblem->use != Subproblem::Use::heuristic_of_type && heuristic == start.subproblem->is_heuristic();
    if (asked && !start.by_rings && start.first.likely_pace < never) all.push_back(s);
  }
  std::vector<std::pair<double, int>> order;
  for (std::size_t i = 0; i < all.size(); i += 1 + all.size() / tuning::rules_starts_looked_at)
    order.emplace_back(likely(starts_[at(all[i])]).value, all[i]);
  if (order.empty()) return;
  std::ranges::sort(order);
  std::vector<int> chosen;
  const auto choose = [&](int s) {
    if (std::ranges::find(chosen, s) == chosen.end()) chosen.push_back(s);
  };
  // The likeliest, and other microbatches with as many replicas: these fit the devices.
  for (std::size_t i = 0; i < std::min(order.size(), tuning::rules_likely_starts); ++i) {
    choose(order[i].second);
    for (const auto& [value, s] : order)
      if (starts_[at(s)].replicas == starts_[at(order[i].second)].replicas) choose(s);
  }
  // Where proofs take long, more of them.
  const FormulaProblem& first = subproblems_.front()->problem;
  const std::size_t more = first.groups.size() < tuning::rules_many_groups && !first.by_price() ? 0 : tuning::rules_more_likely_starts;
  for (std::size_t i = tuning::rules_likely_starts; i < std::min(order.size(), tuning::rules_likely_starts + more); ++i)
    choose(order[i].second);
  // What is much worse than the likeliest need not be looked at, as long as something is found.
  const double hope = order.empty() ? never : order.front().first * tuning::rules_hopeful;
  for (const int s : chosen)
    if (work() < tuning::rules_steps / 6 && !told_to_stop()) try_start(s, std::min(hope, target()));
  for (const int s : chosen)
    if (best_.plans().empty() && work() < tuning::rules_steps / 3 && !told_to_stop()) try_start(s, target());
}

void BranchAndBound::try_start(int start, double below) {
  BranchNode branch_node;
  // Not a bound: the weight that devices' prices get.
  if (problem_.by_price()) branch_node.above_time = likely(starts_[at(start)]).time;
  const FormulaProblem& p = starts_[at(start)].subproblem->problem;
  const PlanFamily& f = family(start, p.groups.size() > 1 ? Grain::plain : Grain::fine);
  for (const Depth depth : {Depth::few, Depth::many}) {
    branch_node.depth = depth;
    const DpRelaxation relaxation{p, f, branch_node, value_, std::min(below, target())};
    work_ += relaxation.work();
    const auto path = relaxation.bound() < std::min(below, target()) ? relaxation.path() : std::nullopt;
    if (!path || try_shape(start, shape_of(f, *path, relaxation.bound()))) continue;
    // What is best by these sums does not fit in memory.
    StageEnumerator add_stage{p, f, branch_node, value_, relaxation, tuning::rules_steps_of_a_start};
    add_stage.must_beat(std::min(below, target()));
    if (const auto shape = add_stage.next(problem_.request.should_stop)) try_shape(start, *shape);
    work_ += add_stage.work();
  }
}

/// False when no plan comes of it.
bool BranchAndBound::try_shape(int start, const StageShape& shape) {
  Subproblem& subproblem = *starts_[at(start)].subproblem;
  const FormulaPlan found = subproblem.zone_assigner.best(shape, best_.value());
  best_.add(found);
  if (!problem_.request.restrictions.even_layers && found.value < best_.value() * tuning::rules_worth_moving)
    best_.add(subproblem.zone_assigner.moved(found));
  return found.value < never;
}

}  // namespace flotilla::search::rules
