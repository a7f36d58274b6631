#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "flotilla/checkpoint/state.hpp"
#include "segments.hpp"

namespace flotilla::checkpoint {

/// Where the number of (kind, tensor, segment) stands in one long table: kind by kind, tensor by tensor, segment by segment.
class ChecksumIndex {
 public:
  explicit ChecksumIndex(const std::vector<model::Tensor>&);

  std::size_t size() const { return kinds.size() * first_.back(); }
  std::size_t at(Kind kind, std::size_t tensor, std::int64_t segment) const {
    return static_cast<std::size_t>(kind) * first_.back() + first_[tensor] + static_cast<std::size_t>(segment);
  }
  /// The part of the table that belongs to one dataset.
  template <class Table>
  auto part(Table& table, Kind kind, std::size_t tensor) const {
    return std::span{table}.subspan(at(kind, tensor, 0), first_[tensor + 1] - first_[tensor]);
  }

 private:
  std::vector<std::size_t> first_;  // by tensor, and the end
};

/// Linear checksums (linear_crc.hpp) of what this rank owns, zero elsewhere; the XOR over all ranks is that of the whole state.
std::vector<std::uint32_t> owned_remainders(const LocalState&, const ChecksumIndex&);
/// Elements that this rank owns, by tensor.
std::vector<std::uint64_t> owned_elements(const LocalState&);
/// CRC-32Cs from the remainders of the whole state.
std::vector<std::uint32_t> checksums_of(const std::vector<model::Tensor>&, const ChecksumIndex&, std::vector<std::uint32_t> remainders);
/// CRC-32C of the table itself, as little-endian numbers.
std::uint32_t checksum_of_table(std::span<const std::uint32_t> table);

/// 8 lower-case hexadecimal digits.
std::string hex8(std::uint32_t);

}  // namespace flotilla::checkpoint
