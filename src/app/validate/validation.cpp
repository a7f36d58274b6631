#include "app/validate/validation.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace flotilla::app {
namespace {

using published::Comparison;
using published::Statistics;

std::vector<Statistics> grouped(const std::vector<Comparison>& runs, const std::function<std::string(const Comparison&)>& name) {
  std::map<std::string, std::vector<const Comparison*>> groups;
  for (const auto& run : runs) groups[name(run)].push_back(&run);
  std::vector<Statistics> all;
  for (const auto& [group, members] : groups) all.push_back(published::statistics(group, members));
  return all;
}

std::vector<std::pair<std::string, int>> reasons(const std::vector<Comparison>& runs) {
  std::map<std::string, int> counts;
  for (const auto& run : runs)
    if (!run.is_forecast()) ++counts[run.reason];
  std::vector<std::pair<std::string, int>> sorted{counts.begin(), counts.end()};
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &std::pair<std::string, int>::second);
  return sorted;
}

}  // namespace

Validation validation_of(std::vector<Comparison> runs) {
  Validation v;
  v.runs = std::move(runs);
  std::vector<const Comparison*> all;
  std::vector<Comparison> forecast;
  for (const auto& run : v.runs) {
    all.push_back(&run);
    if (run.is_forecast()) forecast.push_back(run);
  }
  v.all = published::statistics("all", all);
  v.sources = grouped(v.runs, [](const Comparison& run) { return run.run.source; });
  v.devices = grouped(forecast, [](const Comparison& run) { return run.run.hardware.device_type; });
  v.runtimes = grouped(forecast, [](const Comparison& run) { return run.runtime; });
  v.not_forecast = reasons(v.runs);
  return v;
}

}  // namespace flotilla::app
