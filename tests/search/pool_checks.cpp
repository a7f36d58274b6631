#include "pool_checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <optional>

#include "../bound/floor.hpp"
#include "candidate_generator.hpp"
#include "estimate.hpp"
#include "fixed_options.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/search/planner.hpp"
#include "flotilla/simulate/forecaster.hpp"
#include "moves.hpp"
#include "pool_parts.hpp"
#include "uneven_pipeline.hpp"
#include "uneven_pipeline_search.hpp"

namespace flotilla::fixture {
namespace {

using namespace search;
using namespace search::pool;

constexpr double infinity = std::numeric_limits<double>::infinity();

double value_of(const PlanAnswer& answer) { return answer.best ? answer.best->value : infinity; }

std::string spell(const PlanAnswer& answer) { return answer.best ? plan::summary(answer.best->plan) : answer.no_plan_reason; }

std::vector<int> random_cuts(Dice& dice, int layers, int stages) {
  std::vector<int> cuts{0, layers};
  while (static_cast<int>(cuts.size()) < stages + 1) {
    const int cut = dice.pick(1, layers - 1);
    if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(cut);
  }
  std::ranges::sort(cuts);
  return cuts;
}

/// Anything that candidates can say; one tensor degree, for our runtime's sake.
CandidatePlan random_candidate(Dice& dice, const Parts& parts) {
  const int layers = parts.device_pool.request.model.layers(), stages = dice.pick(1, std::min(layers, 5));
  CandidatePlan candidate{random_cuts(dice, layers, stages), {}, {}};
  for (int s = 0; s < stages; ++s) candidate.recompute.push_back(dice.chance(0.3) ? plan::Recompute::full : plan::Recompute::none);
  if (dice.chance(0.2)) candidate.schedule = plan::ScheduleKind::gpipe;
  const int degree = 1 << dice.pick(0, 2);
  for (int c = dice.pick(1, 3); c > 0; --c) {
    PipelineReplica pipeline{{}, dice.one_of(parts.microbatches), dice.pick(1, 3)};
    int place = dice.pick(0, static_cast<int>(parts.device_pool.places.size()) - 1);
    for (int s = 0; s < stages; ++s) {
      if (dice.chance(0.3)) place = dice.pick(0, static_cast<int>(parts.device_pool.places.size()) - 1);
      pipeline.slots.push_back({place, degree});
    }
    candidate.pipelines.push_back(std::move(pipeline));
  }
  if (!parts.estimate.balances() || dice.chance(0.5)) return candidate;
  candidate.partition = BatchPartition::balanced;
  for (PipelineReplica& pipeline : candidate.pipelines) pipeline.microbatch = dice.one_of(parts.estimate.sizes());
  return candidate;
}

/// Visits candidates that the pool holds, dealt, with their estimates.
void for_random_candidates(Parts& parts, int seed, int count, const std::function<void(const CandidatePlan&, const Estimate&)>& visit) {
  Dice dice{seed};
  for (int k = 0; k < count; ++k) {
    CandidatePlan candidate = random_candidate(dice, parts);
    if (!parts.device_pool.holds(candidate)) continue;
    const Estimate estimate = parts.estimate(candidate);
    if (estimate.seconds > 0 && !candidate.pipelines.empty()) visit(candidate, estimate);
  }
}

/// Replicas of one stage: one or two groups of any place.
StageReplicas random_stage(Dice& dice, const Parts& parts) {
  StageReplicas stage;
  for (int groups = dice.pick(1, 2); groups > 0; --groups)
    stage.push_back({dice.pick(0, static_cast<int>(parts.device_pool.places.size()) - 1), 1 << dice.pick(0, 1), dice.pick(1, 4),
                     dice.one_of(parts.microbatches)});
  return stage;
}

/// Visits plans whose stages have replica counts and microbatches of their own, as far as the pool holds them and the batch goes round.
void for_random_uneven_plans(Parts& parts, int seed, int count, const std::function<void(const plan::Plan&)>& visit) {
  Dice dice{seed};
  UnevenPipelineEstimator deal{parts.estimate, parts.network};
  const int layers = parts.device_pool.request.model.layers();
  for (int k = 0; k < count; ++k) {
    UnevenPipeline line;
    const int stages = dice.pick(2, std::min(layers, 4));
    line.cuts = random_cuts(dice, layers, stages);
    for (int s = 0; s < stages; ++s) {
      line.stages_replicas.push_back(random_stage(dice, parts));
      line.recompute.push_back(dice.chance(0.3) ? plan::Recompute::full : plan::Recompute::none);
    }
    if (!deal(line)) continue;
    const plan::Plan plan = plan_of(line, parts.device_pool);
    if (parts.device_pool.holds(plan)) visit(plan);
  }
}

/// Nothing where the runtime cannot execute it.
std::optional<Verdict> verdict(const Judge& judge, const plan::Plan& plan) {
  try {
    return judge.forecast(plan);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable) << error.what();
    return std::nullopt;
  }
}

/// The best even plan on one host of the pool's first type; nothing where it has no say.
std::optional<double> best_even_plan(const Instance& i, int devices) {
  const auto& r = i.request;
  if (i.runtime.layers || !(r.restrictions == Restrictions{}) || !(r.objective == Objective{})) return std::nullopt;
  auto profile = i.library;
  for (int d = 0; d < devices; ++d) profile.devices.push_back({Rank{d}, r.pool[0].device_type, "h", r.pool[0].zone, d, 1});
  PlanRequest even;
  even.model = r.model, even.length = r.length, even.global_batch = r.global_batch, even.precision = r.precision;
  even.restrictions.uniform_degrees = true;
  even.alternatives = 0;
  const auto answer = search::plan(even, simulate::ProgramForecaster{profile, i.runtime, {}});
  if (!answer.best) return std::nullopt;
  return answer.best->value;
}

void expect_bound(const Instance& i, const PlanAnswer& answer, int seed) {
  const double bound = answer.best->value * (1 - answer.bound_gap) * (1 - 1e-9);
  for (const auto& other : answer.alternatives) EXPECT_LE(bound, other.value) << seed;
  if (const auto other = best_even_plan(i, std::min(i.request.pool[0].count, i.request.pool[0].per_node))) {
    EXPECT_LE(bound, *other) << seed;
  }
}

}  // namespace

