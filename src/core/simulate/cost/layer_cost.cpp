#include "layer_cost.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::simulate {
namespace {

constexpr int profiled_blocks = 2;           // transformer layers of the model that the profiler timed the optimizer with
constexpr double other_degree_error = 0.15;  // of a time taken over from another tensor degree
constexpr double interpolated_error = 0.03;  // between two measured microbatches
constexpr double measured_error = 0.02;      // run to run, of one profile (the artifact gives single means)

bool holds(const cluster::LayerTime& row, const LayerCosts::LayerKey& what) {
  return row.first_layer <= what.layer && what.layer < row.last_layer && row.precision == what.precision && row.model == what.model &&
         row.device_type == what.device_type;
}

Seconds time_of(const cluster::LayerTime& row, LayerCosts::Pass pass) {
  switch (pass) {
    case LayerCosts::Pass::forward: return row.forward;
    case LayerCosts::Pass::backward: return row.backward;
    case LayerCosts::Pass::update: break;
  }
  return row.update;
}

}  // namespace

int LayerCosts::nearest_degree(const LayerKey& what) const {
  int best = 0;
  const auto distance = [&](int degree) { return std::abs(std::log2(static_cast<double>(degree) / what.tensor_parallel)); };
  for (const auto& row : profile_.layer_times)
    if (holds(row, what) && (best == 0 || distance(row.tensor_parallel) < distance(best))) best = row.tensor_parallel;
  return best;
}

LayerCosts::LayerTimeSamples LayerCosts::collect(const LayerKey& what, Pass pass) const {
  LayerTimeSamples samples;
  const int degree = nearest_degree(what);
  if (degree == 0) return samples;
  samples.exact = degree == what.tensor_parallel;
  samples.scale = static_cast<double>(degree) / what.tensor_parallel;
  for (const auto& row : profile_.layer_times)
    if (row.tensor_parallel == degree && holds(row, what) && time_of(row, pass).value > 0)
      samples.by_size.push_back({row.sequences, time_of(row, pass).value});
  std::ranges::sort(samples.by_size, {}, &LayerTimeSample::sequences);
  for (std::size_t i = samples.by_size.size(); i-- > 1;)
    samples.by_size[i - 1].seconds = std::min(samples.by_size[i - 1].seconds, samples.by_size[i].seconds);
  return samples;
}

const LayerCosts::LayerTimeSamples& LayerCosts::samples(const LayerKey& what, Pass pass) const {
  const auto [found, fresh] = known_.try_emplace({what, pass});
  if (fresh) found->second = collect(what, pass);
  return found->second;
}

std::optional<Cost> LayerCosts::pass(const LayerKey& what, Pass pass, int sequences, Seconds host) const {
  const LayerTimeSamples& known = samples(what, pass);
  if (known.by_size.empty()) return std::nullopt;
  const auto after = std::ranges::lower_bound(known.by_size, sequences, {}, &LayerTimeSample::sequences);
  const LayerTimeSample& largest = known.by_size.back();
  double seconds = largest.seconds * sequences / largest.sequences;
  bool measured = false;
  if (after != known.by_size.end()) {
    measured = after->sequences == sequences;
    const LayerTimeSample& before = after == known.by_size.begin() ? *after : *(after - 1);
    const double between = measured || before.sequences == after->sequences
                               ? 1
                               : static_cast<double>(sequences - before.sequences) / (after->sequences - before.sequences);
    seconds = before.seconds + between * (after->seconds - before.seconds);
  }
  const double busy = largest.seconds * sequences / largest.sequences;  // the device's own time, were it never waiting
  seconds -= std::clamp(seconds - busy, 0.0, host.value);
  const double error = measured_error + (measured ? 0 : interpolated_error) + (known.exact ? 0 : other_degree_error);
  return Cost{{seconds * known.scale}, error, !known.exact};
}

std::int64_t LayerCosts::parameters_of(const LayerKey& what, int layer) const {
  for (const auto& size : profile_.layer_sizes)
    if (size.first_layer <= layer && layer < size.last_layer && size.tensor_parallel == what.tensor_parallel && size.model == what.model)
      return size.parameters;
  return 0;
}

std::optional<Cost> LayerCosts::update(const LayerKey& what, int layers, std::int64_t parameters) const {
  const LayerTimeSamples& known = samples(what, Pass::update);
  const std::int64_t timed = parameters_of(what, 0) + profiled_blocks * parameters_of(what, 1) + parameters_of(what, layers - 1);
  if (known.by_size.empty() || timed <= 0) return std::nullopt;
  const double each = known.by_size.front().seconds / static_cast<double>(timed);  // does not depend on the microbatch: the least disturbed
  return Cost{{each * static_cast<double>(parameters)}, measured_error, !known.exact};
}

}  // namespace flotilla::simulate
