#include "cuts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace flotilla::search {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Seconds of a layer on a replica.
struct LayerWork {
  double all = 0, least_forward = 0, least_backward = 0;
};

LayerWork layer_work(const Problem& problem, const Configuration& c, int stage, int replica, int layer) {
  const Request& request = problem.request;
  const Placement& p = *c.placement;
  const auto& devices = p.devices(stage, replica);
  const auto& type = problem.device(devices.front()).type;
  const int sequences = p.sequences[static_cast<std::size_t>(replica)], count = c.microbatches(replica);
  const int full = std::min(c.microbatch, sequences), last = sequences - (count - 1) * full;
  const auto bound_of = [&](int microbatch) {
    return problem.forecaster.layer_bound(request.model, layer, {microbatch, request.length, p.tensor, 0, request.precision}, c.recompute, type,
                                          devices);
  };
  const auto most = bound_of(full), least = last == full ? most : bound_of(last);
  const auto total = [](const simulate::LayerBound& b) { return (b.forward + b.backward + b.recompute).value; };
  return {(count - 1) * total(most) + total(least), std::min(most.forward, least.forward).value, std::min(most.backward, least.backward).value};
}

Bytes memory_of(const Problem& problem, const Configuration& c, int first, int last, int in_flight) {
  const Request& request = problem.request;
  const model::LayerShape shape{std::min(c.microbatch, c.most_sequences()), request.length, c.placement->tensor, 0, request.precision};
  return problem.forecaster.memory_bound(request.model, first, last, shape, c.recompute, in_flight);
}

/// (microbatches in flight, memory limit) of the replicas of a stage, those that differ.
using Demands = std::set<std::pair<int, Bytes>>;
Demands demands(const Problem& problem, const Configuration& c, int stage) {
  Demands found;
  for (int r = 0; r < c.placement->data; ++r)
    found.insert({c.in_flight(stage, r), problem.limit(c.placement->devices(stage, r).front())});
  return found;
}

/// The last layer boundary up to which every replica can hold a stage that begins at `first`; `first` when not even one layer.
int furthest_end(const Problem& problem, const Configuration& c, const Demands& wanted, int first) {
  const auto fits = [&](int last) {
    return std::ranges::all_of(wanted, [&](const auto& demand) { return memory_of(problem, c, first, last, demand.first) <= demand.second; });
  };
  int fitting = first, failing = problem.request.model.layers() + 1;
  while (failing - fitting > 1) {
    const int middle = std::midpoint(fitting, failing);
    (fits(middle) ? fitting : failing) = middle;
  }
  return fitting;
}

}  // namespace

bool CutSearch::Later::operator()(const Node& a, const Node& b) const {
  if (a.bound != b.bound) return a.bound > b.bound;
  if (a.cuts.size() != b.cuts.size()) return a.cuts.size() < b.cuts.size();
  if (a.spread != b.spread) return a.spread > b.spread;
  return a.cuts > b.cuts;
}

CutSearch::CutSearch(const Problem& problem, const Configuration& configuration)
    : problem_{problem}, configuration_{configuration}, layers_{problem.request.model.layers()}, count_{configuration.placement->pipeline} {
  for (int s = 0; s < count_; ++s) stages_.push_back(stage_of(s));
  solve();
  if (rest_[0][0] < never) heap_.push_back({rest_[0][0], 0, 0, 0, {0}});
}

CutSearch::Stage CutSearch::stage_of(int stage) const {
  Stage out;
  const auto layers = static_cast<std::size_t>(layers_);
  std::vector<double> forward(layers + 1, 0), backward(layers + 1, 0);
  for (int r = 0; r < configuration_.placement->data; ++r) {
    Replica replica{std::vector<double>(layers + 1, 0)};
    std::vector<double> here_forward(layers + 1, 0), here_backward(layers + 1, 0);
    for (std::size_t l = 0; l < layers; ++l) {
      const auto work = layer_work(problem_, configuration_, stage, r, static_cast<int>(l));
      replica.work[l + 1] = replica.work[l] + work.all;
      here_forward[l + 1] = r == 0 ? work.least_forward : std::min(forward[l + 1], work.least_forward);
      here_backward[l + 1] = r == 0 ? work.least_backward : std::min(backward[l + 1], work.least_backward);
    }
    forward = std::move(here_forward);
    backward = std::move(here_backward);
    const auto same = [&](const Replica& other) { return other.work == replica.work; };
    if (std::ranges::none_of(out.replicas, same)) out.replicas.push_back(std::move(replica));
  }
  // Layer by layer the least of any replica: at most what the fastest replica needs for them together.
  out.least_pass.assign(layers + 1, 0);
  for (std::size_t l = 0; l < layers; ++l) out.least_pass[l + 1] = out.least_pass[l] + forward[l + 1] + backward[l + 1];
  const Demands wanted = demands(problem_, configuration_, stage);
  for (int first = 0; first < layers_; ++first) out.last.push_back(furthest_end(problem_, configuration_, wanted, first));
  return out;
}

