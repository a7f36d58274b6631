#pragma once
#include <limits>
#include <vector>

#include "problem.hpp"

namespace flotilla::search::rules {

constexpr double never = std::numeric_limits<double>::infinity();

/// The different fits between the places of two kinds; a message between them takes at least the least of their times.
using Fits = std::vector<cluster::LinkFit>;
/// Seconds of the message by the fit of rank `rank` from the fastest (0) on; never where there are fewer.
double message(const Fits&, double bytes, int rank = 0);

/// What links the problem has, zones put together.
struct Links {
  Links(const Problem&, bool tell_places_apart);
  const Fits& between(int kind, int other) const { return pairs[static_cast<std::size_t>(kind * kinds + other)]; }

  /// A kind in one entry.
  struct Place {
    int kind = 0, entry = 0;
  };
  int kinds = 0;
  bool by_place = false;      ///< few enough places to tell them apart, and no two of a type in a zone
  std::vector<Place> places;  ///< when by_place
  std::vector<Fits> direct;   ///< between two places, when by_place
  std::vector<Fits> apart;    ///< of two kinds in different zones, when by_place
  std::vector<Fits> pairs;    ///< of neighbouring stages
  std::vector<Fits> inside;   ///< by group: single devices of one entry
  std::vector<Fits> across;   ///< by group: of different entries, one fit for each pair of entries
  Fits mixed;                 ///< of different groups

 private:
  void add_places(const Problem&);
};

/// Times, memory and least links of all kinds at one microbatch size, and how fast layers can go through devices at most.
class Measures {
 public:
  Measures(const Problem&, const Links&, int sequences);

  int sequences() const { return m_; }
  bool usable(int kind) const { return kinds_[at(kind)].usable; }
  double compute(int kind, int first, int last) const { return kinds_[at(kind)].compute[at(last)] - kinds_[at(kind)].compute[at(first)]; }
  double update(int kind, int layer) const { return kinds_[at(kind)].update[at(layer)]; }
  /// `from_end`: 1 for the last stage: it keeps the activations of so many microbatches.
  bool fits(int kind, int first, int last, int from_end) const;
  /// Of the activations that `layer` puts out, between neighbouring stages of two kinds at least; of any two kinds.
  double link(int kind, int other, int layer) const { return links_[spot(kind * count_ + other, layer)]; }
  /// The same, when they stand in different zones; and between two of Links::places.
  double link_apart(int kind, int other, int layer) const { return apart_[spot(kind * count_ + other, layer)]; }
  double link_direct(int place, int other, int layer) const { return direct_[spot(place * places_ + other, layer)]; }
  double least_link(int layer) const { return least_link_[static_cast<std::size_t>(class_of_[at(layer)])]; }
  double least_sending() const { return least_sending_; }

  /// Sum over layers [0, first) on the fastest kind of each.
  double least_compute(int layers) const { return work_[at(layers)]; }

  /// Paces are times that contiguous layers take on some kind, ascending. A device of a group does at most rate(group, pace) work for every
  /// microbatch: work is what least_compute counts. Whole layers and memory are looked at.
  int paces() const { return static_cast<int>(paces_.size()); }
  double pace(int j) const { return paces_[at(j)]; }
  double rate(int group, int j) const { return rates_[at(group * paces() + j)]; }
  /// The least USD per hour for a unit of work per pace.
  double price(int j) const { return prices_[at(j)]; }

 private:
  struct Times {
    bool usable = false;
    std::vector<double> compute, update;    ///< running sums; by layer
    std::vector<double> parameters, saved;  ///< running sums of elements
    double beside = 0, memory = 0;          ///< bytes
  };
  static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }
  void add_kind(const Problem&, const Kind&);
  void add_links(const Problem&, const Links&);
  void add_rates(const Problem&);

  std::size_t spot(int pair, int layer) const { return at(pair) * classes_ + static_cast<std::size_t>(class_of_[at(layer)]); }

  int m_, layers_, count_, places_;
  std::vector<Times> kinds_;
  std::size_t classes_ = 0;
  std::vector<int> class_of_;
  std::vector<double> links_, apart_, direct_, least_link_;
  double least_sending_ = never;
  std::vector<double> work_, paces_, rates_, prices_;
};

}  // namespace flotilla::search::rules
