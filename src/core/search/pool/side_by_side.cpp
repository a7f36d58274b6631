#include <algorithm>
#include <functional>
#include <numeric>

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

/// At most what so many stages of one type come to, with the best of these degrees and any microbatch.
double Families::least_value(const Room& room, int type, int stages, const std::vector<int>& tensors, plan::Recompute recompute) {
  const auto& fitting = degrees(type);
  double least = never;
  for (const int tensor : tensors) {
    const Pattern pattern(at(stages), Kind{type, tensor});
    const int columns = std::ranges::find(fitting, tensor) == fitting.end() ? 0 : most_columns(pattern, room);
    for (const int m : microbatches_)
      if (columns > 0) least = std::min(least, least_value(pattern, m, columns, recompute));
  }
  return least;
}

/// Those that suit a type, at a small and at a large microbatch.
void Families::add_cuts(std::set<Cut>& cuts, const Room& room, int type, bool alone, int stages, const std::vector<int>& tensors,
                        plan::Recompute recompute) {
  const auto& fitting = degrees(type);
  for (const int tensor : tensors) {
    if (std::ranges::find(fitting, tensor) == fitting.end()) continue;
    const Pattern pattern(at(stages), Kind{type, tensor});
    if (most_columns(pattern, room) < 1) continue;
    if (stages == 1 && recompute == plan::Recompute::none) {
      cuts.insert({{0, stock_.request.model.layers()}, {recompute}});
      return;
    }
    bool fits = true;
    Column column = sample(pattern, 1, room);
    if (column.slots.empty()) continue;
    for (auto m = microbatches_.rbegin(); m != microbatches_.rend(); ++m) {
      const bool end = m == microbatches_.rbegin() || m + 1 == microbatches_.rend();
      if ((!end && fits) || (alone && least_value(pattern, *m, column.count, recompute) >= list_.threshold())) continue;
      column.microbatch = *m;
      const int turns = stock_.request.global_batch / (column.count * *m) + 1;
      const auto found = balance(estimate_, network_, column, recompute, turns);
      fits = found.has_value();
      if (found) cuts.insert(*found);
    }
  }
}

