#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <ranges>

#include "families.hpp"

// Pools of a few devices: every multiset of columns, every cut where there are few.
namespace flotilla::search::pool {
namespace {

constexpr int most_devices = 8, some_devices = 40;  // searched; of which parts are
constexpr std::size_t some_rooms = 8, most_rooms = 24;
constexpr std::size_t most_cuts = 40;
constexpr double surely_fits = 0.9;  // of the memory, by an estimate

/// Boundaries of so many layers in so many stages; nothing where that would be more than `most`.
std::vector<std::vector<int>> all_cuts(int layers, int stages, std::size_t most) {
  std::vector<std::vector<int>> out{{0}};
  for (int s = 1; s <= stages && out.size() <= most; ++s) {
    std::vector<std::vector<int>> longer;
    for (const auto& cuts : out)
      for (int next = s == stages ? layers : cuts.back() + 1; next <= layers - (stages - s); ++next) {
        longer.push_back(cuts);
        longer.back().push_back(next);
      }
    out = std::move(longer);
  }
  return out.size() <= most ? out : std::vector<std::vector<int>>{};
}

bool is_even(const std::vector<int>& cuts) {
  int least = 1 << 30, most = 0;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    const int blocks = std::min(cuts[s + 1], cuts.back() - 1) - std::max(cuts[s], 1);
    least = std::min(least, blocks), most = std::max(most, blocks);
  }
  return most - least <= 1;
}

}  // namespace

void Families::few_devices(std::int64_t all) {
  const auto rooms = small_rooms();
  for (const Room& room : rooms) few_devices(room, all / static_cast<std::int64_t>(rooms.size()));
}

/// The whole pool, or the largest parts of it that are small enough: what a smaller pool could do, a larger one can, nearly always.
std::vector<Families::Room> Families::small_rooms() const {
  const std::size_t places = stock_.places.size();
  std::vector<Room> all;
  if (stock_.devices > most_devices && (stock_.devices > some_devices || places > some_rooms)) return all;
  const auto one_type = [&](std::size_t mask) {
    const auto type = stock_.places[static_cast<std::size_t>(std::countr_zero(mask))].type;
    return std::ranges::all_of(std::views::iota(std::size_t{0}, places),
                               [&](std::size_t p) { return (mask >> p & 1) == 0 || stock_.places[p].type == type; });
  };
  for (std::size_t mask = (std::size_t{1} << places) - 1; mask > 0; --mask) {
    if (stock_.request.restrictions.one_device_type && !one_type(mask)) continue;
    Room room(places, 0);
    for (std::size_t p = 0; p < places; ++p)
      if (mask >> p & 1) room[p] = stock_.places[p].count;
    const int over = std::accumulate(room.begin(), room.end(), 0) - most_devices;
    for (std::size_t p = 0; p < places; ++p)  // less of one place, where that is enough
      if (over <= 0 || room[p] > over) {
        all.push_back(room);
        if (over <= 0) break;
        all.back()[p] -= over;
      }
  }
  std::vector<Room> out;
  const auto inside = [](const Room& a, const Room& b) { return std::ranges::equal(a, b, std::less_equal{}); };
  for (const Room& room : all) {
    const auto larger = [&](const Room& other) { return other != room && inside(room, other); };
    if (std::ranges::none_of(all, larger) && std::ranges::find(out, room) == out.end() && out.size() < most_rooms) out.push_back(room);
  }
  return out;
}

void Families::few_devices(const Room& room, std::int64_t estimates) {
  allow(estimates);
  small_room_ = room;
  const int devices = std::accumulate(room.begin(), room.end(), 0);
  for (const int stages : depths_) {
    if (stages > devices) break;
    auto cuts =
        !stock_.cuts.empty() ? std::vector<std::vector<int>>{stock_.cuts} : all_cuts(stock_.request.model.layers(), stages, most_cuts);
    if (stock_.request.restrictions.even_layers) std::erase_if(cuts, [](const auto& c) { return !is_even(c); });
    std::vector<int> degrees(at(stages), 1);
    do
      if (can_.unlike_degrees_in_a_stage || degrees.front() == degrees.back()) few_devices(degrees, cuts);
    while (!stop() && next_degrees(degrees));
  }
}

