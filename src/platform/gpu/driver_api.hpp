#pragma once
#include <cstddef>
#include <cstdint>

/// What is used of NVIDIA's driver (libcuda.so.1) and of NVML (libnvidia-ml.so.1), as documented and in our own declarations: no header of
/// the toolkit is needed to build, and no library of it to start. tests/gpu/declarations_test.cpp holds them to cuda.h where there is one.
namespace flotilla::gpu::driver {

using Result = int;
using DeviceOrdinal = int;
using Address = unsigned long long;
using Context = struct ContextObject*;
using Stream = struct StreamObject*;
using Event = struct EventObject*;
using Library = struct LibraryObject*;
using Kernel = struct KernelObject*;
using Function = struct FunctionObject*;
using Graph = struct GraphObject*;
using GraphExec = struct GraphExecObject*;
using HostFunction = void (*)(void*);
struct Uuid {
  char bytes[16];
};

/// CUDA_MEMCPY2D.
struct RowsCopy {
  std::size_t from_x, from_y;
  int from_type;
  const void* from_host;
  Address from;
  void* from_array;
  std::size_t from_pitch, to_x, to_y;
  int to_type;
  void* to_host;
  Address to;
  void* to_array;
  std::size_t to_pitch, width, rows;
};

inline constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, stub_library = 34, insufficient_driver = 35,
                        no_device = 100, invalid_device = 101, invalid_context = 201, not_found = 500, not_ready = 600,
                        illegal_address = 700, launch_failed = 719, not_supported = 801, capture_invalidated = 901;

enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  warp_size = 10,
  multiprocessors = 16,
  max_shared_per_multiprocessor = 81,
  major = 75,
  minor = 76,
  max_shared_per_block_optin = 97,
};

inline constexpr int kernel_static_shared = 1;       // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
inline constexpr int kernel_max_dynamic_shared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
inline constexpr unsigned stream_non_blocking = 1;   // CU_STREAM_NON_BLOCKING
inline constexpr unsigned event_disable_timing = 2;  // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned host_alloc_portable = 1;   // CU_MEMHOSTALLOC_PORTABLE
inline constexpr int memory_type_device = 2;         // CU_MEMORYTYPE_DEVICE
inline constexpr int capture_thread_local = 1;       // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr int oldest_version = 12000;         // cuLibraryLoadData and its family

/// The table: FLOTILLA_DRIVER_FUNCTIONS(name as exported, parameter types...).
#define FLOTILLA_DRIVER_FUNCTIONS(F)                                                                                        \
  F(cuInit, unsigned)                                                                                                       \
  F(cuDriverGetVersion, int*)                                                                                               \
  F(cuGetErrorName, Result, const char**)                                                                                   \
  F(cuGetErrorString, Result, const char**)                                                                                 \
  F(cuDeviceGetCount, int*)                                                                                                 \
  F(cuDeviceGet, DeviceOrdinal*, int)                                                                                       \
  F(cuDeviceGetName, char*, int, DeviceOrdinal)                                                                             \
  F(cuDeviceTotalMem_v2, std::size_t*, DeviceOrdinal)                                                                       \
  F(cuDeviceGetAttribute, int*, DeviceAttribute, DeviceOrdinal)                                                             \
  F(cuDeviceGetUuid_v2, Uuid*, DeviceOrdinal)                                                                               \
  F(cuDeviceGetPCIBusId, char*, int, DeviceOrdinal)                                                                         \
  F(cuDevicePrimaryCtxRetain, Context*, DeviceOrdinal)                                                                      \
  F(cuDevicePrimaryCtxRelease_v2, DeviceOrdinal)                                                                            \
  F(cuCtxSetCurrent, Context)                                                                                               \
  F(cuMemGetInfo_v2, std::size_t*, std::size_t*)                                                                            \
  F(cuMemAlloc_v2, Address*, std::size_t)                                                                                   \
  F(cuMemFree_v2, Address)                                                                                                  \
  F(cuMemHostAlloc, void**, std::size_t, unsigned)                                                                          \
  F(cuMemFreeHost, void*)                                                                                                   \
  F(cuMemcpyHtoDAsync_v2, Address, const void*, std::size_t, Stream)                                                        \
  F(cuMemcpyDtoHAsync_v2, void*, Address, std::size_t, Stream)                                                              \
  F(cuMemcpyDtoDAsync_v2, Address, Address, std::size_t, Stream)                                                            \
  F(cuMemcpy2DAsync_v2, const RowsCopy*, Stream)                                                                            \
  F(cuMemsetD8Async, Address, unsigned char, std::size_t, Stream)                                                           \
  F(cuStreamCreateWithPriority, Stream*, unsigned, int)                                                                     \
  F(cuStreamDestroy_v2, Stream)                                                                                             \
  F(cuStreamQuery, Stream)                                                                                                  \
  F(cuStreamWaitEvent, Stream, Event, unsigned)                                                                             \
  F(cuLaunchHostFunc, Stream, HostFunction, void*)                                                                          \
  F(cuEventCreate, Event*, unsigned)                                                                                        \
  F(cuEventDestroy_v2, Event)                                                                                               \
  F(cuEventRecord, Event, Stream)                                                                                           \
  F(cuEventQuery, Event)                                                                                                    \
  F(cuEventElapsedTime, float*, Event, Event)                                                                               \
  F(cuLibraryLoadData, Library*, const void*, void*, void**, unsigned, void*, void**, unsigned)                             \
  F(cuLibraryUnload, Library)                                                                                               \
  F(cuLibraryGetKernel, Kernel*, Library, const char*)                                                                      \
  F(cuKernelGetFunction, Function*, Kernel)                                                                                 \
  F(cuKernelGetAttribute, int*, int, Kernel, DeviceOrdinal)                                                                 \
  F(cuKernelSetAttribute, int, int, Kernel, DeviceOrdinal)                                                                  \
  F(cuLaunchKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**) \
  F(cuStreamBeginCapture_v2, Stream, int)                                                                                   \
  F(cuStreamEndCapture, Stream, Graph*)                                                                                     \
  F(cuGraphInstantiateWithFlags, GraphExec*, Graph, unsigned long long)                                                     \
  F(cuGraphLaunch, GraphExec, Stream)                                                                                       \
  F(cuGraphDestroy, Graph)                                                                                                  \
  F(cuGraphExecDestroy, GraphExec)

