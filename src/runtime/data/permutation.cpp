#include "permutation.hpp"

#include <array>
#include <cmath>

#include "flotilla/base/error.hpp"

namespace flotilla::data {
namespace {

constexpr int rounds = 8;

std::uint64_t ceil_sqrt(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root >= n && root > 0) --root;
  while (root * root < n) ++root;
  return root;
}

std::uint64_t random_below(std::uint64_t limit, const std::array<std::uint32_t, 4>& bits) {
  return (std::uint64_t{bits[0]} << 32 | bits[1]) % limit;
}

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t purpose)
    : size_{size}, rows_{ceil_sqrt(static_cast<std::uint64_t>(size))}, columns_{0}, random_{seed, purpose} {
  FLOTILLA_ASSERT(size >= 1, "a permutation of ", size);
  columns_ = (static_cast<std::uint64_t>(size) + rows_ - 1) / rows_;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  FLOTILLA_ASSERT(position >= 0 && position < size_, "position ", position, " of ", size_);
  auto value = static_cast<std::uint64_t>(position);
  // The rectangle has fewer than sqrt(size) + 1 points too many: this is nearly always one turn.
  do value = encrypt(value);
  while (value >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(value);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  auto row = value / columns_, column = value % columns_;
  for (std::uint64_t round = 0; round < rounds; round += 2) {
    row = (row + random_below(rows_, random_(column, round))) % rows_;
    column = (column + random_below(columns_, random_(row, round + 1))) % columns_;
  }
  return row * columns_ + column;
}

}  // namespace flotilla::data
