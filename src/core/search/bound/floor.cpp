#include "floor.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::search::bound {
namespace {

using pool::DevicePool;
using pool::LayerCostTable;

constexpr double steps_of_an_octave = 512;  // times that are tried: powers of 2^(1/512), the same for all pools
constexpr double rounding = 1 - 1e-9;
constexpr double seconds_in_an_hour = 3600;
constexpr int farthest = 64 * 512;  // steps beyond the first guess: no plan of the space is that slow

double time_of(int step) { return std::exp2(step / steps_of_an_octave); }

Space space_of(const DevicePool& device_pool, bool is_ours) {
  const Constraints& constraints = device_pool.request.constraints;
  Space space;
  const auto may_be = [&](plan::ScheduleKind kind) { return constraints.schedule.value_or(kind) == kind; };
  space.unsplit = may_be(plan::ScheduleKind::one_f_one_b) || may_be(plan::ScheduleKind::gpipe);
  space.zero_bubble = is_ours && may_be(plan::ScheduleKind::zero_bubble);
  constexpr int usual_chunks = 2;
  space.chunks = is_ours && may_be(plan::ScheduleKind::interleaved) ? std::max(usual_chunks, constraints.chunks.value_or(1)) : 1;
  space.sharded = is_ours && constraints.shard_optimizer.value_or(true);
  if (!is_ours) space.unsplit = true;
  return space;
}

/// A path through the layers, stage by stage, and what it costs.
struct Path {
  std::vector<double> potentials;
  std::vector<double> devices;  ///< by type
  bool complete = false;
};

Path cheapest_path(const StageDemand& demand, const std::vector<double>& price_of_type) {
  const int layers = demand.layers(), types = demand.types();
  Path path{std::vector<double>(at(layers + 1), impossible), std::vector<double>(at(types), 0), false};
  std::vector<std::pair<int, int>> before(at(layers + 1), {-1, -1});
  path.potentials[0] = 0;
  for (int first = 0; first < layers; ++first) {
    const double here = path.potentials[at(first)];
    if (here == impossible) continue;
    for (int last = first + 1; last <= layers; ++last) {
      const double* devices = demand.of(first, last);
      double& there = path.potentials[at(last)];
      for (int t = 0; t < types; ++t)
        if (devices[t] < impossible && here + price_of_type[at(t)] * devices[t] < there)
          there = here + price_of_type[at(t)] * devices[t], before[at(last)] = {first, t};
    }
  }
  path.complete = path.potentials.back() < impossible;
  for (int last = layers; path.complete && last > 0; last = before[at(last)].first) {
    const auto [first, type] = before[at(last)];
    path.devices[at(type)] += demand.of(first, last)[type];
  }
  return path;
}

class FloorSearch {
 public:
  FloorSearch(const DevicePool& device_pool, LayerCostTable& layer_cost_table, int largest)
      : device_pool_{device_pool},
        costs_{layer_costs_of(device_pool, layer_cost_table, largest)},
        sums_{device_pool, costs_},
        bounds_{device_pool, costs_, sums_, space_of(device_pool, costs_.is_ours)} {}

  BoundProof run() {
    if (costs_.options.empty()) return {};
    BoundProof floor = device_pool_.by_throughput() ? least_time() : least_expense();
    floor.bound *= rounding;
    floor.goal = device_pool_.request.objective.goal, floor.batch = device_pool_.request.global_batch, floor.layers = costs_.layers;
    for (const pool::PoolType& type : device_pool_.types) floor.types.push_back(type.name);
    if (device_pool_.request.wants_proof && !floor.prices.empty()) bounds_.list_replicas(floor.seconds, floor.replicas);
    return floor;
  }

 private:
  /// `within`: seconds, at least; what an iteration may cost limits the devices that it may hold for that long.
  std::vector<BoundProof::Resource> resources(double within) const {
    std::vector<BoundProof::Resource> all;
    const auto types = device_pool_.types.size();
    for (std::size_t t = 0; t < types; ++t) {
      all.push_back(
          {"devices of " + device_pool_.types[t].name, static_cast<double>(device_pool_.types[t].count), std::vector<double>(types, 0)});
      all.back().use[t] = 1;
    }
    const Limits& limits = device_pool_.request.objective.limits;
    std::vector<double> usd;
    for (const pool::PoolType& type : device_pool_.types) usd.push_back(type.usd);
    if (limits.devices) all.push_back({"devices", static_cast<double>(*limits.devices), std::vector<double>(types, 1)});
    if (limits.usd_per_hour) all.push_back({"USD per hour", *limits.usd_per_hour / seconds_in_an_hour, usd});
    if (limits.usd_per_iteration) all.push_back({"USD per iteration", *limits.usd_per_iteration / within, usd});
    return all;
  }

