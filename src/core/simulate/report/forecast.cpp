#include "flotilla/simulate/forecast.hpp"

#include <algorithm>

namespace flotilla::simulate {

std::string_view to_string(Activity a) {
  switch (a) {
    case Activity::forward: return "forward";
    case Activity::backward: return "backward";
    case Activity::recompute: return "recompute";
    case Activity::tensor_collective: return "tensor_collective";
    case Activity::activation_transfer: return "activation_transfer";
    case Activity::gradient_reduction: return "gradient_reduction";
    case Activity::optimizer: return "optimizer";
    case Activity::bubble: break;
  }
  return "bubble";
}

std::string in_words(Activity activity) {
  std::string words{to_string(activity)};
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string_view name_of(program::Category category) {
  switch (category) {
    case program::Category::parameters: return "parameters";
    case program::Category::gradients: return "gradients";
    case program::Category::optimizer: return "optimizer";
    case program::Category::activations: return "activations";
    case program::Category::communication: return "communication";
    case program::Category::workspace: break;
  }
  return "workspace";
}

Seconds Breakdown::total() const {
  Seconds sum;
  for (Seconds s : seconds) sum += s;
  return sum;
}

std::optional<double> Expense::usd() const {
  if (!device_usd) return std::nullopt;
  return *device_usd + egress_usd.value_or(0);
}

Bytes Forecast::peak_memory() const {
  Bytes most;
  for (const RankKind& kind : kinds) most = std::max(most, kind.memory.peak());
  return most;
}

Breakdown compute_queue_breakdown(std::span<const Span> spans, Seconds iteration) {
  Breakdown breakdown;
  double busy = 0;
  for (const Span& span : spans) {
    if (span.queue != program::Queue::compute) continue;
    breakdown[span.activity] += span.end - span.start;
    busy += (span.end - span.start).value;
  }
  breakdown[Activity::bubble] += Seconds{std::max(0.0, iteration.value - busy)};
  return breakdown;
}

}  // namespace flotilla::simulate
