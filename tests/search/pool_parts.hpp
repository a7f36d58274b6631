#pragma once
#include <algorithm>
#include <vector>

#include "estimate.hpp"
#include "pool_instances.hpp"

namespace flotilla::fixture {

/// What the planner's parts work with.
struct Parts {
  explicit Parts(const Instance& i)
      : stock{i.request, i.library},
        bench{stock, i.runtime},
        soundings{stock, bench},
        network{stock, bench},
        estimate{stock, soundings, network, i.runtime} {
    for (int m = 1; m <= std::min(i.request.global_batch, search::pool::largest_microbatch); m *= 2) microbatches.push_back(m);
  }
  search::pool::Stock stock;
  search::pool::Bench bench;
  search::pool::Soundings soundings;
  search::pool::Network network;
  search::pool::Estimator estimate;
  std::vector<int> microbatches;
};

}  // namespace flotilla::fixture
