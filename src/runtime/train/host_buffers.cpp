#include "host_buffers.hpp"

#include <algorithm>

#include "binding.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::train {
namespace {

Bytes aligned(const program::Buffer& buffer) { return align_up(buffer.size, program::arena_alignment); }

bool used_by_host(const program::Instruction& instruction) {
  return on_comm_thread(instruction) || instruction.as<program::TokenLoad>() != nullptr;
}

}  // namespace

HostBuffers::HostBuffers(const gpu::Device& device, const program::RankClass& c) : class_{c}, offsets_(c.buffers.size(), -1) {
  std::int64_t end = 0;
  for (const auto& instruction : c.instructions) {
    if (!used_by_host(instruction)) continue;
    for (const auto& access : instruction.accesses) {
      const auto index = static_cast<std::size_t>(access.buffer);
      if (offsets_[index] >= 0) continue;
      offsets_[index] = end;
      end += aligned(c.buffers[index]).count * c.buffers[index].copies;
    }
  }
  memory_ = device.make_pinned(Bytes{std::max<std::int64_t>(end, 1)});
}

std::byte* HostBuffers::at(int buffer, int microbatch) const {
  const auto index = static_cast<std::size_t>(buffer);
  const auto& about = class_.buffers[index];
  FLOTILLA_ASSERT(offsets_[index] >= 0, "the host has no place for ", about.name);
  return memory_.bytes().data() + offsets_[index] + (microbatch % about.copies) * aligned(about).count;
}

}  // namespace flotilla::train
