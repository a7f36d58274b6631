#include "changeable_plan.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "flotilla/base/error.hpp"

namespace flotilla::tools {
namespace {

using fixture::Dice;
using search::PlanRequest;

int any(const auto& list, Dice& dice) { return dice.pick(0, static_cast<int>(list.size()) - 1); }
auto& any_of(auto& list, Dice& dice) { return list[static_cast<std::size_t>(any(list, dice))]; }

int entry_of(const plan::Replica& replica, const search::Pool& pool) {
  for (std::size_t e = 0; e < pool.size(); ++e)
    if (pool[e].device_type == replica.device_type && pool[e].zone == replica.zone) return static_cast<int>(e);
  return -1;
}

bool alike(const Pipeline& a, const Pipeline& b) { return a.seats == b.seats; }

/// Scales shares so that they sum up to the batch; each keeps one sequence at least.
void rescale(ChangeablePlan& plan, int batch) {
  double all = 0;
  for (const auto& p : plan.pipelines) all += p.sequences;
  int left = batch;
  for (auto& p : plan.pipelines) left -= p.sequences = std::max(1, static_cast<int>(p.sequences * batch / all));
  for (std::size_t i = 0; left != 0 && i < 4 * plan.pipelines.size() + static_cast<std::size_t>(batch); ++i) {
    int& share = plan.pipelines[i % plan.pipelines.size()].sequences;
    const int step = left > 0 ? 1 : share > 1 ? -1 : 0;
    share += step, left -= step;
  }
}

void move_cut(ChangeablePlan& p, const PlanRequest&, Dice& dice) {
  int &from = any_of(p.layers, dice), &to = any_of(p.layers, dice);
  const int some = dice.chance(0.7) ? 1 : dice.pick(2, 4);
  from -= some, to += some;
}

void change_microbatch(ChangeablePlan& p, const PlanRequest&, Dice& dice) {
  const Pipeline chosen = any_of(p.pipelines, dice);
  const int way = dice.pick(0, 4), drawn = dice.pick(1, 32);
  const bool everywhere = dice.chance(0.3);
  for (auto& other : p.pipelines) {
    if (!everywhere && !alike(other, chosen)) continue;
    int& m = other.microbatch;
    m = way == 0 ? m * 2 : way == 1 ? (m + 1) / 2 : way == 2 ? m + 1 : way == 3 ? m - 1 : drawn;
  }
}

void change_degree(ChangeablePlan& p, const PlanRequest&, Dice& dice) {
  const bool doubled = dice.chance(0.5), all_stages = dice.chance(0.5), all_pipelines = dice.chance(0.7);
  const int stage = any(p.layers, dice);
  const Pipeline chosen = any_of(p.pipelines, dice);
  for (auto& pipeline : p.pipelines) {
    if (!all_pipelines && !alike(pipeline, chosen)) continue;
    for (std::size_t s = 0; s < pipeline.seats.size(); ++s)
      if (all_stages || static_cast<int>(s) == stage) {
        int& tensor = pipeline.seats[s].tensor;
        tensor = doubled ? tensor * 2 : tensor / 2;
      }
  }
}

void remove_pipeline(ChangeablePlan& p, const PlanRequest& r, Dice& dice) {
  for (int some = dice.chance(0.7) ? 1 : dice.pick(2, 4); some > 0 && p.pipelines.size() > 1; --some)
    p.pipelines.erase(p.pipelines.begin() + any(p.pipelines, dice));
  rescale(p, r.global_batch);
}

void add_pipeline(ChangeablePlan& p, const PlanRequest& r, Dice& dice) {
  Pipeline copy = any_of(p.pipelines, dice);
  if (dice.chance(0.5))
    for (const int entry = any(r.pool, dice); auto& seat : copy.seats) seat.entry = entry;
  for (int some = dice.chance(0.7) ? 1 : dice.pick(2, 4); some > 0; --some) p.pipelines.push_back(copy);
  rescale(p, r.global_batch);
}

void change_devices(ChangeablePlan& p, const PlanRequest& r, Dice& dice) {
  const int entry = any(r.pool, dice), stage = any(p.layers, dice);
  const bool all_stages = dice.chance(0.4), kin = dice.chance(0.4);
  Pipeline& one = any_of(p.pipelines, dice);
  const Pipeline chosen = one;
  for (auto& pipeline : p.pipelines) {
    if (&pipeline != &one && !(kin && alike(pipeline, chosen))) continue;
    for (std::size_t s = 0; s < pipeline.seats.size(); ++s)
      if (all_stages || static_cast<int>(s) == stage) pipeline.seats[s].entry = entry;
  }
}

void change_recompute(ChangeablePlan& p, const PlanRequest&, Dice& dice) {
  const auto how =
      std::array{plan::Recompute::none, plan::Recompute::selective, plan::Recompute::full}[static_cast<std::size_t>(dice.pick(0, 2))];
  if (dice.chance(0.3))
    std::ranges::fill(p.recompute, how);
  else
    any_of(p.recompute, dice) = how;
}

void change_schedule(ChangeablePlan& p, const PlanRequest&, Dice& dice) {
  p.schedule = dice.one_of<plan::ScheduleKind>(
      {plan::ScheduleKind::gpipe, plan::ScheduleKind::one_f_one_b, plan::ScheduleKind::interleaved, plan::ScheduleKind::zero_bubble});
  p.chunks = p.schedule == plan::ScheduleKind::interleaved ? dice.pick(2, 4) : 1;
}

void change_options(ChangeablePlan& p, const PlanRequest&, Dice& dice) {
  bool& option = dice.chance(0.5) ? p.sequence_parallel : p.shard_optimizer;
  option = !option;
}

/// From each pipeline that is like one to those that are like another.
void change_shares(ChangeablePlan& p, const PlanRequest& r, Dice& dice) {
  Pipeline &from = any_of(p.pipelines, dice), &to = any_of(p.pipelines, dice);
  const int some = dice.chance(0.6) ? 1 : dice.pick(2, 8);
  if (dice.chance(0.5)) {
    from.sequences -= some, to.sequences += some;
    return;
  }
  const Pipeline gives = from, takes = to;
  for (auto& pipeline : p.pipelines) {
    if (alike(pipeline, takes))
      pipeline.sequences += some;
    else if (alike(pipeline, gives))
      pipeline.sequences -= some;
  }
  for (const auto& pipeline : p.pipelines)
    if (pipeline.sequences < 1) return;
  rescale(p, r.global_batch);
}

void split_stage(ChangeablePlan& p, const PlanRequest&, Dice& dice) {
  const auto s = any(p.layers, dice);
  const int layers = p.layers[static_cast<std::size_t>(s)];
  if (layers < 2) return;
  p.layers[static_cast<std::size_t>(s)] = layers / 2;
  p.layers.insert(p.layers.begin() + s + 1, layers - layers / 2);
  p.recompute.insert(p.recompute.begin() + s, p.recompute[static_cast<std::size_t>(s)]);
  for (auto& pipeline : p.pipelines) pipeline.seats.insert(pipeline.seats.begin() + s, pipeline.seats[static_cast<std::size_t>(s)]);
}

void merge_stages(ChangeablePlan& p, const PlanRequest&, Dice& dice) {
  if (p.layers.size() < 2) return;
  const auto s = dice.pick(0, static_cast<int>(p.layers.size()) - 2), gone = s + dice.pick(0, 1);
  p.layers[static_cast<std::size_t>(s)] += p.layers[static_cast<std::size_t>(s) + 1];
  p.layers.erase(p.layers.begin() + s + 1);
  p.recompute.erase(p.recompute.begin() + gone);
  for (auto& pipeline : p.pipelines) pipeline.seats.erase(pipeline.seats.begin() + gone);
}

/// Half as many pipelines with groups of twice the size, or twice as many with groups of half.
void trade_degree(ChangeablePlan& p, const PlanRequest& r, Dice& dice) {
  const Pipeline chosen = any_of(p.pipelines, dice);
  const bool wider = dice.chance(0.5), all = dice.chance(0.5);
  std::vector<Pipeline> out;
  int kept = 0;
  for (Pipeline pipeline : p.pipelines) {
    if (!all && !alike(pipeline, chosen)) {
      out.push_back(pipeline);
      continue;
    }
    for (auto& seat : pipeline.seats) seat.tensor = wider ? seat.tensor * 2 : seat.tensor / 2;
    if (wider && kept++ % 2 == 1) continue;
    out.push_back(pipeline);
    if (!wider) out.push_back(pipeline);
  }
  p.pipelines = std::move(out);
  rescale(p, r.global_batch);
}

/// Half as many pipelines with twice the stages, or twice as many with half.
void trade_depth(ChangeablePlan& p, const PlanRequest& r, Dice& dice) {
  const bool deeper = dice.chance(0.5);
  if (deeper ? p.pipelines.size() < 2 : p.layers.size() % 2 != 0) return;
  ChangeablePlan out = p;
  out.layers.clear(), out.recompute.clear();
  const std::size_t stages = p.layers.size();
  if (deeper) {
    for (std::size_t s = 0; s < stages; ++s) {
      if (p.layers[s] < 2) return;
      for (const int layers : {p.layers[s] / 2, p.layers[s] - p.layers[s] / 2})
        out.layers.push_back(layers), out.recompute.push_back(p.recompute[s]);
    }
    out.pipelines.clear();
    for (std::size_t i = 0; i + 1 < p.pipelines.size(); i += 2) {
      Pipeline joined = p.pipelines[i];
      joined.seats.clear();
      for (std::size_t s = 0; s < stages; ++s)
        for (const std::size_t of : {i, i + 1}) joined.seats.push_back(p.pipelines[of].seats[s]);
      out.pipelines.push_back(std::move(joined));
    }
  } else {
    for (std::size_t s = 0; s < stages; s += 2)
      out.layers.push_back(p.layers[s] + p.layers[s + 1]), out.recompute.push_back(p.recompute[s]);
    out.pipelines.clear();
    for (const auto& pipeline : p.pipelines)
      for (const std::size_t of : {std::size_t{0}, std::size_t{1}}) {
        Pipeline half = pipeline;
        half.seats.clear();
        for (std::size_t s = of; s < stages; s += 2) half.seats.push_back(pipeline.seats[s]);
        out.pipelines.push_back(std::move(half));
      }
  }
  p = std::move(out);
  rescale(p, r.global_batch);
}

using Change = void (*)(ChangeablePlan&, const PlanRequest&, Dice&);
struct NamedChange {
  const char* name;
  Change apply;
};
constexpr std::array changes{NamedChange{"cut", move_cut},
                             NamedChange{"cut", move_cut},
                             NamedChange{"microbatch", change_microbatch},
                             NamedChange{"microbatch", change_microbatch},
                             NamedChange{"degree", change_degree},
                             NamedChange{"fewer pipelines", remove_pipeline},
                             NamedChange{"more pipelines", add_pipeline},
                             NamedChange{"devices", change_devices},
                             NamedChange{"recomputation", change_recompute},
                             NamedChange{"schedule", change_schedule},
                             NamedChange{"options", change_options},
                             NamedChange{"shares", change_shares},
                             NamedChange{"shares", change_shares},
                             NamedChange{"split", split_stage},
                             NamedChange{"merge", merge_stages},
                             NamedChange{"pipelines for degree", trade_degree},
                             NamedChange{"pipelines for depth", trade_depth}};

bool makes_sense(const ChangeablePlan& p, const PlanRequest& r) {
  int sequences = 0;
  for (const auto& pipeline : p.pipelines) {
    if (pipeline.microbatch < 1 || pipeline.sequences < 1) return false;
    sequences += pipeline.sequences;
    for (const auto& seat : pipeline.seats)
      if (seat.tensor < 1) return false;
  }
  return !p.pipelines.empty() && sequences == r.global_batch && std::ranges::all_of(p.layers, [](int l) { return l > 0; });
}

}  // namespace

std::optional<ChangeablePlan> changeable(const plan::Plan& plan, const search::Pool& pool) {
  ChangeablePlan out;
  const auto own = static_cast<std::size_t>(plan::own_stages(plan));
  out.layers.assign(own, 0);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    out.layers[s % own] += plan.stages[s].last_layer - plan.stages[s].first_layer;
    if (plan.stages[s].replicas.size() != plan.stages.front().replicas.size()) return std::nullopt;
  }
  for (std::size_t s = 0; s < own; ++s) out.recompute.push_back(plan.stages[s].recompute);
  for (std::size_t p = 0; p < plan.stages.front().replicas.size(); ++p) {
    const auto& first = plan.stages.front().replicas[p];
    Pipeline pipeline{{}, std::min(first.quanta * plan.quantum, first.sequences), first.sequences};
    for (std::size_t s = 0; s < own; ++s) {
      const auto& replica = plan.stages[s].replicas[p];
      if (replica.sequences != first.sequences || replica.quanta != first.quanta) return std::nullopt;
      pipeline.seats.push_back({entry_of(replica, pool), replica.tensor_parallel});
    }
    out.pipelines.push_back(std::move(pipeline));
  }
  out.schedule = plan.schedule, out.chunks = plan.chunks;
  out.sequence_parallel = plan.sequence_parallel, out.shard_optimizer = plan.shard_optimizer;
  return out;
}

