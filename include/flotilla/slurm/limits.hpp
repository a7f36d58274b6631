#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

/// What Slurm's accounting lets a user have, read from sacctmgr's answers.
namespace flotilla::slurm {

/// The most of each; absent: no limit is set here.
struct SlurmLimits {
  std::optional<int> nodes, cpus;
  std::map<std::string, int> gres;  ///< "gpu", "gpu:a100"
  std::optional<Seconds> time;
  bool operator==(const SlurmLimits&) const = default;
};

/// "cpu=128,gres/gpu=8,gres/gpu:a100=4,mem=500G,node=4", Slurm's TRES; what a plan knows nothing of is passed over. Throws Error{bad_input}
/// of one line.
SlurmLimits parse_tres_limits(const std::string&);

/// Of a job, and of all jobs together that share the account or the quality of service.
struct AccountLimits {
  std::string account, partition;  ///< partition "": all
  std::string standard_qos;
  SlurmLimits job, all;
  bool standard = false;  ///< the user's standard account
};
struct QosLimits {
  std::string name;
  SlurmLimits job, all;
};

/// sacctmgr's answers to the commands of slurm_queries(). "" and what is no table (a site without accounting) are none. Throws
/// Error{bad_input} of one line for a table that has another form.
std::vector<AccountLimits> read_account_limits(const std::string& answer);
std::vector<QosLimits> read_qos_limits(const std::string& answer);

/// What is set in `first` counts, then what is set in `then`.
SlurmLimits first_of(const SlurmLimits& first, const SlurmLimits& then);

}  // namespace flotilla::slurm
