#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "flotilla/checkpoint/checkpoint.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/probe/probe.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/session/chosen_plan.hpp"

namespace flotilla::session {

/// What a job starts with.
struct ChoiceRequest {
  search::PlanRequest search;
  probe::ProbeRequest probe;
  std::filesystem::path file;       ///< --plan; empty: none
  std::filesystem::path profile;    ///< where a profile is kept or found
  std::filesystem::path corrected;  ///< what earlier starts of this run measured otherwise; it counts where it is of that profile
  probe::ReusePolicy reuse;
  bool replan = false;
  std::optional<checkpoint::Loaded> resume;     ///< rank 0 alone need have it
  bool begins_phase = false;                    ///< the checkpoint's plan may be of the phase before
  std::optional<cluster::Transport> transport;  ///< between GPUs, wherever it joins them; absent: what takes least
  program::Runtime runtime;
  Bytes runtime_constant;
  std::function<void()> measured = [] {};  ///< called when there is a profile, before the search for a plan
};

/// The profile with what a run's own iterations measured, in its directory: "profile-corrected.json"; where a phase has another sequence
/// length than the first one, "profile-512-corrected.json".
std::filesystem::path corrected_profile_file(const std::filesystem::path& run, int length, int first_length);

/// The given plan, else the checkpoint's where it may be kept (job_plan.hpp), else the best that the planner finds for the
/// ranks of the (reused or newly measured) profile. Collective; the same on every rank, and lowered without error. Throws
/// comm::AgreedError{no_plan} when nothing fits, with the nearest miss and the change that would mend it.
ChosenPlan choose_plan(const comm::World&, const ChoiceRequest&, Seconds deadline);

}  // namespace flotilla::session
