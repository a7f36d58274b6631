#include "app/common/planning_options.hpp"

#include <algorithm>

#include "app/common/job_table.hpp"
#include "app/common/refuse.hpp"
#include "app/common/submit_options.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"

namespace flotilla::app {
namespace {

using options::Table;

/// Of a choice that may be left open.
options::Choice<std::optional<search::Goal>> goals(std::vector<std::string> names) {
  using Value = std::optional<search::Goal>;
  return {std::move(names), [](const std::string& name) { return Value{search::parse_goal(name)}; },
          [](const Value& goal) { return goal ? search::to_string(*goal) : ""; }};
}

std::string listed(const std::vector<std::string>& names) {
  std::string words;
  for (const auto& name : names) words += (words.empty() ? "" : ", ") + name;
  return words;
}

void add_model(Table& t, PlanningOptions& o) {
  t.section("model", "The transformer");
  t.add("model.name", &o.model.name, "a model of the library, or a built-in one", {.value = "NAME", .unset = "the library's only model"});
  t.add("model.config", &o.model.config, "a Hugging Face config.json of a family that Flotilla trains, instead of a name",
        {.value = "FILE", .unset = "none"});
  t.section("training", "The training run");
  t.add("training.global-batch", &o.global_batch, "global batch size in sequences per iteration",
        {.minimum = 1, .maximum = 1 << 24, .unset = "must be given", .example = "1024"});
  t.add("training.length", &o.length, "sequence length in tokens", {.minimum = 0, .maximum = 1 << 24, .unset = "the model's positions"});
  t.add("training.steps", &o.steps, "iterations of the run, for its totals and limits",
        {.minimum = 0, .unset = "not told", .example = "10000"});
  t.add("training.tokens", &o.tokens, "training tokens of the whole run, such as 300B; instead of training.steps",
        {.value = "N[M|B|T]", .unset = "not told", .example = "300B", .alias = "tokens"});
  t.add("training.precision", &o.precision,
        "GEMM precision; master weights and accumulation stay fp32; auto: what the devices are made for, which is bf16 or fp16 on GPUs "
        "with units for it, fp32 on others and on CPUs; both where types differ, and the better plan counts",
        open_precisions());
  t.section("data", "Token files");
  add_documents(t, o.basis.separate_documents);
}

void add_plan(Table& t, PlanningOptions& o) {
  t.section("plan", "Device pool, and the data behind the forecast");
  t.add("plan.pool", &o.pool, "available devices: COUNT of a type in a zone, NODE of them per node, such as A100-40@us-central1-a=32/4",
        {.value = "TYPE[@ZONE]=COUNT[/NODE]",
         .unset = "the devices of the profile",
         .example = "A100-40@us-central1-a=32/4",
         .alias = "pool"});
  add_forecast_basis(t, "plan", o.basis);
  t.add("plan.restrict", &o.restrict,
        "restrictions on the plan, for runtimes that do not support everything: " + listed(search::restriction_names()),
        {.value = "NAME,...", .unset = "nothing", .example = "equal-replicas", .alias = "restrict"});
  add_constraints(t, o.fixed);
  t.add("plan.write", &o.write_plan, "write the plan alone to this file, for flotilla simulate and flotilla train --plan",
        {.value = "FILE", .unset = "none", .alias = "write-plan"});
  t.add("plan.page", &o.page, "write a page with pictures: the plan, its iteration, time and memory, alternatives",
        {.value = "FILE", .unset = "none", .alias = "html"});
}

void add_objective(Table& t, PlanningOptions& o) {
  t.section("objective", "Optimization objective; ties go to fewer devices");
  t.add("objective.maximise", &o.maximise, "quantity to maximise", goals({"throughput"}), {.unset = "throughput"});
  t.add("objective.minimise", &o.minimise, "quantity per iteration to minimise", goals({"cost", "billing", "energy"}),
        {.unset = "nothing"});
  t.add("objective.confidence", &o.confidence,
        "choose by the upper end of the interval that holds the iteration with this probability, among plans that fit with 99 %",
        {.below = 1, .unset = "choose by the forecast", .example = "90%"});
  t.section("limit", "Constraints on the plan");
  t.add("limit.run-time", &o.limit.run_time, "maximum time of the whole run, of training.tokens or training.steps",
        {.unset = "none", .example = "20h"});
  t.add("limit.run-cost", &o.limit.run_cost, "maximum cost of the whole run, devices and egress",
        {.above = 0, .unset = "none", .example = "1500usd"});
  t.add("limit.iteration-cost", &o.limit.iteration_cost, "maximum cost of an iteration, devices and egress",
        {.above = 0, .unset = "none", .example = "1.2usd"});
  t.add("limit.hourly-cost", &o.limit.hourly_cost, "maximum cost of an hour of the devices",
        {.above = 0, .unset = "none", .example = "300usd"});
  t.add("limit.iterations-per-second", &o.limit.iterations_per_second, "minimum iterations per second",
        {.above = 0, .unset = "none", .example = "0.2"});
  t.add("limit.devices", &o.limit.devices, "maximum number of devices", {.minimum = 1, .unset = "the pool's", .example = "64"});
}

void add_search(Table& t, PlanningOptions& o) {
  t.section("search", "The search");
  t.add("search.time-limit", &o.time_limit, "stop all searches of the command after this time with the best plan so far",
        {.above = 0, .unset = "none", .example = "10s"});
  t.add("search.alternatives", &o.alternatives, "number of runner-up plans to report", {.minimum = 0, .maximum = 100});
  t.add("search.tolerance", &o.tolerance, "stop once no plan can be better by more", {.below = 1, .example = "1%"});
  t.add("search.explain", &o.explain,
        "say why devices stay idle and what one more node would bring, by planning again for each type and zone", {.alias = "explain"});
  t.add("search.pareto", &o.pareto,
        "show time against cost: the plans of which none is both faster and cheaper than another, by planning again", {.alias = "pareto"});
  t.add("search.certificate", &o.certificate, "write the proof of the lower bound to this file, for others to check",
        {.value = "FILE", .unset = "none", .alias = "certificate"});
  t.section("replan", "Replanning after the pool has changed");
  t.add("replan.from", &o.previous, "the running plan: where the search starts", {.value = "FILE", .unset = "none"});
  t.add("replan.within", &o.within, "among the plans at most this much worse than the best, choose the one that moves the fewest bytes",
        {.below = 1, .example = "5%"});
}

bool given(const options::Setting& s) { return s.origin != options::Origin::standard; }

}  // namespace

const options::Setting& PlanningOptions::setting(const std::string& name) const {
  const auto found = std::ranges::find(settings, name, &options::Setting::name);
  FLOTILLA_ASSERT(found != settings.end(), name);
  return *found;
}

Table planning_table(PlanningOptions& o) {
  Table t;
  add_model(t, o);
  add_plan(t, o);
  add_objective(t, o);
  add_search(t, o);
  add_output(t, o.output);
  return t;
}

BoundTable planning_options() {
  auto options = std::make_shared<PlanningOptions>();
  auto table = planning_table(*options);
  return {options, std::move(table)};
}

std::vector<std::string> read_planning(options::Table& table, PlanningOptions& o, std::span<const std::string> arguments,
                                       std::span<const std::string> environment) {
  Job job;
  SubmitSettings submit;
  Table others = job_table(job);
  add_submit(others, submit);
  table.pass_over(others);
  auto operands = table.read_command_line(arguments);
  FLOTILLA_REQUIRE(operands.size() <= 1, ErrorKind::usage, "expected one job file at most, got ", operands.size(), " operands (",
                   in_quotes(operands.front()), ", ", in_quotes(operands.back()), ")");
  table.read_environment(environment);
  if (!operands.empty()) table.read_file(operands[0]);
  if (!config_counts(table)) o.model.config.clear();
  log::set_level(o.output.log_level);
  if (!operands.empty()) {
    if (o.model.name.empty() && o.model.config.empty())
      (job.weights.empty() ? o.model.name : o.model.config) = job.weights.empty() ? job.model.name : config_of_weights(job);
    if (o.global_batch == 0) o.global_batch = job.training.global_batch;
    if (o.steps == 0) o.steps = job.training.steps;
  }
  o.settings = table.settings();
  note_origins(table, "plan", o.basis);
  if (o.previous.empty() && o.setting("replan.within").origin == options::Origin::command_line)
    log::warning("--replan.within ", o.setting("replan.within").value,
                 " applies to replanning only; name the running plan: --replan.from PLAN");
  return operands;
}

void require_batch(const PlanningOptions& o) {
  FLOTILLA_REQUIRE(o.global_batch > 0, ErrorKind::usage,
                   "the sequences of an iteration are not given; write for example --training.global-batch 1024");
}

PlanningOptions read_planning_options(std::span<const std::string> arguments, std::span<const std::string> environment) {
  PlanningOptions o;
  auto table = planning_table(o);
  read_planning(table, o, arguments, environment);
  require_batch(o);
  return o;
}

search::Constraints constraints_of(const PlanningOptions& o) {
  const auto refuse_option = [&](const std::string& name, const std::string& why) { refuse(o.setting(name), o.setting(name).value, why); };
  const auto& fixed = o.fixed;
  if (fixed.chunks > 1 && fixed.schedule && *fixed.schedule != plan::ScheduleKind::interleaved)
    refuse_option("plan.chunks",
                  text("several stages per device need --plan.schedule interleaved; write it, or leave --plan.schedule out"));
  auto constraints = constraints_of(fixed);
  if (!o.basis.sailor_artifact) return constraints;
  const char* only = "the cost model sailor-artifact supports 1f1b only; drop this option or --cost-model";
  if (fixed.schedule && *fixed.schedule != plan::ScheduleKind::one_f_one_b) refuse_option("plan.schedule", only);
  if (fixed.chunks > 1) refuse_option("plan.chunks", only);
  if (fixed.sequence_parallel.value_or(false)) refuse_option("plan.sequence-parallel", only);
  if (fixed.shard_optimizer.value_or(false)) refuse_option("plan.shard-optimizer", only);
  const char* nothing =
      "the search by the formulas of sailor-artifact fixes no degrees, cuts or microbatches; drop this option or --cost-model";
  const std::pair<const char*, bool> others[] = {
      {"plan.data", fixed.data > 0},
      {"plan.pipeline", fixed.pipeline > 0},
      {"plan.tensor", fixed.tensor > 0},
      {"plan.microbatch", fixed.microbatch > 0},
      {"plan.recompute", fixed.recompute.value_or(plan::Recompute::none) != plan::Recompute::none},
      {"plan.cuts", !fixed.cuts.empty()}};
  for (const auto& [name, given] : others)
    if (given) refuse_option(name, nothing);
  return constraints;
}

namespace {

/// A run's limits are its iterations', so many of them.
void limit_run(search::Limits& limits, const PlanningOptions& o, std::int64_t iterations) {
  for (const char* name : {"limit.run-time", "limit.run-cost"})
    if (iterations == 0 && given(o.setting(name)))
      refuse(o.setting(name), o.setting(name).value, "how long is the run? write --training.tokens 15B, or --training.steps N, too");
  const auto count = static_cast<double>(iterations);
  if (o.limit.run_time.value > 0)
    limits.iterations_per_second = std::max(limits.iterations_per_second.value_or(0), count / o.limit.run_time.value);
  if (o.limit.run_cost) {
    const double each = o.limit.run_cost->value / count;
    limits.usd_per_iteration = std::min(limits.usd_per_iteration.value_or(each), each);
  }
}

}  // namespace

search::Objective objective_of(const PlanningOptions& o, std::int64_t iterations) {
  const auto &maximise = o.setting("objective.maximise"), &minimise = o.setting("objective.minimise");
  if (given(minimise) && minimise.origin == maximise.origin)
    refuse(minimise, minimise.value,
           text("conflicts with ", maximise.name, " ", maximise.value,
                "; keep one, and bound the other by a limit (limit.run-cost, limit.run-time)"));
  search::Objective objective;
  objective.confidence = o.confidence.value;
  objective.goal = minimise.origin > maximise.origin ? *o.minimise : search::Goal::throughput;
  const auto value = [](const std::optional<UsDollars>& usd) { return usd ? std::optional{usd->value} : std::nullopt; };
  objective.limits = {value(o.limit.iteration_cost), value(o.limit.hourly_cost), o.limit.iterations_per_second,
                      o.limit.devices > 0 ? std::optional{o.limit.devices} : std::nullopt};
  limit_run(objective.limits, o, iterations);
  return objective;
}

}  // namespace flotilla::app
