#include "zone_assigner.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../evaluated.hpp"

namespace flotilla::search::rules {
namespace {

constexpr double same = 1e-9;

/// Every order of a few entries; of many, from some of them on to their nearest.
std::vector<std::vector<int>> orders_of(const FormulaProblem& p) {
  std::vector<int> order(p.entries.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int>> all;
  if (order.size() <= tuning::rules_entries_of_orders) {
    do all.push_back(order);
    while (std::ranges::next_permutation(order).found);
    return all;
  }
  const auto distance = [&](int e, int f) {
    const auto kind = [&](int i) { return sailor::SailorKind{p.groups[at(p.entries[at(i)].group)].type, p.entries[at(i)].zone, 1}; };
    const auto* fit = p.tables.single_link(kind(e), kind(f));
    return fit ? sailor::sailor_message(*fit, 1e8).value : never;
  };
  const int step = 1 + static_cast<int>(p.entries.size()) / tuning::rules_orders;
  for (int start = 0; start < static_cast<int>(p.entries.size()); start += step) {
    std::vector<int> path{start};
    std::vector<bool> in(p.entries.size(), false);
    in[at(start)] = true;
    while (path.size() < order.size()) {
      int next = -1;
      for (const int f : order)
        if (!in[at(f)] && (next < 0 || distance(path.back(), f) < distance(path.back(), next))) next = f;
      path.push_back(next);
      in[at(next)] = true;
    }
    all.push_back(path);
  }
  return all;
}

}  // namespace

bool is_better(const FormulaPlan& x, const FormulaPlan& y) {
  if (x.value >= never || y.value >= never) return x.value < y.value;
  if (std::abs(x.value - y.value) > same * y.value) return x.value < y.value;
  return x.devices != y.devices ? x.devices < y.devices : x.estimate.iteration < y.estimate.iteration;
}

ZoneAssigner::ZoneAssigner(const FormulaProblem& p, const Rings& rings)
    : p_{p}, rings_{rings}, orders_{orders_of(p)}, wide_(p.kinds.size()) {
  for (std::size_t k = 0; k < p.kinds.size(); ++k)
    for (const ReplicaKind& other : p.kinds)
      if (other.tensor == p.kinds[k].tensor && p.groups[at(other.group)].type == p.groups[at(p.kinds[k].group)].type)
        wide_[k].insert(wide_[k].end(), other.entries.begin(), other.entries.end());
}

FormulaPlan ZoneAssigner::best(const StageShape& shape, double below) {
  best_ = {};
  best_.value = never;
  least_pace_ = p_.by_price() ? never : below;
  if (exhaustive()) {
    try_all(shape);
    return best_;
  }
  across_ = shape.across;
  const StageShape mended_shape = across_ ? shape : mended(shape);
  place(mended_shape, count_out(mended_shape, true));
  const auto has_choice = [](const StageShape::Stage& s) { return s.other >= 0 && s.least < s.most; };
  if (std::ranges::any_of(shape.stages, has_choice)) place(mended_shape, count_out(mended_shape, false));
  const bool has_order =
      across_ || p_.entries.size() > p_.groups.size() || std::ranges::any_of(shape.stages, [](const auto& s) { return s.other >= 0; });
  if (has_order && best_.value < below * tuning::rules_worth_improving) improve();
  return best_;
}

/// Where groups were looked at together, a shape may ask for more of one than there is: then stages go to the kinds that are nearest in
/// time and still there, rather of the type and degree that was asked for, and rather where the stage before stands.
StageShape ZoneAssigner::mended(const StageShape& from) const {
  StageShape shape = from;
  std::vector<std::int64_t> room;
  for (const TypeInRegion& g : p_.groups) room.push_back(g.count);
  const auto need = [&](int kind) { return std::int64_t{p_.kinds[at(kind)].tensor} * shape.replicas; };
  const auto group = [&](int kind) { return at(p_.kinds[at(kind)].group); };
  for (const auto& stage : shape.stages)
    if (stage.other >= 0) room[group(stage.kind)] -= need(stage.kind) / 2, room[group(stage.other)] -= need(stage.other) / 2;
  int before = -1;
  for (auto& stage : shape.stages) {
    if (stage.other >= 0) continue;
    const auto time = [&](int kind) { return shape.measures->compute(kind, stage.first_layer, stage.last_layer); };
    const auto distance = [&](int kind) {
      const ReplicaKind &k = p_.kinds[at(kind)], &wanted = p_.kinds[at(stage.kind)];
      const bool alike = k.tensor == wanted.tensor && p_.groups[at(k.group)].type == p_.groups[at(wanted.group)].type;
      const bool near = before >= 0 && p_.groups[at(k.group)].region == p_.groups[group(before)].region;
      return (alike ? 0 : std::abs(time(kind) / time(stage.kind) - 1)) + (near ? 0 : tuning::rules_other_region);
    };
    int best = stage.kind;
    if (room[group(best)] < need(best)) {
      best = -1;
      for (int k = 0; k < static_cast<int>(p_.kinds.size()); ++k)
        if (shape.measures->usable(k) && room[group(k)] >= need(k) && (best < 0 || distance(k) < distance(best))) best = k;
      if (best < 0) return from;
    }
    room[group(best)] -= need(best);
    before = stage.kind = best;
  }
  return shape;
}

void ZoneAssigner::begin(const StageShape& shape) {
  room_.clear();
  for (const PoolSlot& e : p_.entries) room_.push_back(e.count);
  tried_.plan.global_batch = p_.request.global_batch;
  tried_.plan.sequences = shape.measures->sequences();
  tried_.plan.stages.clear();
  for (const StageShape::Stage& stage : shape.stages) tried_.plan.stages.push_back({stage.first_layer, stage.last_layer, {}});
}

void ZoneAssigner::add(std::size_t stage, int kind, int entry, int count) {
  auto& replicas = tried_.plan.stages[stage].replicas;
  const auto what = p_.at(kind, entry);
  if (!replicas.empty() && replicas.back().kind == what)
    replicas.back().count += count;
  else
    replicas.push_back({what, count});
  room_[at(entry)] -= count * p_.kinds[at(kind)].tensor;
}

void ZoneAssigner::try_all(const StageShape& shape) {
  std::vector<int> cuts{shape.measures->sequences(), shape.replicas};
  for (const StageShape::Stage& stage : shape.stages) cuts.push_back(stage.first_layer);
  if (!done_.insert(cuts).second) return;
  begin(shape);
  assign(shape, 0, 0);
}

void ZoneAssigner::assign(const StageShape& shape, std::size_t stage, int replica) {
  if (replica == shape.replicas) return assign(shape, stage + 1, 0);
  if (stage == shape.stages.size()) return consider();
  const StageShape::Stage& s = shape.stages[stage];
  for (int k = 0; k < static_cast<int>(p_.kinds.size()); ++k) {
    if (!shape.measures->fits(k, s.first_layer, s.last_layer, static_cast<int>(shape.stages.size() - stage))) continue;
    if (shape.measures->compute(k, s.first_layer, s.last_layer) > least_pace_) continue;
    if (!may_join(stage, k)) continue;
    for (const int e : p_.kinds[at(k)].entries) {
      if (room_[at(e)] < p_.kinds[at(k)].tensor) continue;
      const auto before = tried_.plan.stages[stage].replicas;
      add(stage, k, e, 1);
      assign(shape, stage, replica + 1);
      room_[at(e)] += p_.kinds[at(k)].tensor;
      tried_.plan.stages[stage].replicas = before;
    }
  }
}

bool ZoneAssigner::may_join(std::size_t stage, int kind) const {
  const Restrictions& r = p_.request.restrictions;
  const ReplicaKind& k = p_.kinds[at(kind)];
  const auto& replicas = tried_.plan.stages[stage].replicas;
  const auto& first = tried_.plan.stages.front().replicas;
  if (r.one_tensor_degree_per_stage && !replicas.empty() && replicas.front().kind.tensor_parallel != k.tensor) return false;
  return !r.one_device_type || first.empty() || first.front().kind.type == p_.groups[at(k.group)].type;
}

ZoneAssigner::Needs ZoneAssigner::count_out(const StageShape& shape, bool most) {
  Needs needs;
  for (const StageShape::Stage& stage : shape.stages) {
    const int count = stage.other < 0 ? shape.replicas : most ? stage.most : stage.least;
    needs.push_back({{stage.kind, count}});
    if (stage.other >= 0) needs.back().push_back({stage.other, shape.replicas - count});
  }
  return needs;
}

bool ZoneAssigner::put(std::size_t stage, int kind, int count, const std::vector<int>& order, bool whole_first) {
  const ReplicaKind& k = p_.kinds[at(kind)];
  const auto takes = [&](int e) { return std::ranges::find(entries_of(kind), e) != entries_of(kind).end() ? room_[at(e)] / k.tensor : 0; };
  if (whole_first)
    for (const int e : order)
      if (takes(e) >= count) return add(stage, kind, e, count), true;
  for (const int e : order) {
    const int some = std::min(count, takes(e));
    if (some > 0) add(stage, kind, e, some);
    count -= some;
    if (count == 0) return true;
  }
  return false;
}

/// Stage by stage, each where there is room.
bool ZoneAssigner::by_stage(const Needs& needs, const std::vector<int>& order, bool whole_first) {
  for (std::size_t s = 0; s < needs.size(); ++s)
    for (const ReplicaNeed& need : needs[s])
      if (!put(s, need.kind, need.count, order, whole_first)) return false;
  return true;
}

/// As many whole pipelines as a zone holds, zone by zone, and what is left over stage by stage.
bool ZoneAssigner::by_column(const StageShape& shape, const Needs& needs, const std::vector<int>& order) {
  if (std::ranges::any_of(needs, [](const auto& stage) { return stage.size() != 1; })) return false;
  int left = shape.replicas;
  std::vector<int> zones;
  for (const int e : order)
    if (std::ranges::find(zones, p_.entries[at(e)].zone) == zones.end()) zones.push_back(p_.entries[at(e)].zone);
  for (const int zone : zones) {
    std::vector<int> entry_of, each(p_.entries.size(), 0);
    for (const auto& stage : needs) {
      const ReplicaKind& kind = p_.kinds[at(stage.front().kind)];
      const auto& entries = entries_of(stage.front().kind);
      const auto found = std::ranges::find_if(entries, [&](int e) { return p_.entries[at(e)].zone == zone; });
      if (found == entries.end()) break;
      entry_of.push_back(*found);
      each[at(*found)] += kind.tensor;
    }
    if (entry_of.size() < needs.size()) continue;
    int columns = left;
    for (std::size_t e = 0; e < each.size(); ++e)
      if (each[e] > 0) columns = std::min(columns, room_[e] / each[e]);
    for (std::size_t s = 0; columns > 0 && s < needs.size(); ++s) add(s, needs[s].front().kind, entry_of[s], columns);
    left -= columns;
  }
  for (std::size_t s = 0; left > 0 && s < needs.size(); ++s)
    if (!put(s, needs[s].front().kind, left, order, false)) return false;
  return true;
}

void ZoneAssigner::place(const StageShape& shape, const Needs& needs) {
  for (const auto& order : orders_) {
    for (const bool whole_first : {true, false}) {
      begin(shape);
      if (by_stage(needs, order, whole_first)) consider();
      if (!across_ && p_.entries.size() == p_.groups.size()) return;  // one zone for each type: no choice
    }
    begin(shape);
    if (by_column(shape, needs, order)) consider();
  }
}

/// Numbers of replicas, degrees and microbatches are generated as they are fixed.
bool ZoneAssigner::keeps_constraints(const FormulaPlan& c) const {
  const auto may_hold = [&](const sailor::SailorStage& stage) { return p_.may_hold(stage.first_layer, stage.last_layer); };
  return p_.may_end(static_cast<int>(c.plan.stages.size()), true) && std::ranges::all_of(c.plan.stages, may_hold);
}

bool ZoneAssigner::keeps_limits(const FormulaPlan& c) const {
  return over_limits(c.estimate.iteration, c.estimate.expense, c.devices, p_.request.objective.limits) <= 1;
}

void ZoneAssigner::consider() {
  ++considered_;
  if (!keeps_constraints(tried_)) return;
  const auto estimate = sailor::sailor_estimate(p_.tables, tried_.plan);
  if (!estimate) return;
  tried_.estimate = *estimate;
  tried_.value = value_of(estimate->iteration, estimate->expense, p_.request.objective.goal).value_or(never);
  tried_.devices = 0;
  for (const auto& stage : tried_.plan.stages)
    for (const auto& run : stage.replicas) tried_.devices += run.count * run.kind.tensor_parallel;
  if (is_better(tried_, best_) && keeps_limits(tried_) && sailor::sailor_fits(p_.tables, tried_.plan)) best_ = tried_;
}

}  // namespace flotilla::search::rules
