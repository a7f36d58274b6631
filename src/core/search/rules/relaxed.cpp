#include "relaxed.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::search::rules {
namespace {

constexpr double rounding = 1 - 1e-12;
constexpr double bucket = 5e8;  // bytes: of simulate::sailor_all_reduce
constexpr double an_hour = 3600;

}  // namespace

RelaxedSearch::RelaxedSearch(const Problem& p, const Links& links, const std::vector<Measures>& measures, RelaxedOptions options)
    : p_{p},
      links_{links},
      measures_{measures},
      options_{options},
      groups_{p.groups.size()},
      resources_{p.groups.size() + (links.by_place ? p.entries.size() : 0)} {
  add_teams();
  new_used_.resize(resources_);
  for (const Entry& e : p.entries)
    for (const Entry& f : p.entries)
      if (e.zone != f.zone) least_egress_ = std::min(least_egress_, p.tables.egress_price(e.zone, f.zone).value_or(0));
  if (least_egress_ == never) least_egress_ = 0;
  add_roots();
}

void RelaxedSearch::add_teams() {
  teams_of_.resize(p_.kinds.size());
  const auto add = [&](int kind, int place) {
    teams_of_[at(kind)].push_back(static_cast<int>(teams_.size()));
    teams_.push_back({{kind}, place});
  };
  if (links_.by_place)
    for (int place = 0; place < static_cast<int>(links_.places.size()); ++place) add(links_.places[at(place)].kind, place);
  for (int k = 0; k < static_cast<int>(p_.kinds.size()); ++k)
    if (!links_.by_place || p_.kinds[at(k)].entries.size() > 1) add(k, links_.by_place ? spread : anywhere);
  singles_ = teams_.size();
}

int RelaxedSearch::intern(const std::vector<int>& kinds) {
  const auto [found, fresh] = team_numbers_.try_emplace(kinds, static_cast<int>(teams_.size()));
  if (fresh) teams_.push_back({kinds, anywhere});
  return found->second;
}

/// Replicas beyond the least that need the same number of microbatches add nothing.
void RelaxedSearch::add_roots() {
  for (std::size_t i = 0; i < measures_.size(); ++i) {
    if (measures_[i].paces() == 0) continue;
    const int m = measures_[i].sequences(), steps = (p_.request.global_batch + m - 1) / m;
    for (int n = steps, before = 0; n >= 1; --n) {
      const int replicas = (steps + n - 1) / n;
      if (replicas == before || replicas > p_.devices) continue;
      before = replicas;
      const int real = (p_.request.global_batch + m * replicas - 1) / (m * replicas);
      roots_.push_back({static_cast<int>(i), replicas, real, {}});
      Label root{};
      root.parent = root.team = root.mixed = -1;
      root.root = static_cast<int>(roots_.size()) - 1;
      root.first_layer = static_cast<std::int16_t>(p_.tables.layers());
      labels_.push_back(root);
      used_.resize(used_.size() + resources_, 0);
      const double least = bound(labels_.back(), roots_.back());
      if (least < never) starts_.push_back({least, 0, static_cast<int>(labels_.size()) - 1});
    }
  }
  std::ranges::sort(starts_, [](const Open& x, const Open& y) { return y < x; });
  for (const Open& start : starts_) queue_.push(start);
}

std::optional<RelaxedPlan> RelaxedSearch::next(const std::function<bool()>& stop) {
  for (std::int64_t steps = 0; !queue_.empty() && queue_.top().bound < most_; ++steps) {
    if (static_cast<std::int64_t>(labels_.size()) > options_.most_partial_plans || (stop && steps % 64 == 0 && stop())) {
      cut_short_ = true;
      return std::nullopt;
    }
    const Open top = queue_.top();
    queue_.pop();
    if (labels_[at(top.label)].dead) continue;
    if (labels_[at(top.label)].first_layer == 0) return plan_of(top.label, top.bound);
    expand(top.label);
  }
  return std::nullopt;
}

