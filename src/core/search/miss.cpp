#include "miss.hpp"

#include <algorithm>

#include "explain.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::search {
namespace {

constexpr std::size_t exact_looks = 6;  // misses by the memory bound that are forecast

std::optional<Evaluated> try_evaluate(const Problem& problem, const Configuration& c, const std::vector<int>& cuts) {
  try {
    return evaluate(problem, make_plan(problem, c, cuts));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    return std::nullopt;
  }
}

std::optional<Evaluated> nearest_of_excluded(const Problem& problem, const std::vector<Configuration>& all) {
  std::vector<std::pair<LeastMemory, const Configuration*>> near;
  for (const auto& c : all) near.emplace_back(least_memory_cuts(problem, c), &c);
  std::ranges::stable_sort(near, {}, [](const auto& n) { return n.first.excess; });
  std::optional<Evaluated> best;
  for (std::size_t i = 0; i < near.size() && i < exact_looks; ++i) {
    auto found = try_evaluate(problem, *near[i].second, near[i].first.cuts);
    if (found && (!best || found->excess() < best->excess())) best = std::move(found);
  }
  return best;
}

/// A plan of the changed request that fits, the first that is found.
std::optional<plan::Plan> any_fit(const Problem& problem, Request changed) {
  bool found = false;
  changed.alternatives = 0;
  // The first plan that is found to fit ends the search.
  const Problem inner{changed, problem.profile, problem.forecaster};
  BestFirst search{inner};
  const BestFirst* watched = &search;
  changed.should_stop = [&, outer = problem.request.should_stop] {
    found = watched->incumbents().best() != nullptr;
    return found || (outer && outer());
  };
  search.run();
  if (!search.incumbents().best()) return std::nullopt;
  return search.incumbents().best()->plan;
}

/// What the user decided, freed one at a time, the least intrusive first.
std::string freed_option(const Problem& problem) {
  const Fixed& fixed = problem.request.fixed;
  const auto attempt = [&](bool is_fixed, auto&& release) -> std::optional<plan::Plan> {
    if (!is_fixed) return std::nullopt;
    Request changed = problem.request;
    release(changed.fixed);
    return any_fit(problem, changed);
  };
  if (const auto p = attempt(fixed.recompute.has_value(), [](Fixed& f) { f.recompute.reset(); }))
    return text("recompute ", to_string(p->stages.front().recompute), " in place of ", to_string(*fixed.recompute));
  if (const auto p = attempt(fixed.microbatch.has_value(), [](Fixed& f) { f.microbatch.reset(); }))
    return text("a microbatch of ", p->stages.front().replicas.front().quanta * p->quantum, " in place of ", *fixed.microbatch);
  if (const auto p = attempt(fixed.schedule.has_value(), [](Fixed& f) { f.schedule.reset(); }))
    return text("the schedule ", to_string(p->schedule), " in place of ", to_string(*fixed.schedule));
  if (const auto p = attempt(!fixed.cuts.empty(), [&](Fixed& f) {
        f.pipeline = static_cast<int>(f.cuts.size()) - 1;
        f.cuts.clear();
      }))
    return text("other layer cuts: ", describe(*p));
  if (const auto p = attempt(fixed.data || fixed.pipeline || fixed.tensor || !fixed.cuts.empty(), [](Fixed& f) {
        f.data.reset(), f.pipeline.reset(), f.tensor.reset(), f.cuts.clear();
      }))
    return text("other degrees: ", describe(*p));
  return "";
}

std::string shorter_sequences(const Problem& problem) {
  for (int length = problem.request.length / 2; length >= 1; length /= 2) {
    Request changed = problem.request;
    changed.length = length;
    if (any_fit(problem, changed)) return text("sequences of ", length, " tokens in place of ", problem.request.length);
  }
  return "";
}

std::string smallest_change(const Problem& problem, const Evaluated& nearest) {
  const std::string more = text(to_string(nearest.needed), " for each device in place of ", to_string(nearest.limit));
  std::string change = freed_option(problem);
  if (change.empty()) change = shorter_sequences(problem);
  return change.empty() ? more : change + "; or " + more;
}

}  // namespace

std::optional<Miss> nearest_miss(const Problem& problem, const BestFirst& search) {
  std::optional<Evaluated> nearest = nearest_of_excluded(problem, search.all());
  const auto& forecast = search.incumbents().nearest();
  if (forecast && (!nearest || forecast->excess() < nearest->excess())) nearest = forecast;
  if (!nearest || nearest->fits()) return std::nullopt;
  Miss miss;
  miss.rank = nearest->tightest;
  miss.needed = nearest->needed;
  miss.limit = nearest->limit;
  for (const auto& kind : nearest->forecast.kinds)
    if (std::ranges::find(kind.ranks, miss.rank) != kind.ranks.end()) miss.memory = kind.memory;
  miss.contributors = contributors(miss.memory);
  miss.change = smallest_change(problem, *nearest);
  miss.plan = std::move(nearest->plan);
  return miss;
}

}  // namespace flotilla::search
