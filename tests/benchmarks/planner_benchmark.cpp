// The planner over pools against what others published, against the clock, and against growth. Prints tables for people; --quick
// checks on small pools what no clock decides, and exits with 1 where that does not hold.
//
//   planner_benchmark [--quick] [published] [speed] [growth]      all three unless some are named
//   planner_benchmark speed --once "3 types x 32, program"         one pool under one cost model, once: for a profiler
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "flotilla/base/text.hpp"
#include "flotilla/cluster/catalogue.hpp"
#include "flotilla/files/catalogue_file.hpp"
#include "flotilla/files/sailor.hpp"
#include "planner/cost_model.hpp"
#include "planner/judge.hpp"
#include "planner/published_pools.hpp"
#include "planner/speed_cases.hpp"
#include "support/published_data.hpp"

namespace {

using namespace flotilla;
using namespace flotilla::benchmarks;

bool has_published_data() { return std::filesystem::exists(tests::published_data("sailor/published_plans.json")); }

/// Published measurements where they are here, and the catalogue for the types that the cases take.
files::Library library_for(const std::vector<SpeedCase>& cases) {
  files::Library library;
  if (has_published_data()) library = files::read_sailor_profiles(tests::published_data("sailor")).library;
  std::set<std::string> types;
  for (const auto& type : library.profile.device_types) types.insert(type.name);
  for (const auto& one : cases)
    for (const auto& entry : one.request.pool) types.insert(entry.device_type);
  library.profile = cluster::complete_from_catalogue(std::move(library.profile), files::built_in_catalogue(), {types.begin(), types.end()});
  return library;
}

std::string goal_of(const search::Objective& o) {
  std::string words = o.goal == search::Goal::cost ? "USD" : "s";
  if (o.limits.iterations_per_second) words += text(", >= ", *o.limits.iterations_per_second, "/s");
  if (o.limits.usd_per_iteration) words += text(", <= ", *o.limits.usd_per_iteration, " USD");
  return words;
}

std::string number(double value, const char* format) {
  char out[40];
  std::snprintf(out, sizeof out, format, value);
  return out;
}

/// The best of those that can be run and keep to the pool.
const ListedPlan* best_listed(const PublishedPool& pool) {
  const ListedPlan* best = nullptr;
  for (const auto& plan : pool.plans)
    if (plan.runnable && (!best || plan.value < best->value)) best = &plan;
  return best;
}

search::PlanRequest restricted(search::PlanRequest request) {
  request.restrictions.one_microbatch_size = request.restrictions.equal_replicas = true;
  return request;
}

/// (a) Under the artifact's rules and in its space.
void print_by_rules(const std::vector<PublishedPool>& pools, const cluster::Profile& library, const Effort& effort) {
  std::printf(
      "\nPublished pools by the artifact's formulas, one microbatch size, equal replicas. listed: the best published plan by them\n");
  std::printf("%-42s %-14s %9s %-18s %9s %7s %7s %9s %9s\n", "pool", "goal", "listed", "by", "ours", "ratio", "gap", "CPU ms", "peak MiB");
  for (const auto& pool : pools) {
    const auto* listed = best_listed(pool);
    if (!listed) continue;
    const auto evaluation = try_out(by_rules(), restricted(pool.request), library, effort);
    std::printf("%-42s %-14s %9.4f %-18.18s", pool.name.c_str(), goal_of(pool.request.objective).c_str(), listed->value,
                listed->planner.c_str());
    if (const auto& best = evaluation.answer.best)
      std::printf(" %9.4f %7.4f %6.2f%% %9.1f %9.0f%s\n", best->value, best->value / listed->value, 100 * evaluation.answer.bound_gap,
                  evaluation.cpu_ms, evaluation.peak_mib,
                  evaluation.answer.finished ? ""
                  : evaluation.stopped       ? "  (stopped)"
                                             : "  (not finished)");
    else
      std::printf(" %s\n", (evaluation.refusal.empty() ? evaluation.answer.no_plan_reason : evaluation.refusal).c_str());
    for (const auto& plan : pool.plans)
      if (!plan.runnable)
        std::printf("  %s's %.4f is left out: it takes more devices of a zone than there are\n", plan.planner.c_str(), plan.value);
  }
}

/// The listed plans of a pool as we forecast them.
struct Field {
  const ListedPlan* best = nullptr;  ///< of those that fit, keep to the limits and can be executed
  double value = 0;                  ///< of the best
  std::string left_out;              ///< who was not counted, and why
};

Field forecast_listed(const PublishedPool& pool, const cluster::Profile& library, const program::Runtime& runtime) {
  Field field;
  const auto leave_out = [&](const ListedPlan& plan, const std::string& why) {
    field.left_out += text(field.left_out.empty() ? "" : "; ", plan.planner, " ", why);
  };
  const auto& objective = pool.request.objective;
  for (const auto& plan : pool.plans) {
    const auto judged = judge(plan.plan, library, runtime);
    const auto value = value_of(objective, judged.iteration, judged.usd);
    if (!plan.runnable)
      leave_out(plan, "takes more than there is");
    else if (!judged.refusal.empty() || !value)
      leave_out(plan, "is not executed");
    else if (!judged.fits())
      leave_out(plan, text("needs ", to_string(judged.needed), " of ", to_string(judged.limit)));
    else if (!keeps(objective.limits, judged.iteration, judged.usd))
      leave_out(plan, "breaks a limit");
    else if (!field.best || *value < field.value)
      field.best = &plan, field.value = *value;
  }
  return field;
}

struct GeometricMean {
  double sum_of_logs = 0;
  int count = 0;
  void add(double ratio) { sum_of_logs += std::log(ratio), ++count; }
  double value() const { return std::exp(sum_of_logs / std::max(1, count)); }
};

/// (b) Under our own forecast of a runtime, nothing restricted.
void print_by_program(const std::vector<PublishedPool>& pools, const cluster::Profile& library, const std::string& runtime,
                      const Effort& effort) {
  std::printf("\nPublished pools by our forecast of runtime %s, nothing restricted. listed: the best published plan by that forecast\n",
              runtime.c_str());
  std::printf("%-42s %-14s %9s %-18s %9s %12s %7s %9s %9s\n", "pool", "goal", "listed", "by", "ours", "listed/ours", "gap", "CPU ms",
              "peak MiB");
  GeometricMean types, zones, all;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& pool : pools) {
    const auto field = forecast_listed(pool, library, program::runtime_named(runtime));
    const auto evaluation = try_out(by_program(runtime), pool.request, library, effort);
    const auto& best = evaluation.answer.best;
    const double ratio = field.best && best ? field.value / best->value : 0;
    std::printf("%-42s %-14s %9s %-18.18s", pool.name.c_str(), goal_of(pool.request.objective).c_str(),
                field.best ? number(field.value, "%.4f").c_str() : "-", field.best ? field.best->planner.c_str() : "-");
    if (best)
      std::printf(" %9.4f %12s %6.2f%% %9.1f %9.0f%s\n", best->value, ratio > 0 ? number(ratio, "%.4f").c_str() : "-",
                  100 * evaluation.answer.bound_gap, evaluation.cpu_ms, evaluation.peak_mib, evaluation.stopped ? "  (stopped)" : "");
    else
      std::printf(" %s\n", (evaluation.refusal.empty() ? evaluation.answer.no_plan_reason : evaluation.refusal).c_str());
    if (!field.left_out.empty()) std::printf("  left out: %s\n", field.left_out.c_str());
    if (ratio <= 0) continue;
    least = std::min(least, ratio);
    all.add(ratio);
    if (pool.has_types())
      types.add(ratio);
    else if (pool.is_mixed())
      zones.add(ratio);
  }
  std::printf(
      "geometric mean of listed/ours: %.3f over %d pools of several types, %.3f over %d of one type in several zones, %.3f over all %d; "
      "the least is %.4f\n",
      types.value(), types.count, zones.value(), zones.count, all.value(), all.count, least);
}

