#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/base/units.hpp"

namespace flotilla::checkpoint {

inline constexpr std::int64_t element_bytes = 4;  ///< of the state: fp32

/// A run of elements of the row-major whole.
struct ElementRange {
  std::int64_t first = 0, count = 0;
  std::int64_t last() const { return first + count; }
};

/// A tensor's pieces with a checksum each: as many whole rows (elements along dimension 0) as fit 1 MiB, at least one. They depend on the
/// shape alone, never on who holds what.
class Segments {
 public:
  explicit Segments(const std::vector<std::int64_t>& shape);

  std::int64_t count() const { return (rows_ + rows_each_ - 1) / rows_each_; }
  ElementRange run(std::int64_t segment) const;
  std::int64_t of_element(std::int64_t index) const { return index / (rows_each_ * columns_); }
  std::int64_t rows_each() const { return rows_each_; }
  /// Elements of the largest.
  std::int64_t most_elements() const;

 private:
  std::int64_t rows_, columns_, rows_each_;
};

}  // namespace flotilla::checkpoint
