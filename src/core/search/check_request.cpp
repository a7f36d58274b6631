#include "check_request.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::search {
namespace {

constexpr int most_devices = 10'000'000;
constexpr int usual_devices_per_node = 8;  // where neither the pool nor the type says so: plan::allocate's

void check_job(const PlanRequest& r) {
  model::check(r.model, "model");
  FLOTILLA_REQUIRE(r.length >= 1 && r.length <= r.model.positions, ErrorKind::bad_input, "the sequence length is ", r.length, "; ",
                   r.model.name, " takes 1 to ", r.model.positions, " tokens");
  FLOTILLA_REQUIRE(r.global_batch >= 1, ErrorKind::bad_input, "the global batch is ", r.global_batch, "; give at least 1 sequence");
  FLOTILLA_REQUIRE(!r.memory_limit || r.memory_limit->count > 0, ErrorKind::bad_input, "the memory limit is ",
                   r.memory_limit.value_or(Bytes{}), "; expected more than nothing");
  FLOTILLA_REQUIRE(r.tolerance >= 0 && r.tolerance < 1, ErrorKind::bad_input, "the tolerance is ", r.tolerance, "; give 0 to below 1");
  FLOTILLA_REQUIRE(r.near_best >= 0, ErrorKind::bad_input, "the share that a plan may be worse than the best is ", r.near_best,
                   "; give 0 or more");
}

void check_pool(const Pool& pool, const cluster::Profile& library) {
  std::int64_t devices = 0;
  for (const PoolEntry& entry : pool) {
    FLOTILLA_REQUIRE(cluster::find_type(library, entry.device_type), ErrorKind::bad_input, "the pool holds ", in_quotes(entry.device_type),
                     ", a device type that the library does not know");
    FLOTILLA_REQUIRE(entry.count >= 0 && entry.count <= most_devices && entry.per_node >= 0, ErrorKind::bad_input, "the pool holds ",
                     entry.count, " ", entry.device_type, " in nodes of ", entry.per_node, "; give 0 to ", most_devices);
    devices += entry.count;
  }
  FLOTILLA_REQUIRE(devices > 0, ErrorKind::bad_input, "the pool holds no devices");
  FLOTILLA_REQUIRE(devices <= most_devices, ErrorKind::bad_input, "the pool holds ", devices, " devices; give at most ", most_devices);
}

void check_limits(const Limits& limits) {
  for (const auto& limit : {limits.usd_per_iteration, limits.usd_per_hour, limits.iterations_per_second})
    FLOTILLA_REQUIRE(!limit || *limit > 0, ErrorKind::bad_input, "a limit is ", limit.value_or(0), "; give more than 0");
  FLOTILLA_REQUIRE(!limits.devices || *limits.devices > 0, ErrorKind::bad_input, "at most ", limits.devices.value_or(0),
                   " devices: give at least 1");
}

void check_at_least_one(const std::optional<int>& value, const char* name) {
  FLOTILLA_REQUIRE(!value || *value >= 1, ErrorKind::bad_input, "the ", name, " is ", *value, "; expected at least 1");
}

void check_degrees(const PlanRequest& r) {
  const Constraints& fixed = r.constraints;
  check_at_least_one(fixed.data, "data-parallel degree");
  check_at_least_one(fixed.pipeline, "pipeline degree");
  check_at_least_one(fixed.tensor, "tensor-parallel degree");
  check_at_least_one(fixed.microbatch, "microbatch");
  FLOTILLA_REQUIRE(!fixed.data || *fixed.data <= r.global_batch, ErrorKind::bad_input, "the data-parallel degree is ", *fixed.data,
                   "; expected at most the global batch, ", r.global_batch, " sequences");
  FLOTILLA_REQUIRE(!fixed.pipeline || *fixed.pipeline <= r.model.layers(), ErrorKind::bad_input, "the pipeline degree is ", *fixed.pipeline,
                   "; expected at most ", r.model.layers(), ", the layers of ", r.model.name);
  FLOTILLA_REQUIRE(!fixed.tensor || *fixed.tensor <= model::largest_tensor_parallel(r.model), ErrorKind::bad_input,
                   "the tensor-parallel degree is ", *fixed.tensor, "; expected at most ", model::largest_tensor_parallel(r.model), ", ",
                   model::limit_of_tensor_parallel(r.model), " of ", r.model.name);
  FLOTILLA_REQUIRE(!fixed.microbatch || *fixed.microbatch <= r.global_batch, ErrorKind::bad_input, "the microbatch is ", *fixed.microbatch,
                   "; expected at most the global batch, ", r.global_batch, " sequences");
  FLOTILLA_REQUIRE(fixed.chunks.value_or(1) <= r.model.layers(), ErrorKind::bad_input, "a device holds ", fixed.chunks.value_or(1),
                   " stages; ", r.model.name, " has ", r.model.layers(), " layers");
}

void check_cuts(const PlanRequest& r) {
  const auto& cuts = r.constraints.cuts;
  if (cuts.empty()) return;
  const int layers = r.model.layers();
  const bool rises = std::ranges::adjacent_find(cuts, std::ranges::greater_equal{}) == cuts.end();
  FLOTILLA_REQUIRE(cuts.size() >= 2 && cuts.front() == 0 && cuts.back() == layers && rises, ErrorKind::bad_input,
                   "the layer cuts must rise from 0 to ", layers, ", the layers of ", r.model.name);
  const int stages = static_cast<int>(cuts.size()) - 1, chunks = r.constraints.chunks.value_or(1);
  FLOTILLA_REQUIRE(stages % chunks == 0, ErrorKind::bad_input, "the layer cuts make ", stages, " stages, which are not ", chunks,
                   " for each device; change one of them");
  const auto& pipeline = r.constraints.pipeline;
  FLOTILLA_REQUIRE(!pipeline || *pipeline * chunks == stages, ErrorKind::bad_input, "the layer cuts make ", stages,
                   " stages, but the pipeline degree is ", *pipeline, chunks > 1 ? text(" with ", chunks, " stages a device") : "",
                   "; change one of them");
}

std::string_view unit_of(Goal goal) { return goal == Goal::billing ? "billing weight" : goal == Goal::energy ? "power" : "price"; }

/// The objective can be worked out for every type of the pool.
void check_prices(const PlanRequest& r, const cluster::Profile& library) {
  const Goal goal = r.objective.goal;
  const Limits& limits = r.objective.limits;
  for (const PoolEntry& entry : r.pool) {
    if (entry.count == 0) continue;
    FLOTILLA_REQUIRE(goal == Goal::throughput || price_of(library, entry.device_type, entry.zone, goal) > 0, ErrorKind::bad_input,
                     "the objective asks for ", unit_of(goal), ", but no figure is known for the ", unit_of(goal), " of ",
                     entry.device_type);
    FLOTILLA_REQUIRE(!(limits.usd_per_iteration || limits.usd_per_hour) || price_of(library, entry.device_type, entry.zone, Goal::cost) > 0,
                     ErrorKind::bad_input, "a limit is in US dollars, but no figure is known for the price of ", entry.device_type);
  }
}

}  // namespace

