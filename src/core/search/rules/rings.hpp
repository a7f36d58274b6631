#pragma once
#include <cstdint>

#include "problem.hpp"

namespace flotilla::search::rules {

/// Rings over entries of the pool: replicas j and j + 1 of a stage are neighbours, the last and the first are not.
class Rings {
 public:
  explicit Rings(const FormulaProblem&);

  /// Seconds of an all-reduce over the best ring of `members` replicas of a kind that its entries have room for: the
  /// least time that is enough for all links of some way that visits entries as often as they have room. An entry may be visited again
  /// only where such links lead back to it. Of many entries just the fastest link counts.
  double least(const ReplicaKind&, int members, double bytes) const;
  /// The fastest link between entries of two groups, either way; between any entries; between regions.
  double least_between(int group, int other, int members, double bytes) const;
  double least_of_all(int members, double bytes) const { return fastest(all_, members, bytes); }
  double least_across(int members, double bytes) const { return fastest(across_, members, bytes); }

  /// How many replicas stand in an entry, one next to the other.
  struct RingPart {
    int entry = 0, count = 0;
  };
  /// The same counts in an order whose slowest link is the fastest that was found: every order of up to five entries, and neighbours in
  /// it taken in turns where their own links are slow. More entries stay as they are.
  std::vector<RingPart> ordered(const std::vector<RingPart>&, double message_bytes) const;

 private:
  struct RingOrder {
    std::vector<RingPart> parts;
    std::uint32_t in_turns = 0;  ///< by place: with the next one
  };
  const cluster::LinkFit* link(int entry, int other) const { return links_[at(entry) * size_ + at(other)]; }
  using Curves = std::vector<const cluster::LinkFit*>;
  static double fastest(const Curves&, int members, double bytes);
  double slowest(const RingOrder&, const std::vector<double>& times) const;
  static std::vector<RingPart> lined_up(const RingOrder&);

  const FormulaProblem& p_;
  std::size_t size_;
  Curves links_;                 ///< by entry and entry; nullptr: none is known
  std::vector<Curves> between_;  ///< by group and group: those that no other is faster than at every size
  Curves all_, across_;
};

}  // namespace flotilla::search::rules
