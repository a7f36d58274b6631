#include "app/common/submit_options.hpp"

#include "app/common/job_table.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::app {
namespace {

options::Choice<std::string> one_of(std::vector<std::string> names) {
  return {std::move(names), [](const std::string& name) { return name; }, [](const std::string& name) { return name; }};
}

void add_site(options::Table& t, SubmitSettings& s) {
  t.add("submit.dry-run", &s.dry_run, "show plan, price and script; send nothing", {.alias = "dry-run"});
  t.add("submit.wait", &s.wait, "plan over all nodes that work, busy ones too, and wait for them, instead of what is free now");
  t.add("submit.resize", &s.resize, "make the pending components of this job smaller that can no longer be filled, instead of sending one",
        {.value = "JOBID", .unset = "none", .alias = "resize"});
  t.add("submit.partitions", &s.partitions, "use these only; a node that several have is asked of the one named first",
        {.value = "NAME", .unset = "all that are open, the cheapest first", .example = "gpu"});
  t.add("submit.device-types", &s.device_types,
        "what the site's names mean: GRES=TYPE, feature:NAME=TYPE, partition:NAME=TYPE, such as gpu:a100=A100-80",
        {.value = "NAME=TYPE", .unset = "what the hardware catalogue makes of them", .example = "gpu:a100=A100-80"});
  t.add("submit.answers", &s.answers, "read the site from answers that --submit.record left in this folder; nothing can be sent then",
        {.value = "DIRECTORY", .unset = "ask sinfo and scontrol"});
  t.add("submit.record", &s.record, "keep the site's answers in this folder", {.value = "DIRECTORY", .unset = "none"});
}

void add_request(options::Table& t, SubmitSettings& s) {
  t.add("submit.time", &s.time, "time limit of the job", {.unset = "the partition's", .example = "4h"});
  t.add("submit.memory", &s.memory, "memory asked of a node", {.unset = "the site's standard", .example = "256GiB"});
  t.add("submit.cpus-per-task", &s.cpus_per_task, "CPUs asked for a device",
        {.minimum = 0, .maximum = 4096, .unset = "its share of the node's"});
  t.add("submit.fixed-nodes", &s.fixed_nodes,
        "ask for exactly the nodes of the plan, not for a range down to the fewest that still fit it");
  t.add("submit.account", &s.account, "account to bill", {.value = "NAME", .unset = "the site's standard"});
  t.add("submit.qos", &s.qos, "quality of service", {.value = "NAME", .unset = "the site's standard"});
}

void add_script(options::Table& t, SubmitSettings& s) {
  t.add("submit.script", &s.script, "write the script to this file",
        {.value = "FILE", .unset = "submit.sh in the run directory; with --dry-run standard output"});
  t.add("submit.modules", &s.modules, "modules that the job loads; PARTITION:NAME on the nodes of that partition only",
        {.value = "[PARTITION:]NAME", .unset = "none", .example = "flotilla"});
  t.add("submit.log", &s.log, "file that the job's output goes to; %j is the job's number", {.value = "FILE"});
  t.add("submit.library", &s.library, "the shell library that scripts share (flotilla.sh)",
        {.value = "FILE", .unset = "the one installed with this program"});
  t.add("submit.signal", &s.signal, "what tells the ranks to save and stop; NCCL may use USR1 itself", one_of({"USR2", "USR1", "TERM"}));
  t.add("submit.on-no-plan", &s.on_no_plan, "what the job does when what is left of it cannot hold the model; wait: held in the queue",
        one_of({"stop", "requeue", "wait"}));
  t.add("submit.warning", &s.warning, "how long before its time limit the job is warned", {.minimum = 1, .maximum = 65535});
  t.add("submit.requeues", &s.requeues, "how often the job may be started again", {.minimum = 0, .maximum = 1'000'000});
}

/// Of a job file that was read once already.
std::int64_t steps_in(const std::string& file, std::span<const std::string> environment) {
  Job job;
  SubmitOptions others;
  auto table = job_table(job);
  const auto all = submit_table(others);
  table.pass_over(all);
  table.read_environment(environment);
  table.read_file(file);
  return job.training.steps;
}

}  // namespace

void add_submit(options::Table& t, SubmitSettings& s) {
  t.section("submit", "Reading a Slurm site and writing the job's script");
  add_site(t, s);
  add_request(t, s);
  add_script(t, s);
}

options::Table submit_table(SubmitOptions& o) {
  auto t = planning_table(o.planning);
  t.section("run", "The run");
  t.add("run.directory", &o.run_directory, "run directory of the job", {.value = "DIRECTORY"});
  add_submit(t, o.submit);
  return t;
}

BoundTable submit_options() {
  auto options = std::make_shared<SubmitOptions>();
  auto table = submit_table(*options);
  return {options, std::move(table)};
}

SubmitOptions read_submit_options(std::span<const std::string> arguments, std::span<const std::string> environment) {
  SubmitOptions o;
  auto table = submit_table(o);
  const auto operands = read_planning(table, o.planning, arguments, environment);
  if (!operands.empty()) {
    o.job_file = operands.front();
    o.steps = steps_in(o.job_file, environment);
  }
  const auto& s = o.submit;
  FLOTILLA_REQUIRE(s.dry_run || s.answers.empty() || !s.resize.empty(), ErrorKind::usage,
                   "--submit.answers is a site that is not here: nothing can be sent to it; add --dry-run");
  FLOTILLA_REQUIRE(s.dry_run || !o.job_file.empty() || !s.resize.empty(), ErrorKind::usage,
                   "expected a job file: it is what the job will read; flotilla submit JOB");
  return o;
}

}  // namespace flotilla::app
