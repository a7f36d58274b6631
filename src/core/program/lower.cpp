#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "class_builder.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/program.hpp"
#include "layers/lower_layers.hpp"

namespace flotilla::program {
namespace {

constexpr std::size_t group_slots = 4, peer_slots = 4;  // of a rank, where tensor degrees are equal: room taken at once

const plan::Replica& first_replica(const plan::Stage& stage) { return stage.replicas.front(); }

/// What this runtime executes: columns of replicas (replica i of every stage handles the same sequences in the same microbatches) and one
/// tensor degree for the replicas of a stage, so that their gradient shards line up.
void require_executable(const plan::Plan& plan, const Runtime& runtime) {
  const auto refuse_plan = [&](const char* where, const auto&... why) {
    throw Error{ErrorKind::unavailable, text(where, ": the runtime '", runtime.name, "' executes ", why...)};
  };
  if (plan.schedule == plan::ScheduleKind::interleaved || plan.chunks != 1) refuse_plan("schedule", "gpipe and 1f1b, one stage a device");
  if (plan.sequence_parallel) refuse_plan("sequence_parallel", "plans without sequence parallelism");
  if (plan.precision == Precision::fp16) refuse_plan("precision", "fp32 and bf16");
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& stage = plan.stages[s];
    const auto refuse = [&](const auto&... why) {
      throw Error{ErrorKind::unavailable, text("stages[", s, "]: the runtime '", runtime.name, "' executes ", why...)};
    };
    if (stage.replicas.size() != plan.stages[0].replicas.size())
      refuse("the same number of replicas in every stage; this one has ", stage.replicas.size(), ", the first has ",
             plan.stages[0].replicas.size());
    for (std::size_t r = 0; r < stage.replicas.size(); ++r) {
      const auto &here = stage.replicas[r], &first = plan.stages[0].replicas[r];
      if (here.sequences != first.sequences || here.quanta != first.quanta)
        refuse("replica ", r, " with the same sequences and quanta in every stage; here ", here.sequences, " in microbatches of ",
               here.quanta, " quanta, in the first stage ", first.sequences, " in ", first.quanta);
      if (here.tensor_parallel != first_replica(stage).tensor_parallel)
        refuse("one tensor-parallel degree in a stage; replica ", r, " has ", here.tensor_parallel, ", replica 0 has ",
               first_replica(stage).tensor_parallel);
      if (here.devices.empty()) refuse("plans that are bound to devices; replica ", r, " has none: give the ranks in 'devices'");
    }
  }
  const auto &first = plan.stages.front(), &last = plan.stages.back();
  if (plan.model.tied_head && first_replica(first).tensor_parallel != first_replica(last).tensor_parallel)
    throw Error{ErrorKind::unavailable, text("stages[", plan.stages.size() - 1, "]: the runtime '", runtime.name,
                                             "' executes the same tensor-parallel degree in the first and last stage, which share the word "
                                             "table; here ",
                                             first_replica(last).tensor_parallel, " and ", first_replica(first).tensor_parallel)};
}

std::size_t highest_rank(const plan::Plan& plan) {
  std::size_t highest = 0;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      for (Rank rank : replica.devices) highest = std::max(highest, rank.index());
  return highest;
}

class Lowering {
 public:
  Lowering(const plan::Plan& plan, const Runtime& runtime, Purpose purpose, std::vector<int> sequences)
      : runtime_{runtime}, sequences_{std::move(sequences)} {
    program_.purpose = purpose;
    program_.plan = plan;
    program_.tensors = model::tensors(plan.model);
    program_.ranks.resize(highest_rank(plan) + 1);
    for (int before = 0; int share : sequences_) {
      first_sequences_.push_back(before);
      before += share;
    }
  }

  Program run() {
    bind_world();
    for (int s = 0; s < stage_count(); ++s) bind_groups(s);
    bind_tied_groups();
    for (int s = 0; s < stage_count(); ++s) {
      classes_of_replicas_.clear();
      for (int r = 0; r < replica_count(); ++r) bind(s, r);
    }
    own_tensors();
    return std::move(program_);
  }