bool CutSearch::allowed(int stage, int first, int last) const {
  const auto& fixed = problem_.request.fixed.cuts;
  if (!fixed.empty()) return fixed[static_cast<std::size_t>(stage)] == first && fixed[static_cast<std::size_t>(stage) + 1] == last;
  return true;
}

double CutSearch::work(const Stage& stage, int first, int last) const {
  double most = 0;
  for (const Replica& replica : stage.replicas) most = std::max(most, span(replica.work, first, last));
  return most;
}

void CutSearch::solve() {
  const auto layers = static_cast<std::size_t>(layers_);
  rest_.assign(static_cast<std::size_t>(count_) + 1, std::vector<double>(layers + 1, never));
  rest_.back()[layers] = 0;
  for (int s = count_ - 1; s >= 0; --s)
    for (int first = s; first < layers_; ++first) {
      const Stage& stage = stages_[static_cast<std::size_t>(s)];
      double& best = rest_[static_cast<std::size_t>(s)][static_cast<std::size_t>(first)];
      const int end = std::min(stage.last[static_cast<std::size_t>(first)], layers_ - (count_ - 1 - s));
      for (int last = first + 1; last <= end; ++last) {
        if (!allowed(s, first, last)) continue;
        const double own = work(stage, first, last);
        if (own >= best) break;  // longer stages only work more
        const double later = span(stage.least_pass, first, last) + rest_[static_cast<std::size_t>(s) + 1][static_cast<std::size_t>(last)];
        best = std::min(best, s + 1 == count_ ? (last == layers_ ? own : never) : std::max(own, later));
      }
    }
}

void CutSearch::expand(const Node& node) {
  const int s = node.stage(), first = node.cuts.back();
  const Stage& stage = stages_[static_cast<std::size_t>(s)];
  for (int last = first + 1; last <= stage.last[static_cast<std::size_t>(first)]; ++last) {
    const double rest = rest_[static_cast<std::size_t>(s) + 1][static_cast<std::size_t>(last)];
    if (!allowed(s, first, last) || !(rest < never)) continue;
    const double own = work(stage, first, last);
    Node next = node;
    next.so_far = std::max(node.so_far, node.passed + own);
    next.passed += span(stage.least_pass, first, last);
    next.bound = std::max(next.so_far, s + 1 == count_ ? 0 : next.passed + rest);
    next.spread += own * own;
    next.cuts.push_back(last);
    heap_.push_back(std::move(next));
    std::ranges::push_heap(heap_, Later{});
  }
}

double CutSearch::bound() const { return heap_.empty() ? never : heap_.front().bound; }

std::vector<int> CutSearch::next() {
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, Later{});
    const Node node = std::move(heap_.back());
    heap_.pop_back();
    if (node.stage() == count_) return node.cuts;
    expand(node);
  }
  return {};
}

double quick_bound(const Problem& problem, const Configuration& c) {
  const auto& model = problem.request.model;
  const Placement& p = *c.placement;
  std::vector<int> kinds{0, model.layers() - 1};
  if (model.blocks > 0) kinds.push_back(1);
  double bound = 0;
  for (int r = 0; r < p.data; ++r) {
    double column = 0;
    for (int layer : kinds) {
      double least = never;
      for (int s = 0; s < p.pipeline; ++s) least = std::min(least, layer_work(problem, c, s, r, layer).all);
      column += least * (model.is_block(layer) ? model.blocks : 1);
    }
    bound = std::max(bound, column / p.pipeline);
  }
  return bound;
}

LeastMemory least_memory_cuts(const Problem& problem, const Configuration& c) {
  const int layers = problem.request.model.layers(), stages = c.placement->pipeline;
  const auto index = [&](int s, int l) { return static_cast<std::size_t>(s * (layers + 1) + l); };
  const std::int64_t never_fits = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> least(index(stages, layers) + 1, never_fits);
  std::vector<int> choice(least.size(), -1);
  least[index(stages, layers)] = std::numeric_limits<std::int64_t>::min();
  const auto& fixed = problem.request.fixed.cuts;
  for (int s = stages - 1; s >= 0; --s) {
    const auto wanted = demands(problem, c, s);
    for (int first = s; first < layers; ++first)
      for (int last = first + 1; last <= layers; ++last) {
        if (!fixed.empty() && (fixed[static_cast<std::size_t>(s)] != first || fixed[static_cast<std::size_t>(s) + 1] != last)) continue;
        if (least[index(s + 1, last)] == never_fits) continue;
        std::int64_t excess = least[index(s + 1, last)];
        for (const auto& [in_flight, limit] : wanted)
          excess = std::max(excess, (memory_of(problem, c, first, last, in_flight) - limit).count);
        if (excess < least[index(s, first)]) least[index(s, first)] = excess, choice[index(s, first)] = last;
      }
  }
  LeastMemory out{{0}, {least[index(0, 0)]}};
  for (int s = 0; s < stages; ++s) out.cuts.push_back(choice[index(s, out.cuts.back())]);
  return out;
}

}  // namespace flotilla::search
