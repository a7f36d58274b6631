#include "losses.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "statistics.hpp"

namespace flotilla::bench {
namespace {

constexpr double lossy = 0.003, very_lossy = 0.01;  // of the segments; congestion by a single flow makes fewer
constexpr double beside_others = 5;                 // times the usual share
constexpr std::int64_t fewest_segments = 500;

struct Losses {
  std::int64_t segments = 0, resent = 0;
  double share() const { return static_cast<double>(resent) / static_cast<double>(segments); }
};
using PairLosses = std::map<std::pair<std::string, std::string>, Losses>;

PairLosses losses_of(const BenchReport& report) {
  PairLosses pairs;
  for (const auto& link : report.links) {
    if (link.from == link.to) continue;
    auto& losses = pairs[std::minmax(link.from, link.to)];
    losses.segments += link.segments, losses.resent += link.resent;
  }
  std::erase_if(pairs, [](const auto& pair) { return pair.second.segments < fewest_segments; });
  return pairs;
}

/// A node's links together, and how many of them lose.
struct NodeLosses {
  Losses all;
  int pairs = 0, lossy_pairs = 0;
};

}  // namespace

void judge_losses(const BenchReport& report, NetworkReasons& reasons) {
  const auto pairs = losses_of(report);
  if (pairs.empty()) return;
  std::vector<double> shares;
  for (const auto& [hosts, losses] : pairs) shares.push_back(losses.share());
  const double usual = median_of(shares), limit = std::max(lossy, beside_others * usual);
  if (usual > lossy)
    reasons.others.push_back(
        {"network",
         Grade::watch,
         {{Grade::watch, "losses",
           text(percent(usual), " of TCP's segments are sent again in the median of all links; look for congestion, and ethtool -S")}}});
  std::map<std::string, NodeLosses> nodes;
  for (const auto& [hosts, losses] : pairs)
    for (const auto& host : {hosts.first, hosts.second}) {
      auto& node = nodes[host];
      node.all.segments += losses.segments, node.all.resent += losses.resent;
      ++node.pairs, node.lossy_pairs += losses.share() > limit ? 1 : 0;
    }
  for (const auto& [host, node] : nodes)
    if (2 * node.lossy_pairs > node.pairs && node.pairs > 1)
      reasons.nodes[host].push_back(
          {node.all.share() > very_lossy ? Grade::drain : Grade::watch, "losses",
           text("its links lose packets: ", percent(node.all.share()), " of TCP's segments are sent again, where ", percent(usual),
                " is the median; ethtool -S, cable, port")});
}

}  // namespace flotilla::bench
