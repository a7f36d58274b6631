#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/slurm/limits.hpp"
#include "flotilla/slurm/reservation.hpp"

/// What a Slurm site has and what of it is free: read from what sinfo and scontrol answer, so that it can be read again without a Slurm.
namespace flotilla::slurm {

/// Answers of the site's commands, word for word.
struct SlurmAnswers {
  std::string nodes;              ///< sinfo, a line for each node of each partition that this user may see
  std::string partitions;         ///< scontrol show partition
  std::string details;            ///< scontrol --details show node: flags of its state, what of its gres is in use
  std::string configuration;      ///< scontrol show config
  std::string reservations = {};  ///< scontrol show reservation
  std::string accounts = {};      ///< sacctmgr show user, with the user's associations; "" on a site without accounting
  std::string qualities = {};     ///< sacctmgr show qos; likewise
};

/// A command, the file that a recorded answer is kept in, and the answer's place.
struct SlurmQuery {
  std::string file;
  std::vector<std::string> command;
  std::string SlurmAnswers::*answer = nullptr;
  bool optional = false;    ///< a site may not answer
  bool of_cluster = false;  ///< "cluster=NAME" goes behind: one accounting may serve many
};
std::vector<SlurmQuery> slurm_queries();
/// ClusterName of an answer to scontrol show config; "" where it tells none.
std::string cluster_name(const std::string& configuration);

/// Generic resources of a node: "gpu:a100:4(S:0-1)".
struct Gres {
  std::string name, type;  ///< "gpu", "a100"; type "" where the site tells none
  std::int64_t count = 0;
  bool operator==(const Gres&) const = default;
};
/// "gpu:a100:4(S:0-1),nvme:1" and its like; "(null)" and "" are none. Entries of one name and type add up. What is written another way is
/// passed over, but for GPUs: Error{bad_input} of one line.
std::vector<Gres> parse_gres(const std::string&);

struct SlurmNode {
  std::string name;
  std::string state;  ///< as sinfo says it, for people
  std::vector<std::string> features;
  std::vector<Gres> gres, used;
  int shared_gpus = 0;           ///< in use by shards or MPS of other jobs
  int sockets = 1, threads = 1;  ///< threads of a core: Slurm gives whole cores
  int cpus = 0, idle_cpus = 0;   ///< that jobs may have: not those kept for the system
  Bytes memory, idle_memory;     ///< likewise
  bool booting = false;          ///< starting up: not down, though it does not answer yet
  bool usable = false;           ///< a job may be given it, now or once it is idle: not down, drained, failing, in maintenance or reserved
  bool idle = false;             ///< and nothing runs on it
  bool shared = false;           ///< and something runs on a part of it
};

/// Slurm's TRESBillingWeights: billing units of an hour of one CPU, GiB, node, or gres ("gpu", "gpu:a100").
struct BillingWeights {
  double cpu = 0, gibibyte = 0, node = 0;
  std::map<std::string, double> gres;
  bool any() const { return cpu > 0 || gibibyte > 0 || node > 0 || !gres.empty(); }
  bool operator==(const BillingWeights&) const = default;
};
/// "CPU=1.0,Mem=0.25G,GRES/gpu=2.0". Throws Error{bad_input} of one line.
BillingWeights parse_billing_weights(const std::string&);

struct Partition {
  std::string name;
  bool open = false;             ///< up, and jobs of users may be sent to it
  std::optional<Seconds> limit;  ///< longest time of a job; absent: none
  std::optional<Seconds> standard_time;
  Seconds grace{};                   ///< of a preempted job before SIGTERM becomes SIGKILL, beside KillWait
  std::string preemption;            ///< "OFF", "REQUEUE", "CANCEL", ...
  int tier = 0;                      ///< PriorityTier
  int fewest_nodes = 0;              ///< of a job
  std::optional<int> most_nodes;     ///< of a job
  bool exclusive = false;            ///< a job gets whole nodes
  std::string qos;                   ///< whose limits go before all others; "": none
  bool memory_counts = false;        ///< SelectTypeParameters: it is given out as CPUs are; who asks for none may get all of a node
  std::optional<Bytes> cpu_memory;   ///< DefMemPerCPU
  std::optional<Bytes> node_memory;  ///< DefMemPerNode
  std::optional<Bytes> gpu_memory;   ///< DefMemPerGPU
  std::optional<Bytes> most_cpu_memory, most_node_memory;  ///< MaxMemPerCPU, MaxMemPerNode
  std::optional<int> most_cpus;                            ///< MaxCPUsPerNode
  std::optional<int> socket_cpus;                          ///< MaxCPUsPerSocket, since 23.02
  std::optional<int> gpu_cpus;                             ///< DefCpuPerGPU: what the site gives with a GPU
  /// Whose jobs it takes, in lower case; empty: of all.
  std::vector<std::string> accounts, other_than_accounts, qualities, other_than_qualities, submit_hosts;
  BillingWeights weights;
  std::vector<std::size_t> nodes;  ///< places in SlurmCluster::nodes, in sinfo's order
  bool preemptible() const { return preemption != "OFF" && !preemption.empty(); }
};

/// CPUs of the node that jobs of the partition may have.
int cpus_for(const Partition&, const SlurmNode&);
/// Memory of the node that a job of the partition may ask for with so many CPUs: Slurm refuses more, or adds CPUs to it.
Bytes memory_for(const Partition&, const SlurmNode&, int cpus);

struct SlurmCluster {
  std::vector<SlurmNode> nodes;  ///< each once, whatever partitions it is in
  std::vector<Partition> partitions;
  bool largest_counts = false;  ///< PriorityFlags=MAX_TRES: of a node's CPUs, memory and gres the dearest is billed alone
  Seconds kill_wait{30};
  std::string name;     ///< ClusterName
  std::string version;  ///< of Slurm, "22.05.8"; "" where not told
  std::vector<Reservation> reservations;
  std::optional<Seconds> time;  ///< when the site was asked, on its wall clock (Reservation)
  std::vector<AccountLimits> accounts;
  std::vector<QosLimits> qualities;
};

/// Throws Error{bad_input} of one line that names the command and the line of its answer.
SlurmCluster read_slurm_cluster(const SlurmAnswers&);

/// What one job may have in a partition, and what all jobs of the account may have together: the partition's QOS goes before the job's,
/// that before the account. "": the user's standard account, the account's standard QOS.
struct JobLimits {
  SlurmLimits job, all;
  bool operator==(const JobLimits&) const = default;
};
JobLimits limits_for(const SlurmCluster&, const Partition&, const std::string& account, const std::string& qos);

/// Why the partition takes no job of that account and QOS ("": the user's standard) from this host; "" where it does, or where accounting
/// does not say whose they are.
std::string why_closed(const SlurmCluster&, const Partition&, const std::string& account, const std::string& qos, const std::string& host);

/// A job or a component of one, as scontrol show job tells it.
struct JobRecord {
  std::string id;      ///< of this component: what scontrol update wants
  std::string leader;  ///< id of a heterogeneous job; "" of a plain one
  int offset = 0;      ///< in a heterogeneous job
  std::string state, reason, partition;
  int fewest_nodes = 0, most_nodes = 0;
  std::vector<Gres> gres;  ///< that it asks of each node
  std::string features;    ///< --constraint
};
/// The answer to scontrol --oneliner show job ID, its components in order. Throws Error{bad_input}.
std::vector<JobRecord> read_jobs(const std::string& answer);

}  // namespace flotilla::slurm
