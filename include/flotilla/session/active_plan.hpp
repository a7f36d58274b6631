#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "flotilla/comm/world.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/session/chosen_plan.hpp"
#include "flotilla/session/run_config.hpp"
#include "flotilla/session/training_data.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla::session {

/// What all plans of a run have in common.
struct Workplace {
  const comm::World& world;
  const RunConfig& config;
  const TrainingData& data;
  program::Runtime runtime;  ///< as planned with, all ranks placed; the matrix library's scratch and the crew's places are each plan's own
  Bytes runtime_constant;
  int threads = 1;             ///< of this rank
  bool plan_is_given = false;  ///< by --plan, which a restart would take again
};

/// Scratch of the least that a device computes: what plans are searched with.
Bytes least_scratch(const Workplace&);

/// A plan's programs, numbered by its crew: the ranks that it gives work, ascending.
struct Lowered {
  std::vector<Rank> crew;
  program::Program training;
  std::optional<program::Program> evaluation;
  /// On this rank of the world; 0 where the plan gives it no work.
  Bytes arena(Rank) const;
};
/// Collective over the world, the same on every rank. Throws comm::AgreedError when this runtime cannot execute the plan.
Lowered lower(const Workplace&, const plan::Plan&);

/// A plan at work. Ranks without work have neither crew nor trainer.
struct PlanAtWork {
  ChosenPlan chosen;
  std::vector<Rank> crew_ranks;
  Bytes arena;                        ///< on this rank
  std::unique_ptr<comm::World> crew;  ///< before the trainer, which talks over it
  std::unique_ptr<train::Trainer> trainer;
};
/// Forms the crew, takes the arena, forms and proves the groups; the training state is not filled. Collective over the world. Throws
/// comm::AgreedError when a rank has not the memory or a group fails its proof; nothing is held then.
PlanAtWork take_up(const Workplace&, const ChosenPlan&, Lowered);

/// An error of forming the groups, with device and line of the plan for each rank that it names.
std::string with_plan_lines(const std::string& error, const comm::World& crew, const PlanAtWork&);

}  // namespace flotilla::session
