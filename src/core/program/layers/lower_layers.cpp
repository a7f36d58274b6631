#include "lower_layers.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/error.hpp"
#include "layer_class.hpp"

namespace flotilla::program {
namespace {

using plan::ScheduleKind;

void require_schedule(const plan::Plan& plan, const Runtime& runtime) {
  const auto refuse = [&](const auto&... why) {
    throw Error{ErrorKind::unavailable, text("schedule: the runtime '", runtime.name, "' executes ", why...)};
  };
  const int depth = plan::own_stages(plan);
  if (!plan.model.frozen.empty() || plan.model.lora.on())
    throw Error{ErrorKind::unavailable, text("model: the runtime '", runtime.name, "' trains every tensor; the plan freezes some")};
  if (plan.schedule == ScheduleKind::gpipe || plan.schedule == ScheduleKind::zero_bubble)
    refuse("1f1b and interleaved; the plan says ", plan::to_string(plan.schedule));
  if (plan.schedule == ScheduleKind::interleaved && runtime.layers->blocking) refuse("1f1b; the plan says interleaved");
  if (plan.chunks > 1 && depth < 3) refuse("interleaved schedules on 3 devices in a row at least; the plan has ", depth);
  if (plan.sequence_parallel && runtime.layers->blocking)
    throw Error{ErrorKind::unavailable, text("sequence_parallel: the runtime '", runtime.name, "' knows no sequence parallelism")};
  if (plan.shard_optimizer && !runtime.layers->shards)
    throw Error{ErrorKind::unavailable,
                text("shard_optimizer: the runtime '", runtime.name, "' keeps the whole optimizer state everywhere")};
  for (const auto& replica : plan.stages.front().replicas)
    if (plan.chunks > 1 && replica.microbatches(plan.quantum) % depth != 0)
      refuse("interleaved schedules of a multiple of ", depth, " microbatches; the plan has ", replica.microbatches(plan.quantum));
}

/// Replicas that share weights gather them in every pass, so they make as many.
void require_equal_passes(const plan::Plan& plan, const Runtime& runtime) {
  if (!plan.shard_optimizer || runtime.layers->sharded != ShardedState::parameters) return;
  const auto& replicas = plan.stages.front().replicas;
  const int passes = replicas.front().microbatches(plan.quantum);
  for (std::size_t r = 1; r < replicas.size(); ++r)
    if (const int others = replicas[r].microbatches(plan.quantum); others != passes)
      throw Error{ErrorKind::unavailable,
                  text("shard_optimizer: the runtime '", runtime.name, "' shards weights among replicas of equally ",
                       "many microbatches; replica 0 has ", passes, ", replica ", r, " has ", others)};
}

/// Plans with fewer replicas than the runtime shares experts among are forecast, too: a search tries out layers on one.
void require_experts(const plan::Plan& plan, const Runtime& runtime) {
  const int group = runtime.layers->expert_parallel, experts = plan.model.experts.count;
  if (experts > 0 && group > 0 && experts % group != 0)
    throw Error{ErrorKind::unavailable, text("model: the runtime '", runtime.name, "' shares experts among ", group,
                                             " replicas; expected a divisor of the ", experts, " experts of a block")};
}

void require_columns(const plan::Plan& plan, const Runtime& runtime) {
  const auto& first = plan.stages.front().replicas;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto refuse = [&](const auto&... why) {
      throw Error{ErrorKind::unavailable, text("stages[", s, "]: the runtime '", runtime.name, "' executes ", why...)};
    };
    const auto& replicas = plan.stages[s].replicas;
    if (replicas.size() != first.size())
      refuse("the same number of replicas in every stage; this one has ", replicas.size(), ", the first has ", first.size());
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      if (replicas[r].sequences != first[r].sequences || replicas[r].quanta != first[r].quanta)
        refuse("replica ", r, " with the same sequences and quanta in every stage");
      if (replicas[r].devices.empty()) refuse("plans that are bound to devices; replica ", r, " has none: give the ranks in 'devices'");
    }
  }
}

class LayerLowering {
 public:
  LayerLowering(const plan::Plan& plan, const Runtime& runtime) : runtime_{runtime} {
    program_.plan = plan;
    program_.tensors = model::tensors(plan.model);
    program_.ranks.resize(static_cast<std::size_t>(plan::rank_count(plan)));
  }

  Program run() {
    const LayerSizes sizes{program_.plan, program_.tensors, runtime_};
    bind_world();
    for (int s = 0; s < depth(); ++s) bind_meetings(s);
    for (int s = 0; s < depth(); ++s) bind_sums(s);
    for (int s = 0; s < depth(); ++s)
      for (int r = 0; r < replica_count(); ++r)
        for (int t = 0; t < replica(s, r).tensor_parallel; ++t) bind(sizes, s, r, t);
    return std::move(program_);
  }

