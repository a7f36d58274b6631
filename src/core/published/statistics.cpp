#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "flotilla/published/comparison.hpp"

namespace flotilla::published {
namespace {

constexpr int fewest_plans = 3;  // that a choice among measured plans is a choice

double mean(const std::vector<double>& all) {
  double sum = 0;
  for (double x : all) sum += x;
  return sum / static_cast<double>(all.size());
}

std::vector<double> absolute(std::vector<double> all) {
  for (double& x : all) x = std::abs(x);
  std::ranges::sort(all);
  return all;
}

double median(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

void add_time(Statistics& s, const std::vector<double>& errors, double covered) {
  if (errors.empty()) return;
  const auto sorted = absolute(errors);
  s.time_error_mean = mean(sorted);
  s.time_error_median = median(sorted);
  s.time_error_worst = sorted.back();
  s.time_bias = mean(errors);
  s.coverage = covered / static_cast<double>(errors.size());
}

std::optional<double> regret(const std::vector<const Comparison*>& runs) {
  struct Choice {
    int plans = 0;
    double best = std::numeric_limits<double>::infinity(), best_forecast = best, chosen = 0;
  };
  std::map<std::string, Choice> choices;
  for (const auto* run : runs) {
    if (!run->time_error()) continue;
    Choice& choice = choices[run->configuration];
    const double measured = run->run.measured.iteration->value;
    ++choice.plans;
    choice.best = std::min(choice.best, measured);
    if (run->forecast.value < choice.best_forecast) choice.best_forecast = run->forecast.value, choice.chosen = measured;
  }
  std::vector<double> all;
  for (const auto& [configuration, choice] : choices)
    if (choice.plans >= fewest_plans) all.push_back(choice.chosen / choice.best - 1);
  return all.empty() ? std::nullopt : std::optional{mean(all)};
}

}  // namespace

Statistics statistics(std::string name, const std::vector<const Comparison*>& runs) {
  Statistics s;
  s.name = std::move(name);
  s.runs = static_cast<int>(runs.size());
  std::vector<double> time, memory;
  double covered = 0, memory_covered = 0;
  for (const auto* c : runs) {
    if (!c->is_forecast()) continue;
    ++s.forecast_runs;
    if (const auto error = c->time_error()) time.push_back(*error), covered += c->is_covered() ? 1 : 0;
    if (const auto error = c->memory_error()) memory.push_back(*error), memory_covered += *c->memory_is_covered() ? 1 : 0;
    const bool failed = c->run.measured.out_of_memory;
    s.out_of_memory += failed ? 1 : 0;
    s.out_of_memory_called += failed && !c->fits ? 1 : 0;
    s.out_of_memory_false += !failed && !c->fits ? 1 : 0;
  }
  add_time(s, time, covered);
  if (!memory.empty()) {
    s.memory_error_mean = mean(absolute(memory));
    s.memory_bias = mean(memory);
    s.memory_coverage = memory_covered / static_cast<double>(memory.size());
  }
  s.regret = regret(runs);
  return s;
}

}  // namespace flotilla::published
