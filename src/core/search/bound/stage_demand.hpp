#pragma once
#include <span>

#include "flotilla/search/bound_proof.hpp"
#include "sum_times.hpp"

/// How many devices of a type a stage takes at least, if the whole batch is to pass it and the iteration is to end within some time.
namespace flotilla::search::bound {

/// For every stage [first, last) of the model and every type: the least number of its devices, fractions of them where several types may
/// share a stage. impossible: no number is enough.
class StageDemand {
 public:
  StageDemand(int layers, int types) : layers_{layers}, types_{types}, least_(at((layers + 1) * (layers + 1) * types), impossible) {}
  double* of(int first, int last) { return &least_[at((first * (layers_ + 1) + last) * types_)]; }
  const double* of(int first, int last) const { return &least_[at((first * (layers_ + 1) + last) * types_)]; }
  int layers() const { return layers_; }
  int types() const { return types_; }

 private:
  int layers_, types_;
  std::vector<double> least_;
};

/// Which plans the bound is of, as far as it matters here.
struct Space {
  bool whole = false;   ///< backward passes are whole: a stage waits for a microbatch's way there and back
  bool splits = false;  ///< they are made in halves: it waits for the way there, and gradients of weights may be made later
  int chunks = 1;       ///< most stages of a device where schedules are interleaved; 1: none are
  bool sharded = true;  ///< optimizers may be; that they are not is always looked at, for the search tries sharding only where it must
  /// Every stage has as many replicas, and a microbatch travels whole through all stages. Else microbatches may differ from stage to stage.
  bool pipeline_replicas = true;
};

/// Replicas of every stage: from `least` to `most`.
struct ReplicaCount {
  int least = 1, most = 1;
  bool operator==(const ReplicaCount&) const = default;
};

class StageBounds {
 public:
  StageBounds(const pool::DevicePool&, const LeastLayerCosts&, SumTable&, const Space&);

  const Space& space() const { return space_; }
  /// Within `seconds`, of plans with so many replicas in every stage. `by_batch`: how much of a stage's replicas counts by the part of the
  /// batch that they take; the rest counts by their number. Replicas of a whole stage come to 1 or more either way.
  StageDemand demand(double seconds, const ReplicaCount&, double by_batch);
  /// What the objective's price of the devices of a stage comes to at least, by type, where an iteration ends within `seconds` (which may
  /// be infinite). In the place of devices.
  StageDemand expense(double seconds);
  /// What every replica of every stage can take at most within `seconds`; those that can take nothing are left out.
  void list_replicas(double seconds, const ReplicaCount&, std::vector<BoundProof::Replica>&);

 private:
  /// What a replica may do within the time.
  struct Share {
    int alone = 0;     ///< sequences, where no other replica holds the stage
    int one_host = 0;  ///< where all others stand on its host
    int many = 0;      ///< where others stand on other hosts
  };
  /// Of the layers before each, at least: seconds of one microbatch, there and back. `chunked`: of those before a device's first chunk.
  struct Waits {
    std::vector<double> there, back, chunked_there, chunked_back;
  };
  void set_waits();
  Waits waits_of(double sequences, const ByKind& forward, const ByKind& both) const;
  /// Microbatches of one size through a stage, which fit its memory; by all that does not depend on the time allowed.
  struct Pass {
    double rate = 0;                    ///< seconds of a sequence, at least
    double wait = 0, wait_of_sums = 0;  ///< seconds before it and after it, and before its sums
    double hides = 0, hides_later = 0;  ///< seconds of sums: while the last one goes back; while one more makes its weights' gradients
    int least = 1;                      ///< sequences
    double least_wait = 0;              ///< seconds: of this size's wait and of all smaller ones', whose rate is no better
  };
  /// What follows a stage's passes on a replica, at least, by what the stage holds: seconds of its optimizer where it is not sharded, and
  /// where hosts share the stage of what cannot hide, and of all sums and what follows them.
  struct Remainder {
    double update = 0, after_passes = 0, after_all = 0;
  };
  std::size_t number_of(const ReplicaOption& option) const { return static_cast<std::size_t>(&option - costs_.options.data()); }
  /// Of the stages' ends and blocks: equal for all that follows from them alone.
  std::size_t content_of(const Interval& i) const {
    return ((costs_.begins(i) ? 1U : 0U) + (costs_.ends(i) ? 2U : 0U)) * at(costs_.layers) + at(costs_.blocks(i));
  }
  const Remainder& remainder(const ReplicaOption&, const Interval&, std::size_t number_of_groups);
  void set_remainders(const ReplicaOption&, std::size_t number_of_groups, std::vector<Remainder>&);
  void add_passes(const ReplicaOption&, const Interval&);
  std::span<const Pass> passes(const ReplicaOption&, const Interval&) const;
  double wait(const MicrobatchCosts&, double rate, const Waits&, const Interval&) const;
  double hidden(const Pass&, const Interval&, double seconds) const;
  double update(const ReplicaOption&, const Interval&) const;
  double after_all(const ReplicaOption&, const Interval&, int groups) const;
  double after_passes(const ReplicaOption&, const Interval&, int groups) const;
  int many(const ReplicaOption&, const Interval&, double seconds, std::size_t number_of_groups, int most_of_fewer);
  Share share(const ReplicaOption&, const Interval&, double seconds, const ReplicaCount&);
  void add_shares(const Interval&, double seconds, const ReplicaCount&, std::vector<Share>&);
  int groups_needed(std::span<const Share>, const ReplicaCount&) const;
  void add_demand(std::span<const Share>, const ReplicaCount&, double by_batch, double* least) const;
  double expense_of(const ReplicaOption&, const Interval&, double seconds);

  const pool::DevicePool& device_pool_;
  const LeastLayerCosts& costs_;
  SumTable& sums_;
  Space space_;
  std::vector<Waits> waits_;  ///< by size of microbatch
  std::vector<Pass> passes_;
  std::vector<std::size_t> first_pass_;             ///< of an option in an interval; intervals in their order, and an end
  std::vector<std::vector<Remainder>> remainders_;  ///< by number of groups and option, once asked for; then by ends and blocks
  // Of the last demand: the shares of all intervals, which do not depend on what counts.
  double seconds_ = -1;
  ReplicaCount count_;
  std::vector<Share> shares_;
};

}  // namespace flotilla::search::bound
