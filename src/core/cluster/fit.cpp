#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "flotilla/base/error.hpp"
#include "flotilla/cluster/cluster.hpp"

// Samples -> medians by size -> isotonic regression -> choice of knots -> least squares at the knots -> pieces. Everything is weighed by
// 1/time^2: times span six orders of magnitude, and what matters of each is its relative error.
namespace flotilla::cluster {
namespace {

struct Point {
  double size = 0, time = 0;
};
using Points = std::vector<Point>;

constexpr std::size_t most_pieces = 6;
constexpr double piece_price = 0.005;  // a further piece must lower the sum of squared relative errors by this
constexpr double least_slope = 1e-15;  // seconds per byte; a flat stretch has no finite bandwidth to write down
constexpr double shortest = 1e-9;      // seconds; below it a clock says nothing, so it bounds the weights

double weight(double time) { return 1 / std::pow(std::max(time, shortest), 2); }

Points medians(const std::vector<LinkSample>& samples) {
  std::map<std::int64_t, std::vector<double>> by_size;
  for (const auto& [size, time] : samples) {
    FLOTILLA_REQUIRE(size.count >= 0 && std::isfinite(time.value) && time.value >= 0 && time.value < 1e9, ErrorKind::bad_input,
                     "a link sample of ", size.count, " bytes took ", time.value, " s; expected a size and a time of at least 0");
    by_size[size.count].push_back(time.value);
  }
  FLOTILLA_REQUIRE(by_size.size() >= 2, ErrorKind::bad_input, "a link was sampled at ", by_size.size(),
                   " message sizes; a fit needs at least 2");
  Points points;
  for (auto& [size, times] : by_size) {
    std::ranges::sort(times);
    const std::size_t n = times.size();
    points.push_back({static_cast<double>(size), (times[(n - 1) / 2] + times[n / 2]) / 2});
  }
  return points;
}

/// The nearest nowhere decreasing sequence (pool adjacent violators).
Points isotonic(Points points) {
  struct Pool {
    double weight, sum;
    std::size_t count;
    double mean() const { return sum / weight; }
  };
  std::vector<Pool> pools;
  for (const Point& p : points) {
    const double w = weight(p.time);
    pools.push_back({w, w * p.time, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back() = {pools.back().weight + last.weight, pools.back().sum + last.sum, pools.back().count + last.count};
    }
  }
  auto point = points.begin();
  for (const Pool& pool : pools)
    for (std::size_t i = 0; i < pool.count; ++i) (point++)->time = pool.mean();
  return points;
}

double interpolate(const Point& a, const Point& b, double size) {
  return a.time + (b.time - a.time) * ((size - a.size) / (b.size - a.size));
}

/// Sum of squared relative errors when one straight piece spans points i … j.
double error_of_span(const Points& points, std::size_t i, std::size_t j) {
  double sum = 0;
  for (std::size_t k = i + 1; k < j; ++k)
    sum += weight(points[k].time) * std::pow(interpolate(points[i], points[j], points[k].size) - points[k].time, 2);
  return sum;
}

/// Indices of the points where pieces meet, ends included: dynamic programming over the last piece.
std::vector<std::size_t> choose_knots(const Points& points) {
  const std::size_t n = points.size(), pieces = std::min(most_pieces, n - 1);
  const double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(pieces + 1, std::vector<double>(n, never));
  std::vector<std::vector<std::size_t>> before(pieces + 1, std::vector<std::size_t>(n, 0));
  best[0][0] = 0;
  for (std::size_t j = 1; j < n; ++j)
    for (std::size_t i = 0; i < j; ++i) {
      const double span = error_of_span(points, i, j);
      for (std::size_t k = 1; k <= pieces; ++k)
        if (best[k - 1][i] + span + piece_price < best[k][j]) best[k][j] = best[k - 1][i] + span + piece_price, before[k][j] = i;
    }
  std::size_t k = 1;
  for (std::size_t candidate = 2; candidate <= pieces; ++candidate)
    if (best[candidate][n - 1] < best[k][n - 1]) k = candidate;
  std::vector<std::size_t> knots{n - 1};
  for (std::size_t at = n - 1; k > 0; --k) knots.insert(knots.begin(), at = before[k][at]);
  return knots;
}

/// Least squares over the times at the knots, all pieces at once (hat functions: a tridiagonal system, positive definite because every
/// knot is itself a sample).
Points least_squares(const Points& samples, const std::vector<std::size_t>& knots) {
  const std::size_t n = knots.size();
  std::vector<double> diagonal(n), upper(n), right(n);
  std::size_t piece = 0;
  for (std::size_t k = 0; k < samples.size(); ++k) {
    while (piece + 2 < n && k > knots[piece + 1]) ++piece;
    const double low = samples[knots[piece]].size, high = samples[knots[piece + 1]].size;
    const double b = (samples[k].size - low) / (high - low), a = 1 - b, w = weight(samples[k].time);
    diagonal[piece] += w * a * a;
    diagonal[piece + 1] += w * b * b;
    upper[piece] += w * a * b;
    right[piece] += w * a * samples[k].time;
    right[piece + 1] += w * b * samples[k].time;
  }
  for (std::size_t i = 1; i < n; ++i) {
    const double factor = upper[i - 1] / diagonal[i - 1];
    diagonal[i] -= factor * upper[i - 1];
    right[i] -= factor * right[i - 1];
  }
  Points fitted(n);
  for (std::size_t i = n; i-- > 0;) {
    const double next = i + 1 < n ? upper[i] * fitted[i + 1].time : 0;
    fitted[i] = {samples[knots[i]].size, (right[i] - next) / diagonal[i]};
  }
  return fitted;
}

double slope(const Point& a, const Point& b) { return std::max(least_slope, (b.time - a.time) / (b.size - a.size)); }

/// The line through the first two knots goes on below them, but not below zero at size 0.
void extend_to_zero(Points& knots) {
  if (knots[0].size == 0) return;
  const double at_zero = knots[0].time - slope(knots[0], knots[1]) * knots[0].size;
  if (at_zero >= 0)
    knots[0] = {0, at_zero};
  else
    knots.insert(knots.begin(), Point{0, 0});
}

/// Rounding must not make a message cheaper by one byte more.
void meet(LinkPiece& piece, const LinkPiece& before) {
  const auto time_at = [&](const LinkPiece& p) { return (p.latency + piece.from / p.bandwidth).value; };
  const double target = time_at(before);
  for (double growth = 1; time_at(piece) < target; growth *= 2) piece.latency.value += growth * (target - time_at(piece));
}

std::vector<LinkPiece> pieces_through(const Points& knots) {
  std::vector<LinkPiece> pieces;
  const auto add = [&](const Point& at, double seconds_per_byte) {
    const LinkPiece piece{{static_cast<std::int64_t>(at.size)}, {at.time - seconds_per_byte * at.size}, {1 / seconds_per_byte}};
    pieces.push_back(piece);
    if (pieces.size() > 1) meet(pieces.back(), pieces[pieces.size() - 2]);
  };
  for (std::size_t i = 0; i + 1 < knots.size(); ++i) add(knots[i], slope(knots[i], knots[i + 1]));
  // Where noise made the last stretch flat, larger messages must still cost more: they go on at the mean rate.
  const double mean = slope(knots.front(), knots.back());
  if (slope(knots[knots.size() - 2], knots.back()) < 0.1 * mean) add(knots.back(), mean);
  return pieces;
}

}  // namespace

std::vector<LinkPiece> fit_pieces(std::vector<LinkSample> samples) {
  const Points measured = medians(samples);
  Points knots = isotonic(least_squares(measured, choose_knots(isotonic(measured))));
  for (Point& knot : knots) knot.time = std::max(knot.time, 0.0);
  extend_to_zero(knots);
  return pieces_through(knots);
}

}  // namespace flotilla::cluster
