#pragma once
#include <array>
#include <span>
#include <vector>

#include "problem.hpp"

namespace flotilla::search::rules {

/// A boundary of layers, and the side of the stage behind it; the last: behind all layers.
using DpState = int;

/// A stage of a look (see PlanFamily), between two nodes.
struct StageMove {
  std::int16_t first, last, stage_type, stage_group;  ///< team: the cheapest of the look, until all of them are listed
  DpState from, to;
  double time, reduction, weighted;
};

/// The least sums of costs over ways of moves, with units without end.
class PathSweep {
 public:
  static constexpr int few_stages = 3;
  /// Ways begin at the first `starts` nodes and end at the last. `deep`: of any number of moves; otherwise few_stages at most.
  PathSweep(int nodes, int starts, bool deep) : nodes_{nodes}, starts_{starts}, deep_{deep} {}

  /// Of all ways. `moves` in the order of their last layers, `costs` by move.
  double forward(std::span<const StageMove> moves, std::span<const double> costs);
  /// After forward(), with the same costs: then through() is known.
  void backward(std::span<const StageMove> moves, std::span<const double> costs);
  /// Of the ways that hold a move of that cost.
  double through(const StageMove&, double cost) const;
  /// After forward(): the moves of the best way, the last first.
  std::vector<int> best(std::span<const StageMove> moves) const;

 private:
  using Sums = std::array<std::vector<double>, few_stages + 1>;  ///< by most number of moves; the first where any number counts
  int nodes_, starts_;
  bool deep_;
  Sums before_, behind_;
  std::array<std::vector<int>, few_stages + 1> last_;  ///< the move by which a node is reached
};

}  // namespace flotilla::search::rules
