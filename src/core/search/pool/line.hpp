#pragma once
#include <optional>

#include "estimate.hpp"

namespace flotilla::search::pool {

/// A stage with replicas of its own: equal ones, as many as there are.
struct Post {
  int place = 0;
  int tensor = 1;
  int count = 1;
  int microbatch = 1;  ///< sequences, a power of two
  bool operator==(const Post&) const = default;
};

/// Stages one after the other, each with its own number of replicas: every device works, whatever the numbers of its kinds. What sketches
/// of columns cannot say.
struct Line {
  std::vector<Post> posts;
  std::vector<int> cuts;                   ///< stages + 1 layer boundaries
  std::vector<plan::Recompute> recompute;  ///< by stage
  bool operator==(const Line&) const = default;
};

/// Unbound; shares are equal but for a quantum. Nothing where the batch does not go round.
std::optional<plan::Plan> plan_of(const Line&, const Stock&);

/// Seconds of an iteration without its program: the batch at the pace of the slowest stage, one microbatch's way through the others and
/// back, the longest sums, the optimizer.
class LineEstimator {
 public:
  LineEstimator(Estimator& estimate, Network& network) : estimate_{estimate}, network_{network}, stock_{estimate.stock()} {}

  /// Cuts the layers so that the slowest stage is as fast as it can be and all fit their memories; its time, or nothing where no cut fits.
  std::optional<double> cut(Line&);
  /// Seconds in which no cut lets these stages take the batch.
  double floor(const std::vector<Post>&);
  /// Of a line that is cut; nothing where some stage does not fit or the runtime cannot execute it.
  std::optional<double> operator()(const Line&);

 private:
  const Sounding& sounding(const Post&, plan::Recompute);
  double share_of_turn(const Post&) const;
  std::vector<int> in_flight(const Line&) const;
  bool fits(const Line&, std::size_t stage, int first, int last, plan::Recompute, int kept);
  double pace(const Post&, int first, int last, plan::Recompute);
  bool fill(Line&, double pace);
  double after(const Line&, std::size_t stage);

  Estimator& estimate_;
  Network& network_;
  const Stock& stock_;
};

}  // namespace flotilla::search::pool
