#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "device_views.hpp"
#include "flotilla/comm/device_groups.hpp"
#include "flotilla/gpu/kernel.hpp"
#include "support/waiting.hpp"

namespace flotilla::comm {

/// Groups over MPI, and this process's stand-in device, on which they are connected anew. Groups of one rank stay local.
class OnDevice {
 public:
  OnDevice(const World& world, const std::vector<program::Group>& groups) : world_{world}, over_mpi_{connect(world, groups)} {}
  virtual ~OnDevice() = default;
  /// For data of the host, by index; a group that is not connected is nullptr.
  Groups views() {
    Groups views(over_mpi_.size());
    for (std::size_t g = 0; g < views.size(); ++g)
      views[g] = over_mpi_[g] && over_mpi_[g]->size() == 1 ? make_local_group(world_, over_mpi_[g]->value()) : view(g);
    return views;
  }
  OrderedSum sum() const { return make_ordered_sum(device_, std::as_bytes(std::span{image_})); }

 protected:
  virtual std::unique_ptr<ProcessGroup> view(std::size_t group) = 0;
  std::vector<bool> all() const { return std::vector<bool>(over_mpi_.size(), true); }

  const World& world_;
  const gpu::DeviceContext device_ = gpu::DeviceContext::open(0);
  const Groups over_mpi_;

 private:
  static std::vector<char> kernels() {
    std::ifstream in{std::getenv("FLOTILLA_STANDIN_KERNELS"), std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  const std::vector<char> image_ = kernels();
};

/// By NCCL.
class DeviceGroupsFixture : public OnDevice {
 public:
  DeviceGroupsFixture(const World& world, const std::vector<program::Group>& groups, Seconds deadline = flotilla::tests::hang_bound())
      : OnDevice{world, groups}, formed_{form_device_groups(world, over_mpi_, all(), &device_, sum(), deadline)} {}
  const DeviceGroups& formed() const { return formed_; }

 private:
  std::unique_ptr<ProcessGroup> view(std::size_t group) override {
    return formed_[group] ? make_host_view(world_, *formed_[group], device_) : nullptr;
  }
  const DeviceGroups formed_;
};

/// By MPI on device memory (tests/standin/mpi).
class DeviceMemoryGroupsFixture : public OnDevice {
 public:
  DeviceMemoryGroupsFixture(const World& world, const std::vector<program::Group>& groups, Seconds deadline = flotilla::tests::hang_bound())
      : OnDevice{world, groups}, formed_{form_device_memory_groups(world, groups, over_mpi_, all(), &device_, sum(), deadline)} {}
  const Groups& formed() const { return formed_; }

 private:
  std::unique_ptr<ProcessGroup> view(std::size_t group) override {
    return formed_[group] ? make_host_view(*formed_[group], device_) : nullptr;
  }
  const Groups formed_;
};

}  // namespace flotilla::comm
