#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "flotilla/monitor/active_run.hpp"
#include "flotilla/monitor/wrong_figures.hpp"
#include "flotilla/simulate/forecast.hpp"

namespace flotilla::monitor {

class RankFigures;

/// What the first iterations of a run prove wrong in its profile.
struct Proof {
  std::vector<cluster::Correction> wrong;  ///< in order of what they cost; `run` and `step` are not filled in
  Seconds measured;                        ///< median of the iterations
  int iterations = 0;
};

/// Holds every rank's instructions of the first iterations against the profile, once.
class Feedback {
 public:
  /// `forecast`: of the plan, with its timeline, on the active ranks' first rank; it is kept, not copied.
  Feedback(ActiveRun, const simulate::Forecast& forecast);
  ~Feedback();
  Feedback(const Feedback&) = delete;
  Feedback& operator=(const Feedback&) = delete;

  /// After every step, which took so long. After the 20th step (ForecastCheck::iterations) what they prove, on the active ranks' first
  /// rank, where there is a forecast; collective over the active ranks then. Throws Error{communication} when the deadline passes.
  std::optional<Proof> add(Seconds took);

 private:
  std::vector<std::vector<Evidence>> gathered(const std::vector<std::vector<double>>& by_rank) const;
  Proof proof(const std::vector<std::vector<double>>& by_rank) const;

  ActiveRun at_;
  const simulate::Forecast& forecast_;
  std::unique_ptr<RankFigures> figures_;      ///< of this rank; null when it is over
  std::vector<double> steps_;                 ///< seconds
  std::vector<std::vector<double>> seconds_;  ///< by step, of each figure; without the first steps
};

}  // namespace flotilla::monitor
