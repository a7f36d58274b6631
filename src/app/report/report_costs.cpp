#include "app/report/report.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/json.hpp"

namespace flotilla::app {
namespace {

namespace fs = std::filesystem;

constexpr double hour = 3600;

/// What the site bills for a node of a partition, as flotilla submit read it.
std::map<std::string, double> units_of_slurm_cluster(const fs::path& run) {
  std::map<std::string, double> units;
  const auto file = run / "submission.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return units;
  const auto document = files::Json::read(file);
  files::require_format(document, "flotilla-submission", 1);
  for (const auto& component : document.at("components").items()) {
    const double billed = component.get_double("billing_units_per_hour", 0);
    if (billed > 0) units[component.get_string("partition")] += billed / component.get_int("nodes", 1);
  }
  return units;
}

/// Adds a group's share; one unknown price makes the sum unknown.
void add(std::optional<double>& sum, const std::map<std::string, double>& prices, const std::string& key, double hours) {
  const auto price = prices.find(key);
  if (price == prices.end())
    sum.reset();
  else if (sum)
    *sum += price->second * hours;
}

}  // namespace

RunPrices prices_of_run(const fs::path& run, const std::vector<journal::IncarnationHistory>& incarnations, const Prices& words) {
  cluster::Profile types;
  for (const auto& incarnation : incarnations)
    for (const auto& group : incarnation.devices)
      if (cluster::find_type(types, group.device_type) == nullptr) {
        types.device_types.emplace_back();
        types.device_types.back().name = group.device_type;
      }
  RunPrices prices;
  prices.node_units = units_of_slurm_cluster(run);
  for (const auto& type : with_prices(std::move(types), words).device_types) {
    if (type.usd_per_hour > 0) prices.device_usd[type.name] = type.usd_per_hour;
    if (type.billing_weight > 0) prices.device_units[type.name] = type.billing_weight;
  }
  return prices;
}

RunCost cost_of(const journal::IncarnationHistory& h, const RunPrices& prices) {
  RunCost cost;
  if (h.devices.empty()) return cost;
  const double hours = h.seconds() / hour;
  cost.billing_units = cost.usd = 0;
  for (const auto& group : h.devices) {
    cost.device_hours += group.devices * hours;
    cost.node_hours += group.hosts * hours;
    add(cost.usd, prices.device_usd, group.device_type, group.devices * hours);
    if (prices.device_units.contains(group.device_type))
      add(cost.billing_units, prices.device_units, group.device_type, group.devices * hours);
    else
      add(cost.billing_units, prices.node_units, group.zone, group.hosts * hours);
  }
  return cost;
}

}  // namespace flotilla::app
