#include "flotilla/gpu/driver.hpp"

#include <array>
#include <cstdio>
#include <map>

#include "library.hpp"

namespace flotilla::gpu {
namespace {

constexpr int no_device_in_particular = -1;

int attribute(int device, driver::DeviceAttribute which) {
  int value = 0;
  CUDA_TRY(device, cuDeviceGetAttribute, &value, which, device);
  return value;
}

std::string hexadecimal(const driver::Uuid& uuid, const char* kind) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out = kind;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

DeviceFacts facts_of(int ordinal) {
  DeviceFacts f;
  driver::DeviceOrdinal device = 0;
  CUDA_TRY(ordinal, cuDeviceGet, &device, ordinal);
  std::array<char, 128> words{};
  CUDA_TRY(ordinal, cuDeviceGetName, words.data(), static_cast<int>(words.size()), device);
  f.ordinal = ordinal;
  f.name = words.data();
  CUDA_TRY(ordinal, cuDeviceGetPCIBusId, words.data(), static_cast<int>(words.size()), device);
  f.pci_bus_id = words.data();
  std::size_t memory = 0;
  CUDA_TRY(ordinal, cuDeviceTotalMem_v2, &memory, device);
  f.memory = Bytes{static_cast<std::int64_t>(memory)};
  driver::Uuid uuid{};
  CUDA_TRY(ordinal, cuDeviceGetUuid_v2, &uuid, device);
  f.uuid = hexadecimal(uuid, f.is_slice() ? "MIG-" : "GPU-");
  f.major = attribute(ordinal, driver::DeviceAttribute::major);
  f.minor = attribute(ordinal, driver::DeviceAttribute::minor);
  f.multiprocessors = attribute(ordinal, driver::DeviceAttribute::multiprocessors);
  f.shared_memory = Bytes{attribute(ordinal, driver::DeviceAttribute::max_shared_per_block_optin)};
  return f;
}

bool means_no_gpu(driver::Result result) {
  return result == driver::no_device || result == driver::stub_library || result == driver::insufficient_driver;
}

const char* why_no_gpu(driver::Result result) {
  switch (result) {
    case driver::stub_library: return "libcuda.so.1 is the toolkit's stub and no driver: take its folder out of LD_LIBRARY_PATH";
    case driver::insufficient_driver: return "the driver is too old for its devices: update it";
    default: return "the driver sees no device (CUDA_VISIBLE_DEVICES, the job's --gpus)";
  }
}

Presence look() {
  const Driver& opened = open_driver();
  Presence p;
  if (p.why_none = opened.why_none; !p.why_none.empty()) return p;
  const driver::DriverFunctions& table = opened.table;
  const driver::Result started = table.cuInit(0);
  if (means_no_gpu(started)) {
    p.why_none = why_no_gpu(started);
    return p;
  }
  check(started, {"cuInit", no_device_in_particular});
  CUDA_TRY(no_device_in_particular, cuDriverGetVersion, &p.driver_version);
  int count = 0;
  CUDA_TRY(no_device_in_particular, cuDeviceGetCount, &count);
  for (int i = 0; i < count; ++i) p.devices.push_back(facts_of(i));
  if (count == 0) p.why_none = why_no_gpu(driver::no_device);
  return p;
}

std::string names(const std::vector<DeviceFacts>& devices) {
  std::map<std::string, int> counts;
  for (const DeviceFacts& device : devices) ++counts[device.name];
  std::string out;
  for (const auto& [name, count] : counts) out += text(out.empty() ? "" : ", ", count, " x ", name);
  return out;
}

}  // namespace

Presence presence() { return look(); }

std::string driver_description() {
  const Presence p = presence();
  if (!p.any()) return text("no GPU here: ", p.why_none);
  return text("driver of ", driver_name(p), "; ", names(p.devices));
}

std::string driver_name(const Presence& p) {
  std::array<char, 96> version{};
  const driver::nvml::NvmlFunctions* nvml = nvml_api();
  const bool told = nvml && nvml->nvmlSystemGetDriverVersion(version.data(), static_cast<unsigned>(version.size())) == 0;
  return text("CUDA ", p.driver_version / 1000, '.', p.driver_version % 1000 / 10, told ? text(" (", version.data(), ')') : "");
}

bool same_bus(const std::string& a, const std::string& b) {
  const auto place = [](const std::string& id) {
    unsigned domain = 0, bus = 0, device = 0, function = 0;
    const bool known = std::sscanf(id.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4;
    return known ? std::array{1u, domain, bus, device, function} : std::array<unsigned, 5>{};
  };
  return place(a)[0] != 0 && place(a) == place(b);
}

namespace {

std::optional<std::int64_t> memory_errors(const driver::nvml::NvmlFunctions& nvml, driver::nvml::Device device, int kind) {
  unsigned long long count = 0;
  if (nvml.nvmlDeviceGetTotalEccErrors(device, kind, driver::nvml::since_driver_load, &count) != 0) return {};
  return static_cast<std::int64_t>(count);
}

std::optional<bool> is_hot(const driver::nvml::NvmlFunctions& nvml, driver::nvml::Device device) {
  constexpr auto by_heat = driver::nvml::slowed_by_hardware | driver::nvml::software_thermal | driver::nvml::hardware_thermal;
  unsigned long long reasons = 0;
  if (nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons) != 0) return {};
  return (reasons & by_heat) != 0;
}

}  // namespace

std::optional<Figures> figures(const std::string& pci_bus_id) {
  const driver::nvml::NvmlFunctions* nvml = nvml_api();
  driver::nvml::Device device{};
  if (!nvml || nvml->nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.c_str(), &device) != 0) return {};
  unsigned temperature = 0, milliwatts = 0, clock = 0;
  driver::nvml::Memory memory{};
  const bool known = nvml->nvmlDeviceGetTemperature(device, driver::nvml::temperature_gpu, &temperature) == 0 &&
                     nvml->nvmlDeviceGetPowerUsage(device, &milliwatts) == 0 &&
                     nvml->nvmlDeviceGetClockInfo(device, driver::nvml::clock_sm, &clock) == 0 &&
                     nvml->nvmlDeviceGetMemoryInfo(device, &memory) == 0;
  if (!known) return {};
  return Figures{static_cast<int>(temperature),
                 milliwatts / 1e3,
                 static_cast<int>(clock),
                 Bytes{static_cast<std::int64_t>(memory.used)},
                 Bytes{static_cast<std::int64_t>(memory.total)},
                 is_hot(*nvml, device),
                 memory_errors(*nvml, device, driver::nvml::memory_error_corrected),
                 memory_errors(*nvml, device, driver::nvml::memory_error_uncorrected)};
}

}  // namespace flotilla::gpu
