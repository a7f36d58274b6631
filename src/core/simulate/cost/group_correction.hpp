#pragma once
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "flotilla/cluster/transports.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

/// How whole groups of GPUs differ from what their pairs predict, by the groups that were measured whole (cluster::GroupSum). A group takes
/// after a measured one that stands as it does: inside a host, one member on each host, or several. The effect grows with the members: a
/// group of two is a pair, and was measured as one.
class GroupCorrection {
 public:
  using Predict = std::function<Seconds(const program::Group&, Bytes)>;
  /// Holds a reference to the profile. `predict`: an all-reduce by pairs alone.
  GroupCorrection(const cluster::Profile&, cluster::Transport, Predict);

  /// Time of a sum of so many bytes, over what pairs predict. `count`: of members, where those given stand for more.
  double factor(const std::vector<Rank>& members, std::size_t count, Bytes);
  /// Equal for groups of one size that are corrected alike.
  int index_of(const std::vector<Rank>& members, std::size_t count);

 private:
  enum class Stand { inside, one_each, several };
  struct Known {
    const cluster::GroupSum* sum;
    program::Group group;  ///< as the probe made it: hosts and zones sum inside first
    Stand stand;
    std::map<std::int64_t, double> by_bytes{};
  };
  Stand stand_of(const std::vector<Rank>& members) const;
  double excess(Known&, Bytes);

  const cluster::Profile& profile_;
  Predict predict_;
  std::vector<Known> known_;
  std::map<std::pair<std::vector<Rank>, std::size_t>, int> found_;
};

}  // namespace flotilla::simulate
