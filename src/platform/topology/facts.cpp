#include "facts.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "flotilla/base/error.hpp"

namespace flotilla::topology {
namespace {

// PCI base class 03: display controllers, among them 0302, "3D controller", which is what data-centre GPUs report.
constexpr unsigned display_class = 0x03;

std::string info(hwloc_obj_t object, const char* name) {
  const char* value = object != nullptr ? hwloc_obj_get_info_by_name(object, name) : nullptr;
  return value != nullptr ? value : "";
}

std::string first_of(std::initializer_list<std::string> candidates) {
  for (const auto& candidate : candidates)
    if (!candidate.empty()) return candidate;
  return "";
}

int count(hwloc_topology_t topology, hwloc_obj_type_t type) { return std::max(0, hwloc_get_nbobjs_by_type(topology, type)); }

/// "aarch64 0x41/0xd85+0xd87": makers and kinds of ARM cores, which tell no name. "" where hwloc tells none.
std::string arm_model(hwloc_topology_t topology, const std::string& architecture) {
  std::string maker;
  std::set<std::string> parts;
  const auto note = [&](const std::string& name, const std::string& value) {
    if (name == "CPUImplementer" && maker.empty()) maker = value;
    if (name == "CPUPart") parts.insert(value);
  };
  const auto look = [&](const hwloc_info_s* infos, unsigned number) {
    for (unsigned i = 0; i < number; ++i) note(infos[i].name, infos[i].value);
  };
  for (int p = 0; p < count(topology, HWLOC_OBJ_PACKAGE); ++p) {
    const hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, static_cast<unsigned>(p));
    look(package->infos, package->infos_count);
  }
  for (int kind = 0; kind < hwloc_cpukinds_get_nr(topology, 0); ++kind) {
    unsigned number = 0;
    hwloc_info_s* infos = nullptr;
    if (hwloc_cpukinds_get_info(topology, static_cast<unsigned>(kind), nullptr, nullptr, &number, &infos, 0) == 0) look(infos, number);
  }
  if (maker.empty() && parts.empty()) return "";
  std::string listed;
  for (const auto& part : parts) listed += (listed.empty() ? "" : "+") + part;
  return text(architecture.empty() ? "" : architecture + " ", maker, listed.empty() ? "" : "/", listed);
}

std::string cpu_model(hwloc_topology_t topology) {
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  return first_of({info(hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), "CPUModel"), info(root, "CPUModel"),
                   arm_model(topology, info(root, "Architecture")), info(root, "Architecture"), "unknown CPU"});
}

Bytes last_level_cache(hwloc_topology_t topology) {
  std::uint64_t sum = 0;
  for (const auto type : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    for (hwloc_obj_t cache = nullptr; (cache = hwloc_get_next_obj_by_type(topology, type, cache)) != nullptr;)
      sum += cache->attr->cache.size;
    if (sum > 0) break;
  }
  return {static_cast<std::int64_t>(sum)};
}

std::vector<int> members(hwloc_const_bitmap_t set) {
  std::vector<int> numbers;
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) numbers.push_back(i);
  return numbers;
}

std::vector<int> usable(hwloc_topology_t topology) {
  Bitmap set{hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology))};
  Bitmap binding{hwloc_bitmap_alloc()};
  if (hwloc_topology_is_thissystem(topology) != 0 && hwloc_get_cpubind(topology, binding.get(), HWLOC_CPUBIND_PROCESS) == 0 &&
      hwloc_bitmap_intersects(set.get(), binding.get()) != 0)
    hwloc_bitmap_and(set.get(), set.get(), binding.get());
  return members(set.get());
}

std::string bus_id(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
  char name[32];
  std::snprintf(name, sizeof name, "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain), static_cast<unsigned>(pci.bus),
                static_cast<unsigned>(pci.dev), static_cast<unsigned>(pci.func));
  return name;
}

hwloc_obj_t pci_parent(hwloc_obj_t object) {
  while (object != nullptr && object->type != HWLOC_OBJ_PCI_DEVICE) object = object->parent;
  return object;
}

