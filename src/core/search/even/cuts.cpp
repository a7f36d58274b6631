#include "cuts.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "flotilla/model/tensors.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/schedule/bound.hpp"

namespace flotilla::search::even {
namespace {

/// Sequences of a replica's full microbatch and of its last one.
std::pair<int, int> microbatch_sizes(const Configuration& c, int replica) {
  const int sequences = c.placement->sequences[static_cast<std::size_t>(replica)], full = std::min(c.microbatch, sequences);
  return {full, sequences - (c.microbatches(replica) - 1) * full};
}

/// Seconds of a layer on a replica.
struct LayerWork {
  double all = 0, least_forward = 0, least_backward = 0;
};

LayerWork layer_work(const Problem& problem, const Configuration& c, int stage, int replica, int layer) {
  const PlanRequest& request = problem.request;
  const Placement& p = *c.placement;
  const auto& devices = p.devices(stage, replica);
  const auto& type = problem.device(devices.front()).type;
  const int count = c.microbatches(replica);
  const auto [full, last] = microbatch_sizes(c, replica);
  const schedule::Schedule& schedule = schedule::schedule_of(c.schedule);
  const bool splits = schedule.splits(stage);
  const auto bound_of = [&](int microbatch) {
    const auto bound =
        problem.forecaster.layer_bound(request.model, layer, problem.shape(microbatch, p.tensor), c.recompute, type, devices);
    const schedule::PassTimes whole{bound.forward, bound.backward, bound.recompute, {}};
    return splits ? schedule::split(whole, bound.input_half, bound.weights_half) : whole;
  };
  const auto most = bound_of(full), least = last == full ? most : bound_of(last);
  const auto total = [](const schedule::PassTimes& t) { return (t.forward + t.backward + t.recompute).value; };
  const double weights = schedule::weights_before_last_input(schedule, {p.pipeline, stage, count}) * most.weights.value;
  return {(count - 1) * total(most) + total(least) + weights, std::min(most.forward, least.forward).value,
          std::min(most.backward, least.backward).value};
}

/// Seconds that a microbatch's activations need from a stage to the next one, and their gradients back.
struct Hop {
  double there = 0, back = 0;
};

Hop hop_of(const Problem& problem, const Configuration& c, int stage, int replica, int sequences) {
  const PlanRequest& request = problem.request;
  const Placement& p = *c.placement;
  const model::LayerShape shape = problem.shape(sequences, p.tensor);
  const auto &here = p.devices(stage, replica), &next = p.devices(stage + 1, replica);
  return {problem.forecaster.message_bound(request.model, shape, here, next).value,
          problem.forecaster.message_bound(request.model, shape, next, here).value};
}

double least_hop(const Problem& problem, const Configuration& c, int stage) {
  if (stage + 1 == c.placement->pipeline) return 0;
  double least = never;
  for (int r = 0; r < c.placement->data; ++r) {
    const auto [full, last] = microbatch_sizes(c, r);
    const Hop hop = hop_of(problem, c, stage, r, std::min(full, last));
    least = std::min(least, hop.there + hop.back);
  }
  return least;
}

/// What others keep at most of a device's optimizer state where it is sharded: moments, and in half precision fp32 parameters, over all
/// replicas; as if all of it were in the token embedding, over those of the stage at its other end as well.
Bytes kept_by_others(const Problem& problem, const Configuration& c, int first, int last) {
  if (!problem.shares_optimizers()) return {};
  const Bytes each{problem.request.precision == Precision::fp32 ? 8 : 12};
  const int sharers = c.placement->data * (c.placement->pipeline > 1 ? 2 : 1);
  std::int64_t elements = 0;
  for (const auto& tensor : model::tensors(problem.request.model))
    if ((first <= tensor.layer && tensor.layer < last) || (first <= tensor.tied_layer && tensor.tied_layer < last))
      elements += plan::shard_elements(tensor, c.placement->tensor, 0);
  return (elements - elements / sharers) * each;
}

Bytes memory_of(const Problem& problem, const Configuration& c, int first, int last, int in_flight) {
  const model::LayerShape shape = problem.shape(std::min(c.microbatch, c.most_sequences()), c.placement->tensor);
  return problem.forecaster.memory_bound(problem.request.model, first, last, shape, c.recompute, in_flight) -
         kept_by_others(problem, c, first, last);
}

/// (microbatches in flight, memory limit) of the replicas of a stage, those that differ.
using Demands = std::set<std::pair<int, Bytes>>;
Demands demands(const Problem& problem, const Configuration& c, int stage) {
  Demands found;
  for (int r = 0; r < c.placement->data; ++r) found.insert({c.in_flight(stage, r), problem.limit(c.placement->devices(stage, r).front())});
  return found;
}

/// The largest n in [0, most] for which `holds`, which does not come back once it has failed; it holds for 0.
template <class Predicate>
int largest(int most, Predicate holds) {
  int fitting = 0, failing = most + 1;
  while (failing - fitting > 1) {
    const int middle = std::midpoint(fitting, failing);
    (holds(middle) ? fitting : failing) = middle;
  }
  return fitting;
}

/// By first layer: the last layer boundary up to which every replica can hold the stage; the first layer itself when not even one layer.
/// Blocks are alike, so three questions answer for all of them.
std::vector<int> furthest_ends(const Problem& problem, const Configuration& c, const Demands& wanted) {
  const int layers = problem.request.model.layers(), head = layers - 1;
  const auto fits = [&](int first, int last) {
    return std::ranges::all_of(wanted,
                               [&](const auto& demand) { return memory_of(problem, c, first, last, demand.first) <= demand.second; });
  };
  std::vector<int> ends(static_cast<std::size_t>(layers));
  ends[0] = largest(layers, [&](int n) { return fits(0, n); });
  const int blocks = largest(head - 1, [&](int n) { return fits(1, 1 + n); });
  const int with_head = largest(head, [&](int n) { return fits(layers - n, layers); });
  for (int first = 1; first < layers; ++first) {
    const bool reaches_head = layers - first <= with_head;
    ends[static_cast<std::size_t>(first)] = reaches_head ? layers : std::min(first + blocks, head);
  }
  return ends;
}

}  // namespace

bool CutSearch::Later::operator()(const Node& a, const Node& b) const {
  if (a.bound != b.bound) return a.bound > b.bound;
  if (a.cuts.size() != b.cuts.size()) return a.cuts.size() < b.cuts.size();
  if (a.spread != b.spread) return a.spread > b.spread;
  return a.cuts > b.cuts;
}

CutSearch::CutSearch(const Problem& problem, const Configuration& configuration)
    : problem_{problem},
      configuration_{configuration},
      fixed_{cuts_of_devices(problem.fixed())},
      layers_{problem.request.model.layers()},
      count_{configuration.placement->pipeline} {
  for (int s = 0; s < count_; ++s) stages_.push_back(stage_of(s));
  solve();
  if (rest_[0][0] < never) heap_.push_back({rest_[0][0], 0, 0, 0, {0}});
}

CutSearch::Stage CutSearch::stage_of(int stage) const {
  Stage out;
  const auto layers = static_cast<std::size_t>(layers_);
  const auto kind = [&](std::size_t layer) -> std::size_t { return layer == 0 ? 0 : layer + 1 == layers ? 2 : 1; };
  const auto prefix_sums = [&](const std::array<double, 3>& of_kind) {
    std::vector<double> sums(layers + 1, 0);
    for (std::size_t l = 0; l < layers; ++l) sums[l + 1] = sums[l] + of_kind[kind(l)];
    return sums;
  };
  std::array<LayerWork, 3> least;
  least.fill({0, never, never});
  for (int r = 0; r < configuration_.placement->data; ++r) {
    std::array<double, 3> work{};
    for (std::size_t k = 0; k < work.size(); ++k) {
      const LayerWork here = layer_work(problem_, configuration_, stage, r, k == 0 ? 0 : k == 1 ? 1 : layers_ - 1);
      work[k] = here.all;
      least[k].least_forward = std::min(least[k].least_forward, here.least_forward);
      least[k].least_backward = std::min(least[k].least_backward, here.least_backward);
    }
    Replica replica{prefix_sums(work)};
    const auto same = [&](const Replica& other) { return other.work == replica.work; };
    if (std::ranges::none_of(out.replicas, same)) out.replicas.push_back(std::move(replica));
  }
  // Layer by layer the least of any replica: at most what the fastest replica needs for them together.
  std::array<double, 3> pass{};
  for (std::size_t k = 0; k < pass.size(); ++k) pass[k] = least[k].least_forward + least[k].least_backward;
  // Of several stages a device the first and the last work long before and after a microbatch has passed all layers of the others.
  const bool waits = !schedule::schedule_of(configuration_.schedule).interleaves();
  out.least_pass = prefix_sums(waits ? pass : std::array<double, 3>{});
  out.hop = waits ? least_hop(problem_, configuration_, stage) : 0;
  out.last = furthest_ends(problem_, configuration_, demands(problem_, configuration_, stage));
  return out;
}

bool CutSearch::allowed(int stage, int first, int last) const {
  if (!fixed_.empty()) return fixed_[static_cast<std::size_t>(stage)] == first && fixed_[static_cast<std::size_t>(stage) + 1] == last;
  return last - first >= problem_.chunks();
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
        const double later =
            span(stage.least_pass, first, last) + stage.hop + rest_[static_cast<std::size_t>(s) + 1][static_cast<std::size_t>(last)];
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
    next.passed += span(stage.least_pass, first, last) + stage.hop;
    next.bound = std::max(next.so_far, s + 1 == count_ ? 0 : next.passed + rest);
    next.spread += own * own;
    next.cuts.push_back(last);
    heap_.push_back(std::move(next));
    std::ranges::push_heap(heap_, Later{});
  }
}

