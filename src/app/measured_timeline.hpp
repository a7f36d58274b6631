#pragma once
#include <filesystem>

#include "flotilla/comm/world.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla::app {

/// Writes when each instruction of the last step ran as a Chrome trace (chrome://tracing, Perfetto): a process per rank, a thread per
/// queue, times in microseconds from each rank's own begin of the step. Collective over the crew; its rank 0 writes, all or nothing.
void write_measured_timeline(const std::filesystem::path&, const comm::World& crew, const train::Trainer&, Seconds deadline);

}  // namespace flotilla::app
