#pragma once
#include <filesystem>
#include <vector>

#include "flotilla/comm/world.hpp"
#include "flotilla/simulate/forecast.hpp"
#include "flotilla/train/trainer.hpp"

namespace flotilla::monitor {

/// When each instruction of this rank's last step ran, in the terms of a forecast. Where the forecast's messages and collectives start when
/// data begin to move, these start when this end was ready.
std::vector<simulate::Span> measured_spans(const train::Trainer&, Rank);

/// Writes the last step of every rank as a Chrome trace (files/trace.hpp), times from each rank's own begin of the step. Collective over
/// the active ranks; its rank 0 writes, all or nothing.
void write_measured_timeline(const std::filesystem::path&, const comm::World& active, const train::Trainer&, Seconds deadline);

}  // namespace flotilla::monitor
