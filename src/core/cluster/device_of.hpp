#pragma once
#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {

/// Throws Error{bad_input} for a rank that the profile does not list.
const Device& device_of(const Profile&, Rank);

}  // namespace flotilla::cluster
