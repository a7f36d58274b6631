#pragma once
#include <set>

#include "lay.hpp"

namespace flotilla::search::rules {

struct Candidate {
  simulate::SailorPlan plan;
  simulate::SailorEstimate estimate;
  double value = never;  ///< of the objective
  int devices = 0;
};

/// Turns shapes into plans: counts out replicas of mixed stages, gives each a zone, puts them in an order.
class Realiser {
 public:
  Realiser(const Problem&, const Rings&);

  /// The best plan found of that shape that is feasible and keeps the limits; value `never` when there is none. `below`: plans above need
  /// not be looked at.
  Candidate best(const Shape&, double below);
  /// The plan with layers moved between neighbouring stages as long as that helps.
  Candidate moved(const Candidate&);
  /// True: every assignment of replicas to kinds, zones and places is tried for every cut, which only small pools allow.
  bool exhaustive() const { return p_.tiny; }
  std::int64_t considered() const { return considered_; }

 private:
  struct Need {
    int kind, count;
  };
  using Needs = std::vector<std::vector<Need>>;  ///< by stage

  void try_all(const Shape&);
  void assign(const Shape&, std::size_t stage, int replica);
  bool may_join(std::size_t stage, int kind) const;
  Shape mended(const Shape&) const;
  void place(const Shape&, const Needs&);
  static Needs count_out(const Shape&, bool most);
  bool by_stage(const Needs&, const std::vector<int>& order, bool whole_first);
  bool by_column(const Shape&, const Needs&, const std::vector<int>& order);
  void begin(const Shape&);
  bool put(std::size_t stage, int kind, int count, const std::vector<int>& order, bool whole_first);
  void add(std::size_t stage, int kind, int entry, int count);
  void consider();
  void improve();
  bool improve_stage(std::size_t stage);
  void order_ring(std::size_t stage);
  bool try_swap(std::size_t stage, std::size_t other, int entry, int into);
  bool keeps_limits(const Candidate&) const;

  const Problem& p_;
  const Rings& rings_;
  std::vector<std::vector<int>> orders_;  ///< of the pool's entries
  std::vector<int> room_;                 ///< devices left, by entry
  double least_pace_ = never;             ///< above: no need to look
  Candidate tried_, best_;
  std::set<std::vector<int>> done_;  ///< cuts that were tried exhaustively
  std::int64_t considered_ = 0;
};

/// Better by the objective; of equals the one with fewer devices, or the faster.
bool is_better(const Candidate&, const Candidate&);

}  // namespace flotilla::search::rules
