#include "migration_shares.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "flotilla/base/error.hpp"
#include "flotilla/program/optimizer_shards.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

std::int64_t row_elements(const model::Tensor& tensor) {
  if (tensor.axis == model::Axis::none) return tensor.elements();
  std::int64_t row = 1;
  for (std::size_t d = at(tensor.dimension); d < tensor.shape.size(); ++d) row *= tensor.shape[d];
  return row;
}

void add_run(std::int64_t global, std::int64_t count, std::int64_t local, std::int64_t row, std::vector<Rectangle>& out) {
  const auto add = [&](std::int64_t rows, std::int64_t columns) {
    if (rows > 0 && columns > 0) out.push_back({global / row, rows, global % row, columns, local, row});
    global += rows * columns, local += rows * columns, count -= rows * columns;
  };
  if (global % row != 0) add(1, std::min(count, row - global % row));
  add(count / row, row);
  add(1, count);
}

std::vector<Rectangle> rectangles_of(const std::vector<plan::Box>& boxes, std::int64_t row) {
  std::vector<Rectangle> out;
  for (const auto& box : boxes) {
    if (box.outer == 1) {
      add_run(box.global_offset, box.inner, box.local_offset, row, out);
      continue;
    }
    FLOTILLA_ASSERT(box.global_stride == row && box.global_offset % row + box.inner <= row, box.global_stride, " ", row);
    out.push_back({box.global_offset / row, box.outer, box.global_offset % row, box.inner, box.local_offset, box.local_stride});
  }
  return out;
}

Rectangle cut(const Rectangle& r, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
  return {row, rows, column, columns, r.offset + (row - r.row) * r.stride + column - r.column, r.stride};
}

Rectangle common(const Rectangle& a, const Rectangle& b) {
  const std::int64_t row = std::max(a.row, b.row), column = std::max(a.column, b.column);
  const std::int64_t rows = std::min(a.row + a.rows, b.row + b.rows) - row;
  const std::int64_t columns = std::min(a.column + a.columns, b.column + b.columns) - column;
  return rows > 0 && columns > 0 ? cut(a, row, rows, column, columns) : Rectangle{};
}

/// What is left of `from` without `part`, which lies in it.
void add_rest(const Rectangle& from, const Rectangle& part, std::vector<Rectangle>& out) {
  const auto add = [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    if (rows > 0 && columns > 0) out.push_back(cut(from, row, rows, column, columns));
  };
  add(from.row, part.row - from.row, from.column, from.columns);
  add(part.row + part.rows, from.row + from.rows - part.row - part.rows, from.column, from.columns);
  add(part.row, part.rows, from.column, part.column - from.column);
  add(part.row, part.rows, part.column + part.columns, from.column + from.columns - part.column - part.columns);
}

/// The plan on ranks 0 to n-1, and which they are.
plan::Plan renumbered(plan::Plan plan, std::vector<Rank>& ranks) {
  for (const auto& stage : plan.stages)
    for (const auto& replica : stage.replicas) ranks.insert(ranks.end(), replica.devices.begin(), replica.devices.end());
  std::ranges::sort(ranks);
  ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
  for (auto& stage : plan.stages)
    for (auto& replica : stage.replicas)
      for (Rank& rank : replica.devices) rank = Rank{static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin())};
  return plan;
}

}  // namespace

RankHolding whole_shard(const model::Tensor& tensor, Rank rank, int tensor_parallel, int tensor_index) {
  return {rank, -1, false, rectangles_of(plan::boxes(tensor, plan::shard(tensor, tensor_parallel, tensor_index)), row_elements(tensor))};
}

std::vector<std::vector<RankHolding>> pieces_of(const plan::Plan& plan, const RankLocations& placement) {
  std::vector<std::vector<RankHolding>> held;
  if (!plan.shard_optimizer) return held;
  std::vector<Rank> ranks;
  Runtime runtime;
  const auto numbered = renumbered(plan, ranks);
  runtime.placement = placement_of(placement, ranks);
  const Program program = lower(numbered, runtime);
  held.resize(program.tensors.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Rank rank{static_cast<int>(r)};
    const auto pieces = shard_pieces(program, rank);
    const auto& parts = program.classes.at(at(program.ranks.at(r).rank_class)).parts;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const auto tensor = at(pieces[p].tensor);
      held[tensor].push_back({ranks[r], static_cast<int>(p), parts.at(at(pieces[p].part)).shards.at(at(pieces[p].shard)).packed(),
                              rectangles_of(boxes_of(program, rank, pieces[p]), row_elements(program.tensors[tensor]))});
    }
  }
  return held;
}

std::vector<Rectangle> without(std::vector<Rectangle> missing, const RankHolding& has, const TakePart& each) {
  for (const auto& there : has.rectangles) {
    std::vector<Rectangle> left;
    for (const auto& wants : missing) {
      const Rectangle part = common(wants, there);
      if (part.rows == 0) {
        left.push_back(wants);
        continue;
      }
      if (each) each(part, common(there, wants));
      add_rest(wants, part, left);
    }
    missing = std::move(left);
  }
  return missing;
}

std::vector<RankHolding> each_once(const std::vector<const RankHolding*>& pieces, const TwicePart& each) {
  std::vector<RankHolding> once;
  for (const RankHolding* piece : pieces) {
    RankHolding rest = *piece;
    for (const RankHolding& earlier : once)
      rest.rectangles = without(std::move(rest.rectangles), earlier, [&](const Rectangle& here, const Rectangle& there) {
        if (each) each(*piece, earlier, here, there);
      });
    once.push_back(std::move(rest));
  }
  return once;
}

std::int64_t elements_of(const std::vector<Rectangle>& rectangles) {
  return std::transform_reduce(rectangles.begin(), rectangles.end(), std::int64_t{0}, std::plus<>{}, std::mem_fn(&Rectangle::elements));
}

std::int64_t common_elements(const std::vector<RankHolding>& wanted, const std::vector<RankHolding>& held) {
  std::int64_t elements = 0;
  for (const RankHolding& wants : wanted)
    for (const RankHolding& has : held)
      for (const Rectangle& a : wants.rectangles)
        for (const Rectangle& b : has.rectangles) elements += common(a, b).elements();
  return elements;
}

}  // namespace flotilla::program
