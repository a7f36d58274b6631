// Compiling is the test: our declarations of the driver's functions have the parameters of cuda.h, and our numbers its.
#include <cuda.h>
#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include "driver_api.hpp"
#include "nvtx_api.hpp"
#include "support/same_call.hpp"

namespace {

namespace ours = flotilla::gpu::driver;

using flotilla::tests::SameCall;

// cuda.h's macros give cuEventElapsedTime its second version, in our table, too: it has the same parameters.
#define FLOTILLA_SAME(name, ...) static_assert(SameCall<decltype(ours::DriverFunctions::name), decltype(&::name)>::value, #name);
FLOTILLA_DRIVER_FUNCTIONS(FLOTILLA_SAME)

static_assert(ours::out_of_memory == CUDA_ERROR_OUT_OF_MEMORY && ours::stub_library == CUDA_ERROR_STUB_LIBRARY &&
              ours::not_ready == CUDA_ERROR_NOT_READY && ours::illegal_address == CUDA_ERROR_ILLEGAL_ADDRESS &&
              ours::launch_failed == CUDA_ERROR_LAUNCH_FAILED && ours::not_found == CUDA_ERROR_NOT_FOUND &&
              ours::no_device == CUDA_ERROR_NO_DEVICE && ours::invalid_device == CUDA_ERROR_INVALID_DEVICE &&
              ours::invalid_context == CUDA_ERROR_INVALID_CONTEXT && ours::not_supported == CUDA_ERROR_NOT_SUPPORTED &&
              ours::capture_invalidated == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED && ours::not_initialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(static_cast<int>(ours::DeviceAttribute::max_threads_per_block) == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK &&
              static_cast<int>(ours::DeviceAttribute::warp_size) == CU_DEVICE_ATTRIBUTE_WARP_SIZE &&
              static_cast<int>(ours::DeviceAttribute::multiprocessors) == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              static_cast<int>(ours::DeviceAttribute::max_shared_per_multiprocessor) ==
                  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR &&
              static_cast<int>(ours::DeviceAttribute::major) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              static_cast<int>(ours::DeviceAttribute::minor) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              static_cast<int>(ours::DeviceAttribute::max_shared_per_block_optin) == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(ours::kernel_static_shared == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES &&
              ours::kernel_max_dynamic_shared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
              ours::stream_non_blocking == CU_STREAM_NON_BLOCKING && ours::event_disable_timing == CU_EVENT_DISABLE_TIMING &&
              ours::host_alloc_portable == CU_MEMHOSTALLOC_PORTABLE && ours::capture_thread_local == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);

static_assert(sizeof(ours::RowsCopy) == sizeof(CUDA_MEMCPY2D) && ours::memory_type_device == CU_MEMORYTYPE_DEVICE &&
              offsetof(ours::RowsCopy, from) == offsetof(CUDA_MEMCPY2D, srcDevice) &&
              offsetof(ours::RowsCopy, from_pitch) == offsetof(CUDA_MEMCPY2D, srcPitch) &&
              offsetof(ours::RowsCopy, to_type) == offsetof(CUDA_MEMCPY2D, dstMemoryType) &&
              offsetof(ours::RowsCopy, to) == offsetof(CUDA_MEMCPY2D, dstDevice) &&
              offsetof(ours::RowsCopy, to_pitch) == offsetof(CUDA_MEMCPY2D, dstPitch) &&
              offsetof(ours::RowsCopy, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes) &&
              offsetof(ours::RowsCopy, rows) == offsetof(CUDA_MEMCPY2D, Height));

namespace nvtx = flotilla::gpu::nvtx;
static_assert(nvtx::core_module == NVTX_CB_MODULE_CORE && nvtx::domain_module == NVTX_CB_MODULE_CORE2 &&
              nvtx::range_push == NVTX_CBID_CORE_RangePushA && nvtx::range_pop == NVTX_CBID_CORE_RangePop &&
              nvtx::functions_of_module == NVTX_CBID_CORE_SIZE && nvtx::functions_of_module == NVTX_CBID_CORE2_SIZE &&
              nvtx::module_tables == NVTX_ETID_CALLBACKS && nvtx::version_table == NVTX_ETID_VERSIONINFO);
static_assert(sizeof(nvtx::ModuleTables) == sizeof(NvtxExportTableCallbacks) &&
              sizeof(nvtx::VersionTable) == sizeof(NvtxExportTableVersionInfo));

}  // namespace
