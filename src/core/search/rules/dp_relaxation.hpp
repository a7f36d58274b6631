#pragma once
#include <algorithm>
#include <optional>

#include "coarse_bound.hpp"
#include "objective_bound.hpp"
#include "path_sweep.hpp"
#include "plan_family.hpp"

namespace flotilla::search::rules {

/// How many stages: in pipelines of more than three, the first one sends twice.
enum class Depth { any, few, many };

/// Plans of a family that are looked at together: their slowest stage, their longest reduction and their price lie in these ranges.
struct BranchNode {
  Depth depth = Depth::any;
  int blocks = -1;  ///< that every stage holds, or one more; -1: any number
  double above = 0, pace = never;
  double above_reduction = 0, reduction = never;
  double above_price = 0, price = never;  ///< per hour
  double above_time = 0;                  ///< of an iteration
};

/// A stage of a path: layers, and the number of its team.
struct PathStage {
  int first = 0, last = 0, stage_group = 0;
};
/// The best way through all layers by the relaxed costs, and what it comes to by them.
struct RelaxedPath {
  std::vector<PathStage> steps;  ///< first stage first
  double sum = 0, pace = 0, reduction = 0, price = 0;
  double mean_pace = 0, mean_reduction = 0;  ///< as the bound counts them
  double time(int microbatches) const { return sum + (microbatches - 1) * pace + reduction; }
};

/// What the layers in front of a node take at least when so many units of every resource are left, for every node and all units: dynamic
/// programming over layers and units. The time of a plan is sum + (n - 1) pace + reduction + update; the maxima are at least the means over
/// the stages, weighted by their shares of the work, each stage's time at least the node's lower end. So the bound is a sum over stages; it
/// is close where stages are even or the node is narrow. Only stages that some plan below `target` can have by these sums are looked at.
class DpRelaxation {
 public:
  /// `coarse_bound`: a bound that is soon found will do; then the rest may not be known.
  DpRelaxation(const FormulaProblem&, const PlanFamily&, const BranchNode&, const ObjectiveBound&, double target,
               bool coarse_bound = false);

  /// Of the value of all plans in the node that are below the target.
  double bound() const { return bound_; }
  /// The best by time, or by the blend where the goal is a price; none where the bound is not below the target.
  std::optional<RelaxedPath> path() const;

  DpState node(int layer, int side) const { return layer < layers_ ? layer * sides_ + side : layers_ * sides_; }
  int all() const { return states_ - 1; }
  /// The units that are left without those of a team; -1 where there are fewer.
  int without(int units, int stage_group) const;
  /// Every unit of the first is at most that of the second.
  bool at_most(int units, int others) const;
  /// `stages`: that may still be laid, where the node is of few; `mix`: one of them may be of two kinds.
  double time(DpState node, int units, bool mix, int stages) const { return of(time_, node, units, mix, stages); }
  double price(DpState node, int units, bool mix, int stages) const { return of(price_, node, units, mix, stages); }
  /// least_price() x time + least_time() x price: for bounds on time x price, which is at least this - least_time() x least_price().
  double blend(DpState node, int units, bool mix, int stages) const { return of(blend_, node, units, mix, stages); }
  double least_time() const { return least_time_; }
  /// Steps of work that went into it: about as many nanoseconds.
  std::int64_t work() const { return work_; }
  double least_price() const { return least_price_; }
  /// Of plans of the node that cost at most `price` per hour.
  double least_time_below(double price) const;

 private:
  enum Quantity : std::size_t { time_, price_, blend_ };
  struct StateRun {
    int start, length;
  };
  std::size_t spot(DpState node, int units, bool mix, int stages) const {
    const int table = branch_node_.depth == Depth::few ? stages - 1 : 0;
    return ((at(table) * ways_ + (mix && ways_ > 1 ? 1 : 0)) * at(nodes_) + at(node)) * at(states_) + at(units);
  }
  double of(Quantity what, DpState node, int units, bool mix, int stages) const {
    return tables_[what].empty() ? 0 : tables_[what][spot(node, units, mix, stages)];
  }
  bool few() const { return branch_node_.depth == Depth::few; }
  bool twice() const { return branch_node_.depth == Depth::many; }
  double price_of(const StageMove& m) const { return family_.stage_groups()[at(m.stage_group)].price; }
  double cost(Quantity, const StageMove&) const;
  double value_of_blend(double blend) const;
  double most_blend(double target) const;
  void limit_maxima(double target);
  void collect_moves();
  bool may_hold(int first, int last) const;
  bool has_units(const StageGroup&) const;
  void mark_alive(char as);
  void collect_mixed_moves();
  void add_stage_types(int first, int last, const char* alive);
  bool add_move(int first, int last, int stage_type, double time, double reduction);
  double weighted(double time, double reduction, double share) const {
    return time + share * ((microbatches_ - 1) * std::max(time, branch_node_.above) + std::max(reduction, branch_node_.above_reduction));
  }
  void sort_moves();
  bool list(double target);
  bool coarse_bound(double target, bool only);
  bool filter(double target);
  bool charge(double target, bool for_all);
  double multiplier_cost_of(const StageType&, const Multipliers&, bool for_all) const;
  double units(std::size_t resource, bool for_all) const { return for_all ? family_.all_units(resource) : family_.units(resource); }
  double charges(const Multipliers&, bool for_all, std::vector<double>& costs) const;
  double step(const PathSweep&, double by, bool for_all, Multipliers&) const;
  std::vector<double> costs(Quantity) const;
  void filter_by_price(double target);
  void keep(const PathSweep&, const std::vector<double>& costs, double most);
  void list_stage_groups();
  void number_states();
  void solve(Quantity);
  bool find_step(Quantity, DpState&, int& units, bool& mix, int& stages, RelaxedPath&) const;

  const FormulaProblem& p_;
  const PlanFamily& family_;
  const BranchNode& branch_node_;
  const ObjectiveBound& value_;
  int layers_, sides_, nodes_, microbatches_, most_stages_, states_ = 1;
  std::size_t ways_;              ///< without a stage of two kinds; with one
  std::vector<char> alone_;       ///< by kind: there are devices for a stage of it
  std::vector<int> behind_;       ///< by layer: stages that there must be behind it, at least; -1: none can be
  std::vector<StageMove> moves_;  ///< by last layer
  std::array<int, most_resources> strides_{};
  std::vector<int> offsets_;                 ///< by team
  std::vector<std::vector<StateRun>> runs_;  ///< by team: states with enough units
  std::array<std::vector<double>, 3> tables_;
  std::vector<double> least_;           ///< by look, of the layers that are looked at
  std::vector<char> possible_, alive_;  ///< by kind; by layers (any kind) and kind: CoarseBound::mark
  bool quick_ = false;                  ///< a coarse bound was had at it
  double most_pace_ = never, most_reduction_ = never;
  double least_time_ = 0, least_price_ = 0, bound_ = never;
  std::int64_t work_ = 0;
};

}  // namespace flotilla::search::rules