double Ratios::at(double share) {
  std::ranges::sort(all);
  return all.empty() ? 0 : all[std::min(all.size() - 1, static_cast<std::size_t>(share * static_cast<double>(all.size())))];
}

double Ratios::share_up_to(double ratio) {
  const auto below = std::ranges::count_if(all, [&](double r) { return r <= ratio; });
  return all.empty() ? 1 : static_cast<double>(below) / static_cast<double>(all.size());
}

std::string Ratios::in_words(const char* of) {
  char line[200];
  std::snprintf(line, sizeof line, "%s: %zu, least %.4f, median %.4f, 90 %% %.4f, 95 %% %.4f, 99 %% %.4f, most %.4f", of, all.size(), at(0),
                at(0.5), at(0.9), at(0.95), at(0.99), at(1));
  return line;
}

PlanAnswer plan(const Instance& i) { return search::plan(i.request, simulate::ProgramForecaster{i.library, i.runtime, {}}); }

void expect_sense(Seeds seeds, const Range& range) {
  int found = 0, none = 0;
  for (int seed = seeds.first; seed < seeds.last; ++seed) {
    const Instance i = random_instance(seed, range);
    const auto answer = plan(i);
    const auto problems = Judge{i}.problems(answer);
    EXPECT_TRUE(problems.empty()) << seed << ": " << joined(problems) << " | " << spell(answer);
    ++(answer.best ? found : none);
    if (answer.best) expect_bound(i, answer, seed);
  }
  std::printf("sense: %d plans, %d times none\n", found, none);
  EXPECT_GT(found, 0);
}

