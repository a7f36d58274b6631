#include <algorithm>
#include <set>

#include "families.hpp"

namespace flotilla::search::pool {
namespace {

constexpr double never = 1e300;

struct Judged {
  Estimate estimate;
  double over_limits = 0;
};

bool better(const Judged& a, const Judged& b) {
  if (a.estimate.fits != b.estimate.fits) return a.estimate.fits;
  if (!a.estimate.fits) return a.estimate.excess < b.estimate.excess;
  if (a.over_limits > 1 || b.over_limits > 1) return a.over_limits < b.over_limits;
  return a.estimate.value < b.estimate.value;
}

}  // namespace

void Families::side_by_side(plan::Recompute recompute, const Room& room) {
  const bool one_degree = !can_.unlike_degrees_in_a_stage || stock_.request.restrictions.one_tensor_degree_per_stage;
  for (const auto& team : teams(present(room))) {
    std::set<int> all;
    for (const int type : team)
      for (const int degree : degrees(type)) all.insert(degree);
    for (const int stages : depths_) {
      if (stop()) return;
      if (one_degree)
        for (const int degree : all) side_by_side(recompute, room, team, stages, {degree});
      else
        side_by_side(recompute, room, team, stages, {all.begin(), all.end()});
    }
  }
}

/// With any of these degrees for each type: cuts that suit one of the types, at a small and at a large microbatch.
void Families::side_by_side(plan::Recompute recompute, const Room& room, const std::vector<int>& team, int stages,
                            const std::vector<int>& tensors) {
  std::set<Cut> cuts;
  double least = 0;  // of the team: rates add up
  for (const int type : team) {
    double best = 1e300;
    for (const int tensor : tensors) {
      const auto fitting = degrees(type);
      if (std::ranges::find(fitting, tensor) == fitting.end()) continue;
      const Pattern pattern(at(stages), Kind{type, tensor});
      bool fits = true, missing = most_columns(pattern, room) < 1;
      Column column;
      for (auto m = microbatches_.rbegin(); m != microbatches_.rend(); ++m) {
        const bool end = m == microbatches_.rbegin() || m + 1 == microbatches_.rend();
        if (!end && fits) continue;
        if (column.slots.empty() && !missing) column = sample(pattern, *m, room), missing = column.slots.empty();
        if (missing) break;
        column.microbatch = *m;
        best = std::min(best, least_value(pattern, *m, column.count, recompute));
        if (best >= list_.threshold() && team.size() == 1) continue;
        const int turns = stock_.request.global_batch / (column.count * *m) + 1;
        const auto found = balance(estimate_, network_, column, recompute, turns);
        fits = found.has_value();
        if (found && (type == team.front() || type == team.back())) cuts.insert(*found);
      }
    }
    least += 1 / best;
  }
  if (stock_.by_throughput() && 1 / least >= list_.threshold()) return;
  std::vector<Option> options;
  for (const int tensor : tensors)
    for (const int m : microbatches_) options.push_back({tensor, m});
  for (const auto& cut : cuts) {
    if (!stock_.request.restrictions.one_microbatch_size) {
      settle(room, team, cut, options);
      continue;
    }
    for (const int m : microbatches_) {
      auto alike = options;
      std::erase_if(alike, [&](const Option& o) { return o.microbatch != m; });
      settle(room, team, cut, alike);
    }
  }
}

/// Sequences per second that the columns of each type would take with each option if nothing but the layers took time, all equally many
/// of them: the stages that are cut are no faster.
std::vector<std::vector<double>> Families::rates_of(const Room& room, const std::vector<int>& team, const Cut& cut,
                                                    const std::vector<Option>& options) {
  const auto stages = static_cast<int>(cut.recompute.size());
  const bool none = std::ranges::all_of(cut.recompute, [](plan::Recompute r) { return r == plan::Recompute::none; });
  std::vector<std::vector<double>> rates;
  for (const int type : team) {
    auto& of_type = rates.emplace_back();
    for (const Option& option : options) {
      int devices = 0;
      for (const int p : stock_.types[at(type)].places) devices += stock_.groups(p, option.tensor, room[at(p)]) * option.tensor;
      const Sounding& s = estimate_.soundings().of(type, option.tensor, option.microbatch, plan::Recompute::none);
      const double pass = s.usable ? stock_.request.model.blocks * s.block.pass / stages : 0;
      const double columns = static_cast<double>(devices) / option.tensor / stages;
      of_type.push_back(!none || pass <= 0 ? 1e300 : columns * option.microbatch / pass);
    }
  }
  return rates;
}

/// Degree and microbatch of each type in turn, while it gets better.
void Families::settle(const Room& room, const std::vector<int>& team, const Cut& cut, const std::vector<Option>& options) {
  std::vector<std::size_t> chosen(team.size(), 0), best_chosen;
  const auto stages = cut.recompute.size();
  Sketch best;
  Judged best_judged;
  const auto rates = rates_of(room, team, cut, options);
  const bool by_time = stock_.by_throughput() && stock_.request.objective.limits == Limits{};
  const auto attempt = [&](const std::vector<std::size_t>& choice) {
    const bool good = best_judged.estimate.fits && best_judged.over_limits <= 1;
    const double enough = std::min(good ? best_judged.estimate.value : never, by_time ? worth_offering() : never);
    double rate = 0;
    for (std::size_t i = 0; i < team.size(); ++i) rate += rates[i][choice[i]];
    if (by_time && rate * enough < stock_.request.global_batch) return false;
    Sketch sketch{cut.layers, cut.recompute, {}};
    Room left = room;
    for (std::size_t i = 0; i < team.size(); ++i) {
      const Option& option = options[choice[i]];
      const auto fitting = degrees(team[i]);
      if (std::ranges::find(fitting, option.tensor) == fitting.end()) return false;
      add_columns(sketch, Pattern(stages, Kind{team[i], option.tensor}), option.microbatch, left);
    }
    if (sketch.columns.empty()) return false;
    const Sketch whole = sketch;
    const Estimate estimate = estimate_(sketch, enough);
    const Judged judged{estimate, list_.over_limits(sketch, estimate)};
    if (!best.columns.empty() && !better(judged, best_judged)) return false;
    best = whole, best_judged = judged, best_chosen = choice;
    return true;
  };
  for (std::size_t o = 0; o < options.size(); ++o) attempt(std::vector<std::size_t>(team.size(), o));
  if (best.columns.empty()) return;
  chosen = best_chosen;
  const auto beside = [](const Option& a, const Option& b) {  // a step apart
    const int tensors = std::max(a.tensor, b.tensor) / std::min(a.tensor, b.tensor);
    const int microbatches = std::max(a.microbatch, b.microbatch) / std::min(a.microbatch, b.microbatch);
    return tensors * microbatches == 2;
  };
  for (bool moved = team.size() > 1; moved;) {
    moved = false;
    for (std::size_t i = 0; i < team.size(); ++i)
      for (std::size_t o = 0; o < options.size(); ++o) {
        auto other = chosen;
        other[i] = o;
        if (beside(options[o], options[chosen[i]]) && attempt(other)) chosen = best_chosen, moved = true;
      }
  }
  offer(best);
}

}  // namespace flotilla::search::pool
