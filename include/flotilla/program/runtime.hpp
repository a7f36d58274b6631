#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/cluster/library.hpp"
#include "flotilla/program/rank_locations.hpp"

namespace flotilla::program {

/// What is kept once for all replicas where a plan shards its optimizer: ZeRO's stages 1 to 3 (Rajbhandari et al. 2020), each with what
/// stands before it.
enum class ShardedState { optimizer, gradients, parameters };

/// How a runtime executes the operations of a layer that nobody measured.
struct LayerKernels {
  double score_passes_forward = 0;  ///< times that attention's scores cross the memory in a pass; 0: attention is one kernel
  double score_passes_backward = 0;
  double attention_share = 0;  ///< of the peak, that the attention kernel's products reach; 0: what other products of their size do
  double product_share = 1;    ///< of the rate of other products, that they sustain in a step: clocks fall, shapes are not the best ones
  double traffic = 1;          ///< times the bytes of fused kernels, where element-wise steps read and write by themselves
  bool fused = false;          ///< norm, product with its bias, activation and sum with the residual are one kernel each
  Seconds host;                ///< of the host, to start one kernel: a pass takes no less than its kernels' together
  bool portable_attention = false;    ///< the attention kernel uses no instructions that came after Ampere's
  bool early_stop = false;            ///< a block's recomputation ends before its last product, whose output no gradient needs
  bool keeps_other_products = false;  ///< selective recomputation keeps attention and every second product, and computes the rest again
  int fused_scores = 0;  ///< matrices of stored scores that the fused softmax takes at a time; others get it step by step. 0: any number
  bool operator==(const LayerKernels&) const = default;
};

/// Products of a block's linear layers whose operands have fewer bits than the rest (FP8, FP4): forecast, never executed by us. Attention,
/// the head and what lies between products stay in half precision.
struct NarrowProducts {
  double speed = 1;       ///< of such products on the device, over those in half precision
  double cast_bytes = 0;  ///< moved to convert one element of a product's input or output gradient
  int cast_kernels = 0;   ///< that convert one tensor
  double kept_bytes = 2;  ///< of an element of a product's input, from forward to backward pass: as converted, or as it came
  bool operator==(const NarrowProducts&) const = default;
};

/// What is known of a runtime that is not ours: what it keeps in memory and when it waits. Its program is made of whole layers; what
/// happens inside them is not taken apart. docs/runtimes.md tells meaning and origin of every figure.
struct LayerRuntime {
  /// Bytes for one parameter, by reason.
  struct PerParameter {
    Bytes weights, gradients, optimizer, communication;
    Bytes total() const { return weights + gradients + optimizer + communication; }
    bool operator==(const PerParameter&) const = default;
  };
  PerParameter in_fp32, in_fp16, in_bf16;

  double scores_alive =
      0;  ///< score matrices (sequences x local heads x length^2 elements) alive in a block's backward pass beside what is saved
  double logits_alive = 0;           ///< fp32 logits of the whole vocabulary alive in the head's backward pass beside what is saved
  Bytes logit_kept{4};               ///< of one logit of a device's share, from the head's forward to its backward pass
  Bytes logit_gradient;              ///< of one logit of a device's share, alive in the head's backward pass beside what is saved
  bool defers_head = false;          ///< weights of the head get their gradients after the passes: until then, those of the logits stay
  int blocks_in_host = 0;            ///< of a model's first, whose activations wait in the host's memory for the backward pass
  BytesPerSecond host_copies;        ///< rate of copies between a device and its host's memory, one way; for such blocks
  bool host_copies_block = false;    ///< a pass waits for its block's copy; else it runs beside the passes up to the next such block's
  bool host_copies_parted = false;   ///< each member of a tensor-parallel group copies a part of what all of them hold
  double recomputed_blocks = 1;      ///< of the blocks of stages that recompute, the part that does, spread evenly
  Bytes workspaces;                  ///< of matrix libraries, taken from the tensors' allocator
  std::int64_t summed_together = 0;  ///< gradients in fp32 that are copied together for their sum, in bf16
  double reserved_half = 0;          ///< of the tensors' bytes, that a caching allocator holds beside them, in half precision
  double held_when_full_half = 0;    ///< of the tensors' bytes, what it cannot give back of that where a device is full
  Bytes process;                     ///< outside tensors: context, libraries' workspaces, buffers of the collectives' library
  Bytes tensor_group;                ///< in addition where a tensor-parallel group exists
  Bytes neighbour;                   ///< in addition for each neighbouring stage

