#pragma once
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "flotilla/cluster/cluster.hpp"
#include "flotilla/program/program.hpp"
#include "flotilla/simulate/forecast.hpp"

namespace flotilla::simulate {

class ProfileCost;

/// What a step's exchanges between the same devices take together over each transport that joins them, and the transport that takes least.
struct TransportChoice {
  std::array<std::optional<Seconds>, cluster::transport_count> seconds{};  ///< by transport; absent: it does not join them
  cluster::Transport least() const;
};

/// How what a program exchanges moves between GPUs: one transport for each group and each pair.
struct Transports {
  std::vector<TransportChoice> groups;                   ///< by Program::groups: sums and gathers, but for scalars, which hosts sum
  std::map<std::pair<int, int>, TransportChoice> pairs;  ///< messages, by sender and receiver
};

/// Pure; the same on every rank of a job. Messages and collectives count with full microbatches.
Transports choose_transports(const program::Program&, const ProfileCost&);

/// By rank: other members that it meets over NCCL, once for each communicator.
std::vector<int> nccl_connections(const program::Program&, const Transports&);

/// What was chosen, where there was a choice.
TransportUses uses_of(const Transports&);

}  // namespace flotilla::simulate
