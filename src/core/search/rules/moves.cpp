// Which stages a box allows.
#include <algorithm>

#include "rest.hpp"

namespace flotilla::search::rules {
namespace {

constexpr int work_of_listing = 150;

}  // namespace

/// Slower stages, or longer reductions, alone take a plan over the target.
void Rest::limit_maxima(double target) {
  most_pace_ = box_.pace;
  most_reduction_ = box_.reduction;
  const double time = value_.most_time(target, box_.above_price);
  if (time == never) return;
  const double least = family_.measures().least_compute(layers_) + family_.measures().least_update();
  most_reduction_ = std::min(most_reduction_, time - least - (microbatches_ - 1) * box_.above);
  if (microbatches_ > 1) most_pace_ = std::min(most_pace_, (time - least - box_.above_reduction) / (microbatches_ - 1));
}

/// Whether there are devices for a stage of that team at all.
bool Rest::has_units(const Team& team) const {
  for (std::size_t r = 0; r < family_.resources(); ++r)
    if (team.units[r] > family_.units(r)) return false;
  return true;
}

/// Stages that fit in memory with as many behind them as there must be at this pace. A stage of two kinds takes no less than one of
/// either, so either stands for it where there are enough devices of that kind.
void Rest::collect_moves() {
  alone_.assign(at(family_.kinds()), 0);
  for (const Team& team : family_.teams())
    if (!team.mixed()) alone_[at(team.kind)] = has_units(team) ? 1 : 0;
  behind_.assign(at(layers_ + 1), -1);
  behind_[at(layers_)] = 0;
  for (int first = layers_ - 1; first >= 0; --first)
    for (int look = 0; look < static_cast<int>(family_.looks().size()); ++look) {
      const Team& team = family_.front(look);
      if (team.mixed() ? alone_[at(team.kind)] + alone_[at(team.other)] > 0 : alone_[at(team.kind)] == 0) continue;
      for (int last = first + 1; last <= layers_ && family_.compute(team, first, last) <= most_pace_; ++last) {
        const double time = family_.time(team, first, last, twice());
        if (time > most_pace_ || !may_hold(first, last) || !family_.fits(team, first, last, behind_[at(last)] + 1)) continue;
        const double reduction = team.mixed() ? family_.reduction(team, first, last) : family_.least_reduction(team.kind, first, last);
        if (!add_move(first, last, look, time, reduction)) continue;
        int& least = behind_[at(first)];
        if (least < 0 || behind_[at(last)] + 1 < least) least = behind_[at(last)] + 1;
      }
    }
}

bool Rest::may_hold(int first, int last) const {
  if (behind_[at(last)] < 0) return false;
  if (twice() && first == 0 && last == layers_) return false;
  const int blocks = box_.blocks < 0 ? -1 : p_.blocks(first, last);
  return blocks == box_.blocks || blocks == box_.blocks + 1;
}

/// A first look that lists nothing: false when that is all.
bool Rest::glance(double target, bool only) {
  const double update = family_.measures().least_update();
  Glance look{p_, family_, box_, most_pace_, most_reduction_};
  work_ += look.work();
  alone_ = look.alone();
  behind_ = look.behind();
  least_time_ = std::max(look.least() + update, box_.above_time);
  if (least_time_ == never) return false;
  bound_ = value_.least(least_time_, box_.above_price, 0);
  if (only || bound_ >= target) return false;
  look.mark(value_.most_time(target, box_.above_price) - update, alive_);
  bound_ = never;
  return true;
}

/// Stages of one kind, and those of them that are left by time, and with tolls; false when none are.
bool Rest::list(double target) {
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
void Rest::mark_alive(char as) {
  const auto kinds = at(family_.kinds());
  for (const Move& move : moves_) {
    char* here = &alive_[(at(move.first) * at(layers_) + at(move.last - 1)) * (kinds + 1)];
    here[0] |= as, here[1 + at(family_.teams()[at(move.team)].kind)] |= as;
  }
}

/// Stages of two kinds, where either might be part of a plan below the target; and not with more tensor parallelism where less takes no
/// longer. The stages of one kind now get rings of their own.
void Rest::collect_mixed_moves() {
  const auto kinds = at(family_.kinds());
  const bool all_alone = std::ranges::count(alone_, 0) == 0;
  moves_.clear();
  for (int first = 0; first < layers_; ++first)
    for (int last = first + 1; last <= layers_; ++last) {
      const char* here = &alive_[(at(first) * at(layers_) + at(last - 1)) * (kinds + 1)];
      if ((here[0] != 0 || !all_alone) && may_hold(first, last)) add_looks(first, last, here + 1);
    }
}

/// Kinds of which there are enough devices for a stage must be alive alone, of a stage of two kinds both: it takes as long as the slower.
/// Where price counts, just the cheaper.
void Rest::add_looks(int first, int last, const char* alive) {
  const double share = family_.share(first, last);
  const auto& looks = family_.looks();
  least_.assign(looks.size(), never);
  possible_.resize(at(family_.kinds()));
  for (int k = 0; k < family_.kinds(); ++k)
    possible_[at(k)] =
        family_.measures().time(k, first, last, twice()) <= most_pace_ && family_.measures().fits(k, first, last, behind_[at(last)] + 1);
  const auto dead = [&](int kind) { return alone_[at(kind)] != 0 && (alive[kind] & mixed_alive) == 0; };
  // With tolls it is dead where all that stand for it are.
  const auto stands = [&](int kind) { return alone_[at(kind)] == 0 || (alive[kind] & pure_alive) != 0; };
  for (std::size_t i = 0; i < looks.size(); ++i) {
    const Look& look = looks[i];
    if (!possible_[at(look.kind)]) continue;
    if (look.other < 0 ? alone_[at(look.kind)] == 0 || (alive[look.kind] & pure_alive) == 0 : !possible_[at(look.other)]) continue;
    if (look.other >= 0 && (value_.by_price() ? dead(look.cheaper) : dead(look.kind) || dead(look.other))) continue;
    if (look.other >= 0 && !quick_ && !stands(look.kind) && !stands(look.other)) continue;
    const Team& team = family_.teams()[at(look.teams.front())];
    const double time = family_.time(team, first, last, twice()), reduction = family_.reduction(team, first, last);
    if (look.other >= 0 && sides_ == 1) {
      double before = never;
      for (const int smaller : look.smaller)
        if (smaller >= 0) before = std::min(before, least_[at(smaller)]);
      const double now = weighted(time, reduction, share);
      least_[i] = std::min(before, now);
      if (now >= before) continue;
    }
    add_move(first, last, static_cast<int>(i), time, reduction);
  }
}

/// For every side that the stage behind may be on.
bool Rest::add_move(int first, int last, int look, double time, double reduction) {
  if (reduction > most_reduction_) return false;
  const int number = family_.looks()[at(look)].teams.front();
  const Team& team = family_.teams()[at(number)];
  const double share = family_.share(first, last);
  Move move{static_cast<std::int16_t>(first),
            static_cast<std::int16_t>(last),
            static_cast<std::int16_t>(look),
            static_cast<std::int16_t>(number),
            node(first, team.side),
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
    const double once = family_.sending(team, side, last - 1) - family_.sending(team, team.side, last - 1);
    move.time = time + std::max(0.0, twice() && first == 0 ? 2 * once : once);
    if (move.time > most_pace_) continue;
    move.to = node(last, side);
    move.weighted = weighted(move.time, reduction, share) + family_.sending_more(side, team, last);
    moves_.push_back(move);
    any = true;
  }
  return any;
}

void Rest::sort_moves() {
  work_ += static_cast<std::int64_t>(moves_.size()) * work_of_listing;
  std::vector<int> ends(at(layers_ + 2), 0);
  for (const Move& move : moves_) ++ends[at(move.last + 1)];
  for (int layer = 0; layer <= layers_; ++layer) ends[at(layer + 1)] += ends[at(layer)];
  std::vector<Move> sorted(moves_.size());
  for (const Move& move : moves_) sorted[at(ends[at(move.last)]++)] = move;
  moves_ = std::move(sorted);
}

}  // namespace flotilla::search::rules
