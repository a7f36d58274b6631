#include "host_buffers.hpp"

#include <utility>

#include "flotilla/base/error.hpp"

namespace flotilla::train {
namespace {

Bytes aligned(const program::Buffer& buffer) { return align_up(buffer.size, program::arena_alignment); }

}  // namespace

HostBuffers::HostBuffers(gpu::PinnedBuffer memory, const program::RankClass& c)
    : class_{c}, layout_{program::host_layout(c)}, memory_{std::move(memory)} {
  FLOTILLA_ASSERT(layout_.size.count <= static_cast<std::int64_t>(memory_.bytes().size()), layout_.size, memory_.bytes().size());
}

std::byte* HostBuffers::at(int buffer, int microbatch) const {
  const auto index = static_cast<std::size_t>(buffer);
  const auto& about = class_.buffers[index];
  FLOTILLA_ASSERT(layout_.offsets[index] >= 0, "the host has no place for ", about.name);
  return memory_.bytes().data() + layout_.offsets[index] + (microbatch % about.copies) * aligned(about).count;
}

}  // namespace flotilla::train
