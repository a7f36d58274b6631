#include <algorithm>

#include "../replan.hpp"
#include "answer.hpp"
#include "families.hpp"
#include "floor.hpp"
#include "refine.hpp"
#include "revive.hpp"

namespace flotilla::search {

using namespace pool;

namespace {

/// What runs now as far as the pool still holds it: where local search starts, too.
void offer_previous(const plan::Plan& previous, Estimator& estimate, Shortlist& list) {
  auto sketch = revive(previous, estimate.stock());
  if (sketch) list.offer(*sketch, estimate(*sketch));
}

/// Its own shares, and those that the estimate deals.
void try_previous(const plan::Plan& previous, const Stock& stock, Refine& refine) {
  if (previous.model == stock.request.model && previous.length == stock.request.length &&
      previous.global_batch == stock.request.global_batch && previous.precision == stock.request.precision)
    refine.attempt(unbound(previous));
  if (const auto sketch = revive(previous, stock)) refine.attempt(*sketch);
}

}  // namespace

PoolAnswer plan_by_program(const PoolRequest& request, const cluster::Profile& library, const program::Runtime& runtime) {
  const Stock stock{request, library};
  Bench bench{stock, runtime};
  Soundings soundings{stock, bench};
  Network network{stock, runtime};
  Estimator estimate{stock, soundings, network, runtime};
  Shortlist list{stock, shortlist_length(stock.devices)};
  if (request.previous) offer_previous(*request.previous, estimate, list);
  Families families{estimate, network, abilities_of(runtime), list, request.should_stop};
  families.run();
  Refine refine{stock, estimate, bench, request.should_stop};
  refine.polish(list);
  if (request.previous) try_previous(*request.previous, stock, refine);
  refine.forecast(list);
  refine.improve(most_improvements(stock.devices));
  refine.vary();
  auto answer = answer_of(stock, refine, {estimate.count(), bench.forecasts(), families.stopped() || refine.stopped()},
                          floor_of_value(stock, soundings, families.microbatches()), bench);
  prefer_what_moves_least(answer, request);
  return answer;
}

}  // namespace flotilla::search
