#include "app/common/mixed_plan.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "app/common/pool.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/search/pool_planner.hpp"

namespace flotilla::app {
namespace {

constexpr Seconds patience{5};

/// Free ranks of one type and zone by host, hosts in the order of their first ranks.
using Hosts = std::vector<std::vector<Rank>>;

std::map<std::pair<std::string, std::string>, Hosts> free_devices(const cluster::Profile& profile) {
  std::map<std::pair<std::string, std::string>, Hosts> free;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> place;
  for (const auto& device : profile.devices) {
    auto& hosts = free[{device.type, device.zone}];
    const auto [found, fresh] = place.try_emplace({device.type, device.zone, device.host}, hosts.size());
    if (fresh) hosts.emplace_back();
    hosts[found->second].push_back(device.rank);
  }
  return free;
}

/// All ranks of whole hosts, the first ones that are untouched.
std::vector<Rank> take_hosts(Hosts& hosts, std::size_t wanted, std::size_t host_size) {
  std::vector<Rank> taken;
  for (auto& host : hosts)
    if (host.size() == host_size && taken.size() < wanted) {
      taken.insert(taken.end(), host.begin(), host.end());
      host.clear();
    }
  return taken.size() == wanted ? taken : std::vector<Rank>{};
}

/// The lowest ranks of the first host that has room; a host that they fill exactly comes first, so that large groups find theirs. Groups
/// wider than the hosts get whole ones.
std::vector<Rank> take(Hosts& hosts, int count, std::size_t host_size) {
  const auto wanted = static_cast<std::size_t>(count);
  if (wanted > host_size) return take_hosts(hosts, wanted, host_size);
  auto host = wanted == 1 ? hosts.end() : std::ranges::find_if(hosts, [&](const auto& ranks) { return ranks.size() == wanted; });
  if (host == hosts.end()) host = std::ranges::find_if(hosts, [&](const auto& ranks) { return ranks.size() >= wanted; });
  if (host == hosts.end()) return {};
  std::vector<Rank> taken(host->begin(), host->begin() + count);
  host->erase(host->begin(), host->begin() + count);
  return taken;
}

/// What the search over a pool keeps to as well.
bool fixes_only_manner(const search::Fixed& fixed) {
  search::Fixed manner;
  manner.schedule = fixed.schedule;
  manner.chunks = fixed.chunks;
  manner.sequence_parallel = fixed.sequence_parallel;
  manner.shard_optimizer = fixed.shard_optimizer;
  return fixed == manner;
}

}  // namespace

std::optional<plan::Plan> on_devices(plan::Plan plan, const cluster::Profile& profile) {
  auto free = free_devices(profile);
  std::map<std::pair<std::string, std::string>, std::size_t> sizes;  // of the hosts, when all are free
  for (const auto& [place, hosts] : free)
    for (const auto& host : hosts) sizes[place] = std::max(sizes[place], host.size());
  // Large groups first: what is left over serves small ones.
  std::vector<plan::Replica*> order;
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas) order.push_back(&replica);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) { return a->tensor_parallel > b->tensor_parallel; });
  for (plan::Replica* replica : order) {
    const std::pair place{replica->device_type, replica->zone};
    replica->devices = take(free[place], replica->tensor_parallel, sizes[place]);
    if (replica->devices.empty()) return std::nullopt;
  }
  if (!plan::validate(plan).empty()) return std::nullopt;
  return plan;
}

std::optional<plan::Plan> mixed_plan(const search::Request& job, const cluster::Profile& profile, const program::Runtime& runtime,
                                     Bytes runtime_constant) {
  if (!fixes_only_manner(job.fixed) || profile.devices.size() < 2) return std::nullopt;
  search::PoolRequest request;
  request.model = job.model;
  request.length = job.length;
  request.global_batch = job.global_batch;
  request.precision = job.precision;
  request.pool = pool_of_devices(profile);
  request.manner = search::manner_of(job.fixed);
  request.process_memory = [runtime_constant](int) { return runtime_constant; };
  const Seconds end = now() + patience;
  request.should_stop = [&] { return (job.should_stop && job.should_stop()) || now() > end; };
  cluster::Profile library = search::with_node_sizes(profile, request.pool);
  library.devices.clear();
  if (job.memory_limit)
    for (auto& type : library.device_types) type.memory = std::min(type.memory, *job.memory_limit);
  const auto answer = search::plan_by_program(request, library, runtime);
  return answer.best ? on_devices(answer.best->plan, profile) : std::nullopt;
}

}  // namespace flotilla::app
