// Compiling is the test: our declarations of cuDNN's backend API have the parameters of cudnn.h, and our numbers its.
#include <cudnn.h>

#include "cuda/cudnn_api.hpp"
#include "support/same_call.hpp"

namespace {

namespace ours = flotilla::compute::cuda::cudnn;
namespace attribute = ours::attribute;
namespace kind = ours::kind;
namespace value = ours::value;
namespace pointwise = ours::pointwise;

using flotilla::tests::SameCall;

#define FLOTILLA_SAME(name, ...) static_assert(SameCall<decltype(ours::CudnnFunctions::name), decltype(&::name)>::value, #name);
FLOTILLA_CUDNN_FUNCTIONS(FLOTILLA_SAME)

static_assert(ours::success == CUDNN_STATUS_SUCCESS && ours::bad_parameter == CUDNN_STATUS_BAD_PARAM &&
              ours::not_supported == CUDNN_STATUS_NOT_SUPPORTED && ours::execution_failed == CUDNN_STATUS_EXECUTION_FAILED);
static_assert(ours::type_fp32 == CUDNN_DATA_FLOAT && ours::type_fp16 == CUDNN_DATA_HALF && ours::type_int32 == CUDNN_DATA_INT32 &&
              ours::type_bf16 == CUDNN_DATA_BFLOAT16 && ours::type_boolean == CUDNN_DATA_BOOLEAN);
static_assert(kind::pointwise == CUDNN_BACKEND_POINTWISE_DESCRIPTOR && kind::engine == CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
              kind::engine_config == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR && kind::heuristics == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
              kind::execution_plan == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
              kind::knob_choice == CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR &&
              kind::pointwise_operation == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR &&
              kind::operation_graph == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
              kind::variant_pack == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR && kind::tensor == CUDNN_BACKEND_TENSOR_DESCRIPTOR &&
              kind::matmul == CUDNN_BACKEND_MATMUL_DESCRIPTOR && kind::matmul_operation == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR &&
              kind::reduction == CUDNN_BACKEND_REDUCTION_DESCRIPTOR &&
              kind::reduction_operation == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR &&
              kind::reshape_operation == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR &&
              kind::device_properties == CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
static_assert(attribute::pointwise_mode == CUDNN_ATTR_POINTWISE_MODE && attribute::pointwise_precision == CUDNN_ATTR_POINTWISE_MATH_PREC &&
              attribute::pointwise_axis == CUDNN_ATTR_POINTWISE_AXIS && attribute::heuristics_mode == CUDNN_ATTR_ENGINEHEUR_MODE &&
              attribute::heuristics_graph == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH &&
              attribute::heuristics_results == CUDNN_ATTR_ENGINEHEUR_RESULTS &&
              attribute::heuristics_device == CUDNN_ATTR_ENGINEHEUR_DEVICEPROP && attribute::config_engine == CUDNN_ATTR_ENGINECFG_ENGINE &&
              attribute::config_knobs == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
static_assert(attribute::plan_config == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG &&
              attribute::plan_workspace == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE &&
              attribute::plan_device == CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP && attribute::knob_type == CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE &&
              attribute::knob_value == CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE &&
              attribute::operation_pointwise == CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR &&
              attribute::operation_pointwise_x == CUDNN_ATTR_OPERATION_POINTWISE_XDESC &&
              attribute::operation_pointwise_b == CUDNN_ATTR_OPERATION_POINTWISE_BDESC &&
              attribute::operation_pointwise_y == CUDNN_ATTR_OPERATION_POINTWISE_YDESC &&
              attribute::operation_pointwise_t == CUDNN_ATTR_OPERATION_POINTWISE_TDESC &&
              attribute::graph_operations == CUDNN_ATTR_OPERATIONGRAPH_OPS);
static_assert(attribute::tensor_alignment == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT && attribute::tensor_type == CUDNN_ATTR_TENSOR_DATA_TYPE &&
              attribute::tensor_dimensions == CUDNN_ATTR_TENSOR_DIMENSIONS && attribute::tensor_strides == CUDNN_ATTR_TENSOR_STRIDES &&
              attribute::tensor_id == CUDNN_ATTR_TENSOR_UNIQUE_ID && attribute::tensor_virtual == CUDNN_ATTR_TENSOR_IS_VIRTUAL &&
              attribute::tensor_by_value == CUDNN_ATTR_TENSOR_IS_BY_VALUE && attribute::pack_ids == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS &&
              attribute::pack_pointers == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS &&
              attribute::pack_workspace == CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
static_assert(attribute::engine_graph == CUDNN_ATTR_ENGINE_OPERATION_GRAPH && attribute::engine_index == CUDNN_ATTR_ENGINE_GLOBAL_INDEX &&
              attribute::engine_device == CUDNN_ATTR_ENGINE_DEVICEPROP && attribute::matmul_precision == CUDNN_ATTR_MATMUL_COMP_TYPE &&
              attribute::operation_matmul_a == CUDNN_ATTR_OPERATION_MATMUL_ADESC &&
              attribute::operation_matmul_b == CUDNN_ATTR_OPERATION_MATMUL_BDESC &&
              attribute::operation_matmul_c == CUDNN_ATTR_OPERATION_MATMUL_CDESC &&
              attribute::operation_matmul == CUDNN_ATTR_OPERATION_MATMUL_DESC &&
              attribute::reduction_operator == CUDNN_ATTR_REDUCTION_OPERATOR &&
              attribute::reduction_precision == CUDNN_ATTR_REDUCTION_COMP_TYPE &&
              attribute::operation_reduction_x == CUDNN_ATTR_OPERATION_REDUCTION_XDESC &&
              attribute::operation_reduction_y == CUDNN_ATTR_OPERATION_REDUCTION_YDESC &&
              attribute::operation_reduction == CUDNN_ATTR_OPERATION_REDUCTION_DESC &&
              attribute::operation_reshape_x == CUDNN_ATTR_OPERATION_RESHAPE_XDESC &&
              attribute::operation_reshape_y == CUDNN_ATTR_OPERATION_RESHAPE_YDESC &&
              attribute::device_json == CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
static_assert(value::handle == CUDNN_TYPE_HANDLE && value::data_type == CUDNN_TYPE_DATA_TYPE && value::boolean == CUDNN_TYPE_BOOLEAN &&
              value::int64 == CUDNN_TYPE_INT64 && value::pointer == CUDNN_TYPE_VOID_PTR && value::heuristics_mode == CUDNN_TYPE_HEUR_MODE &&
              value::knob_type == CUDNN_TYPE_KNOB_TYPE && value::pointwise_mode == CUDNN_TYPE_POINTWISE_MODE &&
              value::descriptor == CUDNN_TYPE_BACKEND_DESCRIPTOR && value::reduction_operator == CUDNN_TYPE_REDUCTION_OPERATOR_TYPE &&
              value::character == CUDNN_TYPE_CHAR);
static_assert(pointwise::add == CUDNN_POINTWISE_ADD && pointwise::multiply == CUDNN_POINTWISE_MUL &&
              pointwise::divide == CUDNN_POINTWISE_DIV && pointwise::subtract == CUDNN_POINTWISE_SUB &&
              pointwise::exponential == CUDNN_POINTWISE_EXP && pointwise::logarithm == CUDNN_POINTWISE_LOG &&
              pointwise::identity == CUDNN_POINTWISE_IDENTITY && pointwise::greater == CUDNN_POINTWISE_CMP_GT &&
              pointwise::greater_or_equal == CUDNN_POINTWISE_CMP_GE && pointwise::index == CUDNN_POINTWISE_GEN_INDEX &&
              pointwise::select == CUDNN_POINTWISE_BINARY_SELECT);
static_assert(ours::reduce_add == CUDNN_REDUCE_TENSOR_ADD && ours::reduce_max == CUDNN_REDUCE_TENSOR_MAX &&
              ours::heuristics_a == CUDNN_HEUR_MODE_A && ours::knob_stages == CUDNN_KNOB_TYPE_STAGES &&
              ours::knob_kernel == CUDNN_KNOB_TYPE_KERNEL_CFG);

}  // namespace
