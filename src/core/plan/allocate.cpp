#include "flotilla/plan/allocate.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::plan {
namespace {

constexpr int usual_devices_per_node = 8;

/// Hosts of one zone and type.
class Hosts {
 public:
  Hosts(std::string name, int per_node) : name_{std::move(name)}, per_node_{per_node}, by_room_(static_cast<std::size_t>(per_node) + 1) {}

  /// Calls each(host's name, device's number there) in tensor order: on the fullest host that has room, else on fresh ones.
  template <class Each>
  void take(int degree, const Each& each) {
    for (int left = degree; left > 0;) {
      const auto [host, room] = degree <= per_node_ ? fullest_with(degree) : Host{count_++, per_node_};
      if (static_cast<std::size_t>(host) == names_.size()) names_.push_back(text(name_, "-", host));
      const int taken = std::min(left, room);
      for (int i = 0; i < taken; ++i) each(names_[static_cast<std::size_t>(host)], per_node_ - room + i);
      by_room_[static_cast<std::size_t>(room - taken)].push_back(host);
      left -= taken;
    }
  }

 private:
  struct Host {
    int number = 0, room = 0;
  };
  Host fullest_with(int degree) {
    for (int room = degree; room <= per_node_; ++room)
      if (auto& hosts = by_room_[static_cast<std::size_t>(room)]; !hosts.empty()) {
        const int host = hosts.front();
        hosts.pop_front();
        return {host, room};
      }
    return {count_++, per_node_};
  }

  std::string name_;
  std::vector<std::string> names_;  ///< of the hosts that were begun
  int per_node_ = 1, count_ = 0;
  std::vector<std::deque<int>> by_room_;  ///< hosts that were begun, by devices that are free
};

class Allocator {
 public:
  explicit Allocator(const cluster::Profile& profile) : profile_{profile} {}

  Hosts& hosts_of(const Replica& replica, int stage, std::size_t number) {
    const std::pair<std::string_view, std::string_view> key{replica.zone, replica.device_type};
    if (const auto found = hosts_.find(key); found != hosts_.end()) return found->second;
    const auto* type = cluster::find_type(profile_, replica.device_type);
    FLOTILLA_REQUIRE(type, ErrorKind::bad_input, "stages[", stage, "].replicas[", number, "].device_type: the profile knows no type ",
                     in_quotes(replica.device_type), "; it has ", known_types());
    return hosts_
        .emplace(key, Hosts{replica.zone.empty() ? replica.device_type : text(replica.zone, ":", replica.device_type),
                            type->per_node > 0 ? type->per_node : usual_devices_per_node})
        .first->second;
  }

 private:
  std::string known_types() const {
    std::string names;
    for (const auto& type : profile_.device_types) names += (names.empty() ? "" : ", ") + type.name;
    return names.empty() ? "none" : names;
  }

  const cluster::Profile& profile_;
  std::map<std::pair<std::string_view, std::string_view>, Hosts> hosts_;  ///< by zone and type, as some replica of the plan names them
};

std::size_t devices_of(const Plan& plan) {
  std::size_t devices = 0;
  for (int s = 0; s < own_stages(plan); ++s)
    for (const Replica& replica : plan.stages[static_cast<std::size_t>(s)].replicas)
      devices += static_cast<std::size_t>(std::max(0, replica.tensor_parallel));
  return devices;
}

}  // namespace

AllocatedPlan allocate(const Plan& plan, const cluster::Profile& profile) {
  struct Wanted {
    Replica* replica;
    int stage;
    std::size_t number;  ///< among the stage's replicas
  };
  AllocatedPlan out{plan, {}};
  std::vector<Wanted> order;
  out.devices.reserve(devices_of(plan));
  for (int s = 0; s < own_stages(plan); ++s) {
    auto& replicas = out.plan.stages[static_cast<std::size_t>(s)].replicas;
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      FLOTILLA_REQUIRE(replicas[r].devices.empty(), ErrorKind::bad_input, "stages[", s, "].replicas[", r,
                       "].devices: the plan is bound to ranks already");
      for (int t = 0; t < replicas[r].tensor_parallel; ++t) {
        const Rank rank{static_cast<int>(out.devices.size())};
        out.devices.push_back({rank, replicas[r].device_type, "", replicas[r].zone, 0, 1});
        replicas[r].devices.push_back(rank);
      }
      order.push_back({&replicas[r], s, r});
    }
  }
  // Wide groups first: what they leave of their hosts serves the others.
  std::ranges::stable_sort(order, std::ranges::greater{}, [](const Wanted& w) { return w.replica->tensor_parallel; });
  Allocator allocator{profile};
  for (const auto& [replica, stage, number] : order) {
    std::size_t next = 0;
    allocator.hosts_of(*replica, stage, number).take(replica->tensor_parallel, [&](const std::string& host, int local_rank) {
      auto& device = out.devices[replica->devices[next++].index()];
      device.host = host, device.local_rank = local_rank;
    });
  }
  for (std::size_t s = static_cast<std::size_t>(own_stages(plan)); s < plan.stages.size(); ++s)
    out.plan.stages[s].replicas = out.plan.stages[s % static_cast<std::size_t>(own_stages(plan))].replicas;
  return out;
}

}  // namespace flotilla::plan