double CutSearch::bound() const { return heap_.empty() ? never : heap_.front().bound + configuration_.placement->tail; }

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

namespace {

/// What a column's microbatches need whatever the cuts: one of them through the whole pipeline and back, and all of their work.
struct ColumnWay {
  double way = 0, work = 0;
};

ColumnWay column_way(const Problem& problem, const Configuration& c, int replica) {
  const auto& model = problem.request.model;
  ColumnWay sum;
  for (int layer : {0, 1, model.layers() - 1}) {
    const int count = layer == 1 ? model.blocks : 1;
    double way = never, work = never;
    for (int s = 0; s < c.placement->pipeline; ++s) {
      const LayerWork here = layer_work(problem, c, s, replica, layer);
      way = std::min(way, here.least_forward + here.least_backward);
      work = std::min(work, here.all);
    }
    sum.way += way * count;
    sum.work += work * count;
  }
  return sum;
}

double column_bound(const Problem& problem, const Configuration& c, int replica) {
  const int stages = c.placement->pipeline, behind = c.microbatches(replica) - 1;
  auto [way, work] = column_way(problem, c, replica);
  const auto [full, last] = microbatch_sizes(c, replica);
  double messages = 0;
  for (int s = 0; s + 1 < stages; ++s) {
    const Hop least = hop_of(problem, c, s, replica, std::min(full, last)), each = hop_of(problem, c, s, replica, full);
    way += least.there + least.back;
    messages = std::max({messages, each.there, each.back});
  }
  const int turns = schedule::turnarounds(schedule::schedule_of(c.schedule), {stages, 0, behind + 1}) + 1;  // of the first stage
  return std::max({work / stages, way + behind * messages, way * turns});
}

}  // namespace

