#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/precision.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/cluster/cluster.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/data/format.hpp"
#include "flotilla/model/config.hpp"
#include "flotilla/train/learning_rate.hpp"

namespace flotilla::session {

/// What a run does, beside the plan that it does it under. docs/formats/job.md says what every field means.
struct RunConfig {
  /// A part of a mixture.
  struct DataSource {
    std::string name;
    std::vector<std::string> files, validation;
    std::string manifest;  ///< of more files, one a line
    double weight = 1;
    std::int64_t epochs = 0;  ///< at most; 0: any number
    bool operator==(const DataSource&) const = default;
  };
  struct Data {
    std::vector<std::string> train, validation;
    std::vector<DataSource> sources;  ///< instead of `train` and `validation`
    double validation_fraction = 0.05;
    data::Format format = data::Format::automatic;
    std::string tokenizer;            ///< of files that are text; empty: none, and the bytes of text are its tokens
    std::string field = {};           ///< of a JSON line that is a document; empty: as ingest::TokenizeOptions says
    std::string chat_template = {};   ///< of messages; empty: the one beside the tokenizer
    std::string eod;                  ///< token at the end of every document; empty: the tokenizer's own
    bool separate_documents = false;  ///< tokens attend to their own document alone, and positions begin anew with each
    int document_end = -1;            ///< token that ends a document, beside what files say; -1: none
    std::string cache;                ///< folder of what the tokenizer made; empty: flotilla-tokens beside each file
  } data;
  struct Training {
    std::int64_t steps = 1000;
    int global_batch = 16;               ///< sequences
    int length = 0;                      ///< tokens; 0 in the file means the model's positions, never 0 once read
    std::optional<Precision> precision;  ///< nothing: the checkpoint's on resume, else the plan file's, else what the devices are made for
    std::int64_t seed = 1;
    double learning_rate = 3e-4, minimum_learning_rate = 3e-5;
    std::optional<train::RateSchedule> learning_rate_schedule;  ///< nothing: the checkpoint's on resume, else the cosine
    std::int64_t warmup_steps = 0;
    std::int64_t decay_steps = 0;     ///< of the learning rate, warm-up included; 0: the checkpoint's on resume, else `steps`
    std::int64_t cooldown_steps = 0;  ///< the last of them, in wsd; 0: the checkpoint's on resume, else a tenth
    double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
    double clip = 1.0;                ///< 0: off
    std::vector<std::string> freeze;  ///< patterns of the names of tensors that are not trained: architecture.frozen
    std::int64_t evaluate_every = 0;  ///< steps; 0: off
    std::int64_t evaluate_sequences = 64;
    bool skip_non_finite = false;
    bool deterministic = true;  ///< libraries add in order, where they have a faster or smaller way that does not
  } training;
  /// A part of the run's steps. What it does not say is as in `training`.
  struct Phase {
    std::string name;
    std::int64_t steps = 0;
    int length = 0, global_batch = 0;                            ///< 0: training's
    std::vector<std::string> sources;                            ///< "web", or "web=0.2" with another weight; empty: all
    std::optional<train::RateSchedule> learning_rate_schedule;   ///< over these steps; nothing: the run's goes on
    std::optional<double> learning_rate, minimum_learning_rate;  ///< of that schedule; nothing: training's
    std::int64_t warmup_steps = 0, cooldown_steps = 0;           ///< likewise; a cool-down of 0: a tenth
    bool operator==(const Phase&) const = default;
  };
  std::vector<Phase> phases;  ///< empty: one, which is `training`
  struct Device {
    /// What ranks compute on; nothing: each on a GPU where there is one for it, else on its CPUs.
    std::optional<cluster::DeviceKind> kind;
    Bytes memory;                                                              ///< 0: what the machine has / ranks on it
    bool tf32 = false;                                                         ///< GPUs that can multiply fp32 in TF32
    compute::AttentionKernel attention = compute::AttentionKernel::automatic;  ///< of GPUs
  } device;
  struct Checkpoint {
    std::int64_t every = 0;      ///< steps; 0: off
    Seconds every_time;          ///< 0: off
    Seconds node_mtbf;           ///< mean time between failures of a node, which the time between checkpoints follows from; 0: off
    int keep = 2;                ///< 0: all
    bool asynchronous = false;   ///< written while training goes on, where there is memory for a copy of the state
    Seconds wait_for_room{600};  ///< for the last save, where nobody has said when the process is killed
    std::string local;           ///< folder of each node that the newest goes to first, with %j, %N and $NAME; empty: none
  } checkpoint;
  struct Run {
    std::string directory = "flotilla-run";
    std::int64_t log_every = 1;  ///< steps
    int threads = 0;             ///< compute threads of a rank; 0: its share of the CPUs
    std::string zone;            ///< empty: the partition of the rank's hetjob component
    Seconds time_limit;          ///< from the start of the process; 0: Slurm's, if it says
    Seconds stop_slack{60};
    Seconds grace{30};            ///< between SIGTERM and SIGKILL
    std::string from;             ///< checkpoint of another run that a new run starts from; empty: none
    bool from_optimizer = false;  ///< with the optimizer's state
    bool start_over = false;      ///< begin anew where a run's traces are without a checkpoint that can be read
    bool part_of_job = false;     ///< a component of a heterogeneous job may have no rank
  } run;
  struct Watch {
    Seconds interval{0.5}, deadline{10};
  } watch;
  struct Comm {
    Seconds deadline{600};  ///< of a message, collective or agreement that does not move
    /// All-reduces between GPUs: ours, in the members' order, or NCCL's own, in an order that it chooses.
    enum class Reduction : std::uint8_t { ordered, nccl } reduction = Reduction::ordered;
    /// Between GPUs, where it passes its proof; absent: what is faster by the profile. Else through the hosts' memory.
    std::optional<cluster::Transport> transport{};
  } comm;
  struct Report {
    std::string timeline;     ///< file; empty: none
    std::string prometheus;   ///< file; empty: none
    std::string tensorboard;  ///< folder; empty: none
  } report;

  /// Folder of the Hugging Face model whose weights a new run starts from; empty: weights are drawn at random.
  std::string weights;
  /// Dropout included.
  model::Config architecture;
  /// The effective configuration as a job file, for provenance.
  std::string configuration;
};

}  // namespace flotilla::session
