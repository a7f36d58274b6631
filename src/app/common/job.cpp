#include "app/common/job.hpp"

#include <algorithm>
#include <set>

#include "app/common/refuse.hpp"
#include "app/common/run_length.hpp"
#include "app/common/submit_options.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/base/foreign_text.hpp"
#include "flotilla/base/steps.hpp"
#include "flotilla/files/hugging_face.hpp"
#include "flotilla/files/look.hpp"
#include "flotilla/files/plan_file.hpp"
#include "flotilla/options/documents.hpp"
#include "flotilla/session/phases.hpp"
#include "flotilla/weights/adapter_parts.hpp"
#include "flotilla/weights/carried.hpp"

namespace flotilla::app {
namespace {

const options::Setting& setting(const Job& job, const std::string& name) {
  const auto found = std::find_if(job.settings.begin(), job.settings.end(), [&](const auto& s) { return s.name == name; });
  FLOTILLA_ASSERT(found != job.settings.end(), name);
  return *found;
}

/// Somebody asked for something else than the default. Writing the default down, as a printed configuration does, asks for nothing.
bool is_set(const Job& job, const std::string& name) {
  const auto& s = setting(job, name);
  return s.origin != options::Origin::standard && s.value != s.default_value;
}

/// Throws the Error of an option whose value is right alone and wrong beside the others.
template <class... Parts>
[[noreturn]] void refuse(const Job& job, const std::string& name, const Parts&... what) {
  const auto& s = setting(job, name);
  app::refuse(s, s.value, text(what...));
}

/// The option of two that somebody set, the second if both.
const std::string& blame(const Job& job, const std::string& first, const std::string& second) {
  return is_set(job, second) || !is_set(job, first) ? second : first;
}

void check_rate_schedule(const Job& job) {
  const auto& t = job.training;
  const auto schedule = t.learning_rate_schedule;
  if (schedule == train::RateSchedule::inverse_sqrt && t.warmup_steps == 0)
    refuse(job, "training.learning-rate-schedule", "the warm-up is this schedule's unit of time; write training.warmup-steps, too");
  if (schedule && !train::decays(*schedule) && t.decay_steps > 0)
    refuse(job, blame(job, "training.learning-rate-schedule", "training.decay-steps"), train::to_string(*schedule),
           " has no end; remove training.decay-steps");
  if (schedule && !train::cools_down(*schedule) && t.cooldown_steps > 0)
    refuse(job, blame(job, "training.learning-rate-schedule", "training.cooldown-steps"), train::to_string(*schedule),
           " has no cool-down; write wsd or wsd-sqrt, or remove training.cooldown-steps");
  const auto room = (t.decay_steps > 0 ? t.decay_steps : t.steps) - t.warmup_steps;
  if (t.cooldown_steps > room && room > 0)
    refuse(job, "training.cooldown-steps", "the schedule has ", room, " iterations after the warm-up; write at most that");
}

void check_training(const Job& job) {
  const auto& t = job.training;
  const int positions = job.architecture.positions;
  if (t.length > positions)
    refuse(job, "training.length", "longer than the ", positions, " positions of ", job.architecture.name, "; write at most ", positions);
  if (t.minimum_learning_rate > t.learning_rate)
    refuse(job, blame(job, "training.learning-rate", "training.minimum-learning-rate"), "the minimum learning rate ",
           t.minimum_learning_rate, " is above the peak ", t.learning_rate,
           "; write for example training.minimum-learning-rate = ", t.learning_rate / 10);
  // A trial that cuts a job file's run short on the command line just stays in the warm-up.
  const bool one_source = setting(job, "training.steps").origin == setting(job, "training.warmup-steps").origin;
  if (t.warmup_steps >= t.steps && t.warmup_steps > 0 && one_source)
    refuse(job, blame(job, "training.steps", "training.warmup-steps"), "the warm-up of ", t.warmup_steps,
           " iterations does not end within the ", t.steps, " of the run; write at most ", t.steps - 1);
  if (t.decay_steps > 0 && t.warmup_steps >= t.decay_steps)
    refuse(job, blame(job, "training.decay-steps", "training.warmup-steps"), "the warm-up of ", t.warmup_steps,
           " iterations does not end within the ", t.decay_steps, " of training.decay-steps; write at most ", t.decay_steps - 1);
  if (const auto wrong = model::wrong_with_frozen(job.architecture)) refuse(job, "training.freeze", *wrong);
  check_rate_schedule(job);
}

void check_lora(const Job& job) {
  const auto& l = job.lora;
  if (l.rank == 0 && (l.alpha > 0 || !l.targets.empty()))
    refuse(job, l.alpha > 0 ? "lora.alpha" : "lora.targets", "there are no adapters without lora.rank; write it, for example 8");
  if (l.rank > job.architecture.hidden)
    refuse(job, "lora.rank", "more than the ", job.architecture.hidden, " columns of ", job.architecture.name, "; write at most that");
  for (std::size_t i = 0; i < l.targets.size(); ++i)
    if (std::ranges::find(l.targets.begin(), l.targets.begin() + static_cast<std::ptrdiff_t>(i), l.targets[i]) !=
        l.targets.begin() + static_cast<std::ptrdiff_t>(i))
      refuse(job, "lora.targets", in_quotes(l.targets[i]), " stands twice");
}

/// Targets in the order of the layers. A family's matrices have an adapter each, as PEFT gives them.
model::Lora lora_of(const Job& job) {
  if (job.lora.rank == 0) return {};
  model::Lora lora{job.lora.rank, job.lora.alpha > 0 ? job.lora.alpha : job.lora.rank};
  std::vector<model::Linear> named;
  for (const auto& target : job.lora.targets) try {
      named.push_back(model::parse_linear(target));
    } catch (const Error& error) {
      refuse(job, "lora.targets", error.what());
    }
  for (const auto linear : model::linears)
    if (named.empty() || std::ranges::find(named, linear) != named.end()) lora.targets.push_back(linear);
  const auto parts = weights::adapter_parts(job.architecture.family);
  lora.qkv_parts = parts.qkv;
  lora.up_parts = job.architecture.gated() ? parts.up : 1;
  return lora;
}

void check_degrees(const Job& job) {
  const auto& p = job.plan;
  const auto& model = job.architecture;
  if (p.data > job.training.global_batch)
    refuse(job, "plan.data", "more replicas than the ", job.training.global_batch, " sequences of a step; write at most that");
  if (const int most = model::largest_tensor_parallel(model); p.tensor > most)
    refuse(job, "plan.tensor", model.name,
           most < model.groups() ? text(" can be shared by ", most, ", ", model::limit_of_tensor_parallel(model))
           : model.shares_keys() ? text(" has ", most, " key and value heads, each on one rank with its queries")
                                 : text(" has ", most, " attention heads"),
           "; write at most that");
  if (p.pipeline > model.layers()) refuse(job, "plan.pipeline", model.name, " has ", model.layers(), " layers; write at most that");
  if (p.chunks > model.layers() / std::max(p.pipeline, 1))
    refuse(job, "plan.chunks", model.name, " has ", model.layers(), " layers for ", std::max(p.pipeline, 1),
           p.pipeline > 1 ? " devices in a row; write at most " : " device; write at most ", model.layers() / std::max(p.pipeline, 1));
  const int share = job.training.global_batch / std::max(p.data, 1);
  if (p.microbatch > std::max(share, 1))
    refuse(job, "plan.microbatch", "a replica handles ", share, " sequences of a step; write at most that");
}

void check_checkpoints(const Job& job) {
  const auto& c = job.checkpoint;
  if (c.node_mtbf.value > 0 && c.every_time.value > 0)
    refuse(job, blame(job, "checkpoint.every-time", "checkpoint.node-mtbf"),
           "checkpoint.node-mtbf chooses the time between checkpoints, and checkpoint.every-time fixes it; remove one of them");
}

void check_execution(const Job& job) {
  const auto& p = job.plan;
  if (p.chunks > 1 && p.schedule && *p.schedule != plan::ScheduleKind::interleaved)
    refuse(job, blame(job, "plan.schedule", "plan.chunks"), "a device holds ", p.chunks,
           " stages under the interleaved schedule alone; write plan.schedule = \"interleaved\" or plan.chunks = 1");
}

void check_cuts(const Job& job) {
  const auto& cuts = job.plan.cuts;
  if (cuts.empty()) return;
  const int layers = job.architecture.layers();
  const bool rising = std::adjacent_find(cuts.begin(), cuts.end(), std::greater_equal<>{}) == cuts.end();
  if (cuts.size() < 2 || cuts.front() != 0 || cuts.back() != layers || !rising)
    refuse(job, "plan.cuts", "expected rising layer numbers from 0 to ", layers, ", the layers of ", job.architecture.name,
           "; write for example cuts = [0, ", layers / 2, ", ", layers, "]");
  const int stages = static_cast<int>(cuts.size()) - 1;
  const int chunks = settled(constraints_of(job.plan)).chunks.value_or(1);
  if (stages % chunks != 0) refuse(job, "plan.cuts", "makes ", stages, " stages, which are not ", chunks, " for each device");
  if (job.plan.pipeline > 0 && job.plan.pipeline * chunks != stages)
    refuse(job, "plan.cuts", "makes ", stages, " stages, but plan.pipeline = ", job.plan.pipeline,
           chunks > 1 ? text(" with ", chunks, " on each device") : "", "; change one of them");
}

void check_plan_file(const Job& job) {
  if (job.plan.file.empty()) return;
  if (job.plan.replan == Job::Replan::on_resume) refuse(job, "plan.file", "--replan would search for another plan; keep one of them");
  const auto origin = setting(job, "plan.file").origin;
  for (const char* name : {"plan.data", "plan.pipeline", "plan.tensor", "plan.microbatch", "plan.schedule", "plan.chunks",
                           "plan.sequence-parallel", "plan.shard-optimizer", "plan.recompute", "plan.cuts"})
    // --plan on the command line overrides what a job file says about the search.
    if (is_set(job, name) && setting(job, name).origin >= origin)
      refuse(job, name, "the plan of ", job.plan.file, " says this already; remove one of them");
}

[[noreturn]] void refuse_source(const Job& job, std::size_t number, const std::string& what) {
  throw Error{ErrorKind::bad_input, text(job.job_file, ": [[data.source]] number ", number + 1, ": ", what)};
}

void check_sources(const Job& job) {
  const auto& sources = job.data.sources;
  std::set<std::string> names;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].name.empty()) refuse_source(job, i, "has no name; write for example name = \"web\"");
    if (!names.insert(sources[i].name).second)
      refuse_source(job, i, text(in_quotes(sources[i].name), " is the name of another one, too; names differ"));
    if (sources[i].files.empty() && sources[i].manifest.empty())
      refuse_source(job, i, "has no files; write for example files = [\"web-*.jsonl\"] or manifest = \"shards.txt\"");
  }
  for (const char* name : {"data.train", "data.validation"})
    if (!sources.empty() && is_set(job, name))
      refuse(job, name, "the job has [[data.source]] tables, which name the data; remove one of them");
}

