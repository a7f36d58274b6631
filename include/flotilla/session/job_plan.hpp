#pragma once
#include <optional>
#include <string>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/probe/probe.hpp"
#include "flotilla/search/planner.hpp"

/// Plans from elsewhere, for a job. Pure.
namespace flotilla::session {

/// A plan from elsewhere, for this job on these ranks: dropout as the job says, bound to the profile's devices. Throws Error{bad_input,
/// no_plan} naming `source` where it is for another job or does not find its devices.
plan::Plan for_job(plan::Plan, const search::PlanRequest& job, const cluster::Profile&, int ranks, const std::string& source);

/// What a run goes on with after a restart.
struct KeptPlan {
  plan::Plan plan;           ///< dropout as the job says; not yet bound to ranks
  cluster::Profile profile;  ///< with which it was made
  std::int64_t step = 0;     ///< of the checkpoint
  std::string source = {};   ///< where the plan is, for errors: "RUN/step-40/manifest.json: /plan"
};
/// The checkpoint's plan, where devices, software and model are still those that its profile was measured with, and the plan has the
/// job's precision and all that the job says of it; else nothing. `begins_phase`: so does a plan of another length or batch. Throws
/// Error{bad_input} where the checkpoint's documents are damaged, or its plan is of another model, length or batch than the job.
std::optional<KeptPlan> kept_plan(const checkpoint::Loaded&, const search::PlanRequest& job, const probe::Discovery& here,
                                  bool begins_phase = false);

}  // namespace flotilla::session
