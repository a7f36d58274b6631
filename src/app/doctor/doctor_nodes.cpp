#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "app/doctor/doctor.hpp"
#include "app/doctor/rank_groups.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/topology/threads.hpp"

namespace flotilla::app {
namespace {

namespace property = bench::property;

constexpr BytesPerSecond slow_disk{50e6};  // a GiB of checkpoint takes 20 s

/// A node of the job, by what its first rank says.
struct Node {
  const RankFacts* rank;
  std::string operator[](const std::string& name) const {
    const auto& all = rank->node->properties;
    const auto found = std::ranges::find(all, name, &bench::Property::name);
    return found == all.end() ? property::none : found->value;
  }
  const std::string& host() const { return rank->host; }
};
using Nodes = std::vector<Node>;

Nodes nodes_of(const std::vector<RankFacts>& ranks) {
  Nodes nodes;
  for (const auto& rank : ranks)
    if (rank.node) nodes.push_back({&rank});
  return nodes;
}

template <class IsSo>
Nodes nodes_where(const Nodes& nodes, IsSo is_so) {
  Nodes found;
  std::ranges::copy_if(nodes, std::back_inserter(found), is_so);
  return found;
}

/// A few of their hosts.
std::string names_of(const Nodes& nodes) {
  std::set<std::string> hosts;
  for (const auto& node : nodes) hosts.insert(node.host());
  return few(hosts);
}

bool is_none(const Nodes& nodes, const char* name) {
  return std::ranges::all_of(nodes, [&](const Node& node) { return node[name] == property::none; });
}

/// "'eth0 mtu 1500' on n1; 'eth0 mtu 9000' on n2" where nodes of one partition differ; "" where they do not.
std::string unlike(const Nodes& nodes, const char* name) {
  std::map<std::string, std::map<std::string, std::set<std::string>>> seen;  // partition, value, hosts
  for (const auto& node : nodes) seen[node.rank->partition][node[name]].insert(node.host());
  std::string words;
  for (const auto& [partition, values] : seen)
    for (const auto& [value, hosts] : values)
      if (values.size() > 1) words += text(words.empty() ? "" : "; ", in_quotes(value), " on ", few(hosts));
  return words;
}

Finding judge_network_cards(const Nodes& nodes) {
  const auto cards = unlike(nodes, "network"), rdma = unlike(nodes, property::rdma);
  if (!cards.empty())
    return {"network cards", Verdict::warning, "nodes of a partition have unlike network cards, or another MTU", cards,
            "ip link set dev CARD mtu MTU, by the administrator, the same on all nodes"};
  if (!rdma.empty())
    return {"network cards", Verdict::warning, "nodes of a partition have unlike RDMA devices", rdma,
            "ibstat shows ports that are down; flotilla bench --stages 0,1 measures the links"};
  if (is_none(nodes, "network") && is_none(nodes, property::rdma))
    return {"network cards", Verdict::skipped, "no network card is seen from here: a container, or a virtual network", "", ""};
  const auto& first = nodes.front();
  return {"network cards", Verdict::good, first["network"],
          first[property::rdma] == property::none ? "" : text("RDMA: ", first[property::rdma]), ""};
}

/// RDMA pins memory.
Finding judge_memlock(const Nodes& nodes) {
  const auto limited =
      nodes_where(nodes, [](const Node& n) { return n[property::rdma] != property::none && n[property::memlock] != property::unlimited; });
  if (!limited.empty())
    return {"memlock", Verdict::warning, text("locked memory is limited on ", names_of(limited), ", which have RDMA devices"),
            text(limited.front().host(), ": ulimit -l ", limited.front()[property::memlock]),
            "LimitMEMLOCK=infinity for slurmd, and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf; in a shell: ulimit -l unlimited"};
  return {"memlock", Verdict::good,
          text(nodes.front()[property::memlock], is_none(nodes, property::rdma) ? "; no RDMA device that needs more" : ""), "", ""};
}

Finding judge_governor(const Nodes& nodes) {
  const auto saving = nodes_where(nodes, [](const Node& n) { return n["governor"] == "powersave" || n["governor"] == "conservative"; });
  if (!saving.empty())
    return {"governor", Verdict::warning, text("processors of ", names_of(saving), " are governed to save power"),
            text(saving.front().host(), ": /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor: ", saving.front()["governor"]),
            "cpupower frequency-set -g performance, by the administrator"};
  if (is_none(nodes, "governor"))
    return {"governor", Verdict::skipped, "the kernel shows no governor: a virtual machine, or a container", "", ""};
  return {"governor", Verdict::good, nodes.front()["governor"], "", ""};
}

Finding judge_huge_pages(const Nodes& nodes) {
  const auto off = nodes_where(nodes, [](const Node& n) { return n["transparent huge pages"] == "never"; });
  if (!off.empty())
    return {"huge pages", Verdict::warning, text("transparent huge pages are off on ", names_of(off), ": weights lie in pages of 4 KiB"),
            "/sys/kernel/mm/transparent_hugepage/enabled: never",
            "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled, by the administrator"};
  return {"huge pages", Verdict::good, nodes.front()["transparent huge pages"], "", ""};
}

Finding judge_limits(const Nodes& nodes) {
  const auto held_back = nodes_where(nodes, [](const Node& n) {
    const int usable = static_cast<int>(n.rank->usable.size());
    return topology::effective_cpus(usable, n.rank->cpu_limit) < usable;
  });
  const auto& first = held_back.empty() ? nodes.front() : held_back.front();
  if (!held_back.empty())
    return {"control group", Verdict::warning,
            text("a quota gives ranks on ", names_of(held_back), " less processor time than they have hardware threads"),
            text(first.host(), ": ", first["cpu quota"], " CPUs of ", first[property::usable_threads],
                 "; memory limit: ", first["memory limit"]),
            "srun --cpus-per-task=CPUS, or a container without --cpus"};
  return {"control group", Verdict::good, text("no quota of processor time; memory limit: ", first["memory limit"]), "", ""};
}

Finding judge_file_system(const Nodes& nodes, const std::string& directory) {
  const auto& slowest = *std::ranges::min_element(nodes, {}, [](const Node& n) { return n.rank->node->write.value; });
  const auto& facts = *slowest.rank->node;
  if (!facts.no_rates.empty()) return {"file system", Verdict::skipped, text("not measured on ", slowest.host()), facts.no_rates, ""};
  const auto rates = text("writes ", facts.write, ", reads ", facts.read);
  const auto where = nodes.size() > 1 ? text(" (", slowest.host(), ", the slowest of ", nodes.size(), ")") : "";
  if (facts.write < slow_disk)
    return {"file system", Verdict::warning, text("that of --run.directory ", directory, " is slow: ", rates, where),
            "16 MiB written, flushed and read back",
            "--run.directory DIRECTORY on a faster file system; flotilla bench --disk DIRECTORY measures for longer"};
  return {"file system", Verdict::good, text("that of ", directory, " ", rates, where), "", ""};
}

}  // namespace

std::vector<Finding> judge_nodes(const std::vector<RankFacts>& ranks, const std::string& directory) {
  const auto nodes = nodes_of(ranks);
  if (nodes.empty()) return {};
  return {judge_network_cards(nodes), judge_memlock(nodes), judge_governor(nodes),
          judge_huge_pages(nodes),    judge_limits(nodes),  judge_file_system(nodes, directory)};
}

}  // namespace flotilla::app
