#include "dp_relaxation.hpp"

#include <algorithm>

namespace flotilla::search::rules {
DpRelaxation::DpRelaxation(const FormulaProblem& p, const PlanFamily& family, const BranchNode& branch_node, const ObjectiveBound& value,
                           double target, bool only_glance)
    : p_{p},
      family_{family},
      branch_node_{branch_node},
      value_{value},
      layers_{p.tables.layers()},
      sides_{family.sides()},
      nodes_{layers_ * sides_ + 1},
      microbatches_{family.microbatches()},
      most_stages_{branch_node.depth == Depth::few ? PathSweep::few_stages : 1},
      ways_{family.mixes() ? std::size_t{2} : std::size_t{1}} {
  limit_maxima(target);
  quick_ = !value.by_price() && CoarseBound::suits(family);
  if (quick_ ? !coarse_bound(target, only_glance) : !list(target)) return;
  if (quick_ || ways_ > 1) {
    collect_mixed_moves();
    sort_moves();
    if (!filter(target) || (!quick_ && !charge(target, false))) return;
  }
  list_stage_groups();
  number_states();
  const double update = family.measures().least_update();
  solve(time_);
  least_time_ = std::max(time(nodes_ - 1, all(), true, most_stages_) * rounding + update, branch_node.above_time);
  if (least_time_ == never) return;
  double product = 0;
  if (value.needs_prices()) {
    solve(price_);
    least_price_ = std::max(price(nodes_ - 1, all(), true, most_stages_) * rounding, branch_node.above_price);
    if (least_price_ > branch_node.price) return;
    solve(blend_);
    product = value_of_blend(blend(nodes_ - 1, all(), true, most_stages_));
  }
  bound_ = value.least(least_time_, least_price_, product);
}

double DpRelaxation::cost(Quantity what, const StageMove& move) const {
  return what == time_ ? move.weighted : what == price_ ? price_of(move) : least_price_ * move.weighted + least_time_ * price_of(move);
}

/// Of a plan whose value is below the target.
double DpRelaxation::most_blend(double target) const {
  if (target == never) return never;
  return (target * an_hour - least_price_ * family_.measures().least_update() + least_time_ * least_price_) / rounding;
}

/// Of time x price, at least, of plans whose stages' blends sum to this.
double DpRelaxation::value_of_blend(double blend) const {
  return blend * rounding + least_price_ * family_.measures().least_update() - least_time_ * least_price_;
}

/// Moves of a look become those of its teams.
void DpRelaxation::list_stage_groups() {
  std::vector<StageMove> all;
  all.reserve(moves_.size());
  for (StageMove move : moves_)
    for (const int stage_group : family_.stage_types()[at(move.stage_type)].stage_groups) {
      move.stage_group = static_cast<std::int16_t>(stage_group);
      all.push_back(move);
    }
  moves_ = std::move(all);
}

void DpRelaxation::number_states() {
  const std::size_t resources = family_.resources();
  for (std::size_t r = 0; r < resources; ++r) strides_[r] = states_, states_ *= family_.units(r) + 1;
  for (const StageGroup& stage_group : family_.stage_groups()) {
    int offset = 0;
    for (std::size_t r = 0; r < resources; ++r) offset += stage_group.units[r] * strides_[r];
    offsets_.push_back(offset);
    // Runs along the first resource, for all units of the others that are enough.
    std::vector<StateRun> runs{{stage_group.units[0], family_.units(0) + 1 - stage_group.units[0]}};
    if (runs.front().length <= 0) runs.clear();
    for (std::size_t r = 1; r < resources; ++r) {
      std::vector<StateRun> longer;
      for (int u = stage_group.units[r]; u <= family_.units(r); ++u)
        for (const StateRun& run : runs) longer.push_back({run.start + u * strides_[r], run.length});
      runs = std::move(longer);
    }
    runs_.push_back(std::move(runs));
  }
}

int DpRelaxation::without(int units, int stage_group) const {
  for (std::size_t r = 0; r < family_.resources(); ++r)
    if (units / strides_[r] % (family_.units(r) + 1) < family_.stage_groups()[at(stage_group)].units[r]) return -1;
  return units - offsets_[at(stage_group)];
}

bool DpRelaxation::at_most(int units, int others) const {
  for (std::size_t r = 0; r < family_.resources(); ++r) {
    const int size = family_.units(r) + 1;
    if (units / strides_[r] % size > others / strides_[r] % size) return false;
  }
  return true;
}

void DpRelaxation::solve(Quantity what) {
  std::vector<double>& best = tables_[what];
  std::vector<std::int64_t> work(runs_.size(), tuning::rules_steps_of_a_move);
  for (std::size_t t = 0; t < runs_.size(); ++t)
    for (const StateRun& run : runs_[t]) work[t] += static_cast<std::int64_t>(ways_) * (run.length + tuning::rules_steps_of_a_run);
  best.assign(at(most_stages_) * ways_ * at(nodes_) * at(states_), never);
  for (int table = 1; table <= most_stages_; ++table) {
    for (std::size_t mix = 0; mix < ways_; ++mix)
      std::fill_n(best.begin() + static_cast<std::ptrdiff_t>(spot(0, 0, mix > 0, table)), sides_ * states_, 0.0);
    for (const StageMove& move : moves_) {
      if (few() && table == 1 && move.first > 0) continue;
      const int from_table = !few() || move.first == 0 ? table : table - 1;
      const double more = cost(what, move);
      const int offset = offsets_[at(move.stage_group)];
      work_ += work[at(move.stage_group)];
      const auto relax = [&](bool from_mix, bool to_mix) {
        const double* from_all = best.data() + spot(move.from, 0, from_mix, from_table) - offset;
        double* to_all = best.data() + spot(move.to, 0, to_mix, table);
        for (const StateRun& run : runs_[at(move.stage_group)]) {
          const double* __restrict from = from_all + run.start;
          double* __restrict to = to_all + run.start;
          for (int s = 0; s < run.length; ++s) to[s] = from[s] + more < to[s] ? from[s] + more : to[s];
        }
      };
      const bool mixed = family_.stage_groups()[at(move.stage_group)].mixed();
      if (!mixed) relax(false, false);
      if (ways_ > 1) relax(!mixed, true);
    }
  }
}

double DpRelaxation::least_time_below(double price) const {
  const double blended = blend(nodes_ - 1, all(), true, most_stages_) * rounding + least_price_ * family_.measures().least_update();
  return std::max(least_time_, (blended - least_time_ * price) / least_price_);
}

bool DpRelaxation::find_step(Quantity what, DpState& node, int& units, bool& mix, int& stages, RelaxedPath& path) const {
  const double wanted = of(what, node, units, mix, stages);
  for (const StageMove& move : moves_) {
    if (move.to != node || (few() && stages == 1 && move.first > 0)) continue;
    const StageGroup& stage_group = family_.stage_groups()[at(move.stage_group)];
    const int left = without(units, move.stage_group);
    if (left < 0 || (stage_group.mixed() && !mix)) continue;
    const int stages_left = move.first == 0 ? stages : stages - (few() ? 1 : 0);
    const bool mix_left = mix && !stage_group.mixed();
    if (of(what, move.from, left, mix_left, stages_left) + cost(what, move) > wanted * (1 + 1e-12)) continue;
    path.steps.push_back({move.first, move.last, move.stage_group});
    const double share = family_.share(move.first, move.last);
    path.sum += move.time;
    path.price += stage_group.price;
    path.pace = std::max(path.pace, move.time);
    path.reduction = std::max(path.reduction, move.reduction);
    path.mean_pace += share * std::max(move.time, branch_node_.above);
    path.mean_reduction += share * std::max(move.reduction, branch_node_.above_reduction);
    node = move.from;
    units = left;
    mix = mix_left;
    stages = stages_left;
    return true;
  }
  return false;
}

std::optional<RelaxedPath> DpRelaxation::path() const {
  if (bound_ == never || tables_[time_].empty()) return std::nullopt;
  const Quantity what = value_.by_price() ? blend_ : time_;
  RelaxedPath path;
  int units = all(), stages = most_stages_;
  bool mix = ways_ > 1;
  for (DpState node = nodes_ - 1; path.steps.empty() || path.steps.back().first > 0;)
    if (!find_step(what, node, units, mix, stages, path)) return std::nullopt;
  std::ranges::reverse(path.steps);
  return path;
}

}  // namespace flotilla::search::rules
