#pragma once
#include <cstddef>
#include <cstdint>

/// What is used of cuDNN 9 (libcudnn.so.9), as documented and in our own declarations: the backend API, which builds and runs graphs of
/// operations on tensors.
namespace flotilla::compute::cuda::cudnn {

using Status = int;
using Handle = struct HandleObject*;
using BackendDescriptor = struct BackendDescriptorObject*;

inline constexpr Status success = 0, bad_parameter = 2000, not_supported = 3000, execution_failed = 5000;  // CUDNN_STATUS_*

// CUDNN_DATA_*
inline constexpr int type_fp32 = 0, type_fp16 = 2, type_int32 = 4, type_bf16 = 9, type_boolean = 11;

/// CUDNN_BACKEND_*_DESCRIPTOR.
namespace kind {
inline constexpr int pointwise = 0, engine = 2, engine_config = 3, heuristics = 4, execution_plan = 5, knob_choice = 7,
                     pointwise_operation = 13, operation_graph = 15, variant_pack = 16, tensor = 17, matmul = 18, matmul_operation = 19,
                     reduction = 21, reduction_operation = 22, reshape_operation = 31, device_properties = 38;
}

/// CUDNN_ATTR_*.
namespace attribute {
inline constexpr int pointwise_mode = 0, pointwise_precision = 1, pointwise_axis = 9;
inline constexpr int heuristics_mode = 200, heuristics_graph = 201, heuristics_results = 202, heuristics_device = 204;
inline constexpr int config_engine = 300, config_knobs = 302;
inline constexpr int plan_handle = 400, plan_config = 401, plan_workspace = 402, plan_device = 407;
inline constexpr int knob_type = 600, knob_value = 601;
inline constexpr int operation_pointwise = 750, operation_pointwise_x = 751, operation_pointwise_b = 752, operation_pointwise_y = 753,
                     operation_pointwise_t = 758;
inline constexpr int graph_handle = 800, graph_operations = 801;
inline constexpr int tensor_alignment = 900, tensor_type = 901, tensor_dimensions = 902, tensor_strides = 903, tensor_id = 906,
                     tensor_virtual = 907, tensor_by_value = 908;
inline constexpr int pack_ids = 1000, pack_pointers = 1001, pack_workspace = 1003;
inline constexpr int engine_graph = 1300, engine_index = 1301, engine_device = 1307;
inline constexpr int matmul_precision = 1500, operation_matmul_a = 1520, operation_matmul_b = 1521, operation_matmul_c = 1522,
                     operation_matmul = 1523;
inline constexpr int reduction_operator = 1600, reduction_precision = 1601, operation_reduction_x = 1610, operation_reduction_y = 1611,
                     operation_reduction = 1612;
inline constexpr int operation_reshape_x = 2200, operation_reshape_y = 2201;
inline constexpr int device_json = 2702;
}  // namespace attribute

/// CUDNN_TYPE_*: of attributes' values.
namespace value {
inline constexpr int handle = 0, data_type = 1, boolean = 2, int64 = 3, pointer = 6, heuristics_mode = 8, knob_type = 9,
                     pointwise_mode = 14, descriptor = 15, reduction_operator = 18, character = 24;
}

/// CUDNN_POINTWISE_*.
namespace pointwise {
inline constexpr int add = 0, multiply = 1, divide = 6, subtract = 9, exponential = 13, logarithm = 15, identity = 21, greater = 302,
                     greater_or_equal = 303, index = 501, select = 601;
}
inline constexpr int reduce_add = 0, reduce_max = 3;      // CUDNN_REDUCE_TENSOR_*
inline constexpr int heuristics_a = 3;                    // CUDNN_HEUR_MODE_A
inline constexpr int knob_stages = 14, knob_kernel = 24;  // CUDNN_KNOB_TYPE_*

#define FLOTILLA_CUDNN_FUNCTIONS(F)                                                                    \
  F(cudnnGetVersion, std::size_t, void)                                                                \
  F(cudnnGetLastErrorString, void, char*, std::size_t)                                                 \
  F(cudnnCreate, Status, Handle*)                                                                      \
  F(cudnnDestroy, Status, Handle)                                                                      \
  F(cudnnSetStream, Status, Handle, void*)                                                             \
  F(cudnnBackendCreateDescriptor, Status, int, BackendDescriptor*)                                     \
  F(cudnnBackendDestroyDescriptor, Status, BackendDescriptor)                                          \
  F(cudnnBackendFinalize, Status, BackendDescriptor)                                                   \
  F(cudnnBackendSetAttribute, Status, BackendDescriptor, int, int, std::int64_t, const void*)          \
  F(cudnnBackendGetAttribute, Status, BackendDescriptor, int, int, std::int64_t, std::int64_t*, void*) \
  F(cudnnBackendExecute, Status, Handle, BackendDescriptor, BackendDescriptor)

struct CudnnFunctions {
#define FLOTILLA_CUDNN_MEMBER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  FLOTILLA_CUDNN_FUNCTIONS(FLOTILLA_CUDNN_MEMBER)
#undef FLOTILLA_CUDNN_MEMBER
};

}  // namespace flotilla::compute::cuda::cudnn