bool Families::holds(const Sketch& sketch) const {
  std::vector<int> taken(small_room_.size(), 0);
  for (const Column& column : sketch.columns)
    for (const Slot& slot : column.slots) taken[at(slot.place)] += column.count * slot.tensor;
  for (std::size_t p = 0; p < taken.size(); ++p)
    if (taken[p] > small_room_[p]) return false;
  return stock_.holds(sketch);
}

/// The next of all degrees by stage; false after the last.
bool Families::next_degrees(std::vector<int>& degrees) const {
  for (int& degree : degrees) {
    degree *= 2;
    if (degree <= std::min(stock_.request.model.groups(), most_devices)) return true;
    degree = 1;
  }
  return false;
}

/// Columns of these degrees, each kind of them anywhere in the pool.
void Families::few_devices(const std::vector<int>& degrees, const std::vector<std::vector<int>>& cuts) {
  if (std::accumulate(degrees.begin(), degrees.end(), 0) > std::accumulate(small_room_.begin(), small_room_.end(), 0)) return;
  std::vector<Column> kinds{{}};
  for (const int degree : degrees) {
    std::vector<Column> longer;
    for (const Column& kind : kinds)
      for (int p = 0; p < static_cast<int>(stock_.places.size()); ++p) {
        Column column = kind;
        column.slots.push_back({p, degree});
        const bool one_type = stock_.places[at(p)].type == stock_.places[at(column.slots.front().place)].type;
        if (stock_.request.restrictions.one_device_type && !one_type) continue;
        if (holds({{}, {}, {column}})) longer.push_back(std::move(column));
      }
    kinds = std::move(longer);
  }
  Sketch sketch;
  add_kinds(sketch, kinds, 0, cuts);
}

/// All multisets of the kinds from `from` on that the pool holds.
void Families::add_kinds(Sketch& sketch, const std::vector<Column>& kinds, std::size_t from, const std::vector<std::vector<int>>& cuts) {
  const auto& limit = stock_.request.objective.limits.devices;
  for (std::size_t k = from; k < kinds.size() && !stop(); ++k) {
    const bool one_type =
        sketch.columns.empty() || !stock_.request.restrictions.one_device_type ||
        stock_.places[at(kinds[k].slots.front().place)].type == stock_.places[at(sketch.columns.front().slots.front().place)].type;
    if (!one_type) continue;
    sketch.columns.push_back(kinds[k]);
    for (;; ++sketch.columns.back().count) {
      if (!holds(sketch) || columns_of(sketch) > stock_.request.global_batch) break;
      if (limit && devices_of(sketch) > *limit) break;
      cut(sketch, cuts);
      add_kinds(sketch, kinds, k + 1, cuts);
    }
    sketch.columns.pop_back();
  }
}

/// Every cut, or those that suit some column, at every microbatch.
void Families::cut(const Sketch& columns, const std::vector<std::vector<int>>& cuts) {
  for (const int m : microbatches_) {
    if (m > 1 && m / 2 * columns_of(columns) >= stock_.request.global_batch) break;
    Sketch sketch = columns;
    for (Column& column : sketch.columns) column.microbatch = m;
    if (!cuts.empty()) {
      for (const auto& some : cuts) {
        sketch.cuts = some;
        least_recompute(sketch);
      }
      continue;
    }
    for (const Column& column : sketch.columns) {
      const int turns = stock_.request.global_batch / (columns_of(sketch) * m) + 1;
      for (const auto most : {plan::Recompute::none, plan::Recompute::full})
        if (const auto found = balance(estimate_, network_, column, most, turns)) {
          sketch.cuts = found->layers, sketch.recompute = found->recompute;
          offer(sketch);
          break;
        }
    }
  }
}

/// With nothing recomputed where that fits for sure, else everything, too.
void Families::least_recompute(Sketch sketch) {
  for (const auto recompute : {plan::Recompute::none, plan::Recompute::full}) {
    sketch.recompute.clear();  // where there are blocks to recompute
    for (std::size_t s = 0; s + 1 < sketch.cuts.size(); ++s) {
      const bool blocks = std::min(sketch.cuts[s + 1], sketch.cuts.back() - 1) > std::max(sketch.cuts[s], 1);
      sketch.recompute.push_back(blocks ? recompute : plan::Recompute::none);
    }
    if (offer(sketch).full < surely_fits) return;
  }
}

}  // namespace flotilla::search::pool
