#pragma once
#include <string>
#include <vector>

#include "flotilla/search/planner.hpp"

/// What a user can fix of a plan, one at a time: for judging whether that finds a better plan than leaving it open.
namespace flotilla::fixture {

struct FixedOption {
  std::string name;
  search::Constraints constraints;
};

/// Schedules, sequence parallelism and sharding.
std::vector<FixedOption> execution_options();
/// The same, and recomputation, tensor-parallel degrees, microbatches, and numbers of stages and of their replicas.
std::vector<FixedOption> fixed_options();

}  // namespace flotilla::fixture
