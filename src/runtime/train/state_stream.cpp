#include "state_stream.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "flotilla/base/error.hpp"
#include "flotilla/base/half.hpp"

namespace flotilla::train {
namespace {

using checkpoint::LocalTensor;
using checkpoint::StateKind;
using program::Carried;

constexpr std::int64_t half = 2;  // bytes

/// The kinds in fp32 that a run carries, one after the other; none of weights.
std::span<const StateKind> kinds_of(Carried carried) {
  const std::span all{checkpoint::kinds};
  switch (carried) {
    case Carried::state: return all;
    case Carried::parameters: return all.first(1);
    case Carried::moments: return all.subspan(1);
    case Carried::weights: break;
  }
  return {};
}

/// Of numbers that follow each other, or of a run's.
struct Plane {
  explicit Plane(Carried carried, std::size_t index) : weights{carried == Carried::weights} {
    if (!weights) kind = kinds_of(carried)[index];
  }
  std::int64_t width() const { return weights ? half : 4; }
  bool weights;
  StateKind kind = StateKind::parameters;
};
std::size_t planes(Carried carried) { return carried == Carried::weights ? 1 : kinds_of(carried).size(); }

template <class T>
std::span<T> row(std::span<T> shard, std::int64_t offset, std::int64_t count) {
  FLOTILLA_ASSERT(offset >= 0 && count >= 0 && offset + count <= static_cast<std::int64_t>(shard.size()), offset, " ", count, " of ",
                  shard.size());
  return shard.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
}

/// A bf16 is the upper half of an fp32.
void widen(Precision precision, std::span<const std::byte> halves, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, halves.data() + i * half, half);
    out[i] = precision == Precision::fp16 ? half_to_float(bits) : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
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

const LocalTensor& Shelves::part(int tensor, int piece) const {
  const auto& list = piece < 0 ? by_tensor_ : by_piece_;
  const auto index = static_cast<std::size_t>(piece < 0 ? tensor : piece);
  FLOTILLA_ASSERT(index < list.size() && list[index] != nullptr && list[index]->tensor == tensor, "piece ", piece, " of tensor ", tensor,
                  " is not on this rank");
  return *list[index];
}

StateStream::StateStream(const program::StateTransfer& transfer, const Shelves& shelves, StreamEnd end)
    : transfer_{transfer}, shelves_{shelves}, end_{end}, left_{transfer.size().count} {}

template <class Each>
void StateStream::advance(std::int64_t bytes, const Each& each) {
  left_ -= bytes;
  while (bytes > 0) {
    const auto& run = transfer_.runs[run_];
    const Plane plane{run.carried, plane_};
    const auto& part = shelves_.part(run.tensor, end_ == StreamEnd::from ? run.from_piece : run.to_piece);
    const std::int64_t offset = end_ == StreamEnd::from ? run.from_offset : run.to_offset;
    const std::int64_t stride = end_ == StreamEnd::from ? run.from_stride : run.to_stride;
    const std::int64_t count = std::min(bytes / plane.width(), run.inner - column_);
    FLOTILLA_ASSERT(count > 0, bytes, " bytes of a number of ", plane.width());
    each(part, plane, offset + row_ * stride + column_, count);
    bytes -= count * plane.width();
    if ((column_ += count) < run.inner) continue;
    column_ = 0;
    if (++row_ < run.outer) continue;
    row_ = 0;
    if (++plane_ < planes(run.carried)) continue;
    plane_ = 0;
    ++run_;
  }
}

void StateStream::read(std::span<std::byte> message) {
  auto out = message.begin();
  advance(static_cast<std::int64_t>(message.size()),
          [&](const LocalTensor& part, const Plane& plane, std::int64_t first, std::int64_t count) {
            const auto from =
                plane.weights ? std::as_bytes(row(part.weights, first, count)) : std::as_bytes(row(part.values(plane.kind), first, count));
            out = std::copy(from.begin(), from.end(), out);
          });
}

void StateStream::write(std::span<const std::byte> message) {
  advance(static_cast<std::int64_t>(message.size()),
          [&](const LocalTensor& part, const Plane& plane, std::int64_t first, std::int64_t count) {
            const auto to = row(part.values(plane.kind), first, count);
            const auto from = message.first(static_cast<std::size_t>(count * plane.width()));
            message = message.subspan(from.size());
            if (plane.weights)
              widen(part.precision, from, to);
            else
              std::memcpy(to.data(), from.data(), from.size());
          });
}

void keep(const program::StateTransfer& transfer, const Shelves& from, const Shelves& to) {
  for (const auto& run : transfer.runs) {
    const auto &source = from.part(run.tensor, run.from_piece), &target = to.part(run.tensor, run.to_piece);
    for (std::size_t p = 0; p < planes(run.carried); ++p) {
      const Plane plane{run.carried, p};
      const auto out = target.values(plane.kind);
      for (std::int64_t o = 0; o < run.outer; ++o) {
        const auto fresh = row(out, run.to_offset + o * run.to_stride, run.inner);
        const std::int64_t first = run.from_offset + o * run.from_stride;
        if (plane.weights)
          widen(source.precision, std::as_bytes(row(source.weights, first, run.inner)), fresh);
        else
          std::ranges::copy(row(source.values(plane.kind), first, run.inner), fresh.begin());
      }
    }
  }
}

}  // namespace flotilla::train