/// Back to where nothing is laid.
void RelaxedSearch::forget() {
  labels_.resize(roots_.size());
  used_.resize(roots_.size() * resources_);
  alike_.clear();
  queue_ = {};
}

std::vector<RelaxedPlan> RelaxedSearch::dive(int width) {
  std::vector<RelaxedPlan> plans;
  if (!can_dive()) return plans;
  const Open top = starts_[dived_++];
  std::vector<std::vector<std::pair<double, int>>> by_layer(at(p_.tables.layers() + 1));
  by_layer.back().emplace_back(top.bound, top.label);
  for (std::size_t layer = by_layer.size() - 1; layer > 0; --layer) {
    auto& here = by_layer[layer];
    std::ranges::sort(here);
    std::vector<int> taken(teams_.size(), 0);
    for (std::size_t i = 0; i < here.size(); ++i) {
      const int team = labels_[at(here[i].second)].team;
      if (team >= 0 && ++taken[at(team)] > width) continue;
      if (labels_[at(here[i].second)].dead) continue;
      const auto before = labels_.size();
      labels_[at(here[i].second)].dead = true;
      expand(here[i].second);
      for (std::size_t fresh = before; fresh < labels_.size(); ++fresh)
        by_layer[at(labels_[fresh].first_layer)].emplace_back(bound(labels_[fresh], roots_[at(labels_[fresh].root)]),
                                                              static_cast<int>(fresh));
    }
  }
  std::ranges::sort(by_layer.front());
  for (std::size_t i = 0; i < std::min(by_layer.front().size(), at(width)); ++i)
    plans.push_back(plan_of(by_layer.front()[i].second, by_layer.front()[i].first));
  forget();
  return plans;
}

void RelaxedSearch::expand(int label) {
  const Label l = labels_[at(label)];
  const Measures& measures = measures_[at(roots_[at(l.root)].measures)];
  for (int first = l.first_layer - 1; first >= 0; --first) {
    choices(measures, first, l.first_layer, l.stages + 1);
    if (choices_.empty()) return;  // what does not fit now fits no better with more layers
    const auto all = choices_;
    for (const Choice& choice : all) {
      const bool both_spread = l.stages > 0 && teams_[at(l.team)].is_spread() && teams_[at(choice.team)].is_spread();
      lay(label, first, l.first_layer, choice, !both_spread);
      if (both_spread) lay(label, first, l.first_layer, choice, true);
    }
  }
}

/// Every kind alone; and for every time that a kind takes, of each group the least degree that is no slower, together.
void RelaxedSearch::choices(const Measures& measures, int first, int last, int from_end) {
  choices_.clear();
  std::vector<std::pair<double, int>> kinds;
  for (int k = 0; k < static_cast<int>(p_.kinds.size()); ++k)
    if (measures.fits(k, first, last, from_end)) kinds.emplace_back(measures.compute(k, first, last), k);
  for (const auto& [time, k] : kinds)
    for (const int team : teams_of_[at(k)]) choices_.push_back({team, time});
  if (groups_ < 2 || !options_.mix_types || p_.request.restrictions.one_device_type) return;
  std::ranges::sort(kinds);
  if (p_.request.restrictions.one_tensor_degree_per_stage) return together_at_one_degree(kinds);
  std::vector<int> least(groups_, -1), together;
  int before = -1;
  for (const auto& [time, k] : kinds) {
    int& kind = least[at(p_.kinds[at(k)].group)];
    if (kind < 0 || p_.kinds[at(k)].tensor < p_.kinds[at(kind)].tensor) kind = k;
    together.clear();
    for (const int one : least)
      if (one >= 0) together.push_back(one);
    if (together.size() < 2) continue;
    const int team = intern(together);
    if (team != before) choices_.push_back({team, time});
    before = team;
  }
}

