#include "rest.hpp"

#include <algorithm>

namespace flotilla::search::rules {
namespace {

constexpr int work_of_move = 5, work_of_run = 4;

}  // namespace

Rest::Rest(const Problem& p, const Family& family, const Box& box, const Value& value, double target, bool only_glance)
    : p_{p},
      family_{family},
      box_{box},
      value_{value},
      layers_{p.tables.layers()},
      sides_{family.sides()},
      nodes_{layers_ * sides_ + 1},
      microbatches_{family.microbatches()},
      most_stages_{box.depth == Depth::few ? Sweep::few_stages : 1},
      ways_{family.mixes() ? std::size_t{2} : std::size_t{1}} {
  limit_maxima(target);
  quick_ = !value.by_price() && Glance::suits(family);
  if (quick_ ? !glance(target, only_glance) : !list(target)) return;
  if (quick_ || ways_ > 1) {
    collect_mixed_moves();
    sort_moves();
    if (!filter(target) || (!quick_ && !charge(target, false))) return;
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
    for (const int team : family_.looks()[at(move.look)].teams) {
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
      if (few() && table == 1 && move.first > 0) continue;
      const int from_table = !few() || move.first == 0 ? table : table - 1;
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
    if (move.to != node || (few() && stages == 1 && move.first > 0)) continue;
    const Team& team = family_.teams()[at(move.team)];
    const int left = without(units, move.team);
    if (left < 0 || (team.mixed() && !mix)) continue;
    const int stages_left = move.first == 0 ? stages : stages - (few() ? 1 : 0);
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
