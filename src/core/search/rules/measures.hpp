#pragma once
#include <cstdint>
#include <vector>

#include "problem.hpp"

namespace flotilla::search::rules {

/// The different fits between the places of two kinds; a message between them takes at least the least of their times.
using Fits = std::vector<cluster::LinkFit>;
double message(const Fits&, double bytes);
void add_once(Fits&, const cluster::LinkFit*);

/// The links between neighbouring stages, zones put together, by kind and kind.
struct Links {
  explicit Links(const FormulaProblem&);
  const Fits& between(int kind, int other) const { return pairs[at(kind * kinds + other)]; }
  int kinds = 0;
  std::vector<Fits> pairs;
};

/// Times, memory and least links of all kinds at one microbatch size, and how fast layers can go through devices at most.
class Measures {
 public:
  Measures(const FormulaProblem&, const Links&, int sequences);

  int sequences() const { return m_; }
  bool usable(int kind) const { return kinds_[at(kind)].usable; }
  double compute(int kind, int first, int last) const { return kinds_[at(kind)].compute[at(last)] - kinds_[at(kind)].compute[at(first)]; }
  double update(int kind, int layer) const { return kinds_[at(kind)].update[at(layer)]; }
  double least_update() const { return least_update_; }
  /// `from_end`: 1 for the last stage: it keeps the activations of so many microbatches.
  bool fits(int kind, int first, int last, int from_end) const { return from_end <= depths_[range(kind, first, last)]; }
  /// Of one microbatch, all replicas of a kind, sending at least what the fastest neighbours allow; never where it does not fit. In
  /// pipelines of more than three stages (deep) the first stage sends twice.
  double time(int kind, int first, int last, bool deep) const {
    const double once = times_[range(kind, first, last)];
    return deep && first == 0 && last < layers_ ? once + least_link(kind, last - 1) : once;
  }
  /// Of the activations that `layer` puts out, between neighbouring stages of two kinds at least; from one kind to any.
  double link(int kind, int other, int layer) const { return links_[spot(kind * count_ + other, layer)]; }
  double least_link(int kind, int layer) const { return least_links_[spot(kind, layer)]; }
  /// From a kind to those of a region; to those of other regions.
  double link_into(int kind, int region, int layer) const { return into_[spot(kind * regions_ + region, layer)]; }
  double link_out(int kind, int layer) const { return out_[spot(kind, layer)]; }
  /// From a side to a stage on another one, beside the least that the sender is counted with. Sides: regions, and beyond the last one that
  /// of stages in two of them.
  double more_between(int side, int other, int layer) const { return more_[spot(side * (regions_ + 1) + other, layer)]; }

  /// Sum over layers [0, first) on the fastest kind of each.
  double least_compute(int layers) const { return work_[at(layers)]; }

  /// Paces are times that contiguous layers take on some kind, with the least sending, ascending. A device of a group does at most
  /// rate(group, pace) work for every microbatch: work is what least_compute counts. Whole layers and memory are looked at.
  int paces() const { return static_cast<int>(paces_.size()); }
  double pace(int j) const { return paces_[at(j)]; }
  double rate(int group, int j) const { return rates_[at(group * paces() + j)]; }
  /// The least price per hour for a unit of work per pace.
  double price(int j) const { return prices_[at(j)]; }

 private:
  struct KindTimes {
    bool usable = false;
    std::vector<double> compute, update;    ///< running sums; by layer
    std::vector<double> parameters, saved;  ///< running sums of elements
    double beside = 0, memory = 0;          ///< bytes
  };
  void add_kind(const FormulaProblem&, const ReplicaKind&);
  void add_depths(int kind);
  void add_times();
  void add_links(const FormulaProblem&, const Links&);
  void add_more(const FormulaProblem&);
  void add_rates(const FormulaProblem&);
  std::size_t range(int kind, int first, int last) const { return at((kind * layers_ + first) * layers_ + last - 1); }
  std::size_t spot(int pair, int layer) const { return at(pair) * classes_ + at(class_of_[at(layer)]); }

  int m_, layers_, count_, regions_;
  std::vector<KindTimes> kinds_;
  std::vector<std::int16_t> depths_;  ///< most `from_end` that fits, by kind and layers
  std::vector<double> times_;
  std::size_t classes_ = 0;
  std::vector<int> class_of_;  ///< by layer: of sizes of outputs
  std::vector<double> links_, least_links_, into_, out_, more_;
  double least_update_ = never;
  std::vector<double> work_, paces_, rates_, prices_;
};

}  // namespace flotilla::search::rules
