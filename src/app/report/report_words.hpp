#pragma once
#include <cstdint>
#include <string>

#include "app/report/report.hpp"

/// A run's history in words, for text and page alike.
namespace flotilla::app {

/// "4 A100-40 @ a100 + 8 V100-16 @ v100, 3 nodes".
std::string mix_in_words(const journal::IncarnationHistory&);
/// "75: SIGUSR2 on rank 0: saved at step 4", "runs".
std::string end_in_words(ExitCode, const std::string& reason);
std::string end_in_words(const journal::IncarnationHistory&);
/// "47 iterations repeated, 367 ms".
std::string lost_in_words(std::int64_t steps, double seconds, std::int64_t unsaved);
std::string cost_in_words(const RunCost&);
/// "after iteration 12: 2 stages ... (n3 is slow); 1.2 GiB moved in 300 ms".
std::string change_in_words(const journal::PlanRecord&);
/// Of seconds since 1970: "2026-11-22 04:32:13 UTC".
std::string date(double time);

/// Sums; a price that one lacks the sum lacks, too. Incarnations that never had devices cost nothing that is known.
RunCost sum_of(const std::vector<RunCost>&);

struct RunSums {
  std::int64_t steps = 0, lost = 0, unsaved = 0;
  double lost_seconds = 0, seconds = 0;
};
RunSums sums_of(const RunReport&);

}  // namespace flotilla::app