  static std::vector<double> price_of_types(const std::vector<BoundProof::Resource>& resources, const Prices& prices) {
    std::vector<double> out(resources.front().use.size(), 0);
    for (std::size_t r = 0; r < resources.size(); ++r)
      for (std::size_t t = 0; t < out.size(); ++t) out[t] += prices[r] * resources[r].use[t] / resources[r].available;
    return out;
  }

  /// Proves, where it can, that no plan ends within so many seconds; none ends within `excluded`, a smaller number.
  bool exclude(int step, double excluded, BoundProof& floor) {
    if (device_pool_.request.should_stop && device_pool_.request.should_stop()) return false;
    const double seconds = time_of(step);
    const StageDemand demand = bounds_.demand(seconds);
    auto scarce = resources(excluded);
    const auto cheapest = [&](const Prices& prices) -> std::optional<Use> {
      const Path path = cheapest_path(demand, price_of_types(scarce, prices));
      if (!path.complete) return std::nullopt;
      Use use(scarce.size(), 0);
      for (std::size_t r = 0; r < scarce.size(); ++r)
        for (std::size_t t = 0; t < path.devices.size(); ++t) use[r] += path.devices[t] * scarce[r].use[t] / scarce[r].available;
      return use;
    };
    auto packing = pack(static_cast<int>(scarce.size()), cheapest, floor.prices.size() == scarce.size() ? floor.prices : Prices{});
    if (packing.fits) return false;
    if (packing.prices.empty()) packing.prices.assign(scarce.size(), 0);
    floor.bound = floor.seconds = seconds;
    floor.prices = std::move(packing.prices);
    floor.potentials = cheapest_path(demand, price_of_types(scarce, floor.prices)).potentials;
    floor.resources = std::move(scarce);
    return true;
  }

  /// Seconds in which all devices of the pool, each at its best, take the batch through all layers.
  double least_guess() const {
    std::vector<double> fastest(device_pool_.types.size(), impossible);
    for (const ReplicaOption& option : costs_.options)
      for (const MicrobatchCosts& m : option.microbatches) {
        const Interval all{0, costs_.layers};
        const double pass = costs_.of(m.forward, all) + costs_.of(m.backward, all);
        fastest[at(option.type)] = std::min(fastest[at(option.type)], pass * option.tensor / m.most);
      }
    double speed = 0;
    for (std::size_t t = 0; t < fastest.size(); ++t)
      if (fastest[t] < impossible) speed += device_pool_.types[t].count / fastest[t];
    return device_pool_.request.global_batch / speed;
  }

  /// All devices of the pool as fast at each kind of layer as the one that is best at it.
  double least_sure() const {
    ByKind least;
    least.fill(impossible);
    for (const ReplicaOption& option : costs_.options)
      for (const MicrobatchCosts& m : option.microbatches)
        for (std::size_t k = 0; k < layer_kinds; ++k)
          least[k] = std::min(least[k], (m.forward[k] + m.backward[k]) * option.tensor / m.most);
    return device_pool_.request.global_batch * costs_.of(least, {0, costs_.layers}) / device_pool_.devices;
  }

  static int step_before(double seconds) { return static_cast<int>(std::floor(std::log2(seconds) * steps_of_an_octave)); }

  /// From a guess upwards in ever larger strides, then halving the last one.
  BoundProof least_time() {
    BoundProof floor;
    floor.bound = floor.seconds = least_sure();
    int low = step_before(floor.seconds), high = std::max(low + 1, step_before(least_guess()));
    const int end = high + farthest;
    for (int stride = 8; exclude(high, time_of(low), floor); stride *= 2) {
      low = high, high += stride;
      if (high > end) {  // however long it may take, nothing fits
        floor.bound = impossible;
        return floor;
      }
    }
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (exclude(middle, time_of(low), floor) ? low : high) = middle;
    }
    return floor;
  }

  BoundProof least_expense() {
    const auto& limit = device_pool_.request.objective.limits.iterations_per_second;
    const double seconds = limit ? 1 / *limit : impossible;
    const StageDemand expense = bounds_.expense(seconds);
    const Path path = cheapest_path(expense, std::vector<double>(device_pool_.types.size(), 1));
    BoundProof floor;
    floor.seconds = limit ? seconds : 0;
    floor.potentials = path.potentials;
    floor.bound = path.potentials.back();
    for (int first = 0; device_pool_.request.wants_proof && first < costs_.layers; ++first)
      for (int last = first + 1; last <= costs_.layers; ++last)
        for (int type = 0; type < expense.types(); ++type)
          if (const double least = expense.of(first, last)[type]; least < impossible) floor.expenses.push_back({first, last, type, least});
    return floor;
  }

  const DevicePool& device_pool_;
  LayerCosts costs_;
  SumTable sums_;
  StageBounds bounds_;
};

}  // namespace

BoundProof floor_of(const DevicePool& device_pool, LayerCostTable& layer_cost_table, int largest) {
  return FloorSearch{device_pool, layer_cost_table, largest}.run();
}

}  // namespace flotilla::search::bound
