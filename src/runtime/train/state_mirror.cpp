#include "state_mirror.hpp"

#include <algorithm>
#include <cstring>

#include "flotilla/base/error.hpp"
#include "flotilla/program/host_memory.hpp"

namespace flotilla::train {
namespace {

constexpr Bytes piece_size = program::mirror_piece;

}  // namespace

StateMirror::StateMirror(const gpu::DeviceContext& device, gpu::Stream& stream, Seconds limit)
    : stream_{stream}, limit_{limit}, pieces_(program::mirror_pieces) {
  for (auto& piece : pieces_) {
    piece.memory = device.make_pinned(piece_size);
    piece.done = device.make_event();
  }
}

std::byte* StateMirror::place(std::byte* device, Bytes size, Direction direction) {
  const auto bytes = static_cast<std::size_t>(size.count);
  const auto known = std::ranges::find(ranges_, device, &Range::device);
  if (known != ranges_.end()) {
    FLOTILLA_ASSERT(known->size == bytes, "a buffer of ", known->size, " and ", bytes, " bytes");
    if (direction == Direction::both) known->direction = direction;
    return known->host.get();
  }
  ranges_.push_back({device, bytes, direction, std::make_unique_for_overwrite<std::byte[]>(bytes)});
  return ranges_.back().host.get();
}

Bytes StateMirror::size() const {
  Bytes sum;
  for (const auto& range : ranges_) sum = sum + Bytes{static_cast<std::int64_t>(range.size)};
  return sum;
}

void StateMirror::land(Piece& piece) {
  piece.done.wait(limit_);
  if (piece.to != nullptr) std::memcpy(piece.to, piece.memory.bytes().data(), piece.size);
  piece.to = nullptr;
}

/// each(piece, offset, size), in order, with a piece that is free.
template <class Each>
void StateMirror::for_pieces(const Range& range, const Each& each) {
  const auto most = static_cast<std::size_t>(piece_size.count);
  for (std::size_t offset = 0; offset < range.size; offset += most) {
    auto& piece = pieces_[next_++ % pieces_.size()];
    land(piece);
    each(piece, offset, std::min(most, range.size - offset));
    stream_.record(piece.done);
  }
}

void StateMirror::download() {
  for (auto& range : ranges_)
    for_pieces(range, [&](Piece& piece, std::size_t offset, std::size_t size) {
      stream_.copy_to_host(piece.memory.bytes().first(size), {range.device + offset});
      piece.to = range.host.get() + offset;
      piece.size = size;
    });
  for (auto& piece : pieces_) land(piece);
}

void StateMirror::upload() {
  for (auto& range : ranges_) {
    if (range.direction == Direction::to_host) continue;
    for_pieces(range, [&](Piece& piece, std::size_t offset, std::size_t size) {
      const auto values = piece.memory.bytes().first(size);
      std::memcpy(values.data(), range.host.get() + offset, size);
      stream_.copy_to_device({range.device + offset}, values);
    });
  }
  stream_.wait(limit_);
}

}  // namespace flotilla::train
