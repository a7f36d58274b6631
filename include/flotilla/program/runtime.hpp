#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/cluster/library.hpp"
#include "flotilla/program/placement.hpp"

namespace flotilla::program {

/// What is known of a runtime that is not ours: what it keeps in memory and when it waits. Its program is made of whole layers; what
/// happens inside them is not taken apart. docs/runtimes.md tells meaning and origin of every figure.
struct LayerRuntime {
  /// Bytes for one parameter, by reason.
  struct PerParameter {
    Bytes weights, gradients, optimizer, communication;
    Bytes total() const { return weights + gradients + optimizer + communication; }
    bool operator==(const PerParameter&) const = default;
  };
  PerParameter in_fp32, in_half;

  double scores_alive =
      0;  ///< score matrices (sequences x local heads x length^2 elements) alive in a block's backward pass beside what is saved
  double logits_alive = 0;  ///< fp32 logits of the whole vocabulary alive in the head's backward pass beside what is saved
  Bytes process;            ///< outside tensors: context, libraries' workspaces, buffers of the collectives' library
  Bytes tensor_group;       ///< in addition where a tensor-parallel group exists
  Bytes neighbour;          ///< in addition for each neighbouring stage

  double relative_error =
      0;  ///< of iteration times forecast by this description, beside what the profile's times add: nine in ten are closer

  bool blocking = false;            ///< transfers hold the compute queue at both ends
  bool scattered = false;           ///< every member of a tensor-parallel group sends its part; else one whole message over one link
  Bytes buffered;                   ///< of a message, that the library takes without waiting for the other end
  Seconds handshake;                ///< host time of a transfer at each end, before data moves
  Bytes reduction_bucket;           ///< gradients are summed in pieces of so many bytes at most
  BytesPerSecond reduction_rate;    ///< that a member's share of a gradient sum reaches at most; 0: the links decide
  Seconds reduction_host;           ///< host time of a step's gradient sums
  Bytes update_half;                ///< that the step after the passes moves per parameter in half precision: scaling, norm, update, copies
  double score_passes_forward = 0;  ///< times that attention's scores cross the memory in a pass; 0: attention is one kernel
  double score_passes_backward = 0;
  Seconds kernel_host;    ///< of the host, to start one kernel
  Seconds profiler_host;  ///< that a profiler adds to a pass through a layer which waits for the host (one node)
  bool operator==(const LayerRuntime&) const = default;
};

/// Who will execute.
struct Runtime {
  std::string name = "flotilla";
  int threads = 1;                        ///< compute threads per device (CPU); sizes the workspace
  Bytes library_scratch{};                ///< scratchpad handed to the matrix library, beside the workspace
  std::optional<LayerRuntime> layers;     ///< described, not ours
  std::vector<cluster::LayerSize> sizes;  ///< of layers as somebody measured them; a described runtime takes formulas where there are none
  Placement placement = {};               ///< of the plan's ranks: sums are made inside nodes and zones first
  bool operator==(const Runtime&) const = default;
};

/// "flotilla", "megatron-deepspeed", "megatron-lm". Throws Error{usage} naming the nearest.
Runtime runtime_named(std::string_view name);
std::vector<std::string> runtime_names();

}  // namespace flotilla::program
