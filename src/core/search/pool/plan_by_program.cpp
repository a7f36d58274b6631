#include <algorithm>

#include "answer.hpp"
#include "families.hpp"
#include "floor.hpp"
#include "refine.hpp"

namespace flotilla::search {

using namespace pool;

PoolAnswer plan_by_program(const PoolRequest& request, const cluster::Profile& library, const program::Runtime& runtime) {
  const Stock stock{request, library};
  Bench bench{stock, runtime};
  Soundings soundings{stock, bench};
  Network network{stock, runtime};
  Estimator estimate{stock, soundings, network, runtime};
  Shortlist list{stock, shortlist_length(stock.devices)};
  Families families{estimate, network, abilities_of(runtime), list, request.should_stop};
  families.run();
  Refine refine{stock, estimate, bench, request.should_stop};
  refine.polish(list);
  if (request.previous) refine.attempt(unbound(*request.previous));
  refine.forecast(list);
  refine.improve(most_improvements(stock.devices));
  return answer_of(stock, refine, {estimate.count(), bench.forecasts(), families.stopped() || refine.stopped()},
                   floor_of_value(stock, soundings, families.microbatches()), bench);
}

}  // namespace flotilla::search
