#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/cluster/corrections.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/journal/metrics.hpp"
#include "flotilla/monitor/feedback.hpp"

/// What a run's first iterations prove of its profile, made into a profile for the next plan.
namespace flotilla::session {

/// What is wrong, what that makes of the profile, and whether it is any better.
struct ProfileFeedback {
  journal::CorrectionRecord record;  ///< `file` is not filled in
  std::vector<cluster::Correction> corrections;
  cluster::Profile profile;  ///< corrected
  bool nearer = false;       ///< its forecast is nearer to what was measured than that of the profile as it was
};
/// Pure. `forecast`: of the plan that runs, by the profile as it is; `by`: the same by another profile. `run`, `step`: where the
/// corrections say that they come from.
ProfileFeedback feedback_of(const monitor::Proof&, const cluster::Profile&, Seconds forecast,
                            const std::function<Seconds(const cluster::Profile&)>& by, const std::string& run, std::int64_t step);

/// Writes the corrected profile, all or nothing, with the corrections of an earlier start that still stand. Throws Error{unavailable}.
void write_corrected(const std::filesystem::path& file, const ProfileFeedback&);

/// The corrected profile of an earlier start, where it is one of this profile: measured at the same time, with the same software, for the
/// same shapes; for the devices of `profile`. Nothing where there is none, or it is damaged, which is warned of.
std::optional<cluster::Profile> corrected_of(const cluster::Profile&, const std::filesystem::path& file);

}  // namespace flotilla::session
