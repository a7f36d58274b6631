#pragma once
#include <map>

#include "shortlist.hpp"

namespace flotilla::search::pool {

/// By how much estimates err, learnt from the forecasts of this search stratum by stratum: schedule, chunks, sequence parallelism, sharding,
/// depth in powers of two, and whether several types work in a plan. Factors of forecast over estimate; geometric means.
class Corrections {
 public:
  explicit Corrections(const Stock& stock) : stock_{stock} {}

  void learn(const Sketch&, double estimated, double forecast);
  /// That the estimate of such a sketch is to be multiplied by: its stratum's, and as long as that knows little, that of all.
  double factor(const Sketch&) const;
  /// Forecasts of its stratum.
  int forecasts(const Sketch&) const;

 private:
  struct Mean {
    double sum_of_logs = 0;
    int count = 0;
  };
  int stratum(const Sketch&) const;

  const Stock& stock_;
  std::map<int, Mean> strata_;
  Mean all_;
};

}  // namespace flotilla::search::pool
