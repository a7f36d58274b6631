#pragma once
#include <cstdint>

#include "problem.hpp"

namespace flotilla::search::rules {

/// Rings over entries of the pool: replicas j and j + 1 of a stage are neighbours, the last and the first are not.
class Rings {
 public:
  explicit Rings(const Problem&);

  /// Seconds of an all-reduce over the best ring of `members` replicas of `tensor` devices each that these entries have room for: the
  /// least time that is enough for all links of some way that visits entries as often as they have room. An entry may be visited again
  /// only where such links lead back to it. Of many entries just the fastest link counts.
  double least(const std::vector<int>& entries, int tensor, int members, double bytes) const;
  /// The fastest link between entries of one set and of another, either way.
  double least_between(const std::vector<int>& entries, const std::vector<int>& others, int members, double bytes) const;
  /// The fastest link between regions.
  double least_across(int members, double bytes) const;

  /// How many replicas stand in an entry, one next to the other.
  struct Part {
    int entry = 0, count = 0;
  };
  /// The same counts in an order whose slowest link is the fastest that was found: every order of up to five entries, and neighbours in
  /// it taken in turns where their own links are slow. More entries stay as they are.
  std::vector<Part> ordered(const std::vector<Part>&, double message_bytes) const;

 private:
  struct Order {
    std::vector<Part> parts;
    std::uint32_t in_turns = 0;  ///< by place: with the next one
  };
  const cluster::LinkFit* link(int entry, int other) const { return links_[at(entry) * size_ + at(other)]; }
  double slowest(const Order&, const std::vector<double>& times) const;
  static std::vector<Part> lined_up(const Order&);

  const Problem& p_;
  std::size_t size_;
  std::vector<const cluster::LinkFit*> links_;  ///< by entry and entry; nullptr: none is known
};

}  // namespace flotilla::search::rules
