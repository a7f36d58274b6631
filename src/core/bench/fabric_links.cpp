#include "flotilla/bench/fabric_links.hpp"

#include <algorithm>
#include <map>

#include "flotilla/base/figures.hpp"
#include "flotilla/base/text.hpp"
#include "statistics.hpp"

namespace flotilla::bench {
namespace {

constexpr double low_share = 0.5;  // of what UCX moves, or of what is usual

/// One link by both, in one company.
struct Both {
  const LinkReport *ucx = nullptr, *mpi = nullptr;
};

const LinkPoint* point_with(const LinkReport& link, Bytes size) {
  const auto found = std::ranges::find(link.points, size, &LinkPoint::size);
  return found == link.points.end() || found->stream.value <= 0 || found->latency.value <= 0 ? nullptr : &*found;
}

FabricLink link_by(const Both& both) {
  FabricLink link{both.ucx->from, both.ucx->to, {}, both.ucx->refusal.empty() ? both.mpi->refusal : both.ucx->refusal};
  for (const auto& ucx : both.ucx->points)
    if (const auto* mpi = point_with(*both.mpi, ucx.size); mpi != nullptr && point_with(*both.ucx, ucx.size) != nullptr)
      link.points.push_back({ucx.size, ucx.latency, mpi->latency, ucx.stream, mpi->stream});
  if (!link.refusal.empty()) link.points.clear();
  if (link.points.empty() && link.refusal.empty()) link.refusal = "no size was measured by both UCX and MPI";
  return link;
}

}  // namespace

double mpi_share(const FabricLink& link) { return link.points.empty() ? 0 : link.points.back().mpi.value / link.points.back().ucx.value; }

std::vector<FabricLink> fabric_links(const std::vector<LinkReport>& links) {
  using Ends = std::pair<std::string, std::string>;
  std::vector<Ends> order;
  std::map<Ends, std::map<bool, Both>> by_ends;  // then by whether it was measured alone
  for (const auto& link : links) {
    if (!link.transport.empty() && link.transport != training_transport) continue;
    const Ends ends{link.from, link.to};
    if (!by_ends.contains(ends)) order.push_back(ends);
    auto& both = by_ends[ends][link.alone];
    (link.transport.empty() ? both.ucx : both.mpi) = &link;
  }
  std::vector<FabricLink> all;
  for (const auto& ends : order)
    for (const bool alone : {true, false}) {
      const auto& both = by_ends[ends][alone];
      if (both.ucx == nullptr || both.mpi == nullptr) continue;
      all.push_back(link_by(both));
      break;
    }
  return all;
}

LowShares low_shares(const std::vector<FabricLink>& links) {
  std::vector<double> all;
  std::map<std::string, std::vector<double>> by_host;
  for (const auto& link : links) {
    if (link.from == link.to || link.points.empty()) continue;
    all.push_back(mpi_share(link));
    for (const auto& end : {link.from, link.to}) by_host[end].push_back(all.back());
  }
  if (all.empty()) return {};
  LowShares low;
  const double usual = median_of(all);
  if (usual < low_share)
    low.everywhere =
        text("MPI moves ", percent(usual),
             " of what UCX moves between the same nodes; it may use another network: ompi_info, UCX_TLS and UCX_NET_DEVICES tell");
  for (const auto& [host, shares] : by_host)
    if (const double mine = median_of(shares); mine < low_share * usual)
      low.hosts.emplace_back(host, text("MPI moves ", percent(mine), " of what UCX moves on its links, where ", percent(usual),
                                        " is the median; it may use another network there"));
  return low;
}

}  // namespace flotilla::bench
