#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace flotilla::tokenizer {

/// What two neighbouring tokens become. The smallest rank goes first.
struct Merge {
  std::uint32_t rank = 0;
  std::int32_t token = 0;
};

/// Merges by pair of tokens: open addressing, one line of cache for nearly every look-up.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges) : slots_(std::bit_ceil(2 * merges + 2)), shift_{64 - std::countr_zero(slots_.size())} {}

  /// A pair given again takes the later merge.
  void set(std::int32_t left, std::int32_t right, Merge merge) {
    auto& slot = slots_[place(key_of(left, right))];
    slot = {key_of(left, right), merge};
  }
  /// Null where the pair does not merge.
  const Merge* find(std::int32_t left, std::int32_t right) const {
    const auto& slot = slots_[place(key_of(left, right))];
    return slot.key == no_pair ? nullptr : &slot.merge;
  }

 private:
  static constexpr std::uint64_t no_pair = ~std::uint64_t{0};  // tokens are not negative
  struct Slot {
    std::uint64_t key = no_pair;
    Merge merge;
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  }
  /// The pair's slot, or the free one where it belongs. There is always a free one.
  std::size_t place(std::uint64_t key) const {
    auto at = static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> shift_);
    while (slots_[at].key != key && slots_[at].key != no_pair) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
  int shift_;
};

}  // namespace flotilla::tokenizer
