#pragma once
#include <algorithm>

#include "layer_cost_table.hpp"
#include "network.hpp"

namespace flotilla::search::pool {

inline constexpr double never = 1e300;  ///< more than any candidate's estimate; finite, so that it can be computed with

/// A candidate's time without its program: per column (n - 1) times the slowest stage plus one way through all stages and back, the last
/// microbatch as short as it is, sequences dealt so that columns end together; then gradient sums and the optimizer. Sums of exact layer
/// times, so it is close; candidates that it ranks high are forecast.
struct Estimate {
  bool fits = false;
  double seconds = 0;
  double value = 0;   ///< of the objective
  double usd = 0;     ///< per iteration, where the objective or a limit asks for it
  double excess = 0;  ///< bytes over the memory of the fullest device, where it does not fit
  double full = 0;    ///< share of the memory of the fullest device that is taken
};

/// Columns of one pace, which take whole microbatches.
struct PacedColumns {
  double slowest = 0, way = 0;  ///< seconds of a further microbatch, and of the first one
  double at_once = 0;           ///< sequences of all of them in one turn
};

class Estimator {
 public:
  Estimator(const DevicePool& device_pool, LayerCostTable& layer_cost_table, Network& network, const program::Runtime& runtime)
      : device_pool_{device_pool},
        layer_cost_table_{layer_cost_table},
        network_{network},
        layers_{device_pool.request.model.layers()},
        described_{runtime.layers.has_value()},
        may_shard_{!runtime.layers && device_pool.request.constraints.shard_optimizer.value_or(true)},
        whole_messages_{runtime.layers && !runtime.layers->scattered},
        blocking_{runtime.layers && runtime.layers->blocking},
        buffered_{runtime.layers ? static_cast<double>(runtime.layers->buffered.count) : 0},
        handshake_{runtime.layers ? runtime.layers->handshake.value : 0},
        reduction_host_{runtime.layers ? runtime.layers->reduction_host.value : 0} {}

  /// Deals the batch to the candidate's columns; those that get nothing are taken away. The candidate takes on what the request fixes of
  /// how it runs, and where that is open shards its optimizer if that is better or its memory asks for it. Where time is the objective,
  /// what takes longer than `enough` before its sums is not looked at further: its value is above `enough`, its memory unknown.
  Estimate operator()(CandidatePlan&, double enough = 1e300);
  std::int64_t count() const { return count_; }

  /// Whether shares may be balanced: the runtime takes microbatches of any size, and columns need not be alike.
  bool balances() const { return !described_ && !device_pool_.request.restrictions.one_microbatch_size; }
  /// Whether replicas may shard the optimizer's state.
  bool may_shard() const { return may_shard_; }
  /// Sequences that microbatches may have in plans of the space.
  std::vector<int> sizes() const;
  /// Gives the candidate what the request fixes of it; false where it would need other devices for that.
  bool constrain(CandidatePlan&) const;
  /// One microbatch through layers [first, last) on a replica.
  double pass(const LeastPassTime& s, int first, int last) const {
    return (first == 0 ? s.embedding : 0) + blocks(first, last) * s.block + (last == layers_ ? s.head : 0);
  }
  double pass(const LayerCostSample& s, int first, int last) const {
    return pass(LeastPassTime{s.usable, s.embedding.pass, s.block.pass, s.head.pass}, first, last);
  }
  /// Bytes of a device with these layers that keeps so many microbatches; `shards`: replicas that shard the optimizer's state, or 1.
  double memory(const LayerCostSample&, int first, int last, double in_flight, int shards) const;
  /// Whether the messages of such a microbatch hold the devices at both ends.
  bool blocks_on(int microbatch) const;
  /// Messages that leave a node at once where so many replicas of a stage stand at such slots.
  int flows(const Slot&, int replicas) const;
  /// Members of a tensor-parallel group that share a message.
  int pieces(const Slot& slot) const { return whole_messages_ ? 1 : slot.tensor; }
  int per_node(int place) const { return device_pool_.types[at(device_pool_.places[at(place)].type)].per_node; }
  double handshake() const { return handshake_; }  ///< seconds of a message at each end, before data moves
  const DevicePool& device_pool() const { return device_pool_; }
  LayerCostTable& layer_cost_table() { return layer_cost_table_; }

 private:
  struct Fullest {
    double bytes = -1e300, share = 0;
  };
  struct PipelinePace {
    double slowest = 0, way = 0;
  };
  void coordinate_descent(CandidatePlan&) const;
  const LayerCostSample& layer_cost(const CandidatePlan&, const PipelineReplica&, int stage, int microbatch);
  const LayerCostSample& layer_cost(const CandidatePlan& candidate, const PipelineReplica& pipeline, int stage) {
    return layer_cost(candidate, pipeline, stage, pipeline.microbatch);
  }
  const LeastPassTime& pass_times(const CandidatePlan&, const PipelineReplica&, int stage, int microbatch);
  bool knows_memory(const CandidatePlan&);
  Fullest fullest(const CandidatePlan&);
  bool alike(const PipelineReplica&, const PipelineReplica&) const;
  bool measure(const CandidatePlan&);
  void place(const CandidatePlan&);
  bool measure(const CandidatePlan&, std::size_t pipeline, int microbatch, PipelinePace&);
  double messages_between(const Slot&, const Slot& next, bool one_node, int replicas, int microbatch);
  PipelinePace pace_of_rest(const CandidatePlan&, std::size_t pipeline, const PipelinePace& whole, int sequences);
  double end_of(const CandidatePlan&, std::size_t pipeline, const PipelinePace&);
  Fullest over_memory(const CandidatePlan&, const PipelineReplica&);
  double partition_into_microbatches(CandidatePlan&);
  double partition_balanced(CandidatePlan&);
  void even_out(CandidatePlan&, std::size_t pipeline);
  double end_of_dealt(CandidatePlan&);
  double after(CandidatePlan&);
  double shortest_pass(const CandidatePlan&, int stage);
  int blocks(int first, int last) const { return std::min(last, layers_ - 1) - std::max(first, 1); }

  const DevicePool& device_pool_;
  LayerCostTable& layer_cost_table_;
  Network& network_;
  int layers_;  ///< of the model
  bool described_, may_shard_, whole_messages_, blocking_;
  double buffered_;  ///< bytes of a message that a blocking runtime's library takes without waiting
  double handshake_;
  double reduction_host_;            ///< seconds of a step's gradient sums on the host
  std::vector<PipelinePace> paces_;  ///< by column of the candidate at hand
  std::vector<double> ways_;
  struct NodeRange {
    int first = 0, last = 0;
    bool operator==(const NodeRange&) const = default;
  };
  std::vector<NodeRange> nodes_;      ///< by stage and column: where its replicas stand, of the place's nodes
  std::vector<int> starts_;           ///< by stage and column: devices of its place that stand before
  std::size_t placed_ = 0;            ///< columns when they were placed
  std::vector<int> taken_;            ///< devices, by place
  std::vector<PacedColumns> groups_;  ///< of the candidate at hand
  std::int64_t count_ = 0;
};

}  // namespace flotilla::search::pool
