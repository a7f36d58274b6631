#include "app/report/report.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/files/catalogue_file.hpp"
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

/// Adds a group's share; one unknown price, 0, makes the sum unknown.
void add(std::optional<double>& sum, double price, double hours) {
  if (!(price > 0))
    sum.reset();
  else if (sum)
    *sum += price * hours;
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
  prices.devices = with_prices(std::move(types), words, files::built_in_catalogue());
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
    add(cost.usd, cluster::usd_per_hour(prices.devices, group.device_type, group.zone), group.devices * hours);
    const double units = cluster::billing_weight(prices.devices, group.device_type, group.zone);
    const auto of_node = prices.node_units.find(group.zone);
    if (units > 0)
      add(cost.billing_units, units, group.devices * hours);
    else
      add(cost.billing_units, of_node == prices.node_units.end() ? 0 : of_node->second, group.hosts * hours);
  }
  return cost;
}

}  // namespace flotilla::app
