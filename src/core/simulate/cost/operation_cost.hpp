#pragma once
#include <optional>
#include <string>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/model/operations.hpp"
#include "flotilla/program/runtime.hpp"
#include "flotilla/simulate/instruction_cost.hpp"

namespace flotilla::simulate {

/// Error of an operation whose efficiency was measured at another tensor-parallel degree, beside that measurement's scatter. A bare
/// roofline has the type's own (cluster::Efficiency).
inline constexpr double scaled_error = 0.15;

/// How a runtime executes operations that nobody measured. The default is fused attention, which never stores scores.
struct Execution {
  /// Times that the scores (sequences, local heads, length, length) cross the memory in a pass; 0: they never do. Otherwise attention is
  /// separate products and element-wise kernels over the whole square, not its causal half.
  double score_passes_forward = 0, score_passes_backward = 0;
  Seconds host{};                         ///< of the host, to start one kernel: the device waits where its kernels are shorter
  bool fused = true;                      ///< element-wise steps are part of the kernels before them; never where scores are stored
  double attention_share = 0;             ///< of the peak, that the attention kernel's products reach; 0: as other products of their size
  double product_share = 1, traffic = 1;  ///< program::LayerKernels
  std::optional<program::NarrowProducts> narrow = {};     ///< blocks' linear products have operands of fewer bits
  bool early_stop = false, keeps_other_products = false;  ///< program::LayerKernels
  bool overlaps_tensor = false;                           ///< program::LayerRuntime
  double tensor_visible = 0, host_error = 0;              ///< program::LayerRuntime
  int fused_scores = 0;                                   ///< program::LayerKernels
  Seconds microbatch_host{};                              ///< program::LayerRuntime, as the three below
  bool waits_for_kernels = false;
  int board = 0;
  BytesPerSecond between_boards{};
  Bytes added{8};               ///< moved for one weight where its gradient is summed (program::LayerRuntime::added_half)
  bool groups_experts = false;  ///< program::LayerRuntime
  int context = 1;              ///< of a sequence, this rank holds one part of so many: a query sees keys of the others, too
};

/// What an operation asks of a device.
struct OperationWork {
  double flops = 0;  ///< of matrix products
  int products = 0;  ///< that the FLOPs are spread over
  Bytes traffic;
  int kernels = 1;
  int started = 0;             ///< kernels in addition, which a library starts one after the other without the framework
  double attention_flops = 0;  ///< apart, of the attention kernel
  double attention_share = 1;  ///< of the peak, that these reach
  double plain_flops = 0;      ///< apart, of products that matrix units of half precision cannot take: at the rate of fp32
};
OperationWork work_of(const model::Config&, const model::LayerShape&, model::Operation, const Execution& = {});

/// Seconds by cluster::Efficiency's formula. Throws Error{bad_input} when the profile does not hold the type's figures.
Seconds roofline(const cluster::Profile&, const std::string& device_type, Precision, const OperationWork&, Seconds host = {});
/// Reading and writing so many bytes, by the roofline.
Cost stream_cost(const cluster::Profile&, const std::string& device_type, Bytes traffic);

/// Whether a profile has a time of the operation on the type, whatever the size.
bool is_measured(const cluster::Profile&, const std::string& device_type, model::Operation);
/// The part of a whole operation's FLOPs that a half of it takes.
double share_of_whole(const model::Config&, model::Operation half, const model::LayerShape&);

/// Measured (of a size that was not, between its neighbours or in proportion, with what that may be off), else scaled from another degree,
/// else roofline (ProfileCost says more).
Cost operation_cost(const cluster::Profile&, const model::Config&, const std::string& device_type, model::Operation,
                    const model::LayerShape&, const Execution& = {});

/// Seconds per element of an operation that is_per_element() on a type, in this precision or else any; nullopt when never measured.
std::optional<Cost> element_cost(const cluster::Profile&, const std::string& device_type, const std::string& operation, Precision);

}  // namespace flotilla::simulate
