#pragma once
#include "flotilla/probe/probe.hpp"

namespace flotilla::probe {

/// What exchanges and computing of this rank take from each other. Pairs of ranks, all at once, compute known steps, alone and while their
/// communication threads send messages to and fro. A rank without a partner, on a GPU, or with less than its processors (whose throttling
/// counts all of its threads) measures nothing. Collective. Throws comm::AgreedError.
cluster::Interference measure_interference(const comm::World&, const Discovery&, Seconds budget, Seconds deadline);

}  // namespace flotilla::probe
