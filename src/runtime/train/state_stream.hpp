#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "flotilla/checkpoint/state.hpp"
#include "flotilla/program/migration.hpp"

namespace flotilla::train {

/// A rank's parts of the training state, by tensor.
class Shelves {
 public:
  explicit Shelves(const checkpoint::LocalState&);
  /// Of its shard, or of one of its pieces (program::ElementRun). Throws Error{internal} where this rank does not hold it.
  const checkpoint::LocalTensor& part(int tensor, int piece) const;

 private:
  std::vector<const checkpoint::LocalTensor*> by_tensor_, by_piece_;
};

enum class StreamEnd { from, to };

/// One end of a transfer as a row of bytes: run by run, in each the parameters, then the first and the second moments, or the weights, row
/// by row. Both ends see the same row, each laid out as its own shard is.
class StateStream {
 public:
  StateStream(const program::StateTransfer&, const Shelves&, StreamEnd);
  std::int64_t left() const { return left_; }
  /// The next message.size() bytes, which must be left, a multiple of 4 unless they are the last: out of the state, or into it.
  void read(std::span<std::byte> message);
  void write(std::span<const std::byte> message);

 private:
  template <class Each>
  void advance(std::int64_t bytes, const Each&);

  const program::StateTransfer& transfer_;
  const Shelves& shelves_;
  const StreamEnd end_;
  std::size_t run_ = 0, plane_ = 0;
  std::int64_t row_ = 0, column_ = 0, left_ = 0;
};

/// From one state of the rank to another, or within one.
void keep(const program::StateTransfer&, const Shelves& from, const Shelves& to);

}  // namespace flotilla::train
