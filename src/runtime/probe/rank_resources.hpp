#pragma once
#include <string>
#include <vector>

#include "flotilla/base/units.hpp"
#include "flotilla/topology/threads.hpp"

namespace flotilla::probe {

/// What one rank tells the others about itself.
struct RankResources {
  std::string cpu_model;
  topology::CpuShare cpus;
  int granted_cpus = 0;    ///< NodeTopology::allowed
  Bytes last_level_cache;  ///< of the node
  Bytes memory_available;  ///< of the node, to this process
  Bytes memory_limit;      ///< ProbeRequest's
  int threads = 0;         ///< ProbeRequest's
  std::string zone;
  std::string software;
  std::string gpu_name{}, gpu_uuid{};  ///< of the GPU that it computes on; empty: it computes on CPUs
  Bytes gpu_memory{};
  bool gpu_tf32 = false;    ///< it rounds fp32 operands of products to TF32
  bool nccl = false;        ///< it is there, for that GPU
  bool device_mpi = false;  ///< the MPI library takes that GPU's memory, by its own word
  bool operator==(const RankResources&) const = default;
};

/// As text for other ranks, which may be other builds: one "key value" line each, unknown keys are skipped.
std::string to_text(const RankResources&);
/// Throws Error{communication}.
RankResources facts_from_text(const std::string&);

/// Name of a GPU's device type: the catalogue's where that knows NVIDIA's `name`, with ":1/2" where two ranks share each and "+tf32" where
/// fp32 is multiplied so.
std::string gpu_type_name(const std::string& name, int sharers, bool tf32 = false);

/// Name of a CPU device type: "cpu:AMD EPYC 9654:2t" from "AMD EPYC 9654 96-Core Processor" and 2 threads
/// (short_cpu_name()).
std::string cpu_type_name(const std::string& cpu_model, int threads);

}  // namespace flotilla::probe
