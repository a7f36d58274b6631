#pragma once
#include <functional>

#include "bench.hpp"
#include "shortlist.hpp"

namespace flotilla::search::pool {

/// A sketch whose plan was forecast.
struct Forecasted {
  Sketch sketch;
  Trial trial;
  double value = 0;
};

/// Forecasts what a shortlist holds, and changes the best while that makes it better.
class Refine {
 public:
  Refine(const Stock& stock, Estimator& estimate, Bench& bench, const std::function<bool()>& should_stop)
      : stock_{stock}, estimate_{estimate}, bench_{bench}, should_stop_{should_stop} {}

  /// Steps of local search by the estimate alone.
  void polish(Shortlist&);
  void forecast(const Shortlist&);
  /// Changes the best plans.
  void improve();
  /// What sketches cannot say, on the best plans.
  void vary();
  /// The same of those with split backward passes.
  void improve_split();
  /// Forecasts a plan that is told of whatever its shape: one that runs now.
  void keep(const Sketch&, const plan::Plan&);
  const std::vector<Forecasted>& kept() const { return kept_; }
  /// Plans that fit and keep the limits, best first, of every shape one.
  const std::vector<Forecasted>& found() const { return found_; }
  /// Of those that do not fit the one that misses least.
  const std::optional<Forecasted>& nearest_miss() const { return nearest_; }
  /// Of the plans that fit and break a limit the one that breaks it least, and times the limit.
  const std::optional<std::pair<Trial, double>>& nearest_to_limits() const { return broken_; }
  bool stopped() const { return stopped_; }

  /// Its value; nothing where it does not fit, breaks a limit, cannot be executed, or was tried before.
  std::optional<double> attempt(const Sketch&);
  std::optional<double> attempt(const plan::Plan&);

 private:
  std::optional<double> attempt(const Sketch&, const plan::Plan&);
  std::optional<double> take(Forecasted&&);
  void improve(const std::vector<Forecasted>& best, int most_forecasts, std::int64_t passes);
  std::vector<Candidate> promising_moves(const Sketch&);
  bool stop();

  const Stock& stock_;
  Estimator& estimate_;
  Bench& bench_;
  const std::function<bool()>& should_stop_;
  std::vector<Forecasted> found_, kept_;
  std::optional<Forecasted> nearest_;
  std::vector<Sketch> tried_;
  std::optional<std::pair<Trial, double>> broken_;
  bool stopped_ = false, keeping_ = false;
};

}  // namespace flotilla::search::pool
