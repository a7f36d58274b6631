#pragma once
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

/// This node as hwloc and the kernel's control groups describe it.
namespace flotilla::topology {

/// An accelerator on the PCI bus. `memory` and `model` are known only where hwloc has a plugin for its vendor's library.
struct Gpu {
  std::string model;      ///< "NVIDIA A100-SXM4-40GB", or the PCI device's name
  std::string vendor;     ///< PCI vendor's name; "" when unknown
  std::string bus_id;     ///< "0000:65:00.0"
  std::string backend;    ///< "CUDA", "OpenCL", ...; "" when only the PCI bus shows it
  Bytes memory;           ///< 0 when unknown
  int numa_node = -1;     ///< kernel number of the memory that its bus hangs on; -1 where it hangs on several, or on none in particular
  std::vector<int> near;  ///< kernel numbers of the hardware threads on that side of the machine, ascending
  bool operator==(const Gpu&) const = default;
};

/// What a control group (cgroup v1 or v2, the tightest on the way to the root) grants. 0: no limit.
struct ControlGroupLimits {
  double cpus = 0;  ///< CPU time per time: quota / period
  Bytes memory;
  Bytes memory_used;  ///< of `memory`, page cache that can be dropped not counted
  bool operator==(const ControlGroupLimits&) const = default;
};

/// One node, seen by one process.
struct NodeTopology {
  std::string host;
  std::string cpu_model;  ///< "AMD EPYC 9654 96-Core Processor"; the architecture when the kernel does not say
  int packages = 0;
  int numa_nodes = 0;
  int cores = 0;
  int processing_units = 0;  ///< hardware threads of the machine
  int allowed = 0;           ///< of those, what the job was granted (cpuset)
  std::vector<int> usable;   ///< kernel numbers of the hardware threads this process may run on (binding, cpuset), ascending
  Bytes last_level_cache;    ///< all of the machine's together
  Bytes memory_total;        ///< of the machine
  Bytes memory_available;    ///< to this process now: the kernel's estimate, within the control group's limit
  ControlGroupLimits limits;
  std::vector<Gpu> gpus;  ///< by bus id
  bool operator==(const NodeTopology&) const = default;
};

/// The machine this process runs on. HWLOC_XMLFILE and HWLOC_SYNTHETIC are obeyed as by every hwloc program; then `usable` is the
/// described machine's, and memory and limits remain this one's. Throws Error{unavailable} when hwloc cannot load.
NodeTopology this_node();

/// A node described by a file of `lstopo node.xml`. Available memory is the machine's; there are no limits.
/// Throws Error{bad_input} naming the file.
NodeTopology load_xml(const std::string& path);

/// Reads the control group of a process from `self_cgroup` (the text of /proc/self/cgroup) and the hierarchies mounted below `root`
/// (/sys/fs/cgroup). A hierarchy or file that is not there limits nothing.
ControlGroupLimits read_limits(const std::string& self_cgroup, const std::string& root);

/// "hwloc API 2.8.0", of the library that is loaded.
std::string library_version();

}  // namespace flotilla::topology
