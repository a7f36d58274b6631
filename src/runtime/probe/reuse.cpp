#include "flotilla/base/log.hpp"
#include "flotilla/base/utc.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/probe/probe.hpp"
#include "freshness.hpp"

namespace flotilla::probe {
namespace {

/// A profile, or why there is none to use. The profile as JSON: that is how it travels.
struct Older {
  std::string json, why_not;
};

Older read_older(const std::filesystem::path& path, const Discovery& here, const ProbeRequest& request, const ReusePolicy& policy) {
  if (policy.never) return {"", "requested"};
  if (path.empty() || !std::filesystem::exists(path)) return {"", "there is none yet"};
  try {
    cluster::Profile profile = files::read_profile(path);
    if (auto part = cluster::part_of(profile, here.devices)) profile = std::move(*part);
    const std::string why = why_not_fresh(profile, here, request, policy.longest_age, utc_now());
    return why.empty() ? Older{files::profile_to_json(profile), ""} : Older{"", why};
  } catch (const Error& error) {
    log::warning(error.what(), "; measuring anew");
    return {"", error.what()};
  }
}

}  // namespace

Probed measure_or_reuse(const comm::World& world, const ProbeRequest& request, const std::filesystem::path& path,
                        const ReusePolicy& policy) {
  const Discovery here = discover(world, request);
  const bool first = world.rank() == Rank{0};
  const Older older = comm::agree_on(
      world, "looking for an older profile", [&] { return first ? read_older(path, here, request, policy) : Older{}; }, request.deadline);
  const std::string json = mpi::broadcast_string(world.control(), older.json, 0, request.deadline);
  const std::string why = mpi::broadcast_string(world.control(), older.why_not, 0, request.deadline);
  if (!json.empty()) {
    auto profile = comm::agree_on(
        world, "reading the profile", [&] { return files::profile_from_json(json, "rank 0's profile"); }, request.deadline);
    return {std::move(profile), true, ""};
  }
  Probed probed{measure(world, request, here), false, why};
  comm::agree(world,
              comm::outcome_of("writing the profile",
                               [&] {
                                 if (first && !path.empty()) files::write_profile(path, probed.profile);
                               }),
              request.deadline);
  return probed;
}

}  // namespace flotilla::probe
