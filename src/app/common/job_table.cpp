#include "app/common/job_table.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "app/common/forecast_basis.hpp"
#include "flotilla/base/steps.hpp"
#include "flotilla/base/text.hpp"
#include "flotilla/schedule/schedule.hpp"

namespace flotilla::app {
namespace {

/// Steps are computed in fp32, where 1e38 ends, 1 - 3e-8 is 1 and 1e-38 may be 0.
constexpr double largest_factor = 1e30, slowest_decay = 0.999999;

using options::Choice;
using options::Table;

Choice<data::Format> formats() {
  return {data::format_names(), [](const std::string& name) { return data::parse_format(name); },
          [](const data::Format& f) { return data::to_string(f); }};
}

Choice<std::optional<plan::ScheduleKind>> schedules() {
  using Value = std::optional<plan::ScheduleKind>;
  std::vector<std::string> names{"auto"};
  for (const plan::ScheduleKind kind : schedule::schedule_kinds()) names.push_back(plan::to_string(kind));
  return {std::move(names), [](const std::string& name) { return name == "auto" ? Value{} : Value{plan::parse_schedule(name)}; },
          [](const Value& s) { return s ? plan::to_string(*s) : "auto"; }};
}

Choice<std::optional<bool>> perhaps() {
  using Value = std::optional<bool>;
  return {{"auto", "false", "true"},
          [](const std::string& name) { return name == "auto" ? Value{} : Value{name == "true"}; },
          [](const Value& v) { return v ? std::string{*v ? "true" : "false"} : "auto"; }};
}

Choice<std::optional<cluster::DeviceKind>> device_kinds() {
  using Value = std::optional<cluster::DeviceKind>;
  using cluster::DeviceKind;
  return {{"auto", "cpu", "gpu"},
          [](const std::string& name) { return name == "auto" ? Value{} : Value{name == "gpu" ? DeviceKind::gpu : DeviceKind::cpu}; },
          [](const Value& kind) { return kind ? std::string{*kind == DeviceKind::gpu ? "gpu" : "cpu"} : "auto"; }};
}

Choice<std::optional<cluster::Transport>> transports() {
  using Value = std::optional<cluster::Transport>;
  static const std::vector<std::string> names{"auto", "nccl", "device-mpi", "mpi"};
  static const std::vector<Value> values{std::nullopt, cluster::Transport::nccl, cluster::Transport::device_mpi, cluster::Transport::host};
  return {names,
          [](const std::string& name) { return values.at(static_cast<std::size_t>(std::ranges::find(names, name) - names.begin())); },
          [](const Value& transport) { return names.at(static_cast<std::size_t>(std::ranges::find(values, transport) - values.begin())); }};
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

/// Those that train. Names that follow each other and differ in their last part alone stand together, as a shell would take them:
/// opt-{125m,350m}.
std::string known_models() {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // what the names begin with, and how they end
  for (const auto& name : model::built_in_names()) {
    if (model::forecast_only(model::built_in(name))) continue;
    const auto cut = name.rfind('-') + 1;  // 0 where there is none
    if (cut == 0 || groups.empty() || groups.back().first != name.substr(0, cut)) groups.push_back({name.substr(0, cut), {}});
    groups.back().second.push_back(name.substr(cut));
  }
  std::string all;
  for (const auto& [first, ends] : groups) {
    all += text(all.empty() ? "" : ", ", first, ends.size() > 1 ? "{" : "");
    for (std::size_t i = 0; i < ends.size(); ++i) all += (i == 0 ? "" : ",") + ends[i];
    if (ends.size() > 1) all += "}";
  }
  return all;
}

Choice<std::optional<train::RateSchedule>> rate_schedules() {
  using Value = std::optional<train::RateSchedule>;
  std::vector<std::string> names{"auto"};
  std::ranges::copy(train::rate_schedule_names(), std::back_inserter(names));
  return {names, [](const std::string& name) { return name == "auto" ? Value{} : Value{train::parse_rate_schedule(name)}; },
          [](const Value& schedule) { return schedule ? train::to_string(*schedule) : "auto"; }};
}

void add_model(Table& t, Job& job) {
  Job::Model& m = job.model;
  t.section("model", "The transformer");
  t.add("model.name", &m.name, "a built-in model: " + known_models(), {.value = "NAME"});
  t.add("model.config", &m.config, "a Hugging Face config.json of a family that Flotilla trains, instead of a name",
        {.value = "FILE", .unset = "none"});
  t.add("model.weights", &job.weights,
        "directory of a Hugging Face model whose weights a new run starts from; its config.json counts unless the model is named",
        {.value = "DIRECTORY", .unset = "none: initialized at random"});
  const options::Details share{.minimum = 0, .below = 1, .unset = "the model's own", .example = "0.1"};
  t.add("model.dropout", &m.dropout, "dropout probability on the embedding output and on each residual branch", share);
  t.add("model.attention-dropout", &m.attention_dropout, "dropout probability on the attention probabilities", share);
}

void add_source(Table& t, Job::DataSource& s) {
  t.add("data.source.name", &s.name, "name in metrics and checkpoints", {.value = "NAME", .unset = "none", .example = "web"});
  t.add("data.source.files", &s.files, "files and patterns of them", {.value = "FILE", .unset = "none", .example = "web-*.jsonl"});
  t.add("data.source.manifest", &s.manifest, "file that lists further files, one a line", {.value = "FILE", .unset = "none"});
  t.add("data.source.validation", &s.validation, "files to evaluate on",
        {.value = "FILE", .unset = "data.validation-fraction of each file"});
  t.add("data.source.weight", &s.weight, "fraction of the sequences of a run, relative to the other sources' weights",
        {.maximum = 1e9, .above = 0});
  t.add("data.source.epochs", &s.epochs, "epochs at most, after which the other sources go on alone",
        {.minimum = 0, .maximum = 1e9, .unset = "any number"});
}

void add_data(Table& t, Job::Data& d) {
  t.section("data", "Token files");
  t.add("data.train", &d.train, "files to train on, and patterns of them", {.value = "FILE", .unset = "none", .example = "text.txt"});
  t.add("data.validation", &d.validation, "files to evaluate on, and patterns of them",
        {.value = "FILE", .unset = "none", .example = "held-out.txt"});
  t.add("data.validation-fraction", &d.validation_fraction,
        "fraction at the end of every training file that is held out for evaluation if data.validation is empty",
        {.minimum = 0, .below = 1});
  t.add("data.format", &d.format, "token file format; text: raw bytes, no tokenizer (vocabulary of 256)", formats());
  t.add("data.tokenizer", &d.tokenizer,
        "tokenizer.json of a Hugging Face model, or a SentencePiece .model; text and JSON Lines files are tokenized once, before the first "
        "start",
        {.value = "FILE", .unset = "the one of the weights that the run starts from, or none", .example = "tokenizer.json"});
  t.add("data.field", &d.field, "key of the text in a JSON line",
        {.value = "KEY", .unset = "text, messages, conversations, prompt or instruction"});
  t.add("data.chat-template", &d.chat_template, "tokenizer_config.json or .jinja file with the template of messages",
        {.value = "FILE", .unset = "the one beside the tokenizer"});
  t.add("data.eod", &d.eod, "token at the end of every document", {.value = "TOKEN", .unset = "the tokenizer's own"});
  add_documents(t, d.separate_documents);
  t.add("data.document-end", &d.document_end, "number of the token behind which a document ends, in addition to what a Megatron .idx says",
        {.minimum = -1, .maximum = 1 << 24, .unset = "none", .example = "50256"});
  t.add("data.cache", &d.cache, "directory of what data.tokenizer made",
        {.value = "DIRECTORY", .unset = "flotilla-tokens beside each file"});
  t.add("data.bad-lines", &d.bad_lines,
        "JSON lines without a document: end with an error, leave them out, or repair those with lone surrogates, NaN, null texts or bytes "
        "that are no UTF-8",
        bad_lines_choice());
  t.add_entries<Job::DataSource>("data.source", "Sources of a mixture, instead of data.train", &d.sources, add_source);
}

void add_training(Table& t, Job::Training& r, std::string& tokens) {
  t.section("training", "The training run");
  t.add("training.steps", &r.steps, "iterations to run, counted from the start of the run", {.minimum = 1, .maximum = most_run_steps});
  t.add("training.tokens", &tokens, "tokens to train on, such as 15B, in place of training.steps: as many iterations as that takes",
        {.value = "N[M|B|T]", .unset = "training.steps count", .example = "15B", .alias = "tokens"});
  t.add("training.global-batch", &r.global_batch, "global batch size in sequences per iteration", {.minimum = 1, .maximum = 1 << 24});
  t.add("training.length", &r.length, "sequence length in tokens", {.minimum = 0, .maximum = 1 << 24, .unset = "the model's positions"});
  t.add("training.precision", &r.precision,
        "GEMM precision; master weights and accumulation stay fp32; auto: on resume the checkpoint's, else the plan file's, else what the "
        "devices are made for: bf16 or fp16 on GPUs with units for it, fp32 on others and on CPUs",
        open_precisions());
  t.add("training.seed", &r.seed, "random seed for initialization, data order and dropout", {.minimum = 0});
  t.add("training.learning-rate", &r.learning_rate, "peak learning rate of AdamW, after the warm-up",
        {.maximum = largest_factor, .above = 0});
  t.add("training.minimum-learning-rate", &r.minimum_learning_rate, "final learning rate of the schedule",
        {.minimum = 0, .maximum = largest_factor});
  t.add("training.learning-rate-schedule", &r.learning_rate_schedule,
        "how the learning rate decays after the warm-up; auto: cosine, on resume the checkpoint's; wsd: stable, then a linear cool-down",
        rate_schedules());
  t.add("training.warmup-steps", &r.warmup_steps, "iterations of linear learning-rate warm-up from 0",
        {.minimum = 0, .maximum = most_run_steps, .unset = "off"});
  t.add("training.decay-steps", &r.decay_steps, "iterations of the learning rate's schedule, warm-up included; the minimum from there on",
        {.minimum = 0, .maximum = most_run_steps, .unset = "training.steps; on resume the checkpoint's"});
  t.add("training.cooldown-steps", &r.cooldown_steps,
        "of these, the last iterations, in which the learning rate of wsd and wsd-sqrt decays",
        {.minimum = 0, .maximum = most_run_steps, .unset = "a tenth; on resume the checkpoint's"});
  t.add("training.weight-decay", &r.weight_decay, "AdamW's decoupled weight decay, applied to matrices only",
        {.minimum = 0, .maximum = largest_factor});
  t.add("training.beta1", &r.beta1, "AdamW's decay rate of the first moment", {.minimum = 0, .maximum = slowest_decay});
  t.add("training.beta2", &r.beta2, "AdamW's decay rate of the second moment", {.minimum = 0, .maximum = slowest_decay});
  t.add("training.epsilon", &r.epsilon, "AdamW's denominator term for numerical stability", {.minimum = 1e-30, .maximum = 1});
  t.add("training.clip", &r.clip, "gradient clipping threshold (global L2 norm); 0 disables clipping",
        {.minimum = 0, .maximum = largest_factor});
  t.add("training.freeze", &r.freeze, "tensors that are not trained, by name or pattern of names",
        {.value = "PATTERN", .unset = "none", .example = "embedding.*"});
  t.add("training.evaluate-every", &r.evaluate_every, "iterations between evaluations on held-out data",
        {.minimum = 0, .maximum = most_run_steps, .unset = "off", .example = "100"});
  t.add("training.evaluate-sequences", &r.evaluate_sequences, "sequences per evaluation", {.minimum = 1});
  t.add("training.skip-non-finite", &r.skip_non_finite,
        "skip the optimizer step when the loss or gradients are NaN/Inf, instead of aborting");
  t.add("training.deterministic", &r.deterministic, "cuDNN's attention adds gradients in a fixed order, at the price of memory");
}

void add_lora(Table& t, Job::LoraOptions& l) {
  t.section("lora", "Low-rank adapters, trained in place of the weights (LoRA)");
  t.add("lora.rank", &l.rank, "rank of the adapters", {.minimum = 0, .maximum = 1 << 24, .unset = "none"});
  t.add("lora.alpha", &l.alpha, "adapters are scaled by alpha / rank", {.minimum = 0, .maximum = largest_factor, .unset = "the rank"});
  t.add("lora.targets", &l.targets, "linear layers with adapters: attention.qkv, attention.out, feed_forward.up, feed_forward.down",
        {.value = "LAYER", .unset = "all", .example = "attention.qkv"});
}

void add_phase(Table& t, Job::Phase& p) {
  t.add("phase.name", &p.name, "name in metrics and checkpoints", {.value = "NAME", .unset = "none", .example = "short"});
  t.add("phase.steps", &p.steps, "iterations of the phase", {.minimum = 0, .maximum = most_run_steps, .unset = "none", .example = "1000"});
  t.add("phase.length", &p.length, "sequence length in tokens", {.minimum = 0, .maximum = 1 << 24, .unset = "training.length"});
  t.add("phase.global-batch", &p.global_batch, "global batch size in sequences per iteration",
        {.minimum = 0, .maximum = 1 << 24, .unset = "training.global-batch"});
  t.add("phase.sources", &p.sources, "names of the [[data.source]] tables to draw from; web=0.2: with this weight",
        {.value = "NAME", .unset = "all, with their weights", .example = "web"});
  t.add("phase.learning-rate-schedule", &p.learning_rate_schedule,
        "schedule of the learning rate over this phase; auto: the run's schedule goes on", rate_schedules());
  t.add("phase.learning-rate", &p.learning_rate, "peak of the phase's own schedule",
        {.maximum = largest_factor, .above = 0, .unset = "training.learning-rate"});
  t.add("phase.minimum-learning-rate", &p.minimum_learning_rate, "final learning rate of the phase's own schedule",
        {.minimum = 0, .maximum = largest_factor, .unset = "training.minimum-learning-rate"});
  t.add("phase.warmup-steps", &p.warmup_steps, "iterations of warm-up in the phase's own schedule",
        {.minimum = 0, .maximum = most_run_steps, .unset = "off"});
  t.add("phase.cooldown-steps", &p.cooldown_steps, "iterations of cool-down in the phase's own schedule",
        {.minimum = 0, .maximum = most_run_steps, .unset = "a tenth"});
}

void add_plan(Table& t, Job::Plan& p) {
  t.section("plan", "Parallel layout; what is not given is searched");
  t.add("plan.file", &p.file, "run this plan instead of searching for one", {.value = "FILE", .unset = "none", .alias = "plan"});
  t.add(
      "plan.replan", &p.replan,
      "true: on resume, search again instead of keeping the checkpoint's plan; auto: change plan during the run if a device or a link has "
      "become slow and the change pays off",
      replans(), {.alias = "replan"});
  add_constraints(t, p);
}

}  // namespace

void add_constraints(Table& t, Job::Plan& p) {
  const options::Details degree{.minimum = 0, .unset = "choose", .example = "2"};
  t.add("plan.data", &p.data, "data-parallel degree (replicas)", degree);
  t.add("plan.pipeline", &p.pipeline, "pipeline stages", degree);
  t.add("plan.tensor", &p.tensor, "tensor-parallel degree: devices per layer", degree);
  t.add("plan.microbatch", &p.microbatch, "micro-batch size in sequences", degree);
  t.add("plan.schedule", &p.schedule, "pipeline schedule", schedules());
  t.add("plan.chunks", &p.chunks, "virtual pipeline stages (model chunks) per device; more than one selects interleaved 1F1B",
        {.minimum = 0, .maximum = 64, .unset = "choose", .example = "2"});
  t.add("plan.sequence-parallel", &p.sequence_parallel,
        "sequence parallelism: outside the tensor-parallel GEMMs, shard activations along the sequence dimension", perhaps());
  t.add(
      "plan.shard-optimizer", &p.shard_optimizer,
      "shard optimizer states across data-parallel replicas (ZeRO-1); auto: where iterations are shorter so, or nothing else fits in memory",
      perhaps());
  t.add("plan.recompute", &p.recompute, "activation recomputation (checkpointing)", recomputes());
  t.add("plan.cuts", &p.cuts,
        "layer boundaries of all stages, from 0 to the number of layers (blocks + 2: embedding and head count as layers)",
        {.minimum = 0, .unset = "choose", .example = "0,4,8"});
}

void add_device_choice(Table& t, std::optional<cluster::DeviceKind>& kind, bool& tf32) {
  t.section("device", "Devices");
  t.add("device.kind", &kind, "what ranks compute on; auto: each on a GPU while there are GPUs, the others on CPUs", device_kinds(),
        {.alias = "device"});
  t.add("device.tf32", &tf32, "in precision fp32, GPUs round the operands of GEMMs to TF32 (sm_80 and later)");
}

namespace {

void add_running(Table& t, Job& job) {
  add_device_choice(t, job.device.kind, job.device.tf32);
  t.add("device.attention", &job.device.attention,
        "attention of GPUs; cudnn: cuDNN 9's, where it agrees with Flotilla's own on the device; auto: if it needs no more memory, too",
        attentions());
  t.add("device.memory", &job.device.memory, "memory that one device may use",
        {.unset = "free memory of the node / its ranks", .example = "4GiB"});
  t.section("checkpoint", "Checkpoints, in the run directory");
  t.add("checkpoint.every", &job.checkpoint.every, "iterations between checkpoints; one is always saved at the end",
        {.minimum = 0, .maximum = most_run_steps, .unset = "off", .example = "100"});
  t.add("checkpoint.every-time", &job.checkpoint.every_time, "time between checkpoints", {.unset = "off", .example = "30min"});
  t.add("checkpoint.node-mtbf", &job.checkpoint.node_mtbf,
        "mean time between failures of a node; checkpoints are then as far apart as loses least, by what they cost (Young, Daly)",
        {.unset = "off", .example = "100d"});
  t.add("checkpoint.keep", &job.checkpoint.keep, "number of newest checkpoints to keep; 0 keeps all", {.minimum = 0});
  t.add("checkpoint.asynchronous", &job.checkpoint.asynchronous,
        "train on while a checkpoint is written, from a copy in memory if there is room for one");
  t.add("checkpoint.wait-for-room", &job.checkpoint.wait_for_room,
        "how long the last save waits if the run directory is full or away and nobody says when the process is killed; then the run ends "
        "with 69",
        {.minimum = 0});
  t.add(
      "checkpoint.local", &job.checkpoint.local,
      "folder on each node that checkpoints go to first, drained into the run directory beside the steps; $NAME, %j (job ID) and %N (host) "
      "are replaced",
      {.value = "DIRECTORY", .unset = "off", .example = "$TMPDIR"});
  t.section("run", "The run");
  t.add("run.directory", &job.run.directory, "run directory: checkpoints, metrics, profile, outcome; a run found there is resumed",
        {.value = "DIRECTORY"});
  t.add("run.log-every", &job.run.log_every, "iterations between progress lines", {.minimum = 1});
  t.add("run.threads", &job.run.threads, "compute threads per rank",
        {.minimum = 0, .maximum = 4096, .unset = "the rank's part of the CPUs"});
  t.add("run.zone", &job.run.zone, "zone of this rank's device in plans and profiles: a partition, a switch, a cloud zone",
        {.value = "NAME", .unset = "the rank's Slurm partition"});
  t.add("run.time-limit", &job.run.time_limit, "maximum run time; the run saves and exits with 75 before it is over",
        {.unset = "time left in the Slurm job", .example = "4h"});
  t.add("run.stop-slack", &job.run.stop_slack, "safety margin before the time limit, in addition to the longest step and save measured");
  t.add("run.grace", &job.run.grace,
        "time from SIGTERM to SIGKILL; a step that cannot be completed and saved within it is abandoned, and the last completed step is "
        "saved",
        {.above = 0});
  t.add("run.from", &job.run.from, "checkpoint of another run whose weights a new run starts from",
        {.value = "RUN/step-N", .unset = "none", .alias = "from"});
  t.add("run.from-optimizer", &job.run.from_optimizer,
        "with run.from, take over the optimizer's state, too: moments, number of updates and loss scale");
  t.add("run.start-over", &job.run.start_over,
        "begin at step 0 if the run directory holds traces of a run and no checkpoint that can be read; refused otherwise");
  t.add("run.part-of-job", &job.run.part_of_job, "accept a run that leaves out components of a heterogeneous Slurm job; refused otherwise");
}

void add_watching(Table& t, Job& job) {
  t.section("probe", "Measuring devices and links");
  t.add("probe.file", &job.probe.file, "cluster profile to reuse while fresh, and to write",
        {.value = "FILE", .unset = "profile.json in the run directory"});
  t.add("probe.fresh-for", &job.probe.fresh_for,
        "maximum age at which a profile of the same devices, software and model is reused; 0s always measures");
  t.add("probe.budget", &job.probe.budget, "wall time of the measurements, within 20 %; the least set of a large model may take longer",
        {.above = 0});
  t.section("watch", "Lost peers");
  t.add("watch.interval", &job.watch.interval, "time between heartbeats", {.minimum = 0.01, .maximum = 3600});
  t.add("watch.deadline", &job.watch.deadline, "silence after which a rank is considered lost", {.above = 0});
  t.section("comm", "Communication");
  t.add("comm.deadline", &job.comm.deadline, "a message or collective without progress for this long is an error", {.above = 0});
  t.add("comm.reduction", &job.comm.reduction,
        "all-reduces between GPUs: ordered: the same plan gives the same bits; nccl: NCCL's own, which may be faster", reductions());
  t.add("comm.transport", &job.comm.transport,
        "between GPUs; auto: what measured fastest of NCCL and MPI on device memory, where they pass their proofs, and the hosts' memory; "
        "nccl, device-mpi: that one, where it passes its proof; mpi: the hosts' memory",
        transports());
  t.section("report", "Reports");
  t.add("report.timeline", &job.report.timeline, "write a timeline of the last iteration's instructions (Perfetto JSON)",
        {.value = "FILE", .unset = "none"});
  t.add("report.prometheus", &job.report.prometheus,
        "keep the latest metrics in this file, in Prometheus text format, for node_exporter's textfile collector",
        {.value = "FILE", .unset = "none", .example = "/var/lib/node_exporter/flotilla.prom"});
  t.add("report.tensorboard", &job.report.tensorboard, "write event files for TensorBoard into this folder",
        {.value = "DIR", .unset = "none", .example = "logs/my-run"});
}

}  // namespace

Choice<Precision> precisions() {
  return {{"fp32", "bf16", "fp16"},
          [](const std::string& name) { return parse_precision(name); },
          [](const Precision& p) { return to_string(p); }};
}

Choice<std::optional<Precision>> open_precisions() {
  auto fixed = precisions();
  auto names = fixed.names;
  names.emplace(names.begin(), "auto");
  using Value = std::optional<Precision>;
  return {names, [=](const std::string& name) { return name == "auto" ? Value{} : Value{fixed.parse(name)}; },
          [=](const Value& value) { return value ? fixed.show(*value) : "auto"; }};
}

options::Choice<ingest::BadLines> bad_lines_choice() {
  const auto& names = ingest::bad_lines_names();
  return {names,
          [&names](const std::string& name) { return static_cast<ingest::BadLines>(std::ranges::find(names, name) - names.begin()); },
          [&names](const ingest::BadLines& bad) { return names.at(static_cast<std::size_t>(bad)).c_str(); }};
}

void add_output(Table& t, Job::Output& o) {
  t.section("output", "Output");
  t.add("output.file", &o.file, "write the result to this file",
        {.value = "FILE", .unset = "standard output", .alias = "output", .letter = 'o'});
  t.add("output.format", &o.json, "human-readable table, or JSON on standard output (and nothing else there)", output_formats(),
        {.alias = "format"});
  t.add("output.log-level", &o.log_level, "level of messages on standard error", levels(), {.alias = "log-level"});
}

Table job_table(Job& job) {
  Table t;
  add_model(t, job);
  add_data(t, job.data);
  add_training(t, job.training, job.tokens);
  add_lora(t, job.lora);
  t.add_entries<Job::Phase>("phase", "Phases of the run, in order; the rest as in [training]", &job.phases, add_phase);
  add_plan(t, job.plan);
  add_running(t, job);
  add_watching(t, job);
  add_output(t, job.output);
  return t;
}

}  // namespace flotilla::app
