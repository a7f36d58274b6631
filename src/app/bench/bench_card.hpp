#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "app/bench/bench_launch.hpp"
#include "app/common/job.hpp"
#include "flotilla/bench/report.hpp"
#include "flotilla/comm/world.hpp"

namespace flotilla::app {

/// What the card's models are trained for, and where.
struct CardTest {
  std::vector<Job> jobs;         ///< one for each model; the same on every rank
  Seconds budget;                ///< of all models together, each from measuring the node for it to its last step; rank 0's counts
  Seconds silence;               ///< a node that gives no sign of life for this long is lost
  std::filesystem::path folder;  ///< of this start, which nodes share
};

/// The models, trained as the job file says, or as the environment and a job's defaults do; without models, the job's own. Throws what
/// read_job() throws.
std::vector<Job> card_jobs(const std::string& job_file, const std::vector<std::string>& models);

/// How long another rank may be busy with the card.
Seconds longest_card(const CardTest&);

/// Stage 3: one node of every type trains each of the models with its own processes, as `flotilla train` would: profile, plan, steps. A
/// model that cannot be trained says why. Nodes tell of it through the folder, so a lost one is found by its silence and named in the
/// report. `report` is the same on every rank; what is returned counts on rank 0. Called by every process of the start.
bench::BenchReport test_card(const comm::World&, const BenchLaunch&, const CardTest&, bench::BenchReport report);

}  // namespace flotilla::app
