#pragma once
#include <optional>

#include "flotilla/plan/plan.hpp"

/// How a plan runs, whatever its devices.
namespace flotilla::search {

/// What somebody has decided of it; the rest is searched.
struct Manner {
  std::optional<plan::ScheduleKind> schedule;
  std::optional<int> chunks;  ///< stages that a device holds; more than one is interleaved 1F1B, which has two where nothing is said
  std::optional<bool> sequence_parallel, shard_optimizer;  ///< as in plan::Plan
  bool operator==(const Manner&) const = default;
};

/// With what follows of the one for the other: several chunks are interleaved, interleaved is two chunks, other schedules one. Throws
/// Error{bad_input} for fewer than one chunk, and for several under another schedule.
Manner settled(Manner);

/// A plan of one stage a device (plan::Plan::chunks) with each device's layers in `chunks` stages, as even as they go, the first of all
/// devices before the second ones along the model. Nothing where a stage has fewer layers. Recomputation stays that of the device's layers.
std::optional<plan::Plan> in_chunks(const plan::Plan&, int chunks);

/// The plan, of one stage a device, as a settled manner has it. Unchanged in what is left open; also where its stages have fewer layers
/// than chunks: keeps() says so then.
plan::Plan in_manner(plan::Plan, const Manner&);
/// Whether a plan is what a settled manner says.
bool keeps(const plan::Plan&, const Manner&);

}  // namespace flotilla::search
