#pragma once
#include <cstddef>
#include <vector>

#include "flotilla/gpu/device.hpp"
#include "flotilla/program/program.hpp"

namespace flotilla::train {

/// Where a rank computes on a GPU: a place in pinned host memory for every buffer that messages, collectives or the host itself read and
/// write. Instances as the buffer has them.
class HostBuffers {
 public:
  /// Throws Error{unavailable} when the host has not so much.
  HostBuffers(const gpu::Device&, const program::RankClass&);
  /// Throws Error{internal} for a buffer that only the GPU uses.
  std::byte* at(int buffer, int microbatch) const;
  Bytes size() const { return Bytes{static_cast<std::int64_t>(memory_.bytes().size())}; }

 private:
  const program::RankClass& class_;
  std::vector<std::int64_t> offsets_;  ///< by buffer; -1: it has no place
  gpu::PinnedBuffer memory_;
};

}  // namespace flotilla::train
