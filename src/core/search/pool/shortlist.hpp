#pragma once
#include <map>
#include <vector>

#include "estimate.hpp"

namespace flotilla::search::pool {

struct RankedCandidate {
  CandidatePlan candidate;
  Estimate estimate;
};

/// Whether a search takes a second look at what it has passed by: of small pools, where the request fixes nothing. With an option fixed the
/// first look is at plans with that option alone.
bool is_looked_at_again(const DevicePool&);

/// The best candidates of every trait (traits_of), however far behind the best of all: of each so many, all of unlike shapes.
class BestOfTraits {
 public:
  BestOfTraits(const DevicePool& device_pool, std::size_t of_each) : device_pool_{device_pool}, of_each_{of_each} {}
  /// Of candidates that fit; those that the pool's nodes do not hold, or that the request forbids, are left out.
  void offer(const CandidatePlan&, const Estimate&);
  /// Each once, best first.
  std::vector<RankedCandidate> all() const;

 private:
  bool is_wanted(const std::vector<RankedCandidate>& of_trait, const CandidatePlan&, double value) const;
  void insert(std::vector<RankedCandidate>& of_trait, const CandidatePlan&, const Estimate&) const;

  const DevicePool& device_pool_;
  std::size_t of_each_;
  std::map<int, std::vector<RankedCandidate>> best_;  ///< by trait, best first
};

/// The most promising candidates by their estimates, few of each shape, so that an estimate that errs on one shape does not fill the list.
class Shortlist {
 public:
  Shortlist(const DevicePool& device_pool, std::size_t most)
      : device_pool_{device_pool},
        most_{most},
        by_trait_{device_pool, 1},
        of_traits_{device_pool, tuning::most_of_a_trait},
        looks_again_{is_looked_at_again(device_pool)} {}

  void offer(const CandidatePlan&, const Estimate&);
  /// What a generator estimates on its way to what it offers: it may be among the best of its traits.
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
  /// Several of every trait, of what was offered and of what was passed by; empty where the second look has no use for them.
  std::vector<RankedCandidate> some_by_trait() const { return of_traits_.all(); }
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
  BestOfTraits by_trait_, of_traits_;
  bool looks_again_;  ///< is_looked_at_again()
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
