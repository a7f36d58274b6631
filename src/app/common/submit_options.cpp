#include "app/common/submit_options.hpp"

#include "app/common/job_table.hpp"
#include "app/common/refuse.hpp"
#include "flotilla/base/error.hpp"

namespace flotilla::app {
namespace {

options::Choice<std::string> one_of(std::vector<std::string> names) {
  return {std::move(names), [](const std::string& name) { return name; }, [](const std::string& name) { return name; }};
}

void add_slurm_cluster(options::Table& t, SubmitSettings& s) {
  t.add("submit.dry-run", &s.dry_run, "show plan, price and script; submit nothing", {.alias = "dry-run"});
  t.add("submit.wait", &s.wait,
        "plan over all working nodes, including busy ones, and wait for them; default: only nodes that are free now");
  t.add("submit.resize", &s.resize,
        "shrink the pending components of this job that can no longer be satisfied, instead of submitting a job",
        {.value = "JOBID", .unset = "none", .alias = "resize"});
  t.add("submit.partitions", &s.partitions, "use only these; a node in several partitions is requested from the one named first",
        {.value = "NAME", .unset = "all that accept the job, cheapest first", .example = "gpu"});
  t.add("submit.device-types", &s.device_types,
        "device types behind the site's names: GRES=TYPE, feature:NAME=TYPE, partition:NAME=TYPE, such as gpu:a100=A100-80",
        {.value = "NAME=TYPE", .unset = "looked up in the hardware catalogue", .example = "gpu:a100=A100-80"});
  t.add("submit.answers", &s.answers,
        "read the site's answers recorded in this directory by --submit.record; nothing can be submitted then",
        {.value = "DIRECTORY", .unset = "ask sinfo and scontrol"});
  t.add("submit.record", &s.record, "record the site's answers in this directory", {.value = "DIRECTORY", .unset = "none"});
}

void add_request(options::Table& t, SubmitSettings& s) {
  t.add("submit.time", &s.time, "time limit of the job", {.unset = "the partition's", .example = "4h"});
  t.add("submit.memory", &s.memory, "memory requested per node", {.unset = "the site's default", .example = "256GiB"});
  t.add("submit.cpus-per-task", &s.cpus_per_task, "CPUs requested per device",
        {.minimum = 0, .maximum = 4096, .unset = "the device's part of the node's CPUs"});
  t.add("submit.fixed-nodes", &s.fixed_nodes,
        "request exactly the nodes of the plan, not a range down to the fewest that still fit the model");
  t.add("submit.account", &s.account, "account to bill", {.value = "NAME", .unset = "the site's default"});
  t.add("submit.qos", &s.qos, "quality of service", {.value = "NAME", .unset = "the site's default"});
}

void add_script(options::Table& t, SubmitSettings& s) {
  t.add("submit.script", &s.script, "write the script to this file",
        {.value = "FILE", .unset = "submit.sh in the run directory; with --dry-run standard output"});
  t.add("submit.modules", &s.modules, "modules to load in the job; PARTITION:NAME on the nodes of that partition only",
        {.value = "[PARTITION:]NAME", .unset = "none", .example = "flotilla"});
  t.add("submit.log", &s.log, "output file of the job; %j is the job ID", {.value = "FILE"});
  t.add("submit.library", &s.library, "the shell library that scripts share (flotilla.sh)",
        {.value = "FILE", .unset = "the one installed with this program"});
  t.add("submit.signal", &s.signal, "signal that makes the ranks save and stop; NCCL may use USR1 itself",
        one_of({"USR2", "USR1", "TERM"}));
  t.add("submit.on-no-plan", &s.on_no_plan, "action if the remaining nodes cannot hold the model; wait: held in the queue",
        one_of({"stop", "requeue", "wait"}));
  t.add("submit.warning", &s.warning, "time before the time limit at which the job is warned", {.minimum = 1, .maximum = 65535});
  t.add("submit.requeues", &s.requeues, "maximum number of requeues", {.minimum = 0, .maximum = 1'000'000});
}

}  // namespace

void add_submit(options::Table& t, SubmitSettings& s) {
  t.section("submit", "Slurm site and batch script");
  add_slurm_cluster(t, s);
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
    o.steps = o.planning.steps;
  }
  const auto& s = o.submit;
  if (s.resize.empty() || !o.job_file.empty()) require_batch(o.planning);  // a job that shrinks is not planned anew
  FLOTILLA_REQUIRE(s.dry_run || s.answers.empty() || !s.resize.empty(), ErrorKind::usage,
                   "--submit.answers is a site that is not here: nothing can be sent to it; add --dry-run");
  FLOTILLA_REQUIRE(s.dry_run || !o.job_file.empty() || !s.resize.empty(), ErrorKind::usage,
                   "expected the job file that the job will read: flotilla submit JOB");
  return o;
}

}  // namespace flotilla::app
