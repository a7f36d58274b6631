#include "node_shape.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "flotilla/base/error.hpp"

namespace flotilla::simulate {
namespace {

constexpr std::size_t most_devices = 16;

/// Links between positions of the list of devices.
using Links = std::vector<std::vector<int>>;
/// Positions, in the order in which they are passed.
using Way = std::vector<int>;

Links links_among(const cluster::NodeLinks& all, const std::vector<int>& devices) {
  Links links(devices.size(), std::vector<int>(devices.size(), 0));
  const auto position = [&](int device) { return static_cast<std::size_t>(std::ranges::find(devices, device) - devices.begin()); };
  for (const auto& bundle : all.bundles) {
    const std::size_t a = position(bundle.a), b = position(bundle.b);
    if (a < devices.size() && b < devices.size()) links[a][b] += bundle.links, links[b][a] += bundle.links;
  }
  return links;
}

/// Every way through all positions, one of its two directions.
class Ways {
 public:
  Ways(const Links& links, bool closed) : links_{links}, closed_{closed} {
    const int starts = closed ? 1 : static_cast<int>(links.size());
    for (int start = 0; start < starts; ++start) extend({start});
  }
  std::vector<Way> all;

 private:
  void extend(const Way& way) {
    if (way.size() == links_.size()) {
      const bool returns = !closed_ || links_[at(way.back())][at(way.front())] > 0;
      const bool first_direction = closed_ ? way[1] < way.back() : way.front() < way.back();
      if (returns && first_direction) all.push_back(way);
      return;
    }
    for (int next = 0; next < static_cast<int>(links_.size()); ++next) {
      if (links_[at(way.back())][at(next)] == 0 || std::ranges::count(way, next) > 0) continue;
      Way longer = way;
      longer.push_back(next);
      extend(longer);
    }
  }
  static std::size_t at(int position) { return static_cast<std::size_t>(position); }

  const Links& links_;
  const bool closed_;
};

/// The most ways that share no link.
class Packing {
 public:
  Packing(Links links, std::vector<Way> ways, bool closed) : left_{std::move(links)}, ways_{std::move(ways)}, closed_{closed} {}
  int most() {
    search(0, 0);
    return most_;
  }

 private:
  /// No more than the links that are left allow.
  int bound() const {
    int ends = 0, least = 1 << 20;
    for (const auto& row : left_) {
      int degree = 0;
      for (const int links : row) degree += links;
      ends += degree;
      least = std::min(least, degree);
    }
    const auto devices = static_cast<int>(left_.size());
    return closed_ ? least / 2 : ends / 2 / (devices - 1);
  }

  void search(std::size_t from, int taken) {
    most_ = std::max(most_, taken);
    for (std::size_t w = from; w < ways_.size() && taken + bound() > most_; ++w) {
      if (!take(ways_[w], 1)) continue;
      search(w, taken + 1);  // the same way again, over another link of each bundle
      take(ways_[w], -1);
    }
  }

  /// Takes its links, or gives them back; false when one is missing.
  bool take(const Way& way, int links) {
    const std::size_t steps = closed_ ? way.size() : way.size() - 1;
    const auto step = [&](std::size_t s) {
      return std::pair{static_cast<std::size_t>(way[s]), static_cast<std::size_t>(way[(s + 1) % way.size()])};
    };
    for (std::size_t s = 0; s < steps; ++s)
      if (links > 0 && left_[step(s).first][step(s).second] < links) return false;
    for (std::size_t s = 0; s < steps; ++s) {
      left_[step(s).first][step(s).second] -= links;
      left_[step(s).second][step(s).first] -= links;
    }
    return true;
  }

  Links left_;
  const std::vector<Way> ways_;
  const bool closed_;
  int most_ = 0;
};

int most_ways(const Links& links, bool closed) { return Packing{links, Ways{links, closed}.all, closed}.most(); }

}  // namespace

NodeShape shape_of(const cluster::NodeLinks& all, const std::vector<int>& devices) {
  FLOTILLA_REQUIRE(devices.size() <= most_devices, ErrorKind::bad_input, "a node without a switch has ", devices.size(),
                   " devices in one group; links are followed among at most ", most_devices);
  const Links links = links_among(all, devices);
  if (devices.size() < 2) return {};
  if (devices.size() == 2) return {links[0][1], links[0][1]};
  return {2 * most_ways(links, true), most_ways(links, false)};
}

}  // namespace flotilla::simulate
