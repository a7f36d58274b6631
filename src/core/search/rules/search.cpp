#include "search.hpp"

#include <algorithm>

namespace flotilla::search::rules {
namespace {

constexpr double rounding = 1 - 1e-9;
constexpr double narrow = 1e-3;                 // of the value: a box that promises no more than this is enumerated
constexpr int most_in_vain = 300;               // shapes of a box that are realised without a better plan coming of it
constexpr std::int64_t most_labels = 400'000;   // partial plans laid in all
constexpr std::int64_t most_at_once = 100'000;  // in one box

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

Search::Search(const Problem& p) : problem_{p}, value_{p}, scopes_{scopes_of(p)}, best_{p.request.alternatives}, labels_left_{most_labels} {
  for (const auto& scope : scopes_) add_starts(*scope);
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
    starts_.push_back({&scope, &measures, replicas, microbatches, by_rings});
    push_boxes(static_cast<int>(starts_.size()) - 1, first);
  }
}

void Search::push_boxes(int start, const First& first) {
  const bool even = problem_.request.restrictions.even_layers;
  Box box;
  box.above = first.pace * rounding;
  for (const bool deep : {false, true})
    for (int blocks = even ? 0 : -1; blocks < (even ? problem_.tables.layers() : 0); ++blocks) {
      box.deep = deep;
      box.blocks = blocks;
      push(first.bound, start, box);
    }
}

/// By the least pace at which all devices together can take the layers.
Search::First Search::first_bound(const Problem& p, const Measures& m, int replicas, int microbatches) const {
  const double work = m.least_compute(p.tables.layers());
  // Where stages are of one kind, they take whole units.
  const auto devices_of = [&](const Group& g) { return p.groups.size() == 1 && !p.tiny ? g.count / replicas * replicas : g.count; };
  const auto enough = [&](int j) {
    double room = 0;
    for (std::size_t g = 0; g < p.groups.size(); ++g) room += devices_of(p.groups[g]) * m.rate(static_cast<int>(g), j);
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
  double least = never;
  for (int j = low; j < m.paces(); ++j) {
    const double time = (microbatches - 1) * m.pace(j) + work + m.least_update();
    least = std::min(least, value_.least(time, replicas * work * m.price(j), 0));
    if (!value_.needs_prices()) break;
  }
  return {low < m.paces() ? m.pace(low) : never, least};
}

Family& Search::family(int start) {
  Start& s = starts_[at(start)];
  if (!s.family) s.family = std::make_unique<Family>(s.scope->problem, *s.measures, s.replicas, s.microbatches, s.scope->rings, s.by_rings);
  return *s.family;
}

void Search::push(double bound, int start, const Box& box) {
  queue_.push_back({bound, nodes_++, start, box});
  std::push_heap(queue_.begin(), queue_.end());
}

void Search::run() {
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end());
    const Node node = queue_.back();
    queue_.pop_back();
    if (node.bound >= target()) return leave(node.bound);
    if (labels_left_ <= 0 || told_to_stop()) {
      stopped_ = true;
      return leave(node.bound);
    }
    open(node);
  }
}

void Search::open(const Node& node) {
  const Family& f = family(node.start);
  const Problem& p = scope(node).problem;
  const Rest rest{p, f, node.box, value_, target()};
  const double bound = std::max(node.bound, rest.bound());
  const auto path = bound < target() ? rest.path() : std::nullopt;
  if (!path) {
    ++pruned_;
    return leave(std::max(bound, target()));
  }
  if (!p.tiny) best_.add(scope(node).realiser.best(shape_of(f, *path, bound), best_.value()));
  if (bound >= target()) return leave(bound);
  if (!queue_.empty() && bound > queue_.front().bound * (1 + narrow) && bound > node.bound) return push(bound, node.start, node.box);
  if (!split(node, bound, rest, *path)) enumerate(node, f, rest);
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
  Lay lay{scope(node).problem, f, node.box, value_, rest, std::min(most_at_once, labels_left_)};
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
  labels_left_ -= lay.laid();
  pruned_ += lay.pruned();
}

}  // namespace flotilla::search::rules