[[noreturn]] void refuse_phase(const Job& job, std::size_t number, const std::string& what) {
  const auto& name = job.phases[number].name;
  throw Error{ErrorKind::bad_input,
              text(job.job_file, ": [[phase]] number ", number + 1, name.empty() ? "" : " (" + in_quotes(name) + ")", ": ", what)};
}

void check_phase_schedule(const Job& job, std::size_t number) {
  const auto& p = job.phases[number];
  if (!p.learning_rate_schedule) {
    if (p.learning_rate || p.minimum_learning_rate || p.warmup_steps > 0 || p.cooldown_steps > 0)
      refuse_phase(job, number,
                   "the run's learning-rate schedule goes on here; write learning-rate-schedule, too, for one of the phase's own");
    return;
  }
  const auto peak = p.learning_rate.value_or(job.training.learning_rate);
  if (p.minimum_learning_rate && *p.minimum_learning_rate > peak)
    refuse_phase(job, number, text("the minimum learning rate ", *p.minimum_learning_rate, " is above the peak ", peak));
  if (p.warmup_steps + p.cooldown_steps > p.steps || p.warmup_steps == p.steps)
    refuse_phase(job, number, text("warm-up and cool-down do not fit into its ", p.steps, " iterations"));
  if (*p.learning_rate_schedule == train::RateSchedule::inverse_sqrt && p.warmup_steps == 0)
    refuse_phase(job, number, "the warm-up is the unit of time of inverse-sqrt; write warmup-steps, too");
  if (p.cooldown_steps > 0 && !train::cools_down(*p.learning_rate_schedule))
    refuse_phase(job, number,
                 train::to_string(*p.learning_rate_schedule) + " has no cool-down; write wsd or wsd-sqrt, or remove cooldown-steps");
}

