#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/files/profile_file.hpp"
#include "flotilla/search/planner.hpp"

/// The pools of the Sailor artifact, and what published planners answered for them (published_plans.json).
namespace flotilla::benchmarks {

struct ListedPlan {
  std::string planner;
  plan::Plan plan;
  double value = 0;      ///< of the pool's objective, by the artifact's formulas: seconds or US dollars per iteration
  bool runnable = true;  ///< it takes no more devices of a zone than there are
};

struct PublishedPool {
  std::string name;             ///< "fig8b 32 A100-40 + 96 V100-16"
  search::PlanRequest request;  ///< nothing restricted
  std::vector<ListedPlan> plans;
  bool is_mixed() const { return request.pool.size() > 1; }  ///< several types or zones
  bool has_types() const {
    return std::ranges::any_of(request.pool, [&](const auto& entry) { return entry.device_type != request.pool.front().device_type; });
  }
};

/// In the file's order. `library` knows the models.
std::vector<PublishedPool> published_pools(const files::Library& library);

/// Whether every type and zone has the devices that the plan takes there.
bool lies_within(const plan::Plan&, const search::Pool&);

/// A plan's value under the goal; nullopt for dollars of devices without prices. Of the goals that the file has, throughput and cost.
std::optional<double> value_of(const search::Objective&, Seconds iteration, std::optional<double> usd);
/// Whether such a plan keeps to the limits on cost and speed.
bool keeps(const search::Limits&, Seconds iteration, std::optional<double> usd);

}  // namespace flotilla::benchmarks
