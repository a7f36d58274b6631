#pragma once
#include <string>
#include <utility>
#include <vector>

#include "flotilla/bench/report.hpp"

/// What the network can do (UCX) beside what the training's messages make of it (MPI), link by link.
namespace flotilla::bench {

/// Messages of one size, one after the other, one way; latencies are half a round trip. All above 0.
struct FabricPoint {
  Bytes size;
  Seconds ucx_latency{}, mpi_latency{};
  BytesPerSecond ucx{}, mpi{};
  bool operator==(const FabricPoint&) const = default;
};

/// A link between two hosts, or inside one, by UCX's own choice of transport and by MPI in the same company.
struct FabricLink {
  std::string from, to;             ///< hosts
  std::vector<FabricPoint> points;  ///< ascending in size
  std::string refusal;              ///< why there are none
  bool operator==(const FabricLink&) const = default;
};

/// What MPI moves of what UCX moves, at the largest size; 0 of a refused link.
double mpi_share(const FabricLink&);

/// Of each two hosts whose link was measured by both, at the sizes of both; that measured alone where there is one. A link that one of
/// them refused is refused. In the order of first occurrence.
std::vector<FabricLink> fabric_links(const std::vector<LinkReport>&);

/// Links whose share is far from their siblings', or low as a whole.
struct LowShares {
  std::string everywhere;                                  ///< in words; empty: the median of all links is as it should be
  std::vector<std::pair<std::string, std::string>> hosts;  ///< a host, and what is low about its links, in words
};
/// Of links between hosts: low everywhere is a median below one half, low of a host one below half of that median.
LowShares low_shares(const std::vector<FabricLink>&);

}  // namespace flotilla::bench
