#pragma once
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/model/config.hpp"

namespace flotilla::probe {

/// A profile as a table for people: device types, devices, links (latency, bandwidth), operations with GFLOP/s and the share of the
/// measured peak. FLOPs are those of `model`, which the profile was measured with. Ends with a newline.
std::string table(const cluster::Profile&, const model::Config& model);

}  // namespace flotilla::probe
