#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

/// NVIDIA's driver, opened at run time: one binary for machines with GPUs and without.
namespace flotilla::gpu {

/// What a device says of itself.
struct DeviceFacts {
  int ordinal = 0;
  std::string name;          ///< "NVIDIA H100 80GB HBM3"; of a MIG slice "NVIDIA A100-SXM4-80GB MIG 1g.10gb"
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  Bytes memory, shared_memory;   ///< shared_memory: the most that one block may have
  std::string pci_bus_id, uuid;  ///< uuid: "GPU-..."; "MIG-..." of a MIG slice, which shares its bus with others

  bool is_slice() const { return name.find(" MIG ") != name.npos; }
};

/// The devices that this process sees (CUDA_VISIBLE_DEVICES), in the driver's order, or why there are none.
struct Presence {
  std::vector<DeviceFacts> devices;
  int driver_version = 0;  ///< 13000 for CUDA 13.0; 0 without a driver
  std::string why_none;    ///< "libcuda.so.1 cannot be opened: ...": empty when there are devices

  bool any() const { return !devices.empty(); }
};

/// Local. No driver, a driver's stub (34), one too old for its devices (35) and no device all mean "no GPU here" and are no error; a driver
/// that fails in another way throws Error{unavailable} with the call and what to do.
Presence presence();

/// "CUDA 13.0 (580.65.06)": what the driver can, and its own version where NVML tells. Of a Presence with a driver.
std::string driver_name(const Presence&);

/// Whether two spellings ("0000:65:00.0", "00000000:65:00.0") are one place on the bus.
bool same_bus(const std::string& a, const std::string& b);

/// "CUDA driver 13.0, 2 devices: NVIDIA H100 80GB HBM3" or "no GPU here: ...".
std::string driver_description();

/// NVML's view of one device now.
struct Figures {
  int temperature_c = 0;
  double power_w = 0;
  int clock_mhz = 0;                ///< of the multiprocessors
  Bytes memory_used, memory_total;  ///< of all processes
  std::optional<bool> hot{};        ///< its clocks are lowered now, by heat or by the hardware's own protection; nothing: not told
  std::optional<std::int64_t> corrected{}, uncorrected{};  ///< memory errors since the driver was loaded; nothing: no ECC
};
/// Nothing where NVML is missing or does not know the device. `pci_bus_id` as in DeviceFacts.
std::optional<Figures> figures(const std::string& pci_bus_id);

}  // namespace flotilla::gpu
