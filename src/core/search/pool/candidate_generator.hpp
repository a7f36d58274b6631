#pragma once
#include <functional>
#include <set>

#include "balance.hpp"
#include "shortlist.hpp"

namespace flotilla::search::pool {

/// That candidates are tried under beside the usual one, as far as the runtime executes them: of one stage a device. Split backward passes
/// are left out of huge pools, where every estimate is dear.
std::vector<plan::ScheduleKind> other_schedules(const program::Runtime&, int devices);

/// Makes candidates, family by family, and offers them to a shortlist:
///   columns of one type each, side by side, whose shares follow their speed;
///   chains of types along the pipeline, what is left over side by side with them;
///   of a few devices all columns.
/// For each: depths, tensor degrees, microbatches, cuts that balance some kind of column, zones (the largest first), how many of the
/// devices, recomputation where memory asks for it.
class CandidateGenerator {
 public:
  CandidateGenerator(Estimator&, Network&, std::vector<plan::ScheduleKind> other_schedules, Shortlist&,
                     const std::function<bool()>& should_stop);
  /// `more_found`: called now and then, when candidates may have been added.
  void run(const std::function<void()>& more_found);
  bool stopped() const { return stopped_; }
  const std::vector<int>& microbatches() const { return microbatches_; }

 private:
  /// What a stage's replica is: a type and a tensor degree.
  struct Kind {
    int type = 0, tensor = 1;
    bool operator==(const Kind&) const = default;
  };
  using Pattern = std::vector<Kind>;  ///< by stage
  struct Option {
    int tensor = 1, microbatch = 1;
  };
  /// Devices that may still be taken, by place.
  using SubPool = std::vector<int>;

  // What there is
  void order_zones();
  std::vector<SubPool> sub_pools() const;
  SubPool within_limits(int first, bool whole_nodes) const;
  void fewer_zones();
  void least_memory();
  std::vector<int> present(const SubPool&) const;
  const std::vector<int>& degrees(int type) const { return degrees_[at(type)]; }
  std::vector<std::vector<int>> teams(const std::vector<int>& types) const;
  int usable(int place, int devices, int tensor) const;
  bool needs_recompute();

  // Columns of one type, side by side
  void side_by_side(plan::Recompute, const SubPool&);
  void side_by_side(plan::Recompute, const SubPool&, const std::vector<int>& team, int stages, const std::vector<int>& tensors);
  double least_value(const SubPool&, int type, int stages, const std::vector<int>& tensors, plan::Recompute);
  void add_cuts(std::set<Cut>&, const SubPool&, int type, bool alone, int stages, const std::vector<int>& tensors, plan::Recompute);
  double least_pace(const Cut&, const LeastPassTime&) const;
  std::vector<std::vector<double>> rates_of(const SubPool&, const std::vector<int>& team, const Cut&, const std::vector<Option>&);
  bool surely_too_large(const Cut&, int type, const Option&);
  void coordinate_descent(const SubPool&, const std::vector<int>& team, const Cut&, const std::vector<Option>&);

  // All columns of few devices
  void few_devices(std::int64_t most_estimates);
  void few_devices(const SubPool&, std::int64_t most_estimates);
  std::vector<SubPool> small_sub_pools() const;
  bool holds(const CandidatePlan&) const;
  bool next_degrees(std::vector<int>&) const;
  void few_devices(const std::vector<int>& degrees, const std::vector<std::vector<int>>& cuts);
  void add_kinds(CandidatePlan&, const std::vector<PipelineReplica>& kinds, std::size_t from, const std::vector<std::vector<int>>& cuts);
  void cut(const CandidatePlan& pipelines, const std::vector<std::vector<int>>& cuts);
  void least_recompute(CandidatePlan);

  // Several types along the pipeline
  void chains(plan::Recompute, const SubPool&);
  void chains_of_all(plan::Recompute, const SubPool&);
  void chain(plan::Recompute, const SubPool&, const Pattern&);
  void fill_up(CandidatePlan, const Pattern&, SubPool);

  /// As many columns of the pattern as the room holds, zone by zone, then across zones; takes their devices.
  void add_columns(CandidatePlan&, const Pattern&, int microbatch, SubPool&) const;
  bool add_across(CandidatePlan&, const Pattern&, int microbatch, SubPool&) const;
  /// At most so many columns of the pattern does the room hold.
  int most_columns(const Pattern&, const SubPool&) const;
  /// A column of it anywhere, to balance; no slots where there is none.
  PipelineReplica sample(const Pattern&, int microbatch, const SubPool&) const;
  /// At most what any candidate of so many of these columns comes to.
  double least_value(const Pattern&, int microbatch, double pipelines, plan::Recompute);
  Estimate offer(CandidatePlan);
  /// Above it no estimate changes the shortlist, where time alone counts.
  double worth_offering() const;
  void offer_fewer(const CandidatePlan&);
  void offer_sequence_parallel(CandidatePlan);
  /// So many more estimates.
  void allow(std::int64_t estimates) { budget_ = estimate_.count() + estimates; }
  bool stop();

  Estimator& estimate_;
  Network& network_;
  const DevicePool& device_pool_;
  std::vector<plan::ScheduleKind> other_schedules_;
  double least_fill_ = 0;  ///< Schedule::fill of whole stages, of all schedules that are tried
  Shortlist& list_;
  const std::function<bool()>& should_stop_;
  std::vector<int> microbatches_, depths_;
  std::vector<std::vector<int>> degrees_;  ///< by type
  std::vector<int> zones_;                 ///< in the order in which they are given up, the last one first
  SubPool small_sub_pool_;                 ///< that few_devices() is about
  std::int64_t budget_ = 0;
  bool fits_with_whole_tokens_ = false;  ///< whether any candidate did without sequence parallelism, or as the request fixes it
  bool stopped_ = false;
};

}  // namespace flotilla::search::pool
