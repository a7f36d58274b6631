#include "flotilla/plan/allocate.hpp"

#include <map>
#include <utility>

#include "flotilla/base/error.hpp"

namespace flotilla::plan {
namespace {

constexpr int usual_devices_per_node = 8;

/// Hosts of one zone and type, filled one after the other.
struct Hosts {
  std::string name;
  int per_node = 1;
  int host = 0;
  int used = 0;  ///< devices of `host`

  /// Where a replica of that degree begins.
  void make_room(int degree) {
    const bool fits_a_host = degree <= per_node;
    if ((fits_a_host && used + degree > per_node) || (!fits_a_host && used > 0)) next();
  }
  cluster::Device take(Rank rank, const Replica& replica) {
    if (used == per_node) next();
    return {rank, replica.device_type, text(name, "-", host), replica.zone, used++, 1};
  }

 private:
  void next() {
    ++host;
    used = 0;
  }
};

class Allocator {
 public:
  explicit Allocator(const cluster::Profile& profile) : profile_{profile} {}

  Hosts& hosts_of(const Replica& replica, const std::string& where) {
    const auto [found, fresh] = hosts_.try_emplace({replica.zone, replica.device_type});
    if (!fresh) return found->second;
    const auto* type = cluster::find_type(profile_, replica.device_type);
    FLOTILLA_REQUIRE(type, ErrorKind::bad_input, where, ".device_type: the profile knows no type '", replica.device_type, "'; it has ",
                     known_types());
    found->second.name = replica.zone.empty() ? replica.device_type : text(replica.zone, ":", replica.device_type);
    found->second.per_node = type->per_node > 0 ? type->per_node : usual_devices_per_node;
    return found->second;
  }

 private:
  std::string known_types() const {
    std::string names;
    for (const auto& type : profile_.device_types) names += (names.empty() ? "" : ", ") + type.name;
    return names.empty() ? "none" : names;
  }

  const cluster::Profile& profile_;
  std::map<std::pair<std::string, std::string>, Hosts> hosts_;
};

}  // namespace

Allocation allocate(const Plan& plan, const cluster::Profile& profile) {
  Allocation out{plan, {}};
  Allocator allocator{profile};
  for (int s = 0; s < own_stages(plan); ++s) {
    auto& replicas = out.plan.stages[static_cast<std::size_t>(s)].replicas;
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      Replica& replica = replicas[r];
      const std::string where = text("stages[", s, "].replicas[", r, "]");
      FLOTILLA_REQUIRE(replica.devices.empty(), ErrorKind::bad_input, where, ".devices: the plan is bound to ranks already");
      Hosts& hosts = allocator.hosts_of(replica, where);
      hosts.make_room(replica.tensor_parallel);
      for (int t = 0; t < replica.tensor_parallel; ++t) {
        const Rank rank{static_cast<int>(out.devices.size())};
        out.devices.push_back(hosts.take(rank, replica));
        replica.devices.push_back(rank);
      }
    }
  }
  for (std::size_t s = static_cast<std::size_t>(own_stages(plan)); s < plan.stages.size(); ++s)
    out.plan.stages[s].replicas = out.plan.stages[s % static_cast<std::size_t>(own_stages(plan))].replicas;
  return out;
}

}  // namespace flotilla::plan
