#include "coarse_bound.hpp"

#include <algorithm>

#include "dp_relaxation.hpp"

namespace flotilla::search::rules {
namespace {

/// Least of x[i] + y[i]: four at a time, for no sum waits for the one before.
double least_sum(const double* x, const double* y, int count) {
  double least[4] = {never, never, never, never};
  int i = 0;
  for (; i + 4 <= count; i += 4)
    for (int j = 0; j < 4; ++j) {
      const double sum = x[i + j] + y[i + j];
      least[j] = sum < least[j] ? sum : least[j];
    }
  for (; i < count; ++i) least[0] = std::min(least[0], x[i] + y[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

}  // namespace

bool CoarseBound::suits(const PlanFamily& family) {
  std::int64_t states = 1;
  for (std::size_t r = 0; r < family.resources(); ++r) states *= family.units(r) + 1;
  return family.sides() == 1 && states <= tuning::rules_coarse_states;
}

CoarseBound::CoarseBound(const FormulaProblem& p, const PlanFamily& family, const BranchNode& branch_node, double pace, double reduction)
    : p_{p},
      family_{family},
      branch_node_{branch_node},
      pace_{pace},
      reduction_{reduction},
      layers_{p.tables.layers()},
      kinds_{family.kinds()},
      most_stages_{branch_node.depth == Depth::few ? PathSweep::few_stages : 0},
      twice_{branch_node.depth == Depth::many},
      behind_(at(layers_ + 1), -1),
      costs_(at(kinds_) * at(layers_) * at(layers_ + 1), never),
      ends_(at(kinds_) * at(layers_), 0) {
  for (std::size_t r = 0; r < family.resources(); ++r) states_ *= family.units(r) + 1;
  list_needs();
  of_behind_.assign(most_stages_ + 1, states_, layers_);
  for (int table = 0; table <= most_stages_; ++table)
    for (int s = 0; s < states_; ++s) of_behind_.of(table, 0, s)[layers_] = of_behind_.of(table, 1, s)[layers_] = 0;
  behind_[at(layers_)] = 0;
  for (int first = layers_ - 1; first >= 0; --first) {
    add_costs(first);
    for (int table = std::min(1, most_stages_); table <= most_stages_; ++table) relax_behind(table, first);
  }
  least_ = of_behind_.of(most_stages_, family.mixes() ? 1 : 0, states_ - 1)[0] * rounding;
}

void CoarseBound::StateSums::assign(int tables, int states, int layers) {
  states_ = at(states);
  size_ = at(layers + 1);
  all_.assign(at(tables) * 2 * states_ * size_, never);
}

CoarseBound::ReplicaNeed CoarseBound::need_of(const Units& units) const {
  ReplicaNeed need;
  std::array<int, most_resources> strides{};
  int stride = 1;
  for (std::size_t r = 0; r < family_.resources(); ++r) {
    strides[r] = stride;
    need.offset += units[r] * stride;
    stride *= family_.units(r) + 1;
  }
  for (int s = need.offset; s < states_; ++s) {
    bool enough = true;
    for (std::size_t r = 0; r < family_.resources(); ++r) enough = enough && s / strides[r] % (family_.units(r) + 1) >= units[r];
    if (enough) need.states.push_back(s);
  }
  return need;
}

void CoarseBound::list_needs() {
  alone_.assign(at(kinds_), 0);
  needs_.resize(at(kinds_));
  for (const StageGroup& stage_group : family_.stage_groups()) {
    if (stage_group.mixed()) break;
    ReplicaNeed need = need_of(stage_group.units);
    if (need.states.empty()) continue;
    alone_[at(stage_group.kind)] = 1;
    needs_[at(stage_group.kind)].push_back(std::move(need));
  }
  if (family_.mixes()) add_mixed_needs();
}

/// What no other team with the same slower kind does with less of everything, nor that kind by itself.
void CoarseBound::add_mixed_needs() {
  std::vector<Units> shared(at(kinds_));
  std::vector<char> shares(at(kinds_), 0);
  std::vector<std::vector<Units>> least(at(kinds_));
  std::vector<const Units*> alone(at(kinds_), nullptr);
  const auto no_less = [&](const Units& x, const Units& y) {
    for (std::size_t r = 0; r < family_.resources(); ++r)
      if (x[r] < y[r]) return false;
    return true;
  };
  const auto work = [&](int kind) { return family_.measures().compute(kind, 0, layers_); };
  for (const StageGroup& stage_group : family_.stage_groups()) {
    if (!stage_group.mixed()) {
      alone[at(stage_group.kind)] = &stage_group.units;
      continue;
    }
    for (const int kind : {stage_group.kind, stage_group.other}) {
      for (std::size_t r = 0; r < family_.resources(); ++r)
        shared[at(kind)][r] = shares[at(kind)] != 0 ? std::min(shared[at(kind)][r], stage_group.units[r]) : stage_group.units[r];
      shares[at(kind)] = 1;
    }
    const int slower = work(stage_group.kind) >= work(stage_group.other) ? stage_group.kind : stage_group.other;
    auto& all = least[at(slower)];
    if (alone[at(slower)] && no_less(stage_group.units, *alone[at(slower)])) continue;
    if (std::ranges::any_of(all, [&](const Units& other) { return no_less(stage_group.units, other); })) continue;
    std::erase_if(all, [&](const Units& other) { return no_less(other, stage_group.units); });
    all.push_back(stage_group.units);
  }
  shared_.resize(at(kinds_));
  for (int k = 0; k < kinds_; ++k) {
    if (shares[at(k)] != 0) shared_[at(k)] = need_of(shared[at(k)]);
    for (const Units& units : least[at(k)]) {
      ReplicaNeed need = need_of(units);
      need.mixed = true;
      if (!need.states.empty()) needs_[at(k)].push_back(std::move(need));
    }
  }
}

bool CoarseBound::may_hold(int first, int last) const {
  if (behind_[at(last)] < 0) return false;
  if (twice_ && first == 0 && last == layers_) return false;
  const int blocks = branch_node_.blocks < 0 ? -1 : p_.blocks(first, last);
  return blocks == branch_node_.blocks || blocks == branch_node_.blocks + 1;
}

void CoarseBound::add_costs(int first) {
  int least = -1;
  for (int k = 0; k < kinds_; ++k) {
    if (needs_[at(k)].empty()) continue;
    add_cost_row(k, first);
    const double* row = &costs_[at_row(k, first)];
    for (int last = first + 1; last < ends_[at(k * layers_ + first)]; ++last)
      if (row[last] < never && (least < 0 || behind_[at(last)] + 1 < least)) least = behind_[at(last)] + 1;
  }
  behind_[at(first)] = least;
}

void CoarseBound::add_cost_row(int kind, int first) {
  const Measures& measures = family_.measures();
  const int rounds = family_.microbatches() - 1;
  double* row = &costs_[at_row(kind, first)];
  int end = 0;
  for (int last = first + 1; last <= layers_ && measures.compute(kind, first, last) <= pace_; ++last) {
    const double time = measures.time(kind, first, last, twice_);
    if (time > pace_ || !may_hold(first, last) || !measures.fits(kind, first, last, behind_[at(last)] + 1)) continue;
    const double reduction = family_.least_reduction(kind, first, last);
    if (reduction > reduction_) continue;
    row[last] = time + family_.share(first, last) *
                           (rounds * std::max(time, branch_node_.above) + std::max(reduction, branch_node_.above_reduction));
    end = last + 1;
  }
  ends_[at(kind * layers_ + first)] = end;
  work_ += 3 * (layers_ - first);
}

void CoarseBound::relax_behind(int table, int first) {
  const int from = most_stages_ > 0 ? table - 1 : 0, ways = family_.mixes() ? 2 : 1;
  for (int k = 0; k < kinds_; ++k) {
    const int count = ends_[at(k * layers_ + first)] - first - 1;
    if (count <= 0) continue;
    const double* row = &costs_[at_row(k, first)] + first + 1;
    const auto relax = [&](int way, int from_way, int s, int left) {
      double& least = of_behind_.of(table, way, s)[first];
      least = std::min(least, least_sum(row, of_behind_.of(from, from_way, left) + first + 1, count));
    };
    for (const ReplicaNeed& need : needs_[at(k)]) {
      work_ += static_cast<std::int64_t>(need.states.size()) * ways * (8 + count);
      for (const int s : need.states) {
        if (!need.mixed) relax(0, 0, s, s - need.offset);
        if (ways > 1) relax(1, need.mixed ? 0 : 1, s, s - need.offset);
      }
    }
  }
}

void CoarseBound::solve_front() {
  const int tables = std::max(1, most_stages_);
  of_front_.assign(tables, states_, layers_);
  for (int table = 0; table < tables; ++table)
    for (int s = 0; s < states_; ++s) of_front_.of(table, 0, s)[0] = of_front_.of(table, 1, s)[0] = 0;
  for (int first = 0; first < layers_; ++first)
    for (int table = most_stages_ > 0 ? 1 : 0; table < tables; ++table) relax_front(table, first);
}

void CoarseBound::relax_front(int table, int first) {
  const int from = most_stages_ > 0 ? table - 1 : 0, ways = family_.mixes() ? 2 : 1;
  for (int k = 0; k < kinds_; ++k) {
    const int end = ends_[at(k * layers_ + first)];
    if (end == 0) continue;
    const double* __restrict row = &costs_[at_row(k, first)];
    const auto relax = [&](int way, int from_way, int s, int left) {
      const double before = of_front_.of(from, from_way, left)[first];
      if (before == never) return;
      double* __restrict to = of_front_.of(table, way, s);
      for (int last = first + 1; last < end; ++last) to[last] = before + row[last] < to[last] ? before + row[last] : to[last];
    };
    for (const ReplicaNeed& need : needs_[at(k)]) {
      work_ += static_cast<std::int64_t>(need.states.size()) * ways * (8 + end - first);
      for (const int s : need.states) {
        if (!need.mixed) relax(0, 0, s, s - need.offset);
        if (ways > 1) relax(1, need.mixed ? 0 : 1, s, s - need.offset);
      }
    }
  }
}

/// Whether some way's sum is at most so much, beside a stage that needs so much. `one_is_mixed`: one of the others may be of two kinds.
bool CoarseBound::is_within(double most, const ReplicaNeed& need, int first, int last, bool one_is_mixed) {
  for (int front = 0; front < std::max(1, most_stages_); ++front) {
    const int behind = most_stages_ > 0 ? most_stages_ - 1 - front : 0;
    for (const int way : {0, 1}) {
      if (way > 0 && !one_is_mixed) break;
      const int other = one_is_mixed ? 1 - way : 0, left = states_ - 1 - need.offset;
      // Each of the two with all that is left.
      if (of_front_.of(front, way, left)[first] + of_behind_.of(behind, other, left)[last] > most) continue;
      for (const int s : need.states)
        if (of_front_.of(front, way, states_ - 1 - s)[first] + of_behind_.of(behind, other, s - need.offset)[last] <= most) return true;
    }
  }
  return false;
}

void CoarseBound::mark(double most, std::vector<char>& alive) {
  solve_front();
  alive.assign(at(layers_) * at(layers_) * at(kinds_ + 1), 0);
  for (int k = 0; k < kinds_; ++k)
    for (int first = 0; first < layers_; ++first) {
      const double* row = &costs_[at_row(k, first)];
      for (int last = first + 1; last < ends_[at(k * layers_ + first)]; ++last) {
        const double left = most / rounding - row[last];
        if (left < 0) continue;
        char marks = alone_[at(k)] != 0 && is_within(left, needs_[at(k)].front(), first, last, family_.mixes()) ? pure_alive : 0;
        if (family_.mixes() && is_within(left, shared_[at(k)], first, last, false)) marks |= mixed_alive;
        char* here = &alive[(at(first) * at(layers_) + at(last - 1)) * at(kinds_ + 1)];
        here[0] |= marks, here[1 + at(k)] |= marks;
      }
    }
}

}  // namespace flotilla::search::rules
