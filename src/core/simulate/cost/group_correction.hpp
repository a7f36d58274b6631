#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "flotilla/cluster/transports.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

/// How whole groups of GPUs differ from what their pairs predict, by the groups that were measured whole (cluster::GroupSum). A group takes
/// after a measured one that stands as it does: inside a host, one member on each host, or several. The effect grows with the members, from
/// what was measured of two: of our sums a pair is what predicts, of a library's a group of its own.
class GroupCorrection {
 public:
  using Predict = std::function<Seconds(const program::Group&, Bytes)>;
  /// Holds a reference to the profile. `algorithm`: of the groups; direct or library_all_reduce. `predict`: an all-reduce by pairs alone.
  GroupCorrection(const cluster::Profile&, cluster::Transport, program::Group::Algorithm algorithm, Predict);

  /// Time of a sum of so many bytes, over what pairs predict. `count`: of members, where those given stand for more.
  double factor(const std::vector<Rank>& members, std::size_t count, Bytes);
  /// Equal for groups of one size that are corrected alike.
  std::uint64_t kind_of(const std::vector<Rank>& members, std::size_t count);

 private:
  enum class Stand { inside, one_each, several };
  struct Known {
    const cluster::GroupSum* sum;
    program::Group group;  ///< as the probe made it: hosts and zones sum inside first
    Stand stand;
    std::map<std::int64_t, double> by_bytes{};
    std::size_t size() const { return group.members.size(); }
  };
  /// Indices of what a group takes after, -1: nothing.
  struct Alike {
    int pair = -1, whole = -1;
  };
  Stand stand_of(const std::vector<Rank>& members) const;
  Alike alike(const std::vector<Rank>& members, std::size_t count);
  Alike find_alike(const std::vector<Rank>& members, std::size_t count) const;
  double excess(int known, Bytes);

  const cluster::Profile& profile_;
  Predict predict_;
  std::vector<Known> known_;
  std::map<std::pair<std::vector<Rank>, std::size_t>, Alike> found_;
};

}  // namespace flotilla::simulate
