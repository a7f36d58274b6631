#pragma once
#include <limits>
#include <optional>

#include "pool_judge.hpp"

namespace flotilla::fixture {

/// The best of all column plans of a coarse grid, by plain enumeration with the forecast of every one:
///   every depth, every cut, recomputation nowhere or everywhere;
///   one tensor degree for each stage, 1 or 2;
///   every multiset of columns over the pool's places;
///   a microbatch of 1, 2 or 4 sequences for each kind of column;
///   the batch dealt evenly, and in proportion to the columns' peaks.
struct BestColumnPlan {
  double value = std::numeric_limits<double>::infinity();
  plan::Plan plan;
  long forecasts = 0;
  bool found() const { return value < std::numeric_limits<double>::infinity(); }
};
BestColumnPlan best_column_plan(const Instance&, const Judge&);

}  // namespace flotilla::fixture
