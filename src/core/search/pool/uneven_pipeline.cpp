#include "uneven_pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flotilla/schedule/schedule.hpp"

namespace flotilla::search::pool {
namespace {

int quantum_of(const UnevenPipeline& line, int batch) {
  int quantum = batch;
  for (const StageReplicas& post : line.stages_replicas)
    for (const ReplicaGroup& replica_group : post) quantum = std::gcd(quantum, replica_group.microbatch);
  return quantum;
}

/// Sequences that all replicas take at once.
double at_once(const StageReplicas& post) {
  double all = 0;
  for (const ReplicaGroup& replica_group : post) all += static_cast<double>(replica_group.count) * replica_group.microbatch;
  return all;
}

int replicas_of(const StageReplicas& post) {
  int all = 0;
  for (const ReplicaGroup& replica_group : post) all += replica_group.count;
  return all;
}

int microbatches(const ReplicaGroup& replica_group) {
  const int turn = replica_group.count * replica_group.microbatch;
  return std::max(1, (replica_group.sequences + turn - 1) / turn);
}

/// The largest of (least, most] for which it holds, where it holds up to some number; `least` if for none.
template <class Holds>
int last_that(int least, int most, Holds holds) {
  while (least < most) {
    const int middle = (least + most + 1) / 2;
    if (holds(middle))
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

}  // namespace

plan::Plan plan_of(const UnevenPipeline& line, const DevicePool& device_pool) {
  plan::Plan plan = plan_without_stages(device_pool.request);
  plan.quantum = quantum_of(line, device_pool.request.global_batch);
  for (std::size_t s = 0; s < line.stages_replicas.size(); ++s) {
    plan::Stage stage{line.cuts[s], line.cuts[s + 1], line.recompute[s], {}};
    for (const ReplicaGroup& replica_group : line.stages_replicas[s]) {
      const Place& place = device_pool.places[at(replica_group.place)];
      const int quanta = replica_group.sequences / plan.quantum;
      for (int r = 0; r < replica_group.count; ++r) {
        const int share = (quanta / replica_group.count + (r < quanta % replica_group.count ? 1 : 0)) * plan.quantum;
        stage.replicas.push_back(
            {device_pool.types[at(place.type)].name, place.zone, replica_group.tensor, {}, replica_group.microbatch / plan.quantum, share});
      }
    }
    plan.stages.push_back(std::move(stage));
  }
  return constrained(std::move(plan), device_pool.request.constraints);
}

const LayerCostSample& UnevenPipelineEstimator::layer_cost(const ReplicaGroup& replica_group, plan::Recompute recompute) {
  return estimate_.layer_cost_table().of(device_pool_.places[at(replica_group.place)].type, replica_group.tensor, replica_group.microbatch,
                                         recompute);
}

bool UnevenPipelineEstimator::usable(const StageReplicas& post, plan::Recompute recompute) {
  return std::ranges::all_of(post, [&](const ReplicaGroup& replica_group) { return layer_cost(replica_group, recompute).usable; });
}

/// The part of the batch that all replicas of a stage take at once.
double UnevenPipelineEstimator::share_of_turn(const StageReplicas& post) const {
  return std::min(1.0, at_once(post) / device_pool_.request.global_batch);
}

/// By stage: the part of the batch that is under way from there on, in units of schedule::whole_batch.
std::vector<std::int64_t> UnevenPipelineEstimator::under_way(const UnevenPipeline& line) const {
  std::vector<std::int64_t> grains;
  for (const StageReplicas& post : line.stages_replicas)
    grains.push_back(static_cast<std::int64_t>(share_of_turn(post) * schedule::whole_batch));
  return schedule::under_way(grains);
}

bool UnevenPipelineEstimator::fits(const ReplicaGroup& replica_group, int replicas, int first, int last, plan::Recompute recompute,
                                   int kept) {
  const auto limit = static_cast<double>(device_pool_.types[at(device_pool_.places[at(replica_group.place)].type)].memory.count);
  if (limit <= 0) return true;
  const double sums = network_.staging(first, last, replicas, replica_group.tensor);
  const int shards = device_pool_.request.constraints.shard_optimizer.value_or(false) ? replicas : 1;
  return (estimate_.memory(layer_cost(replica_group, recompute), first, last, kept, shards) + sums) * (1 - tuning::memory_doubt) <= limit;
}

bool UnevenPipelineEstimator::fits(const UnevenPipeline& line, std::size_t stage) {
  const std::int64_t on_their_way = under_way(line)[stage];
  return std::ranges::all_of(line.stages_replicas[stage], [&](const ReplicaGroup& replica_group) {
    const int kept = schedule::in_flight_of(on_their_way, microbatches(replica_group));
    return fits(replica_group, replicas_of(line.stages_replicas[stage]), line.cuts[stage], line.cuts[stage + 1], line.recompute[stage],
                kept);
  });
}

/// Seconds for the whole batch, if the stage never waited.
double UnevenPipelineEstimator::pace(const StageReplicas& post, int first, int last, plan::Recompute recompute) {
  double rate = 0;  // sequences per second
  for (const ReplicaGroup& replica_group : post)
    rate += replica_group.count * replica_group.microbatch / estimate_.pass(layer_cost(replica_group, recompute), first, last);
  double longest = device_pool_.request.global_batch / rate;
  for (const ReplicaGroup& replica_group : post)
    longest = std::max(longest, estimate_.pass(layer_cost(replica_group, recompute), first, last));
  return longest;
}

/// From the first stage on as many layers as the pace and the memory allow; whether all are taken.
bool UnevenPipelineEstimator::fill(UnevenPipeline& line, double most) {
  const int layers = device_pool_.request.model.layers(), stages = static_cast<int>(line.stages_replicas.size());
  const auto way = under_way(line);
  line.cuts.assign(1, 0);
  line.recompute.clear();
  for (int s = 0; s < stages; ++s) {
    const StageReplicas& post = line.stages_replicas[at(s)];
    const int first = line.cuts.back(), end = layers - (stages - 1 - s);
    const int all = std::max(1, static_cast<int>(std::ceil(1 / share_of_turn(post) - 1e-9)));
    const int kept = schedule::in_flight_of(way[at(s)], all);
    int best = first;
    plan::Recompute how = plan::Recompute::none;
    for (const auto recompute : {plan::Recompute::none, plan::Recompute::full}) {
      if (!usable(post, recompute)) continue;
      const int paced = last_that(first, end, [&](int last) { return pace(post, first, last, recompute) <= most; });
      const int last = last_that(first, paced, [&](int l) {
        return std::ranges::all_of(
            post, [&](const ReplicaGroup& replica_group) { return fits(replica_group, replicas_of(post), first, l, recompute, kept); });
      });
      const bool full = last < paced;  // the memory, not the pace, is what ends it
      if (last > best) best = last, how = recompute;
      if (!full) break;
    }
    if (best == first || (s + 1 == stages && best < layers)) return false;
    line.cuts.push_back(best);
    line.recompute.push_back(how);
  }
  return true;
}

std::optional<double> UnevenPipelineEstimator::cut(UnevenPipeline& line, double enough) {
  if (line.stages_replicas.empty()) return std::nullopt;
  const int layers = device_pool_.request.model.layers();
  double high = 0, low = floor(line.stages_replicas);
  for (const StageReplicas& post : line.stages_replicas) {
    if (!usable(post, plan::Recompute::none)) return std::nullopt;
    high = std::max(high, tuning::slowest_uneven_cut * pace(post, 0, layers, plan::Recompute::none));
  }
  high = std::min(high, enough);  // the slowest stage alone takes no longer than all
  UnevenPipeline best = line;
  if (!fill(best, high)) return std::nullopt;
  UnevenPipeline other = line;
  for (int i = 0; i < tuning::uneven_halvings && high - low > 1e-3 * high; ++i) {
    const double middle = i == 0 ? std::min(tuning::likely_uneven_cut * low, (low + high) / 2) : (low + high) / 2;
    if (fill(other, middle))
      high = middle, std::swap(best, other);
    else
      low = middle;
  }
  line = std::move(best);
  return (*this)(line);
}

/// Seconds for the whole batch with all layers on one stage, at least.
double UnevenPipelineEstimator::least_pace(const StageReplicas& post) {
  double rate = 0, longest = 0;
  for (const ReplicaGroup& replica_group : post) {
    const auto& least = estimate_.layer_cost_table().least_pass(device_pool_.places[at(replica_group.place)].type, replica_group.tensor,
                                                                replica_group.microbatch, plan::Recompute::none);
    if (!least.usable) return 0;
    const double pass = least.embedding + device_pool_.request.model.blocks * least.block + least.head;
    rate += replica_group.count * replica_group.microbatch / pass;
    longest = std::max(longest, pass);
  }
  return std::max(device_pool_.request.global_batch / rate, longest);
}

double UnevenPipelineEstimator::floor(const std::vector<StageReplicas>& stages_replicas) {
  double rate = 0;  // batches a second of all stages together, each with all layers
  for (const StageReplicas& post : stages_replicas)
    if (const double pace = least_pace(post); pace > 0) rate += 1 / pace;
  return rate > 0 ? 1 / rate : 0;
}

/// Quanta to the crews as fast as they are, the rest to those that end first.
bool UnevenPipelineEstimator::deal(StageReplicas& post, int first, int last, plan::Recompute recompute, int quantum) {
  const int quanta = device_pool_.request.global_batch / quantum;
  if (post.size() == 1) {
    post.front().sequences = device_pool_.request.global_batch;
    return post.front().count <= quanta;
  }
  std::vector<double> speeds;
  for (const ReplicaGroup& replica_group : post)
    speeds.push_back(replica_group.count * replica_group.microbatch / estimate_.pass(layer_cost(replica_group, recompute), first, last));
  const double all = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<int> shares;
  for (const double speed : speeds) shares.push_back(static_cast<int>(quanta * speed / all));
  for (int left = quanta - std::accumulate(shares.begin(), shares.end(), 0); left > 0; --left) {
    std::size_t next = 0;
    for (std::size_t c = 1; c < post.size(); ++c)
      if ((shares[c] + 1) / speeds[c] < (shares[next] + 1) / speeds[next]) next = c;
    ++shares[next];
  }
  for (std::size_t c = 0; c < post.size(); ++c) {
    if (shares[c] < post[c].count) return false;
    post[c].sequences = shares[c] * quantum;
  }
  return true;
}

bool UnevenPipelineEstimator::deal(UnevenPipeline& line) {
  const int quantum = quantum_of(line, device_pool_.request.global_batch);
  for (std::size_t s = 0; s < line.stages_replicas.size(); ++s)
    if (!deal(line.stages_replicas[s], line.cuts[s], line.cuts[s + 1], line.recompute[s], quantum)) return false;
  return true;
}

/// Sums of a stage's gradients and its optimizer.
double UnevenPipelineEstimator::after(const UnevenPipeline& line, std::size_t stage) {
  const StageReplicas& post = line.stages_replicas[stage];
  const int first = line.cuts[stage], last = line.cuts[stage + 1], layers = device_pool_.request.model.layers();
  const int blocks = std::min(last, layers - 1) - std::max(first, 1);
  const auto of = [&](double embedding, double block, double head) {
    return (first == 0 ? embedding : 0) + blocks * block + (last == layers ? head : 0);
  };
  // The network knows sums over the columns of a candidate: one whose every stage is this one.
  CandidatePlan alike{line.cuts, line.recompute, {}};
  double pass = 1e300, update = 0;
  for (const ReplicaGroup& replica_group : post) {
    alike.pipelines.push_back({std::vector<Slot>(line.stages_replicas.size(), {replica_group.place, replica_group.tensor}),
                               replica_group.microbatch, replica_group.count});
    const LayerCostSample& s = layer_cost(replica_group, line.recompute[stage]);
    pass = std::min(pass, estimate_.pass(s, first, last));
    update = std::max(update, of(s.embedding.update, s.block.update, s.head.update));
  }
  const auto& sums = network_.sums(alike, static_cast<int>(stage), std::vector<int>(line.stages_replicas.size() * post.size(), 0));
  const double all = of(sums.embedding, sums.block, sums.head);
  const double hidden = std::min(0.6 * pass, all - (first == 0 ? sums.embedding : std::min(all, sums.block)));
  return all - std::max(0.0, hidden) + update;
}

/// A microbatch's way to the next stage and back, between the replicas that are farthest apart.
double UnevenPipelineEstimator::behind(const StageReplicas& here, const StageReplicas& next) {
  double longest = 0;
  for (const ReplicaGroup& a : here)
    for (const ReplicaGroup& b : next) {
      const Slot from{a.place, a.tensor}, to{b.place, b.tensor};
      const int microbatch = std::min(a.microbatch, b.microbatch);
      const double there =
          network_.message({a.place, b.place, false, estimate_.flows(from, a.count), estimate_.pieces(from), a.count}, microbatch);
      const double back =
          network_.message({b.place, a.place, false, estimate_.flows(to, b.count), estimate_.pieces(to), b.count}, microbatch);
      longest = std::max(longest, there + back);
    }
  return longest;
}

std::optional<double> UnevenPipelineEstimator::operator()(UnevenPipeline& line) {
  for (std::size_t s = 0; s < line.stages_replicas.size(); ++s)
    if (!usable(line.stages_replicas[s], line.recompute[s])) return std::nullopt;
  if (!deal(line)) return std::nullopt;
  double slowest = 0, way = 0, turn = 0, last = 0;
  for (std::size_t s = 0; s < line.stages_replicas.size(); ++s) {
    if (!fits(line, s)) return std::nullopt;
    const double messages = s + 1 < line.stages_replicas.size() ? behind(line.stages_replicas[s], line.stages_replicas[s + 1]) : 0;
    double longest = 0;
    for (const ReplicaGroup& replica_group : line.stages_replicas[s]) {
      const double pass = estimate_.pass(layer_cost(replica_group, line.recompute[s]), line.cuts[s], line.cuts[s + 1]);
      const double each = std::max(pass, messages / 2),
                   turns = static_cast<double>(replica_group.sequences) / (replica_group.count * replica_group.microbatch);
      longest = std::max(longest, pass);
      if (each * std::max(1.0, turns) > slowest) slowest = each * std::max(1.0, turns), turn = each;
    }
    way += longest + messages;
    last = std::max(last, after(line, s));
  }
  return slowest + std::max(0.0, way - turn) + last;
}

}  // namespace flotilla::search::pool
