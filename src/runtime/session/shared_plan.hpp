#pragma once
#include <optional>
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/plan/plan.hpp"

/// Values that one rank has and all ranks need. They cross the network as the documents that they are on disk, and only there. Collective;
/// every rank gets the same value, the speaker too. `name` says what it is, for errors.
namespace flotilla::session {

/// The speaker's text on every rank.
std::string shared_text(const comm::World&, Rank speaker, const std::string& text, Seconds deadline);
/// The speaker's plan; nothing where it has none.
std::optional<plan::Plan> shared_plan(const comm::World&, Rank speaker, const std::optional<plan::Plan>&, const std::string& name,
                                      Seconds deadline);
/// The speaker's profile.
cluster::Profile shared_profile(const comm::World&, Rank speaker, const cluster::Profile&, const std::string& name, Seconds deadline);

}  // namespace flotilla::session
