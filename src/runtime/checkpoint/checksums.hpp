#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "flotilla/checkpoint/state.hpp"
#include "segments.hpp"

namespace flotilla::checkpoint {

/// Where the number of (kind, tensor, segment) stands in one long table: kind by kind, tensor by tensor, segment by segment. What is not
/// kept of a frozen tensor has none.
class ChecksumIndex {
 public:
  explicit ChecksumIndex(const std::vector<model::Tensor>&);

  std::size_t size() const { return first_.back(); }
  std::size_t at(StateKind kind, std::size_t tensor, std::int64_t segment) const {
    return first_[dataset(kind, tensor)] + static_cast<std::size_t>(segment);
  }
  /// The part of the table that belongs to one dataset.
  template <class Table>
  auto part(Table& table, StateKind kind, std::size_t tensor) const {
    const std::size_t here = dataset(kind, tensor);
    return std::span{table}.subspan(first_[here], first_[here + 1] - first_[here]);
  }

 private:
  std::size_t dataset(StateKind kind, std::size_t tensor) const { return static_cast<std::size_t>(kind) * tensors_ + tensor; }

  std::size_t tensors_;
  std::vector<std::size_t> first_;  // by kind and tensor, and the end
};

/// Adds the linear checksums (linear_crc.hpp) of what this rank owns to a table of zeros, or of the same for other pieces; the XOR over all
/// pieces of all ranks is that of the whole state.
void add_owned_remainders(const LocalState&, const ChecksumIndex&, std::vector<std::uint32_t>& table);
/// Of one piece alone.
std::vector<std::uint32_t> owned_remainders(const LocalState&, const ChecksumIndex&);
/// One number for such a table, as linear as they are: that of several pieces is the XOR of theirs.
std::uint32_t remainder_of_table(std::span<const std::uint32_t> table);
/// Adds the elements that this rank owns, by tensor.
void add_owned_elements(const LocalState&, std::vector<std::uint64_t>& elements);
/// CRC-32Cs from the remainders of the whole state.
std::vector<std::uint32_t> checksums_of(const std::vector<model::Tensor>&, const ChecksumIndex&, std::vector<std::uint32_t> remainders);
/// CRC-32C of the table itself, as little-endian numbers.
std::uint32_t checksum_of_table(std::span<const std::uint32_t> table);

/// 8 lower-case hexadecimal digits.
std::string hex8(std::uint32_t);

}  // namespace flotilla::checkpoint
