#include <algorithm>
#include <map>
#include <set>

#include "app/common/components.hpp"
#include "app/doctor/doctor.hpp"
#include "app/doctor/rank_groups.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/topology/threads.hpp"

namespace flotilla::app {
namespace {

constexpr double most_skew = 2;  // seconds: the gathering itself takes part of one on many ranks

std::size_t count(const std::map<std::string, std::vector<std::size_t>>& hosts) { return hosts.size(); }

}  // namespace

Finding judge_world(int ranks, int launched, const std::string& why_not, const std::vector<RankFacts>& facts) {
  if (!why_not.empty())
    return {"world", Verdict::problem, "MPI is not one world", why_not, text("srun --mpi=pmix -n ", launched, " flotilla doctor")};
  const auto hosts = ranks_by_host(facts);
  if (ranks < launched)
    return {"world", Verdict::problem, text("MPI sees ", ranks, " of the ", launched, " processes that the launcher started"), "",
            "srun --mpi=pmix --het-group=0-N flotilla train JOB, N the last component"};
  return {"world", Verdict::good,
          text("one world of ", ranks, ranks == 1 ? " rank" : " ranks", " on ", count(hosts), count(hosts) == 1 ? " host" : " hosts"), "",
          ""};
}

Finding judge_binding(const std::vector<RankFacts>& ranks) {
  std::set<std::string> crowded, idle;
  int fewest = 0, of = 0;
  for (const auto& [host, members] : ranks_by_host(ranks)) {
    std::vector<topology::CpuShare> shares;
    for (const auto r : members) shares.push_back({ranks[r].usable, ranks[r].cpu_limit});
    const auto& first = ranks[members.front()];
    const auto bound = topology::bound_threads(shares, first.processing_units);
    if (static_cast<int>(members.size()) > topology::effective_cpus(bound.used, first.cpu_limit)) crowded.insert(host);
    if (bound.some_idle()) {
      idle.insert(host);
      fewest = bound.used;
      of = bound.granted;
    }
  }
  if (!crowded.empty())
    return {"binding", Verdict::warning, text("more ranks than CPUs on ", few(crowded)), "ranks share CPUs and wait for each other",
            "start one rank per device: srun --ntasks-per-node=DEVICES --cpus-per-task=CPUS"};
  if (!idle.empty())
    return {"binding", Verdict::warning, text("the ranks of ", few(idle), " may use ", fewest, " of ", of, " hardware threads"),
            "a launcher that binds ranks to cores, or a job that asked for few CPUs", topology::unbind};
  return {"binding", Verdict::good, "the ranks may use every hardware thread they were given", "", ""};
}

Finding judge_versions(const std::vector<RankFacts>& ranks) {
  std::map<std::string, std::map<std::string, std::set<std::string>>> seen;  // library, version, hosts
  for (const auto& rank : ranks)
    for (const auto& [library, version] : rank.software)
      // What computes differs where CPUs and GPUs do: that is what planning is for.
      if (library != "compute" && library != "gpu" && library != "cudnn")
        seen[library][version].insert(rank.partition.empty() ? rank.host : text(rank.host, " (", rank.partition, ")"));
  for (const auto& [library, versions] : seen) {
    if (versions.size() < 2) continue;
    std::string evidence;
    for (const auto& [version, hosts] : versions) evidence += text(evidence.empty() ? "" : "; ", in_quotes(version), " on ", few(hosts));
    return {"versions", Verdict::problem, text("the ranks do not have the same ", library), evidence,
            "load the same modules in every component (FLOTILLA_SETUP_K, --submit.modules), or install one Flotilla for all nodes"};
  }
  return {"versions", Verdict::good, ranks.size() > 1 ? "every rank has the same libraries" : "one rank: nothing to compare", "", ""};
}

Finding judge_clocks(const std::vector<RankFacts>& ranks) {
  const auto [early, late] = std::ranges::minmax_element(ranks, {}, &RankFacts::clock);
  const double skew = late->clock - early->clock;
  if (skew <= most_skew)
    return {"clocks", Verdict::good, ranks.size() > 1 ? "the clocks agree within seconds" : "one rank: nothing to compare", "", ""};
  return {"clocks", Verdict::warning, text("the clocks differ by ", Seconds{skew}), text(early->host, " is behind ", late->host),
          "chronyc makestep, by the administrator; times in reports are wrong until then"};
}

Finding judge_directory(const std::vector<RankFacts>& ranks, const std::string& directory) {
  std::set<std::string> unseen;
  for (const auto& rank : ranks) {
    if (!rank.directory_trouble.empty())
      return {"run directory", Verdict::problem, text("--run.directory ", directory, " will not do on ", rank.host), rank.directory_trouble,
              "--run.directory DIRECTORY on a file system with room that all nodes share and may write"};
    if (!rank.sees_token) unseen.insert(rank.host);
  }
  if (!unseen.empty())
    return {"run directory", Verdict::problem, text("--run.directory ", directory, " is not the same folder on all hosts"),
            text("a file that ", ranks.front().host, " wrote is not seen on ", few(unseen)),
            "--run.directory DIRECTORY on a file system that all nodes share"};
  return {"run directory", Verdict::good, text(directory, " can be written"), "", ""};
}

Finding judge_components(const std::optional<slurm::SlurmAllocation>& allocation, const std::vector<RankFacts>& ranks,
                         const Variables& variable) {
  if (!allocation || !allocation->heterogeneous()) return {"components", Verdict::skipped, "no heterogeneous job here", "", ""};
  const auto last = allocation->components.size() - 1;
  const std::string line = launch_line(*allocation);
  std::vector<int> members(allocation->components.size());
  for (const auto& rank : ranks)
    if (const auto component = slurm::component_of(*allocation, rank.host)) ++members[*component];
  for (std::size_t k = 0; k < members.size(); ++k)
    if (members[k] == 0 && variable("SLURM_PROCID") == nullptr && variable("OMPI_COMM_WORLD_SIZE") == nullptr)
      return {"components", Verdict::warning, text("a job of ", last + 1, " components, and this is its batch script"), "", line};
    else if (members[k] == 0)
      return {"components", Verdict::problem,
              text("component ", k, " (", allocation->components[k].partition, ") has no rank in the world"),
              text(last + 1, " components; srun alone and mpirun start component 0 only"), line};
  return {"components", Verdict::good, text("every one of the ", last + 1, " components has ranks"), "", ""};
}

std::vector<Finding> judge_ranks(const std::vector<RankFacts>& ranks, const std::string& directory) {
  return {judge_binding(ranks), judge_gpus(ranks), judge_versions(ranks), judge_directory(ranks, directory), judge_clocks(ranks)};
}

}  // namespace flotilla::app