 private:
  int depth() const { return plan::own_stages(program_.plan); }
  int replica_count() const { return static_cast<int>(program_.plan.stages.front().replicas.size()); }
  const plan::Replica& replica(int s, int r) const {
    return program_.plan.stages[static_cast<std::size_t>(s)].replicas[static_cast<std::size_t>(r)];
  }
  Rank device(int s, int r, int t) const { return replica(s, r).devices[static_cast<std::size_t>(t)]; }
  RankBinding& binding(Rank rank) { return program_.ranks[rank.index()]; }

  void add_group(Group::Kind kind, std::vector<Rank> members) {
    const int index = static_cast<int>(program_.groups.size());
    for (Rank rank : members) binding(rank).groups.push_back(index);
    program_.groups.push_back({kind, std::move(members), Group::Algorithm::library, runtime_.layers->reduction_rate});
  }

  void bind_world() {
    std::vector<Rank> all;
    for (std::size_t r = 0; r < program_.ranks.size(); ++r) all.emplace_back(static_cast<int>(r));
    add_group(Group::Kind::world, std::move(all));
  }

  int neighbour(int s) const { return (s + depth()) % depth(); }
  bool wraps() const { return program_.plan.chunks > 1; }
  /// Members that have a message with the replica of a neighbouring stage; all of ours where there is none.
  int talkers(int s, int r, int side) const {
    const int degree = replica(s, r).tensor_parallel;
    const bool exists = wraps() || (s + side >= 0 && s + side < depth());
    return exists ? std::min(degree, replica(neighbour(s + side), r).tensor_parallel) : degree;
  }
  bool meets(int s, int r) const { return std::min(talkers(s, r, -1), talkers(s, r, 1)) < replica(s, r).tensor_parallel; }

  void bind_meetings(int s) {
    for (int r = 0; r < replica_count(); ++r)
      if (meets(s, r)) add_group(Group::Kind::tensor, replica(s, r).devices);
  }

  /// Tensor degrees of a stage may differ: as many sums as the smallest has members, each of that member's share.
  int smallest_degree(int s) const {
    int degree = replica(s, 0).tensor_parallel;
    for (int r = 1; r < replica_count(); ++r) degree = std::min(degree, replica(s, r).tensor_parallel);
    return degree;
  }

  void bind_sums(int s) {
    for (int t = 0; replica_count() > 1 && t < smallest_degree(s); ++t) {
      add_data_group(s, t, 0, replica_count());
      const int group = shard_group(program_.plan, *runtime_.layers);
      for (int r = 0; group < replica_count() && r < replica_count(); r += group) add_data_group(s, t, r, group);
    }
  }

  /// Members `t` of replicas [first, first + count).
  void add_data_group(int s, int t, int first, int count) {
    std::vector<Rank> members;
    for (int r = first; r < std::min(first + count, replica_count()); ++r) members.push_back(device(s, r, t));
    add_group(Group::Kind::data, std::move(members));
  }

  LayerKind kind_of(int s, int r, int t) const {
    const auto& here = replica(s, r);
    LayerKind kind;
    kind.position = s;
    kind.device_type = here.device_type;
    kind.tensor_parallel = here.tensor_parallel;
    kind.sequences = here.sequences;
    kind.microbatch = here.quanta * program_.plan.quantum;
    kind.sum_parallel = smallest_degree(s);
    kind.sums = replica_count() > 1 && t < kind.sum_parallel;
    kind.talks_back = t < talkers(s, r, -1);
    kind.talks_forth = t < talkers(s, r, 1);
    kind.meets = meets(s, r);
    return kind;
  }

  void bind(const LayerSizes& sizes, int s, int r, int t) {
    const LayerKind kind = kind_of(s, r, t);
    const auto [found, fresh] = classes_.try_emplace(kind, static_cast<int>(program_.classes.size()));
    if (fresh) program_.classes.push_back(LayerClassBuilder{program_.plan, sizes, runtime_, kind}.build());
    auto& here = binding(device(s, r, t));
    here.rank_class = found->second;
    here.tensor_index = t;
    here.replica = r;
    const LayerSlots slots =
        layer_slots(kind, depth(), program_.plan.chunks, shard_group(program_.plan, *runtime_.layers) < replica_count());
    if (slots.previous >= 0) here.peers.push_back(device(neighbour(s - 1), r, t));
    if (slots.next >= 0) here.peers.push_back(device(neighbour(s + 1), r, t));
  }

  const Runtime& runtime_;
  Program program_;
  std::map<LayerKind, int> classes_;
};

}  // namespace

Program lower_layers(const plan::Plan& plan, const Runtime& runtime) {
  FLOTILLA_ASSERT(runtime.layers.has_value(), runtime.name);
  plan::require_valid(plan, "plan");
  require_schedule(plan, runtime);
  require_columns(plan, runtime);
  require_experts(plan, runtime);
  require_equal_passes(plan, runtime);
  return LayerLowering{plan, runtime}.run();
}

}  // namespace flotilla::program