void print_published(const Effort& effort) {
  if (!has_published_data()) {
    std::printf("\nPublished pools are skipped: %s is absent; FLOTILLA_REFERENCE names another folder\n",
                tests::published_data("sailor/published_plans.json").c_str());
    return;
  }
  const auto library = library_for({});
  const auto pools = published_pools(library);
  print_by_rules(pools, library.profile, effort);
  for (const char* runtime : {"flotilla", "megatron-deepspeed"}) print_by_program(pools, library.profile, runtime, effort);
}

/// One row for each cost model that knows the case.
void print_row(const SpeedCase& one, const CostModel& cost, const Evaluation& t) {
  std::printf("%-40s %-10s %10s ", one.what.c_str(), cost.name.c_str(), one.aim_ms > 0 ? number(one.aim_ms, "%.0f").c_str() : "");
  if (!t.refusal.empty() || !t.answer.best) {
    std::printf("%s\n", (t.refusal.empty() ? t.answer.no_plan_reason : t.refusal).substr(0, 90).c_str());
    return;
  }
  std::printf("%10.2f %9.0f %11lld %7.2f%% %9.4f s%s\n", t.cpu_ms, t.peak_mib, static_cast<long long>(t.answer.considered),
              100 * t.answer.bound_gap, t.answer.best->iteration.value,
              t.stopped           ? "  (stopped)"
              : t.answer.finished ? ""
                                  : "  (not finished)");
}

