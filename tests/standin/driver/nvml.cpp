// A libnvidia-ml.so.1 for tests: figures of the stand-in driver's devices.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "driver_api.hpp"

namespace flotilla::gpu::driver::nvml {

#define FLOTILLA_DECLARE(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__);
FLOTILLA_NVML_FUNCTIONS(FLOTILLA_DECLARE)
#undef FLOTILLA_DECLARE

namespace {

constexpr int not_found = 6, uninitialized = 1, timeout = 10;

/// Bus 01 is device 0: a handle is the bus.
std::intptr_t index_of(Device device) { return reinterpret_cast<std::intptr_t>(device) - 1; }

}  // namespace

int nvmlInit_v2() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) ? 0 : uninitialized; }
int nvmlShutdown() { return 0; }

int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  std::snprintf(version, size, "580.65.06");
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* id, Device* device) {
  unsigned domain = 0, bus = 0;
  if (std::sscanf(id, "%x:%x:", &domain, &bus) != 2 || bus == 0) return not_found;
  *device = reinterpret_cast<Device>(static_cast<std::intptr_t>(bus));
  return 0;
}

int nvmlDeviceGetTemperature(Device device, int, unsigned* celsius) {
  *celsius = 40 + static_cast<unsigned>(index_of(device));
  return 0;
}

int nvmlDeviceGetPowerUsage(Device, unsigned* milliwatts) {
  *milliwatts = 312500;
  return 0;
}

int nvmlDeviceGetClockInfo(Device, int, unsigned* megahertz) {
  *megahertz = 1755;
  return 0;
}

/// FLOTILLA_STANDIN_ECC: how many uncorrected memory errors the first device counts, one more with each question.
int nvmlDeviceGetTotalEccErrors(Device device, int kind, int, unsigned long long* count) {
  static unsigned long long asked = 0;
  const char* most = std::getenv("FLOTILLA_STANDIN_ECC");
  const bool counts = most != nullptr && kind == memory_error_uncorrected && index_of(device) == 0;
  *count = counts ? std::min(asked++, std::strtoull(most, nullptr, 10)) : 0;
  return 0;
}

/// FLOTILLA_STANDIN_HOT: the ordinal of a device that heat slows.
int nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* reasons) {
  const char* hot = std::getenv("FLOTILLA_STANDIN_HOT");
  *reasons = hot != nullptr && std::atoi(hot) == index_of(device) ? hardware_thermal : 0;
  return 0;
}

/// FLOTILLA_STANDIN_XID=79: what is reported once, of a device in error.
int nvmlEventSetCreate(EventSet* set) {
  *set = nullptr;
  return 0;
}

int nvmlDeviceRegisterEvents(Device, unsigned long long types, EventSet) { return types == xid_critical_error ? 0 : 2; }

int nvmlEventSetWait_v2(EventSet, EventData* event, unsigned) {
  static bool reported = false;
  const auto stuck = reinterpret_cast<int (*)()>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "flotilla_standin_stuck"));
  const char* xid = std::getenv("FLOTILLA_STANDIN_XID");
  if (xid == nullptr || reported || stuck == nullptr || stuck() == 0) return timeout;
  reported = true;
  *event = {nullptr, xid_critical_error, static_cast<unsigned long long>(std::atoi(xid)), 0, 0};
  return 0;
}

int nvmlEventSetFree(EventSet) { return 0; }

int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  using Ask = void (*)(int, unsigned long long*, unsigned long long*);
  const auto ask = reinterpret_cast<Ask>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "flotilla_standin_memory"));
  if (!ask) return uninitialized;
  ask(static_cast<int>(index_of(device)), &memory->used, &memory->total);
  memory->free = memory->total - memory->used;
  return 0;
}

}  // namespace flotilla::gpu::driver::nvml
