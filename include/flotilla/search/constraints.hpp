#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/plan/plan.hpp"

/// What of a plan is decided before a planner searches.
namespace flotilla::search {

/// Devices of one type in one zone that a plan must have at least.
struct DeviceDemand {
  std::string device_type, zone;
  int devices = 0;
  bool operator==(const DeviceDemand&) const = default;
};

/// What somebody has decided of a plan; what is left open is searched.
struct Constraints {
  std::optional<int> data;      ///< replicas of every stage
  std::optional<int> pipeline;  ///< devices, or tensor-parallel groups, in a row
  std::optional<int> tensor;    ///< devices of every replica
  /// Sequences. A replica handles as few microbatches as it can with no larger ones; where they need not be full they may be evened out.
  std::optional<int> microbatch;
  std::optional<plan::ScheduleKind> schedule;
  std::optional<plan::Recompute> recompute;  ///< of every stage
  std::vector<int> cuts;        ///< layer boundaries of all stages from 0 to model.layers(); decides pipeline too; empty: searched
  std::optional<int> chunks{};  ///< stages that a device holds; more than one is interleaved 1F1B, which has two where nothing is said
  std::optional<bool> sequence_parallel{}, shard_optimizer{};  ///< as in plan::Plan
  std::vector<DeviceDemand> at_least{};                        ///< of a pool's devices; bound ranks and the closed formulas take none
  bool operator==(const Constraints&) const = default;
};

/// With what follows of the one for the other: several chunks are interleaved, interleaved is two chunks, other schedules one. Throws
/// Error{bad_input} for fewer than one chunk, and for several under another schedule.
Constraints settled(Constraints);

/// Layer boundaries of devices that hold all their layers in one run, of settled constraints; empty where cuts are searched.
std::vector<int> cuts_of_devices(const Constraints&);

/// A plan of one stage a device (plan::Plan::chunks) with each device's layers in `chunks` stages, as even as they go, the first of all
/// devices before the second ones along the model. Nothing where a stage has fewer layers. Recomputation stays that of the device's layers.
std::optional<plan::Plan> in_chunks(const plan::Plan&, int chunks);

/// The plan, of one stage a device, with the schedule, the chunks and their cuts, the sequence parallelism and the sharding of settled
/// constraints. Unchanged in what is left open; also where its stages have fewer layers than chunks: keeps() says so then.
plan::Plan constrained(plan::Plan, const Constraints&);
/// Whether a plan is all that settled constraints say.
bool keeps(const plan::Plan&, const Constraints&);

}  // namespace flotilla::search