 private:
  int stage_count() const { return static_cast<int>(program_.plan.stages.size()); }
  int replica_count() const { return static_cast<int>(program_.plan.stages[0].replicas.size()); }
  const plan::Stage& stage(int s) const { return program_.plan.stages[static_cast<std::size_t>(s)]; }
  const plan::Replica& replica(int s, int r) const { return stage(s).replicas[static_cast<std::size_t>(r)]; }
  int tensor_parallel(int s) const { return first_replica(stage(s)).tensor_parallel; }
  Rank device(int s, int r, int t) const { return replica(s, r).devices[static_cast<std::size_t>(t)]; }
  RankBinding& binding(Rank rank) { return program_.ranks[rank.index()]; }
  bool training() const { return program_.purpose == Purpose::training; }

  int add_group(Group::Kind kind, std::vector<Rank> members) {
    program_.groups.push_back({kind, std::move(members)});
    return static_cast<int>(program_.groups.size()) - 1;
  }

  void bind_world() {
    std::vector<Rank> all;
    for (int s = 0; s < stage_count(); ++s)
      for (int r = 0; r < replica_count(); ++r)
        for (int t = 0; t < tensor_parallel(s); ++t) all.push_back(device(s, r, t));
    std::sort(all.begin(), all.end());
    const int world = add_group(Group::Kind::world, all);
    for (Rank rank : all) {
      binding(rank).groups.reserve(group_slots);
      binding(rank).groups.push_back(world);
    }
  }

  // Slot order everywhere: world, tensor, data, tied (slots_of).
  void bind_groups(int s) {
    const int degree = tensor_parallel(s);
    for (int r = 0; degree > 1 && r < replica_count(); ++r) {
      const int group = add_group(Group::Kind::tensor, replica(s, r).devices);
      for (Rank rank : replica(s, r).devices) binding(rank).groups.push_back(group);
    }
    for (int t = 0; replica_count() > 1 && t < degree; ++t) {
      std::vector<Rank> members;
      for (int r = 0; r < replica_count(); ++r) members.push_back(device(s, r, t));
      const int group = add_group(Group::Kind::data, members);
      for (Rank rank : members) binding(rank).groups.push_back(group);
    }
  }

  void bind_tied_groups() {
    if (stage_count() == 1 || !program_.plan.model.tied_head) return;
    const int last = stage_count() - 1;
    for (int t = 0; t < tensor_parallel(0); ++t) {
      std::vector<Rank> members;
      for (int s : {0, last})
        for (int r = 0; r < replica_count(); ++r) members.push_back(device(s, r, t));
      const int group = add_group(Group::Kind::tied, members);
      for (Rank rank : members) binding(rank).groups.push_back(group);
    }
  }

  RankKind kind_of(int s, int r, int t) const {
    const auto& here = replica(s, r);
    RankKind kind;
    kind.stage = s;
    kind.device_type = here.device_type;
    kind.tensor_parallel = here.tensor_parallel;
    kind.sequences = sequences_[static_cast<std::size_t>(r)];
    kind.microbatch = here.quanta * program_.plan.quantum;
    const model::LayerShape shape{1, program_.plan.length, here.tensor_parallel, t, program_.plan.precision};
    kind.heads = model::local_heads(program_.plan.model, shape);
    kind.columns = model::local_columns(program_.plan.model, shape);
    kind.vocabulary = model::local_vocabulary(program_.plan.model, shape);
    if (s + 1 < stage_count()) kind.activation_receivers = served_by(t, here.tensor_parallel, tensor_parallel(s + 1));
    if (training() && s > 0) kind.gradient_receivers = served_by(t, here.tensor_parallel, tensor_parallel(s - 1));
    kind.replicas = replica_count();
    const bool holds_word = program_.plan.model.tied_head && (s == 0 || s + 1 == stage_count());
    if (stage_count() > 1 && holds_word) kind.tied_members = 2 * replica_count();
    return kind;
  }