/// With any of these degrees for each type: cuts that suit the fastest type or the slowest.
void Families::side_by_side(plan::Recompute recompute, const Room& room, const std::vector<int>& team, int stages,
                            const std::vector<int>& tensors) {
  const bool alone = team.size() == 1;
  double rate = 0;  // of the team: rates add up
  for (const int type : team) rate += 1 / least_value(room, type, stages, tensors, recompute);
  if ((alone || stock_.by_throughput()) && 1 / rate >= list_.threshold()) return;
  std::set<Cut> cuts;
  for (const int type : {team.front(), team.back()}) add_cuts(cuts, room, type, alone, stages, tensors, recompute);
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

/// Of the slowest stage of a cut, at least: nothing is computed again.
double Families::least_pace(const Cut& cut, const LeastPass& pass) const {
  const int layers = stock_.request.model.layers();
  double slowest = 0;
  for (std::size_t s = 0; s + 1 < cut.layers.size(); ++s) {
    const int first = cut.layers[s], last = cut.layers[s + 1], blocks = std::min(last, layers - 1) - std::max(first, 1);
    slowest = std::max(slowest, (first == 0 ? pass.embedding : 0) + blocks * pass.block + (last == layers ? pass.head : 0));
  }
  return slowest;
}

/// Sequences per second that the columns of each type would take with each option if nothing but the layers took time.
std::vector<std::vector<double>> Families::rates_of(const Room& room, const std::vector<int>& team, const Cut& cut,
                                                    const std::vector<Option>& options) {
  const std::size_t stages = cut.recompute.size();
  std::vector<std::vector<double>> rates;
  for (const int type : team) {
    auto& of_type = rates.emplace_back();
    for (const Option& option : options) {
      int devices = 0;
      for (const int p : stock_.types[at(type)].places) devices += stock_.groups(p, option.tensor, room[at(p)]) * option.tensor;
      const LeastPass& s = estimate_.soundings().least_pass(type, option.tensor, option.microbatch, plan::Recompute::none);
      const double columns = static_cast<double>(devices) / option.tensor / static_cast<double>(stages);
      double rate = s.usable ? columns * option.microbatch / least_pace(cut, s) : 1 / never;
      if (s.usable && team.size() == 1 && stock_.by_throughput() && columns >= 1) {  // alone they wait for the first and the last stage
        const Pattern pattern(stages, Kind{type, option.tensor});
        rate = std::min(rate, stock_.request.global_batch / least_value(pattern, option.microbatch, columns, plan::Recompute::none));
      }
      of_type.push_back(rate);
    }
  }
  return rates;
}

/// Whether some stage holds more than its device without a closer look: what was sounded is known better.
bool Families::surely_too_large(const Cut& cut, int type, const Option& option) {
  const double limit = static_cast<double>(stock_.types[at(type)].memory.count);
  const auto stages = static_cast<int>(cut.recompute.size());
  Soundings& soundings = estimate_.soundings();
  for (int s = 0; limit > 0 && s < stages; ++s) {
    const auto recompute = cut.recompute[at(s)];
    if (soundings.knows(type, option.tensor, option.microbatch, recompute)) continue;
    if (soundings.least_bytes(cut.layers[at(s)], cut.layers[at(s + 1)], option.tensor, option.microbatch, recompute) > limit) return true;
  }
  return false;
}

/// Degree and microbatch of each type in turn, while it gets better.
void Families::settle(const Room& room, const std::vector<int>& team, const Cut& cut, const std::vector<Option>& options) {
  std::vector<std::size_t> chosen(team.size(), 0), best_chosen;
  const auto stages = cut.recompute.size();
  Sketch best;
  Judged best_judged;
  const auto rates = rates_of(room, team, cut, options);
  const bool by_time = stock_.by_throughput() && stock_.request.objective.limits == Limits{};
  Sketch sketch, whole;  // used again and again: most attempts lead nowhere
  Room left;
  Pattern pattern;
  const auto attempt = [&](const std::vector<std::size_t>& choice) {
    const bool good = best_judged.estimate.fits && best_judged.over_limits <= 1;
    const double enough = std::min(good ? best_judged.estimate.value : never, by_time ? worth_offering() : never);
    double rate = 0;
    for (std::size_t i = 0; i < team.size(); ++i) rate += rates[i][choice[i]];
    if (by_time && rate * enough < stock_.request.global_batch) return false;
    sketch.cuts = cut.layers, sketch.recompute = cut.recompute, sketch.columns.clear();
    sketch.schedule = plan::ScheduleKind::one_f_one_b, sketch.shard_optimizer.reset();
    left = room;
    for (std::size_t i = 0; i < team.size(); ++i) {
      const Option& option = options[choice[i]];
      const auto& fitting = degrees(team[i]);
      if (std::ranges::find(fitting, option.tensor) == fitting.end()) return false;
      if (surely_too_large(cut, team[i], option)) return false;
      pattern.assign(stages, Kind{team[i], option.tensor});
      add_columns(sketch, pattern, option.microbatch, left);
    }
    if (sketch.columns.empty()) return false;
    whole = sketch;
    const Estimate estimate = estimate_(sketch, enough);
    const Judged judged{estimate, list_.over_limits(sketch, estimate)};
    if (!best.columns.empty() && !better(judged, best_judged)) return false;
    best = whole, best_judged = judged, best_chosen = choice;
    return true;
  };
  std::vector<std::size_t> fastest_first(options.size());
  std::iota(fastest_first.begin(), fastest_first.end(), std::size_t{0});
  std::ranges::stable_sort(fastest_first, std::greater{}, [&](std::size_t o) {
    double rate = 0;
    for (const auto& of_type : rates) rate += of_type[o];
    return rate;
  });
  for (const std::size_t o : fastest_first) attempt(std::vector<std::size_t>(team.size(), o));
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
