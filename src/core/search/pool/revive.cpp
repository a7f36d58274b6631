#include "revive.hpp"

#include <algorithm>
#include <bit>

namespace flotilla::search::pool {
namespace {

int place_of(const plan::Replica& replica, const Stock& stock) {
  for (std::size_t p = 0; p < stock.places.size(); ++p)
    if (stock.places[p].zone == replica.zone && stock.types[at(stock.places[p].type)].name == replica.device_type)
      return static_cast<int>(p);
  return -1;
}

bool is_power_of_two(int number) { return std::has_single_bit(static_cast<unsigned>(number)); }

bool has_columns(const plan::Plan& plan) {
  return std::ranges::all_of(plan.stages, [&](const plan::Stage& stage) {
           return stage.replicas.size() == plan.stages.front().replicas.size();
         });
}

std::optional<Column> column_of(const plan::Plan& plan, std::size_t replica, const Stock& stock) {
  Column column;
  column.microbatch = plan.stages.front().replicas[replica].quanta * plan.quantum;
  if (column.microbatch > largest_microbatch && !is_power_of_two(column.microbatch)) return std::nullopt;
  for (int s = 0; s < plan::own_stages(plan); ++s) {
    const plan::Stage& stage = plan.stages[at(s)];
    const int place = place_of(stage.replicas[replica], stock);
    if (place < 0 || !is_power_of_two(stage.replicas[replica].tensor_parallel)) return std::nullopt;
    column.slots.push_back({place, stage.replicas[replica].tensor_parallel});
  }
  return column;
}

}  // namespace

std::optional<Sketch> revive(const plan::Plan& plan, const Stock& stock) {
  if (plan.stages.empty() || !has_columns(plan) || plan.model.layers() != stock.request.model.layers()) return std::nullopt;
  Sketch sketch{{0}, {}, {}};
  const auto own = at(plan::own_stages(plan));
  for (std::size_t s = 0; s < own; ++s) {
    int layers = 0;  // of all chunks
    for (std::size_t chunk = s; chunk < plan.stages.size(); chunk += own)
      layers += plan.stages[chunk].last_layer - plan.stages[chunk].first_layer;
    sketch.cuts.push_back(sketch.cuts.back() + layers), sketch.recompute.push_back(plan.stages[s].recompute);
  }
  sketch.schedule = plan.schedule, sketch.chunks = plan.chunks;
  sketch.sequence_parallel = plan.sequence_parallel, sketch.shard_optimizer = plan.shard_optimizer;
  std::vector<int> left;
  for (const Place& place : stock.places) left.push_back(place.count);
  for (std::size_t r = 0; r < plan.stages.front().replicas.size(); ++r) {
    const auto column = column_of(plan, r, stock);
    if (!column) continue;
    auto after = left;
    for (const Slot& slot : column->slots) after[at(slot.place)] -= slot.tensor;
    if (std::ranges::any_of(after, [](int count) { return count < 0; })) continue;
    left = std::move(after);
    if (!is_power_of_two(column->microbatch)) sketch.dealing = Dealing::level;
    const bool as_before =
        !sketch.columns.empty() && sketch.columns.back().slots == column->slots && sketch.columns.back().microbatch == column->microbatch;
    if (as_before)
      ++sketch.columns.back().count;
    else
      sketch.columns.push_back(*column);
  }
  if (sketch.columns.empty()) return std::nullopt;
  return sketch;
}

}  // namespace flotilla::search::pool
