#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/ids.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/simulate/error_bar.hpp"

namespace flotilla::simulate {

/// What a device does at an instant of a step. Every instant of every device has exactly one: what its compute queue runs; while that is
/// idle the collective that is moving; else the message that is arriving; else nothing (bubble: pipeline fill and drain, waiting for
/// others).
enum class Activity : std::uint8_t {
  forward,
  backward,
  recompute,
  tensor_collective,
  activation_transfer,
  gradient_reduction,
  optimizer,
  bubble,
};
inline constexpr int activity_count = 8;
/// "forward", "tensor_collective", ...: keys of a forecast on disk.
std::string_view to_string(Activity);
/// "forward", "tensor collective", ...: for people.
std::string in_words(Activity);

/// Seconds of one step by activity; they sum to the iteration time.
struct Breakdown {
  std::array<Seconds, activity_count> seconds{};
  Seconds& operator[](Activity a) { return seconds[static_cast<std::size_t>(a)]; }
  Seconds operator[](Activity a) const { return seconds[static_cast<std::size_t>(a)]; }
  Seconds total() const;
  bool operator==(const Breakdown&) const = default;
};

/// "parameters", "gradients", ...: keys of a forecast on disk.
std::string_view name_of(program::Category);

/// What a rank whose GPU was measured holds in its host's memory; all 0 for other ranks.
struct HostMemoryForecast {
  Bytes pinned;   ///< exact: what messages, collectives and copies of the state go through
  Bytes state;    ///< exact: the state's copy
  Bytes process;  ///< stated bound of the rest
  Bytes limit;    ///< what the rank may use; 0: not known
  Bytes total() const { return pinned + state + process; }
  bool fits() const { return limit.count <= 0 || total() <= limit; }
  bool operator==(const HostMemoryForecast&) const = default;
};

/// Bytes of one device by reason, program::Category's order, and what is outside the arena.
struct MemoryForecast {
  std::array<Bytes, program::category_count> categories{};  ///< they sum to the arena
  Bytes arena;                                              ///< exact
  Bytes runtime_constant;  ///< stated bound of the rest of the process; of a measured GPU, what libraries hold of it
  HostMemoryForecast on_host{};
  Bytes peak() const { return arena + runtime_constant; }
  bool operator==(const MemoryForecast&) const = default;
};

/// Ranks whose timelines are equal to the last bit: same work, same partners' timelines, same links.
struct RankKind {
  int rank_class = 0;
  int stage = 0;
  std::string device_type;
  std::vector<Rank> ranks;  ///< ascending; the first one stands for all in Forecast::timeline
  Breakdown breakdown;
  Seconds busy;  ///< forward, backward and recomputation: the work that MFU counts and its repetition
  MemoryForecast memory;
  bool operator==(const RankKind&) const = default;
};

/// One run of one instruction. Messages and collectives: from the moment that data moves, not from when the first end was ready.
struct Span {
  Rank rank;
  program::Queue queue = program::Queue::compute;
  Activity activity = Activity::forward;
  std::string name;  ///< the instruction's
  int microbatch = 0;
  Seconds start, end;
  bool operator==(const Span&) const = default;
};

/// What one iteration costs. A figure that the profile gives no price for is absent, never zero.
struct Expense {
  std::optional<double> device_usd;     ///< devices of the plan x price x iteration time
  std::optional<double> egress_usd;     ///< bytes between zones x price
  std::optional<double> billing_units;  ///< instruction's units: weight x device-hours (Slurm TRES billing)
  std::optional<double> energy_joules;  ///< at most: design power x time, idle or not
  /// Devices and egress; absent unless the devices have prices.
  std::optional<double> usd() const;
  bool operator==(const Expense&) const = default;
};

/// Groups and pairs of GPUs that had the choice of a transport and got this one; what their exchanges of a step take over it, and over the
/// fastest of the others.
struct TransportUse {
  int groups = 0, pairs = 0;
  Seconds takes{}, otherwise{};
  bool operator==(const TransportUse&) const = default;
};
/// By cluster::Transport.
using TransportUses = std::array<TransportUse, cluster::transport_count>;

struct Forecast {
  Seconds iteration;            ///< from the first instruction to the end of the last one on any rank
  double relative_error = 0;    ///< of the error bar (ErrorBar), a ratio less 1
  double memory_error = 0;      ///< 99 in 100 devices take at most peak * (1 + memory_error); 0: the peak is exact or a bound itself
  double estimated_share = 0;   ///< of the busy time that was not measured but estimated by a roofline, 0 ... 1
  Breakdown breakdown;          ///< mean over the ranks that work
  Expense expense;              ///< of one iteration
  std::vector<RankKind> kinds;  ///< in order of their first rank
  std::vector<Span> timeline;   ///< empty unless asked for; one representative per kind, by rank, queue and start
  TransportUses transports{};   ///< where a profile knows several
  Bytes peak_memory() const;    ///< the largest of any device
  bool operator==(const Forecast&) const = default;
};

/// By instruction of a rank's class, as they count in a breakdown.
std::vector<Activity> activities_by_instruction(const program::Program&, Rank);

/// What a rank's compute queue ran, by activity, from the spans of one rank; the rest of the iteration is bubble: waiting and what
/// communication does not hide. Coarser than a RankKind's breakdown, and the same for what was forecast and what was measured: only the
/// simulator sees when a message's data begin to move.
Breakdown compute_queue_breakdown(std::span<const Span>, Seconds iteration);

}  // namespace flotilla::simulate
