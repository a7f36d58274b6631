// How the batch is dealt to the columns of a sketch, and when they end.

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "estimate.hpp"

namespace flotilla::search::pool {
namespace {

constexpr double rounding = 1e-9;

/// Of one of the column's replicas, the fullest.
int share_of(const Column& column) { return (column.sequences + column.count - 1) / column.count; }

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

/// Takes the surplus off the columns that end last, at most `most` of each at first.
template <class End, class Most>
void take_off(std::vector<Column>& columns, std::int64_t surplus, const End& end, const Most& most) {
  const auto take = [&](Column& column, std::int64_t some) {
    some = std::min<std::int64_t>({some, surplus, column.sequences});
    column.sequences -= static_cast<int>(some);
    surplus -= some;
  };
  std::vector<std::size_t> order(columns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return end(a) > end(b); });
  for (const std::size_t c : order) take(columns[c], most(columns[c]));
  for (Column& column : columns) take(column, surplus);
}

}  // namespace

/// Of a microbatch that is less than a whole one, between the powers of two beside it.
Estimator::Pace Estimator::pace_of_rest(const Sketch& sketch, std::size_t index, const Pace& whole, int sequences) {
  const auto lower = static_cast<int>(std::bit_floor(static_cast<unsigned>(sequences)));
  const int upper = std::min(lower * 2, sketch.columns[index].microbatch);
  Pace below, above;
  if (!measure(sketch, index, lower, below)) return whole;
  if (lower == sequences) return below;
  if (upper == sketch.columns[index].microbatch)
    above = whole;
  else if (!measure(sketch, index, upper, above))
    return whole;
  const double share = static_cast<double>(sequences - lower) / (upper - lower);
  return {below.slowest + share * (above.slowest - below.slowest), below.way + share * (above.way - below.way)};
}

/// When the last of the equal columns has taken its share: see shares() of a sketch.
double Estimator::end_of(const Sketch& sketch, std::size_t index, const Pace& pace) {
  const Column& column = sketch.columns[index];
  const int each = share_of(column), whole = each / column.microbatch, rest = each % column.microbatch;
  if (rest == 0) return pace.way + (whole - 1) * pace.slowest;
  const Pace last = pace_of_rest(sketch, index, pace, rest);
  if (whole == 0) return last.way;
  const double fill = (pace.way - pace.slowest + last.way - last.slowest) / 2;  // whole there, short on the way back
  return whole * pace.slowest + last.slowest + fill;
}

/// Columns that got nothing go; when the last of the others ends.
double Estimator::end_of_dealt(Sketch& sketch) {
  auto& columns = sketch.columns;
  double time = 0;
  for (std::size_t c = columns.size(); c-- > 0;) {
    Column& column = columns[c];
    column.count = std::min(column.count, column.sequences);
    if (column.count > 0)
      time = std::max(time, end_of(sketch, c, paces_[c]));
    else
      columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(c));
  }
  return time;
}

/// The least time in which all columns together take the batch in whole microbatches; their sequences.
double Estimator::deal_turns(Sketch& sketch) {
  const int batch = stock_.request.global_batch;
  const bool alike = stock_.request.restrictions.one_microbatch_size;
  auto& columns = sketch.columns;
  double slowest = 0, way = 0, rate = 0, least = 1e300;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    slowest = std::max(slowest, paces_[c].slowest), way = std::max(way, paces_[c].way);
    rate += columns[c].count * columns[c].microbatch / paces_[c].slowest;
    least = std::min(least, paces_[c].way);
  }
  const auto paces = [&](std::size_t c) { return alike ? Pace{slowest, way} : paces_[c]; };
  const auto turns = [&](std::size_t c, double time) {  // microbatches of a column within `time`
    const Pace pace = paces(c);
    return time < pace.way ? 0.0 : 1 + std::floor((time - pace.way) / pace.slowest + rounding);
  };
  groups_.clear();  // columns of equal pace: {one of them, sequences of all of them in one turn}
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const double at_once = static_cast<double>(columns[c].count) * columns[c].microbatch;
    const bool same = c > 0 && paces_[c].slowest == paces_[c - 1].slowest && paces_[c].way == paces_[c - 1].way;
    if (same)
      groups_.back().second += at_once;
    else
      groups_.emplace_back(c, at_once);
  }
  const auto taken = [&](double time) {
    double all = 0;
    for (const auto& [c, at_once] : groups_) all += turns(c, time) * at_once;
    return all;
  };
  const double time = least_time(taken, batch, least * (1 - rounding), way + batch / rate * 2 + slowest * 2);
  std::int64_t surplus = -batch;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    columns[c].sequences = static_cast<int>(turns(c, time)) * columns[c].count * columns[c].microbatch;
    surplus += columns[c].sequences;
  }
  take_off(
      columns, surplus, [&](std::size_t c) { return paces(c).way + (turns(c, time) - 1) * paces(c).slowest; },
      [](const Column& c) { return std::int64_t{c.count} * c.microbatch; });
  const double end = end_of_dealt(sketch);
  for (Column& column : columns)
    while (!alike && column.microbatch / 2 >= share_of(column)) column.microbatch /= 2;  // it is never full
  return end;
}

/// The least time in which all columns together take the batch, each as many sequences as it can; then even microbatches.
double Estimator::deal_level(Sketch& sketch) {
  const int batch = stock_.request.global_batch;
  auto& columns = sketch.columns;
  const auto share = [&](std::size_t c, double time) {
    const Pace& pace = paces_[c];
    const double microbatches = time < pace.way ? time / pace.way : 1 + (time - pace.way) / pace.slowest;
    return std::floor(columns[c].microbatch * microbatches + rounding);
  };
  const auto taken = [&](double time) {
    double all = 0;
    for (std::size_t c = 0; c < columns.size(); ++c) all += share(c, time) * columns[c].count;
    return all;
  };
  double way = 0;
  for (const Pace& pace : paces_) way = std::max(way, pace.way);
  const double time = least_time(taken, batch, 0, way);
  std::int64_t surplus = -batch;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    columns[c].sequences = static_cast<int>(share(c, time)) * columns[c].count;
    surplus += columns[c].sequences;
  }
  const auto end = [&](std::size_t c) {
    const double more = share_of(columns[c]) - columns[c].microbatch;
    return paces_[c].way + more / columns[c].microbatch * (more > 0 ? paces_[c].slowest : paces_[c].way);
  };
  take_off(columns, surplus, end, [](const Column& c) { return std::int64_t{c.count}; });
  for (std::size_t c = 0; c < columns.size(); ++c) even_out(sketch, c);
  return end_of_dealt(sketch);
}

/// As many microbatches as before, all as large as the others but for a sequence.
void Estimator::even_out(Sketch& sketch, std::size_t index) {
  Column& column = sketch.columns[index];
  if (column.sequences == 0) return;
  const int each = share_of(column), turns = (each + column.microbatch - 1) / column.microbatch;
  const int even = (each + turns - 1) / turns;
  Pace pace;
  if (even == column.microbatch || !measure(sketch, index, even, pace)) return;
  column.microbatch = even;
  paces_[index] = pace;
}

}  // namespace flotilla::search::pool
