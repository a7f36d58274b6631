#include "path_sweep.hpp"

#include <algorithm>

namespace flotilla::search::rules {

double PathSweep::forward(std::span<const StageMove> moves, std::span<const double> costs) {
  const int tables = deep_ ? 0 : few_stages;
  for (int t = 0; t <= tables; ++t) {
    before_[at(t)].assign(at(nodes_), never);
    last_[at(t)].assign(at(nodes_), -1);
    std::fill_n(before_[at(t)].begin(), starts_, 0.0);
  }
  for (std::size_t i = 0; i < moves.size(); ++i)
    for (int t = deep_ ? 0 : 1; t <= tables; ++t) {
      const double sum = before_[at(deep_ ? 0 : t - 1)][at(moves[i].from)] + costs[i];
      double& known = before_[at(t)][at(moves[i].to)];
      if (sum < known) known = sum, last_[at(t)][at(moves[i].to)] = static_cast<int>(i);
    }
  return before_[at(tables)].back();
}

void PathSweep::backward(std::span<const StageMove> moves, std::span<const double> costs) {
  const int tables = deep_ ? 0 : few_stages;
  for (int t = 0; t <= tables; ++t) {
    behind_[at(t)].assign(at(nodes_), never);
    behind_[at(t)].back() = 0;
  }
  for (std::size_t i = moves.size(); i-- > 0;)
    for (int t = deep_ ? 0 : 1; t <= tables; ++t) {
      double& known = behind_[at(t)][at(moves[i].from)];
      known = std::min(known, behind_[at(deep_ ? 0 : t - 1)][at(moves[i].to)] + costs[i]);
    }
}

double PathSweep::through(const StageMove& move, double cost) const {
  if (deep_) return before_[0][at(move.from)] + cost + behind_[0][at(move.to)];
  double least = never;
  for (int t = 0; t < few_stages; ++t)
    least = std::min(least, before_[at(t)][at(move.from)] + cost + behind_[at(few_stages - 1 - t)][at(move.to)]);
  return least;
}

std::vector<int> PathSweep::best(std::span<const StageMove> moves) const {
  std::vector<int> way;
  int t = deep_ ? 0 : few_stages;
  for (DpState node = nodes_ - 1; node >= starts_;) {
    way.push_back(last_[at(t)][at(node)]);
    node = moves[at(way.back())].from;
    if (!deep_) --t;
  }
  return way;
}

}  // namespace flotilla::search::rules
