#pragma once
#include <map>
#include <vector>

#include "estimate.hpp"

namespace flotilla::search::pool {

struct RankedCandidate {
  CandidatePlan candidate;
  Estimate estimate;
};

/// The best candidate of every trait (traits_of), however far behind the best of all.
class BestOfTraits {
 public:
  explicit BestOfTraits(const DevicePool& device_pool) : device_pool_{device_pool} {}
  /// Of candidates that fit; those that the pool's nodes do not hold, or that the request forbids, are left out.
  void offer(const CandidatePlan&, const Estimate&);
  /// Each once, best first.
  std::vector<RankedCandidate> all() const;

 private:
  const DevicePool& device_pool_;
  std::map<int, RankedCandidate> best_;  ///< by trait
};

/// The most promising candidates by their estimates, few of each shape, so that an estimate that errs on one shape does not fill the list.
class Shortlist {
 public:
  Shortlist(const DevicePool& device_pool, std::size_t most) : device_pool_{device_pool}, most_{most}, by_trait_{device_pool} {}

  void offer(const CandidatePlan&, const Estimate&);
  /// What a generator estimates on its way to what it offers: it may be the best of its traits.
  void pass_by(const CandidatePlan&, const Estimate&);
  /// Times the limit that is most broken; at most 1: none is.
  double over_limits(const CandidatePlan&, const Estimate&) const;
  /// Estimates above are of no use any more.
  double threshold() const;
  /// Best first.
  const std::vector<RankedCandidate>& ranked_candidates() const { return ranked_candidates_; }
  /// The best of every trait (traits_of), however far behind, each once, best first: estimates of unlike traits err in unlike ways, and
  /// what somebody may fix is where a search begins, too.
  std::vector<RankedCandidate> best_by_trait() const { return by_trait_.all(); }
  /// Those that break a limit by their estimates, the least broken first: estimates err, and where nothing keeps the limits these say why.
  const std::vector<RankedCandidate>& doubtful() const { return doubtful_; }
  /// Those that do not fit the memory by little, the best first: estimates of memory err, too.
  const std::vector<RankedCandidate>& tight() const { return tight_; }
  /// Of those that fit no memory the ones that miss least, the nearest first, one of each choice of devices.
  const std::vector<RankedCandidate>& nearest_misses() const { return nearest_; }

 private:
  void doubt(const CandidatePlan&, const Estimate&, double excess);
  void keep_nearest(const CandidatePlan&, const Estimate&);
  void keep_tight(const CandidatePlan&, const Estimate&);
  void drop_worst_twin(const CandidatePlan&);

  const DevicePool& device_pool_;
  std::size_t most_;
  std::vector<RankedCandidate> ranked_candidates_;
  BestOfTraits by_trait_;
  std::vector<RankedCandidate> doubtful_, tight_;
  std::vector<double> excesses_;  ///< of the doubtful
  std::vector<RankedCandidate> nearest_;
};

/// Numbers of what a request could fix and the candidate has: its depth in powers of two; in pools up to `tuning::pool_of_many_traits` also
/// schedule, sequence parallelism, sharding, most recomputation, and in powers of two replicas, microbatch and tensor degree.
std::vector<int> traits_of(const CandidatePlan&, const DevicePool&);

/// Equally many stages, the same recomputation, and the same types together in columns; whatever their cuts, degrees and microbatches.
bool same_shape(const CandidatePlan&, const CandidatePlan&, const DevicePool&);

}  // namespace flotilla::search::pool
