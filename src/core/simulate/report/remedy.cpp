#include <algorithm>

#include "flotilla/base/text.hpp"
#include "flotilla/model/tensors.hpp"
#include "flotilla/schedule/schedule.hpp"
#include "flotilla/simulate/why_not.hpp"

namespace flotilla::simulate {
namespace {

using plan::Plan;
using plan::Recompute;

/// A plan with one thing changed, and how people say so.
struct Change {
  Plan plan;
  std::string words;
};

std::string numbers_in_words(const char* noun, const std::vector<int>& numbers) {
  std::string words = noun;
  words += numbers.size() == 1 ? " " : "s ";
  for (int n : numbers) words += text(n == numbers.front() ? "" : ", ", n);
  return words;
}

void add_recomputation(const Plan& plan, const std::vector<int>& stages, const std::string& where, std::vector<Change>& changes) {
  for (auto recompute : {Recompute::selective, Recompute::full}) {
    Plan changed = plan;
    for (int s : stages) {
      auto& now = changed.stages[static_cast<std::size_t>(s)].recompute;
      now = std::max(now, recompute);  // none, selective, full: never less of it
    }
    if (changed != plan) changes.push_back({std::move(changed), text("recompute ", to_string(recompute), " in ", where)});
  }
}

void add_microbatches(const Plan& plan, std::vector<Change>& changes) {
  Plan changed = plan;
  const auto largest = [&] {
    int sequences = 0;
    for (const auto& stage : changed.stages)
      for (const auto& replica : stage.replicas) sequences = std::max(sequences, replica.quanta * changed.quantum);
    return sequences;
  };
  const int before = largest();
  for (int size = before / 2; size >= 1; size /= 2) {
    // Quanta are indivisible: below one of them the quantum itself gets smaller, all shares remain multiples of it.
    while (changed.quantum > size) {
      if (changed.quantum % 2 != 0) return;
      changed.quantum /= 2;
      for (auto& stage : changed.stages)
        for (auto& replica : stage.replicas) replica.quanta *= 2;
    }
    for (auto& stage : changed.stages)
      for (auto& replica : stage.replicas) replica.quanta = std::clamp(size / changed.quantum, 1, replica.quanta);
    changes.push_back({changed, text("microbatches of ", largest(), " instead of ", before, " sequences")});
  }
}

void add_schedule(const Plan& plan, std::vector<Change>& changes) {
  const int stages = static_cast<int>(plan.stages.size());
  const schedule::Schedule &here = schedule::schedule_of(plan), &lean = schedule::schedule_of(plan::ScheduleKind::one_f_one_b);
  const schedule::Position last{stages, stages - 1, plan.global_batch};
  const bool keeps_more = here.in_flight(last).least > lean.in_flight(last).most || here.most_deferred(last.index) > 0;
  if (!keeps_more) return;
  Plan changed = plan;
  changed.schedule = plan::ScheduleKind::one_f_one_b;
  changes.push_back({std::move(changed), text("schedule 1f1b instead of ", plan::to_string(plan.schedule))});
}

/// What several hold of the optimizer's state, dealt out among them.
void add_shared_optimizer(const Plan& plan, std::vector<Change>& changes) {
  const auto ties = [](const model::Tensor& tensor) { return tensor.tied_layer >= 0; };
  const bool copies = std::ranges::any_of(plan.stages, [](const plan::Stage& stage) { return stage.replicas.size() > 1; }) ||
                      (plan::own_stages(plan) > 1 && std::ranges::any_of(model::tensors(plan.model), ties));
  if (plan.shard_optimizer || !copies) return;
  Plan changed = plan;
  changed.shard_optimizer = true;
  changes.push_back({std::move(changed), "optimizer sharded over replicas"});
}

void add_moved_layers(const Plan& plan, int stage, std::vector<Change>& changes) {
  const auto s = static_cast<std::size_t>(stage);
  const int layers = plan.stages[s].last_layer - plan.stages[s].first_layer;
  constexpr int most_moved = 4;
  for (int moved = 1; moved <= std::min(layers - 1, most_moved); ++moved) {
    const std::string words = moved == 1 ? "one layer" : text(moved, " layers");
    if (s > 0) {
      Plan changed = plan;
      changed.stages[s - 1].last_layer = changed.stages[s].first_layer += moved;
      changes.push_back({std::move(changed), text(words, " moved from stage ", stage, " to stage ", stage - 1)});
    }
    if (s + 1 < plan.stages.size()) {
      Plan changed = plan;
      changed.stages[s + 1].first_layer = changed.stages[s].last_layer -= moved;
      changes.push_back({std::move(changed), text(words, " moved from stage ", stage, " to stage ", stage + 1)});
    }
  }
}

bool like(const plan::Replica& a, const plan::Replica& b) {
  return a.device_type == b.device_type && a.zone == b.zone && a.tensor_parallel == b.tensor_parallel;
}

/// Replicas in pairs of one kind: (0, 1), (2, 3), ... of every stage.
bool pairs_up(const Plan& plan) {
  for (const auto& stage : plan.stages) {
    if (stage.replicas.size() % 2 != 0) return false;
    for (std::size_t r = 0; r < stage.replicas.size(); r += 2)
      if (!like(stage.replicas[r], stage.replicas[r + 1])) return false;
  }
  return true;
}

/// The devices of two replicas as one group.
void add_wider_replicas(const Plan& plan, std::vector<Change>& changes) {
  if (!pairs_up(plan)) return;
  Plan changed = plan;
  for (auto& stage : changed.stages) {
    std::vector<plan::Replica> merged;
    for (std::size_t r = 0; r < stage.replicas.size(); r += 2) {
      auto pair = stage.replicas[r];
      pair.tensor_parallel *= 2;
      pair.sequences += stage.replicas[r + 1].sequences;
      pair.devices.insert(pair.devices.end(), stage.replicas[r + 1].devices.begin(), stage.replicas[r + 1].devices.end());
      merged.push_back(std::move(pair));
    }
    stage.replicas = std::move(merged);
  }
  changes.push_back({std::move(changed), "twice the tensor degree, half the replicas"});
}

/// `first` keeps half of the layers, what is returned takes the others. An even plan of more stages than layers is not to be had.
std::optional<plan::Stage> split_off(plan::Stage& first) {
  const int layers = first.last_layer - first.first_layer;
  if (layers < 2) return std::nullopt;
  plan::Stage second = first;
  second.first_layer = first.last_layer = first.first_layer + (layers + 1) / 2;
  return second;
}

/// Every stage becomes two; of each pair of replicas one goes to either.
void add_deeper_pipeline(const Plan& plan, std::vector<Change>& changes) {
  if (plan.chunks != 1 || !pairs_up(plan)) return;
  Plan changed = plan;
  changed.stages.clear();
  for (plan::Stage first : plan.stages) {
    auto second = split_off(first);
    if (!second) return;
    const auto all = first.replicas;
    first.replicas.clear();
    second->replicas.clear();
    for (std::size_t r = 0; r < all.size(); r += 2) {
      for (auto* half : {&first, &*second}) half->replicas.push_back(all[r + (half == &first ? 0 : 1)]);
      for (auto* half : {&first, &*second}) half->replicas.back().sequences = all[r].sequences + all[r + 1].sequences;
    }
    changed.stages.push_back(std::move(first));
    changed.stages.push_back(std::move(*second));
  }
  changes.push_back({std::move(changed), "twice the stages, half the replicas"});
}

Plan unbound(Plan plan) {
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) replica.devices.clear();
  return plan;
}

void add_more_devices(const Plan& plan, const std::vector<int>& short_stages, std::vector<Change>& changes) {
  Plan wider = unbound(plan);
  for (auto& stage : wider.stages)
    for (auto& replica : stage.replicas) replica.tensor_parallel *= 2;
  changes.push_back({std::move(wider), "twice the tensor degree"});
  if (plan.chunks != 1) return;
  Plan deeper = unbound(plan);
  deeper.stages.clear();
  for (int s = 0; s < static_cast<int>(plan.stages.size()); ++s) {
    plan::Stage first = unbound(plan).stages[static_cast<std::size_t>(s)];
    auto second = std::ranges::find(short_stages, s) != short_stages.end() ? split_off(first) : std::nullopt;
    deeper.stages.push_back(std::move(first));
    if (second) deeper.stages.push_back(std::move(*second));
  }
  if (deeper.stages.size() > plan.stages.size())
    changes.push_back({std::move(deeper), numbers_in_words("stage", short_stages) + " as two each"});
}

std::vector<int> all_stages(const Plan& plan) {
  std::vector<int> all(plan.stages.size());
  for (std::size_t s = 0; s < all.size(); ++s) all[s] = static_cast<int>(s);
  return all;
}

/// Plans with one thing changed, on the same devices.
std::vector<Change> changes_of(const Plan& plan, const std::vector<int>& short_stages) {
  std::vector<Change> changes;
  add_recomputation(plan, short_stages, numbers_in_words("stage", short_stages), changes);
  if (short_stages.size() < plan.stages.size()) add_recomputation(plan, all_stages(plan), "every stage", changes);
  add_microbatches(plan, changes);
  add_schedule(plan, changes);
  add_shared_optimizer(plan, changes);
  for (int s : short_stages) add_moved_layers(plan, s, changes);
  add_wider_replicas(plan, changes);
  add_deeper_pipeline(plan, changes);
  return changes;
}

/// What changes lead to: the fastest that fits, and the one that comes nearest to fitting.
struct RemedyOutcome {
  std::optional<Remedy> best;
  std::optional<Change> nearest;
};

RemedyOutcome outcome_of(const Plan& plan, std::vector<Change> changes, Seconds iteration, const Forecasting& forecast) {
  RemedyOutcome outcome;
  Bytes nearest_spare;
  for (auto& change : changes) {
    if (!plan::validate(change.plan).empty()) continue;
    const auto trial = forecast(change.plan);
    if (!trial) continue;
    if (trial->spare.count < 0) {
      if (outcome.nearest && nearest_spare >= trial->spare) continue;
      nearest_spare = trial->spare;
      outcome.nearest = std::move(change);
    } else if (!outcome.best || trial->iteration < outcome.best->iteration) {
      const int more = plan::rank_count(change.plan) - plan::rank_count(plan);
      outcome.best = Remedy{change.words, trial->spare, trial->iteration, trial->iteration / iteration - 1, more, std::move(change.plan)};
    }
  }
  return outcome;
}

}  // namespace

std::optional<Remedy> find_remedy(const Plan& plan, const std::vector<int>& short_stages, Seconds iteration, const Forecasting& forecast) {
  constexpr int most_changes = 4;
  Plan now = plan;
  std::string so_far;
  for (int step = 0; step < most_changes; ++step) {
    const auto stages = step == 0 ? short_stages : all_stages(now);
    auto changes = changes_of(now, stages);
    for (auto& change : changes) change.words = so_far + change.words;
    auto here = outcome_of(plan, std::move(changes), iteration, forecast);
    if (here.best) return here.best;
    std::vector<Change> larger;
    add_more_devices(now, stages, larger);
    for (auto& change : larger) change.words = so_far + change.words;
    auto there = outcome_of(plan, std::move(larger), iteration, forecast);
    if (there.best) return there.best;
    if (!here.nearest && !there.nearest) return std::nullopt;
    Change& nearest = here.nearest ? *here.nearest : *there.nearest;
    so_far = nearest.words + ", and ";
    now = std::move(nearest.plan);
  }
  return std::nullopt;
}

}  // namespace flotilla::simulate