std::optional<plan::Plan> plan_of(const ChangeablePlan& p, const search::PlanRequest& r) {
  if (!makes_sense(p, r)) return std::nullopt;
  plan::Plan plan;
  plan.model = r.model, plan.length = r.length, plan.global_batch = r.global_batch, plan.precision = r.precision;
  plan.schedule = p.chunks > 1 ? plan::ScheduleKind::one_f_one_b : p.schedule;
  plan.sequence_parallel = p.sequence_parallel, plan.shard_optimizer = p.shard_optimizer;
  plan.quantum = r.global_batch;
  for (const auto& pipeline : p.pipelines) plan.quantum = std::gcd(plan.quantum, std::gcd(pipeline.microbatch, pipeline.sequences));
  int layer = 0;
  for (std::size_t s = 0; s < p.layers.size(); ++s) {
    plan::Stage stage{layer, layer + p.layers[s], p.recompute[s], {}};
    layer = stage.last_layer;
    for (const auto& pipeline : p.pipelines) {
      const auto& entry = r.pool[static_cast<std::size_t>(pipeline.seats[s].entry)];
      stage.replicas.push_back(
          {entry.device_type, entry.zone, pipeline.seats[s].tensor, {}, pipeline.microbatch / plan.quantum, pipeline.sequences});
    }
    plan.stages.push_back(std::move(stage));
  }
  return p.chunks > 1 ? search::in_chunks(plan, p.chunks) : plan;
}

const char* change_at_random(ChangeablePlan& plan, const search::PlanRequest& request, fixture::Dice& dice) {
  const NamedChange& change = changes[static_cast<std::size_t>(any(changes, dice))];
  change.apply(plan, request, dice);
  return change.name;
}

}  // namespace flotilla::tools
