#include "app/common/planning_checks.hpp"

#include <algorithm>
#include <set>

#include "app/common/pool.hpp"
#include "app/common/refuse.hpp"
#include "app/common/run_length.hpp"
#include "app/common/table.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::app {
namespace {

using Figure = double (*)(const cluster::Profile&, const std::string& type, const std::string& zone);

/// A figure that every type of the pool must have, and how it is said.
struct Quantity {
  const char* what;
  Figure figure;
  const char* option;
  const char* value;
};
constexpr Quantity hourly_price{"price", cluster::usd_per_hour, "price", "2.50USD/h"};
constexpr Quantity billing_weight{"billing weight", cluster::billing_weight, "billing", "16units/h"};

std::set<std::string> types_without(Figure figure, const search::Pool& pool, const cluster::Profile& profile) {
  std::set<std::string> without;
  for (const auto& entry : pool)
    if (figure(profile, entry.device_type, entry.zone) <= 0) without.insert(entry.device_type);
  return without;
}

/// Zones between whose nodes of the type the profiles know links.
std::set<std::string> linked_zones(const std::string& type, const cluster::Profile& library) {
  std::set<std::string> zones;
  for (const auto& fit : library.link_fits)
    if (!fit.inside_node() && fit.from_type == type && fit.to_type == type && fit.from_zone == fit.to_zone) zones.insert(fit.from_zone);
  return zones;
}

/// The artifact's formulas know no links but those that were measured: a plan over several nodes cannot be judged there.
void warn_of_single_nodes(const PlanningOptions& o, const search::Pool& pool, const cluster::Profile& library) {
  for (const auto& entry : pool) {
    const auto zones = linked_zones(entry.device_type, library);
    if (entry.count <= entry.per_node || zones.contains(entry.zone)) continue;
    log::warning(o.basis.profiles, ": no links are known between nodes of ", place_in_words(entry.device_type, entry.zone),
                 ", and --cost-model sailor-artifact takes none from the catalogue: no plan there leaves a node; ",
                 zones.empty() ? "no zone has them" : text("zones that have them: ", joined({zones.begin(), zones.end()})));
  }
}

}  // namespace

void require_figures(const PlanningOptions& o, const search::Objective& objective, const search::Pool& pool,
                     const cluster::Profile& profile) {
  const auto require = [&](const char* asks, const Quantity& quantity) {
    const auto without = types_without(quantity.figure, pool, profile);
    FLOTILLA_REQUIRE(without.empty(), ErrorKind::bad_input, "--", asks, " ", o.setting(asks).value, ": no ", quantity.what,
                     " above 0 is known of ", joined({without.begin(), without.end()}), "; write for example --", quantity.option, " ",
                     *without.begin(), "=", quantity.value);
  };
  if (objective.goal == search::Goal::cost) require("objective.minimise", hourly_price);
  if (objective.goal == search::Goal::billing) require("objective.minimise", billing_weight);
  if (o.limit.run_cost) require("limit.run-cost", hourly_price);
  if (o.limit.iteration_cost) require("limit.iteration-cost", hourly_price);
  if (objective.limits.usd_per_hour) require("limit.hourly-cost", hourly_price);
  if (o.pareto) require("search.pareto", hourly_price);
}

std::int64_t iterations_of(const PlanningOptions& o, const search::PlanRequest& request) {
  if (o.tokens.empty()) return o.steps;
  return iterations_for(o.setting("training.tokens"), request.global_batch, request.length);
}

void require_explanations(const PlanningOptions& o) {
  if (o.explain && o.basis.sailor_artifact)
    refuse(o.setting("search.explain"), "",
           "the cost model sailor-artifact does not say why devices are idle; drop this option or --cost-model");
}

void warn_of_missing_links(const PlanningOptions& o, const search::Pool& pool, const cluster::Profile& library) {
  if (o.basis.sailor_artifact) return warn_of_single_nodes(o, pool, library);
  if (const auto zones = unknown_zones(pool, library); !zones.empty())
    log::warning(o.basis.profiles, ": no links are known of zone ", zones, "; those of the hardware catalogue are used");
}

}  // namespace flotilla::app
