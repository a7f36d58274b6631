#pragma once
#include <vector>

#include "coverage.hpp"
#include "few_blocks.hpp"
#include "throttling.hpp"

namespace flotilla::probe {

/// What this rank measured at one shape: by measured_index() seconds and how sure they are; 0 s: halves, which no visit measured.
struct ShapeTimes {
  MeasuredShape shape;
  std::vector<Seconds> seconds;
  std::vector<double> scatter;
};

/// Some passes over a shape, one after the other.
struct ShapeSample {
  std::vector<double> seconds;  ///< by measured_index(): what a training step pays for a run of it, of a crowded rank its processor time;
                                ///< 0: not measured
  std::vector<double> quick;    ///< the same of its quickest tenth: what is left to believe in where others took the processors
  std::vector<double> runs;     ///< how many of each
  Seconds wall, busy;           ///< of all passes, by the clock and of the computing thread's processor time; a GPU is busy all the time
  Seconds took;                 ///< filling the memory included
  Seconds once{};               ///< of that, what no further sample takes: the backend, and a pass that makes the library's primitives
  Seconds pass{};               ///< a pass, in the mean
  Seconds wall_before{}, busy_before{};  ///< of all passes but the last; 0: there was one alone

  /// Share of the time in which the computing thread was kept from computing, 0 ... 1.
  double disturbance() const;
};

/// A visit up to this counts as undisturbed: timers and the odd interrupt stay far below.
inline constexpr double undisturbed = 0.05;

/// How a visit is made.
struct Manner {
  bool fresh = false;   ///< never run before: a pass that nobody counts makes the library's primitives
  bool halves = false;  ///< every fourth pass, the first one too, is followed by its backward passes in halves
  /// The thread cannot compute all the time, and will not in training: there an operation is its processor time, times the rank's stretch.
  /// A wait, ten operations long, that falls on one of them in one visit says nothing of that operation.
  bool crowded = false;
};

/// Passes over `blocks` for the slice, one at least. Of each operation the mean, not the median: a step is the sum of many runs, so that
/// it pays for the slow ones, too. Members of a tensor-parallel group wait for each other after nearly every operation: there it is
/// the mean of the slowest of so many runs.
ShapeSample shape_sample(FewBlocks& blocks, const MeasuredShape&, Seconds slice, Manner);

/// Visits of one shape, spread over the time of the probe -> the median of the undisturbed ones, and their scatter. Where other
/// processes disturbed all of them, the median of the quickest runs (a wait for a processor is as long as many an operation, so that a mean
/// would be wrong by factors), with the disturbance as the scatter if that is more. Of halves likewise, out of the visits that measured
/// them; they scatter no less than what they are halves of.
ShapeTimes summarize(const MeasuredShape&, const std::vector<ShapeSample>&);

/// Likewise of a crowded rank: the ranks themselves are more threads than CPUs, or than their quota lets compute; then it is they who
/// disturb each other, and so they will in training. The mean processor time of all runs of the visits whose rounds count, times
/// `throttling`; the scatter is that of the visits, each as its round was stretched, or the part of the time that others took if that is
/// more. The n-th visit stands in round n.
ShapeTimes summarize(const MeasuredShape&, const std::vector<ShapeSample>&, const ThrottlingFactor&);

/// Adds a visit's time. Its slice mostly ends in a pause: with the pass after it the visit has that pause but not the burst that follows,
/// without that pass the burst before but not its pause. The mean of both has neither in excess.
void add(ThrottlingFactor&, std::size_t round, const ShapeSample&);

/// Whether `least` of the visits were undisturbed; a crowded rank's all count.
bool settled(const std::vector<ShapeSample>&, std::size_t least, bool crowded);

/// Whether a device that nothing disturbs repeats itself: `least` visits, and passes scatter by no more than 1 %. Further visits would say
/// the same.
bool repeats_itself(const std::vector<ShapeSample>&, std::size_t least);

/// Seconds that some number of sequences took.
struct TimeTaken {
  int sequences = 0;
  Seconds time;
};
/// What another number of sequences will take: by the line through the smallest and the largest one, in proportion to a single one. Part of
/// what they took may not depend on the number, so a line through two is mostly far below the proportion. At least one.
Seconds expected_time(const std::vector<TimeTaken>&, int sequences);

}  // namespace flotilla::probe
