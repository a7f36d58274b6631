#pragma once
#include <functional>
#include <optional>
#include <vector>

/// A packing linear program by column generation: how many columns fit into resources of one unit each.
///   maximise sum over columns of x, with sum of x x use(resource) <= 1 for every resource, x >= 0
/// Its dual, prices of the resources, is what a proof consists of: where every column costs at least 1, no more fit than the prices' sum.
namespace flotilla::search::bound {

using Prices = std::vector<double>;  ///< by resource
using Use = std::vector<double>;

/// The cheapest column for some prices; nothing where there is no column at all.
using Pricing = std::function<std::optional<Use>(const Prices&)>;

struct Packing {
  bool fits = true;  ///< one whole column or more does, or it could not be excluded
  Prices prices;     ///< where not: every column costs 1 or more, and all resources together less than 1; empty where there is no column
};

/// Whether a whole column (a mixture of columns) fits. `first`: prices to begin with; may be empty.
Packing pack(int resources, const Pricing&, Prices first);

}  // namespace flotilla::search::bound
