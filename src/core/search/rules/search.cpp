#include "search.hpp"

#include <algorithm>

namespace flotilla::search::rules {
namespace {

constexpr double coarse_rounding = 1 - 1e-9;
constexpr double narrow = 1e-3;                               // of the value: a box that promises no more than this is enumerated
constexpr std::int64_t little_steps = 5'000'000;              // for a box that could still be halved
constexpr int few_in_vain = 10, most_in_vain = 300;           // shapes of a box that are realised without a better plan coming of it
constexpr std::int64_t most_at_once = Search::most_work / 8;  // in one box
constexpr std::int64_t most_guessing = Search::most_work / 8;
constexpr std::int64_t work_of_plan = 2'000, much_in_vain = 200'000'000;

}  // namespace

Search::Search(const Problem& p) : problem_{p}, value_{p}, scopes_{scopes_of(p)}, best_{p.request.alternatives}, most_work_{most_work} {
  for (const auto& scope : scopes_) add_starts(*scope);
}

std::int64_t Search::work() const {
  return work_ + considered() * work_of_plan * (1 + static_cast<std::int64_t>(problem_.entries.size()) / 8);
}

/// What was given up stays the bound: once there is a plan, not much more is worth it then, but a better plan.
void Search::leave(double bound) {
  if (guessing_) return;
  least_ = std::min(least_, bound);
  if (bound < target() && !best_.plans().empty()) most_work_ = std::min(most_work_, 2 * work() + much_in_vain);
}

double Search::target() const { return best_.value() * (1 - problem_.request.tolerance) * coarse_rounding; }

std::int64_t Search::considered() const {
  std::int64_t sum = 0;
  for (const auto& scope : scopes_) sum += scope->realiser.considered();
  return sum;
}

/// Replicas beyond the least that need the same number of microbatches add nothing.
void Search::add_starts(Scope& scope) {
  for (const Measures& measures : scope.measures) {
    if (measures.paces() == 0) continue;
    const int m = measures.sequences(), steps = (problem_.request.global_batch + m - 1) / m;
    for (int n = steps; n >= 1;) {
      const int replicas = (steps + n - 1) / n;
      if (replicas > (scope.use == Scope::Use::lone ? 1 : scope.problem.devices)) break;
      add_start(scope, measures, replicas);
      n = (steps + replicas - 1) / replicas - 1;  // the most that need more replicas
    }
  }
}

void Search::add_start(Scope& scope, const Measures& measures, int replicas) {
  const int at_once = measures.sequences() * replicas, microbatches = (problem_.request.global_batch + at_once - 1) / at_once;
  const First first = first_bound(scope.problem, measures, replicas, microbatches);
  if (first.bound == never) return;
  for (const bool by_rings : {false, true}) {
    if (by_rings && (scope.problem.regions == 1 || replicas == 1)) continue;
    starts_.push_back({&scope, &measures, replicas, microbatches, by_rings, first});
  }
}

void Search::push_boxes(int start) {
  const bool even = problem_.request.restrictions.even_layers;
  const First& first = starts_[at(start)].first;
  const Scope& scope = *starts_[at(start)].scope;
  const bool coarse = scope.problem.groups.size() >= many_groups && !scope.problem.tiny;
  Box box;
  box.above = first.pace * coarse_rounding;
  for (int blocks = even ? 0 : -1; blocks < (even ? problem_.tables.layers() : 0); ++blocks) {
    box.blocks = blocks;
    push(first.bound, start, box, coarse ? Grain::coarse : Grain::fine);
  }
}

/// The number of the least pace at which the devices can take the layers, `whole` units of every group or all devices of it.
int Search::least_pace(const Problem& p, const Measures& m, int replicas, bool whole) {
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
Search::First Search::first_bound(const Problem& p, const Measures& m, int replicas, int microbatches) const {
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

Family& Search::family(int start, Grain grain) {
  Start& s = starts_[at(start)];
  auto& family = s.families[static_cast<std::size_t>(grain)];
  if (!family)
    family = std::make_unique<Family>(s.scope->problem, *s.measures, s.scope->rings,
                                      Family::Choice{s.replicas, s.microbatches, s.first.likely_pace, s.by_rings, grain});
  return *family;
}

void Search::push(double bound, int start, const Box& box, Grain grain) {
  queue_.push_back({bound, nodes_++, start, grain, box});
  std::push_heap(queue_.begin(), queue_.end());
}

void Search::run() {
  if (!problem_.tiny && !problem_.request.restrictions.even_layers && !told_to_stop()) {
    try_likely(true);
    try_likely(false);
  }
  const auto is_guess = [](const std::unique_ptr<Scope>& scope) { return scope->is_guess(); };
  const std::int64_t each = most_guessing / std::max<std::int64_t>(1, std::ranges::count_if(scopes_, is_guess));
  guessing_ = true;
  for (const auto& scope : scopes_) {
    if (!is_guess(scope)) continue;
    push_boxes(*scope);
    drain(std::min(each, most_work_ - work()));
    queue_.clear();
  }
  guessing_ = false;
  for (const auto& scope : scopes_)
    if (!is_guess(scope)) push_boxes(*scope);
  drain(most_work_);
}

void Search::push_boxes(const Scope& scope) {
  for (int s = 0; s < static_cast<int>(starts_.size()); ++s)
    if (starts_[at(s)].scope == &scope) push_boxes(s);
}

/// Until nothing promises more, or so much more work has been done.
void Search::drain(std::int64_t more) {
  end_ = work() + more;
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const Node node = queue_.back();
    queue_.pop_back();
    if (node.bound >= target()) return leave(node.bound);
    if (work() > std::min(most_work_, end_) || told_to_stop()) {
      stopped_ = !guessing_;
      return leave(node.bound);
    }
    open(node);
  }
}

void Search::open(const Node& node) {
  const Family& f = family(node.start, node.grain);
  const Problem& p = scope(node).problem;
  // What will be opened again, in parts or more closely, needs a bound only.
  const bool again = !p.tiny && (node.grain == Grain::coarse || node.box.depth == Depth::any);
  const Rest rest{p, f, node.box, value_, target(), again};
  work_ += rest.work();
  const double bound = std::max(node.bound, rest.bound());
  const auto path = bound < target() ? rest.path() : std::nullopt;
  if (bound >= target()) {
    ++pruned_;
    return leave(bound);
  }
  if (node.grain == Grain::coarse) return push(bound, node.start, node.box);
  if (path && !p.tiny) try_shape(node.start, shape_of(f, *path, bound));
  if (bound >= target()) return leave(bound);
  if (node.box.depth == Depth::any) return push_depths(bound, node);
  // Where the best way is no plan, mostly for memory, splitting does not help, and exact stages may.
  if (path && !p.tiny && value_.least(path->time(f.microbatches()), path->price, 0) < target() &&
      enumerate(node, f, rest, little_steps, true))
    return;
  if (path && split(node, bound, rest, *path)) return;
  // What promises more goes first.
  if (!queue_.empty() && bound > queue_.front().bound * (1 + narrow) && bound > node.bound) return push(bound, node.start, node.box);
  enumerate(node, f, rest, std::min({most_at_once, most_work_ - work(), std::max(little_steps, end_ - work())}), false);
}

void Search::push_depths(double bound, const Node& node) {
  Box box = node.box;
  for (const Depth depth : {Depth::few, Depth::many}) {
    box.depth = depth;
    push(bound, node.start, box);
  }
}

/// In two at the pace, the reduction or the price, whichever the bound falls most short of.
bool Search::split(const Node& node, double bound, const Rest& rest, const Path& path) {
  const int n = starts_[at(node.start)].microbatches;
  const double time = path.sum + (n - 1) * path.pace + path.reduction;
  const double by_pace = (n - 1) * (path.pace - path.mean_pace) / time, by_reduction = (path.reduction - path.mean_reduction) / time;
  const double by_price = value_.by_price() ? (time - rest.least_time()) * (path.price - rest.least_price()) / (time * path.price) : 0;
  if (!(time > 0) || std::max({by_pace, by_reduction, by_price}) < narrow) return false;
  Box low = node.box, high = node.box;
  if (by_price >= std::max(by_pace, by_reduction)) {
    low.price = high.above_price = (path.price + rest.least_price()) / 2;
    low.above_time = rest.least_time_below(low.price);
  } else if (by_pace >= by_reduction) {
    low.pace = high.above = (path.pace + path.mean_pace) / 2;
  } else {
    low.reduction = high.above_reduction = (path.reduction + path.mean_reduction) / 2;
  }
  push(bound, node.start, low);
  push(bound, node.start, high);
  return true;
}

/// All shapes of a box. `little`: false, and nothing is known of it, where that takes more; else what is left of it is given up.
bool Search::enumerate(const Node& node, const Family& f, const Rest& rest, std::int64_t steps, bool little) {
  const bool tiny = scope(node).problem.tiny;
  Lay lay{scope(node).problem, f, node.box, value_, rest, steps};
  lay.must_beat(target());
  int in_vain = 0;
  double left = never;
  while (in_vain < (little ? few_in_vain : most_in_vain)) {
    const auto shape = lay.next(problem_.request.should_stop);
    if (!shape) break;
    const Candidate found = scope(node).realiser.best(*shape, best_.value());
    const bool better = best_.add(found);
    if (!tiny && found.value * coarse_rounding > shape->bound) left = std::min(left, shape->bound);
    in_vain = better || tiny ? 0 : in_vain + 1;
    lay.must_beat(target());
  }
  work_ += lay.work();
  pruned_ += lay.pruned();
  if (little && std::min(left, lay.least_open()) < target()) return false;
  leave(left);
  leave(lay.least_open());
  return true;
}

}  // namespace flotilla::search::rules
