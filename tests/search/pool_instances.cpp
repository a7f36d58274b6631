#include "pool_instances.hpp"

#include <cmath>

#include "flotilla/plan/allocate.hpp"
#include "flotilla/simulate/forecaster.hpp"

namespace flotilla::fixture {
namespace {

using search::Goal;

/// What the whole model on one device of the first type takes, whatever its memory.
struct Alone {
  double seconds = 0;
  Bytes memory;
};

class Maker {
 public:
  Maker(int seed, const Range& range) : dice_{seed}, range_{range} {}

  Instance make() {
    set_job();
    set_pool();
    set_links();
    const Alone alone = forecast_alone();
    for (auto& type : i_.library.device_types)
      type.memory = {static_cast<std::int64_t>(memory_share() * static_cast<double>(alone.memory.count))};
    if (const auto& runtime = i_.runtime.layers)  // what it takes whatever the model goes to everybody
      for (auto& type : i_.library.device_types)
        type.memory += runtime->process + runtime->neighbour * 2 + (dice_.chance(0.5) ? runtime->tensor_group : Bytes{});
    if (dice_.chance(0.15)) i_.request.process_memory = [each = alone.memory.count / 50](int ranks) { return Bytes{each * ranks}; };
    if (range_.limits) set_limits(alone);
    if (range_.restrictions) set_restrictions();
    return std::move(i_);
  }

 private:
  void set_job() {
    auto& r = i_.request;
    r.model = model::built_in(dice_.one_of(range_.models));
    if (range_.blocks > 0) r.model.blocks = dice_.pick(1, range_.blocks);
    r.length = dice_.one_of<int>({16, 40, 64, 128});
    r.global_batch = dice_.pick(1, range_.batch);
    r.precision = dice_.chance(0.7) ? Precision::fp32 : Precision::bf16;
    r.objective.goal = dice_.one_of<Goal>({Goal::throughput, Goal::throughput, Goal::cost, Goal::billing, Goal::energy});
    i_.runtime = program::runtime_named(range_.described_runtimes && dice_.chance(0.4) ? "megatron-deepspeed" : "flotilla");
  }

  void set_pool() {
    const int types = dice_.pick(1, range_.types), zones = dice_.pick(1, range_.zones);
    int left = range_.devices;
    for (int t = 0; t < types; ++t) {
      auto type = made_up_type("t" + std::to_string(t), dice_.scale(50, 1000));
      type.memory_bandwidth = {dice_.scale(20e9, 200e9)};
      type.efficiency.half = dice_.scale(1e5, 1e8);
      type.efficiency.launch = {dice_.scale(1e-6, 2e-5)};
      type.usd_per_hour = dice_.scale(0.5, 10);
      type.billing_weight = dice_.scale(0.5, 10);
      type.power_watts = dice_.scale(100, 700);
      const int per_node = dice_.one_of(range_.node_sizes);
      for (int z = 0; z < zones; ++z) {
        const int count = std::min(left, dice_.pick(z == 0 ? 1 : 0, range_.devices_of_a_place));
        left -= count;
        if (count > 0)
          i_.request.pool.push_back({type.name, zones == 1 ? "" : std::string(1, static_cast<char>('a' + z)), count, per_node});
      }
      i_.library.device_types.push_back(std::move(type));
    }
  }

  void set_links() {
    i_.library.links = made_up_links(dice_.scale(1e9, 1e11), dice_.scale(1e8, 1e10), dice_.scale(1e7, 1e9));
    for (auto& link : i_.library.links) link.lanes = dice_.one_of<int>({1, 2, 8});
    if (dice_.chance(0.3))
      for (const char* from : {"a", "b", "c"})
        for (const char* to : {"a", "b", "c"})
          if (from != to) i_.library.egress_prices.push_back({from, to, dice_.scale(1e-12, 1e-9)});
  }

  double memory_share() { return dice_.scale(range_.least_memory, range_.most_memory); }

  Alone forecast_alone() const {
    const auto& r = i_.request;
    plan::Plan plan;
    plan.model = r.model, plan.length = r.length, plan.global_batch = r.global_batch, plan.precision = r.precision;
    plan.stages = {{0, r.model.layers(), plan::Recompute::none, {{i_.library.device_types[0].name, "", 1, {}, 1, r.global_batch}}}};
    auto profile = i_.library;
    auto allocation = plan::allocate(plan, profile);
    profile.devices = allocation.devices;
    const auto forecast = simulate::ProgramForecaster{profile, i_.runtime, {}}.forecast(allocation.plan);
    return {forecast.iteration.value, forecast.peak_memory() - (i_.runtime.layers ? i_.runtime.layers->process : Bytes{})};
  }

  /// About what the first type's devices make of it.
  void set_limits(const Alone& alone) {
    auto& limits = i_.request.objective.limits;
    const double usd = i_.library.device_types[0].usd_per_hour;
    int devices = 0;
    for (const auto& entry : i_.request.pool) devices += entry.count;
    if (dice_.chance(0.15)) limits.iterations_per_second = dice_.scale(0.2, 10) / alone.seconds;
    if (dice_.chance(0.15)) limits.usd_per_iteration = dice_.scale(0.2, 10) * alone.seconds * usd / 3600;
    if (dice_.chance(0.15)) limits.usd_per_hour = dice_.real(0.2, 1) * devices * usd;
    if (dice_.chance(0.2)) limits.devices = dice_.pick(1, devices);
  }

  void set_restrictions() {
    for (const auto& name : search::restriction_names())
      if (dice_.chance(0.15)) search::restrict(i_.request.restrictions, name);
  }

  Dice dice_;
  const Range& range_;
  Instance i_;
};

}  // namespace

cluster::DeviceType made_up_type(const std::string& name, double gigaflops, Bytes memory) {
  return {name, cluster::DeviceKind::gpu, memory, {gigaflops * 1e9}, {2 * gigaflops * 1e9}, {gigaflops * 1e8}, "made up"};
}

std::vector<cluster::Link> made_up_links(double node, double zone, double wide) {
  const auto link = [](cluster::LinkLevel level, double latency, double rate) {
    return cluster::Link{level, "any", level == cluster::LinkLevel::node ? "any" : "other", {{{0}, {latency}, {rate}}}, 0.05};
  };
  return {link(cluster::LinkLevel::node, 5e-6, node), link(cluster::LinkLevel::zone, 2e-5, zone),
          link(cluster::LinkLevel::wide, 1e-3, wide)};
}

Instance random_instance(int seed, const Range& range) { return Maker{seed, range}.make(); }

}  // namespace flotilla::fixture
