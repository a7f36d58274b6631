#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "flotilla/plan/batch_partition.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/schedule/boundary.hpp"

namespace flotilla::program {

/// A message that a rank sends or receives in some of its microbatches: tokens [first, first + tokens) of the microbatch; or, with
/// tokens = 0, as many of them as `pieces` equal ones: the rank's own, by its tensor index. Every token crosses the boundary between two
/// stages once: of what two microbatches share, each member of the sender's tensor-parallel group sends an equal slice, to those members of
/// the receiver's group whose pieces (collectives.hpp) it meets; the receivers gather the pieces among themselves.
/// With sequence parallelism each member sends what it holds, its piece, and receives its own; positions are then in the rank's own piece.
struct BoundaryMessage {
  int peer = -1;  ///< slot
  std::int64_t first = 0, tokens = 0;
  std::vector<Runs> runs;  ///< empty: every microbatch
  int pieces = 1;
  auto operator<=>(const BoundaryMessage&) const = default;
};

struct BoundaryMessages {
  std::vector<BoundaryMessage> activations_in, activations_out, gradients_in, gradients_out;
  auto operator<=>(const BoundaryMessages&) const = default;
};

/// Boundary messages of one rank, and who its slots are. `batch_partitions` and `boundaries` by stage. Gradients come down to layer
/// `first_trained` and no further; there are none where it is the number of layers.
class Correspondence {
 public:
  Correspondence(const plan::Plan&, const std::vector<plan::BatchPartition>&, const std::vector<schedule::Boundary>&, int first_trained);
  BoundaryMessages of(int stage, int replica, int tensor_index, std::vector<Rank>& peers) const;
  /// The peers alone, in the same order: of ranks whose boundary messages are known from others like them.
  void list_peers(int stage, int replica, int tensor_index, std::vector<Rank>& peers) const;

 private:
  using Place = plan::RankCoordinates;
  using BothWays = std::pair<std::vector<BoundaryMessage>, std::vector<BoundaryMessage>>;  ///< with the forward passes, and against them
  const plan::Replica& replica_of(int stage, int replica) const;
  /// Whether gradients cross the boundary between two stages.
  bool goes_back(int stage, int next_to_it) const;
  /// The rank that a member alone talks to there, by equal pieces of whole microbatches; nothing where it talks to several or otherwise.
  std::optional<Rank> straight(const Place& here, int there) const;
  BothWays cross(const Place& here, int there, std::vector<Rank>& peers) const;
  BothWays along_column(const Place& here, int there, int sequences, const std::vector<Runs>&, std::vector<Rank>& peers) const;
  BothWays through_crossings(const Place& here, int there, const schedule::Boundary&, std::vector<Rank>& peers) const;

  const plan::Plan& plan_;
  const std::vector<plan::BatchPartition>& batch_partitions_;
  const std::vector<schedule::Boundary>& boundaries_;
  int first_trained_;
};

/// Ascending numbers as progressions.
std::vector<Runs> runs_of(const std::vector<int>& microbatches);

}  // namespace flotilla::program
