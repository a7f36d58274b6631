#pragma once
#include "flotilla/search/search.hpp"

namespace flotilla::search {

/// A request with what follows from it and the cluster.
struct Problem {
  const Request& request;
  const cluster::Profile& profile;
  const simulate::BoundedForecaster& forecaster;

  int ranks() const { return static_cast<int>(profile.devices.size()); }
  const cluster::Device& device(Rank rank) const { return profile.devices[rank.index()]; }
  /// Bytes that a device may use.
  Bytes limit(Rank) const;
};

/// Throws Error{bad_input} naming the first thing that cannot be.
void check(const Request&, const cluster::Profile&);

}  // namespace flotilla::search
