#include "state_stream.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"

namespace flotilla::train {
namespace {

std::span<float> row(std::span<float> shard, std::int64_t offset, std::int64_t count) {
  FLOTILLA_ASSERT(offset >= 0 && count >= 0 && offset + count <= static_cast<std::int64_t>(shard.size()), offset, " ", count, " of ",
                  shard.size());
  return shard.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
}

}  // namespace

Shelves::Shelves(const checkpoint::LocalState& state) {
  for (const auto& part : state.parts) {
    auto& list = part.piece < 0 ? by_tensor_ : by_piece_;
    const auto index = static_cast<std::size_t>(part.piece < 0 ? part.tensor : part.piece);
    if (list.size() <= index) list.resize(index + 1, nullptr);
    list[index] = &part;
  }
}

std::span<float> Shelves::values(int tensor, int piece, checkpoint::Kind kind) const {
  const auto& list = piece < 0 ? by_tensor_ : by_piece_;
  const auto index = static_cast<std::size_t>(piece < 0 ? tensor : piece);
  FLOTILLA_ASSERT(index < list.size() && list[index] != nullptr && list[index]->tensor == tensor, "piece ", piece, " of tensor ", tensor,
                  " is not on this rank");
  return list[index]->values(kind);
}

StateStream::StateStream(const program::Transfer& transfer, const Shelves& shelves, End end)
    : transfer_{transfer}, shelves_{shelves}, end_{end}, left_{transfer.numbers()} {}

template <class Each>
void StateStream::advance(std::int64_t floats, const Each& each) {
  left_ -= floats;
  while (floats > 0) {
    const auto& run = transfer_.runs[run_];
    const int piece = end_ == End::from ? run.from_piece : run.to_piece;
    const auto shard = shelves_.values(run.tensor, piece, checkpoint::kinds[kind_]);
    const std::int64_t offset = end_ == End::from ? run.from_offset : run.to_offset;
    const std::int64_t stride = end_ == End::from ? run.from_stride : run.to_stride;
    const std::int64_t count = std::min(floats, run.inner - column_);
    each(row(shard, offset + row_ * stride + column_, count));
    floats -= count;
    if ((column_ += count) < run.inner) continue;
    column_ = 0;
    if (++row_ < run.outer) continue;
    row_ = 0;
    if (static_cast<std::int64_t>(++kind_) < run.kinds()) continue;  // parameters come first
    kind_ = 0;
    ++run_;
  }
}

void StateStream::read(std::span<float> message) {
  auto out = message.begin();
  advance(static_cast<std::int64_t>(message.size()), [&](std::span<float> place) { out = std::copy(place.begin(), place.end(), out); });
}

void StateStream::write(std::span<const float> message) {
  auto in = message.begin();
  advance(static_cast<std::int64_t>(message.size()), [&](std::span<float> place) {
    std::copy_n(in, place.size(), place.begin());
    in += static_cast<std::ptrdiff_t>(place.size());
  });
}

void keep(const program::Transfer& transfer, const Shelves& from, const Shelves& to) {
  for (const auto& run : transfer.runs)
    for (const auto kind : std::span{checkpoint::kinds}.first(static_cast<std::size_t>(run.kinds()))) {
      const auto source = from.values(run.tensor, run.from_piece, kind), target = to.values(run.tensor, run.to_piece, kind);
      for (std::int64_t o = 0; o < run.outer; ++o) {
        const auto old = row(source, run.from_offset + o * run.from_stride, run.inner);
        std::copy(old.begin(), old.end(), row(target, run.to_offset + o * run.to_stride, run.inner).begin());
      }
    }
}

}  // namespace flotilla::train
