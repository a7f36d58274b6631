// A libcuda.so.1 without a device, with which NVIDIA's own cuDNN compiles plans for devices that it knows by their properties ("deviceless
// compilation"). It takes machine code, hands out kernels and launches none.
namespace {

constexpr int success = 0, not_supported = 801;
int object = 0;

}  // namespace

#define FLOTILLA_ANSWER(name, answer) \
  extern "C" __attribute__((visibility("default"))) int name() { return answer; }
FLOTILLA_ANSWER(cuCtxGetCurrent, not_supported)
FLOTILLA_ANSWER(cuCtxGetLimit, not_supported)
FLOTILLA_ANSWER(cuCtxPopCurrent, not_supported)
FLOTILLA_ANSWER(cuCtxPushCurrent, not_supported)
FLOTILLA_ANSWER(cuDeviceGet, not_supported)
FLOTILLA_ANSWER(cuDeviceGetCount, not_supported)
FLOTILLA_ANSWER(cuDriverGetVersion, not_supported)
FLOTILLA_ANSWER(cuGetErrorName, not_supported)
FLOTILLA_ANSWER(cuGetErrorString, not_supported)
FLOTILLA_ANSWER(cuKernelGetAttribute, not_supported)
FLOTILLA_ANSWER(cuKernelSetAttribute, success)
FLOTILLA_ANSWER(cuLaunchCooperativeKernel, not_supported)
FLOTILLA_ANSWER(cuLaunchKernel, not_supported)
FLOTILLA_ANSWER(cuLaunchKernelEx, not_supported)
FLOTILLA_ANSWER(cuLibraryLoadFromFile, not_supported)
FLOTILLA_ANSWER(cuLibraryUnload, success)
FLOTILLA_ANSWER(cuLinkAddData, not_supported)
FLOTILLA_ANSWER(cuLinkComplete, not_supported)
FLOTILLA_ANSWER(cuLinkCreate, not_supported)
FLOTILLA_ANSWER(cuLinkDestroy, not_supported)
FLOTILLA_ANSWER(cuOccupancyMaxPotentialClusterSize, not_supported)
FLOTILLA_ANSWER(cuStreamGetCtx, not_supported)
#undef FLOTILLA_ANSWER

extern "C" __attribute__((visibility("default"))) int cuLibraryLoadData(void** library) {
  *library = &object;
  return success;
}
extern "C" __attribute__((visibility("default"))) int cuLibraryGetKernel(void** kernel) {
  *kernel = &object;
  return success;
}
