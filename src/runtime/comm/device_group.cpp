#include "flotilla/comm/device_group.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "flotilla/gpu/kernel.hpp"
#include "flotilla/program/hierarchical_all_reduce.hpp"

namespace flotilla::comm {
namespace {

using Direction = nccl::ExchangeMessage::Direction;

/// Messages that go out together. Those without bytes are left out on both sides.
class Exchange {
 public:
  void send(int peer, gpu::DevicePointer at, std::int64_t bytes) { add(Direction::send, peer, at, bytes); }
  void receive(int peer, gpu::DevicePointer at, std::int64_t bytes) { add(Direction::receive, peer, at, bytes); }
  void run(nccl::NcclCommunicator& communicator, const gpu::Stream& stream) {
    if (!transfers_.empty()) communicator.exchange(transfers_, stream);
  }

 private:
  void add(Direction direction, int peer, gpu::DevicePointer at, std::int64_t bytes) {
    if (bytes > 0) transfers_.push_back({direction, peer, at, Bytes{bytes}});
  }
  std::vector<nccl::ExchangeMessage> transfers_;
};

/// A piece at one level of a sum, in elements.
struct LevelPiece {
  std::int64_t first, count;
};
LevelPiece piece_of(const program::RowRange& range, std::int64_t elements) {
  const std::int64_t first = program::position(elements, range.first);
  return {first, program::position(elements, range.last) - first};
}

}  // namespace

DeviceGroup::DeviceGroup(program::Group value, int index, nccl::NcclCommunicator communicator, OrderedSum ordered_sum)
    : value_{std::move(value)}, index_{index}, communicator_{std::move(communicator)}, ordered_sum_{std::move(ordered_sum)} {}

OrderedSum make_ordered_sum(const gpu::DeviceContext& device, std::span<const std::byte> kernels) {
  struct Loaded {
    gpu::Module module;
    gpu::Kernel fp32 = module.kernel("ordered_sum_f32"), bf16 = module.kernel("ordered_sum_bf16"), fp16 = module.kernel("ordered_sum_f16");
    const gpu::Kernel& of(ElementType type) const { return type == ElementType::fp32 ? fp32 : type == ElementType::bf16 ? bf16 : fp16; }
  };
  const auto loaded = std::make_shared<Loaded>(Loaded{gpu::Module{device, kernels}});
  return [loaded](ElementType type, gpu::DevicePointer sum, gpu::DevicePointer others, int members, int mine, std::int64_t count,
                  const gpu::Stream& stream) {
    constexpr int threads = 256, bytes_each = 16;
    const std::int64_t per_block = threads * bytes_each / element_size(type).count;
    const gpu::LaunchShape shape{.blocks_x = (count + per_block - 1) / per_block, .threads = threads};
    void* arguments[] = {&sum.address, &others.address, &members, &mine, &count};
    if (count > 0) loaded->of(type).launch_with(stream, shape, arguments);
  };
}

void DeviceGroup::all_reduce(gpu::DevicePointer data, ElementType type, Bytes size, gpu::DevicePointer staging, const gpu::Stream& stream) {
  const Bytes element = element_size(type);
  if (value_.algorithm == program::Group::Algorithm::library_all_reduce)
    return communicator_.all_reduce(data, type, size.count / element.count, stream);
  if (value_.subgroups.empty()) {
    reduce_scatter(data, type, element, size, staging, stream);
    return gather_pieces(data, element, size, stream);
  }
  reduce_scatter_shards(data, type, size, staging, stream);
  all_gather_shards(data, element, size, stream);
}

void DeviceGroup::reduce_scatter(gpu::DevicePointer data, ElementType type, Bytes unit, Bytes size, gpu::DevicePointer staging,
                                 const gpu::Stream& stream) {
  const std::int64_t units = size.count / unit.count;
  const auto mine = program::piece(units, this->size(), index_);
  const std::int64_t bytes = mine.count() * unit.count;
  Exchange exchange;
  std::int64_t place = 0;
  for (int member = 0; member < this->size(); ++member) {
    if (member == index_) continue;
    const auto theirs = program::piece(units, this->size(), member);
    exchange.send(member, data + theirs.first * unit.count, theirs.count() * unit.count);
    exchange.receive(member, staging + place, bytes);
    place += bytes;
  }
  exchange.run(communicator_, stream);
  ordered_sum_(type, data + mine.first * unit.count, staging, this->size(), index_, bytes / element_size(type).count, stream);
}

void DeviceGroup::reduce_scatter_shards(gpu::DevicePointer data, ElementType type, Bytes size, gpu::DevicePointer staging,
                                        const gpu::Stream& stream) {
  const std::int64_t width = element_size(type).count, elements = size.count / width;
  for (const auto& level : program::reduction_levels(value_, index_)) {
    Exchange exchange;
    std::int64_t place = 0;
    for (const auto& adding : level.adds)
      for (const int from : adding.from) {
        if (from == index_) continue;
        const std::int64_t bytes = piece_of(adding.row_range, elements).count * width;
        exchange.receive(from, staging + place, bytes);
        place += bytes;
      }
    for (const auto& giving : level.gives) {
      const auto piece = piece_of(giving.row_range, elements);
      exchange.send(giving.to, data + piece.first * width, piece.count * width);
    }
    exchange.run(communicator_, stream);
    place = 0;
    for (const auto& adding : level.adds) {
      const auto piece = piece_of(adding.row_range, elements);
      const auto mine = static_cast<int>(std::ranges::find(adding.from, index_) - adding.from.begin());
      const auto members = static_cast<int>(adding.from.size());
      ordered_sum_(type, data + piece.first * width, staging + place, members, mine, piece.count, stream);
      place += (members - 1) * piece.count * width;
    }
  }
}

void DeviceGroup::all_gather_shards(gpu::DevicePointer data, Bytes element, Bytes size, const gpu::Stream& stream) {
  const std::int64_t elements = size.count / element.count;
  auto levels = program::reduction_levels(value_, index_);
  std::ranges::reverse(levels);
  for (const auto& level : levels) {
    Exchange exchange;
    for (const auto& adding : level.adds)
      for (const int to : adding.from) {
        const auto piece = piece_of(adding.row_range, elements);
        if (to != index_) exchange.send(to, data + piece.first * element.count, piece.count * element.count);
      }
    for (const auto& giving : level.gives) {
      const auto piece = piece_of(giving.row_range, elements);
      exchange.receive(giving.to, data + piece.first * element.count, piece.count * element.count);
    }
    exchange.run(communicator_, stream);
  }
}

void DeviceGroup::all_gather(gpu::DevicePointer all, Bytes size, const gpu::Stream& stream) {
  if (size.count > 0) communicator_.all_gather(all + index_ * size.count, all, size, stream);
}

void DeviceGroup::gather_pieces(gpu::DevicePointer data, Bytes unit, Bytes size, const gpu::Stream& stream) {
  const std::int64_t units = size.count / unit.count;
  const auto mine = program::piece(units, this->size(), index_);
  Exchange exchange;
  for (int member = 0; member < this->size(); ++member) {
    if (member == index_) continue;
    const auto theirs = program::piece(units, this->size(), member);
    exchange.send(member, data + mine.first * unit.count, mine.count() * unit.count);
    exchange.receive(member, data + theirs.first * unit.count, theirs.count() * unit.count);
  }
  exchange.run(communicator_, stream);
}

void DeviceGroup::send(int member, gpu::DevicePointer data, Bytes size, const gpu::Stream& stream) {
  Exchange exchange;
  exchange.send(member, data, size.count);
  exchange.run(communicator_, stream);
}

void DeviceGroup::receive(int member, gpu::DevicePointer data, Bytes size, const gpu::Stream& stream) {
  Exchange exchange;
  exchange.receive(member, data, size.count);
  exchange.run(communicator_, stream);
}

}  // namespace flotilla::comm
