#include "bench.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/plan/allocate.hpp"

namespace flotilla::search::pool {

Bench::Bench(const Stock& stock, const program::Runtime& runtime)
    : stock_{stock}, runtime_{runtime}, profile_{stock.profile}, types_{simulate::type_costs_of(profile_)} {
  profile_.devices.clear();
}

Bytes Bench::process_memory(const std::vector<cluster::Device>& devices) const {
  if (!stock_.request.process_memory) return {};
  std::map<std::string_view, int> count;
  int most = 1;
  for (const auto& device : devices) most = std::max(most, ++count[device.host]);
  return stock_.request.process_memory(most);
}

std::optional<Trial> Bench::forecast(const plan::Plan& plan) {
  try {
    auto allocation = plan::allocate(plan, profile_);
    profile_.devices = std::move(allocation.devices);
    const simulate::ProgramForecaster forecaster{profile_, runtime_, process_memory(profile_.devices), types_};
    ++forecasts_;
    Trial trial{plan, forecaster.forecast(allocation.plan), {}, static_cast<int>(profile_.devices.size())};
    trial.tightest = simulate::tightest(trial.forecast, [&](Rank rank) -> std::optional<Bytes> {
      const auto* type = cluster::find_type(profile_, profile_.devices[rank.index()].type);
      return type && type->memory.count > 0 ? std::optional{type->memory} : std::nullopt;
    });
    return trial;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    if (first_refusal_.empty()) first_refusal_ = error.what();
    return std::nullopt;
  }
}

std::optional<Trial> Bench::forecast_on_one_host(const plan::Plan& plan) {
  const auto types = profile_.device_types;
  int devices = 0;
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) devices += replica.tensor_parallel;
  for (auto& type : profile_.device_types) type.per_node = std::max(type.per_node, devices);
  auto trial = forecast(plan);
  profile_.device_types = types;
  return trial;
}

}  // namespace flotilla::search::pool
