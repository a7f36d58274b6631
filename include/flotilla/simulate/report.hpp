#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/simulate/forecast.hpp"

namespace flotilla::simulate {

/// A memory limit that is broken.
struct Shortage {
  Rank rank;  ///< the device that is most over its limit, the first of its kind
  int ranks = 0;
  int stage = 0;
  std::string device_type, host;
  Bytes needed, limit;
  MemoryForecast memory;
  bool of_host = false;  ///< it is the memory of the GPU's host that is short
  bool operator==(const Shortage&) const = default;
};

/// A change of the plan that makes it fit.
struct Remedy {
  std::string change;    ///< "recompute full in stage 0"
  Bytes spare;           ///< what the fullest device then has left
  Seconds iteration;     ///< forecast of the changed plan
  double slowdown = 0;   ///< its iteration over the plan's own, minus 1; below 0: faster
  int more_devices = 0;  ///< that it takes beside the plan's
  plan::Plan plan = {};  ///< changed
  bool operator==(const Remedy&) const = default;
};

/// Why a plan does not fit, and the least costly change found that mends it.
struct WhyNot {
  Shortage shortage;
  std::optional<Remedy> remedy;
  bool operator==(const WhyNot&) const = default;
};

/// Ranks of one kind as somebody who plans sees them.
struct ReportRow {
  std::vector<int> stages;    ///< that each of the devices holds, ascending
  std::vector<int> replicas;  ///< of those stages, ascending
  std::string device_type, zone;
  int ranks = 0;
  Rank first;        ///< of them
  std::string host;  ///< the first one's
  Breakdown breakdown;
  MemoryForecast memory;
  std::optional<Bytes> limit;  ///< what one device has; absent where the profile does not say
  bool fits() const { return (!limit || memory.peak() <= *limit) && memory.on_host.fits(); }
  bool operator==(const ReportRow&) const = default;
};

/// A forecast with what a reader needs beside it: the content of a forecast file.
struct Report {
  std::string plan;   ///< plan::summary
  std::string model;  ///< its name
  std::string runtime = "flotilla", cost_model = "program";
  int length = 0, global_batch = 0, devices = 0;
  Seconds iteration;
  double relative_error = 0, memory_error = 0, estimated_share = 0;  ///< as Forecast says
  std::optional<double> share_of_peak;                               ///< the model's FLOPs over (iteration x sum of the devices' peaks)
  Breakdown breakdown;
  Expense expense;
  TransportUses transports{};
  std::vector<ReportRow> rows;
  std::optional<WhyNot> why_not;  ///< only where it does not fit

  ErrorBar bar() const { return {iteration, relative_error}; }
  double iterations_per_second() const { return iteration.value > 0 ? 1 / iteration.value : 0; }
  double sequences_per_second() const { return global_batch * iterations_per_second(); }
  double tokens_per_second() const { return length * sequences_per_second(); }
  /// The row whose device needs most; nullptr without rows.
  const ReportRow* fullest() const;
  Bytes peak_memory() const;
  bool fits() const;
  bool operator==(const Report&) const = default;
};

/// The plan is bound to the profile's devices.
Report report_of(const plan::Plan&, const cluster::Profile&, const Forecast&);

}  // namespace flotilla::simulate
