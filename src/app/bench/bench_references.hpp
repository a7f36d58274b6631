#pragma once
#include <optional>
#include <string>

#include "app/bench/bench_text.hpp"
#include "flotilla/cluster/catalogue.hpp"

namespace flotilla::app {

/// What the figures of a report's nodes are held against.
class References {
 public:
  explicit References(const BenchResult&);
  /// Learned from earlier reports, else what nodes of the type have in common; nullptr where there is none.
  const bench::Baseline* usual(const std::string& type, const std::string& figure) const;
  /// Of the node's GPU, or of its usable cores together; nothing where the catalogue does not know it.
  std::optional<double> catalogue(const bench::NodeReport&, const std::string& figure) const;

 private:
  bench::Baselines learned_, siblings_;
  cluster::Catalogue catalogue_;
};

/// How good a figure is, 1: as the reference; 0.5: half as fast.
double goodness(const bench::MeasuredFigure&, double reference);

}  // namespace flotilla::app
