#include "corrections.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace flotilla::search::pool {
namespace {

constexpr int weight_of_all = 1;  // in forecasts of the stratum

}  // namespace

int Corrections::stratum(const Sketch& sketch) const {
  const auto type_of = [&](const Slot& slot) { return stock_.places[at(slot.place)].type; };
  const int first = type_of(sketch.columns.front().slots.front());
  const bool one_type = std::ranges::all_of(sketch.columns, [&](const Column& column) {
    return std::ranges::all_of(column.slots, [&](const Slot& slot) { return type_of(slot) == first; });
  });
  const int depth = static_cast<int>(std::bit_width(static_cast<unsigned>(sketch.stages())));
  const int execution = (static_cast<int>(sketch.schedule) * 2 + (sketch.sequence_parallel ? 1 : 0)) * 2 + (sketch.shard_optimizer.value_or(false) ? 1 : 0);
  return ((depth * 16 + std::min(sketch.chunks, 15)) * 2 + (one_type ? 1 : 0)) * 16 + execution;
}

void Corrections::learn(const Sketch& sketch, double estimated, double forecast) {
  if (sketch.columns.empty() || estimated <= 0 || forecast <= 0) return;
  for (Mean* mean : {&strata_[stratum(sketch)], &all_}) mean->sum_of_logs += std::log(forecast / estimated), ++mean->count;
}

double Corrections::factor(const Sketch& sketch) const {
  if (all_.count == 0 || sketch.columns.empty()) return 1;
  const double overall = all_.sum_of_logs / all_.count;
  const auto known = strata_.find(stratum(sketch));
  if (known == strata_.end()) return std::exp(overall);
  const auto& [sum, count] = known->second;
  return std::exp((sum + weight_of_all * overall) / (count + weight_of_all));
}

int Corrections::forecasts(const Sketch& sketch) const {
  const auto known = sketch.columns.empty() ? strata_.end() : strata_.find(stratum(sketch));
  return known == strata_.end() ? 0 : known->second.count;
}

}  // namespace flotilla::search::pool
