#include "branch_and_bound.hpp"

#include <algorithm>

namespace flotilla::search::rules {
namespace {

constexpr double coarse_rounding = 1 - 1e-9;

}  // namespace

BranchAndBound::BranchAndBound(const FormulaProblem& p)
    : problem_{p}, value_{p}, subproblems_{subproblems_of(p)}, best_{p.request.alternatives}, most_work_{tuning::rules_steps} {
  for (const auto& subproblem : subproblems_) add_starts(*subproblem);
}

std::int64_t BranchAndBound::work() const {
  return work_ + considered() * tuning::rules_steps_of_a_plan * (1 + static_cast<std::int64_t>(problem_.entries.size()) / 8);
}

/// What was given up stays the bound: once there is a plan, not much more is worth it then, but a better plan.
void BranchAndBound::leave(double bound) {
  if (guessing_) return;
  least_ = std::min(least_, bound);
  if (bound < target() && !best_.plans().empty()) most_work_ = std::min(most_work_, 2 * work() + tuning::rules_steps_after_a_gap);
}

double BranchAndBound::target() const { return best_.value() * (1 - problem_.request.tolerance) * coarse_rounding; }

std::int64_t BranchAndBound::considered() const {
  std::int64_t sum = 0;
  for (const auto& subproblem : subproblems_) sum += subproblem->zone_assigner.considered();
  return sum;
}

/// Replicas beyond the least that need the same number of microbatches add nothing.
void BranchAndBound::add_starts(Subproblem& subproblem) {
  for (const Measures& measures : subproblem.measures) {
    if (measures.paces() == 0) continue;
    const int m = measures.sequences(), steps = (problem_.request.global_batch + m - 1) / m;
    const int most = subproblem.use == Subproblem::Use::isolated ? 1 : subproblem.problem.devices;
    if (const auto& fixed = problem_.request.constraints.data) {
      if (*fixed <= std::min(steps, most)) add_start(subproblem, measures, *fixed);
      continue;
    }
    for (int n = steps; n >= 1;) {
      const int replicas = (steps + n - 1) / n;
      if (replicas > most) break;
      add_start(subproblem, measures, replicas);
      n = (steps + replicas - 1) / replicas - 1;  // the most that need more replicas
    }
  }
}

void BranchAndBound::add_start(Subproblem& subproblem, const Measures& measures, int replicas) {
  const int at_once = measures.sequences() * replicas, microbatches = (problem_.request.global_batch + at_once - 1) / at_once;
  const First first = first_bound(subproblem.problem, measures, replicas, microbatches);
  if (first.bound == never) return;
  for (const bool by_rings : {false, true}) {
    if (by_rings && (subproblem.problem.regions == 1 || replicas == 1)) continue;
    starts_.push_back({&subproblem, &measures, replicas, microbatches, by_rings, first});
  }
}

void BranchAndBound::push_branch_nodes(int start) {
  const bool even = problem_.request.restrictions.even_layers;
  const First& first = starts_[at(start)].first;
  const Subproblem& subproblem = *starts_[at(start)].subproblem;
  const bool coarse = subproblem.problem.groups.size() >= tuning::rules_many_groups && !subproblem.problem.tiny;
  BranchNode branch_node;
  branch_node.above = first.pace * coarse_rounding;
  for (int blocks = even ? 0 : -1; blocks < (even ? problem_.tables.layers() : 0); ++blocks) {
    branch_node.blocks = blocks;
    push(first.bound, start, branch_node, coarse ? Grain::coarse : Grain::fine);
  }
}

/// The number of the least pace at which the devices can take the layers, `whole` units of every group or all devices of it.
int BranchAndBound::least_pace(const FormulaProblem& p, const Measures& m, int replicas, bool whole) {
  const double work = m.least_compute(p.tables.layers());
  const auto enough = [&](int j) {
    double room = 0;
    for (int g = 0; g < static_cast<int>(p.groups.size()); ++g) {
      const int count = p.usable(g, replicas);
      room += (whole ? count / replicas * replicas : count) * m.rate(g, j);
    }
    return room >= replicas * work * coarse_rounding;
  };
  int low = 0, high = m.paces();
  while (low < high) {
    const int middle = (low + high) / 2;
    if (enough(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// Stages of one kind take whole units: where there is one group, no others are.
BranchAndBound::First BranchAndBound::first_bound(const FormulaProblem& p, const Measures& m, int replicas, int microbatches) const {
  const double work = m.least_compute(p.tables.layers());
  const int low = least_pace(p, m, replicas, p.groups.size() == 1 && !p.tiny), likely = least_pace(p, m, replicas, true);
  double least = never;
  for (int j = low; j < m.paces(); ++j) {
    const double time = (microbatches - 1) * m.pace(j) + work + m.least_update();
    least = std::min(least, value_.least(time, replicas * work * m.price(j), 0));
    if (!value_.needs_prices()) break;
  }
  return {low < m.paces() ? m.pace(low) : never, likely < m.paces() ? m.pace(likely) : never, least};
}

PlanFamily& BranchAndBound::family(int start, Grain grain) {
  Start& s = starts_[at(start)];
  auto& family = s.families[static_cast<std::size_t>(grain)];
  if (!family)
    family = std::make_unique<PlanFamily>(s.subproblem->problem, *s.measures, s.subproblem->rings,
                                          PlanFamily::FamilyChoice{s.replicas, s.microbatches, s.first.likely_pace, s.by_rings, grain});
  return *family;
}

void BranchAndBound::push(double bound, int start, const BranchNode& branch_node, Grain grain) {
  queue_.push_back({bound, nodes_++, start, grain, branch_node});
  std::push_heap(queue_.begin(), queue_.end());
}

void BranchAndBound::run() {
  if (!problem_.tiny && !problem_.request.restrictions.even_layers && !told_to_stop()) {
    try_likely(true);
    try_likely(false);
  }
  const auto is_heuristic = [](const std::unique_ptr<Subproblem>& subproblem) { return subproblem->is_heuristic(); };
  const std::int64_t each = tuning::rules_steps_of_guessing / std::max<std::int64_t>(1, std::ranges::count_if(subproblems_, is_heuristic));
  guessing_ = true;
  for (const auto& subproblem : subproblems_) {
    if (!is_heuristic(subproblem)) continue;
    push_branch_nodes(*subproblem);
    drain(std::min(each, most_work_ - work()));
    queue_.clear();
  }
  guessing_ = false;
  for (const auto& subproblem : subproblems_)
    if (!is_heuristic(subproblem)) push_branch_nodes(*subproblem);
  drain(most_work_);
}

void BranchAndBound::push_branch_nodes(const Subproblem& subproblem) {
  for (int s = 0; s < static_cast<int>(starts_.size()); ++s)
    if (starts_[at(s)].subproblem == &subproblem) push_branch_nodes(s);
}

/// Until nothing promises more, or so much more work has been done.
void BranchAndBound::drain(std::int64_t more) {
  end_ = work() + more;
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const DpState node = queue_.back();
    queue_.pop_back();
    if (node.bound >= target()) return leave(node.bound);
    if (work() > std::min(most_work_, end_) || told_to_stop()) {
      stopped_ = !guessing_;
      return leave(node.bound);
    }
    open(node);
  }
}

void BranchAndBound::open(const DpState& node) {
  const PlanFamily& f = family(node.start, node.grain);
  const FormulaProblem& p = subproblem(node).problem;
  // What will be opened again, in parts or more closely, needs a bound only.
  const bool again = !p.tiny && (node.grain == Grain::coarse || node.branch_node.depth == Depth::any);
  const DpRelaxation relaxation{p, f, node.branch_node, value_, target(), again};
  work_ += relaxation.work();
  const double bound = std::max(node.bound, relaxation.bound());
  const auto path = bound < target() ? relaxation.path() : std::nullopt;
  if (bound >= target()) {
    ++pruned_;
    return leave(bound);
  }
  if (node.grain == Grain::coarse) return push(bound, node.start, node.branch_node);
  if (path && !p.tiny) try_shape(node.start, shape_of(f, *path, bound));
  if (bound >= target()) return leave(bound);
  if (node.branch_node.depth == Depth::any) return push_depths(bound, node);
  // Where the best way is no plan, mostly for memory, splitting does not help, and exact stages may.
  if (path && !p.tiny && value_.least(path->time(f.microbatches()), path->price, 0) < target() &&
      enumerate(node, f, relaxation, tuning::rules_steps_of_a_node, true))
    return;
  if (path && split(node, bound, relaxation, *path)) return;
  // What promises more goes first.
  if (!queue_.empty() && bound > queue_.front().bound * (1 + tuning::rules_narrow) && bound > node.bound)
    return push(bound, node.start, node.branch_node);
  enumerate(node, f, relaxation,
            std::min({tuning::rules_steps_at_once, most_work_ - work(), std::max(tuning::rules_steps_of_a_node, end_ - work())}), false);
}

void BranchAndBound::push_depths(double bound, const DpState& node) {
  BranchNode branch_node = node.branch_node;
  for (const Depth depth : {Depth::few, Depth::many}) {
    branch_node.depth = depth;
    push(bound, node.start, branch_node);
  }
}

/// In two at the pace, the reduction or the price, whichever the bound falls most short of.
bool BranchAndBound::split(const DpState& node, double bound, const DpRelaxation& relaxation, const RelaxedPath& path) {
  const int n = starts_[at(node.start)].microbatches;
  const double time = path.sum + (n - 1) * path.pace + path.reduction;
  const double by_pace = (n - 1) * (path.pace - path.mean_pace) / time, by_reduction = (path.reduction - path.mean_reduction) / time;
  const double by_price =
      value_.by_price() ? (time - relaxation.least_time()) * (path.price - relaxation.least_price()) / (time * path.price) : 0;
  if (!(time > 0) || std::max({by_pace, by_reduction, by_price}) < tuning::rules_narrow) return false;
  BranchNode low = node.branch_node, high = node.branch_node;
  if (by_price >= std::max(by_pace, by_reduction)) {
    low.price = high.above_price = (path.price + relaxation.least_price()) / 2;
    low.above_time = relaxation.least_time_below(low.price);
  } else if (by_pace >= by_reduction) {
    low.pace = high.above = (path.pace + path.mean_pace) / 2;
  } else {
    low.reduction = high.above_reduction = (path.reduction + path.mean_reduction) / 2;
  }
  push(bound, node.start, low);
  push(bound, node.start, high);
  return true;
}

/// All shapes of a node. `little`: false, and nothing is known of it, where that takes more; else what is left of it is given up.
bool BranchAndBound::enumerate(const DpState& node, const PlanFamily& f, const DpRelaxation& relaxation, std::int64_t steps, bool little) {
  const bool tiny = subproblem(node).problem.tiny;
  StageEnumerator add_stage{subproblem(node).problem, f, node.branch_node, value_, relaxation, steps};
  add_stage.must_beat(target());
  int in_vain = 0;
  double left = never;
  while (in_vain < (little ? tuning::rules_few_in_vain : tuning::rules_most_in_vain)) {
    const auto shape = add_stage.next(problem_.request.should_stop);
    if (!shape) break;
    const FormulaPlan found = subproblem(node).zone_assigner.best(*shape, best_.value());
    const bool better = best_.add(found);
    if (!tiny && found.value * coarse_rounding > shape->bound) left = std::min(left, shape->bound);
    in_vain = better || tiny ? 0 : in_vain + 1;
    add_stage.must_beat(target());
  }
  work_ += add_stage.work();
  pruned_ += add_stage.pruned();
  if (little && std::min(left, add_stage.least_open()) < target()) return false;
  leave(left);
  leave(add_stage.least_open());
  return true;
}

}  // namespace flotilla::search::rules
