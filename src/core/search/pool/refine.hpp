#pragma once
#include <functional>

#include "corrections.hpp"
#include "plan_evaluator.hpp"

namespace flotilla::search::pool {

/// A candidate whose plan was forecast.
struct Forecasted {
  CandidatePlan candidate;
  Evaluation evaluation;
  double value = 0;
  double estimated = 0;  ///< the value that was estimated; 0: none was
};

class Dice;  ///< anneal.cpp

/// Forecasts what a shortlist holds, and changes the best while that makes it better.
class Refine {
 public:
  Refine(Estimator& estimate, Network& network, PlanEvaluator& evaluator, const std::function<bool()>& should_stop)
      : device_pool_{estimate.device_pool()},
        estimate_{estimate},
        network_{network},
        evaluator_{evaluator},
        should_stop_{should_stop},
        corrections_{device_pool_} {}

  /// Steps of local search by the estimate alone.
  void polish(Shortlist&);
  /// Where the request may be told to stop and a forecast takes long: forecasts the best so far, which is the answer if nothing else is
  /// found in time.
  void set_aside(const Shortlist&);
  /// The best by their estimates, each stratum's (Corrections) in turn as long as one of it may still be the best.
  void forecast(const Shortlist&);
  /// Changes the best plans in everything that candidates say, from several starts of which the worse half is given up again and again.
  void improve();
  /// Several changes at once, of which no single one is better; random, the same in every search.
  void anneal(const Shortlist&);
  /// Forecasts a plan that is told of whatever its shape: one that runs now.
  void keep(const CandidatePlan&, const plan::Plan&);
  const std::vector<Forecasted>& kept() const { return kept_; }
  /// Whether the best is so near to a bound that annealing gains little.
  bool is_near(double bound) const { return !found_.empty() && bound >= found_.front().value * (1 - tuning::near_bound); }
  /// Plans that fit and keep the limits, best first, of every shape one.
  const std::vector<Forecasted>& found() const { return found_; }
  /// Of those that do not fit the one that misses least.
  const std::optional<Forecasted>& nearest_miss() const { return nearest_; }
  /// Of the plans that fit and break a limit the one that breaks it least, and times the limit.
  const std::optional<std::pair<Evaluation, double>>& nearest_to_limits() const { return broken_; }
  bool stopped() const { return stopped_; }

  /// Its value; nothing where it does not fit, breaks a limit, cannot be executed, or was tried before.
  std::optional<double> attempt(const CandidatePlan&);
  std::optional<double> attempt(const plan::Plan&);

 private:
  /// A local search on its way: what is tried next from where it is.
  struct Climb {
    CandidatePlan here;
    double value = 0;
    std::vector<RankedCandidate> moves{};
    std::size_t next = 0;
    bool listed = false, at_top = false;
  };
  std::optional<double> attempt(const RankedCandidate&);
  std::optional<double> attempt_within_budget(const RankedCandidate&);
  std::optional<double> attempt(const CandidatePlan&, const plan::Plan&, double estimated);
  std::optional<Evaluation> forecast(const plan::Plan&);
  std::optional<double> take(Forecasted&&);
  void race(std::vector<RankedCandidate>);
  void attempt_or_spare(const RankedCandidate&);
  std::optional<RankedCandidate> recomputing(RankedCandidate);
  RankedCandidate with_whole_passes(RankedCandidate);
  void descend(RankedCandidate, Shortlist&);
  void make_fit(const Shortlist&);
  std::optional<RankedCandidate> with_less_memory(const RankedCandidate&);
  std::vector<Climb> starts(bool of_traits) const;
  void climb_from(std::vector<Climb>);
  void climb(Climb&, int forecasts);
  void step(Climb&);
  std::vector<RankedCandidate> promising_moves(const CandidatePlan&);
  std::optional<CandidatePlan> recut(const CandidatePlan&);
  std::optional<CandidatePlan> changed(const CandidatePlan&, Dice&);
  std::optional<RankedCandidate> completed(CandidatePlan, Dice&);
  std::optional<RankedCandidate> neighbour(const CandidatePlan&, Dice&);
  std::optional<RankedCandidate> proposal(const CandidatePlan&, Dice&);
  void forecast_traits(const Shortlist&);
  void anneal_from(CandidatePlan, double value, std::int64_t forecasts, Dice&);
  /// Of what is not known, better rather than worse.
  double expected(const CandidatePlan&, double estimated) const;
  bool spent();
  bool stop();

  const DevicePool& device_pool_;
  Estimator& estimate_;
  Network& network_;
  PlanEvaluator& evaluator_;
  const std::function<bool()>& should_stop_;
  std::vector<Forecasted> found_, kept_;
  std::optional<Forecasted> nearest_;
  std::map<int, std::pair<CandidatePlan, double>> by_trait_;  ///< the best that was forecast of each, and its value
  std::vector<CandidatePlan> tried_;
  Corrections corrections_;
  std::vector<int> microbatches_;                                         ///< that annealing draws from
  std::int64_t passes_left_ = 0, forecasts_end_ = 0, estimates_end_ = 0;  ///< of local search
  std::optional<std::pair<Evaluation, double>> broken_;
  std::optional<Forecasted> set_aside_;
  bool stopped_ = false, keeping_ = false;
};

}  // namespace flotilla::search::pool
