#pragma once
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"

/// Batch scripts, for the shell library slurm/flotilla.sh. Pure: what goes in comes from users and from the site, and none of it is ever
/// read by a shell but as one quoted word.
namespace flotilla::slurm {

/// What one partition is asked for: a job, or a component of a heterogeneous one.
struct NodeRequest {
  std::string partition;
  int fewest_nodes = 1, most_nodes = 1;  ///< a range, so that a requeued job may start smaller; counts where nodes are asked for whole
  int tasks_per_node = 1;
  int cpus_per_task = 1;
  std::string gres;                  ///< of a node, "gpu:a100:4"; "": none
  std::string constraint;            ///< a feature; "": none
  std::vector<std::string> modules;  ///< loaded on its nodes only
  bool whole_nodes = false;          ///< --exclusive
  std::optional<Bytes> memory = {};  ///< of a node, where the script names none for all
};

struct Script {
  std::string name;                  ///< of the job; what cannot stand there becomes '_'
  std::vector<std::string> remarks;  ///< lines for people at the top
  std::vector<NodeRequest> components;
  std::optional<Seconds> time;  ///< rounded up to minutes; absent: the partition's standard
  std::optional<Bytes> node_memory;
  std::string account, qos;         ///< "": the site's standard
  std::string log;                  ///< of the batch script and the steps, with Slurm's patterns: "flotilla-%j.log"
  std::string signal = "USR2";      ///< that the ranks are told to save with
  std::string on_no_plan = "stop";  ///< or "requeue", "wait": when what is left cannot hold the model
  Seconds warning{120};             ///< the batch script is told so long before the time limit
  int most_requeues = 100;
  std::string folder;                  ///< absolute: where file names of the job begin
  std::string library;                 ///< absolute: slurm/flotilla.sh
  std::string program;                 ///< absolute: flotilla
  std::vector<std::string> arguments;  ///< of it: "train", the job file, ...
  std::string run_directory;
  std::vector<std::string> modules;  ///< loaded before anything else
};

/// The script: a plain job where there is one component. Throws Error{bad_input} of one line for a value that sbatch's #SBATCH lines have
/// no way to say.
std::string script_text(const Script&);

/// The word as a shell reads it back: between single quotes, unless it holds nothing that a shell looks at; of one line always, for bash.
/// Throws Error{bad_input} for a word with a zero byte: nobody can pass that on.
std::string shell_word(const std::string&);

/// Whether a #SBATCH line may hold the word as it is: letters of any script, digits and what names, lists, ranges and constraints are
/// written with.
bool is_plain(const std::string&);

}  // namespace flotilla::slurm
