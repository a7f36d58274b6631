#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "build_class.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/plan/shard_layout.hpp"
#include "flotilla/program/collectives.hpp"
#include "flotilla/program/hierarchical_all_reduce.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/schedule/pipeline_schedule.hpp"
#include "layers/lower_layers.hpp"

namespace flotilla::program {
namespace {

constexpr std::size_t group_slots = 4, peer_slots = 4;  // of a rank, where tensor degrees are equal: room taken at once

/// What this runtime executes.
void require_executable(const plan::Plan& plan, const Runtime& runtime) {
  const auto refuse = [&](const auto& where, const auto&... why) {
    throw Error{ErrorKind::unavailable, text(where, ": the runtime '", runtime.name, "' executes ", why...)};
  };
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (std::size_t r = 0; r < plan.stages[s].replicas.size(); ++r)
      if (plan.stages[s].replicas[r].devices.empty())
        refuse(text("stages[", s, "]"), "plans that are bound to devices; replica ", r, " has none: give the ranks in 'devices'");
}

std::size_t highest_rank(const plan::Plan& plan) {
  std::size_t highest = 0;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas)
      for (Rank rank : replica.devices) highest = std::max(highest, rank.index());
  return highest;
}

/// Where every replica's device has the same degree, replicas of equal share have equal classes.
bool has_one_degree(const plan::Stage& stage) {
  return std::ranges::all_of(stage.replicas, [&](const auto& r) { return r.tensor_parallel == stage.replicas.front().tensor_parallel; });
}

class Lowering {
 public:
  Lowering(const plan::Plan& plan, const Runtime& runtime, Purpose purpose, int sequences, int cache = 0)
      : runtime_{runtime}, cache_{cache}, schedule_{plan, sequences, purpose == Purpose::training} {
    program_.purpose = purpose;
    program_.plan = plan;
    program_.tensors = model::tensors(plan.model);
    program_.sources = runtime.sources;
    program_.ranks.resize(highest_rank(plan) + 1);
    first_trained_ = model::first_trained_layer(plan.model, program_.tensors);
  }

  Program run() {
    bind_world();
    for (int s = 0; s < depth(); ++s) bind_tensor_groups(s);
    for (int s = 0; s < depth(); ++s) bind_sums(sharers_of({s}), Group::Kind::data, data_groups_.emplace_back());
    if (ties()) bind_sums(sharers_of({0, depth() - 1}), Group::Kind::tied, tied_groups_);
    list_first_sequences();
    for (int s = 0; s < depth(); ++s) {
      classes_of_replicas_.clear();
      const bool alike = has_like_replicas(s);
      for (int r = 0; r < replica_count(s); ++r) bind(s, r, alike);
    }
    own_tensors();
    return std::move(program_);
  }

 private:
  struct RankPlace {
    int stage = 0, replica = 0;
  };
  /// Replicas that hold the same parameters, and how they sum their gradients.
  struct Sharing {
    std::vector<RankPlace> places;
    std::vector<int> degrees;
    std::vector<GradientGroup> groups;
    bool alike = true;                   ///< of one degree
    std::vector<ReductionBounds> rooms;  ///< by place; empty: Summing::rooms
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  int stage_count() const { return static_cast<int>(program_.plan.stages.size()); }
  /// Stages on devices of their own: the first ones. Everything but layers and boundary messages is told by these.
  int depth() const { return plan::own_stages(program_.plan); }
  int chunk_count() const { return program_.plan.chunks; }
  const std::vector<plan::BatchPartition>& batch_partitions() const { return schedule_.batch_partitions(); }
  const std::vector<schedule::Boundary>& boundaries() const { return schedule_.boundaries(); }
  const plan::Stage& stage(int s) const { return program_.plan.stages[at(s)]; }
  int replica_count(int s) const { return static_cast<int>(stage(s).replicas.size()); }
  const plan::Replica& replica(int s, int r) const { return stage(s).replicas[at(r)]; }
  RankBinding& binding(Rank rank) { return program_.ranks[rank.index()]; }
  bool training() const { return program_.purpose == Purpose::training; }
  /// The layer down to which gradients come.
  int first_gradient() const { return training() ? first_trained_ : program_.plan.model.layers(); }
  /// Whether two stages of devices hold the token embedding.
  bool ties() const { return depth() > 1 && program_.plan.model.tied_head; }

  Group& add_group(Group::Kind kind, std::vector<Rank> members) {
    const int group = static_cast<int>(program_.groups.size());
    for (Rank rank : members) binding(rank).groups.push_back(group);
    const bool by_library = runtime_.library_all_reduce && kind != Group::Kind::world;
    program_.groups.push_back({kind, std::move(members), by_library ? Group::Algorithm::library_all_reduce : Group::Algorithm::direct});
    return program_.groups.back();
  }

