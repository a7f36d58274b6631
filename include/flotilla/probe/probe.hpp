#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/compute/backend.hpp"
#include "flotilla/model/config.hpp"

/// Measures the devices and links of a job. Everything that takes a World is collective over it, called by one thread of each rank, ends in
/// agreement (comm::AgreedError when a rank failed and all are here) and waits for nobody for ever.
namespace flotilla::probe {

/// What to measure; the same on every rank, but for `device`, `threads`, `memory_limit` and `zone`, which are the rank's own.
struct ProbeRequest {
  model::Config model;
  int length = 0;  ///< tokens in a sequence
  std::vector<Precision> precisions{Precision::fp32};
  std::vector<int> tensor_parallel;                  ///< degrees; empty: 1, 2, 4, 8 as far as ranks and heads go
  std::vector<int> sequences;                        ///< microbatch sizes; empty: 1, and more as far as memory and budget go
  int largest_microbatch = 0;                        ///< sequences; the largest that plans will use; 0: not known
  compute::ComputeDevice device{};                   ///< what this rank computes on
  std::optional<cluster::Transport> transport{};     ///< between GPUs, beside the hosts' memory; absent: all that are there
  int threads = 0;                                   ///< compute threads of this rank; 0: topology::threads_per_rank
  Bytes memory_limit;                                ///< what this rank's device may use; 0: available memory / ranks on the node
  std::string zone;                                  ///< this rank's partition, zone or hetjob component
  Seconds budget{6};                                 ///< wall time of all measurements; a large model's least set may take longer
  Seconds deadline{60};                              ///< of each wait for another rank, beyond the time that its measurement may take
  std::function<void(const std::string&)> progress;  ///< told what is being measured next: "operations, fp32, tensor parallel 2, ..."
};

/// Who is here, without measuring anything: enough to decide whether an older profile still stands. The same on every rank.
struct Discovery {
  std::vector<cluster::Device> devices;  ///< by rank
  std::vector<Bytes> memory;             ///< by rank: what its device may use
  std::vector<Bytes> host_memory;        ///< by rank: what it may use of its node's memory
  std::vector<std::string> gpus;         ///< by rank: its GPU, driver and library of products; empty: a CPU
  std::vector<Rank> nccl;                ///< ranks on GPUs that NCCL may join
  std::vector<Rank> device_mpi;          ///< ranks on GPUs whose memory their MPI library takes, by its own word
  std::vector<int> sharers;              ///< by rank: ranks on its device
  std::vector<Bytes> cache;              ///< by rank: its part of the node's last-level caches
  std::vector<char> crowded;             ///< by rank: 1 where it computes on a host that has fewer CPUs for the job than compute threads
  std::vector<double>
      least_throttling;      ///< by rank: compute threads over the CPUs of its control group's quota; 1 where that does not bind
  std::string idle_threads;  ///< a line of advice where a launcher keeps CPUs from the ranks; names the first such host
  std::string software;      ///< versions of what runs underneath; those of all ranks where they differ
  std::string model_fingerprint;
};
Discovery discover(const comm::World&, const ProbeRequest&);

/// Measures device types, operations and links. The same profile, to the last bit, on every rank.
/// Throws Error{unavailable} when no requested shape fits the devices' memory, Error{communication} naming a peer that is lost.
cluster::Profile measure(const comm::World&, const ProbeRequest&);
cluster::Profile measure(const comm::World&, const ProbeRequest&, const Discovery&);

struct ReusePolicy {
  Seconds longest_age{7 * 86400.0};
  bool never = false;  ///< measure whatever is there
};
struct Probed {
  cluster::Profile profile;  ///< the same on every rank
  bool reused = false;
  std::string why_measured;  ///< what was wrong with the older profile; empty when reused
};
/// The profile at `path` when it stands for these devices, else a new one, which rank 0 writes there. A damaged file is measured anew and
/// said so. `path` matters on rank 0 alone; empty: neither read nor written.
Probed measure_or_reuse(const comm::World&, const ProbeRequest&, const std::filesystem::path& path, const ReusePolicy& = {});

}  // namespace flotilla::probe
