#include "search.hpp"

#include <algorithm>

namespace flotilla::search::rules {
namespace {

constexpr double rounding = 1 - 1e-9;
constexpr double likely_shares = 2;  // of the gradients, by tensor parallelism
constexpr std::size_t most_likely = 4, most_more_likely = 40;
constexpr int paces_looked_at = 60;
constexpr double hopeful = 1.4;  // times the likeliest value
constexpr std::int64_t few_steps = 3'000'000;
constexpr double worth_moving = 1.1;    // times the best value
constexpr std::size_t many_groups = 3;  // so many are first looked at together
constexpr double narrow = 1e-3;         // of the value: a box that promises no more than this is enumerated
constexpr int most_in_vain = 300;       // shapes of a box that are realised without a better plan coming of it
// Steps of work, about nanoseconds: no clock decides.
constexpr std::int64_t most_work = 2'000'000'000;
constexpr std::int64_t most_at_once = most_work / 8;  // in one box
constexpr std::int64_t work_of_plan = 2'000, much_in_vain = 100'000'000;

}  // namespace

namespace {

bool same_plan(const simulate::SailorPlan& x, const simulate::SailorPlan& y) {
  const auto same_run = [](const simulate::SailorRun& a, const simulate::SailorRun& b) { return a.kind == b.kind && a.count == b.count; };
  return x.sequences == y.sequences && std::ranges::equal(x.stages, y.stages, [&](const auto& a, const auto& b) {
           return a.first_layer == b.first_layer && std::ranges::equal(a.replicas, b.replicas, same_run);
         });
}

}  // namespace

bool Best::add(const Candidate& c) {
  if (c.value >= never) return false;
  const auto same = [&](const Candidate& known) { return same_plan(known.plan, c.plan); };
  if (std::ranges::any_of(plans_, same)) return false;
  const auto place = std::ranges::find_if(plans_, [&](const Candidate& known) { return is_better(c, known); });
  const bool first = place == plans_.begin();
  plans_.insert(place, c);
  if (plans_.size() > most_) plans_.pop_back();
  return first;
}

Search::Search(const Problem& p) : problem_{p}, value_{p}, scopes_{scopes_of(p)}, best_{p.request.alternatives}, most_work_{most_work} {
  for (const auto& scope : scopes_) add_starts(*scope);
}

std::int64_t Search::work() const {
  return work_ + considered() * work_of_plan * (1 + static_cast<std::int64_t>(problem_.entries.size()) / 8);
}

/// What was given up stays the bound: not much more is worth it then, but a better plan.
void Search::leave(double bound) {
  least_ = std::min(least_, bound);
  if (bound < target()) most_work_ = std::min(most_work_, 2 * work() + much_in_vain);
}

double Search::target() const { return best_.value() * (1 - problem_.request.tolerance) * rounding; }

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
    for (int n = steps, before = 0; n >= 1; --n) {
      const int replicas = (steps + n - 1) / n;
      if (replicas == before || replicas > scope.problem.devices) continue;
      before = replicas;
      add_start(scope, measures, replicas);
    }
  }
}

void Search::add_start(Scope& scope, const Measures& measures, int replicas) {
  const int at_once = measures.sequences() * replicas, microbatches = (problem_.request.global_batch + at_once - 1) / at_once;
  const First first = first_bound(scope.problem, measures, replicas, microbatches);
  if (first.bound == never) return;
  for (const bool by_rings : {false, true}) {
    if (by_rings && (scope.problem.regions == 1 || replicas == 1)) continue;
    starts_.push_back({&scope, &measures, replicas, microbatches, by_rings, first.likely_pace});
    push_boxes(static_cast<int>(starts_.size()) - 1, first);
  }
}

void Search::push_boxes(int start, const First& first) {
  const bool even = problem_.request.restrictions.even_layers;
  const Scope& scope = *starts_[at(start)].scope;
  const bool coarse = scope.problem.groups.size() >= many_groups && !scope.problem.tiny;
  Box box;
  box.above = first.pace * rounding;
  for (const bool deep : {false, true})
    for (int blocks = even ? 0 : -1; blocks < (even ? problem_.tables.layers() : 0); ++blocks) {
      box.deep = deep;
      box.blocks = blocks;
      push(first.bound, start, box, coarse ? Grain::coarse : Grain::fine);
    }
}

/// The number of the least pace at which the devices can take the layers, `whole` units of every group or all devices of it.
int Search::least_pace(const Problem& p, const Measures& m, int replicas, bool whole) {
  const double work = m.least_compute(p.tables.layers());
  const auto enough = [&](int j) {
    double room = 0;
    for (std::size_t g = 0; g < p.groups.size(); ++g)
      room += (whole ? p.groups[g].count / replicas * replicas : p.groups[g].count) * m.rate(static_cast<int>(g), j);
    return room >= replicas * work * rounding;
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
                                      Family::Choice{s.replicas, s.microbatches, s.likely_pace, s.by_rings, grain});
  return *family;
}

void Search::push(double bound, int start, const Box& box, Grain grain) {
  queue_.push_back({bound, nodes_++, start, grain, box});
  std::push_heap(queue_.begin(), queue_.end());
}

/// What the value may come to: stages as even as the least pace, which bounds do not promise; or as a slower one that costs less.
Search::Likely Search::likely(const Start& s) const {
  const Problem& p = s.scope->problem;
  const double work = s.measures->least_compute(p.tables.layers());
  const auto time = [&](double pace) {
    const double weights = p.weights->bytes.back() * std::min(1.0, pace / work) / likely_shares;
    const double ring = s.replicas < 2 ? 0 : s.scope->rings.least_of_all(s.replicas, weights);
    return (s.microbatches - 1) * pace + work + ring;
  };
  if (!problem_.by_price()) return {time(s.likely_pace), time(s.likely_pace)};
  Likely best{never, 0};
  for (int j = 0; j < s.measures->paces(); j += 1 + s.measures->paces() / paces_looked_at)
    if (const double seconds = time(s.measures->pace(j)); s.measures->pace(j) >= s.likely_pace) {
      const double value = value_.least(seconds, s.replicas * work * s.measures->price(j), 0);
      if (value < best.value) best = {value, seconds};
    }
  return best;
}

