#pragma once
#include <array>
#include <span>
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

/// One instruction of a listing.
struct Item {
  int site = -1;
  int microbatch = 0;
  int sequence = 0;  ///< messages: number on its ordered pair of ranks; collectives: number on its group
};

/// A class's instructions in issue order, as program::expand lists them, in a form that is quick to run.
struct Listing {
  std::vector<Item> items;
  std::vector<std::array<int, 2>> wait_ranges;                ///< by item: half-open range of `waits`
  std::vector<int> waits;                                     ///< positions of items, all earlier
  std::array<std::vector<int>, program::queue_count> queues;  ///< positions by queue

  std::span<const int> waits_of(int item) const {
    const auto [first, last] = wait_ranges[static_cast<std::size_t>(item)];
    return {waits.data() + first, static_cast<std::size_t>(last - first)};
  }
};

/// `slots`: peer slot -> folded slot, which numbers the messages.
Listing list_instructions(const program::RankClass&, const std::vector<int>& slots);

}  // namespace flotilla::simulate
