#pragma once
#include <compare>
#include <string>
#include <vector>

#include "flotilla/program/program.hpp"
#include "layer_sizes.hpp"
#include "pass_order.hpp"

namespace flotilla::program {

/// What makes two ranks of a described runtime run the same instructions.
struct LayerKind {
  int position = 0;  ///< in the pipeline of devices
  std::string device_type;
  int tensor_parallel = 1;
  int sequences = 0;                           ///< of the step, handled by the replica
  int microbatch = 1;                          ///< sequences in a full microbatch
  bool sums = false;                           ///< a member of a data-parallel group
  int sum_parallel = 1;                        ///< tensor degree whose share of the gradients is summed
  bool talks_back = true, talks_forth = true;  ///< has a message with the neighbour; not where its replica has fewer members
  bool meets = false;                          ///< some member of the replica has no message: they meet before each pass
  auto operator<=>(const LayerKind&) const = default;
};

/// Slots of LayerKind's peers and groups in RankBinding; -1: none.
struct LayerSlots {
  int previous = -1, next = -1;
  int world = 0, data = -1, tensor = -1;
  int shards = -1;  ///< those who keep one shard each; `data` where these are all
};
LayerSlots layer_slots(const LayerKind&, int depth, int chunks, bool fewer_shards);

/// Replicas of a stage that keep its shards once; 1 where the plan shards nothing.
int shard_group(const plan::Plan&, const LayerRuntime&);

/// Builds one class of a described runtime: whole layers, messages as the runtime sends them, gradient sums and update after the last pass.
class LayerClassBuilder {
 public:
  LayerClassBuilder(const plan::Plan&, const LayerSizes&, const Runtime&, LayerKind);
  RankClass build();

 private:
  /// The passes of so many microbatches.
  schedule::PassOrder order(int microbatches) const;

  // Instructions
  void add_chunk(int chunk);
  PassInstructions pass_instructions(int chunk, bool backward);
  Instruction message(bool sends, int chunk, bool backward) const;
  void add_message(std::vector<int>& instructions, Instruction, int work_instruction);
  void add_meeting(std::vector<int>& instructions, bool backward, int work_instruction);
  bool talks(bool sends, bool backward) const;
  void add_layers(std::vector<int>& instructions, int chunk, bool backward);
  int add_pass(int chunk, int layer, bool backward);
  /// Blocks of a chunk by those of them whose activations wait in the host's memory, at least 1.
  int blocks_between_copies(int chunk) const;
  /// With parameters in shards: the layer's weights are gathered for a pass, its gradients scattered. Begins when pass `after` is done, so
  /// weights come while the layer before computes; -1: at once.
  int add_shard_exchange(CollectiveKind, int layer, bool backward, int after);
  std::vector<int> closing_instructions();
  /// Sums of gradients after the last pass, in buckets.
  void add_sums(std::vector<int>& instructions);
  /// Sums of gradients by layer, each as soon as its last backward pass is done.
  void add_overlapped_sums(std::vector<int>& instructions);
  void add_update(std::vector<int>& instructions);
  bool shards(ShardedState what) const { return sharded_ && runtime_.sharded >= what; }
  int add_host(const std::string& name, Seconds, bool per_microbatch, bool backward);
  /// On the reduce queue where it is a collective.
  int add_once(const std::string& name, Instruction::Work, bool backward, int after);
  int add_instruction(Instruction);

  // Memory
  void add_memory();
  void add_buffer(const std::string& name, Category, Bytes, bool persistent = true);
  /// Activations saved and temporaries at the moment when both together are most.
  struct Live {
    Bytes saved, temporaries;
    Bytes total() const { return saved + temporaries; }
  };
  Live peak_of_passes() const;
  Live peak_of_backward(int chunk) const;
  Bytes deferred_gradients() const;
  Bytes summed_together() const;
  Bytes update_temporaries() const;
  Bytes saved(int chunk) const;
  /// Of one summed gradient, of one gathered weight.
  Bytes gradient() const { return plan_.precision == Precision::fp32 ? Bytes{4} : runtime_.gradient_half; }
  Bytes gathered() const { return plan_.precision == Precision::fp32 ? Bytes{4} : runtime_.gathered_half; }
  std::int64_t parameters(int tensor_parallel) const;
  std::int64_t expert_parameters(int tensor_parallel) const;
  std::int64_t updated() const;
  int expert_keepers() const;

  const plan::Stage& stage(int chunk) const { return plan_.stages[static_cast<std::size_t>(chunk * depth_ + kind_.position)]; }
  bool is_first(int chunk) const { return kind_.position == 0 && chunk == 0; }
  bool is_last(int chunk) const { return kind_.position == depth_ - 1 && chunk == plan_.chunks - 1; }

  const plan::Plan& plan_;
  const LayerSizes& sizes_;
  const LayerRuntime& runtime_;
  const LayerKind kind_;
  const int depth_;
  const int shard_group_;
  const bool sharded_;  ///< some state is
  const LayerSlots slots_;
  RankClass out_;
  std::vector<ChunkPasses> chunks_;
  std::vector<std::pair<int, int>> last_backward_;  ///< layer and instruction, in the order of a backward pass
};

}  // namespace flotilla::program
