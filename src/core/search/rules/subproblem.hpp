#pragma once
#include "zone_assigner.hpp"

namespace flotilla::search::rules {

/// A part of the pool in which plans are searched, and what is made once for it.
struct Subproblem {
  /// What a scope is for.
  enum class Use {
    all,                ///< every plan of these entries
    isolated,           ///< no link leads to any of them: plans are one replica of one stage
    heuristic,          ///< good plans, without a proof: the entries of another scope whose devices have links among themselves
    heuristic_of_type,  ///< the same, those of one type
  };
  Subproblem(const FormulaProblem& whole, const std::vector<int>& entries, Use);

  FormulaProblem problem;
  Links links;
  std::vector<Measures> measures;
  Rings rings;
  ZoneAssigner zone_assigner;
  Use use;
  bool is_heuristic() const { return use == Use::heuristic || use == Use::heuristic_of_type; }
};

/// Every plan is in the space of one of them: entries that links connect, of one type where plans must be of one type; and all entries
/// that no link leads to. What has no links is not known to the formulas. Tiny pools are not taken apart.
std::vector<std::unique_ptr<Subproblem>> subproblems_of(const FormulaProblem&);

}  // namespace flotilla::search::rules
