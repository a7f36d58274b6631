#pragma once
#include <cstddef>
#include <span>

#include "flotilla/base/units.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::train {

/// The one block of memory a device computes in, taken at once, so that no later step meets an allocation that fails. The host's is zeroed
/// and touched, so that none meets a page fault; a GPU's holds anything.
class Arena {
 public:
  /// Throws Error{unavailable} when the system does not have that much.
  explicit Arena(Bytes size);
  Arena(const gpu::DeviceContext&, Bytes size);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  std::byte* at(Bytes offset) const { return base_ + offset.count; }
  Bytes size() const { return size_; }

 private:
  gpu::DeviceBuffer on_gpu_;
  std::byte* base_ = nullptr;
  Bytes size_;
};

}  // namespace flotilla::train