/// hwloc states these sizes in KiB.
Bytes kibibytes(const std::string& value) { return Bytes{1024} * std::strtoll(value.c_str(), nullptr, 10); }

/// What the vendor's library told hwloc about a device, put over what its place on the PCI bus tells.
void add_vendor_facts(Gpu& gpu, hwloc_obj_t device) {
  const std::string model = info(device, "GPUModel");
  if (!model.empty()) gpu.model = model;
  if (gpu.vendor.empty()) gpu.vendor = info(device, "GPUVendor");
  if (gpu.backend.empty() || info(device, "Backend") == "CUDA") gpu.backend = info(device, "Backend");
  const std::string memory =
      first_of({info(device, "CUDAGlobalMemorySize"), info(device, "NVMLMemory"), info(device, "OpenCLGlobalMemorySize")});
  if (gpu.memory == Bytes{} && !memory.empty()) gpu.memory = kibibytes(memory);
}

Gpu from_pci(hwloc_topology_t topology, hwloc_obj_t device) {
  Gpu gpu;
  const hwloc_obj_t side = hwloc_get_non_io_ancestor_obj(topology, device);
  gpu.near = members(side->cpuset);
  if (hwloc_bitmap_weight(side->nodeset) == 1) gpu.numa_node = hwloc_bitmap_first(side->nodeset);
  gpu.bus_id = bus_id(device->attr->pcidev);
  gpu.vendor = info(device, "PCIVendor");
  gpu.model = first_of({info(device, "PCIDevice"), device->name != nullptr ? device->name : "", "display controller"});
  return gpu;
}

bool is_coprocessor(hwloc_obj_t device) {
  return device->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC || device->attr->osdev.type == HWLOC_OBJ_OSDEV_GPU;
}

std::vector<Gpu> gpus(hwloc_topology_t topology) {
  std::map<std::string, Gpu> by_bus;
  for (hwloc_obj_t d = nullptr; (d = hwloc_get_next_pcidev(topology, d)) != nullptr;)
    if (d->attr->pcidev.class_id >> 8 == display_class) by_bus.emplace(bus_id(d->attr->pcidev), from_pci(topology, d));
  for (hwloc_obj_t d = nullptr; (d = hwloc_get_next_osdev(topology, d)) != nullptr;) {
    const hwloc_obj_t pci = pci_parent(d);
    if (pci == nullptr || !is_coprocessor(d)) continue;
    const auto found = by_bus.emplace(bus_id(pci->attr->pcidev), from_pci(topology, pci)).first;
    add_vendor_facts(found->second, d);
  }
  std::vector<Gpu> all;
  for (auto& [bus, gpu] : by_bus) all.push_back(std::move(gpu));
  return all;
}

}  // namespace

Topology new_topology() {
  hwloc_topology_t raw = nullptr;
  FLOTILLA_REQUIRE(hwloc_topology_init(&raw) == 0, ErrorKind::unavailable, "hwloc cannot start: out of memory?");
  Topology topology{raw};
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  return topology;
}

NodeTopology facts(hwloc_topology_t topology) {
  NodeTopology node;
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  node.host = info(root, "HostName");
  node.cpu_model = cpu_model(topology);
  node.packages = std::max(1, count(topology, HWLOC_OBJ_PACKAGE));
  node.numa_nodes = std::max(1, count(topology, HWLOC_OBJ_NUMANODE));
  node.processing_units = count(topology, HWLOC_OBJ_PU);
  // A machine whose firmware tells no cores: its threads are what can compute.
  node.cores = std::max(1, count(topology, HWLOC_OBJ_CORE) > 0 ? count(topology, HWLOC_OBJ_CORE) : node.processing_units);
  node.allowed = hwloc_bitmap_weight(hwloc_topology_get_allowed_cpuset(topology));
  node.usable = usable(topology);
  node.last_level_cache = last_level_cache(topology);
  node.memory_total = {static_cast<std::int64_t>(root->total_memory)};
  node.memory_available = node.memory_total;
  node.gpus = gpus(topology);
  return node;
}

}  // namespace flotilla::topology
