#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/common/commands.hpp"
#include "app/common/job.hpp"
#include "app/common/table.hpp"
#include "flotilla/base/units.hpp"
#include "flotilla/bench/report.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/slurm/allocation.hpp"

namespace flotilla::app {

enum class Verdict { good, warning, problem, skipped };
std::string to_string(Verdict);

/// What one check found.
struct Finding {
  std::string check;
  Verdict verdict = Verdict::good;
  std::string finding;   ///< one line
  std::string evidence;  ///< what it rests on; "" where the finding says it
  std::string mend;      ///< the line that mends it; "" where nothing need be mended
  bool operator==(const Finding&) const = default;
};

/// Value of an environment variable, or nullptr.
using Variables = std::function<const char*(const char*)>;

/// A GPU that a rank's driver shows.
struct GpuFacts {
  std::string uuid, name;
  std::vector<int> near;   ///< hardware threads on its side of the machine
  Bytes memory, used;      ///< used: by all processes, before this run; 0 where NVML does not say
  std::string no_kernels;  ///< why this build computes nothing there; "": it does
  bool operator==(const GpuFacts&) const = default;
};

/// What the first rank of a node says of the node itself: what bench's stage 0 reads, and how fast the run directory's file system is.
struct NodeFacts {
  std::vector<bench::Property> properties;
  BytesPerSecond write{}, read{};  ///< 0: not measured
  std::string no_rates;            ///< why not
  bool operator==(const NodeFacts&) const = default;
};

/// What one rank says of itself; of a login node there is one.
struct RankFacts {
  std::string host;
  std::vector<int> usable;                                    ///< hardware threads that it may run on
  int processing_units = 0;                                   ///< of its node
  double cpu_limit = 0;                                       ///< of its control group; 0: none
  std::vector<std::pair<std::string, std::string>> software;  ///< library: version
  double clock = 0;                                           ///< seconds since 1970, read together with the others
  std::string directory_trouble;                              ///< why the run directory will not do here; "": it will
  bool sees_token = true;                                     ///< the file that rank 0 has just written there
  std::string partition;                                      ///< of its component
  int gpus_given = 0;                                         ///< by Slurm, to the rank's step on its node
  int gpus_there = 0;                                         ///< device files of its node that it sees
  std::string gpus_visible;                                   ///< CUDA_VISIBLE_DEVICES
  std::string gpu_driver;                                     ///< "CUDA 13.0 (580.65.06)"; "": none
  std::string why_no_gpu;                                     ///< why the driver shows none
  std::vector<GpuFacts> gpus;                                 ///< in the driver's order
  std::string why_no_nccl, why_no_device_mpi;                 ///< why its GPUs cannot exchange so; "": they can, by the library's word
  std::optional<NodeFacts> node;                              ///< of the first rank of each host
  bool operator==(const RankFacts&) const = default;
};
std::string to_json(const RankFacts&);
/// Throws Error{bad_input}.
RankFacts rank_facts_from(const std::string& json);

/// Pure judgements. Ranks in order.
std::vector<Finding> judge_ranks(const std::vector<RankFacts>&, const std::string& run_directory);
Finding judge_world(int ranks, int launched, const std::string& why_not, const std::vector<RankFacts>&);
Finding judge_binding(const std::vector<RankFacts>&);
/// What Slurm gave of GPUs, what the ranks see of them, and whether each rank has one of its own that this build has kernels for.
Finding judge_gpus(const std::vector<RankFacts>&);
/// How the GPUs of the ranks can exchange, and whether that is what the job wants; nothing where there are none.
std::optional<Finding> judge_transports(const std::vector<RankFacts>&, std::optional<cluster::Transport> wanted);
/// Network cards, memlock, governor, huge pages, limits of control groups, file system, of the ranks that know their node.
std::vector<Finding> judge_nodes(const std::vector<RankFacts>&, const std::string& run_directory);
Finding judge_versions(const std::vector<RankFacts>&);
Finding judge_clocks(const std::vector<RankFacts>&);
Finding judge_directory(const std::vector<RankFacts>&, const std::string& run_directory);
/// Whether every component of a heterogeneous job has ranks in the world.
Finding judge_components(const std::optional<slurm::SlurmAllocation>&, const std::vector<RankFacts>&, const Variables&);
/// Of what `srun --mpi=list` said on standard output and error, and of MpiDefault ("" where unknown).
/// Whether it is an answer to srun --mpi=list: "MPI plugin types are..." since Slurm 22.05, "MPI types are..." before.
bool lists_mpi(const std::string& answer);
Finding judge_pmix(const std::string& list, const std::string& standard);
/// Of what `ompi_info --parsable` said.
Finding judge_open_mpi(const std::string& components, const Variables&);
/// Processes that a launcher started without a PMIx to find each other by; nothing where there is none of that. Asked before MPI starts.
std::optional<Finding> judge_singletons(const Variables&);

/// Checks that need no launcher: Slurm's PMIx, Open MPI's pieces, the profile.
std::vector<Finding> check_machine(const Job&, const Variables&);
/// This rank's own. `token`: rank 0 has written it into the run directory.
RankFacts rank_facts(const Job&);
/// This rank's node; writes and removes a small file in the run directory.
NodeFacts node_facts(const Job&);
/// Makes the run directory where there is none, writes and removes a file there. "" or why it will not do.
std::string try_directory(const std::string& directory);

std::string doctor_text(const std::vector<Finding>&, int width);
/// docs/doctor.md describes it.
std::string doctor_json(const std::vector<Finding>&);

/// `flotilla doctor [JOB]`: on a login node, or under a launcher on every rank. Exit code unavailable where something must be mended.
/// Throws Error{usage, bad_input}.
int doctor(std::span<const std::string> arguments);

}  // namespace flotilla::app
