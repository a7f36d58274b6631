#pragma once
#include <map>

#include "shortlist.hpp"

namespace flotilla::search::pool {

/// By how much estimates err, learnt from the forecasts of this search stratum by stratum: schedule, chunks, sequence parallelism,
/// sharding, depth in powers of two, and whether several types work in a plan. Factors of forecast over estimate; geometric means.
class Corrections {
 public:
  explicit Corrections(const DevicePool& device_pool) : device_pool_{device_pool} {}

  void learn(const CandidatePlan&, double estimated, double forecast);
  /// That the estimate of such a candidate is to be multiplied by: its stratum's, and as long as that knows little, that of all.
  double factor(const CandidatePlan&) const;
  /// Forecasts of its stratum.
  int forecasts(const CandidatePlan&) const;

 private:
  struct Mean {
    double sum_of_logs = 0;
    int count = 0;
  };
  int stratum(const CandidatePlan&) const;

  const DevicePool& device_pool_;
  std::map<int, Mean> strata_;
  Mean all_;
};

}  // namespace flotilla::search::pool
