#pragma once
#include <array>
#include <span>
#include <vector>

#include "flotilla/program/program.hpp"

namespace flotilla::simulate {

/// A run of instructions that start one as the other ends (chains.hpp), or a single one.
struct Chain {
  int first = 0, size = 0;        ///< Listing::instructions
  int marks = 0, mark_count = 0;  ///< Listing::marks
  int home_mark = -1;             ///< the last member on the first one's queue, which is free from its end; -1: the chain's last
  std::array<int, 2> runs{};      ///< how often it runs for a full microbatch, and for the last one
};

/// One run of a chain.
struct Item {
  int chain = -1;
  int microbatch = 0;
  int sequence = 0;  ///< messages: number on its ordered pair of ranks; collectives: number on its group
  int marks = 0;     ///< where the ends of its marked members stand in the machine's list
};

/// The end of an item, or of one of its marked members.
struct Awaited {
  int item = -1;
  int mark = -1;
};

/// A class's instructions in issue order, as program::expand lists them, in a form that is quick to run.
struct Listing {
  std::vector<Chain> chains;
  std::vector<int> instructions;  ///< of the chains' members
  std::vector<int> marks;         ///< members of chains, but for their last ones, whose ends others wait for; ascending in each chain
  std::vector<Item> items;
  std::vector<std::array<int, 2>> wait_ranges;                ///< by item: half-open range of `waits`
  std::vector<Awaited> waits;                                 ///< items are all earlier
  std::array<std::vector<int>, program::queue_count> queues;  ///< positions of items by their first member's queue
  int marked_runs = 0;

  std::span<const Awaited> waits_of(int item) const {
    const auto [first, last] = wait_ranges[static_cast<std::size_t>(item)];
    return {waits.data() + first, static_cast<std::size_t>(last - first)};
  }
  const Chain& chain_of(int item) const { return chains[static_cast<std::size_t>(items[static_cast<std::size_t>(item)].chain)]; }
  std::span<const int> instructions_of(const Chain& chain) const {
    return {instructions.data() + chain.first, static_cast<std::size_t>(chain.size)};
  }
  /// Member of the chain, from 0, that is the last one on the first one's queue.
  int last_at_home(const Chain& chain) const {
    return chain.home_mark < 0 ? chain.size - 1 : marks[static_cast<std::size_t>(chain.marks + chain.home_mark)];
  }
  int first_instruction(int item) const { return instructions[static_cast<std::size_t>(chain_of(item).first)]; }
};

/// `slots`: peer slot -> folded slot, which numbers the messages. `local`: instructions that need no partner on another kind of rank.
Listing list_instructions(const program::RankClass&, const std::vector<int>& slots, const std::vector<char>& local);

}  // namespace flotilla::simulate