/// The degrees that [plan] fixes, in this phase's batch.
void check_phase_batch(const Job& job, std::size_t number, int batch) {
  const int replicas = std::max(job.plan.data, 1);
  if (replicas > batch) refuse_phase(job, number, text("plan.data is ", replicas, ", and a step has ", batch, " sequences"));
  if (job.plan.microbatch > batch / replicas)
    refuse_phase(job, number,
                 text("plan.microbatch is ", job.plan.microbatch, ", and a replica handles ", batch / replicas, " sequences of a step"));
}

void check_phase(const Job& job, std::size_t number, Need need) {
  const auto& p = job.phases[number];
  if (p.name.empty()) refuse_phase(job, number, "has no name; write for example name = \"short\"");
  if (p.steps == 0) refuse_phase(job, number, "has no steps; write for example steps = 1000");
  if (const int positions = job.architecture.positions; p.length > positions)
    refuse_phase(job, number, text("length ", p.length, " is longer than the ", positions, " positions of ", job.architecture.name));
  check_phase_batch(job, number, p.global_batch > 0 ? p.global_batch : job.training.global_batch);
  check_phase_schedule(job, number);
  if (need != Need::data) return;
  try {
    static_cast<void>(session::phase_weights(p, job.data.sources));
  } catch (const Error& error) {
    refuse_phase(job, number, text("sources: ", error.what()));
  }
}

