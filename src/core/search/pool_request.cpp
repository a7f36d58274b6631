#include "pool_request.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/error.hpp"

namespace flotilla::search {
namespace {

constexpr int most_devices = 10'000'000;
constexpr int usual_devices_per_node = 8;  // where neither the pool nor the type says so: plan::allocate's

void check_pool(const Pool& pool, const cluster::Profile& library) {
  std::int64_t devices = 0;
  for (const PoolEntry& entry : pool) {
    FLOTILLA_REQUIRE(cluster::find_type(library, entry.device_type), ErrorKind::bad_input, "the pool holds '", entry.device_type,
                     "', a device type that the library does not know");
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

}  // namespace

void check(const PoolRequest& r, const cluster::Profile& library) {
  model::check(r.model, "model");
  FLOTILLA_REQUIRE(r.length >= 1 && r.length <= r.model.positions, ErrorKind::bad_input, "the sequence length is ", r.length, "; ",
                   r.model.name, " takes 1 to ", r.model.positions, " tokens");
  FLOTILLA_REQUIRE(r.global_batch >= 1, ErrorKind::bad_input, "the global batch is ", r.global_batch, "; give at least 1 sequence");
  FLOTILLA_REQUIRE(r.manner.chunks.value_or(1) <= r.model.layers(), ErrorKind::bad_input, "a device holds ", r.manner.chunks.value_or(1),
                   " stages; ", r.model.name, " has ", r.model.layers(), " layers");
  FLOTILLA_REQUIRE(r.tolerance >= 0 && r.tolerance < 1, ErrorKind::bad_input, "the tolerance is ", r.tolerance, "; give 0 to below 1");
  FLOTILLA_REQUIRE(r.near_best >= 0, ErrorKind::bad_input, "the share that a plan may be worse than the best is ", r.near_best,
                   "; give 0 or more");
  check_limits(r.objective.limits);
  check_pool(r.pool, library);
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
