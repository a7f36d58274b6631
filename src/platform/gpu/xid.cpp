#include "xid.hpp"

#include <map>
#include <mutex>

#include "library.hpp"

namespace flotilla::gpu {
namespace {

/// To the end of the process: errors may come at any time.
struct Listeners {
  struct Listener {
    driver::nvml::EventSet events{};
    int last = 0;
  };
  std::mutex mutex;
  std::map<int, Listener> by_ordinal;
};

Listeners& listeners() {
  static auto& all = *new Listeners;  // not destroyed at exit, where a device's error may still be told
  return all;
}

}  // namespace

void listen_for_xids(int ordinal, const std::string& pci_bus_id) {
  Listeners& all = listeners();
  const std::lock_guard lock{all.mutex};
  const driver::nvml::NvmlFunctions* nvml = nvml_api();
  driver::nvml::Device device{};
  Listeners::Listener listener;
  if (!nvml || all.by_ordinal.contains(ordinal) || nvml->nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.c_str(), &device) != 0 ||
      nvml->nvmlEventSetCreate(&listener.events) != 0)
    return;
  if (nvml->nvmlDeviceRegisterEvents(device, driver::nvml::xid_critical_error, listener.events) == 0)
    all.by_ordinal.emplace(ordinal, listener);
  else
    nvml->nvmlEventSetFree(listener.events);
}

int last_xid(int ordinal) noexcept {
  Listeners& all = listeners();
  const std::lock_guard lock{all.mutex};
  const auto found = all.by_ordinal.find(ordinal);
  if (found == all.by_ordinal.end()) return 0;
  driver::nvml::EventData event{};
  constexpr unsigned no_wait = 0;
  while (nvml_api()->nvmlEventSetWait_v2(found->second.events, &event, no_wait) == 0)
    if (event.type == driver::nvml::xid_critical_error) found->second.last = static_cast<int>(event.data);
  return found->second.last;
}

}  // namespace flotilla::gpu
