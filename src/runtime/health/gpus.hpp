#pragma once
#include "node_tests.hpp"

namespace flotilla::health {

/// Every GPU that this process sees, one after the other: its free memory, the bits of the known-answer step, its memory bandwidth, copies
/// and matrix products. GPUs for which this program has no kernels are left out. Takes about `budget` in all. Local.
void test_gpus(NodeTests&, bench::NodeReport&, Seconds budget);

}  // namespace flotilla::health
