#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "standin.hpp"

namespace flotilla::standin {
namespace {

// Public tables of compute capabilities (CUDA C++ programming guide) and of the products.
constexpr DeviceType types[] = {
    {"t4", "Tesla T4", 7, 5, 40, 65536, 65536, 1024},
    {"a100", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 166912, 167936, 2048},
    {"a100-mig", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 8, 0, 14, 166912, 167936, 2048},
    {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 232448, 233472, 2048},
    {"b200", "NVIDIA B200", 10, 0, 148, 232448, 233472, 2048},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 12, 0, 170, 101376, 102400, 1536},
};

std::vector<const DeviceType*> parse(const std::string& list) {
  std::vector<const DeviceType*> found;
  std::istringstream in{list};
  for (std::string key; std::getline(in, key, ',');)
    for (const DeviceType& type : types)
      if (key == type.key) found.push_back(&type);
  return found;
}

/// CUDA_VISIBLE_DEVICES by ordinals: those before the first that does not exist.
std::vector<const DeviceType*> visible(const std::vector<const DeviceType*>& all) {
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!list) return all;
  std::vector<const DeviceType*> seen;
  std::istringstream in{list};
  for (std::string word; std::getline(in, word, ',');) {
    const int ordinal = std::atoi(word.c_str());
    if (word.empty() || ordinal < 0 || ordinal >= static_cast<int>(all.size())) break;
    seen.push_back(all[static_cast<std::size_t>(ordinal)]);
  }
  return seen;
}

struct ContextImpl {
  int device;
};
ContextImpl contexts[16];
thread_local const ContextImpl* current = nullptr;
std::atomic<bool> started{false};

bool known(int device) { return device >= 0 && device < device_count(); }

}  // namespace

const std::vector<const DeviceType*>& device_types() {
  static const auto seen = visible(parse(setting("FLOTILLA_STANDIN_DEVICES", "h100")));
  return seen;
}

int current_device() { return current ? current->device : -1; }

}  // namespace flotilla::standin

namespace flotilla::gpu::driver {

using namespace standin;

Result cuInit(unsigned flags) {
  if (const Result failed = fault(Kind::init)) return failed;
  if (flags != 0) return invalid_value;
  if (device_count() == 0) return no_device;
  started = true;
  return success;
}

Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}

Result cuGetErrorName(Result result, const char** name) {
  static const std::map<Result, const char*> names{{success, "CUDA_SUCCESS"},
                                                   {invalid_value, "CUDA_ERROR_INVALID_VALUE"},
                                                   {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {not_initialized, "CUDA_ERROR_NOT_INITIALIZED"},
                                                   {no_device, "CUDA_ERROR_NO_DEVICE"},
                                                   {invalid_device, "CUDA_ERROR_INVALID_DEVICE"},
                                                   {invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
                                                   {not_found, "CUDA_ERROR_NOT_FOUND"},
                                                   {not_ready, "CUDA_ERROR_NOT_READY"},
                                                   {illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                   {launch_failed, "CUDA_ERROR_LAUNCH_FAILED"},
                                                   {not_supported, "CUDA_ERROR_NOT_SUPPORTED"}};
  const auto found = names.find(result);
  *name = found == names.end() ? nullptr : found->second;
  return *name ? success : invalid_value;
}

Result cuGetErrorString(Result result, const char** words) { return cuGetErrorName(result, words); }

Result cuDeviceGetCount(int* count) {
  if (!started) return not_initialized;
  *count = device_count();
  return success;
}

Result cuDeviceGet(DeviceOrdinal* device, int ordinal) {
  if (!started) return not_initialized;
  if (!known(ordinal)) return invalid_device;
  *device = ordinal;
  return success;
}

Result cuDeviceGetName(char* name, int size, DeviceOrdinal device) {
  if (!known(device)) return invalid_device;
  std::snprintf(name, static_cast<std::size_t>(size), "%s", device_types()[static_cast<std::size_t>(device)]->name);
  return success;
}

Result cuDeviceGetUuid_v2(Uuid* uuid, DeviceOrdinal device) {
  if (!known(device)) return invalid_device;
  std::memset(uuid->bytes, device + 1, sizeof uuid->bytes);
  return success;
}

Result cuDeviceGetPCIBusId(char* id, int size, DeviceOrdinal device) {
  if (!known(device)) return invalid_device;
  std::snprintf(id, static_cast<std::size_t>(size), "0000:%02X:00.0", device + 1);
  return success;
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute which, DeviceOrdinal device) {
  if (!known(device)) return invalid_device;
  const DeviceType& type = *device_types()[static_cast<std::size_t>(device)];
  switch (which) {
    case DeviceAttribute::max_threads_per_block: *value = 1024; break;
    case DeviceAttribute::warp_size: *value = 32; break;
    case DeviceAttribute::multiprocessors: *value = type.multiprocessors; break;
    case DeviceAttribute::max_shared_per_multiprocessor: *value = type.shared_per_multiprocessor; break;
    case DeviceAttribute::max_shared_per_block_optin: *value = type.shared_per_block; break;
    case DeviceAttribute::major: *value = type.major; break;
    case DeviceAttribute::minor: *value = type.minor; break;
    default: return invalid_value;
  }
  return success;
}

Result cuDevicePrimaryCtxRetain(Context* context, DeviceOrdinal device) {
  if (!known(device)) return invalid_device;
  contexts[device].device = device;
  *context = reinterpret_cast<Context>(&contexts[device]);
  return success;
}

Result cuDevicePrimaryCtxRelease_v2(DeviceOrdinal device) { return known(device) ? success : invalid_device; }

Result cuCtxSetCurrent(Context context) {
  current = reinterpret_cast<ContextImpl*>(context);
  return success;
}

}  // namespace flotilla::gpu::driver
