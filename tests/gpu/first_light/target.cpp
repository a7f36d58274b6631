#include "target.hpp"

#include <cstdlib>
#include <map>
#include <vector>

#include "device.hpp"

namespace flotilla {
namespace {

struct Memory {
  std::size_t size;
  gpu::DeviceBuffer there{};
  bool carried = false;  ///< for the next launch
};
std::map<const std::byte*, Memory> buffers;
gpu::LaunchShape shape;

std::span<const std::byte> bytes_of(const std::pair<const std::byte* const, Memory>& buffer) { return {buffer.first, buffer.second.size}; }

}  // namespace

namespace first_light {

Target& target() {
  static Target all;
  return all;
}

}  // namespace first_light

namespace compute::cuda {

int architecture() {
  const gpu::DeviceFacts& facts = first_light::target().device.facts();
  return 10 * facts.major + facts.minor;
}

void* take(std::size_t bytes) {
  void* memory = std::aligned_alloc(16, bytes);
  Memory& mine = buffers[static_cast<const std::byte*>(memory)];
  mine.size = bytes;
  if (bytes > 0) mine.there = first_light::target().device.make_buffer(Bytes{static_cast<std::int64_t>(bytes)});
  return memory;
}

void give_back(void* memory) {
  buffers.erase(static_cast<const std::byte*>(memory));
  std::free(memory);
}

void* carry(const void* address) {
  if (!address) return nullptr;
  const auto* at = static_cast<const std::byte*>(address);
  auto after = buffers.upper_bound(at);
  FLOTILLA_REQUIRE(after != buffers.begin(), ErrorKind::internal, "an argument that is in no buffer");
  auto& buffer = *std::prev(after);
  FLOTILLA_REQUIRE(at <= buffer.first + buffer.second.size, ErrorKind::internal, "an argument that is in no buffer");
  if (!buffer.second.carried) first_light::target().stream.copy_to_device(buffer.second.there.data(), bytes_of(buffer));
  buffer.second.carried = true;
  return buffer.second.there.data().address + (at - buffer.first);
}

void launch(const char* name, std::span<void*> arguments) {
  auto& target = first_light::target();
  target.kernel(name).launch_with(target.stream, shape, arguments);
  for (auto& buffer : buffers) {
    if (!buffer.second.carried) continue;
    target.stream.copy_to_host({const_cast<std::byte*>(buffer.first), buffer.second.size}, buffer.second.there.data());
    buffer.second.carried = false;
  }
  target.stream.wait(first_light::limit);
}

}  // namespace compute::cuda
}  // namespace flotilla

void hostgpu::set_shape(Triple grid, Triple block, std::size_t shared) {
  flotilla::shape = {grid.x, grid.y, grid.z, static_cast<int>(block.x), flotilla::Bytes{static_cast<std::int64_t>(shared)}};
}
