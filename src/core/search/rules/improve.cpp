// How a plan gets better: layers moved between stages, zones swapped, rings put in order.
#include <algorithm>
#include <numeric>

#include "zone_assigner.hpp"

namespace flotilla::search::rules {
namespace {

bool stands(const sailor::SailorRun& run, const PoolSlot& e) { return run.kind.type == e.type && run.kind.zone == e.zone; }

}  // namespace

FormulaPlan ZoneAssigner::moved(const FormulaPlan& from) {
  best_ = from;
  for (bool better = from.value < never; better;) {
    const FormulaPlan before = best_;
    for (std::size_t s = 0; s + 1 < before.plan.stages.size(); ++s)
      for (const int by : {-2, -1, 1, 2}) {
        tried_ = before;
        auto &front = tried_.plan.stages[s], &behind = tried_.plan.stages[s + 1];
        front.last_layer = behind.first_layer = front.last_layer + by;
        if (front.first_layer < front.last_layer && behind.first_layer < behind.last_layer) consider();
      }
    better = is_better(best_, before);
  }
  return best_;
}

/// Puts rings in order, then swaps zones of the stages that decide the time, as long as that helps.
void ZoneAssigner::improve() {
  for (std::size_t s = 0; s < best_.plan.stages.size(); ++s) {
    tried_ = best_;
    order_ring(s);
    consider();
    tried_ = best_;
    std::ranges::reverse(tried_.plan.stages[s].replicas);
    consider();
    for (std::size_t other = 0; other < best_.plan.stages.size(); ++other) {
      if (other + 1 != s && other != s + 1) continue;
      tried_ = best_;
      follow(s, other);
      consider();
    }
  }
  const bool few = !across_ || p_.entries.size() <= tuning::rules_entries_to_swap;
  for (int round = 0; few && round < tuning::rules_rounds_of_swaps; ++round) {
    const auto& stages = best_.estimate.stages;
    const auto by_pace = std::ranges::max_element(stages, {}, [](const auto& s) { return s.compute + s.sending; });
    const auto by_ring = std::ranges::max_element(stages, {}, [](const auto& s) { return s.reduction; });
    if (!improve_stage(at(by_ring - stages.begin())) && !improve_stage(at(by_pace - stages.begin()))) return;
  }
}

bool ZoneAssigner::improve_stage(std::size_t stage) {
  const FormulaPlan before = best_;
  std::vector<int> entries, all(p_.entries.size());
  std::iota(all.begin(), all.end(), 0);
  for (int e = 0; e < static_cast<int>(p_.entries.size()); ++e)
    if (std::ranges::any_of(before.plan.stages[stage].replicas, [&](const auto& run) { return stands(run, p_.entries[at(e)]); }))
      entries.push_back(e);
  for (std::size_t other = 0; other < before.plan.stages.size(); ++other)
    for (const int entry : entries)
      for (const int into : across_ ? all : p_.groups[at(p_.entries[at(entry)].group)].entries)
        for (const SwapPart part : {SwapPart::all, SwapPart::half, SwapPart::balance, SwapPart::one}) {
          if (entry == into || p_.entries[at(entry)].type != p_.entries[at(into)].type) continue;
          tried_ = before;
          if (try_swap(stage, other, entry, into, part)) consider();
        }
  return is_better(best_, before);
}

/// Replicas of `stage` go from `entry` into another entry of their type: as many as there is room or as `other` gives way, half of these,
/// half of those that stand there, or one.
bool ZoneAssigner::try_swap(std::size_t stage, std::size_t other, int entry, int into, SwapPart part) {
  const PoolSlot &from = p_.entries[at(entry)], &to = p_.entries[at(into)];
  if (!across_ && from.region != to.region) return false;
  auto& stages = tried_.plan.stages;
  int tensor = 0, mine = 0, theirs = 0;
  for (const auto& run : stages[stage].replicas)
    if (stands(run, from)) tensor = run.kind.tensor_parallel, mine += run.count;
  if (mine == 0 || to.per_node % tensor != 0) return false;
  if (other == stage) {
    int used = 0;
    for (const auto& s : stages)
      for (const auto& run : s.replicas)
        if (stands(run, to)) used += run.count * run.kind.tensor_parallel;
    theirs = (to.count - used) / tensor;
  } else {
    for (const auto& run : stages[other].replicas)
      if (stands(run, to) && run.kind.tensor_parallel == tensor) theirs += run.count;
  }
  const int all = std::min(mine, theirs);
  const int count = part == SwapPart::all       ? all
                    : part == SwapPart::half    ? all / 2
                    : part == SwapPart::balance ? std::min(all, mine / 2)
                                                : 1;
  if (all <= 0 || count <= 0 || (part != SwapPart::all && count == all)) return false;
  const auto turn = [&](sailor::SailorStage& s, const PoolSlot& x, const PoolSlot& y) {
    std::vector<sailor::SailorRun> runs;
    int left = count;
    for (sailor::SailorRun run : s.replicas) {
      if (!stands(run, x)) {
        runs.push_back(run);
        continue;
      }
      const int some = std::min(left, run.count);
      left -= some;
      if (some > 0) runs.push_back({{y.type, y.zone, run.kind.tensor_parallel}, some});
      if (run.count > some) runs.push_back({run.kind, run.count - some});
    }
    s.replicas = runs;
  };
  turn(stages[stage], from, to);
  if (other != stage) turn(stages[other], to, from);
  order_ring(stage);
  if (other != stage) order_ring(other);
  return true;
}

/// Zones in the order in which they stand in the other stage.
void ZoneAssigner::follow(std::size_t stage, std::size_t neighbour) {
  auto& runs = tried_.plan.stages[stage].replicas;
  const auto& others = tried_.plan.stages[neighbour].replicas;
  const auto place = [&](const sailor::SailorRun& run) {
    return std::ranges::find_if(others, [&](const auto& other) { return other.kind.zone == run.kind.zone; }) - others.begin();
  };
  std::stable_sort(runs.begin(), runs.end(), [&](const auto& x, const auto& y) { return place(x) < place(y); });
}

/// In the order of the fastest ring, where a stage has one degree of a type in an entry.
void ZoneAssigner::order_ring(std::size_t stage) {
  auto& s = tried_.plan.stages[stage];
  std::vector<Rings::RingPart> parts;
  std::vector<int> tensors(p_.entries.size(), 0);
  int least = sailor::most_gradient_shares;
  for (const auto& run : s.replicas) {
    const auto entry =
        std::ranges::find_if(p_.entries, [&](const PoolSlot& e) { return e.type == run.kind.type && e.zone == run.kind.zone; });
    int& tensor = tensors[at(entry - p_.entries.begin())];
    if (tensor != 0 && tensor != run.kind.tensor_parallel) return;
    tensor = run.kind.tensor_parallel;
    least = std::min(least, tensor);
    parts.push_back({static_cast<int>(entry - p_.entries.begin()), run.count});
  }
  const double bytes = p_.tables.weight_bytes(s.first_layer, s.last_layer) / least;
  const int degree = sailor::degree(s);
  s.replicas.clear();
  for (const auto& part : rings_.ordered(parts, std::min(bytes, sailor::bucket) / degree)) {
    const PoolSlot& e = p_.entries[at(part.entry)];
    s.replicas.push_back({{e.type, e.zone, tensors[at(part.entry)]}, part.count});
  }
}

}  // namespace flotilla::search::rules