std::vector<CostModel> models_for(const SpeedCase& one) {
  std::vector<CostModel> models;
  if (one.is_published) models.push_back(by_rules());
  models.push_back(by_program());
  return models;
}

/// (c) The planner's aims.
/// "3 types x 32, program".
bool is_asked_for(const SpeedCase& one, const CostModel& cost, const std::string& only) {
  return only.empty() || only == text(one.what, ", ", cost.name);
}

void print_speed(const Effort& effort, const std::string& only) {
  const auto cases = aims(has_published_data() ? library_for({}) : files::Library{});
  const auto library = library_for(cases);
  std::printf("\nSpeed, one thread: median CPU ms of up to %d runs; resident memory of the process, data and all\n", effort.runs);
  std::printf("%-40s %-10s %10s %10s %9s %11s %8s %11s\n", "pool", "cost model", "at most", "CPU ms", "peak MiB", "considered", "gap",
              "iteration");
  for (const auto& one : cases)
    for (const auto& cost : models_for(one))
      if (is_asked_for(one, cost, only)) print_row(one, cost, try_out(cost, one.request, library.profile, effort));
}

/// A bar on a logarithmic scale: ten signs a factor of ten, from 0.1 ms on.
std::string bar(double milliseconds) {
  constexpr double least = 0.1, signs_a_decade = 10;
  return std::string(static_cast<std::size_t>(std::max(0.0, signs_a_decade * std::log10(std::max(milliseconds, least) / least))), '#');
}

/// (d) What grows with what.
void print_growth(const Effort& effort) {
  const auto all = growth(has_published_data() ? library_for({}) : files::Library{});
  std::vector<SpeedCase> cases;
  for (const auto& series : all) cases.insert(cases.end(), series.cases.begin(), series.cases.end());
  const auto library = library_for(cases);
  std::printf("\nGrowth of CPU ms; bars: ten signs a factor of ten, from 0.1 ms on\n");
  for (const auto& series : all) {
    std::printf("\n%s\n%-16s %-10s %10s %8s\n", series.title.c_str(), "", "cost model", "CPU ms", "gap");
    for (const auto& cost : models_for(series.cases.front()))
      for (const auto& one : series.cases) {
        const auto t = try_out(cost, one.request, library.profile, effort);
        std::printf("%-16s %-10s %10.2f %7.2f%% |%s%s\n", one.what.c_str(), cost.name.c_str(), t.cpu_ms, 100 * t.answer.bound_gap,
                    bar(t.cpu_ms).c_str(), t.answer.best ? "" : " no plan");
      }
  }
}