/// For every degree and time, the groups that have that degree at it.
void RelaxedSearch::together_at_one_degree(const std::vector<std::pair<double, int>>& kinds) {
  std::map<int, std::vector<int>> by_degree;
  for (const auto& [time, k] : kinds) {
    auto& together = by_degree[p_.kinds[at(k)].tensor];
    together.insert(std::ranges::upper_bound(together, k), k);
    if (together.size() > 1) choices_.push_back({intern(together), time});
  }
}

/// Least time from the slowest replica of the one team to its neighbour in the other, of what `layer` puts out.
double RelaxedSearch::sending(const Measures& measures, int team, int other, int layer, bool apart) const {
  const Team &x = teams_[at(team)], &y = teams_[at(other)];
  if (x.mixed() || y.mixed()) return measures.least_link(layer);
  if (x.placed() && y.placed()) return measures.link_direct(x.place, y.place, layer);
  // A stage that is spread has replicas in several zones, so one of them is not where a stage of one entry is.
  const bool crosses = x.place != anywhere && (x.placed() || y.placed() || apart);
  return crosses ? measures.link_apart(x.kinds.front(), y.kinds.front(), layer) : measures.link(x.kinds.front(), y.kinds.front(), layer);
}

/// USD of what is sent between the stages, there and back, at least.
double RelaxedSearch::egress_between(const Label& from, int team, int last, bool apart) const {
  const Team &x = teams_[at(team)], &y = teams_[at(from.team)];
  if (!p_.in_usd() || x.mixed() || y.mixed() || x.place == anywhere) return 0;
  const Root& root = roots_[at(from.root)];
  const double bytes = p_.tables.output_bytes(last - 1) * measures_[at(root.measures)].sequences() * root.microbatches;
  if (x.placed() && y.placed()) {
    const auto zone = [&](const Team& t) { return p_.entries[at(links_.places[at(t.place)].entry)].zone; };
    const double there = p_.tables.egress_price(zone(x), zone(y)).value_or(0), back = p_.tables.egress_price(zone(y), zone(x)).value_or(0);
    return zone(x) == zone(y) ? 0 : root.replicas * bytes * (there + back);
  }
  return x.placed() || y.placed() || apart ? bytes * 2 * least_egress_ : 0;
}

/// Of a ring that leaves its zone, and comes back to it.
double RelaxedSearch::egress_in(const Label& l, int team, int first, int last) const {
  if (!p_.in_usd() || !teams_[at(team)].is_spread()) return 0;
  const int replicas = roots_[at(l.root)].replicas;
  return 2 * least_egress_ * p_.tables.weight_bytes(first, last) / replicas * 2 * (replicas - 1);
}

/// Times of the open stage of `from`, now that it has a neighbour, and of the new one.
void RelaxedSearch::lay_next_to(const Label& from, const Choice& choice, int first, int last, bool apart, Label& l) const {
  const Measures& measures = measures_[at(roots_[at(from.root)].measures)];
  l.open = choice.compute;
  if (from.stages > 0) {
    const double up = sending(measures, choice.team, from.team, last - 1, apart);
    const double down = sending(measures, from.team, choice.team, last, apart);
    const double closed = from.open + (from.stages == 1 ? 2 : 1) * down;
    l.pace = std::max(from.pace, closed);
    l.sum = from.sum + closed;
    l.open += (first == 0 && l.stages > 3 ? 2 : 1) * up;
    l.egress = from.egress + egress_between(from, choice.team, last, apart);
  }
  if (first > 0) return;
  l.pace = std::max(l.pace, l.open);
  l.sum += l.open;
  l.open = 0;
}

