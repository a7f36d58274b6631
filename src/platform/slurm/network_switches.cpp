#include "flotilla/slurm/network_switches.hpp"

#include <sstream>
#include <string_view>

#include "flotilla/slurm/host_list.hpp"

namespace flotilla::slurm {
namespace {

/// The value of "key=value" among a line's words; "" where it is not there.
std::string value_of(const std::string& line, std::string_view key) {
  std::istringstream words{line};
  for (std::string word; words >> word;)
    if (word.starts_with(key)) return word.substr(key.size());
  return {};
}

}  // namespace

std::map<std::string, std::string> switches_of_nodes(const std::string& answer) {
  std::map<std::string, std::string> switches;
  std::istringstream lines{answer};
  for (std::string line; std::getline(lines, line);) {
    const auto name = value_of(line, "SwitchName="), nodes = value_of(line, "Nodes=");
    if (name.empty() || nodes.empty() || value_of(line, "Level=") != "0") continue;
    for (auto& node : expand_host_list(nodes, "scontrol show topology")) switches[std::move(node)] = name;
  }
  return switches;
}

}  // namespace flotilla::slurm
