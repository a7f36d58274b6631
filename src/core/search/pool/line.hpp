#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "estimate.hpp"

namespace flotilla::search::pool {

/// Equal replicas of a stage.
struct Crew {
  int place = 0;
  int tensor = 1;
  int count = 1;
  int microbatch = 1;  ///< sequences, a power of two
  int sequences = 0;   ///< of all of them, in one iteration; set by deal()
  bool operator==(const Crew&) const = default;
};

/// A stage's replicas: of one kind or of several, which share the batch as fast as each of them is.
using Post = std::vector<Crew>;

/// Stages one after the other, each with its own number of replicas: every device works, whatever the numbers of its kinds. What sketches
/// of columns cannot say.
struct Line {
  std::vector<Post> posts;
  std::vector<int> cuts;                   ///< stages + 1 layer boundaries
  std::vector<plan::Recompute> recompute;  ///< by stage
  bool operator==(const Line&) const = default;
};

/// Of a line that is dealt: unbound; shares of equal replicas are equal but for a quantum.
plan::Plan plan_of(const Line&, const Stock&);

/// Seconds of an iteration without its program: the batch at the pace of the slowest stage, one microbatch's way through the others and
/// back, the longest sums, the optimizer.
class LineEstimator {
 public:
  LineEstimator(Estimator& estimate, Network& network) : estimate_{estimate}, network_{network}, stock_{estimate.stock()} {}

  /// Cuts the layers so that the slowest stage is as fast as it can be and all fit their memories; its time, or nothing where no cut fits
  /// or where every one takes longer than `enough`.
  std::optional<double> cut(Line&, double enough = 1e300);
  /// Seconds in which no cut lets these stages take the batch.
  double floor(const std::vector<Post>&);
  /// Of a line that is cut, which it deals; nothing where the batch does not go round, some stage does not fit or the runtime cannot
  /// execute it.
  std::optional<double> operator()(Line&);

 private:
  const Sounding& sounding(const Crew&, plan::Recompute);
  bool usable(const Post&, plan::Recompute);
  double share_of_turn(const Post&) const;
  std::vector<std::int64_t> under_way(const Line&) const;
  bool fits(const Crew&, int replicas, int first, int last, plan::Recompute, int kept);
  bool fits(const Line&, std::size_t stage);
  double pace(const Post&, int first, int last, plan::Recompute);
  double least_pace(const Post&);
  bool fill(Line&, double pace);
  bool deal(Line&);
  bool deal(Post&, int first, int last, plan::Recompute, int quantum);
  double behind(const Post& here, const Post& next);
  double after(const Line&, std::size_t stage);

  Estimator& estimate_;
  Network& network_;
  const Stock& stock_;
};

}  // namespace flotilla::search::pool
