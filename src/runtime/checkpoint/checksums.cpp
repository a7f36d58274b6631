#include "checksums.hpp"

#include <algorithm>
#include <array>

#include "flotilla/base/error.hpp"
#include "flotilla/base/hash.hpp"
#include "linear_crc.hpp"

namespace flotilla::checkpoint {
namespace {

/// Adds runs of a tensor to the remainders of its segments, in rising order where it can: a run before the last one starts anew.
class Accumulator {
 public:
  Accumulator(const Segments& segments, std::span<std::uint32_t> remainders) : segments_{segments}, remainders_{remainders} {}
  Accumulator(const Accumulator&) = delete;
  Accumulator& operator=(const Accumulator&) = delete;
  ~Accumulator() { leave_segment(); }

  void add(std::int64_t first, std::span<const float> values) {
    while (!values.empty()) {
      enter_segment(first);
      const auto count = std::min<std::int64_t>(std::ssize(values), run_.last() - first);
      remainder_ = extended(remainder_, std::as_bytes(values.first(static_cast<std::size_t>(count))));
      position_ = first += count;
      values = values.subspan(static_cast<std::size_t>(count));
    }
  }

 private:
  void enter_segment(std::int64_t first) {
    if (segment_ < 0 || first < position_ || first >= run_.last()) {
      leave_segment();
      segment_ = segments_.of_element(first);
      run_ = segments_.run(segment_);
      remainder_ = 0;
    } else if (first > position_) {
      remainder_ = multiply(power_of_gap(first - position_), remainder_);
    }
    position_ = first;
  }

  void leave_segment() {
    if (segment_ >= 0) remainders_[static_cast<std::size_t>(segment_)] ^= shifted(remainder_, (run_.last() - position_) * element_bytes);
  }

  /// Rows of a column cut are all the same distance apart.
  std::uint32_t power_of_gap(std::int64_t gap) {
    if (gap != gap_) {
      gap_ = gap;
      power_ = power(gap * element_bytes);
    }
    return power_;
  }

  const Segments& segments_;
  std::span<std::uint32_t> remainders_;
  ElementRange run_;
  std::int64_t segment_ = -1, position_ = 0, gap_ = -1;
  std::uint32_t remainder_ = 0, power_ = 0;
};

}  // namespace

ChecksumIndex::ChecksumIndex(const std::vector<model::Tensor>& tensors) : tensors_{tensors.size()}, first_{0} {
  for (auto kind : kinds)
    for (const auto& tensor : tensors)
      first_.push_back(first_.back() + (is_kept(kind, tensor) ? static_cast<std::size_t>(Segments{tensor.shape}.count()) : 0));
}

void add_owned_remainders(const LocalState& state, const ChecksumIndex& index, std::vector<std::uint32_t>& remainders) {
  for (const auto& part : state.parts) {
    if (!part.owner) continue;
    const auto number = static_cast<std::size_t>(part.tensor);
    const auto& tensor = (*state.tensors)[number];
    const Segments segments{tensor.shape};
    const auto boxes = part.boxes_in(tensor);
    for (auto kind : kinds) {
      if (!is_kept(kind, tensor)) continue;
      Accumulator accumulator{segments, index.part(remainders, kind, number)};
      for (const auto& box : boxes)
        for (std::int64_t o = 0; o < box.outer; ++o)
          accumulator.add(box.global_offset + o * box.global_stride,
                          part.values(kind).subspan(static_cast<std::size_t>(box.local_offset + o * box.local_stride),
                                                    static_cast<std::size_t>(box.inner)));
    }
  }
}

std::vector<std::uint32_t> owned_remainders(const LocalState& state, const ChecksumIndex& index) {
  std::vector<std::uint32_t> remainders(index.size());
  add_owned_remainders(state, index, remainders);
  return remainders;
}

std::uint32_t remainder_of_table(std::span<const std::uint32_t> table) { return extended(0, std::as_bytes(table)); }

void add_owned_elements(const LocalState& state, std::vector<std::uint64_t>& elements) {
  for (const auto& part : state.parts)
    if (part.owner) elements[static_cast<std::size_t>(part.tensor)] += static_cast<std::uint64_t>(part.elements());
}

std::vector<std::uint32_t> checksums_of(const std::vector<model::Tensor>& tensors, const ChecksumIndex& index,
                                        std::vector<std::uint32_t> remainders) {
  for (auto kind : kinds)
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!is_kept(kind, tensors[t])) continue;
      const Segments segments{tensors[t].shape};
      for (std::int64_t s = 0; s < segments.count(); ++s) {
        auto& number = remainders[index.at(kind, t, s)];
        number = crc_of(number, segments.run(s).count * element_bytes);
      }
    }
  return remainders;
}

std::uint32_t checksum_of_table(std::span<const std::uint32_t> table) {
  std::uint32_t crc = 0;
  for (auto number : table) {
    std::array<std::byte, 4> bytes{};
    for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
    crc = crc32c(bytes, crc);
  }
  return crc;
}

}  // namespace flotilla::checkpoint
