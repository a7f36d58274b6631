#pragma once
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

/// A subgroup that sums at one level (program/hierarchical_all_reduce.hpp), as far as its time depends on it.
struct SubgroupShape {
  /// Inner subgroups that are alike.
  struct Inner {
    int members = 0;
    int beside = 0;  ///< most of them on one host: they move their pieces over the same cards
    int behind = 0;  ///< most of them behind one uplink, or behind none
    auto operator<=>(const Inner&) const = default;
  };
  std::vector<Rank> firsts;  ///< a member of each inner subgroup, one after the other
  std::vector<Inner> inner;  ///< distinct
  int subgroups() const { return static_cast<int>(firsts.size()); }
};

/// By level, from the inside out, the subgroups of two or more inner ones.
using SubgroupShapes = std::vector<std::vector<SubgroupShape>>;
/// Equal numbers for lists of ranks that equal links join.
using SubgroupLinks = std::function<std::uint64_t(const std::vector<Rank>&)>;
/// `host`, `uplink`: equal numbers for ranks on one host, behind one uplink. With `links`, of a level's subgroups that take equally long
/// one is kept: where the slowest decides, the others say nothing more.
SubgroupShapes subgroup_shapes(const program::Group&, const std::function<int(Rank)>& host, const std::function<int(Rank)>& uplink,
                               const SubgroupLinks& links);

/// Remembers them: programs and searches ask for the same groups again and again, with other numbers of bytes.
class SubgroupShapeCache {
 public:
  /// As subgroup_shapes() takes them.
  struct Where {
    std::function<int(Rank)> host, uplink;
    SubgroupLinks links{};
  };
  explicit SubgroupShapeCache(Where where) : where_{std::move(where)} {}
  /// The answer holds until the next call.
  const SubgroupShapes& of(const program::Group&);

 private:
  struct Known {
    std::vector<Rank> members;
    std::vector<std::vector<int>> subgroups;
    SubgroupShapes shapes;
  };

  Where where_;
  std::unordered_map<std::uint64_t, Known> known_;  ///< by a hash of members and subgroups
  std::size_t ranks_ = 0;                           ///< that are remembered
};

}  // namespace flotilla::simulate
