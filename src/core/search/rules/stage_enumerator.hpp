#pragma once
#include <functional>
#include <queue>
#include <unordered_map>

#include "dp_relaxation.hpp"

namespace flotilla::search::rules {

/// A plan without zones: layers, and how many replicas of each stage are of which kind.
struct StageShape {
  struct Stage {
    int first_layer = 0, last_layer = 0;
    int kind = 0, other = -1;  ///< other: of the replicas that are not of `kind`
    int least = 0, most = 0;   ///< replicas of `kind`, where there is another
  };
  const Measures* measures = nullptr;
  int replicas = 0;
  double bound = 0;     ///< of the objective's value: no plan of this shape is below it
  bool across = false;  ///< replicas of a kind may stand in every region
  std::vector<Stage> stages;
};
StageShape shape_of(const PlanFamily&, const RelaxedPath&, double bound);

/// Enumerates the shapes of a node in the order of their bounds: stages are laid from the last one on (what a stage holds in memory
/// depends on how many stand behind it), the partial plan with the least bound first; of partial plans with the same layers left and the
/// same kinds in front, worse ones are dropped.
class StageEnumerator {
 public:
  StageEnumerator(const FormulaProblem&, const PlanFamily&, const BranchNode&, const ObjectiveBound&, const DpRelaxation&,
                  std::int64_t most_work);

  /// Excludes what cannot be below `value`, from here on.
  void must_beat(double value) { most_ = value; }
  /// The next shape; nothing when none is left below must_beat(), when `stop` says so, or when the room is used up.
  std::optional<StageShape> next(const std::function<bool()>& stop);
  /// No shape that is still to come is below this.
  double least_open() const { return queue_.empty() ? never : queue_.top().bound; }
  std::int64_t pruned() const { return pruned_; }
  std::int64_t work() const { return work_; }

 private:
  struct StageLabel {
    int parent = -1, stage_group = -1, units = 0;
    std::int16_t first_layer = 0, stages = 0;
    bool mixed = false, dead = false;  ///< dead: a later one is as good in everything
    double pace = 0, sum = 0;          ///< of closed stages: those whose both neighbours are laid
    double open = 0;                   ///< of the first stage, without what it sends to the one before it
    double update = 0, reduction = 0, price = 0;
  };
  struct OpenLabel {
    double bound;
    int stages, label;
    bool operator<(const OpenLabel& o) const {
      return bound != o.bound ? bound > o.bound : stages != o.stages ? stages > o.stages : label > o.label;
    }
  };
  void expand(int label);
  bool may_hold(const StageLabel& from, int first) const;
  void add_stage(int parent, int first, int stage_group);
  double sending(const StageGroup& from, const StageGroup& to, int layer) const;
  double bound(const StageLabel&) const;
  bool dominated(const StageLabel&);
  bool dominates(const StageLabel& x, const StageLabel& y) const;
  StageShape finished(int label, double bound) const;

  const FormulaProblem& p_;
  const PlanFamily& family_;
  const BranchNode& branch_node_;
  const ObjectiveBound& value_;
  const DpRelaxation& rest_;
  const Measures& measures_;
  std::int64_t most_work_;
  double most_ = never;
  std::vector<StageLabel> labels_;
  std::priority_queue<OpenLabel> queue_;
  std::unordered_map<std::uint64_t, std::vector<int>> alike_;
  std::int64_t pruned_ = 0, work_ = 0;
};

}  // namespace flotilla::search::rules
