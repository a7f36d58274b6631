#include "flotilla/simulate/transports.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "flotilla/simulate/profile_cost.hpp"
#include "rank_costs.hpp"

namespace flotilla::simulate {
namespace {

using cluster::Transport;

/// Of an instruction in a step.
int runs_of(const program::RankClass& c, const program::Instruction& instruction) {
  if (!instruction.per_microbatch) return 1;
  const auto* message = instruction.as<program::MessageEnd>();
  if (message == nullptr || message->runs.empty()) return c.microbatches;
  return std::accumulate(message->runs.begin(), message->runs.end(), 0, [](int sum, const auto& runs) { return sum + runs.count; });
}

void add(TransportChoice& choice, const TransportCosts& costs, int runs) {
  for (std::size_t t = 0; t < choice.seconds.size(); ++t)
    if (costs.costs[t]) choice.seconds[t] = choice.seconds[t].value_or(Seconds{}) + static_cast<double>(runs) * costs.costs[t]->time;
}

/// Counts every exchange once: a message at its sender, a collective at its first member.
void add_rank(const program::Program& program, Rank rank, const ProfileCost& cost, Transports& all) {
  const auto& binding = program.ranks[rank.index()];
  if (binding.rank_class < 0) return;
  const auto& c = program.classes[static_cast<std::size_t>(binding.rank_class)];
  for (const auto& instruction : c.instructions) {
    const int sequences = instruction.per_microbatch ? c.shape.sequences : 0;
    if (const auto* message = instruction.as<program::MessageEnd>(); message != nullptr && message->sends()) {
      const Rank to = binding.peers[static_cast<std::size_t>(message->peer)];
      add(all.pairs[{rank.value, to.value}], cost.by_transport(rank, to, message->size.of(sequences)), runs_of(c, instruction));
    }
    const auto* collective = instruction.as<program::Collective>();
    if (collective == nullptr || collective->kind == program::CollectiveKind::reduce_scalars) continue;
    const auto index = static_cast<std::size_t>(binding.groups[static_cast<std::size_t>(collective->group)]);
    const auto& group = program.groups[index];
    if (group.members.size() < 2 || group.members.front() != rank) continue;
    const Bytes element = element_of(program, collective->kind, instruction.per_microbatch);
    add(all.groups[index], cost.by_transport(collective->kind, group, collective->size.of(sequences), element), runs_of(c, instruction));
  }
}

/// Counted where another transport was possible.
void count(const TransportChoice& choice, int TransportUse::*kind, TransportUses& uses) {
  const auto chosen = static_cast<std::size_t>(choice.chosen);
  std::optional<Seconds> other;
  for (std::size_t t = 0; t < choice.seconds.size(); ++t)
    if (t != chosen && choice.seconds[t]) other = std::min(other.value_or(*choice.seconds[t]), *choice.seconds[t]);
  if (!other || !choice.seconds[chosen]) return;
  TransportUse& use = uses[chosen];
  ++(use.*kind);
  use.takes = use.takes + *choice.seconds[chosen];
  use.otherwise = use.otherwise + *other;
}

}  // namespace

const Cost& TransportCosts::chosen(std::optional<cluster::Transport> wanted) const {
  cluster::TransportSeconds seconds;
  std::ranges::transform(costs, seconds.begin(), [](const auto& cost) { return cost ? std::optional{cost->time} : std::nullopt; });
  return *of(cluster::choose_transport(seconds, wanted));
}

Transports choose_transports(const program::Program& program, const ProfileCost& cost) {
  Transports all{std::vector<TransportChoice>(program.groups.size()), {}};
  for (int r = 0; r < static_cast<int>(program.ranks.size()); ++r) add_rank(program, Rank{r}, cost, all);
  const auto choose = [&](TransportChoice& choice) { choice.chosen = cluster::choose_transport(choice.seconds, cost.wanted_transport()); };
  for (auto& choice : all.groups) choose(choice);
  for (auto& [ends, choice] : all.pairs) choose(choice);
  return all;
}

std::vector<int> nccl_connections(const program::Program& program, const Transports& transports) {
  std::vector<int> connections(program.ranks.size(), 0);
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    if (transports.groups[g].chosen != Transport::nccl) continue;
    const auto& members = program.groups[g].members;
    for (const Rank rank : members) connections[rank.index()] += static_cast<int>(members.size()) - 1;
  }
  for (const auto& [ends, choice] : transports.pairs) {
    if (choice.chosen != Transport::nccl) continue;
    ++connections[static_cast<std::size_t>(ends.first)];
    ++connections[static_cast<std::size_t>(ends.second)];
  }
  return connections;
}

std::vector<int> device_mpi_peers(const program::Program& program, const Transports& transports) {
  std::vector<std::set<int>> peers(program.ranks.size());
  for (std::size_t g = 0; g < program.groups.size(); ++g) {
    if (transports.groups[g].chosen != Transport::device_mpi) continue;
    for (const Rank rank : program.groups[g].members)
      for (const Rank other : program.groups[g].members)
        if (other != rank) peers[rank.index()].insert(other.value);
  }
  for (const auto& [ends, choice] : transports.pairs) {
    if (choice.chosen != Transport::device_mpi) continue;
    peers[static_cast<std::size_t>(ends.first)].insert(ends.second);
    peers[static_cast<std::size_t>(ends.second)].insert(ends.first);
  }
  std::vector<int> counts;
  for (const auto& of_rank : peers) counts.push_back(static_cast<int>(of_rank.size()));
  return counts;
}

TransportUses uses_of(const Transports& transports) {
  TransportUses uses{};
  for (const auto& choice : transports.groups) count(choice, &TransportUse::groups, uses);
  for (const auto& [ends, choice] : transports.pairs) count(choice, &TransportUse::pairs, uses);
  return uses;
}

}  // namespace flotilla::simulate
