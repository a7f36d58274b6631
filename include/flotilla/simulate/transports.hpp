#pragma once
#include <map>
#include <utility>
#include <vector>

#include "flotilla/cluster/transports.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/simulate/forecast.hpp"

namespace flotilla::simulate {

class ProfileCost;

/// What a step's exchanges between the same devices take together over each transport that joins them, and which one they take.
struct TransportChoice {
  cluster::TransportSeconds seconds{};
  cluster::Transport chosen = cluster::Transport::host;
};

/// How what a program exchanges moves between GPUs: one transport for each group and each pair.
struct Transports {
  std::vector<TransportChoice> groups;                   ///< by Program::groups: sums and gathers, but for scalars, which hosts sum
  std::map<std::pair<int, int>, TransportChoice> pairs;  ///< messages, by sender and receiver
};

/// The profile's wanted transport, else what takes least. Pure; the same on every rank of a job. Messages and collectives count with full
/// microbatches.
Transports choose_transports(const program::Program&, const ProfileCost&);

/// By rank: other members that it meets over NCCL, once for each communicator.
std::vector<int> nccl_connections(const program::Program&, const Transports&);
/// By rank: other ranks that it meets by MPI on device memory, each once.
std::vector<int> device_mpi_peers(const program::Program&, const Transports&);

/// What was chosen, where there was a choice.
TransportUses uses_of(const Transports&);

}  // namespace flotilla::simulate