/// A good plan early excludes more.
void Search::try_likely() {
  std::vector<std::pair<double, int>> order;
  for (int s = 0; s < static_cast<int>(starts_.size()); ++s)
    if (!starts_[at(s)].by_rings && starts_[at(s)].likely_pace < never) order.emplace_back(likely(starts_[at(s)]).value, s);
  std::ranges::sort(order);
  std::vector<int> chosen;
  const auto choose = [&](int s) {
    if (std::ranges::find(chosen, s) == chosen.end()) chosen.push_back(s);
  };
  // The likeliest, and other microbatches with as many replicas: these fit the devices.
  for (std::size_t i = 0; i < std::min(order.size(), most_likely); ++i) {
    choose(order[i].second);
    for (const auto& [value, s] : order)
      if (starts_[at(s)].replicas == starts_[at(order[i].second)].replicas) choose(s);
  }
  // Where proofs take long, more of them.
  const Problem& first = scopes_.front()->problem;
  const std::size_t more = first.groups.size() < many_groups && !first.by_price() ? 0 : most_more_likely;
  for (std::size_t i = most_likely; i < std::min(order.size(), most_likely + more); ++i) choose(order[i].second);
  // What is much worse than the likeliest need not be looked at, as long as something is found.
  const double hope = order.empty() ? never : order.front().first * hopeful;
  for (const int s : chosen)
    if (work() < most_work / 6) try_start(s, std::min(hope, target()));
  for (const int s : chosen)
    if (best_.plans().empty() && work() < most_work / 3) try_start(s, target());
}

void Search::try_start(int start, double below) {
  for (const bool deep : {false, true}) {
    Box box;
    box.deep = deep;
    // Not a bound: the weight that devices' prices get.
    if (problem_.by_price()) box.above_time = likely(starts_[at(start)]).time;
    const Problem& p = starts_[at(start)].scope->problem;
    const Family& f = family(start, p.groups.size() > 1 ? Grain::plain : Grain::fine);
    const Rest rest{p, f, box, value_, std::min(below, target())};
    work_ += rest.work();
    const auto path = rest.bound() < std::min(below, target()) ? rest.path() : std::nullopt;
    if (!path || try_shape(start, shape_of(f, *path, rest.bound()))) continue;
    // What is best by these sums does not fit in memory.
    Lay lay{p, f, box, value_, rest, few_steps};
    lay.must_beat(std::min(below, target()));
    if (const auto shape = lay.next(problem_.request.should_stop)) try_shape(start, *shape);
    work_ += lay.work();
  }
}

/// False when no plan comes of it.
bool Search::try_shape(int start, const Shape& shape) {
  Scope& scope = *starts_[at(start)].scope;
  const Candidate found = scope.realiser.best(shape, best_.value());
  best_.add(found);
  if (!problem_.request.restrictions.even_layers && found.value < best_.value() * worth_moving) best_.add(scope.realiser.moved(found));
  return found.value < never;
}

void Search::run() {
  if (!problem_.tiny && !problem_.request.restrictions.even_layers && !told_to_stop()) try_likely();
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const Node node = queue_.back();
    queue_.pop_back();
    if (node.bound >= target()) return leave(node.bound);
    if (work() > most_work_ || told_to_stop()) {
      stopped_ = true;
      return leave(node.bound);
    }
    open(node);
  }
}

void Search::open(const Node& node) {
  const Family& f = family(node.start, node.grain);
  const Problem& p = scope(node).problem;
  const Rest rest{p, f, node.box, value_, target()};
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
  if (path && split(node, bound, rest, *path)) return;
  // What promises more goes first.
  if (!queue_.empty() && bound > queue_.front().bound * (1 + narrow) && bound > node.bound) return push(bound, node.start, node.box);
  enumerate(node, f, rest);
}

/// In two at the pace, the reduction or the price, whichever the bound falls most short of.
bool Search::split(const Node& node, double bound, const Rest& rest, const Path& path) {
  const int n = starts_[at(node.start)].microbatches;
  const double time = path.sum + (n - 1) * path.pace + path.reduction;
  const double by_pace = (n - 1) * (path.pace - path.mean_pace) / time, by_reduction = (path.reduction - path.mean_reduction) / time;
  const double by_price = value_.by_price() ? (time - rest.least_time()) * (path.price - rest.least_price()) / (time * path.price) : 0;
  if (std::max({by_pace, by_reduction, by_price}) < narrow) return false;
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

void Search::enumerate(const Node& node, const Family& f, const Rest& rest) {
  const bool tiny = scope(node).problem.tiny;
  Lay lay{scope(node).problem, f, node.box, value_, rest, std::min(most_at_once, most_work_ - work())};
  lay.must_beat(target());
  int in_vain = 0;
  while (in_vain < most_in_vain) {
    const auto shape = lay.next(problem_.request.should_stop);
    if (!shape) break;
    const Candidate found = scope(node).realiser.best(*shape, best_.value());
    const bool better = best_.add(found);
    if (!tiny && found.value * rounding > shape->bound) leave(shape->bound);
    in_vain = better || tiny ? 0 : in_vain + 1;
    lay.must_beat(target());
  }
  leave(lay.least_open());
  work_ += lay.work();
  pruned_ += lay.pruned();
}

}  // namespace flotilla::search::rules