  /// Of iteration times forecast by this description, beside what the profile's times add: nine in ten are closer
  /// (docs/measurements/error-bars.md, as the two below).
  double relative_error = 0, relative_error_half = 0;
  /// Of a device's peak memory: 99 in 100 devices take no more than this share beyond the forecast.
  double memory_error = 0, memory_error_half = 0;
  double host_error = 0;  ///< of passes that wait for the host, whose cores, drivers and framework's version are not known

  bool blocking = false;          ///< transfers hold the compute queue at both ends
  bool scattered = false;         ///< every member of a tensor-parallel group sends its part; else one whole message over one link
  Bytes buffered;                 ///< of a message, that the library takes without waiting for the other end
  Seconds handshake;              ///< host time of a transfer at each end, before data moves
  Bytes reduction_bucket;         ///< gradients are summed in pieces of so many bytes at most
  BytesPerSecond reduction_rate;  ///< that a member's share of a gradient sum reaches at most; 0: the links decide
  Seconds reduction_host;         ///< host time of a step's gradient sums
  Bytes update_half;              ///< that the step after the passes moves per parameter in half precision: scaling, norm, update, copies
  Bytes update_temporaries_half;  ///< of an updated parameter, alive in the step after the passes beside what stays: copies, intermediate
                                  ///< results
  Bytes gradient_half{4};         ///< of one gradient when it is summed, in half precision
  Bytes added_half{8};            ///< moved to add a product's gradient of one weight to those of earlier micro-batches, in half precision
  Bytes gathered_half{2};         ///< of one weight when it is gathered from its shard, in half precision
  bool shards = false;            ///< executes plans whose optimizer is sharded
  ShardedState sharded = ShardedState::optimizer;  ///< of such a plan
  int shard_group = 0;                             ///< replicas in a row that keep the shards once; 0: all of a stage
  bool overlaps = false;                           ///< gradient sums run beside backward passes, gathers of weights beside forward passes
  double collective_share = 0;                     ///< of a pass, lost while a collective moves beside it: its kernels have multiprocessors
  bool overlaps_tensor = false;                    ///< with sequence parallelism, collectives of a layer run beside its products
  double tensor_visible = 0;                       ///< of what products hide that way, the share that shows: both want the memory
  int context = 1;                                 ///< replicas in a row that hold parts of the same sequences: context parallelism
  Seconds step_host;                               ///< of the host in a step, beside the passes
  Seconds microbatch_host;                         ///< of the host for a micro-batch, which it reads and gives to the tensor-parallel group
  bool waits_for_kernels = false;  ///< the host starts a kernel when the one before has ended (CUDA_LAUNCH_BLOCKING): its time adds up
  int board = 0;                   ///< devices of a node that links join; 0: all
  BytesPerSecond between_boards;   ///< of all devices of a board together, to another board of their node, one way
  LayerKernels kernels_fp32, kernels_half;
  std::optional<NarrowProducts> narrow;
  /// Replicas in a row that hold every expert of a block once, each as many of them: expert parallelism. 0: as many as experts; 1: every
  /// replica holds all. Where a stage's replicas are no multiple, the largest common divisor.
  int expert_parallel = 1;
  /// A device's experts are multiplied in one call of the library, which starts their products one after the other to run beside each
  /// other; what lies between products is one kernel for all. Else the framework executes one expert after the other.
  bool groups_experts = false;
  Seconds profiler_host;  ///< that a profiler adds to a pass through a layer which waits for the host (one node)

  const LayerKernels& kernels(Precision p) const { return p == Precision::fp32 ? kernels_fp32 : kernels_half; }
  const PerParameter& per_parameter(Precision p) const { return p == Precision::fp32 ? in_fp32 : p == Precision::fp16 ? in_fp16 : in_bf16; }
  bool operator==(const LayerRuntime&) const = default;
};

/// Who will execute.
struct Runtime {
  std::string name = "flotilla";
  int threads = 1;                        ///< compute threads per device (CPU); sizes the workspace
  Bytes library_scratch{};                ///< scratchpad handed to the matrix library, beside the workspace
  std::optional<LayerRuntime> layers;     ///< described, not ours
  std::vector<cluster::LayerSize> sizes;  ///< of layers as somebody measured them; a described runtime takes formulas where there are none
  RankLocations placement = {};           ///< of the plan's ranks: sums are made inside nodes and zones first
  bool library_all_reduce = false;        ///< all-reduces between GPUs are the library's own, in an order that it chooses
  bool separate_documents = false;        ///< tokens attend to their own document alone, and positions begin anew with each
  int sources = 0;                        ///< of the data, whose losses a step sums apart; 0: it does not
  bool operator==(const Runtime&) const = default;
};

/// "flotilla" or a described one, as runtime_names() lists them. Throws Error{usage} naming the nearest.
Runtime runtime_named(std::string_view name);
std::vector<std::string> runtime_names();

}  // namespace flotilla::program
