#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "app/common/job.hpp"
#include "flotilla/options/table.hpp"

namespace flotilla::app {

namespace stage {
inline constexpr int nodes = 0, links = 1, collectives = 2, card = 3, soak = 4;
}

struct BenchOptions {
  std::vector<int> stages{0};
  std::vector<std::string> transports;
  std::string folder = "flotilla-bench";
  std::string disk;  ///< empty: `folder`
  Bytes disk_size{256 << 20};
  Seconds budget{20};
  std::vector<std::string> card_models;
  std::string card_job;  ///< empty: the defaults of a job
  Seconds soak;          ///< 0: none, or, with stage 4, an hour
  Seconds silence{30};
  Seconds message_deadline{10};
  std::string history, baseline;  ///< empty: none
  bool compare = false, quiet = false;
  std::string page, prometheus, reframe, topology, profile;  ///< files; empty: none
  std::string profile_job, profile_model;  ///< what the profile is for: a job file, a built-in model; empty: the defaults of a job
  Job::Output output;
  bool wants(int stage) const { return std::ranges::find(stages, stage) != stages.end(); }
};

/// `options` must stay where they are while the table lives.
options::Table bench_table(BenchOptions& options);

}  // namespace flotilla::app
