#include "flotilla/simulate/forecast.hpp"

#include <algorithm>
#include <tuple>

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

std::vector<Span> spans_of_all_ranks(const Forecast& forecast) {
  std::vector<Span> all;
  for (const RankKind& kind : forecast.kinds)
    for (const Span& span : forecast.timeline) {
      if (kind.ranks.empty() || span.rank != kind.ranks.front()) continue;
      for (Rank rank : kind.ranks) {
        all.push_back(span);
        all.back().rank = rank;
      }
    }
  std::ranges::stable_sort(all, {}, [](const Span& s) { return std::tuple{s.rank, s.queue, s.start}; });
  return all;
}

}  // namespace flotilla::simulate
