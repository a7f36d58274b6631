#pragma once
// Private: what the driver's log says of a device in error, by its number ("Xid").
#include <string>

namespace flotilla::gpu {

/// From now on NVML keeps the critical Xids of the device, where NVML is there and may; once a device and process.
void listen_for_xids(int ordinal, const std::string& pci_bus_id);

/// The last one that came for the device; 0: none, or nobody listens.
int last_xid(int ordinal) noexcept;

}  // namespace flotilla::gpu