  void bind_world() {
    std::vector<Rank> all;
    for (int s = 0; s < depth(); ++s)
      for (const auto& replica : stage(s).replicas) all.insert(all.end(), replica.devices.begin(), replica.devices.end());
    std::sort(all.begin(), all.end());
    for (Rank rank : all) binding(rank).groups.reserve(group_slots);
    add_group(Group::Kind::world, std::move(all));
  }

  // Slot order everywhere: world, tensor, data, tied (slots_of).
  void bind_tensor_groups(int s) {
    for (const auto& replica : stage(s).replicas)
      if (replica.tensor_parallel > 1) add_group(Group::Kind::tensor, replica.devices);
  }

  Sharing sharers_of(std::initializer_list<int> stages) const {
    Sharing sharing;
    for (int s : stages)
      for (int r = 0; r < replica_count(s); ++r) {
        sharing.places.push_back({s, r});
        sharing.degrees.push_back(replica(s, r).tensor_parallel);
      }
    const int first = sharing.degrees.front();
    sharing.alike = std::ranges::all_of(sharing.degrees, [&](int degree) { return degree == first; });
    if (sharing.alike) {
      for (int t = 0; t < first; ++t) sharing.groups.emplace_back(sharing.degrees.size(), t);
      return sharing;
    }
    std::vector<int> tensors;
    for (int s = *stages.begin(); s < stage_count(); s += depth()) {
      const auto of_stage = plan::tensors_of_stage(program_.tensors, stage(s));
      tensors.insert(tensors.end(), of_stage.begin(), of_stage.end());
    }
    // The token embedding that two stages hold is summed over both, all else over one.
    const bool both = stages.size() > 1;
    if (both || ties()) std::erase_if(tensors, [&](int t) { return (program_.tensors[at(t)].tied_layer >= 0) != both; });
    sharing.groups = gradient_groups(program_.tensors, tensors, sharing.degrees);
    return sharing;
  }

  void bind_sums(Sharing sharing, Group::Kind kind, Sharing& kept) {
    std::vector<std::vector<Rank>> groups;
    for (const GradientGroup& group : sharing.groups) {
      if (group.size() < 2) continue;
      auto& members = groups.emplace_back();
      for (std::size_t i = 0; i < group.size(); ++i)
        members.push_back(replica(sharing.places[i].stage, sharing.places[i].replica).devices[at(group[i])]);
    }
    const SubgroupLevels subgroups = subgroups_of(groups, runtime_.placement);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      Group& group = add_group(kind, std::move(groups[g]));
      group.subgroups = subgroups;
      if (g > 0) continue;
      if (!subgroups.empty() || program_.plan.shard_optimizer) sharing.rooms = bounds_of(group);
      for (Rank rank : group.members) binding(rank).whole.push_back(static_cast<int>(binding(rank).groups.size()) - 1);
    }
    kept = std::move(sharing);
  }

  /// The same for groups of as many members in the same subgroups, as those of most stages are.
  const std::vector<ReductionBounds>& bounds_of(const Group& group) {
    auto& known = bounds_[{group.members.size(), group.subgroups}];
    if (known.empty()) known = reduction_bounds(group);
    return known;
  }

  /// Stages stand one after the other in it, replicas in order.
  std::size_t place_in(const Sharing& sharing, int s, int r) const {
    const std::size_t before = sharing.places.front().stage == s ? 0 : sharing.places.size() - stage(s).replicas.size();
    return before + at(r);
  }

  /// The part of a rank in it; `s` and `r` are one of its places.
  Summing summing_of(const Sharing& sharing, int s, int r, int t) const {
    Summing summing;
    summing.members = static_cast<int>(sharing.places.size());
    const std::size_t place = place_in(sharing, s, r);
    if (!sharing.rooms.empty()) summing.rooms = sharing.rooms[place];
    if (sharing.alike || summing.members < 2) return summing;
    summing.degrees = unlike(sharing.degrees);
    std::vector<std::size_t> firsts;  // a replica of each degree
    for (const int degree : summing.degrees)
      firsts.push_back(static_cast<std::size_t>(std::ranges::find(sharing.degrees, degree) - sharing.degrees.begin()));
    for (const GradientGroup& group : sharing.groups) {
      if (group[place] != t) continue;
      auto& members = summing.groups.emplace_back();
      for (const std::size_t first : firsts) members.push_back(group[first]);
    }
    summing.replica = static_cast<int>(std::ranges::find(summing.degrees, sharing.degrees[place]) - summing.degrees.begin());
    return summing;
  }