void expect_floor(Seeds seeds, const Range& range, int plans_each) {
  Ratios ratios;
  std::size_t uneven = 0;
  for (int seed = seeds.first; seed < seeds.last; ++seed) {
    const Instance i = random_instance(seed, range);
    const Judge judge{i};
    Parts parts{i};
    const double floor = bound::floor_of(parts.device_pool, parts.layer_cost_table, parts.estimate.sizes().back()).bound;
    const auto look = [&](const plan::Plan& plan) {
      const auto v = verdict(judge, plan);
      if (!v || !v->fits || !judge.keeps_limits(*v)) return;  // no plan of the space
      ratios.add(*v->value / floor);
      EXPECT_GE(*v->value, floor) << seed << " " << i.runtime.name << " " << plan::summary(plan);
    };
    for_random_candidates(parts, seed, plans_each, [&](const CandidatePlan& candidate, const Estimate&) {
      look(plan_of(candidate, parts.device_pool));
      for_each_execution(candidate, parts.device_pool, parts.estimate.may_shard(),
                         [&](CandidatePlan&& other) { look(plan_of(other, parts.device_pool)); });
    });
    if (searches_uneven_pipelines(parts.device_pool, !i.runtime.layers)) {
      const auto before = ratios.all.size();
      for_random_uneven_plans(parts, seed, plans_each, look);
      uneven += ratios.all.size() - before;
    }
  }
  std::printf("%zu plans with stages of their own\n", uneven);
  std::printf("%s\n", ratios.in_words("value / floor").c_str());
  EXPECT_FALSE(ratios.all.empty());
}

void expect_close_estimates(Seeds seeds, const Range& range, int candidates_each, double most) {
  Ratios time, memory;
  double mean = 0;
  for (int seed = seeds.first; seed < seeds.last; ++seed) {
    const Instance i = random_instance(seed, range);
    const Judge judge{i};
    Parts parts{i};
    for_random_candidates(parts, seed, candidates_each, [&](const CandidatePlan& candidate, const Estimate& estimate) {
      const auto v = verdict(judge, plan_of(candidate, parts.device_pool));
      if (!v) return;
      time.add(std::abs(estimate.seconds / v->forecast.iteration.value - 1));
      double full = 0;
      for (const auto& kind : v->forecast.kinds)
        full = std::max(full, static_cast<double>(kind.memory.peak().count) /
                                  static_cast<double>(cluster::find_type(i.library, kind.device_type)->memory.count));
      memory.add(std::abs(estimate.full / full - 1));
      mean += time.all.back();
    });
  }
  std::printf("%s, mean %.4f\n%s\n", time.in_words("error of estimated times").c_str(), mean / static_cast<double>(time.all.size()),
              memory.in_words("error of estimated memory").c_str());
  EXPECT_LE(time.at(0.5), most);
  EXPECT_LE(memory.at(0.5), most);
}

void expect_deterministic(Seeds seeds, const Range& range) {
  for (int seed = seeds.first; seed < seeds.last; ++seed) {
    Instance i = random_instance(seed, range);
    const auto first = plan(i), again = plan(i);
    ASSERT_EQ(first.best.has_value(), again.best.has_value()) << seed;
    std::ranges::reverse(i.request.pool);
    std::ranges::reverse(i.library.device_types);
    const auto reversed = plan(i);
    EXPECT_EQ(value_of(first), value_of(reversed)) << seed;
    EXPECT_EQ(first.no_plan_reason, again.no_plan_reason);
    if (!first.best) continue;
    EXPECT_EQ(first.best->plan, again.best->plan) << seed;
    EXPECT_EQ(first.considered, again.considered) << seed;
    EXPECT_EQ(first.bound_gap, again.bound_gap) << seed;
  }
}

void expect_as_good_as_enumeration(Seeds seeds, const Range& range, double most_worse, double mostly) {
  Ratios ratios;
  long forecasts = 0;
  int nothing = 0;
  for (int seed = seeds.first; seed < seeds.last; ++seed) {
    const Instance i = random_instance(seed, range);
    const Judge judge{i};
    const auto best = best_column_plan(i, judge);
    const auto answer = plan(i);
    forecasts += best.forecasts;
    // What enumeration finds must be found; the planner may find more, for its space is larger.
    EXPECT_TRUE(answer.best || !best.found()) << seed << ": " << plan::summary(best.plan) << " | " << answer.no_plan_reason;
    if (!answer.best || !best.found()) {
      ++nothing;
      continue;
    }
    const double ratio = answer.best->value / best.value;
    ratios.add(ratio);
    EXPECT_LE(ratio, 1 + most_worse) << seed << ": " << plan::summary(answer.best->plan) << " | " << plan::summary(best.plan);
    EXPECT_LE(answer.best->value * (1 - answer.bound_gap), best.value * (1 + 1e-9)) << seed;
  }
  std::printf("%s; within 0.1 %%: %.1f %%; nothing fits: %d; %ld plans enumerated\n", ratios.in_words("planner / enumeration").c_str(),
              100 * ratios.share_up_to(1.001), nothing, forecasts);
  EXPECT_GE(ratios.share_up_to(1.001), mostly);
}

