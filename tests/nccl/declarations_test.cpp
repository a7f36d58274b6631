// Compiling is the test: our declarations of NCCL's functions have the parameters of nccl.h, and our numbers its.
#include <nccl.h>

#include <type_traits>

#include "nccl_api.hpp"

namespace {

namespace ours = flotilla::nccl::api;

/// Handles are pointers to different nothings, and enumerations are ints of ours: alike in kind and size.
template <class A, class B>
constexpr bool alike = (std::is_pointer_v<A> && std::is_pointer_v<B>) ||
                       (!std::is_pointer_v<A> && !std::is_pointer_v<B> && sizeof(A) == sizeof(B));
template <class A, class B>
struct SameCall : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), S (*)(B...)> : std::bool_constant<alike<R, S> && (alike<A, B> && ...)> {
};

#define FLOTILLA_SAME(name, ...) static_assert(SameCall<decltype(ours::Table::name), decltype(&::name)>::value, #name);
FLOTILLA_NCCL_FUNCTIONS(FLOTILLA_SAME)

static_assert(ours::success == ncclSuccess && ours::unhandled_cuda_error == ncclUnhandledCudaError &&
              ours::system_error == ncclSystemError && ours::internal_error == ncclInternalError &&
              ours::invalid_argument == ncclInvalidArgument && ours::invalid_usage == ncclInvalidUsage &&
              ours::remote_error == ncclRemoteError && ours::in_progress == ncclInProgress);
static_assert(ours::uint8 == ncclUint8 && ours::float16 == ncclFloat16 && ours::float32 == ncclFloat32 && ours::float64 == ncclFloat64 &&
              ours::bfloat16 == ncclBfloat16 && ours::sum == ncclSum);
static_assert(sizeof(flotilla::nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(ours::Config, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(ours::Config, version) == offsetof(ncclConfig_t, version) &&
              offsetof(ours::Config, blocking) == offsetof(ncclConfig_t, blocking));

}  // namespace
