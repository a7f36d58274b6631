#include <algorithm>
#include <array>

#include "families.hpp"

namespace flotilla::search::pool {
namespace {

constexpr std::array lengths{1, 2, 3, 4, 5, 6, 8, 12, 16, 24};  // stages of one type in a chain
constexpr int deepest = 32;
constexpr double worth_filling_up = 1.2;  // a chain alone, over what is worth looking at: what is left over may help it

}  // namespace

/// Two types, either of them first.
void Families::chains(plan::Recompute recompute, const Room& room) {
  const auto types = present(room);
  for (const int first : types)
    for (const int second : types)
      for (const int a : lengths)
        for (const int b : lengths) {
          if (first == second || a + b > std::min(deepest, stock_.request.model.layers())) continue;
          for (const int t : degrees(first))
            for (const int u : degrees(second)) {
              if (t != u && !can_.unlike_degrees_in_a_stage) continue;  // both ends share the word table
              if (stop()) return;
              Pattern pattern(at(a), Kind{first, t});
              pattern.insert(pattern.end(), at(b), Kind{second, u});
              chain(recompute, room, pattern);
            }
        }
}

/// All types in every column, each with as many stages as it has devices for: by speed, and the other way round.
void Families::chains_of_all(plan::Recompute recompute, const Room& room) {
  auto types = present(room);
  if (types.size() < 3) return;
  for (const bool reversed : {false, true}) {
    if (reversed) std::ranges::reverse(types);
    for (int columns = 1; columns <= stock_.request.global_batch; columns *= 2)
      for (int tensor = 1; tensor <= stock_.request.model.groups(); tensor *= 2) {
        Pattern pattern;
        for (const int type : types) {
          const auto& fitting = degrees(type);
          if (std::ranges::find(fitting, tensor) == fitting.end()) continue;
          int there = 0;
          for (const int p : stock_.types[at(type)].places) there += usable(p, room[at(p)], tensor);
          pattern.insert(pattern.end(), at(std::min(there / (columns * tensor), deepest)), Kind{type, tensor});
        }
        const auto depth = static_cast<int>(pattern.size());
        if (stop() || depth == 0) break;
        if (depth <= std::min(deepest, stock_.request.model.layers())) chain(recompute, room, pattern);
      }
  }
}

void Families::chain(plan::Recompute recompute, const Room& room, const Pattern& pattern) {
  const int most = most_columns(pattern, room);
  if (most < 1) return;
  Column column;
  for (const int microbatch : microbatches_) {
    if (least_value(pattern, microbatch, most, recompute) >= list_.threshold()) continue;
    if (column.slots.empty()) column = sample(pattern, 1, room);
    if (column.slots.empty()) return;
    if (least_value(pattern, microbatch, column.count, recompute) >= list_.threshold()) continue;
    column.microbatch = microbatch;
    const int turns = stock_.request.global_batch / (column.count * microbatch) + 1;
    const auto cut = balance(estimate_, network_, column, recompute, turns);
    if (!cut) break;  // larger microbatches need more memory
    Sketch sketch{cut->layers, cut->recompute, {}};
    Room left = room;
    add_columns(sketch, pattern, microbatch, left);
    const Estimate alone = offer(sketch);
    if (alone.value <= list_.threshold() * worth_filling_up) fill_up(std::move(sketch), pattern, std::move(left));
  }
}

/// Columns of one type each of what the chain leaves over, as they help.
void Families::fill_up(Sketch sketch, const Pattern& pattern, Room room) {
  bool added = false;
  for (const int type : present(room)) {
    const auto& fitting = degrees(type);
    Pattern same = pattern;
    for (Kind& kind : same) kind.type = type;
    std::vector<Pattern> ways{same};
    if (can_.unlike_degrees_in_a_stage && !stock_.request.restrictions.one_tensor_degree_per_stage)
      for (const int tensor : fitting) ways.emplace_back(pattern.size(), Kind{type, tensor});
    Sketch best = sketch, tried;
    Sketch dealt = sketch;
    Estimate least = estimate_(dealt);
    Room best_room = room;
    for (const Pattern& way : ways) {
      if (std::ranges::any_of(way, [&](const Kind& k) { return std::ranges::find(fitting, k.tensor) == fitting.end(); })) continue;
      for (const int microbatch : microbatches_) {
        if (stock_.request.restrictions.one_microbatch_size && microbatch != sketch.columns.front().microbatch) continue;
        tried = sketch;
        Room left = room;
        add_columns(tried, way, microbatch, left);
        if (tried.columns.size() == sketch.columns.size()) break;
        const Sketch whole = tried;
        const Estimate estimate = estimate_(tried, least.fits ? least.value : 1e300);
        if (!estimate.fits || (least.fits && estimate.value >= least.value)) continue;
        best = whole, least = estimate, best_room = left, added = true;
      }
    }
    sketch = best, room = best_room;
  }
  if (added) offer(std::move(sketch));
}

}  // namespace flotilla::search::pool
