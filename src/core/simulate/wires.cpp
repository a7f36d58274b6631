#include "wires.hpp"

#include <algorithm>
#include <cmath>

#include "sites.hpp"

namespace flotilla::simulate {
namespace {

using program::Op;

constexpr int out_of = 0, into = 1, directions = 2;
constexpr int most_lanes = 64;  // that are told apart on one wire
constexpr double rounding = 1e-9;

/// Of the wire, by a number of equal messages over their link.
double share_of(int messages, int link_lanes) { return static_cast<double>(std::min(messages, link_lanes)) / link_lanes; }

}  // namespace

Wires::Wires(const program::Program& program, const Kinds& kinds, const InstructionCost& cost)
    : program_{program}, kinds_{kinds}, cost_{cost}, groups_(kinds.groups.size()), wires_(directions * kinds.hosts.size()) {
  for (const Kind& kind : kinds.kinds) {
    first_stream_.push_back(static_cast<int>(streams_.size()));
    streams_.resize(streams_.size() + kind.slots.size());
  }
  if (kinds.hosts.empty()) return;
  for (std::size_t k = 0; k < kinds.kinds.size(); ++k) add_streams(k);
  for (std::size_t g = 0; g < groups_.size(); ++g) add_group(g);
  size_wires();
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
  const int lanes = cost_.lanes(self, peer);
  Stream& stream = streams_[static_cast<std::size_t>(first_stream_[k]) + slot];
  stream.out = loads_of(k, out_of, degree(kind), lanes);
  stream.in = loads_of(there, into, degree(kinds_.kinds[there]), lanes);
  stream.flows = std::max(stream.out.front().messages, stream.in.front().messages);
}

/// On every simulated host with ranks of the kind, its own first.
std::vector<Wires::Load> Wires::loads_of(std::size_t k, int direction, int divisor, int link_lanes) const {
  std::vector<Load> loads;
  const auto own = static_cast<std::size_t>(kinds_.kinds[k].host);
  const auto add = [&](std::size_t host) {
    const int ranks = kinds_.hosts[host].shares[k];
    if (ranks > 0) loads.push_back({directions * static_cast<int>(host) + direction, std::max(1, ranks / divisor), link_lanes, 1});
  };
  add(own);
  for (std::size_t host = 0; host < kinds_.hosts.size(); ++host)
    if (host != own) add(host);
  return loads;
}

void Wires::add_group(std::size_t g) {
  const GroupKind& kind = kinds_.groups[g];
  const auto& members = program_.groups[static_cast<std::size_t>(kind.group)].members;
  if (program_.groups[static_cast<std::size_t>(kind.group)].kind == program::Group::Kind::world) return;  // scalars take no room
  const auto elsewhere = [&](Rank rank) { return cost_.host(rank) != cost_.host(members.front()); };
  const auto other = std::ranges::find_if(members, elsewhere);
  if (other == members.end()) return;
  const int lanes = cost_.lanes(members.front(), *other);
  for (std::size_t host = 0; host < kinds_.hosts.size(); ++host) {
    int ranks = 0;
    for (const auto& member : kind.members) ranks += kinds_.hosts[host].shares[static_cast<std::size_t>(member.kind)];
    if (ranks == 0) continue;
    for (int direction : {out_of, into}) groups_[g].loads.push_back({directions * static_cast<int>(host) + direction, ranks, lanes, 1});
    groups_[g].flows = std::max(groups_[g].flows, equal_groups_on(kinds_.hosts[host], g));
  }
}

int Wires::equal_groups_on(const HostKind& host, std::size_t kind) const {
  std::vector<int> found;
  for (Rank rank : host.ranks)
    for (int group : program_.ranks[rank.index()].groups)
      if (kinds_.group_kinds[static_cast<std::size_t>(group)] == static_cast<int>(kind)) found.push_back(group);
  std::ranges::sort(found);
  return static_cast<int>(std::ranges::unique(found).begin() - found.begin());
}

template <class Visit>
void Wires::visit_loads(Visit visit) {
  for (Stream& stream : streams_) {
    for (Load& load : stream.out) visit(load);
    for (Load& load : stream.in) visit(load);
  }
  for (GroupUse& group : groups_)
    for (Load& load : group.loads) visit(load);
}

void Wires::size_wires() {
  visit_loads([&](Load& load) {
    Wire& wire = wires_[static_cast<std::size_t>(load.wire)];
    wire.lanes = std::max(wire.lanes, std::min(load.link_lanes, most_lanes));
    wire.wanted += share_of(load.messages, load.link_lanes);
  });
  visit_loads([&](Load& load) {
    Wire& wire = wires_[static_cast<std::size_t>(load.wire)];
    load.lanes = std::max(1, static_cast<int>(std::ceil(share_of(load.messages, load.link_lanes) * wire.lanes - rounding)));
    wire.free.resize(static_cast<std::size_t>(wire.lanes), 0.0);
  });
  for (Stream& stream : streams_) stream.contended = !stream.out.empty() && (crowded(stream.out.front()) || crowded(stream.in.front()));
  for (GroupUse& group : groups_) group.contended = std::ranges::any_of(group.loads, [&](const Load& load) { return crowded(load); });
}

bool Wires::crowded(const Load& load) const { return wires_[static_cast<std::size_t>(load.wire)].wanted > 1 + rounding; }

/// Takes the lanes that are free first.
double Wires::take(const Load& load, double ready, double seconds) {
  auto& free = wires_[static_cast<std::size_t>(load.wire)].free;
  const auto last = free.begin() + load.lanes - 1;
  std::nth_element(free.begin(), last, free.end());
  const double start = std::max(ready, *last);
  std::fill(free.begin(), last + 1, start + seconds);
  return start;
}

double Wires::book(const std::vector<Load>& loads, double ready, double seconds) {
  const double start = take(loads.front(), ready, seconds);
  for (std::size_t l = 1; l < loads.size(); ++l) take(loads[l], ready, seconds);
  return start;
}

double Wires::gather(int group, double ready, double seconds) {
  const auto& loads = groups_[static_cast<std::size_t>(group)].loads;
  double start = ready;
  for (const Load& load : loads) {
    auto& free = wires_[static_cast<std::size_t>(load.wire)].free;
    std::nth_element(free.begin(), free.begin() + load.lanes - 1, free.end());
    start = std::max(start, free[static_cast<std::size_t>(load.lanes) - 1]);
  }
  for (const Load& load : loads) take(load, start, seconds);
  return start;
}

}  // namespace flotilla::simulate
