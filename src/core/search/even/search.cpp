#include "search.hpp"

#include <algorithm>

#include "../explain.hpp"
#include "best_first.hpp"
#include "flotilla/base/error.hpp"
#include "miss.hpp"

namespace flotilla::search::even {
namespace {

void add_alternatives(const Problem& problem, const Incumbents& found, PlanAnswer& answer) {
  const Evaluated& best = *found.best();
  const auto add = [&](const Evaluated& other) {
    if (static_cast<int>(answer.alternatives.size()) >= problem.request.alternatives) return;
    answer.alternatives.push_back(alternative(other, best, problem.request.objective.goal));
  };
  for (std::size_t i = 1; i < found.fitting().size(); ++i) add(found.fitting()[i]);
  // Faster ones that do not fit say what more memory would buy.
  for (const Evaluated& other : found.missing())
    if (other.value < best.value) add(other);
}

std::string reason_for_no_plan(const Problem& problem, const BestFirst& search, const std::optional<Miss>& miss) {
  const int ranks = problem.ranks();
  if (search.all().empty())
    return text("no data x pipeline x tensor degrees as asked for can be made of ", ranks, ranks == 1 ? " rank" : " ranks",
                " with each tensor-parallel group inside one host; give fewer fixed degrees or more ranks");
  if (miss)
    return text("no plan fits into the devices' memory: even the nearest one is ", to_string(miss->needed - miss->limit),
                " over the limit of rank ", miss->rank, "; nearest: ", in_words(*miss));
  if (!search.refusal().empty()) return "no plan that was asked for can be executed: " + search.refusal();
  return "the search was stopped before any plan was found to fit; give it more time";
}

}  // namespace

PlanAnswer best_for_ranks(const Problem& problem, const std::vector<plan::Plan>& others) {
  BestFirst search{problem};
  for (const auto& plan : others) search.offer(plan);
  if (problem.request.objective.goal == Goal::throughput) search.run();
  PlanAnswer answer;
  answer.considered = search.considered();
  answer.pruned = search.pruned();
  answer.finished = search.finished();
  answer.bound = search.finished() ? never : search.left_bound();
  if (const Evaluated* best = search.incumbents().best()) {
    answer.best = ranked(*best);
    add_alternatives(problem, search.incumbents(), answer);
    return answer;
  }
  if (answer.finished) answer.nearest_miss = nearest_miss(problem, search);
  answer.no_plan_reason = reason_for_no_plan(problem, search, answer.nearest_miss);
  return answer;
}

}  // namespace flotilla::search::even
