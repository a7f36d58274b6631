#pragma once
#include "realise.hpp"

namespace flotilla::search::rules {

/// A part of the pool in which plans are searched, and what is made once for it.
struct Scope {
  /// What a scope is for.
  enum class Use {
    all,            ///< every plan of these entries
    lone,           ///< no link leads to any of them: plans are one replica of one stage
    guess,          ///< good plans, without a proof: the entries of another scope whose devices have links among themselves
    guess_of_type,  ///< the same, those of one type
  };
  Scope(const Problem& whole, const std::vector<int>& entries, Use);

  Problem problem;
  Links links;
  std::vector<Measures> measures;
  Rings rings;
  Realiser realiser;
  Use use;
  bool is_guess() const { return use == Use::guess || use == Use::guess_of_type; }
};

/// Every plan is in the space of one of them: entries that links connect, of one type where plans must be of one type; and all entries
/// that no link leads to. What has no links is not known to the formulas. Tiny pools are not taken apart.
std::vector<std::unique_ptr<Scope>> scopes_of(const Problem&);

}  // namespace flotilla::search::rules
