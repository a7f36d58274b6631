#include "visits.hpp"

#include <algorithm>
#include <ctime>

#include "flotilla/base/clock.hpp"
#include "samples.hpp"

namespace flotilla::probe {
namespace {

/// Processor time of the calling thread.
Seconds thread_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return Seconds{static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec)};
}

bool counts(const Visit& v, bool crowded) { return crowded || v.disturbance <= undisturbed; }

}  // namespace

Visit visit(FewBlocks& blocks, const Shape& shape, Seconds slice, bool fresh, bool crowded) {
  const Seconds begin = now();
  blocks.prepare();
  std::vector<std::vector<double>> samples;
  if (fresh) blocks.pass(samples);
  samples.clear();
  const Seconds start = now(), computed = thread_time();
  do blocks.pass(samples, crowded ? thread_time : now);
  while (now() - start < slice);
  const Seconds wall = now() - start, busy = thread_time() - computed;
  Visit result;
  result.disturbance = std::clamp(1 - busy / wall, 0.0, 1.0);
  const double waits = crowded ? std::max(1.0, wall / busy) : 1;
  for (const auto& runs : samples) {
    result.seconds.push_back(waits * mean_of_largest(runs, shape.tensor_parallel));
    result.quick.push_back(quantile(runs, 0.1));
  }
  blocks.release();
  result.took = now() - begin;
  return result;
}

ShapeTimes summarize(const Shape& shape, const std::vector<Visit>& visits, bool crowded) {
  const bool believed = settled(visits, 1, crowded);
  std::vector<double> disturbances;
  for (const Visit& v : visits) disturbances.push_back(v.disturbance);
  const double least_scatter = believed ? 0 : median(disturbances);
  ShapeTimes result{shape, {}, {}};
  for (std::size_t o = 0; o < visits.front().seconds.size(); ++o) {
    std::vector<double> values;
    for (const Visit& v : visits)
      if (!believed || counts(v, crowded)) values.push_back(believed ? v.seconds[o] : v.quick[o]);
    result.seconds.push_back({median(values)});
    result.scatter.push_back(std::max(relative_scatter(values), least_scatter));
  }
  return result;
}

bool settled(const std::vector<Visit>& visits, std::size_t least, bool crowded) {
  return static_cast<std::size_t>(std::ranges::count_if(visits, [&](const Visit& v) { return counts(v, crowded); })) >= least;
}

}  // namespace flotilla::probe
