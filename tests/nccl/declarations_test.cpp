// Compiling is the test: our declarations of NCCL's functions have the parameters of nccl.h, and our numbers its.
#include <nccl.h>

#include "nccl_api.hpp"
#include "support/same_call.hpp"

namespace {

namespace ours = flotilla::nccl::api;

using flotilla::tests::SameCall;

#define FLOTILLA_SAME(name, ...) static_assert(SameCall<decltype(ours::NcclFunctions::name), decltype(&::name)>::value, #name);
FLOTILLA_NCCL_FUNCTIONS(FLOTILLA_SAME)

static_assert(ours::success == ncclSuccess && ours::unhandled_cuda_error == ncclUnhandledCudaError &&
              ours::system_error == ncclSystemError && ours::internal_error == ncclInternalError &&
              ours::invalid_argument == ncclInvalidArgument && ours::invalid_usage == ncclInvalidUsage &&
              ours::remote_error == ncclRemoteError && ours::in_progress == ncclInProgress);
static_assert(ours::uint8 == ncclUint8 && ours::float16 == ncclFloat16 && ours::float32 == ncclFloat32 && ours::float64 == ncclFloat64 &&
              ours::bfloat16 == ncclBfloat16 && ours::sum == ncclSum);
static_assert(sizeof(flotilla::nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(ours::NcclConfig, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(ours::NcclConfig, version) == offsetof(ncclConfig_t, version) &&
              offsetof(ours::NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));

}  // namespace