void RelaxedSearch::lay(int parent, int first, int last, const Choice& choice, bool apart) {
  const Label from = labels_[at(parent)];
  Root& root = roots_[at(from.root)];
  const Measures& measures = measures_[at(root.measures)];
  Label l = from;
  l.parent = parent;
  l.first_layer = static_cast<std::int16_t>(first);
  l.stages = static_cast<std::int16_t>(from.stages + 1);
  lay_next_to(from, choice, first, last, apart, l);
  if ((root.microbatches - 1) * std::max(l.pace, l.open) + l.sum + l.open >= most_ && !p_.by_price()) return void(++pruned_);
  if (!take(from, parent, choice.team, l) || !keeps_restrictions(from, first, last, l)) return void(++pruned_);
  const Team& team = teams_[at(choice.team)];
  if (team.is_spread()) l.column = (apart ? 0 : from.column) + p_.kinds[at(team.kinds.front())].tensor;
  double update = never;
  for (const int k : team.kinds) update = std::min(update, measures.update(k, first));
  l.update = std::max(from.update, update);
  l.reduction = std::max(from.reduction, reduction(root, choice.team, l.column, first, last));
  l.egress += egress_in(l, choice.team, first, last);
  l.team = choice.team;
  const std::size_t size = used_.size();
  used_.insert(used_.end(), new_used_.begin(), new_used_.end());
  labels_.push_back(l);
  const double least = bound(labels_.back(), root);
  if (least >= most_ || least == never || (options_.drop_dominated && dominated(l))) {
    ++pruned_;
    labels_.pop_back();
    used_.resize(size);
    return;
  }
  const int index = static_cast<int>(labels_.size()) - 1;
  queue_.push({least, devices(index), index});
}

bool RelaxedSearch::keeps_restrictions(const Label& from, int first, int last, Label& l) const {
  const Restrictions& r = p_.request.restrictions;
  if (r.one_device_type &&
      std::count_if(new_used_.begin(), new_used_.begin() + static_cast<std::ptrdiff_t>(groups_), [](int taken) { return taken > 0; }) > 1)
    return false;
  if (!r.even_layers) return true;
  const auto blocks = static_cast<std::int16_t>(std::min(last, p_.tables.layers() - 1) - std::max(first, 1));
  l.least_blocks = from.stages > 0 ? std::min(from.least_blocks, blocks) : blocks;
  l.most_blocks = from.stages > 0 ? std::max(from.most_blocks, blocks) : blocks;
  return l.most_blocks - l.least_blocks < 2;
}

/// Takes the devices of a stage: of one kind at once, of several by naming what remains to be shared out.
bool RelaxedSearch::take(const Label& parent, int parent_index, int team, Label& l) {
  const int replicas = roots_[at(parent.root)].replicas;
  std::copy_n(used(parent_index), resources_, new_used_.begin());
  const auto& kinds = teams_[at(team)].kinds;
  if (kinds.size() == 1) {
    const Kind& kind = p_.kinds[at(kinds.front())];
    const std::int64_t all = new_used_[at(kind.group)] + std::int64_t{replicas} * kind.tensor;
    if (all > p_.groups[at(kind.group)].count) return false;
    new_used_[at(kind.group)] = static_cast<int>(all);
    if (teams_[at(team)].is_spread() && replicas < 2) return false;
    if (teams_[at(team)].placed()) {
      const int entry = links_.places[at(teams_[at(team)].place)].entry;
      int& taken = new_used_[groups_ + at(entry)];
      taken += replicas * kind.tensor;
      if (taken > p_.entries[at(entry)].count) return false;
    }
    l.price = parent.price + replicas * kind.tensor * p_.groups[at(kind.group)].price;
  } else {
    if (replicas < 2) return false;
    double price = never;
    for (const int k : kinds) price = std::min(price, p_.kinds[at(k)].tensor * p_.groups[at(p_.kinds[at(k)].group)].price);
    l.price = parent.price + replicas * price;
    std::vector<int> list = parent.mixed < 0 ? std::vector<int>{} : mixed_lists_[at(parent.mixed)];
    list.insert(std::ranges::upper_bound(list, team), team);
    const auto [found, fresh] = mixed_numbers_.try_emplace(list, static_cast<int>(mixed_lists_.size()));
    if (fresh) mixed_lists_.push_back(list);
    l.mixed = found->second;
  }
  return l.mixed < 0 || room_for_mixed(l);
}