double price_of(const cluster::Profile& library, const std::string& type, const std::string& zone, Goal goal) {
  constexpr double seconds_in_an_hour = 3600;
  switch (goal) {
    case Goal::throughput: return 0;
    case Goal::cost: return cluster::usd_per_hour(library, type, zone) / seconds_in_an_hour;
    case Goal::billing: return cluster::billing_weight(library, type, zone) / seconds_in_an_hour;
    case Goal::energy: return cluster::find_type(library, type)->power_watts;
  }
  return 0;
}

void check(const PlanRequest& r, const cluster::Profile& library) {
  check_job(r);
  check_limits(r.objective.limits);
  FLOTILLA_REQUIRE(r.objective.confidence >= 0 && r.objective.confidence < 1, ErrorKind::bad_input, "the confidence is ",
                   r.objective.confidence, "; give 0 to below 1");
  check_degrees(r);
  check_cuts(r);
  check_pool(r.pool, library);
  check_prices(r, library);
}

void check_ranks(const cluster::Profile& profile) {
  FLOTILLA_REQUIRE(!profile.devices.empty(), ErrorKind::bad_input, "the cluster profile lists no devices; measure with 'flotilla probe'");
  for (std::size_t i = 0; i < profile.devices.size(); ++i) {
    const auto& device = profile.devices[i];
    FLOTILLA_REQUIRE(device.rank == Rank{static_cast<int>(i)}, ErrorKind::bad_input, "device ", i, " of the cluster profile is of rank ",
                     device.rank, "; expected the devices in order of their ranks, 0, 1, ...");
    const auto* type = cluster::find_type(profile, device.type);
    FLOTILLA_REQUIRE(type && type->memory.count > 0, ErrorKind::bad_input, "the cluster profile does not say how much memory device type ",
                     in_quotes(device.type), " of rank ", device.rank, " has; measure again with 'flotilla probe'");
  }
}

cluster::Profile with_node_sizes(cluster::Profile profile, const Pool& pool) {
  std::map<std::string, int> sizes;
  for (const PoolEntry& entry : pool) {
    if (entry.count == 0) continue;
    const auto* type = cluster::find_type(profile, entry.device_type);
    const int own = type && type->per_node > 0 ? type->per_node : usual_devices_per_node;
    const int size = entry.per_node > 0 ? entry.per_node : own;
    const auto [found, fresh] = sizes.try_emplace(entry.device_type, size);
    if (!fresh) found->second = std::min(found->second, size);
  }
  for (auto& type : profile.device_types)
    if (const auto size = sizes.find(type.name); size != sizes.end()) type.per_node = size->second;
  return profile;
}

}  // namespace flotilla::search
