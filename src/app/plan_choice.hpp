#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/probe/probe.hpp"
#include "flotilla/search/planner.hpp"

namespace flotilla::app {

/// A plan and where it comes from.
struct ChosenPlan {
  plan::Plan plan;              ///< bound to ranks of the job
  cluster::Profile profile;     ///< what its forecast rests on
  std::string origin;           ///< "--plan small.json", "kept from step 120", "searched: 34 plans in 12 ms, 120 excluded"
  simulate::Forecast forecast;  ///< with its timeline; rank 0 alone has it
};

/// What a job starts with.
struct ChoiceRequest {
  search::PlanRequest search;
  probe::ProbeRequest probe;
  std::filesystem::path file;     ///< --plan; empty: none
  std::filesystem::path profile;  ///< where a profile is kept or found
  probe::ReusePolicy reuse;
  bool replan = false;
  std::optional<checkpoint::Loaded> resume;  ///< rank 0 alone need have it
  program::Runtime runtime;
  Bytes runtime_constant;
};

/// The given plan, else the checkpoint's while its devices and software are the present ones, else the best that the planner finds for the
/// ranks of the (reused or newly measured) profile. Collective; the same on every rank, and lowered without error. Throws
/// comm::AgreedError{no_plan} when nothing fits, with the nearest miss and the change that would mend it.
ChosenPlan choose_plan(const comm::World&, const ChoiceRequest&, Seconds deadline);

/// A plan from elsewhere, for this job on these ranks: dropout as the job says, bound to the profile's devices. Throws Error{bad_input,
/// no_plan} naming `source` where it is for another job or does not find its devices.
plan::Plan for_job(plan::Plan, const search::PlanRequest& job, const cluster::Profile&, int ranks, const std::string& source);

}  // namespace flotilla::app
