#include "visits.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

constexpr int passes_for_halves = 4;

bool counts(const Visit& v) { return v.disturbance() <= undisturbed; }

}  // namespace

double Visit::disturbance() const { return wall.value > 0 ? std::clamp(1 - busy / wall, 0.0, 1.0) : 0; }

Visit visit(FewBlocks& blocks, const Shape& shape, Seconds slice, Manner manner) {
  const Seconds begin = now();
  blocks.prepare();
  std::vector<std::vector<double>> samples;
  if (manner.fresh) blocks.pass(samples);
  samples.clear();
  const Seconds start = now(), computed = thread_time();
  const auto clock = manner.crowded ? thread_time : now;
  int passes = 0;
  Visit result;
  do {
    result.wall_before = result.wall;
    result.busy_before = result.busy;
    blocks.pass(samples, clock);
    if (manner.halves && passes++ % passes_for_halves == 0) blocks.halves(samples, clock);
    result.wall = now() - start;
    result.busy = thread_time() - computed;
  } while (result.wall < slice);
  for (const auto& runs : samples) {
    result.seconds.push_back(runs.empty() ? 0 : mean_of_largest(runs, shape.tensor_parallel));
    result.quick.push_back(runs.empty() ? 0 : quantile(runs, 0.1));
    result.runs.push_back(static_cast<double>(runs.size()));
  }
  blocks.release();
  result.took = now() - begin;
  return result;
}

namespace {

/// Of one operation, out of the visits that measured it.
struct Summary {
  Seconds seconds;
  double scatter = 0;
};

/// Settles on the undisturbed visits, or on the quickest runs of all.
Summary summary_of(std::size_t operation, const std::vector<Visit>& all) {
  std::vector<Visit> visits;
  for (const Visit& v : all)
    if (v.seconds[operation] > 0) visits.push_back(v);
  if (visits.empty()) return {};
  const bool believed = std::ranges::any_of(visits, counts);
  std::vector<double> values, disturbances;
  for (const Visit& v : visits) {
    disturbances.push_back(v.disturbance());
    if (!believed || counts(v)) values.push_back(believed ? v.seconds[operation] : v.quick[operation]);
  }
  return {{median(values)}, std::max(relative_scatter(values), believed ? 0 : median(disturbances))};
}

Summary summary_of(std::size_t operation, const std::vector<Visit>& visits, const Stretch& stretch) {
  double seconds = 0, runs = 0;
  std::vector<double> values;
  for (std::size_t round = 0; round < visits.size(); ++round) {
    const Visit& v = visits[round];
    if (!(v.seconds[operation] > 0) || !stretch.counts(round)) continue;
    seconds += v.runs[operation] * v.seconds[operation];
    runs += v.runs[operation];
    values.push_back(v.seconds[operation] * stretch.of_round(round));
  }
  if (values.empty()) return {};
  return {{stretch.all() * seconds / runs}, std::max(relative_scatter(values), stretch.taken_by_others())};
}

template <class SummaryOf>
ShapeTimes times_of(const Shape& shape, std::size_t operations, SummaryOf summary_of_operation) {
  ShapeTimes result{shape, {}, {}};
  for (std::size_t o = 0; o < operations; ++o) {
    const Summary summary = summary_of_operation(o);
    const auto whole = o < whole_count ? std::nullopt : model::whole_of(measured_operation(o));
    result.seconds.push_back(summary.seconds);
    result.scatter.push_back(whole ? std::max(summary.scatter, result.scatter[measured_index(*whole)]) : summary.scatter);
  }
  return result;
}

}  // namespace

ShapeTimes summarize(const Shape& shape, const std::vector<Visit>& visits) {
  return times_of(shape, visits.front().seconds.size(), [&](std::size_t o) { return summary_of(o, visits); });
}

ShapeTimes summarize(const Shape& shape, const std::vector<Visit>& visits, const Stretch& stretch) {
  return times_of(shape, visits.front().seconds.size(), [&](std::size_t o) { return summary_of(o, visits, stretch); });
}

void add(Stretch& stretch, std::size_t round, const Visit& v) {
  const bool alone = !(v.busy_before.value > 0);
  stretch.add(round, alone ? v.wall : (v.wall_before + v.wall) / 2, alone ? v.busy : (v.busy_before + v.busy) / 2);
}

bool settled(const std::vector<Visit>& visits, std::size_t least, bool crowded) {
  return static_cast<std::size_t>(std::ranges::count_if(visits, [&](const Visit& v) { return crowded || counts(v); })) >= least;
}

}  // namespace flotilla::probe
