#include "app/bench/bench_launch.hpp"

#include <charconv>
#include <initializer_list>
#include <string_view>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::app {
namespace {

int number(const LaunchVariables& variable, const char* name, int otherwise) {
  const char* value = variable(name);
  if (value == nullptr) return otherwise;
  const std::string_view digits{value};
  int found = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found);
  FLOTILLA_REQUIRE(error == std::errc{} && end == digits.data() + digits.size() && found >= 0, ErrorKind::bad_input, name, " is ",
                   in_quotes(value), ": expected a number");
  return found;
}

/// What tells starts apart becomes the name of a folder.
std::string folder_name(std::string words) {
  for (char& c : words)
    if (std::string_view{"/\\ \t\n"}.find(c) != std::string_view::npos) c = '-';
  return words;
}

std::string of(const LaunchVariables& variable, const char* name) {
  const char* value = variable(name);
  return value == nullptr ? "" : value;
}

BenchLaunch by_mpirun(const LaunchVariables& variable) {
  BenchLaunch launch;
  launch.rank = number(variable, "OMPI_COMM_WORLD_RANK", 0);
  launch.local_rank = number(variable, "OMPI_COMM_WORLD_LOCAL_RANK", 0);
  launch.id = folder_name(of(variable, "PMIX_NAMESPACE"));
  launch.expected.count = number(variable, "OMPI_MCA_orte_num_nodes", 1);
  return launch;
}

BenchLaunch by_srun(const LaunchVariables& variable, const slurm::SlurmAllocation& allocation) {
  BenchLaunch launch;
  launch.rank = number(variable, "SLURM_PROCID", 0);
  launch.local_rank = number(variable, "SLURM_LOCALID", 0);
  launch.id = folder_name(text(allocation.job, ".", of(variable, "SLURM_STEP_ID"), ".", allocation.restarts));
  launch.expected.count = number(variable, "SLURM_STEP_NUM_NODES", 1);
  for (const auto& component : allocation.components)
    launch.expected.hosts.insert(launch.expected.hosts.end(), component.hosts.begin(), component.hosts.end());
  // A step on some of the job's nodes: Slurm tells their number here.
  if (!allocation.heterogeneous() && static_cast<int>(launch.expected.hosts.size()) != launch.expected.count) launch.expected.hosts.clear();
  return launch;
}

}  // namespace

Seconds end_of_launcher(const LaunchVariables& variable) {
  if (variable("OMPI_COMM_WORLD_SIZE") == nullptr) return {};
  return Seconds{2.0} * number(variable, "OMPI_MCA_odls_base_sigkill_timeout", 1);
}

BenchLaunch bench_launch(const LaunchVariables& variable, const std::optional<slurm::SlurmAllocation>& allocation) {
  BenchLaunch launch;
  if (variable("OMPI_COMM_WORLD_SIZE") != nullptr)
    launch = by_mpirun(variable);
  else if (allocation && variable("SLURM_STEP_NUM_NODES") != nullptr)
    launch = by_srun(variable, *allocation);
  else
    launch.expected.count = 1;
  if (allocation) {
    launch.host = allocation->host;
    launch.partition = slurm::partition_here(*allocation);
  }
  return launch;
}

}  // namespace flotilla::app