namespace {

/// Changes an instance so that every plan of before is one still.
struct Loosening {
  const char* what;
  std::function<bool(Instance&, Dice&)> apply;  ///< false: it has nothing to loosen
};

bool more_devices(Instance& i, Dice& dice) {
  auto& entry = i.request.pool[static_cast<std::size_t>(dice.pick(0, static_cast<int>(i.request.pool.size()) - 1))];
  entry.count += dice.pick(1, 2 * entry.per_node);
  return true;
}

bool another_type(Instance& i, Dice& dice) {
  auto type = made_up_type("other", dice.scale(50, 1000), i.library.device_types[0].memory);
  type.usd_per_hour = dice.scale(0.5, 10), type.billing_weight = dice.scale(0.5, 10), type.power_watts = dice.scale(100, 700);
  i.library.device_types.push_back(type);
  i.request.pool.push_back({type.name, i.request.pool[0].zone, dice.pick(1, 8), dice.one_of<int>({1, 2, 4})});
  return true;
}

bool looser_limits(Instance& i, Dice& dice) {
  auto& limits = i.request.objective.limits;
  const double factor = dice.scale(1.01, 3);
  if (limits.devices) *limits.devices += dice.pick(1, 4);
  if (limits.iterations_per_second) *limits.iterations_per_second /= factor;
  if (limits.usd_per_hour) *limits.usd_per_hour *= factor;
  if (limits.usd_per_iteration) *limits.usd_per_iteration *= factor;
  return limits != Limits{};
}

bool more_memory(Instance& i, Dice& dice) {
  const double factor = dice.scale(1.01, 3);
  for (auto& type : i.library.device_types) type.memory = {static_cast<std::int64_t>(factor * static_cast<double>(type.memory.count))};
  return true;
}

bool faster_links(Instance& i, Dice& dice) {
  const double factor = dice.scale(1.01, 10);
  for (auto& link : i.library.links)
    for (auto& piece : link.pieces) piece.bandwidth.value *= factor, piece.latency.value /= factor;
  return true;
}

double floor_of(const Instance& i) {
  Parts parts{i};
  return bound::floor_of(parts.device_pool, parts.layer_cost_table, parts.estimate.sizes().back()).bound;
}

}  // namespace

void expect_monotone_floor(Seeds seeds, const Range& range) {
  const std::vector<Loosening> all{{"more devices", more_devices},
                                   {"another type", another_type},
                                   {"looser limits", looser_limits},
                                   {"more memory", more_memory},
                                   {"faster links", faster_links}};
  int pairs = 0, lower = 0;
  for (int seed = seeds.first; seed < seeds.last; ++seed)
    for (const auto& loosening : all) {
      Instance i = random_instance(seed, range);
      const double before = floor_of(i);
      Dice dice{seed};
      if (!loosening.apply(i, dice)) continue;
      const double after = floor_of(i);
      EXPECT_LE(after, before * (1 + 1e-9)) << loosening.what << " " << seed << " " << i.runtime.name;
      ++pairs, lower += after < before ? 1 : 0;
    }
  std::printf("floors: %d pairs, %d lower\n", pairs, lower);
  EXPECT_GT(lower, pairs / 4);
}

namespace {

/// What one loosening of many instances did to their answers.
struct Loosened {
  Ratios ratios;  ///< value after / value before
  int lost = 0, compared = 0;
};

void compare(const Loosening& loosening, int seed, Instance i, const PlanAnswer& before, double most_worse, Loosened& found) {
  Dice dice{seed};
  if (!loosening.apply(i, dice)) return;
  const auto after = plan(i);
  ++found.compared;
  found.lost += after.best ? 0 : 1;
  if (!after.best) return;
  const double ratio = after.best->value / before.best->value;
  found.ratios.add(ratio);
  if (after.finished) {
    EXPECT_LE(ratio, 1 + 1e-6) << loosening.what << " " << seed << ": " << spell(before) << " | " << spell(after);
  }
  if (ratio > 1 + most_worse)
    std::printf("%s %d: %.4f, %s | %s\n", loosening.what, seed, ratio, spell(before).c_str(), spell(after).c_str());
}

}  // namespace

