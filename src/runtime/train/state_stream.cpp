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
    const auto index = static_cast<std::size_t>(part.tensor);
    if (by_tensor_.size() <= index) by_tensor_.resize(index + 1, nullptr);
    by_tensor_[index] = &part;
  }
}

std::span<float> Shelves::values(int tensor, checkpoint::Kind kind) const {
  const auto index = static_cast<std::size_t>(tensor);
  FLOTILLA_ASSERT(index < by_tensor_.size() && by_tensor_[index] != nullptr, "tensor ", tensor, " is not on this rank");
  return by_tensor_[index]->values(kind);
}

StateStream::StateStream(const program::Transfer& transfer, const Shelves& shelves, End end)
    : transfer_{transfer}, shelves_{shelves}, end_{end}, left_{transfer.elements() * static_cast<std::int64_t>(checkpoint::kinds.size())} {}

template <class Each>
void StateStream::advance(std::int64_t floats, const Each& each) {
  left_ -= floats;
  while (floats > 0) {
    const auto& run = transfer_.runs[run_];
    const auto shard = shelves_.values(run.tensor, checkpoint::kinds[kind_]);
    const std::int64_t offset = end_ == End::from ? run.from_offset : run.to_offset;
    const std::int64_t stride = end_ == End::from ? run.from_stride : run.to_stride;
    const std::int64_t count = std::min(floats, run.inner - column_);
    each(row(shard, offset + row_ * stride + column_, count));
    floats -= count;
    if ((column_ += count) < run.inner) continue;
    column_ = 0;
    if (++row_ < run.outer) continue;
    row_ = 0;
    if (++kind_ < checkpoint::kinds.size()) continue;
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
    for (const auto kind : checkpoint::kinds) {
      const auto source = from.values(run.tensor, kind), target = to.values(run.tensor, kind);
      for (std::int64_t o = 0; o < run.outer; ++o) {
        const auto old = row(source, run.from_offset + o * run.from_stride, run.inner);
        std::copy(old.begin(), old.end(), row(target, run.to_offset + o * run.to_stride, run.inner).begin());
      }
    }
}

}  // namespace flotilla::train
