#include "cost_model.hpp"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>

#include "flotilla/base/error.hpp"
#include "flotilla/sailor/artifact.hpp"
#include "judge.hpp"
#include "published_pools.hpp"

namespace flotilla::benchmarks {
namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Linux starts counting the most resident memory again; where it does not, the count is that of the whole process so far.
void forget_peak() {
  malloc_trim(0);
  std::ofstream{"/proc/self/clear_refs"} << "5";
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;  // KiB
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// What planner.hpp promises of any answer.
void check(const CostModel& cost, const search::PlanRequest& r, const cluster::Profile& library, Evaluation& evaluation) {
  const auto expect = [&](bool good, const char* what) {
    if (!good) evaluation.wrong.emplace_back(what);
  };
  const auto& a = evaluation.answer;
  expect(a.bound_gap >= 0 && a.bound_gap <= 1, "the gap lies between 0 and 1");
  expect(a.best || !a.no_plan_reason.empty() || evaluation.stopped, "a missing plan has its reason");
  if (!a.best) return;
  const auto& best = *a.best;
  expect(a.considered >= 1, "a plan was worked out");
  expect(plan::validate(best.plan).empty(), "the plan is valid");
  expect(best.plan.global_batch == r.global_batch && best.plan.model == r.model, "the plan is for the job");
  expect(lies_within(best.plan, r.pool), "the plan stays inside the pool");
  expect(keeps(r.objective.limits, best.iteration, best.usd), "the plan keeps to the limits");
  const auto afresh = cost.iteration(best.plan, library);
  expect(std::abs(afresh.value - best.iteration.value) <= 1e-6 * afresh.value, "the plan's time is the cost model's");
  for (const auto& other : a.alternatives) expect(other.value >= best.value * (1 - 1e-9), "no alternative is better");
}

}  // namespace

CostModel by_rules() {
  return {"rules", [](const auto& request, const auto& library) { return search::plan(request, sailor::SailorArtifact{library}); },
          [](const plan::Plan& plan, const cluster::Profile& library) { return sailor::SailorArtifact{library}.forecast(plan).iteration; }};
}

CostModel by_program(const std::string& runtime_name) {
  const auto runtime = program::runtime_named(runtime_name);
  const auto plan = [runtime](search::PlanRequest request, const cluster::Profile& library) {
    request.process_memory = process_memory;
    return search::plan(request, simulate::ProgramForecaster{library, runtime, {}});
  };
  const auto iteration = [runtime](const plan::Plan& of, const cluster::Profile& library) {
    const auto judgement = judge(of, library, runtime);
    FLOTILLA_REQUIRE(judgement.refusal.empty() && judgement.fits(), ErrorKind::internal, "the answer's plan ",
                     judgement.refusal.empty() ? "does not fit" : judgement.refusal);
    return judgement.iteration;
  };
  return {runtime_name == "flotilla" ? "program" : runtime_name, plan, iteration};
}

Evaluation try_out(const CostModel& cost, search::PlanRequest request, const cluster::Profile& library, const Effort& effort) {
  Evaluation evaluation;
  std::vector<double> times;
  forget_peak();
  for (int run = 0; run < effort.runs; ++run) {
    const double start = cpu_seconds();
    request.should_stop = [&] { return evaluation.stopped = cpu_seconds() - start > effort.limit_s; };
    try {
      evaluation.answer = cost.plan(request, library);
    } catch (const Error& error) {
      evaluation.refusal = error.what();
      return evaluation;
    }
    times.push_back(1e3 * (cpu_seconds() - start));
    if (cpu_seconds() - start > effort.limit_s / 5) break;
  }
  evaluation.cpu_ms = median(std::move(times));
  evaluation.peak_mib = peak_mib();
  if (effort.is_checked) check(cost, request, library, evaluation);
  return evaluation;
}

}  // namespace flotilla::benchmarks
