#include "library.hpp"

#include <dlfcn.h>

#include "xid.hpp"

namespace flotilla::gpu {
namespace {

/// The names in a library that it lacks are told; the handle stays open.
template <class Function>
void resolve(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function && missing.empty()) missing = name;
}

Driver load_driver() {
  Driver d;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    d.why_none = text("NVIDIA's driver is not here: ", dlerror());
    return d;
  }
  std::string missing;
#define FLOTILLA_RESOLVE(name, ...) resolve(library, #name, d.table.name, missing);
  FLOTILLA_DRIVER_FUNCTIONS(FLOTILLA_RESOLVE)
#undef FLOTILLA_RESOLVE
  if (!missing.empty())
    d.why_none =
        text("NVIDIA's driver lacks ", missing, ": it is older than CUDA ", driver::oldest_version / 1000, ".0; install a newer driver");
  return d;
}

const driver::nvml::NvmlFunctions* load_nvml() {
  static driver::nvml::NvmlFunctions table;
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  std::string missing;
#define FLOTILLA_RESOLVE(name, ...) resolve(library, #name, table.name, missing);
  FLOTILLA_NVML_FUNCTIONS(FLOTILLA_RESOLVE)
#undef FLOTILLA_RESOLVE
  return missing.empty() && table.nvmlInit_v2() == 0 ? &table : nullptr;
}

std::string words(const driver::DriverFunctions& table, driver::Result result) {
  const char *name = nullptr, *description = nullptr;
  if (table.cuGetErrorName(result, &name) != driver::success || !name) return text("error ", result);
  const bool described = table.cuGetErrorString(result, &description) == driver::success && description;
  return text("error ", result, ' ', name, described ? " (" : "", described ? description : "", described ? ")" : "");
}

std::string advice(driver::Result result, int device) {
  switch (result) {
    case driver::out_of_memory: return "take smaller microbatches, or look with nvidia-smi who else uses the device";
    case driver::not_found: return "this build has no such kernel for this device: configure it with nvcc and the device's architecture";
    case driver::invalid_device: return "look with nvidia-smi which devices there are, and at CUDA_VISIBLE_DEVICES";
    case driver::invalid_value: return "this is an error of flotilla's: report it";
    default: break;
  }
  const int xid = device < 0 ? 0 : last_xid(device);
  const auto reported = xid == 0 ? std::string{"see dmesg and nvidia-smi for an Xid of the device"}
                                 : text("the driver reports Xid ", xid, " of it, which NVIDIA's list of Xid errors explains");
  return reported + "; a device in error stays so until the process ends";
}

}  // namespace

const Driver& open_driver() {
  static const Driver driver = load_driver();
  return driver;
}

const driver::DriverFunctions& api() {
  const Driver& driver = open_driver();
  FLOTILLA_REQUIRE(driver.why_none.empty(), ErrorKind::unavailable, "no GPU here: ", driver.why_none);
  return driver.table;
}

const driver::nvml::NvmlFunctions* nvml_api() {
  static const driver::nvml::NvmlFunctions* const table = load_nvml();
  return table;
}

void fail(driver::Result result, CallSite site) {
  const std::string device = site.device < 0 ? "" : text(" on GPU ", site.device);
  throw Error{ErrorKind::unavailable, text(site.call, " failed", device, ": ", words(api(), result), "; ", advice(result, site.device))};
}

}  // namespace flotilla::gpu
