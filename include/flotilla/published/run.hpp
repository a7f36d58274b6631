#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

/// Training runs that others measured and published: what a file of format "published-runs" says (docs/formats/published-runs.md).
namespace flotilla::published {

/// What a published memory figure counts.
enum class MemoryMeasure {
  allocated,  ///< the allocator's peak: tensors alone
  process,    ///< of the whole process, as nvidia-smi or a runtime's log has it: context and libraries, too
};

struct Hardware {
  std::string device_type;
  int devices = 0, per_node = 0;
  int domain = 0;                 ///< devices that a node's links join, over several nodes; 0: not stated
  BytesPerSecond node_pair{};     ///< between two devices of a node, one way; 0: not stated
  int pair_links = 0;             ///< NVLinks between two devices of a node that has no switch; 0: not stated
  int network_cards = 0;          ///< of a node; 0: not stated
  BytesPerSecond network_card{};  ///< one way, of one card
  bool omni_path = false;         ///< these are Omni-Path
};

struct Transformer {
  std::string family;
  int blocks = 0, hidden = 0, heads = 0;
  int key_value_heads = 0, feed_forward = 0, vocabulary = 0, positions = 0;  ///< 0: not stated
  int experts = 0;                                                           ///< of a block; 0: none
  int experts_per_token = 1;
  std::optional<bool> tied_head, bias, rotary;
};

/// What is kept once for all data-parallel replicas (Rajbhandari et al. 2020): ZeRO's stages.
enum class Sharding { none, optimizer, gradients, parameters };

struct Parallel {
  int tensor = 1, pipeline = 1, data = 1, context = 1, chunks = 1;
  int experts = 1;             ///< replicas that hold every expert once: expert parallelism
  bool whole_experts = false;  ///< members of a tensor-parallel group hold whole experts of their own; else a part of each
  bool sequence_parallel = false;
  Sharding sharding = Sharding::none;
  int shard_group = 0;  ///< replicas that keep the shards once; 0: all of a stage
  std::string recompute = "none";
  double recomputed_blocks = 1;  ///< of the blocks, where `recompute` is full; spread evenly
  std::optional<bool> overlap_gradients, overlap_parameters;
  bool overlap_tensor = false;  ///< collectives of tensor-parallel groups run beside products
  std::string attention;        ///< "flash", "unfused"; empty: not stated
  bool compiled = false;
  bool offload = false;          ///< the optimizer's state is in the host's memory
  int blocks_in_host = 0;        ///< of the first, whose activations wait there for the backward pass
  bool blocking_copies = false;  ///< passes wait for these activations' copies, of which tensor-parallel members make a part each
  bool embeddings_count_as_blocks = false;       ///< layers are dealt to stages as if embedding and head were blocks
  std::vector<std::vector<int>> block_ranges{};  ///< by stage, half-open; empty: even
};

struct Measured {
  std::optional<Seconds> iteration;
  std::optional<Bytes> memory;  ///< peak
  MemoryMeasure measure = MemoryMeasure::process;
  bool last_stage = false;  ///< the memory is the last rank's; else the fullest one's
  bool out_of_memory = false;
};

struct Run {
  std::string id, source;  ///< source: the file's stem
  std::string runtime, task, precision;
  std::string optimizer;  ///< that is not Adam; empty: Adam
  Hardware hardware;
  Transformer model;
  Parallel parallel;
  int global_batch = 0, microbatch = 0;  ///< sequences; 0: not stated
  int length = 0;                        ///< tokens of a sequence
  Measured measured;
  bool waits_for_kernels = false;  ///< CUDA_LAUNCH_BLOCKING=1: the host starts a kernel when the one before has ended
  bool unfused = false;            ///< softmax, activation and dropout are kernels of their own (Megatron-LM 1.1.5 without options)
  bool fused_loss = false;         ///< Megatron-Core's fused cross entropy, which nothing overwrites in place
  bool one_kernel_loss = false;    ///< the cross entropy is one kernel each way: logits stay as they came, fp32 inside the kernel
  bool deferred_head = false;      ///< weights of the head get their gradients after the passes
  bool gradients_stay = false;     ///< the optimizer's gradients in fp32 outlive its step
  bool groups_experts = true;      ///< a device's experts are multiplied in one call of the library; else one after the other
  bool deterministic = false;      ///< libraries were told to repeat their results to the bit
  bool complete = false;           ///< nothing that a forecast needs had to be guessed
  std::string issue;               ///< what is odd about the run; empty: nothing
};

}  // namespace flotilla::published
