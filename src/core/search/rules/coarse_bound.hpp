#pragma once
#include "plan_family.hpp"

namespace flotilla::search::rules {

struct BranchNode;

/// As what a stage of a kind may still be part of a plan: beside another kind; by itself.
constexpr char mixed_alive = 1, pure_alive = 2;

/// A first look at a node: dynamic programming over layers and units as in DpRelaxation, stage by stage from the last one on, in which a
/// stage of two kinds costs what the slower of them does and takes the units of the teams of both. No stages are listed: most nodes end
/// here.
class CoarseBound {
 public:
  /// It is quick where there is one side and few states.
  static bool suits(const PlanFamily&);
  /// Stages take at most `pace`, their reductions at most `reduction`.
  CoarseBound(const FormulaProblem&, const PlanFamily&, const BranchNode&, double pace, double reduction);

  /// No plan's sum of the stages' costs (DpRelaxation::time) is below this.
  double least() const { return least_; }
  /// Which stages some sum of at most `most` may have: by layers and kind, as DpRelaxation keeps it.
  void mark(double most, std::vector<char>& alive);
  /// By last layer: stages that there must be behind it, at least; -1: none can be.
  const std::vector<int>& behind() const { return behind_; }
  const std::vector<char>& alone() const { return alone_; }
  std::int64_t work() const { return work_; }

 private:
  /// Units, and the numbers of the states from which they can be taken.
  struct ReplicaNeed {
    int offset = 0;
    std::vector<int> states{};
    bool mixed = false;
  };
  /// Least sums of layers' costs: by stages at most, stages of two kinds at most (0, 1), units at most, and layer.
  class StateSums {
   public:
    void assign(int tables, int states, int layers);
    double* of(int table, int way, int state) { return &all_[(at(table * 2 + way) * states_ + at(state)) * size_]; }

   private:
    std::size_t states_ = 0, size_ = 0;
    std::vector<double> all_;
  };
  std::size_t at_row(int kind, int first) const { return (at(kind) * at(layers_) + at(first)) * at(layers_ + 1); }
  bool may_hold(int first, int last) const;
  void list_needs();
  void add_mixed_needs();
  ReplicaNeed need_of(const Units&) const;
  void add_costs(int first);
  void add_cost_row(int kind, int first);
  void relax_behind(int table, int first);
  void solve_front();
  void relax_front(int table, int first);
  bool is_within(double most, const ReplicaNeed&, int first, int last, bool one_is_mixed);

  const FormulaProblem& p_;
  const PlanFamily& family_;
  const BranchNode& branch_node_;
  double pace_, reduction_;
  int layers_, kinds_, states_ = 1, most_stages_;  ///< most_stages_: 0: any number
  bool twice_;
  std::vector<char> alone_;
  std::vector<std::vector<ReplicaNeed>> needs_;  ///< by kind
  std::vector<ReplicaNeed> shared_;              ///< by kind: of stages of two kinds, at least
  std::vector<int> behind_;
  std::vector<double> costs_;       ///< by kind, first layer and last layer; never: no such stage
  std::vector<int> ends_;           ///< by kind and first layer: one beyond the last layer of such stages
  StateSums of_behind_, of_front_;  ///< of the layers from one on; of those before it
  double least_ = 0;
  std::int64_t work_ = 0;
};

}  // namespace flotilla::search::rules