void check_phases(const Job& job, Need need) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < job.phases.size(); ++i) {
    check_phase(job, i, need);
    if (!names.insert(job.phases[i].name).second) refuse_phase(job, i, "another one has this name, too; names differ");
  }
  const auto steps = session::declared_steps(job);
  const bool in_file = setting(job, "training.steps").origin == options::Origin::job_file;
  if (job.training.steps > steps || (in_file && job.training.steps != steps))
    refuse(job, "training.steps", "the phases have ", steps,
           " iterations in all; remove this, or say on the command line where to end earlier");
  const auto phases = session::phases_of(job);
  if (!job.plan.file.empty() && session::end_of_shape(phases, 0) < phases.size())
    refuse(job, "plan.file", "a plan is of one length and one global batch, and ",
           session::spelled(phases[session::end_of_shape(phases, 0)]), " has others; write degrees under [plan] instead");
}

void check_data(const Job& job) {
  const auto& d = job.data;
  check_sources(job);
  if (!d.sources.empty()) return;
  if (d.train.empty())
    throw Error{ErrorKind::usage, "no training data; write --data.train FILE, or train = [\"FILE\"] under [data] in the job file"};
  for (const auto& file : d.validation)
    if (std::find(d.train.begin(), d.train.end(), file) != d.train.end())
      refuse(job, "data.validation", in_quotes(file), " is training data too; remove it from one of them");
  if (!d.validation.empty() && is_set(job, "data.validation-fraction") && d.validation_fraction > 0)
    refuse(job, "data.validation-fraction", "has no effect with data.validation; remove one of them");
  if (job.training.evaluate_every > 0 && d.validation.empty() && d.validation_fraction == 0)
    refuse(job, "training.evaluate-every", "there is no held-out data; give data.validation or a data.validation-fraction above 0");
}

