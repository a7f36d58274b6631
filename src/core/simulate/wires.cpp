#include "wires.hpp"

#include <algorithm>

#include "sites.hpp"

namespace flotilla::simulate {
namespace {

using program::Op;

constexpr int out_of = 0, into = 1, directions = 2;
constexpr int most_lanes = 1 << 20;  // more than flows there are
constexpr double rounding = 1e-9;

}  // namespace

Wires::Wires(const program::Program& program, const Kinds& kinds, const InstructionCost& cost)
    : program_{program}, kinds_{kinds}, cost_{cost}, wanted_(directions * kinds.hosts.size(), 0.0) {
  for (const Kind& kind : kinds.kinds) {
    first_stream_.push_back(static_cast<int>(streams_));
    streams_ += kind.slots.size();
  }
  users_.resize(streams_ + kinds.groups.size());
  if (kinds.hosts.empty()) return;
  for (std::size_t k = 0; k < kinds.kinds.size(); ++k) add_streams(k);
  for (std::size_t g = 0; g < kinds.groups.size(); ++g) add_group(g);
  find_contention();
}

void Wires::add_streams(std::size_t k) {
  const Kind& kind = kinds_.kinds[k];
  std::vector<int> sends(kind.slots.size(), 0), whole(kind.slots.size(), 0);
  for (const auto& site : program_.classes[static_cast<std::size_t>(kind.rank_class)].sites)
    if (site.op == Op::send && site.peer >= 0 && static_cast<std::size_t>(site.peer) < kind.slots.size()) {
      const auto slot = static_cast<std::size_t>(kind.slots[static_cast<std::size_t>(site.peer)]);
      ++sends[slot];
      if (site.once) ++whole[slot];
    }
  for (std::size_t slot = 0; slot < sends.size(); ++slot)
    if (sends[slot] > 0 && kind.peers[slot].kind >= 0) add_stream(k, slot, whole[slot] == sends[slot]);
}

/// `once`: the members of a tensor-parallel group send one message together.
void Wires::add_stream(std::size_t k, std::size_t slot, bool once) {
  const Kind& kind = kinds_.kinds[k];
  const Rank self = kind.ranks.front(), peer = program_.ranks[self.index()].peers[slot];
  if (cost_.host(self) == cost_.host(peer)) return;
  const auto degree = [&](const Kind& of) {
    return once ? std::max(1, program_.classes[static_cast<std::size_t>(of.rank_class)].shape.tensor_parallel) : 1;
  };
  const auto there = static_cast<std::size_t>(kind.peers[slot].kind);
  const int lanes = std::min(most_lanes, cost_.lanes(self, peer));
  User& user = users_[static_cast<std::size_t>(first_stream_[k]) + slot];
  const int leave = add_loads(user, k, out_of, degree(kind), lanes);
  const int arrive = add_loads(user, there, into, degree(kinds_.kinds[there]), lanes);
  user.flows = std::max(leave, arrive);
  user.lanes = lanes;
  user.slowdown = std::max(1.0, static_cast<double>(user.flows) / lanes);
}

/// On every simulated host with ranks of the kind. Messages on its own one.
int Wires::add_loads(User& user, std::size_t k, int direction, int divisor, int lanes) const {
  const auto own = static_cast<std::size_t>(kinds_.kinds[k].host);
  for (std::size_t host = 0; host < kinds_.hosts.size(); ++host) {
    const int ranks = kinds_.hosts[host].shares[k];
    const double share = static_cast<double>(std::max(1, ranks / divisor)) / lanes;
    if (ranks > 0) user.loads.push_back({directions * static_cast<int>(host) + direction, share, host == own});
  }
  return std::max(1, kinds_.hosts[own].shares[k] / divisor);
}

/// The scalars of the world take no room.
void Wires::add_group(std::size_t g) {
  const program::Group& group = program_.groups[static_cast<std::size_t>(kinds_.groups[g].group)];
  if (group.kind == program::Group::Kind::world || group.members.empty()) return;
  const Rank first = group.members.front();
  const auto other = std::ranges::find_if(group.members, [&](Rank rank) { return cost_.host(rank) != cost_.host(first); });
  if (other == group.members.end()) return;
  const int lanes = std::min(most_lanes, cost_.lanes(first, *other));
  User& user = users_[streams_ + g];
  for (std::size_t host = 0; host < kinds_.hosts.size(); ++host) {
    const int groups = equal_groups_on(kinds_.hosts[host], g);
    if (groups == 0) continue;
    for (int direction : {out_of, into})
      user.loads.push_back({directions * static_cast<int>(host) + direction, static_cast<double>(groups) / lanes, true});
    user.flows = std::max(user.flows, groups);
  }
  user.lanes = lanes;
  user.slowdown = std::max(1.0, static_cast<double>(user.flows) / lanes);
}

int Wires::equal_groups_on(const HostKind& host, std::size_t kind) const {
  std::vector<int> found;
  for (const auto& member : kinds_.groups[kind].members)
    if (host.shares[static_cast<std::size_t>(member.kind)] > 0) found.push_back(member.kind);
  if (found.empty()) return 0;
  found.clear();
  for (Rank rank : host.ranks)
    for (int group : program_.ranks[rank.index()].groups)
      if (kinds_.group_kinds[static_cast<std::size_t>(group)] == static_cast<int>(kind)) found.push_back(group);
  std::ranges::sort(found);
  return static_cast<int>(std::ranges::unique(found).begin() - found.begin());
}

void Wires::find_contention() {
  std::vector<int> count(wanted_.size(), 0);
  for (const User& user : users_)
    for (const Load& load : user.loads) {
      wanted_[static_cast<std::size_t>(load.wire)] += load.share;
      ++count[static_cast<std::size_t>(load.wire)];
    }
  for (User& user : users_)
    user.contended = std::ranges::any_of(user.loads, [&](const Load& load) {
      const auto wire = static_cast<std::size_t>(load.wire);
      return load.own && count[wire] > 1 && wanted_[wire] > 1 + rounding;
    });
}

}  // namespace flotilla::simulate
