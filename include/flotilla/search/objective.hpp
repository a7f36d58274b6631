#pragma once
#include <optional>
#include <string>
#include <vector>

/// What a planner is asked for, whatever cost model it plans by.
namespace flotilla::search {

/// Devices that may be taken: of one type in one zone, in nodes of equal size.
struct PoolEntry {
  std::string device_type;
  std::string zone;  ///< "" where there is one
  int count = 0;
  int per_node = 0;  ///< devices in a node; the last node may hold fewer
  bool operator==(const PoolEntry&) const = default;
};
using Pool = std::vector<PoolEntry>;

enum class Goal {
  throughput,  ///< least seconds per iteration; of equally fast plans the one with fewer devices
  cost,        ///< least US dollars per iteration; of equally cheap plans the faster one
};

/// What a plan must keep to. Absent: no limit.
struct Limits {
  std::optional<double> usd_per_iteration;
  std::optional<double> usd_per_hour;           ///< of the devices
  std::optional<double> iterations_per_second;  ///< at least
  std::optional<int> devices;
  bool operator==(const Limits&) const = default;
};

struct Objective {
  Goal goal = Goal::throughput;
  Limits limits;
  bool operator==(const Objective&) const = default;
};

}  // namespace flotilla::search
