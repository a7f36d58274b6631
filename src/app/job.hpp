#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/log.hpp"
#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/data/format.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/options/table.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/constraints.hpp"

namespace flotilla::app {

/// What a user asks for, from job file, environment and command line. docs/formats/job.md says what every field means.
struct Job {
  struct Model {
    std::string name = "gpt2-mini";
    std::string config;  ///< path of a Hugging Face config.json; empty: `name` is built in
    std::optional<double> dropout, attention_dropout;
  } model;
  struct Data {
    std::vector<std::string> train, validation;
    double validation_fraction = 0.05;
    data::Format format = data::Format::automatic;
  } data;
  struct Training {
    std::int64_t steps = 1000;
    int global_batch = 16;  ///< sequences
    int length = 0;         ///< tokens; 0 in the file means the model's positions, never 0 once read
    Precision precision = Precision::fp32;
    std::int64_t seed = 1;
    double learning_rate = 3e-4, minimum_learning_rate = 3e-5;
    std::int64_t warmup_steps = 0;
    double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
    double clip = 1.0;                ///< 0: off
    std::int64_t evaluate_every = 0;  ///< steps; 0: off
    std::int64_t evaluate_sequences = 64;
    bool skip_non_finite = false;
  } training;
  /// Whether to plan again: never, once when a run is resumed, or while it goes on, when a device has become slow.
  enum class Replan : std::uint8_t { never, on_resume, automatic };
  struct Plan {
    std::string file;
    Replan replan = Replan::never;
    int data = 0, pipeline = 0, tensor = 0;  ///< degrees; 0: choose
    int microbatch = 0;                      ///< sequences; 0: choose
    std::optional<plan::ScheduleKind> schedule;
    std::optional<plan::Recompute> recompute;
    std::vector<int> cuts;  ///< layer boundaries of all stages from 0 to model.layers(); empty: choose
    int chunks = 0;         ///< stages that a device holds; 0: choose
    std::optional<bool> sequence_parallel, shard_optimizer;
  } plan;
  struct Device {
    Bytes memory;  ///< 0: what the machine has / ranks on it
  } device;
  struct Checkpoint {
    std::int64_t every = 0;  ///< steps; 0: off
    Seconds every_time;      ///< 0: off
    int keep = 2;            ///< 0: all
  } checkpoint;
  struct Run {
    std::string directory = "flotilla-run";
    std::int64_t log_every = 1;  ///< steps
    int threads = 0;             ///< compute threads of a rank; 0: its share of the CPUs
    std::string zone;            ///< empty: the partition of the rank's hetjob component
    Seconds time_limit;          ///< from the start of the process; 0: Slurm's, if it says
    Seconds stop_slack{60};
    Seconds grace{30};         ///< between SIGTERM and SIGKILL
    bool part_of_job = false;  ///< a component of a heterogeneous job may have no rank
  } run;
  struct Probe {
    std::string file;  ///< empty: profile.json in the run directory
    Seconds fresh_for{7 * 86400.0};
    Seconds budget{8};
  } probe;
  struct Watch {
    Seconds interval{0.5}, deadline{10};
  } watch;
  struct Comm {
    Seconds deadline{600};  ///< of a message, collective or agreement that does not move
  } comm;
  struct Report {
    std::string timeline;    ///< file; empty: none
    std::string prometheus;  ///< file; empty: none
  } report;
  struct Output {
    std::string file;  ///< empty: standard output
    bool json = false;
    log::Level log_level = log::Level::info;
  } output;

  /// `model` resolved, dropout included.
  model::Config architecture;
  /// "" where everything came from elsewhere.
  std::string job_file;
  /// Every option with its value and where it came from: for provenance and for messages.
  std::vector<options::Setting> settings;
  /// The effective configuration as a job file, sources as comments.
  std::string configuration;
};

/// Binds every field to its option. `job` must stay where it is while the table lives.
options::Table job_table(Job&);

/// A model is named once, by model.name or model.config; where both ways are used, the one that was said later (command line before job
/// file) counts: whether that is the configuration. Throws Error where both stand in one source.
bool config_counts(const options::Table&);

/// What a command is going to do with the job.
enum class Need { model, data };

/// Reads the arguments after the command's name (at most one operand: the job file), the environment and the job file; resolves the model;
/// checks. Throws Error: usage for what stands on the command line, else bad_input, naming the place.
Job read_job(std::span<const std::string> arguments, std::span<const std::string> environment, Need = Need::data);
/// With this process's environment. Also sets the log level.
Job read_job(std::span<const std::string> arguments, Need = Need::data);

/// The rules that span fields; read_job() has applied them. Throws Error that names the option, its place and what to write.
void check(const Job&, Need);

/// What a job fixes of its plans, for the planner.
search::Constraints constraints_of(const Job::Plan&);

/// What must be the same when a run is resumed, as text, one "key = value" a line: model, sequence length, global batch and seed. The
/// data's own fingerprint (data::Corpus::fingerprint) belongs beside it.
std::string training_identity(const Job&);

/// What every rank must have read alike, one "key = value" a line: all settings but those that are a rank's own (threads, memory, output).
std::string shared_configuration(const Job&);

/// To the file of -o, whole or not at all, else to standard output. Throws Error{unavailable} where it cannot be written.
void write_output(const Job::Output&, const std::string& text);

}  // namespace flotilla::app
