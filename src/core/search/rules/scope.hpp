#pragma once
#include "realise.hpp"

namespace flotilla::search::rules {

/// A part of the pool in which plans are searched, and what is made once for it.
struct Scope {
  Scope(const Problem& whole, const std::vector<int>& entries);

  Problem problem;
  Links links;
  std::vector<Measures> measures;
  Rings rings;
  Realiser realiser;
};

/// Every plan is in the space of one of them: the pool, or its types one by one where plans must be of one type.
std::vector<std::unique_ptr<Scope>> scopes_of(const Problem&);

}  // namespace flotilla::search::rules
