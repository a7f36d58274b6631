#pragma once
#include <string>

#include "app/common/table.hpp"
#include "app/submit/submit_script.hpp"
#include "flotilla/files/planning_file.hpp"
#include "flotilla/slurm/slurm_cluster.hpp"

namespace flotilla::app {

/// What submit found and decided.
struct Submission {
  slurm::SlurmCluster slurm_cluster;
  bool waits = false;  ///< planned over what is busy, too
  SlurmOffers offers;
  files::Planning planning;  ///< with a plan
  std::vector<Taken> taken;
  std::int64_t steps = 0;  ///< of the run; 0: not said
  std::string script;
  std::string file;  ///< that holds the script; "" for none
  std::string job;   ///< Slurm's number of it; "" where it was not sent
};

/// "128 units/h, 12.4 units for 1000 iterations in 5.8 min"; "" where the site bills nothing.
std::string price_in_words(const Submission&);
/// For people; the script is not in it.
std::string submission_text(const Submission&, const Style&, int width);
/// docs/submit.md describes it.
std::string submission_json(const Submission&);

}  // namespace flotilla::app
