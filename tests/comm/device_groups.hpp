#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "flotilla/comm/device_groups.hpp"
#include "flotilla/gpu/kernel.hpp"

namespace flotilla::comm {

/// Groups over NCCL on this process's stand-in device, and their views for data of the host. Groups of one rank stay local.
class DeviceGroupsFixture {
 public:
  DeviceGroupsFixture(const World& world, const std::vector<program::Group>& groups, Seconds deadline = Seconds{30})
      : world_{world},
        over_mpi_{connect(world, groups)},
        formed_{form_device_groups(world, over_mpi_, std::vector<bool>(groups.size(), true), &device_, sum(), deadline)} {}

  /// By index; a group that NCCL does not connect is nullptr.
  const DeviceGroups& formed() const { return formed_; }
  Groups views() {
    Groups views(formed_.size());
    for (std::size_t g = 0; g < views.size(); ++g) {
      if (over_mpi_[g] && over_mpi_[g]->size() == 1) views[g] = make_local_group(world_, over_mpi_[g]->value());
      if (formed_[g]) views[g] = make_host_view(world_, *formed_[g], device_);
    }
    return views;
  }

  OrderedSum sum() const { return make_ordered_sum(device_, std::as_bytes(std::span{image_})); }

 private:
  static std::vector<char> kernels() {
    std::ifstream in{std::getenv("FLOTILLA_STANDIN_KERNELS"), std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  const World& world_;
  gpu::Device device_ = gpu::Device::open(0);
  std::vector<char> image_ = kernels();
  Groups over_mpi_;
  DeviceGroups formed_;
};

}  // namespace flotilla::comm
