#include "shared_plan.hpp"

#include "flotilla/comm/agree.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/files/profile_file.hpp"
#include "flotilla/mpi/communicator.hpp"

namespace flotilla::session {

std::string shared_text(const comm::World& world, Rank speaker, const std::string& text, Seconds deadline) {
  return mpi::broadcast_string(world.control(), text, speaker.value, deadline);
}

std::optional<plan::Plan> shared_plan(const comm::World& world, Rank speaker, const std::optional<plan::Plan>& plan,
                                      const std::string& name, Seconds deadline) {
  const auto document = shared_text(world, speaker, plan ? files::plan_to_json(*plan) : "", deadline);
  if (document.empty()) return std::nullopt;
  return comm::agree_on(
      world, "reading " + name, [&] { return files::plan_from_json(document, name); }, deadline);
}

cluster::Profile shared_profile(const comm::World& world, Rank speaker, const cluster::Profile& profile, const std::string& name,
                                Seconds deadline) {
  const auto document = shared_text(world, speaker, world.rank() == speaker ? files::profile_to_json(profile) : "", deadline);
  return comm::agree_on(
      world, "reading " + name, [&] { return files::profile_from_json(document, name); }, deadline);
}

}  // namespace flotilla::session