/// What holds of every answer, on small pools; returns how much does not.
int check_small_cases() {
  const auto library = made_up_library();
  int wrong = 0, answers = 0;
  for (const auto& one : small_cases())
    for (const auto& cost : models_for(one)) {
      const auto evaluation = try_out(cost, one.request, library, {.runs = 1, .is_checked = true});
      for (const auto& what : evaluation.wrong)
        std::printf("%s, %s: it does not hold that %s\n", one.what.c_str(), cost.name.c_str(), what.c_str());
      if (!evaluation.answer.best)
        std::printf("%s, %s: %s%s\n", one.what.c_str(), cost.name.c_str(), evaluation.refusal.c_str(),
                    evaluation.answer.no_plan_reason.c_str());
      wrong += static_cast<int>(evaluation.wrong.size()) + (evaluation.answer.best ? 0 : 1);
      ++answers;
    }
  std::printf("%d answers on small pools, %d things wrong\n", answers, wrong);
  return wrong;
}

/// Whether the answer survives the way to the artifact's format and back, to the time that it was planned with.
bool can_be_judged_elsewhere(const search::RankedPlan& answer, const cluster::Profile& library) {
  const auto text = files::sailor_plan_to_json(answer.plan, "the answer");
  const auto back = files::sailor_plan_from_json(files::Json::parse(text, "the answer"), answer.plan.model, std::nullopt);
  return std::abs(by_rules().iteration(back, library).value - answer.iteration.value) <= 1e-6 * answer.iteration.value;
}

/// A listed plan lies in the space that the bound is of. Two published pools that take moments.
int check_published() {
  if (!has_published_data()) return 0;
  const auto library = library_for({});
  int wrong = 0, pools = 0;
  for (const auto& pool : published_pools(library)) {
    if (pool.is_mixed() || pools == 2) continue;
    const auto evaluation = try_out(by_rules(), restricted(pool.request), library.profile, {.runs = 1, .is_checked = true});
    for (const auto& what : evaluation.wrong) std::printf("%s: it does not hold that %s\n", pool.name.c_str(), what.c_str());
    constexpr double rounded = 1e-4;  // the listed figures are
    const auto* listed = best_listed(pool);
    const bool holds = evaluation.answer.best &&
                       (!listed || listed->value * (1 + rounded) >= evaluation.answer.best->value * (1 - evaluation.answer.bound_gap));
    if (!holds) std::printf("%s: a listed plan is below the bound\n", pool.name.c_str());
    const bool judged = evaluation.answer.best && can_be_judged_elsewhere(*evaluation.answer.best, library.profile);
    if (!judged) std::printf("%s: the answer changes on its way through the artifact's format\n", pool.name.c_str());
    wrong += static_cast<int>(evaluation.wrong.size()) + (holds ? 0 : 1) + (judged ? 0 : 1);
    ++pools;
  }
  std::printf("%d published pools, %d things wrong\n", pools, wrong);
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool quick = std::erase(words, "--quick") > 0;
  const auto once = std::ranges::find(words, "--once");
  const std::string only = once != words.end() && once + 1 != words.end() ? *(once + 1) : "";
  Effort effort;
  constexpr double an_hour = 3600;  // under a profiler the usual limit ends long searches
  if (!only.empty()) effort.runs = 1, effort.limit_s = an_hour, words.erase(once, once + 2);
  for (const auto& token_embedding : words)
    if (token_embedding != "published" && token_embedding != "speed" && token_embedding != "growth") {
      std::fprintf(stderr, "planner_benchmark takes --quick, --once, published, speed and growth, not '%s'\n", token_embedding.c_str());
      return 64;
    }
  if (quick) return check_small_cases() + check_published() == 0 ? 0 : 1;
  const auto wanted = [&](const char* token_embedding) {
    return words.empty() || std::ranges::find(words, token_embedding) != words.end();
  };
  if (wanted("published")) print_published(effort);
  if (wanted("speed")) print_speed(effort, only);
  if (wanted("growth")) print_growth(effort);
  return 0;
}
