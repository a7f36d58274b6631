#include "visits.hpp"

#include <algorithm>
#include <ctime>

#include "flotilla/base/clock.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

constexpr int passes_for_halves = 4;

/// Processor time of the calling thread.
Seconds thread_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return Seconds{static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec)};
}

bool counts(const Visit& v, bool crowded) { return crowded || v.disturbance <= undisturbed; }

}  // namespace

Visit visit(FewBlocks& blocks, const Shape& shape, Seconds slice, Manner manner) {
  const Seconds begin = now();
  blocks.prepare();
  std::vector<std::vector<double>> samples;
  if (manner.fresh) blocks.pass(samples);
  samples.clear();
  const Seconds start = now(), computed = thread_time();
  const auto clock = manner.crowded ? thread_time : now;
  int passes = 0;
  do {
    blocks.pass(samples, clock);
    if (manner.halves && passes++ % passes_for_halves == 0) blocks.halves(samples, clock);
  } while (now() - start < slice);
  const Seconds wall = now() - start, busy = thread_time() - computed;
  Visit result;
  result.disturbance = std::clamp(1 - busy / wall, 0.0, 1.0);
  const double waits = manner.crowded ? std::max(1.0, wall / busy) : 1;
  for (const auto& runs : samples) {
    result.seconds.push_back(runs.empty() ? 0 : waits * mean_of_largest(runs, shape.tensor_parallel));
    result.quick.push_back(runs.empty() ? 0 : quantile(runs, 0.1));
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

Summary summarize(std::size_t operation, const std::vector<Visit>& all, bool crowded) {
  std::vector<Visit> visits;
  for (const Visit& v : all)
    if (v.seconds[operation] > 0) visits.push_back(v);
  if (visits.empty()) return {};
  const bool believed = settled(visits, 1, crowded);
  std::vector<double> values, disturbances;
  for (const Visit& v : visits) {
    disturbances.push_back(v.disturbance);
    if (!believed || counts(v, crowded)) values.push_back(believed ? v.seconds[operation] : v.quick[operation]);
  }
  return {{median(values)}, std::max(relative_scatter(values), believed ? 0 : median(disturbances))};
}

}  // namespace

ShapeTimes summarize(const Shape& shape, const std::vector<Visit>& visits, bool crowded) {
  ShapeTimes result{shape, {}, {}};
  for (std::size_t o = 0; o < visits.front().seconds.size(); ++o) {
    const Summary summary = summarize(o, visits, crowded);
    const auto whole = o < whole_count ? std::nullopt : model::whole_of(measured_operation(o));
    result.seconds.push_back(summary.seconds);
    result.scatter.push_back(whole ? std::max(summary.scatter, result.scatter[measured_index(*whole)]) : summary.scatter);
  }
  return result;
}

bool settled(const std::vector<Visit>& visits, std::size_t least, bool crowded) {
  return static_cast<std::size_t>(std::ranges::count_if(visits, [&](const Visit& v) { return counts(v, crowded); })) >= least;
}

}  // namespace flotilla::probe
