#include "floor.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>

#include "flotilla/base/text.hpp"
#include "flotilla/plan/batch_partition.hpp"
#include "flotilla/schedule/schedule.hpp"
#include "pool/uneven_pipeline_search.hpp"

namespace flotilla::search::bound {
namespace {

using pool::DevicePool;
using pool::LayerCostTable;

constexpr double steps_of_an_octave = 256;  // times that are tried: powers of 2^(1/256), the same for all pools
constexpr double rounding = 1 - 1e-9;
constexpr double seconds_in_an_hour = 3600;
constexpr int farthest = 64 * 256;  // steps beyond the first guess: no plan of the space is that slow

double time_of(int step) { return std::exp2(step / steps_of_an_octave); }

/// With them the floor takes some tenths of a second and 400 MB at most; pools of ten types and models of 200 layers have less.
constexpr double most_passes = 4e6;
constexpr double replicas_count_half = 0.5;  // by_batch, where counting by the batch alone does not exclude a case

/// The schedules that plans of the space may have.
void add_schedule(plan::ScheduleKind kind, int chunks, Space& space) {
  const schedule::Schedule& schedule = schedule::schedule_of(kind);
  constexpr int second = 1;  // the first stage has no gradient to send on
  if (schedule.interleaves())
    space.chunks = std::max(space.chunks, chunks);
  else
    (schedule.splits(second) ? space.splits : space.whole) = true;
}

Space space_of(const DevicePool& device_pool, bool is_ours) {
  const Constraints& constraints = device_pool.request.constraints;
  Space space;
  constexpr int usual_chunks = 2;
  if (!is_ours) space.whole = true;
  for (const plan::ScheduleKind kind : schedule::schedule_kinds())
    if (is_ours && constraints.schedule.value_or(kind) == kind)
      add_schedule(kind, std::max(usual_chunks, constraints.chunks.value_or(1)), space);
  space.sharded = is_ours && constraints.shard_optimizer.value_or(true);
  return space;
}

/// Of stages with replica counts of their own: they are searched under one schedule.
Space uneven_space_of(const DevicePool& device_pool) {
  const Constraints& constraints = device_pool.request.constraints;
  Space space;
  add_schedule(constraints.schedule.value_or(schedule::usual_schedule()), 1, space);
  space.whole = space.whole || !space.splits;
  space.sharded = constraints.shard_optimizer.value_or(true);
  space.pipeline_replicas = false;
  return space;
}

/// Anything: microbatches of their own in every stage, under every schedule.
Space widest_space_of(const DevicePool& device_pool, bool is_ours) {
  Space space = space_of(device_pool, is_ours);
  space.pipeline_replicas = false;
  return space;
}

bool has_pipeline_replicas(const plan::Plan& plan) {
  for (int s = 0; s + 1 < static_cast<int>(plan.stages.size()); ++s)
    if (!plan::partitioned_alike(plan, s, s + 1)) return false;
  return true;
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

/// Some plans of the space, which are excluded for themselves.
struct PlanCase {
  std::string plans;
  StageBounds* bounds = nullptr;
  ReplicaCount count;
  int excluded = 0, kept = 0;  ///< steps of time: the largest within which none ends, the least where that is open
  double fits = 0;             ///< within `excluded`: the part of a plan that the devices are enough for, at most
  BoundProof::Case proof;
};

class FloorSearch {
 public:
  FloorSearch(const DevicePool& device_pool, LayerCostTable& layer_cost_table, int largest)
      : device_pool_{device_pool}, costs_{layer_costs_of(device_pool, layer_cost_table, largest)}, sums_{device_pool, costs_} {
    if (by_stages_) add_cases();
  }

  BoundProof run() {
    if (costs_.options.empty()) return {};
    BoundProof floor = !by_stages_ ? least_without_stages() : device_pool_.by_throughput() ? least_time() : least_expense();
    floor.bound *= rounding;
    floor.goal = device_pool_.request.objective.goal, floor.batch = device_pool_.request.global_batch, floor.layers = costs_.layers;
    for (const pool::PoolType& type : device_pool_.types) floor.types.push_back(type.name);
    if (device_pool_.request.wants_proof && device_pool_.by_throughput()) take_proofs(floor);
    return floor;
  }

 private:
  /// Stages of any layers, on any replica, with microbatches of any size: the tables of the cases grow with them.
  double passes_of_stages() const {
    double sizes = 0;
    for (const ReplicaOption& option : costs_.options) sizes += static_cast<double>(option.microbatches.size());
    return sizes * costs_.layers * (costs_.layers + 1) / 2;
  }

  BoundProof least_without_stages() const {
    BoundProof floor;
    if (device_pool_.by_throughput()) floor.bound = floor.seconds = least_sure();
    return floor;
  }

  bool may_be_uneven() const {
    const auto& previous = device_pool_.request.previous;
    return pool::searches_uneven_pipelines(device_pool_, costs_.is_ours) || (previous && !has_pipeline_replicas(*previous));
  }

  /// Pipeline replicas that one host holds, more of them, none. Where devices are paid for there is one case alone.
  void add_cases() {
    const Constraints& fixed = device_pool_.request.constraints;
    const int batch = device_pool_.request.global_batch, most = std::min(batch, device_pool_.devices);
    const bool uneven = may_be_uneven();
    if (!device_pool_.by_throughput()) {
      add_case("all", {1, batch}, uneven ? widest_space_of(device_pool_, costs_.is_ours) : space_of(device_pool_, costs_.is_ours));
      return;
    }
    const Space space = space_of(device_pool_, costs_.is_ours);
    StageBounds& shared = bounds_.emplace_back(device_pool_, costs_, sums_, space);
    int of_a_host = 1;
    for (const pool::PoolType& type : device_pool_.types) of_a_host = std::max(of_a_host, type.per_node);
    for (const auto [least, last] : {ReplicaCount{1, of_a_host}, {of_a_host + 1, most}})
      if (least <= most && (!fixed.data || (*fixed.data >= least && *fixed.data <= last)))
        cases_.push_back({text(least, " to ", std::min(last, most), " pipeline replicas"),
                          &shared,
                          {least, std::min(last, most)},
                          lowest,
                          highest,
                          0,
                          {}});
    const bool known = !device_pool_.request.previous || has_pipeline_replicas(*device_pool_.request.previous);
    if (uneven)
      add_case("stages with replica counts of their own", {1, batch},
               known ? uneven_space_of(device_pool_) : widest_space_of(device_pool_, costs_.is_ours));
  }
  void add_case(std::string plans, const ReplicaCount& count, const Space& space) {
    cases_.push_back({std::move(plans), &bounds_.emplace_back(device_pool_, costs_, sums_, space), count, lowest, highest, 0, {}});
  }

  /// `within`: seconds, at least; what an iteration may cost limits the devices that it may hold for that long.
  std::vector<BoundProof::Resource> resources(double within) const {
    std::vector<BoundProof::Resource> all;
    const auto types = device_pool_.types.size();
    const auto add = [&](const char* name, double available, std::vector<double> use) {
      all.push_back({name, available, std::move(use), 0});
    };
    for (std::size_t t = 0; t < types; ++t) {
      add("", static_cast<double>(device_pool_.types[t].count), std::vector<double>(types, 0));
      all.back().name = "devices of " + device_pool_.types[t].name;
      all.back().use[t] = 1;
    }
    const Limits& limits = device_pool_.request.objective.limits;
    std::vector<double> usd;
    for (const pool::PoolType& type : device_pool_.types) usd.push_back(type.usd);
    if (limits.devices) add("devices", static_cast<double>(*limits.devices), std::vector<double>(types, 1));
    if (limits.usd_per_hour) add("USD per hour", *limits.usd_per_hour / seconds_in_an_hour, usd);
    if (limits.usd_per_iteration) add("USD per iteration", *limits.usd_per_iteration / within, usd);
    return all;
  }

  static std::vector<double> price_of_types(const std::vector<BoundProof::Resource>& resources, const Prices& prices) {
    std::vector<double> out(resources.front().use.size(), 0);
    for (std::size_t r = 0; r < resources.size(); ++r)
      for (std::size_t t = 0; t < out.size(); ++t) out[t] += prices[r] * resources[r].use[t] / resources[r].available;
    return out;
  }

  /// Proves, where it can, that no plan of the case ends within so many seconds; none ends within `within`, a smaller number.
  bool exclude(PlanCase& one, int step, double within) {
    if (step <= one.excluded) return true;
    if (step >= one.kept || stopped_) return false;
    const bool counts = one.bounds->space().pipeline_replicas && one.count.least > 1;
    for (const double by_batch : {1.0, replicas_count_half}) {
      if (by_batch < 1 && !counts) continue;
      if (!exclude(one, time_of(step), within, by_batch)) continue;
      one.excluded = step;
      return true;
    }
    one.kept = step;
    return false;
  }

  bool exclude(PlanCase& one, double seconds, double within, double by_batch) {
    if (stopped_ = stopped_ || (device_pool_.request.should_stop && device_pool_.request.should_stop()); stopped_) return false;
    const StageDemand demand = one.bounds->demand(seconds, one.count, by_batch);
    auto scarce = resources(within);
    const auto cheapest = [&](const Prices& prices) -> std::optional<Use> {
      const Path path = cheapest_path(demand, price_of_types(scarce, prices));
      if (!path.complete) return std::nullopt;
      Use use(scarce.size(), 0);
      for (std::size_t r = 0; r < scarce.size(); ++r)
        for (std::size_t t = 0; t < path.devices.size(); ++t) use[r] += path.devices[t] * scarce[r].use[t] / scarce[r].available;
      return use;
    };
    auto packing = pack(static_cast<int>(scarce.size()), cheapest, prices_.size() == scarce.size() ? prices_ : Prices{});
    if (packing.fits) return false;
    if (packing.prices.empty())
      packing.prices.assign(scarce.size(), 0);
    else
      prices_ = packing.prices;
    one.fits = std::accumulate(packing.prices.begin(), packing.prices.end(), 0.0);
    for (std::size_t r = 0; r < scarce.size(); ++r) scarce[r].price = packing.prices[r];
    auto potentials = cheapest_path(demand, price_of_types(scarce, packing.prices)).potentials;
    one.proof = {one.plans, seconds, one.count.least, by_batch, std::move(scarce), std::move(potentials), {}};
    return true;
  }

  void take_proofs(BoundProof& floor) {
    for (PlanCase& one : cases_) {
      if (one.proof.potentials.empty()) return floor.cases.clear();  // the bound needs no proof of stages
      one.bounds->list_replicas(one.proof.seconds, one.count, one.proof.replicas);
      floor.cases.push_back(one.proof);
    }
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

  /// A time within which no plan of a case ends, and the part of a plan that fits; 0: not known.
  struct ExcludedStep {
    int step = 0;
    double fits = 0;
  };
  /// The step at which a whole plan fits if what fits grows with the time as between two steps; nothing where that is not known.
  static std::optional<int> where_one_fits(const ExcludedStep& before, const ExcludedStep& last) {
    if (!(before.fits > 0 && last.fits > before.fits)) return std::nullopt;
    const double now = time_of(last.step), slope = (last.fits - before.fits) / (now - time_of(before.step));
    return step_before(now + (1 - last.fits) / slope);
  }

  /// The last step up to `most` within which no plan of the case ends; none does within `low`. From a guess upwards: twice the time fits
  /// twice as much of a plan, or more. Then between the last step that is excluded and the first that is open.
  int last_excluded(PlanCase& one, int low, int guess, int most) {
    ExcludedStep before{low}, last{low};
    const auto excludes = [&](int step) {
      if (!exclude(one, step, time_of(last.step))) return false;
      before = last, last = {step, step == one.excluded ? one.fits : 0};
      return true;
    };
    int open = guess;
    for (int stride = 4; excludes(open); stride *= 2) {
      const double octaves = last.fits > 0 ? -std::log2(last.fits) : 1;
      open += std::max(stride, static_cast<int>(std::min(octaves, 1.0) * steps_of_an_octave) + 1);
      if (open > most) return most;
    }
    for (int tries = 0; open - last.step > 1; ++tries) {
      const int middle = last.step + (open - last.step) / 2;
      const bool halve = tries % 3 == 2;  // where what fits grows in leaps
      const int next = halve ? middle : std::clamp(where_one_fits(before, last).value_or(middle), last.step + 1, open - 1);
      if (!excludes(next)) open = next;
    }
    return last.step;
  }

  /// Case by case, each no farther than those before allow. The one with the most freedom comes first: it is likely to allow least.
  BoundProof least_time() {
    BoundProof floor;
    floor.bound = floor.seconds = least_sure();
    int low = step_before(floor.seconds), guess = std::max(low + 1, step_before(least_guess()));
    const int end = guess + farthest;
    const bool budget = device_pool_.request.objective.limits.usd_per_iteration.has_value();
    for (bool moved = true; moved;) {
      int reached = end;
      for (auto one = cases_.rbegin(); one != cases_.rend(); ++one)
        reached = last_excluded(*one, low, reached == end ? guess : reached, reached);
      if (reached == end) {  // however long it may take, nothing fits
        floor.bound = impossible;
        return floor;
      }
      moved = budget && reached > low;
      if (reached > low) floor.bound = floor.seconds = time_of(reached);
      // A budget for an iteration pays for fewer devices the longer it lasts: what was open under a lower bound may be excluded now.
      for (PlanCase& one : cases_) one.kept = highest;
      low = reached, guess = low + 1;
    }
    return floor;
  }

  BoundProof least_expense() {
    const auto& limit = device_pool_.request.objective.limits.iterations_per_second;
    const double seconds = limit ? 1 / *limit : impossible;
    const StageDemand expense = cases_.front().bounds->expense(seconds);
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
  LeastLayerCosts costs_;
  SumTable sums_;
  static constexpr int lowest = std::numeric_limits<int>::min(), highest = std::numeric_limits<int>::max();
  std::deque<StageBounds> bounds_;
  const bool by_stages_ = passes_of_stages() <= most_passes;
  std::vector<PlanCase> cases_;
  Prices prices_;  ///< of the last case that was excluded
  bool stopped_ = false;
};

}  // namespace

BoundProof floor_of(const DevicePool& device_pool, LayerCostTable& layer_cost_table, int largest) {
  return FloorSearch{device_pool, layer_cost_table, largest}.run();
}

}  // namespace flotilla::search::bound
