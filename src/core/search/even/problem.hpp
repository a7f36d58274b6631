#pragma once
#include <limits>

#include "flotilla/search/planner.hpp"

/// Even plans: data x pipeline x tensor of bound ranks.
namespace flotilla::search::even {

constexpr double never = std::numeric_limits<double>::infinity();

/// A request with what follows from it and the cluster.
struct Problem {
  const PlanRequest& request;
  const cluster::Profile& profile;  ///< device types with the memory that may be used
  const simulate::BoundedForecaster& forecaster;

  const Constraints& fixed() const { return request.constraints; }
  int ranks() const { return static_cast<int>(profile.devices.size()); }
  const cluster::Device& device(Rank rank) const { return profile.devices[rank.index()]; }
  /// Bytes that a device may use.
  Bytes limit(Rank rank) const { return cluster::find_type(profile, device(rank).type)->memory; }
  /// Stages that a device holds.
  int chunks() const { return fixed().chunks.value_or(1); }
  bool shares_optimizers() const { return fixed().shard_optimizer.value_or(false); }
  /// One microbatch on a tensor-parallel group.
  model::LayerShape shape(int sequences, int tensor) const {
    return {sequences, request.length, tensor, 0, request.precision, fixed().sequence_parallel.value_or(false) && tensor > 1};
  }
};

}  // namespace flotilla::search::even
