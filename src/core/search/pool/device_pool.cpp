#include "device_pool.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "../check_request.hpp"
#include "candidate_plan.hpp"

namespace flotilla::search::pool {
DevicePool::DevicePool(const PlanRequest& r, const cluster::Profile& library, const cluster::Profile* ranks)
    : request{r}, profile{library}, cuts{cuts_of_devices(r.constraints)} {
  profile = with_node_sizes(std::move(profile), r.pool);
  // By name, so that the answer does not depend on the order in which somebody lists the pool.
  std::map<std::pair<std::string, std::string>, Nodes> nodes;
  for (const PoolEntry& entry : r.pool)
    if (entry.count > 0) count_nodes(entry, library, nodes[{entry.device_type, entry.zone}]);
  for (const auto& [key, there] : nodes) add(key.first, key.second, there.devices + there.rest);
  largest_microbatch = std::min({r.global_batch, pool::largest_microbatch, largest_believed()});
  set_degrees();
  set_prices();
  forget_the_rest();
  list_devices();
  if (ranks != nullptr) list_ranks(*ranks);
  for (Place& place : places) {
    place.zone_number = static_cast<int>(std::ranges::find(zones, place.zone) - zones.begin());
    if (at(place.zone_number) == zones.size()) zones.push_back(place.zone);
  }
}

/// In nodes of the size that the type has in this pool. What is left over in larger nodes, or in the last ones of several entries, would
/// be nodes that are not full: of those there may be one, the last.
void DevicePool::count_nodes(const PoolEntry& entry, const cluster::Profile& library, Nodes& nodes) const {
  const int size = std::max(1, cluster::find_type(profile, entry.device_type)->per_node);
  const Pool alone{entry};
  const int own = cluster::find_type(with_node_sizes(library, alone), entry.device_type)->per_node;
  const int full = entry.count / own, last = entry.count % own;
  nodes.devices += full * (own / size * size) + last / size * size;
  nodes.rest = std::max({nodes.rest, full > 0 ? own % size : 0, last % size});
}

void DevicePool::add(const std::string& device_type, const std::string& zone, int count) {
  devices += count;
  if (types.empty() || types.back().name != device_type) {
    const auto* known = cluster::find_type(profile, device_type);
    const int per_node = std::max(1, known->per_node);
    types.push_back({known->name, 0, per_node, per_node, known->memory, 0, 0, {}});
  }
  types.back().count += count;
  types.back().places.push_back(static_cast<int>(places.size()));
  places.push_back({static_cast<int>(types.size()) - 1, zone, count, Rank{0}});
}

/// Beyond a multiple of what was measured times are no longer believed: caches that held a smaller microbatch's activations hold no larger
/// one's.
int DevicePool::largest_believed() const {
  std::int64_t tokens = 0;
  for (const auto& time : profile.operation_times)
    if (time.precision == request.precision) tokens = std::max(tokens, std::int64_t{time.sequences} * time.length);
  if (tokens <= 1) return request.global_batch;
  const auto believed = tuning::believed_microbatch * tokens / std::max(1, request.length);
  return static_cast<int>(std::clamp<std::int64_t>(believed, 1, request.global_batch));
}

void DevicePool::set_degrees() {
  const int most = model::largest_tensor_parallel(request.model), fixed = request.constraints.tensor.value_or(1);
  const auto divides_a_node = [&](int degree) {
    return std::ranges::any_of(types, [&](const PoolType& type) { return type.per_node % degree == 0; });
  };
  const auto largest_node = std::ranges::max(types, {}, &PoolType::per_node).per_node;
  for (int degree = 1; degree <= most; ++degree)
    if (std::has_single_bit(static_cast<unsigned>(degree)) || degree == fixed || (degree <= largest_node && divides_a_node(degree)))
      degrees.push_back(degree);
}

void DevicePool::set_prices() {
  for (PoolType& type : types) {
    for (const int p : type.places) {
      Place& place = places[at(p)];
      place.usd = price_of(profile, type.name, place.zone, Goal::cost);
      place.price = price_of(profile, type.name, place.zone, request.objective.goal);
    }
    const auto least = [&](double Place::*figure) {
      return places[at(std::ranges::min(type.places, {}, [&](int p) { return places[at(p)].*figure; }))].*figure;
    };
    type.usd = least(&Place::usd), type.price = least(&Place::price);
  }
}

/// Of a library what is said of other models and types: every forecast of the search would read past it.
void DevicePool::forget_the_rest() {
  const auto other = [&](const std::string& type) { return std::ranges::find(types, type, &PoolType::name) == types.end(); };
  std::erase_if(profile.link_fits, [&](const auto& fit) { return other(fit.from_type) || other(fit.to_type); });
  std::erase_if(profile.layer_times, [&](const auto& time) { return time.model != request.model.name || other(time.device_type); });
  std::erase_if(profile.layer_sizes, [&](const auto& size) { return size.model != request.model.name; });
  std::erase_if(profile.operation_times, [&](const auto& time) { return other(time.device_type); });
}

void DevicePool::list_devices() {
  profile.devices.clear();
  profile.devices.reserve(at(devices));
  for (Place& place : places) {
    const PoolType& type = types[at(place.type)];
    place.first = Rank{static_cast<int>(profile.devices.size())};
    std::string host;
    for (int i = 0; i < place.count; ++i) {
      if (i % type.per_node == 0) host = text(place.zone, ":", type.name, "-", i / type.per_node);
      profile.devices.push_back({Rank{place.first.value + i}, type.name, host, place.zone, i % type.per_node, 1});
    }
  }
}

void DevicePool::list_ranks(const cluster::Profile& known) {
  for (const Place& place : places) {
    auto& own = ranks_.emplace_back();
    for (const auto& device : known.devices)
      if (device.type == types[at(place.type)].name && device.zone == place.zone) own.push_back(device.rank.value);
    std::ranges::sort(own);
  }
}

bool DevicePool::takes_first_ranks(const CandidatePlan& candidate) const {
  if (ranks_.empty()) return true;
  std::vector<std::int64_t> taken(places.size(), 0);
  for (const PipelineReplica& pipeline : candidate.pipelines)
    for (const Slot& slot : pipeline.slots) taken[at(slot.place)] += std::int64_t{pipeline.count} * slot.tensor;
  const auto all = std::accumulate(taken.begin(), taken.end(), std::int64_t{0});
  for (std::size_t p = 0; p < ranks_.size(); ++p)
    if (std::ranges::lower_bound(ranks_[p], all) - ranks_[p].begin() != taken[p]) return false;
  return true;
}

int DevicePool::groups(int place, int tensor, int some) const {
  const auto per_node = static_cast<unsigned>(types[at(places[at(place)].type)].per_node);
  if (std::has_single_bit(per_node) && std::has_single_bit(static_cast<unsigned>(tensor)))
    return some >> std::countr_zero(static_cast<unsigned>(tensor));  // both divide one another
  return groups_of_nodes(static_cast<int>(per_node), tensor, some);
}

int DevicePool::groups_of_nodes(int per_node, int tensor, int some) {
  if (tensor > per_node) return tensor % per_node == 0 ? some / per_node / (tensor / per_node) : 0;
  return some / per_node * (per_node / tensor) + some % per_node / tensor;
}

namespace {

/// The nodes of a place by how many of their devices are free. Groups wider than a node take whole ones; the others are put into the
/// fullest nodes that hold them, large ones first: of degrees that divide one another none fits that does not fit so.
class SubPool {
 public:
  SubPool(int devices, int per_node) : nodes_(at(per_node) + 1, 0) {
    nodes_[at(per_node)] += devices / per_node;
    nodes_[at(devices % per_node)] += 1;
  }

