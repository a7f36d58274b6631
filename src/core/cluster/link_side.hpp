#pragma once
#include <algorithm>
#include <string>

#include "flotilla/cluster/cluster.hpp"

namespace flotilla::cluster {

/// One end of a link: what a device or a node of a type can send.
struct LinkSide {
  double rate, latency, error;
  int lanes;
};

/// The slower end decides the rate, the later one the latency; messages find as many lanes as the end that has fewer.
inline LinkSide both(const LinkSide& a, const LinkSide& b) {
  return {std::min(a.rate, b.rate), std::max(a.latency, b.latency), std::max(a.error, b.error), std::min(a.lanes, b.lanes)};
}

inline Link link_of(LinkLevel level, const std::string& from, const std::string& to, const LinkSide& end) {
  return {level, from, to, {{{0}, {end.latency}, {end.rate}}}, end.error, end.lanes};
}

}  // namespace flotilla::cluster