  void list_first_sequences() {
    for (int s = 0; s < stage_count(); ++s) {
      const auto same = std::find(batch_partitions().begin(), batch_partitions().begin() + s, batch_partitions()[at(s)]);
      if (same != batch_partitions().begin() + s) {
        first_deal_.push_back(first_deal_[static_cast<std::size_t>(same - batch_partitions().begin())]);
        continue;
      }
      first_deal_.push_back(static_cast<int>(program_.first_sequences.size()));
      for (const auto& microbatches : batch_partitions()[at(s)]) {
        auto& firsts = program_.first_sequences.emplace_back();
        for (const auto& m : microbatches) firsts.push_back(m.first);
      }
    }
  }

  /// By chunk.
  std::vector<BoundaryMessages> boundary_messages_of(int s, int r, int t, std::vector<Rank>& peers) const {
    std::vector<BoundaryMessages> boundary_messages(at(chunk_count()));
    if (depth() == 1) return boundary_messages;  // nothing leaves the device
    for (int c = 0; c < chunk_count(); ++c)
      boundary_messages[at(c)] =
          Correspondence{program_.plan, batch_partitions(), boundaries(), first_gradient()}.of(s + c * depth(), r, t, peers);
    return boundary_messages;
  }

  /// As boundary_messages_of() adds them.
  void list_peers(int s, int r, int t, std::vector<Rank>& peers) const {
    for (int c = 0; depth() > 1 && c < chunk_count(); ++c)
      Correspondence{program_.plan, batch_partitions(), boundaries(), first_gradient()}.list_peers(s + c * depth(), r, t, peers);
  }

  /// By microbatch of a replica: the token with which the buffers of a member begin.
  std::vector<std::int64_t> first_tokens(int s, int r, int t) const {
    std::vector<std::int64_t> firsts;
    for (const auto& m : batch_partitions()[at(s)][at(r)]) {
      const std::int64_t tokens = std::int64_t{m.count} * program_.plan.length;
      firsts.push_back(program_.plan.sequence_parallel ? piece(tokens, replica(s, r).tensor_parallel, t).first : 0);
    }
    return firsts;
  }

  void order_chunks(ClassKey& kind, int s, int r, int t) const {
    if (depth() == 1) {
      kind.steps = steps_in_place(chunk_count(), static_cast<int>(batch_partitions()[at(s)][at(r)].size()), training());
      return;
    }
    const schedule::DeviceOrder& order = schedule_.device_order(s, r);
    kind.steps = steps_of(order, kind.boundary_messages, program_.plan.length, first_tokens(s, r, t));
    kind.copies = order.copies;
  }

  ClassKey kind_of(int s, int r, int t, std::vector<Rank>& peers) const {
    const auto& here = replica(s, r);
    ClassKey kind;
    kind.stage = s;
    kind.device_type = here.device_type;
    kind.tensor_parallel = here.tensor_parallel;
    for (const auto& m : batch_partitions()[at(s)][at(r)]) kind.sequences += m.count;
    kind.microbatch = here.quanta * program_.plan.quantum;
    const model::LayerShape shape{1, program_.plan.length, here.tensor_parallel, t, program_.plan.precision};
    kind.heads = model::local_heads(program_.plan.model, shape);
    kind.columns = model::local_columns(program_.plan.model, shape);
    kind.vocabulary = model::local_vocabulary(program_.plan.model, shape);
    kind.boundary_messages = boundary_messages_of(s, r, t, peers);
    if (chunk_count() == 1)
      kind.order = schedule_.order(s, r);
    else
      order_chunks(kind, s, r, t);
    kind.data = summing_of(data_groups_[at(s)], s, r, t);
    if (holds_tied_token_embedding(s)) kind.tied = summing_of(tied_groups_, s, r, t);
    return kind;
  }

  int class_of(const ClassKey& kind, int t) {
    const auto [found, fresh] = classes_.try_emplace(kind, static_cast<int>(program_.classes.size()));
    if (fresh)
      program_.classes.push_back(build_class(ClassInput{program_.plan, program_.tensors, runtime_, program_.purpose, kind, t, cache_}));
    return found->second;
  }

  /// Replicas of a stage that agree in all that kind_of() reads have the same classes, so most are looked up at once.
  bool has_like_replicas(int s) const {
    const auto alike = [&](int boundary) { return boundary < 0 || boundary + 1 >= stage_count() || boundaries()[at(boundary)].alike; };
    const auto one_degree = [&](int near) { return near < 0 || near >= stage_count() || has_one_degree(stage(near)); };
    if (chunk_count() > 1)
      return std::ranges::all_of(boundaries(), &schedule::Boundary::alike) && std::ranges::all_of(program_.plan.stages, has_one_degree);
    return schedule_.has_columns() && alike(s - 1) && alike(s) && one_degree(s - 1) && one_degree(s) && one_degree(s + 1);
  }

