#pragma once
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "flotilla/checkpoint/local.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/session/chosen_plan.hpp"
#include "flotilla/session/phases.hpp"
#include "flotilla/session/run_config.hpp"
#include "flotilla/session/run_schedule.hpp"
#include "flotilla/session/training_data.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla::session {

/// What all plans of a run have in common.
struct RunContext {
  const comm::World& world;
  const RunConfig& config;
  const TrainingData& data;
  program::Runtime
      runtime;  ///< as planned with, all ranks placed; the matrix library's scratch and the active ranks' places are each plan's own
  Bytes runtime_constant;
  int threads = 1;                  ///< of this rank
  compute::ComputeDevice device{};  ///< of this rank
  RunSchedule schedule{};           ///< of the learning rate, the same on every rank
  std::vector<Phase> phases{};
  /// Plans that the run goes through, by the first phase that each serves: from that of the oldest checkpoint on.
  std::map<std::size_t, ChosenPlan> plans{};
  bool plan_is_given = false;                     ///< by --plan, which a restart would take again
  std::optional<checkpoint::LocalPlace> local{};  ///< where checkpoints of this rank go first
  std::string changed{};                          ///< options that alter the run, since the checkpoint that it goes on from; for people

  const ChosenPlan& plan_of(std::size_t phase) const { return std::prev(plans.upper_bound(phase))->second; }
};

/// Scratch of the least that a device computes at a sequence length: what plans are searched with.
Bytes least_scratch(const RunContext&, int length);

/// A plan's programs, numbered by its active ranks: the ranks that it gives work, ascending.
struct Lowered {
  std::vector<Rank> active;
  program::Program training;
  std::optional<program::Program> evaluation;
  /// On this rank of the world; 0 where the plan gives it no work.
  Bytes arena(Rank) const;
  /// Likewise in its host's memory, if it computes on a GPU.
  program::HostMemory host_memory(Rank) const;
};
/// Collective over the world, the same on every rank. Throws comm::AgreedError when this runtime cannot execute the plan.
Lowered lower(const RunContext&, const plan::Plan&);

/// A plan at work. Ranks without work have neither active ranks nor trainer.
struct ActivePlan {
  ChosenPlan chosen;
  std::vector<Rank> active_ranks;
  Bytes arena;                          ///< on this rank
  std::unique_ptr<comm::World> active;  ///< before the trainer, which talks over it
  std::unique_ptr<train::Trainer> trainer;
  Bytes save_copy = {};    ///< on this rank, beside the arena: of the state, for asynchronous saves
  bool corrected = false;  ///< its profile, by its own iterations; the active ranks' first rank alone knows
};
/// Forms the active ranks, takes the arena, forms and proves the groups; the training state is not filled. Collective over the world.
/// Throws comm::AgreedError when a rank has not the memory or a group fails its proof; nothing is held then.
ActivePlan activate(const RunContext&, const ChosenPlan&, Lowered);

/// An error of forming the groups, with device and line of the plan for each rank that it names.
std::string with_plan_lines(const std::string& error, const comm::World& active, const ActivePlan&);

}  // namespace flotilla::session
