#include "shape_samples.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

constexpr int passes_for_halves = 4;

bool counts(const ShapeSample& v) { return v.disturbance() <= undisturbed; }

}  // namespace

double ShapeSample::disturbance() const { return wall.value > 0 ? std::clamp(1 - busy / wall, 0.0, 1.0) : 0; }

ShapeSample shape_sample(FewBlocks& blocks, const MeasuredShape& shape, Seconds slice, Manner manner) {
  const Seconds begin = now();
  blocks.open();
  const Seconds opened = now();
  blocks.prepare();
  const Seconds prepared = now();
  std::vector<std::vector<double>> samples;
  if (manner.fresh) blocks.pass(samples);
  samples.clear();
  const Seconds start = now(), computed = thread_time();
  const auto clock = manner.crowded ? thread_time : now;
  Seconds halves{};
  int passes = 0;
  ShapeSample result;
  if (manner.fresh) result.once = opened - begin + (start - prepared);
  do {
    result.wall_before = result.wall;
    result.busy_before = result.busy;
    blocks.pass(samples, clock);
    const Seconds passed = now();
    if (manner.halves && passes % passes_for_halves == 0) blocks.halves(samples, clock);
    halves += now() - passed;
    ++passes;
    result.wall = now() - start;
    result.busy = blocks.on_gpu() ? result.wall : thread_time() - computed;
  } while (result.wall < slice);
  result.pass = (result.wall - halves) / passes;
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
Summary summary_of(std::size_t operation, const std::vector<ShapeSample>& all) {
  std::vector<ShapeSample> shape_samples;
  for (const ShapeSample& v : all)
    if (v.seconds[operation] > 0) shape_samples.push_back(v);
  if (shape_samples.empty()) return {};
  const bool believed = std::ranges::any_of(shape_samples, counts);
  std::vector<double> values, disturbances;
  for (const ShapeSample& v : shape_samples) {
    disturbances.push_back(v.disturbance());
    if (!believed || counts(v)) values.push_back(believed ? v.seconds[operation] : v.quick[operation]);
  }
  return {{median(values)}, std::max(relative_scatter(values), believed ? 0 : median(disturbances))};
}

Summary summary_of(std::size_t operation, const std::vector<ShapeSample>& shape_samples, const ThrottlingFactor& throttling) {
  double seconds = 0, runs = 0;
  std::vector<double> values;
  for (std::size_t round = 0; round < shape_samples.size(); ++round) {
    const ShapeSample& v = shape_samples[round];
    if (!(v.seconds[operation] > 0) || !throttling.counts(round)) continue;
    seconds += v.runs[operation] * v.seconds[operation];
    runs += v.runs[operation];
    values.push_back(v.seconds[operation] * throttling.of_round(round));
  }
  if (values.empty()) return {};
  return {{throttling.all() * seconds / runs}, std::max(relative_scatter(values), throttling.taken_by_others())};
}

template <class SummaryOf>
ShapeTimes times_of(const MeasuredShape& shape, std::size_t operations, SummaryOf summary_of_operation) {
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

ShapeTimes summarize(const MeasuredShape& shape, const std::vector<ShapeSample>& shape_samples) {
  return times_of(shape, shape_samples.front().seconds.size(), [&](std::size_t o) { return summary_of(o, shape_samples); });
}

ShapeTimes summarize(const MeasuredShape& shape, const std::vector<ShapeSample>& shape_samples, const ThrottlingFactor& throttling) {
  return times_of(shape, shape_samples.front().seconds.size(), [&](std::size_t o) { return summary_of(o, shape_samples, throttling); });
}

void add(ThrottlingFactor& throttling, std::size_t round, const ShapeSample& v) {
  const bool alone = !(v.busy_before.value > 0);
  throttling.add(round, alone ? v.wall : (v.wall_before + v.wall) / 2, alone ? v.busy : (v.busy_before + v.busy) / 2);
}

bool repeats_itself(const std::vector<ShapeSample>& shape_samples, std::size_t least) {
  constexpr double steady = 0.01;
  std::vector<double> passes;
  for (const ShapeSample& v : shape_samples) passes.push_back(v.pass.value);
  return passes.size() >= least && relative_scatter(passes) <= steady;
}

Seconds expected_time(const std::vector<TimeTaken>& taken, int sequences) {
  FLOTILLA_ASSERT(!taken.empty(), "nothing was measured");
  const auto [least, most] = std::ranges::minmax_element(taken, {}, &TimeTaken::sequences);
  if (least->sequences == most->sequences) return most->time * (static_cast<double>(sequences) / most->sequences);
  const Seconds each = (most->time - least->time) / (most->sequences - least->sequences);
  return most->time + std::max(each, Seconds{}) * (sequences - most->sequences);
}

bool settled(const std::vector<ShapeSample>& shape_samples, std::size_t least, bool crowded) {
  return static_cast<std::size_t>(std::ranges::count_if(shape_samples, [&](const ShapeSample& v) { return crowded || counts(v); })) >=
         least;
}

}  // namespace flotilla::probe
