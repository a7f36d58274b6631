#pragma once
#include <array>
#include <memory>

#include "best_plans.hpp"
#include "subproblem.hpp"

namespace flotilla::search::rules {

/// Branch and bound over families of plans (microbatch size, replicas) and nodes of them; see docs/design/plan-search.md.
class BranchAndBound {
 public:
  explicit BranchAndBound(const FormulaProblem&);
  void run();

  const std::vector<FormulaPlan>& plans() const { return best_.plans(); }
  /// No plan of the space is below this.
  double least() const { return std::min(least_, best_.value()); }
  bool finished() const { return !stopped_ && least_ >= target(); }
  bool stopped() const { return stopped_; }
  std::int64_t considered() const;
  std::int64_t pruned() const { return pruned_; }

 private:
  struct First {
    double pace, likely_pace, bound;  ///< at least
  };
  /// A microbatch size and a number of replicas; the rest is worked out when it is needed.
  struct Start {
    Subproblem* subproblem = nullptr;
    const Measures* measures = nullptr;
    int replicas = 0, microbatches = 0;
    bool by_rings = false;  ///< every stage's ring crosses regions
    First first{};
    std::array<std::unique_ptr<PlanFamily>, 3> families{};  ///< by grain
  };
  struct DpState {
    double bound = 0;
    int number = 0, start = 0;
    Grain grain = Grain::fine;
    BranchNode branch_node{};
    bool operator<(const DpState& o) const { return bound != o.bound ? bound > o.bound : number > o.number; }
  };
  double target() const;
  struct Likely {
    double value, time;
  };
  Likely likely(const Start&) const;
  bool told_to_stop() const { return problem_.request.should_stop && problem_.request.should_stop(); }
  void add_starts(Subproblem&);
  void add_start(Subproblem&, const Measures&, int replicas);
  void push_branch_nodes(const Subproblem&);
  void push_branch_nodes(int start);
  void drain(std::int64_t more);
  void try_likely(bool heuristic);
  void try_start(int start, double below);
  bool try_shape(int start, const StageShape&);
  static int least_pace(const FormulaProblem&, const Measures&, int replicas, bool whole);
  First first_bound(const FormulaProblem&, const Measures&, int replicas, int microbatches) const;
  PlanFamily& family(int start, Grain = Grain::fine);
  void push(double bound, int start, const BranchNode&, Grain = Grain::fine);
  void open(const DpState&);
  void push_depths(double bound, const DpState&);
  bool split(const DpState&, double bound, const DpRelaxation&, const RelaxedPath&);
  bool enumerate(const DpState&, const PlanFamily&, const DpRelaxation&, std::int64_t steps, bool little);
  Subproblem& subproblem(const DpState& node) const { return *starts_[at(node.start)].subproblem; }
  void leave(double bound);
  std::int64_t work() const;

  const FormulaProblem& problem_;
  ObjectiveBound value_;
  std::vector<std::unique_ptr<Subproblem>> subproblems_;
  BestPlans best_;
  std::vector<Start> starts_;
  std::vector<DpState> queue_;
  int nodes_ = 0;
  double least_ = never;  ///< of what was given up
  bool stopped_ = false;
  bool guessing_ = false;                                                       ///< what is given up is no bound
  std::int64_t pruned_ = 0, work_ = 0, most_work_, end_ = tuning::rules_steps;  ///< end_: of the part at hand
};

}  // namespace flotilla::search::rules
