#pragma once
#include <cstddef>

#include "flotilla/gpu/device.hpp"
#include "flotilla/program/host_memory.hpp"

namespace flotilla::train {

/// Where a rank computes on a GPU: a place in pinned host memory for every buffer that messages and collectives or the host itself read and
/// write. Instances as the buffer has them. What GPUs exchange by themselves leaves its places unused: a group may fall back to MPI.
class HostBuffers {
 public:
  /// `memory`: at least program::host_layout()'s size. Programs that do not run at once may have the same.
  HostBuffers(gpu::PinnedBuffer memory, const program::RankClass&);
  /// Throws Error{internal} for a buffer that only the GPU uses.
  std::byte* at(int buffer, int microbatch) const;

 private:
  const program::RankClass& class_;
  const program::HostLayout layout_;
  gpu::PinnedBuffer memory_;
};

}  // namespace flotilla::train