void check_tokenizer(const Job& job) {
  if (job.data.tokenizer.empty()) {
    for (const char* name : {"data.field", "data.chat-template", "data.eod", "data.bad-lines", "data.cache"})
      if (is_set(job, name)) refuse(job, name, "has no effect without data.tokenizer; name that too, or remove this");
    return;
  }
  if (job.data.format != data::Format::automatic)
    refuse(job, "data.format", "data.tokenizer takes text and makes its token files itself; remove one of them");
}

void check_documents(const Job& job) {
  const auto& data = job.data;
  if (data.document_end >= 0 && !data.separate_documents)
    refuse(job, "data.document-end", "has no effect unless data.documents is separate; say that too, or remove this");
  if (data.document_end >= job.architecture.vocabulary)
    refuse(job, "data.document-end", "is no token of the model, whose vocabulary has ", job.architecture.vocabulary);
}

void check_from(const Job& job) {
  if (!job.run.from.empty() && !job.weights.empty())
    refuse(job, blame(job, "model.weights", "run.from"), "model.weights names weights to start from, too; remove one of them");
  if (job.run.from_optimizer && job.run.from.empty())
    refuse(job, "run.from-optimizer", "has no effect without run.from; name a checkpoint, RUN/step-N, or remove this");
}

void check_watch(const Job& job) {
  if (job.watch.deadline < job.watch.interval * 3)
    refuse(job, blame(job, "watch.interval", "watch.deadline"),
           "a rank would count as lost between two heartbeats; write a watch.deadline of at least ", (job.watch.interval * 3).value, "s");
}

model::Config resolve(const Job& job) {
  const auto& m = job.model;
  model::Config config;
  try {
    config = m.config.empty() ? model::built_in(m.name) : files::read_hugging_face_config(m.config);
  } catch (const Error& error) {
    if (m.config.empty()) refuse(job, "model.name", error.what());
    throw;
  }
  if (m.dropout) config.dropout = *m.dropout;
  if (m.attention_dropout) config.attention_dropout = *m.attention_dropout;
  const std::string where = m.config.empty() ? "model.name = " + m.name : m.config;
  model::check(config, where);
  model::require_executable(config, where);
  return config;
}

/// Whether the model is the one of the weights: they are named, and by a source of higher precedence than any other name of the model.
bool weights_count(const options::Table& table) {
  const auto weights = table.describe("model.weights"), name = table.describe("model.name"), config = table.describe("model.config");
  return !weights.value.empty() && std::max(name.origin, config.origin) < weights.origin;
}

/// The tokenizer of the weights that the run starts from, wherever they are: text would else be trained on byte by byte.
std::string tokenizer_of_weights(const Job& job) {
  std::filesystem::path found;
  if (!job.weights.empty()) found = weights::tokenizer_in(job.weights);
  if (found.empty() && !job.run.from.empty()) found = weights::tokenizer_of_checkpoint(job.run.from);
  return (found.empty() ? weights::tokenizer_in(weights::carried_folder(job.run.directory)) : found).string();
}

}  // namespace

std::vector<options::Setting> all_settings(const options::Table& table) {
  auto settings = table.settings();
  for (const auto& list : table.entries()) {
    int number = 0;
    for (const auto& entry : list.all()) {
      ++number;
      for (auto setting : entry.settings()) {
        setting.name = text(list.name, "[", number, "]", setting.name.substr(list.name.size()));
        settings.push_back(std::move(setting));
      }
    }
  }
  return settings;
}

bool config_counts(const options::Table& table) {
  const auto name = table.describe("model.name"), config = table.describe("model.config");
  if (config.value.empty()) return false;
  FLOTILLA_REQUIRE(name.origin != config.origin || name.value == name.default_value,
                   config.origin == options::Origin::command_line ? ErrorKind::usage : ErrorKind::bad_input, config.source,
                   ": model.config = ", config.value, " conflicts with model.name = ", name.value, "; keep one of them");
  return name.origin <= config.origin;
}

