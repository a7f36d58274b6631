#include "rest.hpp"

#include <algorithm>

namespace flotilla::search::rules {
namespace {

constexpr double rounding = 1 - 1e-12;
constexpr double an_hour = 3600;
constexpr int work_of_move = 5, work_of_run = 4, work_of_listing = 150;

}  // namespace

Rest::Rest(const Problem& p, const Family& family, const Box& box, const Value& value, double target)
    : p_{p},
      family_{family},
      box_{box},
      value_{value},
      layers_{p.tables.layers()},
      sides_{family.sides()},
      nodes_{layers_ * sides_ + 1},
      microbatches_{family.microbatches()},
      most_stages_{box.deep ? 1 : Sweep::few_stages} {
  list_looks();
  limit_maxima(target);
  collect_moves();
  sort_moves();
  if (!filter(target)) return;
  if (ways_ > 1) {
    collect_mixed_moves();
    sort_moves();
    if (!filter(target)) return;
  }
  list_teams();
  number_states();
  const double update = family.measures().least_update();
  solve(time_);
  least_time_ = std::max(time(nodes_ - 1, all(), true, most_stages_) * rounding + update, box.above_time);
  if (least_time_ == never) return;
  double product = 0;
  if (value.needs_prices()) {
    solve(price_);
    least_price_ = std::max(price(nodes_ - 1, all(), true, most_stages_) * rounding, box.above_price);
    if (least_price_ > box.price) return;
    solve(blend_);
    product = value_of_blend(blend(nodes_ - 1, all(), true, most_stages_));
  }
  bound_ = value.least(least_time_, least_price_, product);
}

void Rest::list_looks() {
  const auto& teams = family_.teams();
  int before = -1;
  for (int t = 0; t < static_cast<int>(teams.size()); ++t) {
    const int look = family_.look(teams[at(t)]);
    if (look != before) looks_.emplace_back();
    before = look;
    auto& alike = looks_.back();
    alike.push_back(t);
    if (teams[at(t)].price < teams[at(alike.front())].price) std::swap(alike.front(), alike.back());
    if (teams[at(t)].mixed()) ways_ = 2;
  }
}

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
/// either, so for now those stand for it of which there are enough devices.
void Rest::collect_moves() {
  alone_.assign(at(family_.kinds()), false);
  for (const Team& team : family_.teams())
    if (!team.mixed()) alone_[at(team.kind)] = has_units(team);
  behind_.assign(at(layers_ + 1), -1);
  behind_[at(layers_)] = 0;
  for (int first = layers_ - 1; first >= 0; --first)
    for (int look = 0; look < static_cast<int>(looks_.size()); ++look) {
      const Team& team = family_.teams()[at(looks_[at(look)].front())];
      if (team.mixed() ? alone_[at(team.kind)] || alone_[at(team.other)] : !alone_[at(team.kind)]) continue;
      for (int last = first + 1; last <= layers_ && family_.compute(team, first, last) <= most_pace_; ++last) {
        if (!may_hold(first, last) || !family_.fits(team, first, last, behind_[at(last)] + 1)) continue;
        const double reduction = team.mixed() ? family_.reduction(team, first, last) : family_.least_reduction(team.kind, first, last);
        if (!add_move(first, last, look, reduction)) continue;
        int& least = behind_[at(first)];
        if (least < 0 || behind_[at(last)] + 1 < least) least = behind_[at(last)] + 1;
      }
    }
}

bool Rest::may_hold(int first, int last) const {
  if (behind_[at(last)] < 0) return false;
  if (box_.deep && first == 0 && last == layers_) return false;
  const int blocks = box_.blocks < 0 ? -1 : p_.blocks(first, last);
  return blocks == box_.blocks || blocks == box_.blocks + 1;
}

/// Stages of two kinds, where either might be part of a plan below the target; and not with more tensor parallelism where less takes no
/// longer. The stages of one kind now get rings of their own.
void Rest::collect_mixed_moves() {
  const auto kinds = at(family_.kinds());
  const bool all_alone = std::ranges::count(alone_, false) == 0;
  std::vector<std::vector<bool>> alive(at(layers_) * at(layers_ + 1));  // by layers and kind; empty: none
  for (const Move& move : moves_) {
    auto& here = alive[at(move.first) * at(layers_ + 1) + at(move.last)];
    here.resize(kinds);
    here[at(family_.teams()[at(move.team)].kind)] = true;
  }
  moves_.clear();
  const std::vector<bool> none(kinds, false);
  for (int first = 0; first < layers_; ++first)
    for (int last = first + 1; last <= layers_; ++last) {
      const auto& here = alive[at(first) * at(layers_ + 1) + at(last)];
      if ((here.empty() && all_alone) || !may_hold(first, last)) continue;
      add_looks(first, last, here.empty() ? none : here);
    }
}

/// A stage of two kinds takes as long as the slower, but may cost less than the dearer.
bool Rest::cannot_mix(const Team& team, bool dead, bool other_dead) const {
  if (!value_.by_price()) return dead || other_dead;
  return family_.price(team.kind) <= family_.price(team.other) ? dead : other_dead;
}

void Rest::add_looks(int first, int last, const std::vector<bool>& alive) {
  const auto kinds = at(family_.kinds());
  std::vector<double> least(kinds * kinds, never);
  for (int look = 0; look < static_cast<int>(looks_.size()); ++look) {
    const Team& team = family_.teams()[at(looks_[at(look)].front())];
    const auto dead = [&](int kind) { return alone_[at(kind)] && !alive[at(kind)]; };
    if (!team.mixed() ? dead(team.kind) || !alone_[at(team.kind)] : cannot_mix(team, dead(team.kind), dead(team.other))) continue;
    if (family_.compute(team, first, last) > most_pace_ || !family_.fits(team, first, last, behind_[at(last)] + 1)) continue;
    const double reduction = family_.reduction(team, first, last);
    if (team.mixed() && sides_ == 1) {
      const auto known = [&](int kind, int other) -> double& { return least[at(kind) * kinds + at(other)]; };
      double before = never;
      if (team.kind > 0 && family_.same_group(team.kind, team.kind - 1)) before = known(team.kind - 1, team.other);
      if (family_.same_group(team.other, team.other - 1)) before = std::min(before, known(team.kind, team.other - 1));
      const double now = weighted(family_.time(team, first, last, box_.deep), reduction, family_.share(first, last));
      known(team.kind, team.other) = std::min(before, now);
      if (now >= before) continue;
    }
    add_move(first, last, look, reduction);
  }
}

/// For every side that the stage behind may be on.
bool Rest::add_move(int first, int last, int look, double reduction) {
  const int number = looks_[at(look)].front();
  const Team& team = family_.teams()[at(number)];
  const double least = family_.time(team, first, last, box_.deep);
  if (least > most_pace_) return false;
  const double share = family_.share(first, last);
  if (reduction > most_reduction_) return false;
  Move move{static_cast<std::int16_t>(first),
            static_cast<std::int16_t>(last),
            static_cast<std::int16_t>(look),
            static_cast<std::int16_t>(number),
            node(first, team.side),
            node(last, 0),
            least,
            reduction,
            0};
  if (sides_ == 1 || last == layers_) {
    move.weighted = weighted(least, reduction, share);
    moves_.push_back(move);
    return true;
  }
  bool any = false;
  for (int side = 0; side < sides_; ++side) {
    const double once = family_.sending(team, side, last - 1) - family_.sending(team, team.side, last - 1);
    move.time = least + std::max(0.0, box_.deep && first == 0 ? 2 * once : once);
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

double Rest::cost(What what, const Move& move) const {
  return what == time_ ? move.weighted : what == price_ ? price_of(move) : least_price_ * move.weighted + least_time_ * price_of(move);
}

/// Of a plan whose value is below the target.
double Rest::most_blend(double target) const {
  if (target == never) return never;
  return (target * an_hour - least_price_ * family_.measures().least_update() + least_time_ * least_price_) / rounding;
}

/// Of time x price, at least, of plans whose stages' blends sum to this.
double Rest::value_of_blend(double blend) const {
  return blend * rounding + least_price_ * family_.measures().least_update() - least_time_ * least_price_;
}

/// Moves of a look become those of its teams.
void Rest::list_teams() {
  std::vector<Move> all;
  all.reserve(moves_.size());
  for (Move move : moves_)
    for (const int team : looks_[at(move.look)]) {
      move.team = static_cast<std::int16_t>(team);
      all.push_back(move);
    }
  moves_ = std::move(all);
}

void Rest::number_states() {
  const std::size_t resources = family_.resources();
  for (std::size_t r = 0; r < resources; ++r) strides_[r] = states_, states_ *= family_.units(r) + 1;
  for (const Team& team : family_.teams()) {
    int offset = 0;
    for (std::size_t r = 0; r < resources; ++r) offset += team.units[r] * strides_[r];
    offsets_.push_back(offset);
    // Runs along the first resource, for all units of the others that are enough.
    std::vector<Run> runs{{team.units[0], family_.units(0) + 1 - team.units[0]}};
    if (runs.front().length <= 0) runs.clear();
    for (std::size_t r = 1; r < resources; ++r) {
      std::vector<Run> longer;
      for (int u = team.units[r]; u <= family_.units(r); ++u)
        for (const Run& run : runs) longer.push_back({run.start + u * strides_[r], run.length});
      runs = std::move(longer);
    }
    runs_.push_back(std::move(runs));
  }
}

int Rest::without(int units, int team) const {
  for (std::size_t r = 0; r < family_.resources(); ++r)
    if (units / strides_[r] % (family_.units(r) + 1) < family_.teams()[at(team)].units[r]) return -1;
  return units - offsets_[at(team)];
}

bool Rest::at_most(int units, int others) const {
  for (std::size_t r = 0; r < family_.resources(); ++r) {
    const int size = family_.units(r) + 1;
    if (units / strides_[r] % size > others / strides_[r] % size) return false;
  }
  return true;
}

void Rest::solve(What what) {
  std::vector<double>& best = tables_[what];
  std::vector<std::int64_t> work(runs_.size(), work_of_move);
  for (std::size_t t = 0; t < runs_.size(); ++t)
    for (const Run& run : runs_[t]) work[t] += static_cast<std::int64_t>(ways_) * (run.length + work_of_run);
  best.assign(at(most_stages_) * ways_ * at(nodes_) * at(states_), never);
  for (int table = 1; table <= most_stages_; ++table) {
    for (std::size_t mix = 0; mix < ways_; ++mix)
      std::fill_n(best.begin() + static_cast<std::ptrdiff_t>(spot(0, 0, mix > 0, table)), sides_ * states_, 0.0);
    for (const Move& move : moves_) {
      if (!box_.deep && table == 1 && move.first > 0) continue;
      const int from_table = box_.deep ? 1 : move.first == 0 ? table : table - 1;
      const double more = cost(what, move);
      const int offset = offsets_[at(move.team)];
      work_ += work[at(move.team)];
      const auto relax = [&](bool from_mix, bool to_mix) {
        const double* from_all = best.data() + spot(move.from, 0, from_mix, from_table) - offset;
        double* to_all = best.data() + spot(move.to, 0, to_mix, table);
        for (const Run& run : runs_[at(move.team)]) {
          const double* __restrict from = from_all + run.start;
          double* __restrict to = to_all + run.start;
          for (int s = 0; s < run.length; ++s) to[s] = from[s] + more < to[s] ? from[s] + more : to[s];
        }
      };
      const bool mixed = family_.teams()[at(move.team)].mixed();
      if (!mixed) relax(false, false);
      if (ways_ > 1) relax(!mixed, true);
    }
  }
}

double Rest::least_time_below(double price) const {
  const double blended = blend(nodes_ - 1, all(), true, most_stages_) * rounding + least_price_ * family_.measures().least_update();
  return std::max(least_time_, (blended - least_time_ * price) / least_price_);
}

bool Rest::find_step(What what, Node& node, int& units, bool& mix, int& stages, Path& path) const {
  const double wanted = of(what, node, units, mix, stages);
  for (const Move& move : moves_) {
    if (move.to != node || (!box_.deep && stages == 1 && move.first > 0)) continue;
    const Team& team = family_.teams()[at(move.team)];
    const int left = without(units, move.team);
    if (left < 0 || (team.mixed() && !mix)) continue;
    const int stages_left = move.first == 0 ? stages : stages - (box_.deep ? 0 : 1);
    const bool mix_left = mix && !team.mixed();
    if (of(what, move.from, left, mix_left, stages_left) + cost(what, move) > wanted * (1 + 1e-12)) continue;
    path.steps.push_back({move.first, move.last, move.team});
    const double share = family_.share(move.first, move.last);
    path.sum += move.time;
    path.price += team.price;
    path.pace = std::max(path.pace, move.time);
    path.reduction = std::max(path.reduction, move.reduction);
    path.mean_pace += share * std::max(move.time, box_.above);
    path.mean_reduction += share * std::max(move.reduction, box_.above_reduction);
    node = move.from;
    units = left;
    mix = mix_left;
    stages = stages_left;
    return true;
  }
  return false;
}

std::optional<Path> Rest::path() const {
  if (bound_ == never || tables_[time_].empty()) return std::nullopt;
  const What what = value_.by_price() ? blend_ : time_;
  Path path;
  int units = all(), stages = most_stages_;
  bool mix = ways_ > 1;
  for (Node node = nodes_ - 1; path.steps.empty() || path.steps.back().first > 0;)
    if (!find_step(what, node, units, mix, stages, path)) return std::nullopt;
  std::ranges::reverse(path.steps);
  return path;
}

}  // namespace flotilla::search::rules
