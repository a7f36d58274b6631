#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/gpu/device.hpp"

namespace flotilla::train {

/// Copies in the host's memory of buffers in a GPU's, for what the host does between steps: initial values, checkpoints, changes of plan.
/// The copies go through pinned memory in pieces. One thread.
class StateMirror {
 public:
  /// `stream` orders the copies with the computations.
  StateMirror(const gpu::DeviceContext&, gpu::Stream& stream, Seconds limit);

  enum class Direction { both, to_host };
  /// Where the copy of `size` bytes at `device` is; the same place for the same address. Anything is in it before the first download.
  std::byte* place(std::byte* device, Bytes size, Direction);
  /// Of all copies.
  Bytes size() const;
  /// Everything to the host, or back but for what is to_host. Both return when it is done.
  void download();
  void upload();

 private:
  struct Range {
    std::byte* device = nullptr;
    std::size_t size = 0;
    Direction direction = Direction::both;
    std::unique_ptr<std::byte[]> host;
  };
  /// A piece of pinned memory on its way.
  struct Piece {
    gpu::PinnedBuffer memory;
    gpu::Event done;
    std::byte* to = nullptr;  ///< where on the host its `size` bytes belong once they are there; nullptr: nowhere
    std::size_t size = 0;
  };
  void land(Piece&);
  template <class Each>
  void for_pieces(const Range&, const Each&);

  gpu::Stream& stream_;
  Seconds limit_;
  std::vector<Range> ranges_;
  std::vector<Piece> pieces_;
  std::size_t next_ = 0;
};

}  // namespace flotilla::train
