#pragma once
#include <cstdint>
#include <vector>

#include "flotilla/data/sampler.hpp"

namespace flotilla::data {

/// In which order the sequences of one source are drawn: epoch after epoch, each a permutation of all of them (Sampler says how files are
/// cut). A pure function of (seed, sections, growth), in constant time.
///
/// A source may grow: from some draw on, it has sections behind those that it had. What its epoch had not drawn by then and what is new are
/// shuffled together and drawn before anything comes again; every later epoch is of everything.
class SourceOrder {
 public:
  /// The first `known` sections are there from the start.
  SourceOrder(const Corpus&, std::size_t known, int length, std::uint64_t seed);
  /// From this draw on, which is not before the last growth's, the first `known` sections.
  void grow(std::int64_t draw, std::size_t known);

  /// Of an epoch of everything.
  std::int64_t sequences() const { return generations_.back().total; }
  /// Draws of so many epochs, growth included.
  std::int64_t draws(std::int64_t epochs) const;
  /// Location::source is left 0.
  Location locate(std::int64_t draw) const;
  Location locate_evaluation(std::int64_t index) const;

 private:
  struct Generation {
    std::int64_t begin = 0;        ///< first draw
    std::int64_t total = 0;        ///< sequences of an epoch
    std::int64_t left = 0;         ///< that the epoch in hand had not drawn
    std::int64_t pool = 0;         ///< those and the new ones, drawn first
    std::int64_t pool_epoch = 0;   ///< to which they belong
    std::int64_t whole_epoch = 0;  ///< the first one of everything
    std::int64_t whole_from() const { return begin + pool; }
  };
  /// As the source was in that generation, also for draws that came later.
  Location locate(std::size_t generation, std::int64_t draw) const;
  Location place(std::int64_t epoch, std::int64_t sequence, bool shifted) const;
  std::int64_t total(std::size_t known) const { return first_sequence_.at(known); }

  Corpus corpus_;  ///< shares the files
  int length_;
  std::uint64_t seed_;
  std::vector<std::int64_t> first_sequence_;  ///< of every section, and the total at the end
  std::vector<Generation> generations_;
};

}  // namespace flotilla::data
