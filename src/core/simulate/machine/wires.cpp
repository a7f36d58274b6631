#include "wires.hpp"

#include <algorithm>
#include <limits>

#include "network/oversubscription.hpp"

namespace flotilla::simulate {
namespace {

constexpr int out_of = 0, into = 1, directions = 2;
constexpr int most_lanes = 1 << 20;  // more than flows there are
constexpr double rounding = 1e-9;
constexpr Bytes reference_size{1 << 20}, reference_element{4};  // by which rates of cards and uplinks are compared

/// Flows that pass an uplink at once at the full rate of their cards.
double room(double card_seconds, double uplink_seconds) {
  return card_seconds > 0 && uplink_seconds > 0 ? card_seconds / uplink_seconds : std::numeric_limits<double>::infinity();
}

}  // namespace

Wires::Wires(const program::Program& program, const RankPartition& kinds, const InstructionCost& cost)
    : program_{program},
      kinds_{kinds},
      cost_{cost},
      hosts_{kinds.hosts, &EquivalentRanks::host, 0},
      uplinks_{kinds.uplinks, &EquivalentRanks::uplink, directions * static_cast<int>(kinds.hosts.size())},
      wanted_(directions * (kinds.hosts.size() + kinds.uplinks.size()), 0.0) {
  for (const EquivalentRanks& kind : kinds.kinds) {
    first_stream_.push_back(static_cast<int>(streams_));
    streams_ += kind.slots.size();
  }
  users_.resize(streams_ + kinds.groups.size());
  if (wanted_.empty()) return;
  for (std::size_t k = 0; k < kinds.kinds.size(); ++k) add_streams(k);
  for (std::size_t g = 0; g < kinds.groups.size(); ++g) add_group(g);
  find_contention();
}

void Wires::add_streams(std::size_t k) {
  const EquivalentRanks& kind = kinds_.kinds[k];
  std::vector<int> sends(kind.slots.size(), 0), whole(kind.slots.size(), 0);
  for (const auto& instruction : program_.classes[static_cast<std::size_t>(kind.rank_class)].instructions)
    if (const auto* message = instruction.as<program::MessageEnd>();
        message != nullptr && message->sends() && message->peer >= 0 && static_cast<std::size_t>(message->peer) < kind.slots.size()) {
      const auto slot = static_cast<std::size_t>(kind.slots[static_cast<std::size_t>(message->peer)]);
      ++sends[slot];
      if (message->once) ++whole[slot];
    }
  for (std::size_t slot = 0; slot < sends.size(); ++slot)
    if (sends[slot] > 0 && kind.peers[slot].kind >= 0) add_stream(k, slot, whole[slot] == sends[slot]);
}

/// `once`: the members of a tensor-parallel group send one message together.
void Wires::add_stream(std::size_t k, std::size_t slot, bool once) {
  const EquivalentRanks& kind = kinds_.kinds[k];
  const Rank self = kind.ranks.front(), peer = program_.ranks[self.index()].peers[slot];
  const bool leaves_host = cost_.host(self) != cost_.host(peer), passes_uplinks = cost_.uplink(self) != cost_.uplink(peer);
  if (!leaves_host && !passes_uplinks) return;
  const auto degree = [&](const EquivalentRanks& of) {
    return once ? std::max(1, program_.classes[static_cast<std::size_t>(of.rank_class)].shape.tensor_parallel) : 1;
  };
  const auto there = static_cast<std::size_t>(kind.peers[slot].kind);
  const Senders leaving{k, out_of, degree(kind)}, arriving{there, into, degree(kinds_.kinds[there])};
  const int lanes = std::min(most_lanes, cost_.lanes(self, peer));
  User& user = users_[static_cast<std::size_t>(first_stream_[k]) + slot];
  user.lanes = lanes;
  if (leaves_host) user.flows.cards = std::max(add_loads(user, hosts_, leaving, lanes), add_loads(user, hosts_, arriving, lanes));
  user.slowdown = std::max(1.0, static_cast<double>(user.flows.cards) / lanes);
  if (!passes_uplinks) return;
  const auto time = [&](const Flows& flows) { return cost_.message(self, peer, reference_size, flows).time; };
  const double alone = card_seconds(time, lanes), out = room(alone, uplink_seconds(time, 1, 0)),
               in = room(alone, uplink_seconds(time, 0, 1));
  user.flows.out = add_loads(user, uplinks_, leaving, out);
  user.flows.in = add_loads(user, uplinks_, arriving, in);
  user.slowdown = std::max({user.slowdown, user.flows.out / out, user.flows.in / in});
}

/// On every simulated place with ranks of the kind. Messages that pass its own one together.
int Wires::add_loads(User& user, const WirePlaces& places, const Senders& senders, double room) const {
  const int own = kinds_.kinds[senders.kind].*places.own;
  if (own < 0) return 1;
  const auto together = [&](const PlaceKind& place) { return std::max(1, place.shares[senders.kind] / senders.divisor); };
  for (std::size_t p = 0; p < places.kinds.size(); ++p)
    if (places.kinds[p].shares[senders.kind] > 0)
      user.loads.push_back({places.first_wire + directions * static_cast<int>(p) + senders.direction, together(places.kinds[p]) / room,
                            static_cast<int>(p) == own});
  return together(places.kinds[static_cast<std::size_t>(own)]);
}

bool Wires::spans(const program::Group& group, bool uplinks) const {
  const Rank first = group.members.front();
  return std::ranges::any_of(group.members, [&](Rank rank) {
    return uplinks ? cost_.uplink(rank) != cost_.uplink(first) : cost_.host(rank) != cost_.host(first);
  });
}

/// The scalars of the world take no room.
void Wires::add_group(std::size_t g) {
  const program::Group& group = program_.groups[static_cast<std::size_t>(kinds_.groups[g].group)];
  if (group.kind == program::Group::Kind::world || group.members.empty() || !spans(group, false)) return;
  const Rank first = group.members.front();
  const auto other = std::ranges::find_if(group.members, [&](Rank rank) { return cost_.host(rank) != cost_.host(first); });
  const int lanes = std::min(most_lanes, cost_.lanes(first, *other));
  User& user = users_[streams_ + g];
  user.lanes = lanes;
  user.flows.cards = add_group_loads(user, hosts_, g, lanes);
  user.slowdown = std::max(1.0, static_cast<double>(user.flows.cards) / lanes);
  if (!spans(group, true)) return;
  const auto time = [&](const Flows& flows) {
    return cost_.collective(program::CollectiveKind::all_reduce, group, reference_size, reference_element, flows).time;
  };
  const double of_uplink = room(card_seconds(time, lanes), uplink_seconds(time, 1, 0));
  user.flows.out = add_group_loads(user, uplinks_, g, of_uplink);
  user.slowdown = std::max(user.slowdown, user.flows.out / of_uplink);
}

/// On every simulated place where such groups have members. The most that meet at one.
int Wires::add_group_loads(User& user, const WirePlaces& places, std::size_t g, double room) const {
  int most = 1;
  for (std::size_t p = 0; p < places.kinds.size(); ++p) {
    const int groups = equal_groups_on(places.kinds[p], g);
    if (groups == 0) continue;
    for (int direction : {out_of, into})
      user.loads.push_back({places.first_wire + directions * static_cast<int>(p) + direction, groups / room, true});
    most = std::max(most, groups);
  }
  return most;
}

int Wires::equal_groups_on(const PlaceKind& place, std::size_t kind) const {
  std::vector<int> found;
  for (const auto& member : kinds_.groups[kind].members)
    if (place.shares[static_cast<std::size_t>(member.kind)] > 0) found.push_back(member.kind);
  if (found.empty()) return 0;
  found.clear();
  for (Rank rank : place.ranks)
    for (int group : program_.ranks[rank.index()].groups)
      if (kinds_.group_kinds[static_cast<std::size_t>(group)] == static_cast<int>(kind)) found.push_back(group);
  std::ranges::sort(found);
  return static_cast<int>(std::ranges::unique(found).begin() - found.begin());
}

void Wires::find_contention() {
  std::vector<int> count(wanted_.size(), 0);
  for (const User& user : users_)
    for (const WireLoad& load : user.loads) {
      wanted_[static_cast<std::size_t>(load.wire)] += load.share;
      ++count[static_cast<std::size_t>(load.wire)];
    }
  for (User& user : users_)
    user.contended = std::ranges::any_of(user.loads, [&](const WireLoad& load) {
      const auto wire = static_cast<std::size_t>(load.wire);
      return load.own && count[wire] > 1 && wanted_[wire] > 1 + rounding;
    });
}

}  // namespace flotilla::simulate