void expect_monotone(Seeds seeds, const Range& range, double most_worse, double mostly) {
  const std::vector<Loosening> all{
      {"more devices", more_devices}, {"another type", another_type}, {"looser limits", looser_limits}, {"more memory", more_memory}};
  std::vector<Loosened> found(all.size());
  for (int seed = seeds.first; seed < seeds.last; ++seed) {
    const Instance i = random_instance(seed, range);
    const auto before = plan(i);
    if (!before.best) continue;
    for (std::size_t k = 0; k < all.size(); ++k) compare(all[k], seed, i, before, most_worse, found[k]);
  }
  for (std::size_t k = 0; k < all.size(); ++k) {
    auto& [ratios, lost, compared] = found[k];
    EXPECT_GE(ratios.share_up_to(1 + most_worse), mostly) << all[k].what;
    EXPECT_LE(lost, (1 - mostly) * compared) << all[k].what;
    std::printf("%s; worse: %.1f %%; lost: %d\n", ratios.in_words(all[k].what).c_str(), 100 * (1 - ratios.share_up_to(1 + 1e-9)), lost);
  }
}

void expect_bound_keeps_smaller_pools(Seeds seeds, const Range& range) {
  const std::vector<Loosening> all{
      {"more devices", more_devices}, {"another type", another_type}, {"more memory", more_memory}, {"faster links", faster_links}};
  int pairs = 0, finished = 0, worse = 0, lost = 0;
  double worst = 1;
  for (int seed = seeds.first; seed < seeds.last; ++seed) {
    Instance i = random_instance(seed, range);
    const Loosening& loosening = all[static_cast<std::size_t>(seed) % all.size()];
    const auto before = plan(i);
    Dice dice{seed};
    if (!before.best || !loosening.apply(i, dice)) continue;
    const auto after = plan(i);
    ++pairs, finished += after.finished ? 1 : 0, lost += after.best ? 0 : 1;
    // The smaller pool's plan is one of the larger pool's, and no slower there.
    EXPECT_LE(after.bound, before.best->value * (1 + 1e-9)) << loosening.what << " " << seed << ": " << spell(before);
    if (!after.best) std::printf("%s %d: lost %s\n", loosening.what, seed, spell(before).c_str());
    if (!after.best) continue;
    worse += after.best->value > before.best->value * (1 + 1e-6) ? 1 : 0;
    worst = std::max(worst, after.best->value / before.best->value);
    EXPECT_LE(after.best->value * (1 - after.bound_gap), before.best->value * (1 + 1e-9)) << loosening.what << " " << seed;
  }
  std::printf("%d pairs, %d of them to the end; worse, within the stated gap: %d, the worst %.4f times as long; lost: %d\n", pairs,
              finished, worse, worst, lost);
  EXPECT_GT(pairs, 0);
  EXPECT_EQ(lost, 0);
}

void expect_no_fixed_option_better(Seeds seeds, const Range& range, double most_worse, double mostly) {
  const auto options = execution_options();
  Ratios ratios;
  for (int seed = seeds.first; seed < seeds.last; ++seed) {
    Instance i = random_instance(seed, range);
    const auto open = plan(i);
    for (const FixedOption& option : options) {
      i.request.constraints = option.constraints;
      const auto fixed = plan(i);
      EXPECT_TRUE(open.best || !fixed.best) << seed << ": " << spell(fixed);
      if (!open.best || !fixed.best) continue;
      const double ratio = open.best->value / fixed.best->value;
      ratios.add(ratio);
      if (ratio > 1 + most_worse)
        std::printf("%d: %.1f %% worse than with %s: %s\n     where %s\n", seed, 100 * (ratio - 1), option.name.c_str(),
                    spell(open).c_str(), spell(fixed).c_str());
    }
  }
  std::printf("%s\n", ratios.in_words("open / one option fixed").c_str());
  EXPECT_GE(ratios.share_up_to(1 + most_worse), mostly);
}

}  // namespace flotilla::fixture
