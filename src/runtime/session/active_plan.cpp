#include "flotilla/session/active_plan.hpp"

#include <algorithm>
#include <cctype>

#include "active_ranks.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/mpi/communicator.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "flotilla/simulate/transports.hpp"

namespace flotilla::session {
namespace {

Bytes scratch(const RunContext& place, int length, int tensor_parallel, int tensor_index, int sequences, bool shares_tokens = false) {
  const compute::Setup setup{place.config.architecture,
                             length,
                             tensor_parallel,
                             tensor_index,
                             place.config.training.precision.value(),
                             place.runtime.threads,
                             static_cast<std::uint64_t>(place.config.training.seed),
                             shares_tokens,
                             place.device,
                             0,
                             place.runtime.separate_documents};
  return compute::library_scratch(setup, sequences);
}

/// What the matrix library asks for on this rank under a plan.
std::int64_t scratch_here(const RunContext& place, const plan::Plan& plan) {
  const auto at = plan::place_of(plan, place.world.rank());
  if (at.stage < 0) return 0;
  const auto& replica = plan.stages[static_cast<std::size_t>(at.stage)].replicas[static_cast<std::size_t>(at.replica)];
  const bool shares_tokens = plan.sequence_parallel && replica.tensor_parallel > 1;
  return scratch(place, plan.length, replica.tensor_parallel, at.tensor_index, replica.quanta * plan.quantum, shares_tokens).count;
}

/// What the matrix library asks for may differ between CPU types, and all ranks lower the same program: the largest counts.
program::Runtime runtime_for(const RunContext& place, const plan::Plan& plan) {
  auto runtime = place.runtime;
  const auto mine = comm::agree_on(
      place.world, "preparing the matrix library", [&] { return scratch_here(place, plan); }, place.config.comm.deadline);
  for (auto theirs : mpi::all_gather(place.world.control(), mine, place.config.comm.deadline))
    runtime.library_scratch.count = std::max(runtime.library_scratch.count, theirs);
  return runtime;
}

Bytes arena_of(const program::Program& program, std::size_t member) {
  return program.classes.at(static_cast<std::size_t>(program.ranks.at(member).rank_class)).arena;
}

/// "stages[1].replicas[0].devices[1]": the line of the plan that puts a rank to work.
std::string line_of(const plan::Plan& plan, Rank rank) {
  const auto at = plan::place_of(plan, rank);
  return text("stages[", at.stage, "].replicas[", at.replica, "].devices[", at.tensor_index, "]");
}

bool names(const std::string& line, const std::string& rank) {
  for (auto at = line.find(rank); at != std::string::npos; at = line.find(rank, at + 1)) {
    const auto end = at + rank.size();
    if (end == line.size() || (!std::isalnum(static_cast<unsigned char>(line[end])) && line[end] != '-' && line[end] != '.')) return true;
  }
  return false;
}

/// The profile's devices as the plan's active ranks.
cluster::Profile numbered_by(const std::vector<Rank>& active, cluster::Profile profile) {
  const auto all = std::move(profile.devices);
  profile.devices.clear();
  for (std::size_t r = 0; r < active.size(); ++r) {
    profile.devices.push_back(all.at(active[r].index()));
    profile.devices.back().rank = Rank{static_cast<int>(r)};
  }
  return profile;
}

/// By the profile; absent where nobody measured what GPUs exchange, or the job wants one transport.
std::optional<train::ChosenTransports> chosen_transports(const RunContext& place, const ChosenPlan& chosen, const Lowered& lowered) {
  if (place.config.comm.transport || chosen.profile.device_links.empty()) return std::nullopt;
  const auto profile = numbered_by(lowered.active, chosen.profile);
  const auto transports = simulate::choose_transports(lowered.training, simulate::ProfileCost{profile});
  train::ChosenTransports all;
  for (const auto& group : transports.groups) all.groups.push_back(group.chosen);
  for (const auto& [ends, pair] : transports.pairs) all.pairs.emplace(ends, pair.chosen);
  return all;
}

train::Options trainer_options(const RunContext& place) {
  const auto& t = place.config.training;
  train::Options options;
  options.seed = static_cast<std::uint64_t>(t.seed);
  options.learning_rates = learning_rates(place.config, place.phases, place.schedule);
  options.beta1 = t.beta1;
  options.beta2 = t.beta2;
  options.epsilon = t.epsilon;
  options.weight_decay = t.weight_decay;
  options.clip = t.clip;
  options.skip_non_finite = t.skip_non_finite;
  options.device = place.device;
  options.threads = place.threads;
  options.transport = place.config.comm.transport.value_or(cluster::Transport::nccl);
  options.deadline = place.config.comm.deadline;
  return options;
}

}  // namespace

std::string with_plan_lines(const std::string& error, const comm::World& active, const ActivePlan& work) {
  std::string all;
  for (std::size_t r = 0; r < work.active_ranks.size(); ++r) {
    const Rank member{static_cast<int>(r)}, rank = work.active_ranks[r];
    if (names(error, active.name(member)))
      all += text(all.empty() ? " (" : ", ", active.name(member), ": ", work.chosen.profile.devices.at(rank.index()).type, ", the plan's ",
                  line_of(work.chosen.plan, rank));
  }
  return error + (all.empty() ? "" : all + ")");
}

Bytes least_scratch(const RunContext& place, int length) { return scratch(place, length, 1, 0, 1); }

Bytes Lowered::arena(Rank rank) const {
  const auto found = std::lower_bound(active.begin(), active.end(), rank);
  if (found == active.end() || *found != rank) return {};
  const auto member = static_cast<std::size_t>(found - active.begin());
  const Bytes trains = arena_of(training, member);
  return evaluation ? std::max(trains, arena_of(*evaluation, member)) : trains;
}

program::HostMemory Lowered::host_memory(Rank rank) const {
  const auto found = std::lower_bound(active.begin(), active.end(), rank);
  if (found == active.end() || *found != rank) return {};
  const auto& binding = training.ranks.at(static_cast<std::size_t>(found - active.begin()));
  return program::host_memory(training.classes.at(static_cast<std::size_t>(binding.rank_class)), training.plan.precision);
}

Lowered lower(const RunContext& place, const plan::Plan& plan) {
  auto runtime = runtime_for(place, plan);
  runtime.placement = program::placement_of(place.runtime.placement, active_ranks_of(plan));
  return comm::agree_on(
      place.world, "lowering the plan",
      [&] {
        Lowered lowered{active_ranks_of(plan), {}, {}};
        const auto numbered = renumbered(plan, lowered.active);
        lowered.training = program::lower(numbered, runtime);
        program::require_valid(lowered.training);
        if (!place.data.validation) return lowered;
        lowered.evaluation = program::lower_evaluation(numbered, runtime, static_cast<int>(place.config.training.evaluate_sequences));
        program::require_valid(*lowered.evaluation);
        return lowered;
      },
      place.config.comm.deadline);
}

ActivePlan activate(const RunContext& place, const ChosenPlan& chosen, Lowered lowered) {
  ActivePlan work{chosen, lowered.active, lowered.arena(place.world.rank()), {}, {}};
  std::vector<int> numbers;
  for (const Rank rank : lowered.active) numbers.push_back(rank.value);
  comm::agree_on(
      place.world, "taking up the plan",
      [&] {
        if (!std::ranges::count(lowered.active, place.world.rank())) return;
        work.active = std::make_unique<comm::World>(place.world.control().subset(numbers), place.config.comm.deadline);
        auto options = trainer_options(place);
        options.transports = chosen_transports(place, chosen, lowered);
        options.record = true;  // the self-check and the timeline live on it; it costs two readings of the clock an instruction
        try {
          work.trainer = std::make_unique<train::Trainer>(*work.active, std::move(lowered.training), std::move(lowered.evaluation),
                                                          place.data.training, place.data.validation, options);
        } catch (const Error& error) {
          throw Error{error.kind(), with_plan_lines(error.what(), *work.active, work)};
        }
      },
      place.config.comm.deadline);
  return work;
}

}  // namespace flotilla::session
