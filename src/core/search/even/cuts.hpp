#pragma once
#include <optional>
#include <vector>

#include "configuration.hpp"

namespace flotilla::search::even {

/// Layer cuts of one configuration, the most promising first.
///
/// A stage that begins at layer a and ends at b bounds the iteration by the fill before it, its own work on all microbatches and the drain
/// after it. How much the stages from a on add to what went before is a dynamic program over (stage, layer), exact because fill and drain
/// only add up; with it as the estimate of what is to come, a best-first search yields the cuts in order of their bounds and wastes no
/// step. Stages that no device could hold by the memory bound are left out.
class CutSearch {
 public:
  CutSearch(const Problem&, const Configuration&);

  /// Bound of the cuts that next() has yet to yield; infinity when there are none.
  double bound() const;
  /// Empty when there are no more.
  std::vector<int> next();

 private:
  struct Replica {  // prefix sums over layers
    std::vector<double> work;
  };
  struct Stage {
    std::vector<Replica> replicas;   // those that differ
    std::vector<double> least_pass;  // prefix sums: one microbatch forward and backward on the fastest replica
    double hop = 0;                  // its activations to the next stage and their gradients back
    std::vector<int> last;           // by first layer: the furthest end that memory allows
  };
  struct Node {
    double bound = 0, so_far = 0, passed = 0;  // the largest bound of the stages chosen; fill and drain of them
    double spread = 0;                         // sum of squares of their work, to take the more even of two
    std::vector<int> cuts;
    int stage() const { return static_cast<int>(cuts.size()) - 1; }
  };
  struct Later {
    bool operator()(const Node& a, const Node& b) const;
  };

  Stage stage_of(int stage) const;
  bool allowed(int stage, int first, int last) const;
  void solve();
  void expand(const Node&);
  double work(const Stage&, int first, int last) const;
  static double span(const std::vector<double>& prefix, int first, int last) {
    return prefix[static_cast<std::size_t>(last)] - prefix[static_cast<std::size_t>(first)];
  }

  const Problem& problem_;
  Configuration configuration_;
  std::vector<int> fixed_;  // empty: any cuts
  int layers_ = 0, count_ = 0;
  std::vector<Stage> stages_;
  std::vector<std::vector<double>> rest_;  // by stage and first layer: what it and the later stages need at least
  std::vector<Node> heap_;
};

/// A bound of every cut of the configuration that is quick to compute: the mean work of its stages, the messages of a boundary one after
/// another, and in 1F1B the ways through the pipeline that must follow one another.
double quick_bound(const Problem&, const Configuration&);

/// The cuts whose most loaded device is the least over its limit by the memory bounds, and by how much.
struct LeastMemory {
  std::vector<int> cuts;
  Bytes excess;
};
LeastMemory least_memory_cuts(const Problem&, const Configuration&);

}  // namespace flotilla::search::even