  bool take(int tensor, std::int64_t count) {
    const auto per_node = std::ssize(nodes_) - 1;
    if (tensor > per_node) return tensor % per_node == 0 && (nodes_.back() -= count * (tensor / per_node)) >= 0;
    for (std::size_t free = at(tensor); free < nodes_.size() && count > 0; ++free) {
      const std::int64_t each = static_cast<std::int64_t>(free) / tensor, filled = std::min(nodes_[free], count / each);
      nodes_[free] -= filled;
      nodes_[free - at(each * tensor)] += filled;
      count -= filled * each;
      if (count == 0 || count >= each || nodes_[free] == 0) continue;
      --nodes_[free];
      ++nodes_[free - at(count * tensor)];
      count = 0;
    }
    return count == 0;
  }

 private:
  std::vector<std::int64_t> nodes_;
};

}  // namespace

bool DevicePool::holds(std::vector<Groups>& groups) const {
  std::ranges::stable_sort(groups,
                           [](const Groups& a, const Groups& b) { return a.place != b.place ? a.place < b.place : a.tensor > b.tensor; });
  for (std::size_t g = 0; g < groups.size();) {
    const Place& place = places[at(groups[g].place)];
    const PoolType& type = types[at(place.type)];
    SubPool sub_pool{place.count, type.per_node};
    for (const int here = groups[g].place; g < groups.size() && groups[g].place == here; ++g)
      if (groups[g].tensor > type.widest || !sub_pool.take(groups[g].tensor, groups[g].count)) return false;
  }
  return true;
}

bool DevicePool::holds(const plan::Plan& plan) const {
  std::vector<Groups> groups;
  for (int s = 0; s < plan::own_stages(plan); ++s)
    for (const auto& replica : plan.stages[at(s)].replicas) {
      const auto type = std::ranges::find(types, replica.device_type, &PoolType::name);
      if (type == types.end()) return false;
      const auto place = std::ranges::find_if(type->places, [&](int p) { return places[at(p)].zone == replica.zone; });
      if (place == type->places.end()) return false;
      const bool same = !groups.empty() && groups.back().place == *place && groups.back().tensor == replica.tensor_parallel;
      if (same)
        ++groups.back().count;
      else
        groups.push_back({*place, replica.tensor_parallel, 1});
    }
  return holds(groups);
}

bool DevicePool::holds(const CandidatePlan& candidate) const {
  std::vector<Groups> groups;
  for (const PipelineReplica& pipeline : candidate.pipelines)
    for (const Slot& slot : pipeline.slots) groups.push_back({slot.place, slot.tensor, pipeline.count});
  return holds(groups);
}

}  // namespace flotilla::search::pool
