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
  int per_node = 0;  ///< devices in a node; the last node may hold fewer; 0: what the type says
  bool operator==(const PoolEntry&) const = default;
};
using Pool = std::vector<PoolEntry>;

enum class Goal {
  throughput,  ///< least seconds per iteration; of equally fast plans the one with fewer devices
  cost,        ///< least US dollars per iteration; of equally cheap plans the faster one
  billing,     ///< least billing units of the site per iteration
  energy,      ///< least joules per iteration: design power x time
};

std::string to_string(Goal);          ///< "throughput", "cost", "billing", "energy"
Goal parse_goal(const std::string&);  ///< throws Error{bad_input}

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
  /// Above 0 and below 1: the plan is wanted whose value is least at the upper end of the interval that holds the iteration with this
  /// probability, and which fits the memory with 99 %. 0: the least forecast.
  double confidence = 0;
  bool operator==(const Objective&) const = default;
};

/// What somebody's runtime cannot do. Cuts are even when no stage has two layers more than another.
struct Restrictions {
  bool one_microbatch_size = false;  ///< every replica's microbatch holds equally many sequences, and handles equally many or one fewer
  bool equal_replicas = false;       ///< every stage has equally many replicas
  bool even_layers = false;          ///< no stage has two blocks more than another
  bool one_device_type = false;      ///< in the whole plan
  bool one_tensor_degree_per_stage = false;
  bool uniform_degrees = false;  ///< data x pipeline x tensor: in the whole plan one number of replicas, one tensor degree, one microbatch
  bool operator==(const Restrictions&) const = default;
};

/// "one-microbatch-size", "equal-replicas", "even-layers", "one-device-type", "one-tensor-degree-per-stage", "uniform-degrees".
std::vector<std::string> restriction_names();
/// The names of those that hold, in that order.
std::vector<std::string> names_of(const Restrictions&);
/// Throws Error{bad_input} for an unknown name, with the nearest and all of them.
void restrict(Restrictions&, const std::string& name);

}  // namespace flotilla::search