double quick_bound(const Problem& problem, const Configuration& c) {
  double bound = 0;
  for (int r = 0; r < c.placement->data; ++r) bound = std::max(bound, column_bound(problem, c, r));
  return bound + c.placement->tail;
}

namespace {

/// How far stages are over the limits of their devices, looked up: blocks are alike, so it depends on how many layers there are and on
/// whether the embedding and the head are among them.
class StageExcess {
 public:
  StageExcess(const Problem& problem, const Configuration& c, int stage) : layers_{problem.request.model.layers()} {
    const Demands wanted = demands(problem, c, stage);
    for (int n = 1; n <= layers_; ++n) {
      add(problem, c, wanted, 0, n);
      if (n < layers_) add(problem, c, wanted, layers_ - n, layers_);
      if (n < layers_ - 1) add(problem, c, wanted, 1, 1 + n);
    }
  }
  std::int64_t of(int first, int last) const { return known_.at(key(first, last)); }

 private:
  std::array<int, 2> key(int first, int last) const { return {(first == 0 ? 1 : 0) + (last == layers_ ? 2 : 0), last - first}; }
  void add(const Problem& problem, const Configuration& c, const Demands& wanted, int first, int last) {
    std::int64_t most = std::numeric_limits<std::int64_t>::min();
    for (const auto& [in_flight, limit] : wanted) most = std::max(most, (memory_of(problem, c, first, last, in_flight) - limit).count);
    known_[key(first, last)] = most;
  }
  int layers_;
  std::map<std::array<int, 2>, std::int64_t> known_;
};

}  // namespace

LeastMemory least_memory_cuts(const Problem& problem, const Configuration& c) {
  const int layers = problem.request.model.layers(), stages = c.placement->pipeline;
  const auto index = [&](int s, int l) { return static_cast<std::size_t>(s * (layers + 1) + l); };
  const std::int64_t never_fits = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> least(index(stages, layers) + 1, never_fits);
  std::vector<int> choice(least.size(), -1);
  least[index(stages, layers)] = std::numeric_limits<std::int64_t>::min();
  const auto fixed = cuts_of_devices(problem.fixed());
  for (int s = stages - 1; s >= 0; --s) {
    const StageExcess stage{problem, c, s};
    for (int first = s; first < layers; ++first)
      for (int last = first + problem.chunks(); last <= layers; ++last) {
        if (!fixed.empty() && (fixed[static_cast<std::size_t>(s)] != first || fixed[static_cast<std::size_t>(s) + 1] != last)) continue;
        if (least[index(s + 1, last)] == never_fits) continue;
        const std::int64_t excess = std::max(least[index(s + 1, last)], stage.of(first, last));
        if (excess < least[index(s, first)]) least[index(s, first)] = excess, choice[index(s, first)] = last;
      }
  }
  LeastMemory out{{0}, {least[index(0, 0)]}};
  for (int s = 0; s < stages; ++s) out.cuts.push_back(choice[index(s, out.cuts.back())]);
  return out;
}

}  // namespace flotilla::search::even