/// Whether what remains is enough for the mixed stages, each alone and all of them at their smallest degrees.
bool RelaxedSearch::room_for_mixed(const Label& l) const {
  const int replicas = roots_[at(l.root)].replicas;
  const auto& list = mixed_lists_[at(l.mixed)];
  std::vector<int> smallest(groups_, 0);
  for (const int team : list) {
    double room = 0;
    for (const int k : teams_[at(team)].kinds) {
      const Kind& kind = p_.kinds[at(k)];
      room += std::floor((p_.groups[at(kind.group)].count - new_used_[at(kind.group)]) / static_cast<double>(kind.tensor));
      int& least = smallest[at(kind.group)];
      if (least == 0 || kind.tensor < least) least = kind.tensor;
    }
    if (room < replicas) return false;
  }
  double room = 0;
  for (std::size_t g = 0; g < groups_; ++g)
    if (smallest[g] > 0) room += (p_.groups[g].count - new_used_[g]) / static_cast<double>(smallest[g]);
  return room >= static_cast<double>(list.size()) * replicas;
}

double RelaxedSearch::reduction_time(const Root& root, const Fits& fits, double bytes, int rank) const {
  if (root.replicas < 2) return 0;
  const double full = std::floor(bytes / bucket), rest = bytes - full * bucket;
  double time = 0;
  if (full > 0) time += full * message(fits, bucket / root.replicas, rank);
  if (rest > 0) time += message(fits, rest / root.replicas, rank);
  return time * 2 * (root.replicas - 1);
}

/// Over the links that connect enough entries for all columns, the slowest of the fastest such ones.
double RelaxedSearch::spread_reduction(const Root& root, const Kind& kind, int column, double bytes) const {
  struct Edge {
    double time;
    std::size_t e, f;
  };
  std::vector<Edge> edges;
  const auto& entries = kind.entries;
  for (std::size_t e = 0; e < entries.size(); ++e)
    for (std::size_t f = 0; f < entries.size(); ++f) {
      const auto at_one = [&](int i) { return simulate::SailorKind{p_.groups[at(kind.group)].type, p_.entries[at(i)].zone, 1}; };
      const auto* fit = e == f ? nullptr : p_.tables.single_link(at_one(entries[e]), at_one(entries[f]));
      if (fit) edges.push_back({simulate::sailor_all_reduce(*fit, root.replicas, bytes).value, e, f});
    }
  std::ranges::sort(edges, {}, &Edge::time);
  std::vector<std::size_t> of(entries.size());
  std::vector<std::int64_t> room(entries.size());
  for (std::size_t e = 0; e < of.size(); ++e) of[e] = e, room[e] = p_.entries[at(entries[e])].count / column;
  for (const Edge& edge : edges) {
    const std::size_t kept = of[edge.e], gone = of[edge.f];
    if (kept != gone) room[kept] += room[gone];
    for (std::size_t& one : of)
      if (one == gone) one = kept;
    if (room[kept] >= root.replicas) return edge.time;
  }
  return never;
}

double RelaxedSearch::placed_reduction(const Root& root, const Team& team, double bytes) const {
  const auto& place = links_.places[at(team.place)];
  simulate::SailorKind one = p_.at(place.kind, place.entry);
  one.tensor_parallel = 1;
  const auto* fit = p_.tables.single_link(one, one);
  return fit ? simulate::sailor_all_reduce(*fit, root.replicas, bytes).value : root.replicas > 1 ? never : 0;
}

