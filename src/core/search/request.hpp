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
  /// Stages that a device holds.
  int chunks() const { return request.fixed.chunks.value_or(1); }
  bool shares_optimizers() const { return request.fixed.shard_optimizer.value_or(false); }
  /// One microbatch on a tensor-parallel group.
  model::LayerShape shape(int sequences, int tensor) const;
  /// Fixed cuts as if every device held its layers in one run; empty where they are searched.
  std::vector<int> own_cuts() const;
};

/// With what follows from one fixed choice for another (search::settled).
Request settled(Request);

/// Throws Error{bad_input} naming the first thing that cannot be.
void check(const Request&, const cluster::Profile&);

}  // namespace flotilla::search
