#include "flotilla/program/host_memory.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace flotilla::program {

HostLayout host_layout(const RankClass& c) {
  HostLayout layout{std::vector<std::int64_t>(c.buffers.size(), -1), {}};
  std::int64_t end = 0;
  for (const auto& instruction : c.instructions) {
    if (!moved_by_host(instruction) && !loads_input(instruction)) continue;
    for (const auto& access : instruction.accesses) {
      const auto index = static_cast<std::size_t>(access.buffer);
      if (layout.offsets[index] >= 0) continue;
      layout.offsets[index] = end;
      end += align_up(c.buffers[index].size, arena_alignment).count * c.buffers[index].copies;
    }
  }
  layout.size = Bytes{std::max<std::int64_t>(end, 1)};
  return layout;
}

std::vector<int> state_buffers(const RankClass& c, Precision precision) {
  std::set<int> buffers;
  for (const auto& part : c.parts) {
    buffers.insert({part.parameters >= 0 ? part.parameters : part.gradients, part.moment1, part.moment2, part.frozen_parameters});
    if (precision != Precision::fp32) buffers.insert(part.weights);
    for (const auto& shard : part.shards) buffers.insert({shard.parameters, shard.moment1, shard.moment2});
  }
  buffers.erase(-1);
  return {buffers.begin(), buffers.end()};
}

HostMemory host_memory(const RankClass& c, Precision precision) {
  const auto state = state_buffers(c, precision);
  const auto add = [&](Bytes sum, int buffer) { return sum + c.buffers[static_cast<std::size_t>(buffer)].size; };
  return {host_layout(c).size + mirror_pieces * mirror_piece, std::accumulate(state.begin(), state.end(), Bytes{}, add)};
}

}  // namespace flotilla::program
