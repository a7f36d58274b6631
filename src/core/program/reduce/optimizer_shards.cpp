#include "flotilla/program/optimizer_shards.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "flotilla/base/error.hpp"
#include "flotilla/program/hierarchical_all_reduce.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

const RankClass& class_of(const Program& program, Rank rank) { return program.classes.at(at(program.ranks.at(rank.index()).rank_class)); }

/// Elements of a row of the tensor as its shards are cut.
std::int64_t row_of(const model::Tensor& tensor) {
  if (tensor.axis == model::Axis::none) return tensor.elements();
  return std::accumulate(tensor.shape.begin() + tensor.dimension, tensor.shape.end(), std::int64_t{1}, std::multiplies<>{});
}

/// Rows that continue the last box become rows of it.
void append(std::vector<plan::Box>& boxes, std::int64_t inner, std::int64_t global, std::int64_t local, std::int64_t row) {
  if (!boxes.empty() && boxes.back().inner == inner) {
    auto& last = boxes.back();
    const std::int64_t end = last.outer - 1;
    const std::int64_t gap = global - (last.global_offset + end * last.global_stride);
    const std::int64_t here = local - (last.local_offset + end * last.local_stride);
    if (gap == row && (last.outer == 1 || here == last.local_stride)) {
      last.global_stride = gap;
      last.local_stride = here;
      ++last.outer;
      return;
    }
  }
  boxes.push_back({1, inner, global, inner, local, inner});
}

/// A run of a shard's elements: calls each(global offset, offset from the run's begin, count) for what lies in one row of a box.
template <class Each>
void for_each_row(const std::vector<plan::Box>& shard, std::int64_t first, std::int64_t count, const Each& each) {
  for (const auto& box : shard) {
    const std::int64_t stride = std::max<std::int64_t>(1, box.local_stride);
    const std::int64_t before = first - box.local_offset - box.inner + 1;  // rows that end before
    for (std::int64_t o = before > 0 && box.outer > 1 ? (before + stride - 1) / stride : 0; o < box.outer; ++o) {
      const std::int64_t start = box.local_offset + o * box.local_stride;
      if (start >= first + count) break;
      const std::int64_t begin = std::max(start, first), end = std::min(start + box.inner, first + count);
      if (begin < end) each(box.global_offset + o * box.global_stride + begin - start, begin - first, end - begin);
    }
  }
}

struct RankShare {
  const Group& group;
  int member;
};

RankShare share_in(const Program& program, Rank rank, const OptimizerShard& share) {
  const auto& group = program.groups.at(at(program.ranks.at(rank.index()).groups.at(at(share.group))));
  const auto found = std::ranges::find(group.members, rank);
  FLOTILLA_ASSERT(found != group.members.end(), "rank ", rank);
  return {group, static_cast<int>(found - group.members.begin())};
}

/// The share of what one part sums, stated in parts of the whole, in elements.
std::vector<ShardRange> in_elements(const std::vector<RowRange>& parts_of_whole, const OptimizerShard& share) {
  std::vector<ShardRange> row_ranges;
  std::int64_t kept = 0;
  for (const RowRange& row_range : parts_of_whole) {
    const std::int64_t first = position(share.summed, row_range.first), last = position(share.summed, row_range.last);
    if (first < last) row_ranges.push_back({first, kept, last - first});
    kept += last - first;
  }
  FLOTILLA_ASSERT(kept <= share.most, kept, " elements in a share of ", share.most);
  return row_ranges;
}

}  // namespace

std::vector<ShardRange> shard_ranges(const Program& program, Rank rank, const OptimizerShard& share) {
  const auto [group, member] = share_in(program, rank, share);
  return in_elements(share_of(group, member), share);
}

std::vector<ShardPiece> shard_pieces(const Program& program, Rank rank) {
  std::vector<ShardPiece> pieces;
  const auto& binding = program.ranks.at(rank.index());
  const auto& parts = class_of(program, rank).parts;
  std::map<int, std::vector<RowRange>> shares;  // by group: of a stage's parts one
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (std::size_t s = 0; s < parts[p].shards.size(); ++s) {
      const auto& share = parts[p].shards[s];
      const bool first = std::ranges::find(binding.whole, share.group) != binding.whole.end();
      const auto [known, fresh] = shares.try_emplace(share.group);
      if (fresh) {
        const auto [group, member] = share_in(program, rank, share);
        known->second = share_of(group, member);
      }
      const auto row_ranges = in_elements(known->second, share);
      for (const auto& span : share.spans) {
        const int tensor = parts[p].slots[at(span.slot)].tensor;
        const bool owned = first || program.tensors[at(tensor)].axis != model::Axis::none;
        for (const auto& row_range : row_ranges) {
          const std::int64_t begin = std::max(span.first, row_range.summed);
          const std::int64_t end = std::min(span.first + span.elements, row_range.summed + row_range.count);
          if (begin < end)
            pieces.push_back({static_cast<int>(p), static_cast<int>(s), span.slot, tensor, begin, row_range.kept + begin - row_range.summed,
                              end - begin, owned});
        }
      }
    }
  return pieces;
}

std::vector<plan::Box> boxes_of(const Program& program, Rank rank, const ShardPiece& piece) {
  const auto& c = class_of(program, rank);
  const auto& part = c.parts.at(at(piece.part));
  const auto& share = part.shards.at(at(piece.shard));
  const auto& tensor = program.tensors.at(at(piece.tensor));
  const std::int64_t row = row_of(tensor), slot = part.slots.at(at(piece.slot)).offset;
  const auto shard = plan::boxes(tensor, plan::shard(tensor, c.shape.tensor_parallel, program.ranks.at(rank.index()).tensor_index));
  std::vector<plan::Box> boxes;
  const auto add = [&](std::int64_t first, std::int64_t count, std::int64_t from) {
    for_each_row(shard, first, count, [&](std::int64_t global, std::int64_t offset, std::int64_t elements) {
      // Of a whole tensor the run may end in the middle of a row and begin in one.
      for (std::int64_t done = 0; done < elements;) {
        const std::int64_t here = std::min(elements - done, row - (global + done) % row);
        append(boxes, here, global + done, from + offset + done, row);
        done += here;
      }
    });
  };
  if (!share.packed()) {
    add(piece.summed - slot, piece.count, 0);
    return boxes;
  }
  const auto span = std::ranges::find_if(
      share.spans, [&](const auto& s) { return s.slot == piece.slot && s.first <= piece.summed && piece.summed < s.first + s.elements; });
  std::int64_t packed = span->first;
  for (std::int64_t r = span->region; r < span->region + span->regions; ++r) {
    const Region& region = share.regions[at(r)];
    for (std::int64_t o = 0; o < region.outer; ++o, packed += region.inner) {
      const std::int64_t begin = std::max(packed, piece.summed), end = std::min(packed + region.inner, piece.summed + piece.count);
      if (begin < end) add(region.offset - slot + o * region.stride + begin - packed, end - begin, begin - piece.summed);
    }
  }
  return boxes;
}

}  // namespace flotilla::program
