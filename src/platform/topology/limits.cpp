// Control groups as kernel documentation describes them: admin-guide/cgroup-v1/{memory,cpuacct}.rst, scheduler/sched-bwc.rst and
// admin-guide/cgroup-v2.rst. A limit set on any group above counts, so each hierarchy is walked up to its root.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>

#include "flotilla/topology/topology.hpp"

namespace flotilla::topology {
namespace {

// v1 spells "no limit" as the largest multiple of the page size; nothing real comes near a quarter of it.
constexpr std::int64_t v1_unlimited = std::int64_t{1} << 61;

std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file{path};
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// The value beside `key` in a file of "key value" lines; 0 when absent.
std::int64_t read_field(const std::string& path, const std::string& key) {
  std::ifstream file{path};
  std::string name;
  std::int64_t value = 0;
  while (file >> name >> value)
    if (name == key) return value;
  return 0;
}

/// A group's folder and all above it, innermost first, down to the mount itself. A group outside this cgroup namespace ("/../x") has no
/// folder here.
std::vector<std::string> upwards(const std::string& mount, std::string group) {
  std::vector<std::string> folders;
  const bool visible = group.starts_with('/') && group.find("/..") == std::string::npos;
  while (visible && group.size() > 1) {
    folders.push_back(mount + group);
    group.erase(group.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

void tighten(ControlGroupLimits& limits, double cpus) {
  if (cpus > 0 && (limits.cpus == 0 || cpus < limits.cpus)) limits.cpus = cpus;
}

void tighten(ControlGroupLimits& limits, std::int64_t memory, std::int64_t used, std::int64_t droppable) {
  const Bytes left{memory - std::max<std::int64_t>(0, used - droppable)};
  const bool tighter = limits.memory == Bytes{} || left < limits.memory - limits.memory_used;
  if (!tighter) return;
  limits.memory = {memory};
  limits.memory_used = Bytes{memory} - left;
}

void read_v2(ControlGroupLimits& limits, const std::string& folder) {
  std::ifstream cpu{folder + "/cpu.max"};
  double quota = 0, period = 0;
  if (cpu >> quota >> period && period > 0) tighten(limits, quota / period);  // "max 100000" does not parse: no limit
  if (const auto memory = read_number(folder + "/memory.max"))
    tighten(limits, *memory, read_number(folder + "/memory.current").value_or(0), read_field(folder + "/memory.stat", "inactive_file"));
}

void read_v1_cpu(ControlGroupLimits& limits, const std::string& folder) {
  const auto quota = read_number(folder + "/cpu.cfs_quota_us"), period = read_number(folder + "/cpu.cfs_period_us");
  if (quota && period && *quota > 0 && *period > 0) tighten(limits, static_cast<double>(*quota) / static_cast<double>(*period));
}

void read_v1_memory(ControlGroupLimits& limits, const std::string& folder) {
  const auto memory = read_number(folder + "/memory.limit_in_bytes");
  if (memory && *memory < v1_unlimited)
    tighten(limits, *memory, read_number(folder + "/memory.usage_in_bytes").value_or(0),
            read_field(folder + "/memory.stat", "total_inactive_file"));
}

/// A line of /proc/self/cgroup: "4:memory:/path", "1:cpu,cpuacct:/path", "0::/path".
struct Membership {
  std::string controllers, group;
  bool has(const std::string& controller) const { return ("," + controllers + ",").find("," + controller + ",") != std::string::npos; }
};

std::optional<Membership> parse(const std::string& line) {
  const auto first = line.find(':');
  const auto second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) return std::nullopt;
  return Membership{line.substr(first + 1, second - first - 1), line.substr(second + 1)};
}

void for_folders(const std::string& mount, const std::string& group, const std::function<void(const std::string&)>& read) {
  for (const auto& folder : upwards(mount, group)) read(folder);
}

void read_membership(ControlGroupLimits& limits, const Membership& m, const std::string& root) {
  if (m.controllers.empty()) {
    for (const auto& mount : {root, root + "/unified"})
      for_folders(mount, m.group, [&](const std::string& folder) { read_v2(limits, folder); });
    return;
  }
  for (const auto& mount : {root + "/" + m.controllers, root + "/" + (m.has("cpu") ? "cpu" : "memory")}) {
    if (m.has("cpu")) for_folders(mount, m.group, [&](const std::string& folder) { read_v1_cpu(limits, folder); });
    if (m.has("memory")) for_folders(mount, m.group, [&](const std::string& folder) { read_v1_memory(limits, folder); });
  }
}

}  // namespace

ControlGroupLimits read_limits(const std::string& self_cgroup, const std::string& root) {
  ControlGroupLimits limits;
  std::istringstream lines{self_cgroup};
  for (std::string line; std::getline(lines, line);)
    if (const auto membership = parse(line)) read_membership(limits, *membership, root);
  return limits;
}

}  // namespace flotilla::topology
