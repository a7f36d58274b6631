#pragma once
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "flotilla/checkpoint/state.hpp"

namespace flotilla::checkpoint {

/// A copy of what this rank writes into a checkpoint, in memory that is taken once, every page of it. Local.
class Snapshot {
 public:
  /// Memory for copies of states that are laid out as this one. Throws std::bad_alloc.
  explicit Snapshot(const LocalState& like);

  Bytes size() const { return Bytes{static_cast<std::int64_t>(elements_ * sizeof(float))}; }
  /// What a copy of this rank's own part of a state, laid out as the constructor's, will be. Its values are there, and the state may
  /// change, after complete(); the next begin() overwrites them. No copy may be under way.
  LocalState begin(const LocalState&);
  /// Copies what no other thread has taken up, and waits for the rest. Any threads, at once; cheap where nothing is left to copy.
  void complete();

 private:
  struct Piece {
    const float* from = nullptr;
    float* to = nullptr;
    std::size_t count = 0;
  };

  std::size_t elements_;
  std::unique_ptr<float[]> memory_;
  std::vector<Piece> pieces_;                      ///< of the copy under way, or of the last one
  std::atomic<std::size_t> taken_{0}, copied_{0};  ///< pieces
};

}  // namespace flotilla::checkpoint
