#pragma once
#include <string>
#include <vector>

#include "flotilla/files/profile_file.hpp"
#include "flotilla/search/planner.hpp"

/// Pools whose planning is timed.
namespace flotilla::benchmarks {

struct SpeedCase {
  std::string what;
  search::PlanRequest request;
  double aim_ms = 0;          ///< 0: none
  bool is_published = false;  ///< the artifact's library knows model, types and zones
};

/// The five of the planner's aims. Where there is no published library all of them are of built-in models on catalogue types.
std::vector<SpeedCase> aims(const files::Library&);

/// Cases that differ in one thing.
struct Series {
  std::string title;
  std::vector<SpeedCase> cases;
};
std::vector<Series> growth(const files::Library&);

/// Small ones, and a library of made-up types that knows enough for every cost model.
std::vector<SpeedCase> small_cases();
cluster::Profile made_up_library();

}  // namespace flotilla::benchmarks
