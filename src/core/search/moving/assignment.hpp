#pragma once
#include <cstdint>
#include <vector>

namespace flotilla::search {

/// `gain` for each unit that goes from a source to a sink.
struct Lane {
  int source = 0, sink = 0;
  std::int64_t gain = 0;
};

/// The largest sum of gains when every source gives and every sink takes at most so many units, whole ones. Exact: flow of least cost by
/// shortest paths (Ahuja, Magnanti, Orlin, Network Flows, 1993, section 9.7). Gains at least 0.
std::int64_t largest_gain(const std::vector<std::int64_t>& sources, const std::vector<std::int64_t>& sinks, const std::vector<Lane>&);

}  // namespace flotilla::search