/// At least. A stage of several types has neighbours of different types.
double RelaxedSearch::reduction(Root& root, int number, int column, int first, int last) {
  const Team& team = teams_[at(number)];
  const double weights = p_.tables.weight_bytes(first, last);
  if (team.mixed()) {
    int shares = 1;
    for (const int k : team.kinds) shares = std::max(shares, std::min(4, p_.kinds[at(k)].tensor));
    return reduction_time(root, links_.mixed, weights / shares, 0);
  }
  const Kind& kind = p_.kinds[at(team.kinds.front())];
  const double bytes = weights / std::min(4, kind.tensor);
  if (team.is_spread() && column > kind.tensor) return spread_reduction(root, kind, column, bytes);
  const auto layers = static_cast<std::size_t>(p_.tables.layers() + 1);
  if (root.reductions.empty()) root.reductions.assign(singles_ * layers * layers, -1);
  double& known = root.reductions[(at(number) * layers + at(first)) * layers + at(last)];
  if (known >= 0) return known;
  if (team.is_spread()) return known = spread_reduction(root, kind, column, bytes);
  if (team.placed()) return known = placed_reduction(root, team, bytes);
  return known = std::min(reduction_time(root, links_.inside[at(kind.group)], bytes, 0),
                          reduction_time(root, links_.across[at(kind.group)], bytes, 0));
}

bool RelaxedSearch::capacity(const Label& l, const Root& root, double work, int j) const {
  const Measures& measures = measures_[at(root.measures)];
  const int* taken = used(static_cast<int>(&l - labels_.data()));
  double room = 0, fastest = 0;
  std::int64_t devices = 0;
  for (std::size_t g = 0; g < groups_; ++g) {
    const double rate = measures.rate(static_cast<int>(g), j);
    room += (p_.groups[g].count - taken[g]) * rate;
    fastest = std::max(fastest, rate);
    devices += taken[g];
  }
  if (l.mixed >= 0)
    for (const int team : mixed_lists_[at(l.mixed)]) {
      double least = never;
      for (const int k : teams_[at(team)].kinds) least = std::min(least, p_.kinds[at(k)].tensor * measures.rate(p_.kinds[at(k)].group, j));
      room -= root.replicas * least;
    }
  const Limits& limits = p_.request.objective.limits;
  const double needed = root.replicas * work * rounding;
  if (limits.devices && (static_cast<double>(*limits.devices) - static_cast<double>(devices)) * fastest < needed) return false;
  if (limits.usd_per_hour && p_.in_usd() && l.price + needed * measures.price(j) > *limits.usd_per_hour) return false;
  return room >= needed;
}