std::string config_of_weights(const Job& job) {
  const auto theirs = std::filesystem::path{job.weights} / "config.json";
  const auto kept = weights::carried_folder(job.run.directory) / "config.json";
  return (files::facts_of(theirs) || !files::facts_of(kept) ? theirs : kept).string();
}

void check(const Job& job, Need need) {
  check_lora(job);
  check_training(job);
  check_degrees(job);
  check_checkpoints(job);
  check_execution(job);
  check_cuts(job);
  check_plan_file(job);
  check_phases(job, need);
  check_from(job);
  check_watch(job);
  if (need == Need::data) check_data(job);
  if (need == Need::data) check_tokenizer(job);
  if (need == Need::data) check_documents(job);
}

Job read_job(std::span<const std::string> arguments, std::span<const std::string> environment, Need need) {
  Job job;
  SubmitOptions others;  // one job file serves train, plan and submit
  auto table = job_table(job);
  table.pass_over(submit_table(others));
  const auto operands = table.read_command_line(arguments);
  FLOTILLA_REQUIRE(operands.size() <= 1, ErrorKind::usage, "expected one job file, got ", operands.size(), " operands (",
                   in_quotes(operands.front()), ", ", in_quotes(operands.at(1)),
                   "); a list's option is repeated for each item: --data.train A --data.train B");
  table.read_environment(environment);
  if (!operands.empty()) {
    job.job_file = operands[0];
    table.read_file(job.job_file);
  }
  if (!job.phases.empty() && table.describe("training.steps").origin == options::Origin::standard)
    job.training.steps = session::declared_steps(job);
  if (!config_counts(table)) job.model.config.clear();
  if (table.describe("data.train").origin > options::Origin::job_file) job.data.sources.clear();
  job.settings = all_settings(table);
  job.configuration = options::to_toml(table);
  for (auto* name : {&job.weights, &job.run.from})  // one spelling: it is part of the run's identity
    while (name->size() > 1 && name->ends_with('/')) name->pop_back();
  if (weights_count(table)) job.model.config = config_of_weights(job);
  if (job.data.tokenizer.empty() && job.data.format == data::Format::automatic) job.data.tokenizer = tokenizer_of_weights(job);
  job.architecture = resolve(job);
  job.architecture.frozen = job.training.freeze;
  job.architecture.lora = lora_of(job);
  if (job.training.length == 0) job.training.length = job.architecture.positions;
  if (!job.tokens.empty()) {
    if (!job.phases.empty()) refuse(job, "training.tokens", "the phases say how many iterations there are; remove this");
    const auto &steps = setting(job, "training.steps"), &tokens = setting(job, "training.tokens");
    if (steps.origin == tokens.origin) refuse(job, "training.tokens", "training.steps says it, too; remove one of them");
    if (steps.origin < tokens.origin) job.training.steps = iterations_for(tokens, job.training.global_batch, job.training.length);
    if (job.training.steps > most_run_steps) refuse(job, "training.tokens", "are more than ", most_run_steps, " iterations");
  }
  check(job, need);
  return job;
}

Job read_job(std::span<const std::string> arguments, Need need) {
  auto job = read_job(arguments, options::environment(), need);
  log::set_level(job.output.log_level);
  return job;
}

search::Constraints constraints_of(const Job::Plan& plan) {
  const auto given = [](int value) { return value > 0 ? std::optional{value} : std::nullopt; };
  return {given(plan.data), given(plan.pipeline), given(plan.tensor),     given(plan.microbatch), plan.schedule, plan.recompute,
          plan.cuts,        given(plan.chunks),   plan.sequence_parallel, plan.shard_optimizer};
}

std::string shared_configuration(const Job& job) {
  std::string out;
  for (const auto& s : job.settings) {
    const bool own =
        s.name == "run.threads" || s.name == "run.zone" || s.name == "run.time-limit" || s.section == "device" || s.section == "output";
    if (!own) out += text(s.name, " = ", s.toml, "\n");
  }
  return out;
}

}  // namespace flotilla::app
