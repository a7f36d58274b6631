#pragma once
#include <set>

#include "stage_enumerator.hpp"

namespace flotilla::search::rules {

struct FormulaPlan {
  sailor::SailorPlan plan;
  sailor::SailorEstimate estimate;
  double value = never;  ///< of the objective
  int devices = 0;
};

/// Turns shapes into plans: counts out replicas of mixed stages, gives each a zone, puts them in an order.
class ZoneAssigner {
 public:
  ZoneAssigner(const FormulaProblem&, const Rings&);

  /// The best plan found of that shape that is feasible and keeps the limits; value `never` when there is none. `below`: plans above need
  /// not be looked at.
  FormulaPlan best(const StageShape&, double below);
  /// The plan with layers moved between neighbouring stages as long as that helps.
  FormulaPlan moved(const FormulaPlan&);
  /// True: every assignment of replicas to kinds, zones and places is tried for every cut, which only small pools allow.
  bool exhaustive() const { return p_.tiny; }
  std::int64_t considered() const { return considered_; }

 private:
  struct ReplicaNeed {
    int kind, count;
  };
  using Needs = std::vector<std::vector<ReplicaNeed>>;  ///< by stage

  void try_all(const StageShape&);
  void assign(const StageShape&, std::size_t stage, int replica);
  bool may_join(std::size_t stage, int kind) const;
  StageShape mended(const StageShape&) const;
  void place(const StageShape&, const Needs&);
  static Needs count_out(const StageShape&, bool most);
  bool by_stage(const Needs&, const std::vector<int>& order, bool whole_first);
  bool by_column(const StageShape&, const Needs&, const std::vector<int>& order);
  void begin(const StageShape&);
  bool put(std::size_t stage, int kind, int count, const std::vector<int>& order, bool whole_first);
  const std::vector<int>& entries_of(int kind) const { return across_ ? wide_[at(kind)] : p_.kinds[at(kind)].entries; }
  void add(std::size_t stage, int kind, int entry, int count);
  enum class SwapPart { all, half, balance, one };
  void consider();
  void improve();
  bool improve_stage(std::size_t stage);
  void order_ring(std::size_t stage);
  bool try_swap(std::size_t stage, std::size_t other, int entry, int into, SwapPart);
  void follow(std::size_t stage, std::size_t neighbour);
  bool keeps_constraints(const FormulaPlan&) const;
  bool keeps_limits(const FormulaPlan&) const;

  const FormulaProblem& p_;
  const Rings& rings_;
  std::vector<std::vector<int>> orders_;  ///< of the pool's entries
  std::vector<std::vector<int>> wide_;    ///< by kind: entries, those of its type in other regions too
  bool across_ = false;
  std::vector<int> room_;      ///< devices left, by entry
  double least_pace_ = never;  ///< above: no need to look
  FormulaPlan tried_, best_;
  std::set<std::vector<int>> done_;  ///< cuts that were tried exhaustively
  std::int64_t considered_ = 0;
};

/// Better by the objective; of equals the one with fewer devices, or the faster.
bool is_better(const FormulaPlan&, const FormulaPlan&);

}  // namespace flotilla::search::rules