/// The least pace at or above `from` at which the devices that remain can do the work that remains.
int RelaxedSearch::least_pace(const Label& l, const Root& root, double work, int from) const {
  int high = measures_[at(root.measures)].paces(), low = from;
  if (work <= 0 || capacity(l, root, work, low)) return low;
  if (l.mixed >= 0) {
    while (low < high && !capacity(l, root, work, low)) ++low;
    return low;
  }
  while (low < high) {
    const int middle = (low + high) / 2;
    if (capacity(l, root, work, middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/// Of the objective's value over all ways to go on from here.
double RelaxedSearch::bound(const Label& l, const Root& root) const {
  const Measures& measures = measures_[at(root.measures)];
  const Limits& limits = p_.request.objective.limits;
  const double work = measures.least_compute(l.first_layer);
  const bool inside = l.stages > 0 && l.first_layer > 0;
  const double least_sending = inside ? measures.least_sending() : 0;
  const double down = inside ? (l.stages == 1 ? 2 : 1) * measures.least_link(l.first_layer) : 0;
  const double floor = std::max(l.pace, l.open + down);
  const double rest = l.sum + l.open + down + work + least_sending + l.update + l.reduction;
  const double allowed = limits.iterations_per_second ? 1 / *limits.iterations_per_second : never;
  int j = 0;
  while (j + 1 < measures.paces() && measures.pace(j + 1) + least_sending <= floor) ++j;
  for (j = least_pace(l, root, work, j); j < measures.paces(); ++j) {
    const double pace = work > 0 ? std::max(floor, measures.pace(j) + least_sending) : floor;
    const double time = (root.microbatches - 1) * pace + rest;
    if (time * rounding > allowed) return never;
    if (!p_.by_price() && !limits.usd_per_iteration) return time;
    break;
  }
  double least = never;
  for (; j < measures.paces(); ++j) {
    const double pace = work > 0 ? std::max(floor, measures.pace(j) + least_sending) : floor;
    const double time = (root.microbatches - 1) * pace + rest;
    if (time * rounding > allowed || (p_.by_price() && time * l.price / an_hour + l.egress >= least)) break;
    const double price = l.price + (work > 0 ? root.replicas * work * measures.price(j) : 0);
    const double usd = time * price / an_hour + l.egress;
    if (limits.usd_per_iteration && p_.in_usd() && usd * rounding > *limits.usd_per_iteration) {
      if (work <= 0) break;
      continue;
    }
    if (!p_.by_price()) return time;
    least = std::min(least, usd);
    if (work <= 0) break;
  }
  return least;
}

bool RelaxedSearch::dominates(const Label& x, const int* x_used, const Label& y, const int* y_used) const {
  if (x.stages > y.stages || (x.mixed >= 0 && x.mixed != y.mixed)) return false;
  for (std::size_t g = 0; g < resources_; ++g)
    if (x_used[g] > y_used[g]) return false;
  if (x.least_blocks != y.least_blocks || x.most_blocks != y.most_blocks) return false;
  if (x.price > y.price || x.egress > y.egress || x.column > y.column) return false;
  const int n = roots_[at(x.root)].microbatches;
  const double later = (n - 1) * std::max({0.0, x.pace - y.pace, x.open - y.open}) + x.sum + x.open - y.sum - y.open +
                       std::max(0.0, x.update - y.update) + std::max(0.0, x.reduction - y.reduction);
  return later <= 0;
}

/// Whether an earlier partial plan with the same layers left and the same first stage is as good in everything; enters this one if not.
bool RelaxedSearch::dominated(const Label& l) {
  const std::uint64_t key = static_cast<std::uint64_t>(l.root) << 40 | static_cast<std::uint64_t>(l.first_layer) << 28 |
                            static_cast<std::uint64_t>(l.team) << 1 | static_cast<std::uint64_t>(l.stages == 1);
  auto& alike = alike_[key];
  const int index = static_cast<int>(labels_.size()) - 1;
  for (const int other : alike)
    if (dominates(labels_[at(other)], used(other), l, used(index))) return true;
  std::erase_if(alike, [&](int other) {
    const bool worse = dominates(l, used(index), labels_[at(other)], used(other));
    if (worse) labels_[at(other)].dead = true;
    return worse;
  });
  alike.push_back(index);
  return false;
}

int RelaxedSearch::devices(int label) const {
  const Label& l = labels_[at(label)];
  int sum = 0;
  for (std::size_t g = 0; g < groups_; ++g) sum += used(label)[g];
  return sum + (l.mixed < 0 ? 0 : static_cast<int>(mixed_lists_[at(l.mixed)].size()) * roots_[at(l.root)].replicas);
}

RelaxedPlan RelaxedSearch::plan_of(int label, double bound) const {
  const Root& root = roots_[at(labels_[at(label)].root)];
  RelaxedPlan plan{&measures_[at(root.measures)], root.replicas, bound, {}};
  for (int i = label; labels_[at(i)].team >= 0; i = labels_[at(i)].parent) {
    const int last = labels_[at(labels_[at(i)].parent)].first_layer;
    const Team& team = teams_[at(labels_[at(i)].team)];
    plan.stages.push_back({labels_[at(i)].first_layer, last, team.kinds, team.placed() ? links_.places[at(team.place)].entry : -1});
  }
  return plan;
}

}  // namespace flotilla::search::rules