  bool holds_tied_token_embedding(int s) const { return ties() && (s == 0 || s + 1 == depth()); }

  /// Of both sums that the replica has part in.
  std::pair<ReductionBounds, ReductionBounds> rooms_of(int s, int r) const {
    std::pair<ReductionBounds, ReductionBounds> rooms;
    if (const auto& data = data_groups_[at(s)]; !data.rooms.empty()) rooms.first = data.rooms[place_in(data, s, r)];
    if (holds_tied_token_embedding(s) && !tied_groups_.rooms.empty()) rooms.second = tied_groups_.rooms[place_in(tied_groups_, s, r)];
    return rooms;
  }

  void bind(int s, int r, bool alike) {
    const auto& here = replica(s, r);
    int sequences = 0;
    for (const auto& m : batch_partitions()[at(s)][at(r)]) sequences += m.count;
    std::vector<int> own;
    auto& classes = alike ? classes_of_replicas_[{here.device_type, here.quanta, sequences, rooms_of(s, r)}] : own;
    for (int t = 0; t < here.tensor_parallel; ++t) {
      auto& bound = binding(here.devices[at(t)]);
      if (depth() > 1) bound.peers.reserve(peer_slots);
      bound.tensor_index = t;
      bound.replica = r;
      bound.batch_partition = first_deal_[at(s)] + r;
      if (at(t) < classes.size())
        list_peers(s, r, t, bound.peers);
      else
        classes.push_back(class_of(kind_of(s, r, t, bound.peers), t));
      bound.rank_class = classes[at(t)];
    }
  }

  void own_tensors() {
    const auto owners = plan::owners(program_.plan, program_.tensors);
    for (std::size_t t = 0; t < owners.size(); ++t)
      for (Rank rank : owners[t]) binding(rank).owned.push_back(static_cast<int>(t));
  }

  const Runtime& runtime_;
  const int cache_;
  int first_trained_ = 0;
  Program program_;
  const schedule::PipelineSchedule schedule_;
  std::vector<Sharing> data_groups_;  ///< by stage
  Sharing tied_groups_;
  std::map<std::pair<std::size_t, SubgroupLevels>, std::vector<ReductionBounds>> bounds_;  ///< of groups that were asked for
  std::vector<int> first_deal_;  ///< by stage: index of replica 0's in Program::first_sequences
  std::map<ClassKey, int> classes_;
  std::map<std::tuple<std::string_view, int, int, std::pair<ReductionBounds, ReductionBounds>>, std::vector<int>>
      classes_of_replicas_;  ///< of the stage at hand
};

void require_lowerable(const plan::Plan& plan, const Runtime& runtime) {
  plan::require_valid(plan, "plan");
  require_executable(plan, runtime);
}

}  // namespace

Program lower(const plan::Plan& plan, const Runtime& runtime) {
  if (runtime.layers) return lower_layers(plan, runtime);
  require_lowerable(plan, runtime);
  return Lowering{plan, runtime, Purpose::training, plan.global_batch}.run();
}

Program lower_evaluation(const plan::Plan& plan, const Runtime& runtime, int sequences) {
  require_lowerable(plan, runtime);
  FLOTILLA_REQUIRE(sequences > 0, ErrorKind::bad_input, "evaluation over ", sequences, " sequences; expected at least 1");
  return Lowering{plan, runtime, Purpose::evaluation, sequences}.run();
}

Program lower_inference(const plan::Plan& plan, const Runtime& runtime, int sequences, int cache) {
  require_lowerable(plan, runtime);
  FLOTILLA_REQUIRE(sequences > 0, ErrorKind::bad_input, "inference over ", sequences, " sequences; expected at least 1");
  FLOTILLA_REQUIRE(cache == 0 || (plan.length <= cache && plan.length <= model::attention_block), ErrorKind::bad_input, "passes of ",
                   plan.length, " tokens and a cache of ", cache, "; expected at most ", model::attention_block,
                   " and no more than it holds");
  auto program = Lowering{plan, runtime, Purpose::inference, sequences, cache}.run();
  for (const RankClass& c : program.classes)
    FLOTILLA_REQUIRE(cache == 0 || c.microbatches <= 1, ErrorKind::bad_input, "a cache holds the sequences of one microbatch; ",
                     c.microbatches, " were dealt to a replica of stage ", c.stage);
  return program;
}

}  // namespace flotilla::program
