#include "best_first.hpp"
#include "explain.hpp"
#include "flotilla/base/error.hpp"
#include "miss.hpp"

namespace flotilla::search {
namespace {

void add_alternatives(const Incumbents& found, int wanted, Answer& answer) {
  const Evaluated& best = *found.best();
  const auto add = [&](const Evaluated& e) {
    if (static_cast<int>(answer.alternatives.size()) < wanted)
      answer.alternatives.push_back({e.plan, e.forecast.iteration, e.forecast.peak_memory(), why_lost(e, best)});
  };
  for (std::size_t i = 1; i < found.fitting().size(); ++i) add(found.fitting()[i]);
  // Faster ones that do not fit say what more memory would buy.
  for (const Evaluated& e : found.missing())
    if (e.forecast.iteration < best.forecast.iteration) add(e);
}

std::string reason_for_no_plan(const Problem& problem, const BestFirst& search, const std::optional<Miss>& miss) {
  const int ranks = problem.ranks();
  if (search.all().empty())
    return text("no data x pipeline x tensor degrees as asked for can be made of ", ranks, ranks == 1 ? " rank" : " ranks",
                " with each tensor-parallel group inside one host; give fewer fixed degrees or more ranks");
  if (miss)
    return text("no plan fits into the devices' memory: even the nearest one is ", to_string(miss->needed - miss->limit),
                " over the limit of rank ", miss->rank);
  if (!search.refusal().empty()) return "no plan that was asked for can be executed: " + search.refusal();
  return "the search was stopped before any plan was found to fit; give it more time";
}

}  // namespace

Answer find_plan(const Request& asked, const cluster::Profile& profile, const simulate::BoundedForecaster& forecaster) {
  const Request request = settled(asked);
  check(request, profile);
  const Problem problem{request, profile, forecaster};
  BestFirst search{problem};
  search.run();
  Answer answer;
  answer.considered = search.considered();
  answer.pruned = search.pruned();
  answer.finished = search.finished();
  answer.bound_gap = search.bound_gap();
  if (const Evaluated* best = search.incumbents().best()) {
    answer.plan = best->plan;
    answer.forecast = best->forecast;
    add_alternatives(search.incumbents(), request.alternatives, answer);
    return answer;
  }
  if (answer.finished) answer.nearest_miss = nearest_miss(problem, search);
  answer.no_plan_reason = reason_for_no_plan(problem, search, answer.nearest_miss);
  return answer;
}

}  // namespace flotilla::search
