#pragma once
#include <hwloc.h>

#include "flotilla/base/unique_handle.hpp"
#include "flotilla/topology/topology.hpp"

namespace flotilla::topology {

struct TopologyTraits {
  using Raw = hwloc_topology_t;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw topology) noexcept { hwloc_topology_destroy(topology); }
};
using Topology = UniqueHandle<TopologyTraits>;

struct BitmapTraits {
  using Raw = hwloc_bitmap_t;
  static Raw null() noexcept { return nullptr; }
  static void destroy(Raw bitmap) noexcept { hwloc_bitmap_free(bitmap); }
};
using Bitmap = UniqueHandle<BitmapTraits>;

/// An initialized topology that keeps PCI devices and the hardware threads that this process may not use; not loaded.
Topology new_topology();

/// What a loaded topology says by itself: everything but the kernel's memory figures and the limits. `usable` are the allowed hardware
/// threads, within this process's binding when the topology is this machine's.
NodeTopology facts(hwloc_topology_t);

}  // namespace flotilla::topology
