#pragma once
#include <functional>
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

/// A team that sums at one level (program/team_sum.hpp), as far as its time depends on it.
struct TeamShape {
  /// Inner teams that are alike.
  struct Inner {
    int members = 0;
    int beside = 0;  ///< most of them on one host: they move their pieces over the same cards
    int behind = 0;  ///< most of them behind one uplink, or behind none
    auto operator<=>(const Inner&) const = default;
  };
  std::vector<Rank> firsts;  ///< a member of each inner team, one after the other
  std::vector<Inner> inner;  ///< distinct
  int teams() const { return static_cast<int>(firsts.size()); }
};

/// By level, from the inside out, the teams of two or more inner ones.
std::vector<std::vector<TeamShape>> team_shapes(const program::Group&, const std::function<int(Rank)>& host,
                                                const std::function<int(Rank)>& uplink);

}  // namespace flotilla::simulate
