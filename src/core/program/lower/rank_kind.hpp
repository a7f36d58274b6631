#pragma once
#include <compare>
#include <optional>
#include <string>
#include <vector>

#include "boundary_messages.hpp"
#include "chunks.hpp"
#include "flotilla/program/hierarchical_all_reduce.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/schedule/passes.hpp"
#include "reduce/gradient_groups.hpp"

namespace flotilla::program {

/// With whom a rank sums the gradients of parameters that several replicas hold.
struct Summing {
  int members = 1;                       ///< replicas that hold them
  std::vector<int> degrees;              ///< their tensor degrees, each once; empty where all are equal, so that shards line up
  std::vector<GradientGroup> groups;     ///< of unlike degrees: those that this rank belongs to, a member for each degree
  int replica = 0;                       ///< of unlike degrees: which of them is this rank's own
  std::optional<ReductionBounds> rooms;  ///< what it takes of this rank, where sums are made hierarchically or optimizers sharded
  auto operator<=>(const Summing&) const = default;
};

/// What makes two ranks run the same instructions: all that lowering looks at. One class is built per kind.
struct ClassKey {
  int stage = 0;  ///< the first of the device's
  std::string device_type;
  int tensor_parallel = 1;
  int sequences = 0;                                ///< of the step, handled by the replica
  int microbatch = 1;                               ///< sequences in a full microbatch
  int heads = 0, columns = 0, vocabulary = 0;       ///< local units
  std::vector<BoundaryMessages> boundary_messages;  ///< by chunk
  schedule::PassOrder order;                        ///< of a device that holds one stage
  std::vector<ChunkStep> steps;                     ///< of one that holds several
  std::vector<schedule::ChunkCopies> copies;
  Summing data;  ///< over the stage's replicas
  Summing tied;  ///< the token embedding's, over those of the first and the last stage where these differ
  auto operator<=>(const ClassKey&) const = default;
};

/// Where each group sits in RankBinding::groups; -1 and empty where there is none.
struct Slots {
  int world = 0, tensor = -1;
  std::vector<int> data, tied;  ///< one, or as many as Summing::groups
};
Slots slots_of(const ClassKey&);

}  // namespace flotilla::program
