#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "candidate_plan.hpp"
#include "flotilla/program/rank_locations.hpp"
#include "flotilla/simulate/profile_cost.hpp"
#include "plan_evaluator.hpp"

namespace flotilla::search::pool {

/// What moving data between the pool's places takes. Estimates: the forecast of a plan says it exactly.
class Network {
 public:
  Network(const DevicePool&, const PlanEvaluator&);

  /// How the replicas of two neighbouring stages stand to one another.
  struct Way {
    int from = 0, to = 0;   ///< places
    bool one_node = false;  ///< in which all of them stand
    int flows = 1;          ///< messages that leave a node at once
    int pieces = 1;         ///< members of a tensor-parallel group that send a microbatch together
    int replicas = 1;       ///< that do so at once, and share their zones' uplinks
  };
  /// Seconds of a message of `microbatch` sequences between stages that stand so.
  double message(const Way&, int microbatch);

  /// Seconds of the gradient sums over the replicas of one stage. Large counts are rounded down, so that few of them are worked out.
  struct Sums {
    double embedding = 0, block = 0, head = 0;
  };
  /// `starts`, by stage and column: devices of its place that stand before.
  const Sums& sums(const CandidatePlan&, int stage, const std::vector<int>& starts);
  /// Bytes that a device keeps for the sums of our runtime's gradients over so many replicas of a stage with layers [first, last);
  /// described runtimes say themselves what they keep.
  double staging(int first, int last, int replicas, int tensor) const;
  /// Of the token embedding, which the first and the last stage share; described runtimes leave it out.
  double token_embedding_sum(const CandidatePlan&, const std::vector<int>& starts);

  /// Seconds in which a tensor-parallel group on the first devices of a place sums the activations of a microbatch.
  double tensor_sum(int place, int tensor, int microbatch) const;

  /// USD of what leaves a zone in one iteration; the columns' sequences must have been dealt.
  double egress(const CandidatePlan&) const;

 private:
  double message_of(std::uint64_t key, const Way&, int microbatch, int across);
  double egress_price(int from, int to) const { return prices_[at(from) * device_pool_.places.size() + at(to)]; }
  double egress_of_sums(const CandidatePlan&, int stage) const;
  /// Replicas of one stage. Of many alike only those of a few nodes are listed, where the runtime's sums go by how members are joined.
  struct Members {
    std::vector<Rank> some;
    std::size_t all = 0;
  };
  void add(const PipelineReplica&, const Slot&, int start, Members&) const;
  /// As the runtime sums among them.
  program::Group group_of(std::vector<Rank> members) const;
  /// `shares`: shards of a tensor-parallel group, which move at once through the same cards and uplinks. `some` of `all` members.
  double sum(std::int64_t elements, int shares, const program::Group& some, std::size_t all) const;

  const DevicePool& device_pool_;
  simulate::ProfileCost cost_;
  program::Group group_;                ///< how the runtime sums, without members
  Bytes gradient_{4};                   ///< of one gradient when it is summed
  program::RankLocations placement_;    ///< of the stock's devices
  std::vector<std::int64_t> elements_;  ///< of embedding, a block and the head
  std::int64_t token_embedding_ = 0;
  struct KeyHash {
    std::size_t operator()(const std::vector<int>&) const;
  };
  std::unordered_map<std::vector<int>, Sums, KeyHash> sums_;
  std::unordered_map<std::vector<int>, double, KeyHash> token_embedding_sums_;
  std::vector<int> key_;        ///< of the sum at hand
  std::vector<double> prices_;  ///< USD for a byte, by places
  std::unordered_map<std::uint64_t, double> messages_;
  std::array<std::pair<std::uint64_t, double>, 512> recent_{};  ///< of them: key + 1
  bool has_uplinks_;                                            ///< some zone's hosts share the way to others
};

}  // namespace flotilla::search::pool
