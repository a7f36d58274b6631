#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "binding.hpp"

namespace flotilla::train {

/// For tests: memory whose value nobody will read again becomes NaN at once, so that a read of what is gone shows in the loss. Covers
/// every temporary instance whose last reader runs on the compute thread.
class Poison {
 public:
  Poison(Binding&, compute::Backend&, bool enabled);
  /// After a compute instruction, before it counts as done.
  void after(std::size_t issued) const;

 private:
  compute::Backend& backend_;
  std::vector<std::vector<std::span<std::byte>>> dead_;  ///< by instruction
};

}  // namespace flotilla::train