  int class_of(int s, int r, int t) {
    const auto kind = kind_of(s, r, t);
    const auto [found, fresh] = classes_.try_emplace(kind, static_cast<int>(program_.classes.size()));
    if (fresh) {
      const ClassInput input{program_.plan, program_.tensors, runtime_, program_.purpose, kind, t};
      program_.classes.push_back(ClassBuilder{input}.build());
    }
    return found->second;
  }

  /// By tensor index. Replicas of a stage that agree in what kind_of() reads have the same classes, so most are looked up at once.
  const std::vector<int>& classes_of(int s, int r) {
    const auto& here = replica(s, r);
    auto& classes = classes_of_replicas_[{here.device_type, here.quanta, sequences_[static_cast<std::size_t>(r)]}];
    for (int t = static_cast<int>(classes.size()); t < here.tensor_parallel; ++t) classes.push_back(class_of(s, r, t));
    return classes;
  }

  void bind(int s, int r) {
    const auto& classes = classes_of(s, r);
    for (int t = 0; t < tensor_parallel(s); ++t) {
      auto& here = binding(device(s, r, t));
      here.rank_class = classes[static_cast<std::size_t>(t)];
      here.tensor_index = t;
      here.replica = r;
      here.first_sequence = first_sequences_[static_cast<std::size_t>(r)];
      bind_peers(here, s, r, t);
    }
  }

  void bind_peers(RankBinding& here, int s, int r, int t) const {
    const int ours = tensor_parallel(s), before = s > 0 ? tensor_parallel(s - 1) : 0,
              after = s + 1 < stage_count() ? tensor_parallel(s + 1) : 0;
    here.peers.reserve(peer_slots);
    if (before > 0) here.peers.push_back(device(s - 1, r, t % before));
    for (int theirs = t; theirs < after; theirs += ours) here.peers.push_back(device(s + 1, r, theirs));
    if (!training()) return;
    if (after > 0) here.peers.push_back(device(s + 1, r, t % after));
    for (int theirs = t; theirs < before; theirs += ours) here.peers.push_back(device(s - 1, r, theirs));
  }

  void own_tensors() {
    const auto owners = plan::owners(program_.plan, program_.tensors);
    for (std::size_t t = 0; t < owners.size(); ++t)
      for (Rank rank : owners[t]) binding(rank).owned.push_back(static_cast<int>(t));
  }

  const Runtime& runtime_;
  std::vector<int> sequences_, first_sequences_;  ///< of the step, by replica
  Program program_;
  std::map<RankKind, int> classes_;
  std::map<std::tuple<std::string_view, int, int>, std::vector<int>> classes_of_replicas_;  ///< of the stage at hand
};

std::vector<int> shares_of(const plan::Plan& plan) {
  std::vector<int> sequences;
  for (const auto& replica : plan.stages.front().replicas) sequences.push_back(replica.sequences);
  return sequences;
}

void require_lowerable(const plan::Plan& plan, const Runtime& runtime) {
  plan::require_valid(plan, "plan");
  require_executable(plan, runtime);
}

}  // namespace

Program lower(const plan::Plan& plan, const Runtime& runtime) {
  if (runtime.layers) return lower_layers(plan, runtime);
  require_lowerable(plan, runtime);
  return Lowering{plan, runtime, Purpose::training, shares_of(plan)}.run();
}

Program lower_evaluation(const plan::Plan& plan, const Runtime& runtime, int sequences) {
  require_lowerable(plan, runtime);
  FLOTILLA_REQUIRE(sequences > 0, ErrorKind::bad_input, "evaluation over ", sequences, " sequences; expected at least 1");
  std::vector<int> dealt;
  std::int64_t before = 0;
  for (int share : shares_of(plan)) {
    const std::int64_t first = before * sequences / plan.global_batch, last = (before + share) * sequences / plan.global_batch;
    dealt.push_back(static_cast<int>(last - first));
    before += share;
  }
  return Lowering{plan, runtime, Purpose::evaluation, dealt}.run();
}

}  // namespace flotilla::program
