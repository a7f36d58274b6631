#pragma once
#include <vector>

#include "estimate.hpp"

namespace flotilla::search::pool {

struct Candidate {
  Sketch sketch;
  Estimate estimate;
};

/// The most promising sketches by their estimates, few of each shape, so that an estimate that errs on one shape does not fill the list.
class Shortlist {
 public:
  Shortlist(const Stock& stock, std::size_t most) : stock_{stock}, most_{most} {}

  void offer(const Sketch&, const Estimate&);
  /// Times the limit that is most broken; at most 1: none is.
  double over_limits(const Sketch&, const Estimate&) const;
  /// Estimates above are of no use any more.
  double threshold() const;
  /// Best first.
  const std::vector<Candidate>& candidates() const { return candidates_; }
  /// Those that break a limit by their estimates, the least broken first: estimates err, and where nothing keeps the limits these say why.
  const std::vector<Candidate>& doubtful() const { return doubtful_; }
  /// Those that do not fit the memory by little, the best first: estimates of memory err, too.
  const std::vector<Candidate>& tight() const { return tight_; }
  /// Of those that fit no memory the one that misses least.
  const std::optional<Candidate>& nearest_miss() const { return nearest_; }

 private:
  void doubt(const Sketch&, const Estimate&, double excess);
  void keep_tight(const Sketch&, const Estimate&);

  const Stock& stock_;
  std::size_t most_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> doubtful_, tight_;
  std::vector<double> excesses_;  ///< of the doubtful
  std::optional<Candidate> nearest_;
};

/// Equally many stages, the same recomputation, and the same types together in columns; whatever their cuts, degrees and microbatches.
bool same_shape(const Sketch&, const Sketch&, const Stock&);

}  // namespace flotilla::search::pool
