#include "miss.hpp"

#include <algorithm>
#include <tuple>

#include "../explain.hpp"
#include "../tuning.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/simulate/why_not.hpp"

namespace flotilla::search::even {
namespace {

std::optional<Evaluated> try_evaluate(const Problem& problem, const Configuration& c, const std::vector<int>& cuts) {
  try {
    return evaluate(problem, make_plan(problem, c, cuts));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unavailable) throw;
    return std::nullopt;
  }
}

/// Of every placement the configuration that needs the least memory: small microbatches, recomputation, few of them in flight.
std::vector<const Configuration*> smallest(const std::vector<Configuration>& all) {
  const auto size = [](const Configuration& c) {
    return std::tuple{c.microbatch, c.recompute != plan::Recompute::full, c.in_flight(0, 0)};
  };
  std::vector<const Configuration*> list;
  for (const auto& c : all) {
    const auto same = std::ranges::find(list, c.placement, &Configuration::placement);
    if (same == list.end())
      list.push_back(&c);
    else if (size(c) < size(**same))
      *same = &c;
  }
  return list;
}

/// Of these configurations the exact look at those that need the least, until one fits.
std::optional<Evaluated> nearest_of(const Problem& problem, const std::vector<Configuration>& all) {
  std::vector<std::pair<LeastMemory, const Configuration*>> near;
  for (const Configuration* c : smallest(all)) near.emplace_back(least_memory_cuts(problem, *c), c);
  std::ranges::stable_sort(near, {}, [](const auto& n) { return n.first.excess; });
  std::optional<Evaluated> best;
  for (std::size_t i = 0; i < near.size() && i < tuning::even_misses; ++i) {
    auto found = try_evaluate(problem, *near[i].second, near[i].first.cuts);
    if (found && (!best || found->excess() < best->excess())) best = std::move(found);
    if (best && best->fits()) break;
  }
  return best;
}

/// A plan of the changed request that fits.
std::optional<plan::Plan> any_fit(const Problem& problem, const PlanRequest& changed) {
  const Problem inner{changed, problem.profile, problem.forecaster};
  auto nearest = nearest_of(inner, configurations(inner));
  if (!nearest || !nearest->fits()) return std::nullopt;
  return std::move(nearest->plan);
}

template <class Change>
std::optional<plan::Plan> fit_with(const Problem& problem, Change change) {
  PlanRequest changed = problem.request;
  change(changed);
  return any_fit(problem, changed);
}

std::string smaller_microbatch(const Problem& problem) {
  const auto fixed = problem.request.constraints.microbatch;
  for (int size = fixed.value_or(1) / 2; size >= 1; size /= 2)
    if (fit_with(problem, [&](PlanRequest& r) { r.constraints.microbatch = size; }))
      return text("a microbatch of ", size, " instead of ", *fixed);
  return "";
}

/// Cuts of several stages a device are none of one.
void free_schedule(PlanRequest& r) {
  r.constraints.schedule.reset();
  if (r.constraints.chunks.value_or(1) > 1) r.constraints.cuts.clear();
  r.constraints.chunks.reset();
}

/// What the user decided, freed one at a time, the least intrusive first.
std::string freed_option(const Problem& problem) {
  const Constraints& fixed = problem.request.constraints;
  if (const auto p = fixed.recompute ? fit_with(problem, [](PlanRequest& r) { r.constraints.recompute.reset(); }) : std::nullopt)
    return text("recompute ", to_string(p->stages.front().recompute), " instead of ", to_string(*fixed.recompute));
  if (const std::string smaller = smaller_microbatch(problem); !smaller.empty()) return smaller;
  if (const auto p = fixed.schedule ? fit_with(problem, [](PlanRequest& r) { free_schedule(r); }) : std::nullopt)
    return text("the schedule ", to_string(p->schedule), " instead of ", to_string(*fixed.schedule));
  if (!fixed.shard_optimizer.value_or(false) && fit_with(problem, [](PlanRequest& r) { r.constraints.shard_optimizer = true; }))
    return "an optimizer that replicas share out";
  const auto free_cuts = [](PlanRequest& r) {
    r.constraints.pipeline = (static_cast<int>(r.constraints.cuts.size()) - 1) / r.constraints.chunks.value_or(1);
    r.constraints.cuts.clear();
  };
  if (const auto p = !fixed.cuts.empty() ? fit_with(problem, free_cuts) : std::nullopt) return text("other layer cuts: ", describe(*p));
  const auto free_degrees = [](PlanRequest& r) {
    r.constraints.data.reset(), r.constraints.pipeline.reset(), r.constraints.tensor.reset(), r.constraints.cuts.clear();
  };
  const bool has_degrees = fixed.data || fixed.pipeline || fixed.tensor || !fixed.cuts.empty();
  if (const auto p = has_degrees ? fit_with(problem, free_degrees) : std::nullopt) return text("other degrees: ", describe(*p));
  return "";
}

std::string shorter_sequences(const Problem& problem) {
  const auto fits = [&](int length) { return fit_with(problem, [&](PlanRequest& r) { r.length = length; }).has_value(); };
  if (!fits(1)) return "";
  for (int length = problem.request.length / 2; length >= 1; length /= 2)
    if (fits(length)) return text("sequences of ", length, " tokens instead of ", problem.request.length);
  return "";
}

std::string smallest_change(const Problem& problem, const Evaluated& nearest) {
  const std::string more = text(to_string(nearest.needed), " for each device instead of ", to_string(nearest.limit));
  std::string change = freed_option(problem);
  if (change.empty()) change = shorter_sequences(problem);
  return change.empty() ? more : change + "; or " + more;
}

}  // namespace

std::optional<Miss> nearest_miss(const Problem& problem, const BestFirst& search) {
  std::optional<Evaluated> nearest = nearest_of(problem, search.all());
  const auto& forecast = search.incumbents().nearest();
  if (forecast && (!nearest || forecast->excess() < nearest->excess())) nearest = forecast;
  if (!nearest || nearest->fits()) return std::nullopt;
  Miss miss;
  miss.stage = nearest->stage;
  miss.rank = nearest->tightest;
  miss.device_type = problem.device(nearest->tightest).type;
  miss.needed = nearest->needed;
  miss.limit = nearest->limit;
  miss.memory = nearest->memory;
  miss.contributors = simulate::contributors_in_words(miss.memory);
  miss.change = smallest_change(problem, *nearest);
  miss.plan = std::move(nearest->plan);
  return miss;
}

}  // namespace flotilla::search::even
