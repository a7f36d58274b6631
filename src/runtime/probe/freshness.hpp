#pragma once
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/probe/probe.hpp"

namespace flotilla::probe {

/// Profile::model_fingerprint: all that decides how long a layer's operations take, in words. Number of blocks and names do not.
std::string model_fingerprint(const model::Config&, int length);

/// Why `profile` cannot be used instead of measuring now, in a few words; empty when it can: it stands for the devices, software and model
/// (cluster::why_stale), holds what `request` asks for, and is younger than `longest_age` at `now` (ISO 8601, UTC).
std::string why_not_fresh(const cluster::Profile&, const Discovery&, const ProbeRequest&, Seconds longest_age, const std::string& now);

}  // namespace flotilla::probe
