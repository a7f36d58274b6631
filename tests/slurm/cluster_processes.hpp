#pragma once
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "slurm/real_slurm.hpp"

/// Processes on the nodes of the test cluster, as they are seen from outside: a signal arrives within a millisecond.
namespace flotilla::tests {

/// The node on which the process is, by its control group; "" where it is none of the cluster's.
inline std::string node_of(const fs::path& process) {
  const auto groups = content(process / "cgroup"), mark = "/flotilla-" + fs::path{FLOTILLA_CLUSTER_FOLDER}.filename().string() + "/";
  const auto at = groups.find(mark);
  if (at == std::string::npos) return {};
  const auto begin = at + mark.size();
  return groups.substr(begin, groups.find_first_of("/\n", begin) - begin);
}

/// Those called `name` on the nodes; without the daemons that keep Slurm's batch scripts.
inline std::vector<pid_t> processes_on(const Words& nodes, const std::string& name) {
  std::vector<pid_t> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator{"/proc", none}) {
    const auto number = entry.path().filename().string();
    if (number.find_first_not_of("0123456789") != std::string::npos || content(entry.path() / "comm") != name + "\n") continue;
    if (std::ranges::find(nodes, node_of(entry.path())) == nodes.end()) continue;
    if (content(entry.path() / "cmdline").find(".batch]") != std::string::npos) continue;
    found.push_back(std::stoi(number));
  }
  return found;
}

}  // namespace flotilla::tests
