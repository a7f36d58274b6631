// How the batch is dealt to the columns of a candidate, and when they end.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "estimate.hpp"

namespace flotilla::search::pool {
namespace {

constexpr double rounding = 1e-9, least_step = 1e-12;

/// Of one of the column's replicas, the fullest.
int share_of(const PipelineReplica& pipeline) { return (pipeline.sequences + pipeline.count - 1) / pipeline.count; }

/// The least time, to a ten-millionth, at which `taken` reaches the batch; from `low`, where it does not, or only just.
template <class Taken>
double least_time(const Taken& taken, int batch, double low, double high) {
  while (taken(high) < batch) high *= 2;
  for (int i = 0; i < 50 && high - low > 1e-7 * high; ++i) {
    const double middle = (low + high) / 2;
    (taken(middle) >= batch ? high : low) = middle;
  }
  return high;
}

double turns_within(double time, double slowest, double way) {
  return time < way ? 0.0 : 1 + std::floor((time - way) / slowest + rounding);
}
double turns_within(double time, const PacedColumns& g) { return turns_within(time, g.slowest, g.way); }

/// Before that they surely take less than the batch: as if they took parts of microbatches.
double before_all_is_taken(const std::vector<PacedColumns>& groups, double batch) {
  double time = std::numeric_limits<double>::infinity();
  for (bool fewer = true; fewer;) {  // groups that have not begun by then take nothing
    double rate = 0, constant = 0;
    for (const PacedColumns& g : groups)
      if (g.way - g.slowest < time) rate += g.at_once / g.slowest, constant += g.at_once * (1 - g.way / g.slowest);
    const double sooner = (batch - constant) / rate;
    fewer = rate > 0 && sooner < time;
    if (fewer) time = sooner;
  }
  return time;
}

/// The least time at which they together take the batch, turn by turn.
double time_of_all_turns(const std::vector<PacedColumns>& groups, double batch) {
  const auto taken = [&](double time) {
    double all = 0;
    for (const PacedColumns& g : groups) all += turns_within(time, g) * g.at_once;
    return all;
  };
  double time = before_all_is_taken(groups, batch);
  while (taken(time) < batch) {
    double next = std::numeric_limits<double>::infinity();
    for (const PacedColumns& g : groups) next = std::min(next, g.way + turns_within(time, g) * g.slowest);
    time = std::max(next, time * (1 + least_step));
  }
  return time;
}

/// Takes the surplus off the columns that end last, at most `most` of each at first.
template <class End, class Most>
void take_off(std::vector<PipelineReplica>& pipelines, std::int64_t surplus, const End& end, const Most& most) {
  const auto take = [&](PipelineReplica& pipeline, std::int64_t some) {
    some = std::min<std::int64_t>({some, surplus, pipeline.sequences});
    pipeline.sequences -= static_cast<int>(some);
    surplus -= some;
  };
  if (surplus == 0) return;
  std::vector<std::pair<double, std::size_t>> order(pipelines.size());
  for (std::size_t c = 0; c < order.size(); ++c) order[c] = {end(c), c};
  std::ranges::sort(order, [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  for (const auto& [ends, c] : order) take(pipelines[c], most(pipelines[c]));
  for (PipelineReplica& pipeline : pipelines) take(pipeline, surplus);
}

}  // namespace

/// Of a microbatch that is less than a whole one, between the powers of two beside it.
Estimator::PipelinePace Estimator::pace_of_rest(const CandidatePlan& candidate, std::size_t index, const PipelinePace& whole,
                                                int sequences) {
  const auto lower = static_cast<int>(std::bit_floor(static_cast<unsigned>(sequences)));
  const int upper = std::min(lower * 2, candidate.pipelines[index].microbatch);
  PipelinePace below, above;
  if (!measure(candidate, index, lower, below)) return whole;
  if (lower == sequences) return below;
  if (upper == candidate.pipelines[index].microbatch)
    above = whole;
  else if (!measure(candidate, index, upper, above))
    return whole;
  const double share = static_cast<double>(sequences - lower) / (upper - lower);
  return {below.slowest + share * (above.slowest - below.slowest), below.way + share * (above.way - below.way)};
}

/// When the last of the equal columns has taken its share: see shares() of a candidate.
double Estimator::end_of(const CandidatePlan& candidate, std::size_t index, const PipelinePace& pace) {
  const PipelineReplica& pipeline = candidate.pipelines[index];
  const int each = share_of(pipeline), whole = each / pipeline.microbatch, rest = each % pipeline.microbatch;
  if (rest == 0) return pace.way + (whole - 1) * pace.slowest;
  const PipelinePace last = pace_of_rest(candidate, index, pace, rest);
  if (whole == 0) return last.way;
  const double fill = (pace.way - pace.slowest + last.way - last.slowest) / 2;  // whole there, short on the way back
  return whole * pace.slowest + last.slowest + fill;
}

/// Columns that got nothing go; when the last of the others ends.
double Estimator::end_of_dealt(CandidatePlan& candidate) {
  auto& pipelines = candidate.pipelines;
  double time = 0;
  for (std::size_t c = pipelines.size(); c-- > 0;) {
    PipelineReplica& pipeline = pipelines[c];
    pipeline.count = std::min(pipeline.count, pipeline.sequences);
    if (pipeline.count > 0)
      time = std::max(time, end_of(candidate, c, paces_[c]));
    else
      pipelines.erase(pipelines.begin() + static_cast<std::ptrdiff_t>(c));
  }
  return time;
}

/// The least time in which all columns together take the batch in whole microbatches; their sequences.
double Estimator::partition_into_microbatches(CandidatePlan& candidate) {
  const int batch = device_pool_.request.global_batch;
  const bool alike = device_pool_.request.restrictions.one_microbatch_size;
  auto& pipelines = candidate.pipelines;
  double slowest = 0, way = 0;
  for (const PipelinePace& pace : paces_) slowest = std::max(slowest, pace.slowest), way = std::max(way, pace.way);
  const auto paces = [&](std::size_t c) { return alike ? PipelinePace{slowest, way} : paces_[c]; };
  const auto turns = [&](std::size_t c, double time) { return turns_within(time, paces(c).slowest, paces(c).way); };
  groups_.clear();
  for (std::size_t c = 0; c < pipelines.size(); ++c) {
    const double at_once = static_cast<double>(pipelines[c].count) * pipelines[c].microbatch;
    const bool same = c > 0 && paces_[c].slowest == paces_[c - 1].slowest && paces_[c].way == paces_[c - 1].way;
    if (same)
      groups_.back().at_once += at_once;
    else
      groups_.push_back({paces(c).slowest, paces(c).way, at_once});
  }
  const double time = time_of_all_turns(groups_, batch);
  std::int64_t surplus = -batch;
  for (std::size_t c = 0; c < pipelines.size(); ++c) {
    pipelines[c].sequences = static_cast<int>(turns(c, time)) * pipelines[c].count * pipelines[c].microbatch;
    surplus += pipelines[c].sequences;
  }
  take_off(
      pipelines, surplus, [&](std::size_t c) { return paces(c).way + (turns(c, time) - 1) * paces(c).slowest; },
      [](const PipelineReplica& c) { return std::int64_t{c.count} * c.microbatch; });
  const double end = end_of_dealt(candidate);
  for (PipelineReplica& pipeline : pipelines) {  // where one is never full
    if (alike) break;
    if (balances() && !device_pool_.request.constraints.microbatch) pipeline.microbatch = std::min(pipeline.microbatch, share_of(pipeline));
    while (pipeline.microbatch / 2 >= share_of(pipeline)) pipeline.microbatch /= 2;
  }
  return end;
}

/// The least time in which all columns together take the batch, each as many sequences as it can; then even microbatches.
double Estimator::partition_balanced(CandidatePlan& candidate) {
  const int batch = device_pool_.request.global_batch;
  auto& pipelines = candidate.pipelines;
  const auto share = [&](std::size_t c, double time) {
    const PipelinePace& pace = paces_[c];
    const double microbatches = time < pace.way ? time / pace.way : 1 + (time - pace.way) / pace.slowest;
    return std::floor(pipelines[c].microbatch * microbatches + rounding);
  };
  const auto taken = [&](double time) {
    double all = 0;
    for (std::size_t c = 0; c < pipelines.size(); ++c) all += share(c, time) * pipelines[c].count;
    return all;
  };
  double way = 0;
  for (const PipelinePace& pace : paces_) way = std::max(way, pace.way);
  const double time = least_time(taken, batch, 0, way);
  std::int64_t surplus = -batch;
  for (std::size_t c = 0; c < pipelines.size(); ++c) {
    pipelines[c].sequences = static_cast<int>(share(c, time)) * pipelines[c].count;
    surplus += pipelines[c].sequences;
  }
  const auto end = [&](std::size_t c) {
    const double more = share_of(pipelines[c]) - pipelines[c].microbatch;
    return paces_[c].way + more / pipelines[c].microbatch * (more > 0 ? paces_[c].slowest : paces_[c].way);
  };
  take_off(pipelines, surplus, end, [](const PipelineReplica& c) { return std::int64_t{c.count}; });
  for (std::size_t c = 0; c < pipelines.size(); ++c) even_out(candidate, c);
  return end_of_dealt(candidate);
}

/// As many microbatches as before, all as large as the others but for a sequence.
void Estimator::even_out(CandidatePlan& candidate, std::size_t index) {
  PipelineReplica& pipeline = candidate.pipelines[index];
  if (pipeline.sequences == 0) return;
  const int each = share_of(pipeline), turns = (each + pipeline.microbatch - 1) / pipeline.microbatch;
  const int even = (each + turns - 1) / turns;
  PipelinePace pace;
  if (even == pipeline.microbatch || !measure(candidate, index, even, pace)) return;
  pipeline.microbatch = even;
  paces_[index] = pace;
}

}  // namespace flotilla::search::pool
