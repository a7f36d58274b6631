#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/cluster/node_networks.hpp"
#include "flotilla/cluster/zones.hpp"
#include "flotilla/files/json.hpp"
#include "flotilla/search/economics.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/simulate/report.hpp"

/// What a search for a plan found, as JSON: docs/formats/planning.md. Readers throw Error{bad_input} with file, JSON pointer and what was
/// expected.
namespace flotilla::files {

/// In which a plan was searched for, too, that is worse.
struct OtherPrecision {
  Precision precision = Precision::fp16;
  std::optional<Seconds> iteration;  ///< nothing: there was no plan
  bool operator==(const OtherPrecision&) const = default;
};

/// What was asked of a planner over a pool, and what it answered.
struct Planning {
  search::Pool pool;
  search::Objective objective;
  search::Restrictions restrictions;
  search::PlanAnswer answer;
  std::optional<simulate::Report> forecast;           ///< of the best plan; there where one was found
  Seconds searched;                                   ///< wall time of the search alone
  bool cut_off = false;                               ///< stopped by a time limit
  bool again = false;                                 ///< from a plan that runs (search::PlanRequest::previous); the file does not say it
  std::vector<cluster::AssumedLink> assumed_links{};  ///< between zones that nobody measured
  std::vector<cluster::NodeNetwork> assumed_networks{};             ///< of zones of several nodes that nobody measured
  std::optional<OtherPrecision> other_precision{};                  ///< where the precision was left open
  std::optional<search::RunTotals> run{};                           ///< of the best plan, where somebody said how long it runs
  std::optional<std::vector<search::IdleDevices>> idle{};           ///< where it was asked for
  std::optional<std::vector<search::OneMoreNode>> one_more_node{};  ///< where it was asked for
  std::optional<std::vector<search::RankedPlan>> pareto{};          ///< time against cost, where it was asked for
};

/// Indented, ends with a newline. The same planning gives the same text; doubles come back bit by bit.
std::string planning_to_json(const Planning&);
/// Of the best plan its iteration time, dollars, devices and peak memory are the forecast's.
Planning planning_from_json(std::string_view text, std::string_view source);
Planning planning_from_json(const Json&);

}  // namespace flotilla::files
