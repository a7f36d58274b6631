#pragma once
#include <cstddef>
#include <memory>

#include "flotilla/checkpoint/state.hpp"

namespace flotilla::checkpoint {

/// A copy of what this rank writes into a checkpoint, in memory that is taken once, every page of it. Local.
class Snapshot {
 public:
  /// Memory for copies of states that are laid out as this one, made by so many threads. Throws std::bad_alloc.
  explicit Snapshot(const LocalState& like, int threads = 1);

  Bytes size() const { return Bytes{static_cast<std::int64_t>(elements_ * sizeof(float))}; }
  /// Copies what this rank owns of a state laid out as the constructor's. The copy's parts are of memory that the next one overwrites.
  LocalState take(const LocalState&);

 private:
  std::size_t elements_;
  std::unique_ptr<float[]> memory_;
  int threads_;
};

}  // namespace flotilla::checkpoint