/// The driver's entry points, all there or none.
struct DriverFunctions {
#define FLOTILLA_DRIVER_MEMBER(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  FLOTILLA_DRIVER_FUNCTIONS(FLOTILLA_DRIVER_MEMBER)
#undef FLOTILLA_DRIVER_MEMBER
};

namespace nvml {

using Device = struct NvmlDeviceObject*;
struct Memory {
  unsigned long long total, free, used;
};
inline constexpr int temperature_gpu = 0, clock_sm = 1;
inline constexpr int memory_error_corrected = 0, memory_error_uncorrected = 1, since_driver_load = 0;
/// Why clocks are low: the hardware's slow-down, or heat as the driver or the hardware sees it. Not caps of power, which are usual under
/// load.
inline constexpr unsigned long long slowed_by_hardware = 0x8, software_thermal = 0x20, hardware_thermal = 0x40;
using EventSet = struct NvmlEventSetObject*;
struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
inline constexpr unsigned long long xid_critical_error = 8;

#define FLOTILLA_NVML_FUNCTIONS(F)                                          \
  F(nvmlInit_v2, void)                                                      \
  F(nvmlShutdown, void)                                                     \
  F(nvmlSystemGetDriverVersion, char*, unsigned)                            \
  F(nvmlDeviceGetHandleByPciBusId_v2, const char*, Device*)                 \
  F(nvmlDeviceGetTemperature, Device, int, unsigned*)                       \
  F(nvmlDeviceGetPowerUsage, Device, unsigned*)                             \
  F(nvmlDeviceGetClockInfo, Device, int, unsigned*)                         \
  F(nvmlDeviceGetMemoryInfo, Device, Memory*)                               \
  F(nvmlDeviceGetTotalEccErrors, Device, int, int, unsigned long long*)     \
  F(nvmlDeviceGetCurrentClocksThrottleReasons, Device, unsigned long long*) \
  F(nvmlEventSetCreate, EventSet*)                                          \
  F(nvmlDeviceRegisterEvents, Device, unsigned long long, EventSet)         \
  F(nvmlEventSetWait_v2, EventSet, EventData*, unsigned)                    \
  F(nvmlEventSetFree, EventSet)

struct NvmlFunctions {
#define FLOTILLA_NVML_MEMBER(name, ...) int (*name)(__VA_ARGS__) = nullptr;
  FLOTILLA_NVML_FUNCTIONS(FLOTILLA_NVML_MEMBER)
#undef FLOTILLA_NVML_MEMBER
};

}  // namespace nvml
}  // namespace flotilla::gpu::driver
