// Which stages a node allows.
#include <algorithm>

#include "dp_relaxation.hpp"

namespace flotilla::search::rules {
/// Slower stages, or longer reductions, alone take a plan over the target.
void DpRelaxation::limit_maxima(double target) {
  most_pace_ = branch_node_.pace;
  most_reduction_ = branch_node_.reduction;
  const double time = value_.most_time(target, branch_node_.above_price);
  if (time == never) return;
  const double least = family_.measures().least_compute(layers_) + family_.measures().least_update();
  most_reduction_ = std::min(most_reduction_, time - least - (microbatches_ - 1) * branch_node_.above);
  if (microbatches_ > 1) most_pace_ = std::min(most_pace_, (time - least - branch_node_.above_reduction) / (microbatches_ - 1));
}

/// Whether there are devices for a stage of that team at all.
bool DpRelaxation::has_units(const StageGroup& stage_group) const {
  for (std::size_t r = 0; r < family_.resources(); ++r)
    if (stage_group.units[r] > family_.units(r)) return false;
  return true;
}

/// Stages that fit in memory with as many behind them as there must be at this pace. A stage of two kinds takes no less than one of
/// either, so either stands for it where there are enough devices of that kind.
void DpRelaxation::collect_moves() {
  alone_.assign(at(family_.kinds()), 0);
  for (const StageGroup& stage_group : family_.stage_groups())
    if (!stage_group.mixed()) alone_[at(stage_group.kind)] = has_units(stage_group) ? 1 : 0;
  behind_.assign(at(layers_ + 1), -1);
  behind_[at(layers_)] = 0;
  for (int first = layers_ - 1; first >= 0; --first)
    for (int stage_type = 0; stage_type < static_cast<int>(family_.stage_types().size()); ++stage_type) {
      const StageGroup& stage_group = family_.front(stage_type);
      if (stage_group.mixed() ? alone_[at(stage_group.kind)] + alone_[at(stage_group.other)] > 0 : alone_[at(stage_group.kind)] == 0)
        continue;
      for (int last = first + 1; last <= layers_ && family_.compute(stage_group, first, last) <= most_pace_; ++last) {
        const double time = family_.time(stage_group, first, last, twice());
        if (time > most_pace_ || !may_hold(first, last) || !family_.fits(stage_group, first, last, behind_[at(last)] + 1)) continue;
        const double reduction =
            stage_group.mixed() ? family_.reduction(stage_group, first, last) : family_.least_reduction(stage_group.kind, first, last);
        if (!add_move(first, last, stage_type, time, reduction)) continue;
        int& least = behind_[at(first)];
        if (least < 0 || behind_[at(last)] + 1 < least) least = behind_[at(last)] + 1;
      }
    }
}

bool DpRelaxation::may_hold(int first, int last) const {
  if (behind_[at(last)] < 0 || !p_.may_hold(first, last)) return false;
  if (twice() && first == 0 && last == layers_) return false;
  const int blocks = branch_node_.blocks < 0 ? -1 : p_.blocks(first, last);
  return blocks == branch_node_.blocks || blocks == branch_node_.blocks + 1;
}

/// A first look that lists nothing: false when that is all.
bool DpRelaxation::coarse_bound(double target, bool only) {
  const double update = family_.measures().least_update();
  CoarseBound stage_type{p_, family_, branch_node_, most_pace_, most_reduction_};
  work_ += stage_type.work();
  alone_ = stage_type.alone();
  behind_ = stage_type.behind();
  least_time_ = std::max(stage_type.least() + update, branch_node_.above_time);
  if (least_time_ == never) return false;
  bound_ = value_.least(least_time_, branch_node_.above_price, 0);
  if (only || bound_ >= target) return false;
  stage_type.mark(value_.most_time(target, branch_node_.above_price) - update, alive_);
  bound_ = never;
  return true;
}

/// Stages of one kind, and those of them that are left by time, and with multipliers; false when none are.
bool DpRelaxation::list(double target) {
  collect_moves();
  sort_moves();
  if (!filter(target)) return false;
  if (ways_ == 1) return charge(target, false);
  alive_.assign(at(layers_) * at(layers_) * at(family_.kinds() + 1), 0);
  mark_alive(mixed_alive);
  if (!charge(target, true)) return false;
  mark_alive(pure_alive);
  return true;
}

/// The moves that are left.
void DpRelaxation::mark_alive(char as) {
  const auto kinds = at(family_.kinds());
  for (const StageMove& move : moves_) {
    char* here = &alive_[(at(move.first) * at(layers_) + at(move.last - 1)) * (kinds + 1)];
    here[0] |= as, here[1 + at(family_.stage_groups()[at(move.stage_group)].kind)] |= as;
  }
}

/// Stages of two kinds, where either might be part of a plan below the target; and not with more tensor parallelism where less takes no
/// longer. The stages of one kind now get rings of their own.
void DpRelaxation::collect_mixed_moves() {
  const auto kinds = at(family_.kinds());
  const bool all_alone = std::ranges::count(alone_, 0) == 0;
  moves_.clear();
  for (int first = 0; first < layers_; ++first)
    for (int last = first + 1; last <= layers_; ++last) {
      const char* here = &alive_[(at(first) * at(layers_) + at(last - 1)) * (kinds + 1)];
      if ((here[0] != 0 || !all_alone) && may_hold(first, last)) add_stage_types(first, last, here + 1);
    }
}

/// Kinds of which there are enough devices for a stage must be alive alone, of a stage of two kinds both: it takes as long as the slower.
/// Where price counts, just the cheaper.
void DpRelaxation::add_stage_types(int first, int last, const char* alive) {
  const double share = family_.share(first, last);
  const auto& stage_types = family_.stage_types();
  least_.assign(stage_types.size(), never);
  possible_.resize(at(family_.kinds()));
  for (int k = 0; k < family_.kinds(); ++k)
    possible_[at(k)] =
        family_.measures().time(k, first, last, twice()) <= most_pace_ && family_.measures().fits(k, first, last, behind_[at(last)] + 1);
  const auto dead = [&](int kind) { return alone_[at(kind)] != 0 && (alive[kind] & mixed_alive) == 0; };
  // With multipliers it is dead where all that stand for it are.
  const auto stands = [&](int kind) { return alone_[at(kind)] == 0 || (alive[kind] & pure_alive) != 0; };
  for (std::size_t i = 0; i < stage_types.size(); ++i) {
    const StageType& stage_type = stage_types[i];
    if (!possible_[at(stage_type.kind)]) continue;
    if (stage_type.other < 0 ? alone_[at(stage_type.kind)] == 0 || (alive[stage_type.kind] & pure_alive) == 0
                             : !possible_[at(stage_type.other)])
      continue;
    if (stage_type.other >= 0 && (value_.by_price() ? dead(stage_type.cheaper) : dead(stage_type.kind) || dead(stage_type.other))) continue;
    if (stage_type.other >= 0 && !quick_ && !stands(stage_type.kind) && !stands(stage_type.other)) continue;
    const StageGroup& stage_group = family_.stage_groups()[at(stage_type.stage_groups.front())];
    const double time = family_.time(stage_group, first, last, twice()), reduction = family_.reduction(stage_group, first, last);
    if (stage_type.other >= 0 && sides_ == 1) {
      double before = never;
      for (const int smaller : stage_type.smaller)
        if (smaller >= 0) before = std::min(before, least_[at(smaller)]);
      const double now = weighted(time, reduction, share);
      least_[i] = std::min(before, now);
      if (now >= before) continue;
    }
    add_move(first, last, static_cast<int>(i), time, reduction);
  }
}

/// For every side that the stage behind may be on.
bool DpRelaxation::add_move(int first, int last, int stage_type, double time, double reduction) {
  if (reduction > most_reduction_) return false;
  const int number = family_.stage_types()[at(stage_type)].stage_groups.front();
  const StageGroup& stage_group = family_.stage_groups()[at(number)];
  const double share = family_.share(first, last);
  StageMove move{static_cast<std::int16_t>(first),
                 static_cast<std::int16_t>(last),
                 static_cast<std::int16_t>(stage_type),
                 static_cast<std::int16_t>(number),
                 node(first, stage_group.side),
                 node(last, 0),
                 time,
                 reduction,
                 0};
  if (sides_ == 1 || last == layers_) {
    move.weighted = weighted(time, reduction, share);
    moves_.push_back(move);
    return true;
  }
  bool any = false;
  for (int side = 0; side < sides_; ++side) {
    const double once = family_.sending(stage_group, side, last - 1) - family_.sending(stage_group, stage_group.side, last - 1);
    move.time = time + std::max(0.0, twice() && first == 0 ? 2 * once : once);
    if (move.time > most_pace_) continue;
    move.to = node(last, side);
    move.weighted = weighted(move.time, reduction, share) + family_.sending_more(side, stage_group, last);
    moves_.push_back(move);
    any = true;
  }
  return any;
}

void DpRelaxation::sort_moves() {
  work_ += static_cast<std::int64_t>(moves_.size()) * tuning::rules_steps_of_listing;
  std::vector<int> ends(at(layers_ + 2), 0);
  for (const StageMove& move : moves_) ++ends[at(move.last + 1)];
  for (int layer = 0; layer <= layers_; ++layer) ends[at(layer + 1)] += ends[at(layer)];
  std::vector<StageMove> sorted(moves_.size());
  for (const StageMove& move : moves_) sorted[at(ends[at(move.last)]++)] = move;
  moves_ = std::move(sorted);
}

}  // namespace flotilla::search::rules
