#include "app/common/job_table.hpp"

#include <algorithm>

namespace flotilla::app {
namespace {

using options::Choice;
using options::Table;

Choice<data::Format> formats() {
  return {data::format_names(), [](const std::string& name) { return data::parse_format(name); },
          [](const data::Format& f) { return data::to_string(f); }};
}

Choice<std::optional<plan::ScheduleKind>> schedules() {
  using Value = std::optional<plan::ScheduleKind>;
  return {{"auto", "1f1b", "gpipe", "interleaved", "zero-bubble"},
          [](const std::string& name) { return name == "auto" ? Value{} : Value{plan::parse_schedule(name)}; },
          [](const Value& s) { return s ? plan::to_string(*s) : "auto"; }};
}

Choice<std::optional<bool>> perhaps() {
  using Value = std::optional<bool>;
  return {{"auto", "false", "true"},
          [](const std::string& name) { return name == "auto" ? Value{} : Value{name == "true"}; },
          [](const Value& v) { return v ? std::string{*v ? "true" : "false"} : "auto"; }};
}

Choice<std::optional<plan::Recompute>> recomputes() {
  using Value = std::optional<plan::Recompute>;
  return {{"auto", "none", "selective", "full"},
          [](const std::string& name) { return name == "auto" ? Value{} : Value{plan::parse_recompute(name)}; },
          [](const Value& r) { return r ? plan::to_string(*r) : "auto"; }};
}

Choice<Job::Replan> replans() {
  static const std::vector<std::string> names{"false", "true", "auto"};
  return {names,
          [](const std::string& name) { return static_cast<Job::Replan>(std::find(names.begin(), names.end(), name) - names.begin()); },
          [](const Job::Replan& replan) { return names.at(static_cast<std::size_t>(replan)); }};
}

Choice<bool> output_formats() {
  return {
      {"table", "json"}, [](const std::string& name) { return name == "json"; }, [](const bool& json) { return json ? "json" : "table"; }};
}

Choice<log::Level> levels() {
  static const std::vector<std::string> names{"error", "warning", "info", "debug"};
  return {names,
          [](const std::string& name) { return static_cast<log::Level>(std::find(names.begin(), names.end(), name) - names.begin()); },
          [](const log::Level& level) { return names.at(static_cast<std::size_t>(level)); }};
}

std::string known_models() {
  std::string names;
  for (const auto& name : model::built_in_names()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

void add_model(Table& t, Job::Model& m) {
  t.section("model", "The transformer");
  t.add("model.name", &m.name, "a built-in model: " + known_models(), {.value = "NAME"});
  t.add("model.config", &m.config, "a Hugging Face config.json of the GPT-2, OPT, GPT-Neo or Llama family, instead of a name",
        {.value = "FILE", .unset = "none"});
  const options::Details share{.minimum = 0, .below = 1, .unset = "the model's own", .example = "0.1"};
  t.add("model.dropout", &m.dropout, "share of values dropped after the embedding and after each sub-layer", share);
  t.add("model.attention-dropout", &m.attention_dropout, "share of attention probabilities dropped", share);
}

void add_data(Table& t, Job::Data& d) {
  t.section("data", "Token files");
  t.add("data.train", &d.train, "files to train on", {.value = "FILE", .unset = "none", .example = "text.txt"});
  t.add("data.validation", &d.validation, "files to evaluate on", {.value = "FILE", .unset = "none", .example = "held-out.txt"});
  t.add("data.validation-fraction", &d.validation_fraction,
        "share of every training file, at its end, that is held out for evaluation where data.validation is empty",
        {.minimum = 0, .below = 1});
  t.add("data.format", &d.format, "how tokens lie in the files; text: every byte is a token", formats());
}

void add_training(Table& t, Job::Training& r) {
  t.section("training", "The training run");
  t.add("training.steps", &r.steps, "iterations to run, counted from the beginning of the run", {.minimum = 1});
  t.add("training.global-batch", &r.global_batch, "sequences in an iteration, over all ranks", {.minimum = 1, .maximum = 1 << 24});
  t.add("training.length", &r.length, "tokens in a sequence", {.minimum = 0, .maximum = 1 << 24, .unset = "the model's positions"});
  t.add("training.precision", &r.precision, "what matrices are multiplied in; weights and sums stay fp32", precisions());
  t.add("training.seed", &r.seed, "of initialization, data order and dropout", {.minimum = 0});
  t.add("training.learning-rate", &r.learning_rate, "peak learning rate of AdamW, after the warm-up", {.above = 0});
  t.add("training.minimum-learning-rate", &r.minimum_learning_rate, "learning rate of the last iteration; a half cosine leads there",
        {.minimum = 0});
  t.add("training.warmup-steps", &r.warmup_steps, "iterations in which the learning rate rises from 0", {.minimum = 0, .unset = "off"});
  t.add("training.weight-decay", &r.weight_decay, "AdamW's decoupled decay, of matrices only", {.minimum = 0});
  t.add("training.beta1", &r.beta1, "AdamW's decay of the first moment", {.minimum = 0, .below = 1});
  t.add("training.beta2", &r.beta2, "AdamW's decay of the second moment", {.minimum = 0, .below = 1});
  t.add("training.epsilon", &r.epsilon, "AdamW's term in the denominator", {.above = 0});
  t.add("training.clip", &r.clip, "largest global norm of the gradient; 0: no clipping", {.minimum = 0});
  t.add("training.evaluate-every", &r.evaluate_every, "iterations between evaluations on held-out data",
        {.minimum = 0, .unset = "off", .example = "100"});
  t.add("training.evaluate-sequences", &r.evaluate_sequences, "sequences of an evaluation", {.minimum = 1});
  t.add("training.skip-non-finite", &r.skip_non_finite,
        "leave out the update of an iteration whose loss or gradient is not finite, instead of ending the run");
}

void add_plan(Table& t, Job::Plan& p) {
  t.section("plan", "How the model is split; what is not given is searched");
  t.add("plan.file", &p.file, "run this plan instead of searching for one", {.value = "FILE", .unset = "none", .alias = "plan"});
  t.add(
      "plan.replan", &p.replan,
      "true: on resume, search again instead of keeping the checkpoint's plan; auto: change plan while the run goes on, when a device or a "
      "link has become slow and the change pays",
      replans(), {.alias = "replan"});
  const options::Details degree{.minimum = 0, .unset = "choose", .example = "2"};
  t.add("plan.data", &p.data, "data-parallel degree: replicas", degree);
  t.add("plan.pipeline", &p.pipeline, "pipeline stages", degree);
  t.add("plan.tensor", &p.tensor, "tensor-parallel degree: devices that share a layer", degree);
  t.add("plan.microbatch", &p.microbatch, "sequences that a replica handles at a time", degree);
  add_manner(t, p.schedule, p.chunks, p.sequence_parallel, p.shard_optimizer);
  t.add("plan.recompute", &p.recompute, "what is computed again in the backward pass instead of kept", recomputes());
  t.add("plan.cuts", &p.cuts, "layer boundaries of all stages, from 0 to the number of layers (blocks + 2)",
        {.minimum = 0, .unset = "choose", .example = "0,4,8"});
}

void add_running(Table& t, Job& job) {
  t.section("device", "Devices");
  t.add("device.memory", &job.device.memory, "memory that one device may use",
        {.unset = "what the machine has free / ranks on it", .example = "4GiB"});
  t.section("checkpoint", "Checkpoints, in the run directory");
  t.add("checkpoint.every", &job.checkpoint.every, "iterations between checkpoints; one is saved at the end always",
        {.minimum = 0, .unset = "off", .example = "100"});
  t.add("checkpoint.every-time", &job.checkpoint.every_time, "time between checkpoints", {.unset = "off", .example = "30min"});
  t.add("checkpoint.keep", &job.checkpoint.keep, "newest checkpoints to keep; 0 keeps all", {.minimum = 0});
  t.section("run", "The run");
  t.add("run.directory", &job.run.directory, "run directory: checkpoints, metrics, profile, outcome; a run found there is resumed",
        {.value = "DIRECTORY"});
  t.add("run.log-every", &job.run.log_every, "iterations between the lines that a run prints", {.minimum = 1});
  t.add("run.threads", &job.run.threads, "compute threads of a rank", {.minimum = 0, .maximum = 4096, .unset = "its share of the CPUs"});
  t.add("run.zone", &job.run.zone, "where this rank's device stands, for plans and profiles: a partition, a cloud zone",
        {.value = "NAME", .unset = "the rank's Slurm partition"});
  t.add("run.time-limit", &job.run.time_limit, "save and end with 75 before the run has lasted this long",
        {.unset = "what Slurm says the job has left", .example = "4h"});
  t.add("run.stop-slack", &job.run.stop_slack, "time to keep in hand before the time limit, beyond the longest step and save measured");
  t.add(
      "run.grace", &job.run.grace,
      "how long a process lives after SIGTERM: a step that would not be over and saved by then is given up, and the state before it saved",
      {.above = 0});
  t.add("run.part-of-job", &job.run.part_of_job,
        "a component of a heterogeneous Slurm job may have no rank in the run; else that is refused");
}

void add_watching(Table& t, Job& job) {
  t.section("probe", "Measuring devices and links");
  t.add("probe.file", &job.probe.file, "cluster profile to reuse while it is fresh, and to write",
        {.value = "FILE", .unset = "profile.json in the run directory"});
  t.add("probe.fresh-for", &job.probe.fresh_for,
        "age up to which a profile of the same devices, software and model is reused; 0s measures always");
  t.add("probe.budget", &job.probe.budget, "time to aim for when measuring", {.above = 0});
  t.section("watch", "Lost peers");
  t.add("watch.interval", &job.watch.interval, "time between heartbeats", {.minimum = 0.01, .maximum = 3600});
  t.add("watch.deadline", &job.watch.deadline, "silence after which a rank counts as lost", {.above = 0});
  t.section("comm", "Communication");
  t.add("comm.deadline", &job.comm.deadline, "a message or collective that does not move for longer is an error", {.above = 0});
  t.section("report", "Reports");
  t.add("report.timeline", &job.report.timeline, "write when each instruction of the last iteration ran (Perfetto's JSON)",
        {.value = "FILE", .unset = "none"});
  t.add("report.prometheus", &job.report.prometheus,
        "keep the newest figures in this file, in Prometheus' text format: for node_exporter's textfile collector",
        {.value = "FILE", .unset = "none", .example = "/var/lib/node_exporter/flotilla.prom"});
}

}  // namespace

Choice<Precision> precisions() {
  return {{"fp32", "bf16"}, [](const std::string& name) { return parse_precision(name); }, [](const Precision& p) { return to_string(p); }};
}

void add_output(Table& t, Job::Output& o) {
  t.section("output", "Output");
  t.add("output.file", &o.file, "write the result to this file",
        {.value = "FILE", .unset = "standard output", .alias = "output", .letter = 'o'});
  t.add("output.format", &o.json, "for people or for programs; JSON goes to standard output alone", output_formats(), {.alias = "format"});
  t.add("output.log-level", &o.log_level, "messages on standard error", levels(), {.alias = "log-level"});
}

void add_manner(Table& t, std::optional<plan::ScheduleKind>& schedule, int& chunks, std::optional<bool>& sequence_parallel,
                std::optional<bool>& shard_optimizer) {
  t.add("plan.schedule", &schedule, "order of forward and backward passes in a pipeline", schedules());
  t.add("plan.chunks", &chunks, "stages that a device holds, one behind the other along the model; several are interleaved 1F1B",
        {.minimum = 0, .maximum = 64, .unset = "choose", .example = "2"});
  t.add("plan.sequence-parallel", &sequence_parallel, "members of a tensor-parallel group hold their part of the tokens between products",
        perhaps());
  t.add("plan.shard-optimizer", &shard_optimizer,
        "replicas share the optimizer's state out among them (ZeRO-1); auto: where nothing else fits the memory", perhaps());
}

Table job_table(Job& job) {
  Table t;
  add_model(t, job.model);
  add_data(t, job.data);
  add_training(t, job.training);
  add_plan(t, job.plan);
  add_running(t, job);
  add_watching(t, job);
  add_output(t, job.output);
  return t;
}

}  // namespace flotilla::app
