#pragma once
#include <cstddef>
#include <span>

#include "flotilla/base/units.hpp"

namespace flotilla::train {

/// The one block of memory a device computes in, zeroed, taken at once and touched, so that no later step meets a page fault or an
/// allocation that fails.
class Arena {
 public:
  /// Throws Error{unavailable} when the system does not have that much.
  explicit Arena(Bytes size);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  std::byte* at(Bytes offset) const { return base_ + offset.count; }
  Bytes size() const { return size_; }

 private:
  std::byte* base_ = nullptr;
  Bytes size_;
};

}  // namespace flotilla::train
