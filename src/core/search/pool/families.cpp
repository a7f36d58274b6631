#include "families.hpp"

#include <algorithm>

namespace flotilla::search::pool {
namespace {

constexpr int deepest_by_ones = 16;  // depths: every one up to here, then a few
constexpr std::size_t few_places = 12, some_places = 32;
constexpr int few_in_all = 8;                                                       // devices of a pool all columns of which are looked at
constexpr std::int64_t most_of_all_columns = 40'000, some_of_all_columns = 12'000;  // estimates
constexpr double near_enough = 1.2;                                                 // in 1F1B, to be tried in GPipe
constexpr double never = 1e300;
constexpr int most_subsets_of = 3;  // types: all subsets of so many

}  // namespace

Abilities abilities_of(const program::Runtime& runtime) { return {true, !runtime.layers.has_value()}; }

Families::Families(Estimator& estimate, Network& network, Abilities can, Shortlist& list, const std::function<bool()>& should_stop)
    : estimate_{estimate}, network_{network}, stock_{estimate.stock()}, can_{can}, list_{list}, should_stop_{should_stop} {
  const PlanRequest& request = stock_.request;
  const Constraints& fixed = request.constraints;
  for (int m = 1; m <= std::min(request.global_batch, largest_microbatch); m *= 2) microbatches_.push_back(m);
  if (fixed.microbatch) microbatches_ = {*fixed.microbatch};
  for (const Type& type : stock_.types) {
    auto& all = degrees_.emplace_back();
    for (int degree = 1; degree <= std::min({type.widest, request.model.groups(), type.count}); degree *= 2)
      if (fixed.tensor.value_or(degree) == degree) all.push_back(degree);
  }
  const int deepest = std::min(request.model.layers(), stock_.devices);
  for (int p = 1; p <= deepest; p += p < deepest_by_ones ? 1 : p < 2 * deepest_by_ones ? 4 : 8) depths_.push_back(p);
  const int stages = stock_.cuts.empty() ? fixed.pipeline.value_or(0) : static_cast<int>(stock_.cuts.size()) - 1;
  if (stages > 0) depths_.assign(stages <= deepest ? 1 : 0, stages);
}

bool Families::stop() {
  if (!stopped_ && should_stop_ && should_stop_()) stopped_ = true;
  return stopped_ || estimate_.count() >= budget_;
}

void Families::run() {
  const std::int64_t most_estimates = stock_.devices <= 1000 ? 120'000 : stock_.devices <= 10'000 ? 40'000 : 4'000;
  order_zones();
  const auto all = rooms();
  const std::int64_t each = most_estimates / (stock_.places.size() <= few_places ? 1 : static_cast<std::int64_t>(all.size()));
  const auto try_all = [&](plan::Recompute recompute) {
    for (const Room& room : all) {
      allow(each / 2);
      side_by_side(recompute, room);
      if (stock_.request.restrictions.one_device_type) continue;
      allow(each / 4);
      chains_of_all(recompute, room);
      allow(each / 4);
      chains(recompute, room);
    }
  };
  few_devices(stock_.devices <= few_in_all ? most_of_all_columns : some_of_all_columns);
  try_all(stock_.request.constraints.recompute.value_or(plan::Recompute::none));
  if (!stock_.request.constraints.recompute && needs_recompute()) try_all(plan::Recompute::full);
  if (list_.candidates().empty()) few_devices(most_of_all_columns);
  fewer_zones();
  if (list_.candidates().empty() && list_.doubtful().empty() && !list_.nearest_miss()) least_memory();
}

/// Where no cut fits: as many stages as there are groups of devices, the smallest microbatch, everything recomputed.
void Families::least_memory() {
  Room room;
  for (const Place& place : stock_.places) room.push_back(place.count);
  for (int type = 0; type < static_cast<int>(stock_.types.size()); ++type)
    for (const int degree : degrees(type)) {
      int groups = 0;
      for (const int p : stock_.types[at(type)].places) groups += stock_.groups(p, degree);
      const int stages = std::min(groups, stock_.request.model.blocks);
      if (stages < 1) continue;
      Sketch sketch{even_cuts(stock_.request.model.blocks, stages), std::vector<plan::Recompute>(at(stages), plan::Recompute::full), {}};
      Room left = room;
      add_columns(sketch, Pattern(at(stages), Kind{type, degree}), 1, left);
      if (sketch.columns.empty()) continue;
      sketch.columns.resize(1);
      sketch.columns.front().count = 1;
      offer(std::move(sketch));
    }
}

/// The largest first; of equally large ones that which is nearest to the others.
void Families::order_zones() {
  struct Zone {
    int number = 0, devices = 0;
    double links = 0;
  };
  std::vector<Zone> all;
  for (int z = 0; z < static_cast<int>(stock_.zones.size()); ++z) {
    Zone zone{z};
    for (int p = 0; p < static_cast<int>(stock_.places.size()); ++p) {
      if (stock_.places[at(p)].zone_number != z) continue;
      zone.devices += stock_.places[at(p)].count;
      for (int q = 0; q < static_cast<int>(stock_.places.size()); ++q) zone.links += network_.message({p, q}, 1);
    }
    all.push_back(std::move(zone));
  }
  std::ranges::stable_sort(all,
                           [](const Zone& a, const Zone& b) { return a.devices != b.devices ? a.devices > b.devices : a.links < b.links; });
  for (const Zone& zone : all) zones_.push_back(zone.number);
}

/// The whole pool; where it has few places its largest zones alone, every zone alone and a node of each place, so that gradient sums leave
/// no zone or node, or few; and where devices cost something a half of each, a quarter and so on.
std::vector<Families::Room> Families::rooms() const {
  std::vector<Room> out;
  const auto all = static_cast<std::ptrdiff_t>(zones_.size());
  const Limits& limits = stock_.request.objective.limits;
  const bool costs = !stock_.by_throughput() || limits.usd_per_iteration || limits.usd_per_hour || limits.devices;
  const auto add = [&](std::ptrdiff_t first, std::ptrdiff_t last, const auto& some) {
    Room room;
    for (const Place& place : stock_.places) {
      const auto zone = std::ranges::find(zones_, place.zone_number) - zones_.begin();
      room.push_back(first <= zone && zone < last ? some(place) : 0);
    }
    const bool empty = std::ranges::all_of(room, [](int count) { return count == 0; });
    if (!empty && std::ranges::find(out, room) == out.end()) out.push_back(std::move(room));
  };
  const auto add_parts = [&](std::ptrdiff_t first, std::ptrdiff_t last) {
    for (int part = 1; part == 1 || (costs && part <= stock_.devices); part *= 2)
      add(first, last, [&](const Place& place) { return place.count / part; });
  };
  add_parts(0, all);
  if (stock_.places.size() > some_places) return out;
  const bool few = stock_.places.size() <= few_places;
  for (auto kept = all - 1; few && kept > 1; --kept) add_parts(0, kept);
  for (std::ptrdiff_t zone = 0; zone < all; ++zone) {
    add_parts(zone, zone + 1);
    if (few) add(zone, zone + 1, [&](const Place& place) { return std::min(place.count, stock_.types[at(place.type)].per_node); });
  }
  return out;
}

/// What was found, without its columns in the smaller zones: gradient sums then leave no zone, or few.
void Families::fewer_zones() {
  const auto zones = static_cast<int>(zones_.size());
  const auto found = list_.candidates();
  for (const Candidate& candidate : found)
    for (int kept = zones - 1; kept >= 1; kept = kept > 4 ? (kept + 1) / 2 : kept - 1) {
      const auto dropped = [&](const Slot& slot) {
        return std::ranges::find(zones_, stock_.places[at(slot.place)].zone_number) - zones_.begin() >= kept;
      };
      Sketch sketch = candidate.sketch;
      std::erase_if(sketch.columns, [&](const Column& column) { return std::ranges::any_of(column.slots, dropped); });
      if (sketch.columns.size() < candidate.sketch.columns.size()) offer(std::move(sketch));
    }
}

std::vector<int> Families::present(const Room& room) const {
  std::vector<int> types;
  for (int t = 0; t < static_cast<int>(stock_.types.size()); ++t)
    if (std::ranges::any_of(stock_.types[at(t)].places, [&](int p) { return room[at(p)] > 0; })) types.push_back(t);
  const auto pass = [&](int type) {
    const LeastPass& s = estimate_.soundings().least_pass(type, 1, 1, plan::Recompute::none);
    return s.usable ? s.block : never;
  };
  std::ranges::stable_sort(types, {}, pass);
  return types;
}

/// Types that work side by side: all subsets of a few; of many the fastest ones together, each alone, and all but one. Large ones first:
/// a good plan early excludes much.
std::vector<std::vector<int>> Families::teams(const std::vector<int>& types) const {
  std::vector<std::vector<int>> out;
  const auto add = [&](std::vector<int> team) {
    if (!team.empty() && std::ranges::find(out, team) == out.end()) out.push_back(std::move(team));
  };
  const auto n = types.size();
  const bool alone = stock_.request.restrictions.one_device_type, few = n <= most_subsets_of;
  for (std::size_t i = n; i > 1 && !alone; --i) add({types.begin(), types.begin() + static_cast<std::ptrdiff_t>(i)});
  for (const int type : types) add({type});
  for (std::size_t i = 0; i < n && !alone && !few; ++i) {
    auto team = types;
    team.erase(team.begin() + static_cast<std::ptrdiff_t>(i));
    add(std::move(team));
  }
  for (std::size_t mask = 1; !alone && few && mask < std::size_t{1} << n; ++mask) {
    std::vector<int> team;
    for (std::size_t i = 0; i < n; ++i)
      if (mask >> i & 1) team.push_back(types[i]);
    add(std::move(team));
  }
  return out;
}

/// Of so many devices of the place those that whole groups of that degree take.
int Families::usable(int place, int devices, int tensor) const {
  return devices < tensor ? 0 : stock_.groups(place, tensor, devices) * tensor;
}

/// Whether some type cannot hold the whole model on one device without it.
bool Families::needs_recompute() {
  for (int type = 0; type < static_cast<int>(stock_.types.size()); ++type) {
    const Sounding& s = estimate_.soundings().of(type, 1, 1, plan::Recompute::none);
    const double limit = static_cast<double>(stock_.types[at(type)].memory.count);
    if (s.usable && limit > 0 && estimate_.memory(s, 0, stock_.request.model.layers(), 1, 1) > limit) return true;
  }
  return list_.candidates().empty();
}

void Families::add_columns(Sketch& sketch, const Pattern& pattern, int microbatch, Room& room) const {
  struct Need {
    int devices = 0, widest = 1, place = -1;
  };
  std::vector<Need> needs(stock_.types.size());
  for (const Kind& kind : pattern) {
    Need& need = needs[at(kind.type)];
    need.devices += kind.tensor, need.widest = std::max(need.widest, kind.tensor);
  }
  for (const int zone : zones_) {
    int count = stock_.request.constraints.data.value_or(1 << 30) - columns_of(sketch);
    for (std::size_t t = 0; t < needs.size(); ++t) {
      if (needs[t].devices == 0) continue;
      needs[t].place = -1;
      for (const int p : stock_.types[t].places)
        if (stock_.places[at(p)].zone_number == zone) needs[t].place = p;
      const int there = needs[t].place < 0 ? 0 : usable(needs[t].place, room[at(needs[t].place)], needs[t].widest);
      count = std::min(count, there / needs[t].devices);
    }
    if (count <= 0) continue;
    Column column{{}, microbatch, count, 0};
    column.slots.reserve(pattern.size());
    for (const Kind& kind : pattern) column.slots.push_back({needs[at(kind.type)].place, kind.tensor});
    for (const Need& need : needs)
      if (need.devices > 0) room[at(need.place)] -= count * need.devices;
    sketch.columns.push_back(std::move(column));
  }
  const int most = stock_.request.constraints.data.value_or(1 << 30);
  while (stock_.zones.size() > 1 && columns_of(sketch) < most && most_columns(pattern, room) > 0 &&
         add_across(sketch, pattern, microbatch, room)) {
  }
}

/// Columns whose stages stand in several zones, as many equal ones as there are.
bool Families::add_across(Sketch& sketch, const Pattern& pattern, int microbatch, Room& room) const {
  Column column{{}, microbatch, 1 << 30, 0};
  std::vector<int> taken(room.size(), 0);
  for (const Kind& kind : pattern) {
    const auto& places = stock_.types[at(kind.type)].places;
    const auto left = [&](int p) { return usable(p, room[at(p)] - taken[at(p)], kind.tensor); };
    const int before = column.slots.empty() ? -1 : column.slots.back().place;
    const bool stays = before >= 0 && std::ranges::find(places, before) != places.end() && left(before) >= kind.tensor;
    int place = before, most = stays ? kind.tensor : 0;
    for (std::size_t i = 0; !stays && i < places.size(); ++i)
      if (const int here = left(places[i]); here > most) place = places[i], most = here;
    if (most < kind.tensor) return false;
    taken[at(place)] += kind.tensor;
    column.slots.push_back({place, kind.tensor});
  }
  for (std::size_t p = 0; p < room.size(); ++p)
    if (taken[p] > 0) column.count = std::min(column.count, room[p] / taken[p]);
  for (std::size_t p = 0; p < room.size(); ++p) room[p] -= taken[p] * column.count;
  sketch.columns.push_back(std::move(column));
  return true;
}

int Families::most_columns(const Pattern& pattern, const Room& room) const {
  std::vector<int> needs(stock_.types.size(), 0);
  for (const Kind& kind : pattern) needs[at(kind.type)] += kind.tensor;
  int most = 1 << 30;
  for (std::size_t t = 0; t < needs.size(); ++t) {
    if (needs[t] == 0) continue;
    int there = 0;
    for (const int p : stock_.types[t].places) there += room[at(p)];
    most = std::min(most, there / needs[t]);
  }
  return most;
}

Column Families::sample(const Pattern& pattern, int microbatch, const Room& room) const {
  Sketch sketch;
  Room copy = room;
  add_columns(sketch, pattern, microbatch, copy);
  if (sketch.columns.empty()) return {};
  Column column = sketch.columns.front();
  column.count = columns_of(sketch);
  return column;
}

/// The time of columns whose blocks could be cut anywhere, without embedding, head and sums.
double Families::least_value(const Pattern& pattern, int microbatch, double columns, plan::Recompute recompute) {
  double speed = 0, price = 0;
  for (const Kind& kind : pattern) {
    const LeastPass& s = estimate_.soundings().least_pass(kind.type, kind.tensor, microbatch, recompute);
    if (!s.usable) return never;
    speed += 1 / s.block;
    price += kind.tensor * stock_.types[at(kind.type)].price;
  }
  const double pace = stock_.request.model.blocks / speed, turns = stock_.request.global_batch / (columns * microbatch);
  const double seconds = (std::max(1.0, turns) - 1 + static_cast<double>(pattern.size())) * pace;
  return stock_.by_throughput() ? seconds : seconds * price * columns;
}

double Families::worth_offering() const { return list_.threshold() * near_enough; }

Estimate Families::offer(Sketch sketch) {
  if (sketch.columns.empty()) return {};
  Sketch whole = sketch;
  const bool limited = stock_.request.objective.limits != Limits{};
  const Estimate estimate = estimate_(sketch, limited ? never : worth_offering());
  list_.offer(sketch, estimate);
  if (estimate.fits) offer_fewer(whole);
  if (whole.stages() > 1 && can_.all_forwards_first && estimate.fits && estimate.value <= list_.threshold() * near_enough) {
    whole.schedule = plan::ScheduleKind::gpipe;
    const Estimate other = estimate_(whole);
    if (other.value < estimate.value) list_.offer(whole, other);
  }
  return estimate;
}

/// With a part of the columns: what limits ask for, or costs.
void Families::offer_fewer(const Sketch& whole) {
  const Limits& limits = stock_.request.objective.limits;
  std::vector<double> parts;
  const double devices = devices_of(whole), usd = usd_of(whole, stock_) * 3600;
  if (limits.devices && devices > *limits.devices) parts.push_back(*limits.devices / devices);
  if (limits.usd_per_hour && usd > *limits.usd_per_hour) parts.push_back(*limits.usd_per_hour / usd);
  const bool costs = !stock_.by_throughput() || limits.usd_per_iteration;
  if (costs) parts.push_back(0.75);
  for (const double part : parts) {
    Sketch sketch = whole;
    for (Column& column : sketch.columns) column.count = static_cast<int>(column.count * part + 1e-9);
    std::erase_if(sketch.columns, [](const Column& column) { return column.count == 0; });
    if (sketch.columns.empty()) continue;
    const Estimate estimate = estimate_(sketch);
    list_.offer(sketch, estimate);
  }
}

}  // namespace flotilla::search::pool
