#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/base/log.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/options/table.hpp"
#include "flotilla/plan/plan.hpp"
#include "flotilla/search/constraints.hpp"
#include "flotilla/session/run_config.hpp"

namespace flotilla::app {

/// What a user asks for, from job file, environment and command line: a run, and how it is planned. docs/formats/job.md says what every
/// field means. Once read, `architecture` is `model` resolved.
struct Job : session::RunConfig {
  struct Model {
    std::string name = "gpt2-mini";
    std::string config;  ///< path of a Hugging Face config.json; empty: `name` is built in
    std::optional<double> dropout, attention_dropout;
  } model;
  std::string tokens;  ///< training.tokens, which decides training.steps; empty: not told
  struct LoraOptions {
    int rank = 0;                      ///< 0: none
    double alpha = 0;                  ///< 0: the rank
    std::vector<std::string> targets;  ///< empty: all
  } lora;
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
  struct Probe {
    std::string file;  ///< empty: profile.json in the run directory
    Seconds fresh_for{7 * 86400.0};
    Seconds budget{6};
  } probe;
  struct Output {
    std::string file;  ///< empty: standard output
    bool json = false;
    log::Level log_level = log::Level::info;
  } output;

  /// "" where everything came from elsewhere.
  std::string job_file;
  /// Every option with its value and where it came from: for provenance and for messages.
  std::vector<options::Setting> settings;
};

/// Binds every field to its option. `job` must stay where it is while the table lives.
options::Table job_table(Job&);

/// A model is named once, by model.name or model.config; where both ways are used, the one that was said later (command line before job
/// file) counts: whether that is the configuration. Throws Error where both stand in one source.
bool config_counts(const options::Table&);

/// The configuration of the model whose weights the job names: the config.json beside them, or, where that is gone, the copy that the run
/// has kept.
std::string config_of_weights(const Job&);

/// What a command is going to do with the job.
enum class Need { model, data };

/// Of the table and of the entries of its lists: "data.source[1].weight" for the weight of the first.
std::vector<options::Setting> all_settings(const options::Table&);

/// Reads the arguments after the command's name (at most one operand: the job file), the environment and the job file; resolves the model;
/// checks. Throws Error: usage for what stands on the command line, else bad_input, naming the place.
Job read_job(std::span<const std::string> arguments, std::span<const std::string> environment, Need = Need::data);
/// With this process's environment. Also sets the log level.
Job read_job(std::span<const std::string> arguments, Need = Need::data);

/// The rules that span fields; read_job() has applied them. Throws Error that names the option, its place and what to write.
void check(const Job&, Need);

/// What a job fixes of its plans, for the planner.
search::Constraints constraints_of(const Job::Plan&);

/// What every rank must have read alike, one "key = value" a line: all settings but those that are a rank's own (threads, memory, output).
std::string shared_configuration(const Job&);

/// To the file of -o, whole or not at all, else to standard output, as printable_output(). Throws Error{unavailable} where it cannot be
/// written.
void write_output(const Job::Output&, const std::string& text);
/// To standard output, as they are.
void write_bytes(std::string_view);

}  // namespace flotilla::app
