#include "flotilla/slurm/allocation.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/slurm/host_list.hpp"

namespace flotilla::slurm {
namespace {

constexpr std::int64_t most_components = 1024;

/// The variables that begin with SLURM; the first of a name counts, as for getenv.
class Variables {
 public:
  explicit Variables(std::span<const std::string> environment) {
    for (const auto& entry : environment)
      if (const auto equals = entry.find('='); equals != std::string::npos && entry.rfind("SLURM", 0) == 0)
        values_.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }

  /// Empty where the variable is not there, like one that is there and empty.
  const std::string& get(const std::string& name) const {
    static const std::string none;
    const auto found = values_.find(name);
    return found == values_.end() ? none : found->second;
  }

  std::optional<std::int64_t> number(const std::string& name, std::int64_t largest) const {
    const auto& value = get(name);
    if (value.empty()) return std::nullopt;
    const bool digits = value.size() <= 18 && std::all_of(value.begin(), value.end(), is_digit);
    FLOTILLA_REQUIRE(digits && std::stoll(value) <= largest, ErrorKind::bad_input, name, " is ", in_quotes(value),
                     ": expected a number up to ", largest, "; it is Slurm's, so something between Slurm and flotilla has changed it");
    return std::stoll(value);
  }

  /// A word such as a job id or a partition: what is printed and compared, never run.
  std::string word(const std::string& name) const {
    const auto& value = get(name);
    const bool good = value.size() <= 256 && std::none_of(value.begin(), value.end(), is_strange);
    FLOTILLA_REQUIRE(good, ErrorKind::bad_input, name, " is ", in_quotes(value), ": expected one short word without blanks");
    return value;
  }

 private:
  static bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
  static bool is_strange(char c) { return std::isgraph(static_cast<unsigned char>(c)) == 0; }
  std::map<std::string, std::string> values_;
};

Component component(const Variables& variables, const std::string& suffix) {
  const auto list = "SLURM_JOB_NODELIST" + suffix;
  Component found{variables.word("SLURM_JOB_ID" + suffix), variables.word("SLURM_JOB_PARTITION" + suffix), {}};
  if (!variables.get(list).empty()) found.hosts = expand_host_list(variables.get(list), list);
  return found;
}

}  // namespace

std::optional<SlurmAllocation> read_allocation(std::span<const std::string> environment) {
  const Variables variables{environment};
  SlurmAllocation found;
  found.job = variables.word("SLURM_JOB_ID");
  if (found.job.empty()) return std::nullopt;
  found.restarts = static_cast<int>(variables.number("SLURM_RESTART_COUNT", 1'000'000).value_or(0));
  found.host = variables.word("SLURMD_NODENAME");
  if (const auto end = variables.number("SLURM_JOB_END_TIME", 1'000'000'000'000)) found.ends_at = static_cast<double>(*end);
  const auto size = variables.number("SLURM_HET_SIZE", most_components).value_or(0);
  for (std::int64_t k = 0; k < size; ++k) found.components.push_back(component(variables, text("_HET_GROUP_", k)));
  if (found.components.empty()) found.components.push_back(component(variables, ""));
  return found;
}

std::optional<std::size_t> component_of(const SlurmAllocation& allocation, const std::string& host) {
  std::optional<std::size_t> found;
  for (std::size_t k = 0; k < allocation.components.size(); ++k) {
    const auto& hosts = allocation.components[k].hosts;
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) continue;
    if (found) return std::nullopt;
    found = k;
  }
  return found;
}

std::string partition_here(const SlurmAllocation& allocation) {
  if (!allocation.heterogeneous()) return allocation.components.front().partition;
  const auto k = component_of(allocation, allocation.host);
  return k ? allocation.components[*k].partition : "";
}

}  // namespace flotilla::slurm
