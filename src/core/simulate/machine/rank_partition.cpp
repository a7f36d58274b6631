#include "rank_partition.hpp"

#include <algorithm>
#include <unordered_map>

#include "flotilla/base/error.hpp"
#include "refinement.hpp"

namespace flotilla::simulate {
namespace {

using program::Program;

void require_references(const Program& program) {
  std::vector<std::size_t> listed(program.groups.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const auto& binding = program.ranks[r];
    FLOTILLA_REQUIRE(binding.rank_class < static_cast<int>(program.classes.size()), ErrorKind::internal, "rank ", r,
                     " of the program is of class ", binding.rank_class, "; there are ", program.classes.size());
    for (Rank peer : binding.peers)
      FLOTILLA_REQUIRE(peer.valid() && peer.index() < program.ranks.size(), ErrorKind::internal, "rank ", r, " of the program names peer ",
                       peer, "; the program has ", program.ranks.size(), " ranks");
    for (int group : binding.groups) {
      FLOTILLA_REQUIRE(group >= 0 && group < static_cast<int>(program.groups.size()), ErrorKind::internal, "rank ", r,
                       " of the program names group ", group, "; there are ", program.groups.size());
      ++listed[static_cast<std::size_t>(group)];
    }
  }
  for (std::size_t g = 0; g < listed.size(); ++g) {
    for (Rank member : program.groups[g].members)
      FLOTILLA_REQUIRE(member.valid() && member.index() < program.ranks.size(), ErrorKind::internal, "group ", g,
                       " of the program has member ", member, "; the program has ", program.ranks.size(), " ranks");
    FLOTILLA_REQUIRE(listed[g] == program.groups[g].members.size(), ErrorKind::internal, "group ", g, " of the program (",
                     to_string(program.groups[g].kind), ") has ", program.groups[g].members.size(), " members, but ", listed[g],
                     " ranks name it");
  }
}

EquivalentRanks kind_of(const Program& program, const std::vector<int>& colors, std::size_t rank) {
  const auto& binding = program.ranks[rank];
  EquivalentRanks kind;
  kind.rank_class = binding.rank_class;
  for (Rank peer : binding.peers) {
    kind.slots.push_back(slot_of(binding, peer));
    kind.peers.push_back({colors[peer.index()], slot_of(program.ranks[peer.index()], Rank{static_cast<int>(rank)})});
  }
  return kind;
}

std::vector<EquivalentRanks> kinds_of(const Program& program, const std::vector<int>& colors) {
  std::vector<EquivalentRanks> kinds;
  std::vector<std::size_t> sizes;
  for (std::size_t r = 0; r < colors.size(); ++r) {
    if (colors[r] < 0) continue;
    if (colors[r] == static_cast<int>(kinds.size())) kinds.push_back(kind_of(program, colors, r)), sizes.push_back(0);
    ++sizes[static_cast<std::size_t>(colors[r])];
  }
  for (std::size_t k = 0; k < kinds.size(); ++k) kinds[k].ranks.reserve(sizes[k]);
  for (std::size_t r = 0; r < colors.size(); ++r)
    if (colors[r] >= 0) kinds[static_cast<std::size_t>(colors[r])].ranks.push_back(Rank{static_cast<int>(r)});
  return kinds;
}

/// (kind, slot) of every member, by group.
std::vector<std::vector<GroupKind::Member>> members_of_groups(const Program& program, const std::vector<int>& colors) {
  std::vector<std::vector<GroupKind::Member>> members(program.groups.size());
  for (std::size_t g = 0; g < members.size(); ++g) members[g].reserve(program.groups[g].members.size());
  for (std::size_t r = 0; r < colors.size(); ++r)
    for (std::size_t slot = 0; colors[r] >= 0 && slot < program.ranks[r].groups.size(); ++slot)
      members[static_cast<std::size_t>(program.ranks[r].groups[slot])].push_back({colors[r], static_cast<int>(slot)});
  return members;
}

/// Groups of equal kinds of members, in order of the first of them.
void add_group_kinds(const Program& program, const Refinement& refinement, RankPartition& kinds) {
  auto members = members_of_groups(program, refinement.colors());
  std::unordered_map<Hash, int> ids;
  for (std::size_t g = 0; g < members.size(); ++g) {
    const auto [found, fresh] = ids.try_emplace(refinement.hash_of_group(g), static_cast<int>(kinds.groups.size()));
    kinds.group_kinds.push_back(found->second);
    if (!fresh) continue;
    std::ranges::sort(members[g], {}, [](const GroupKind::Member& m) { return std::pair{m.kind, m.slot}; });
    members[g].erase(std::unique(members[g].begin(), members[g].end()), members[g].end());
    kinds.groups.push_back({static_cast<int>(g), std::move(members[g])});
  }
  for (EquivalentRanks& kind : kinds.kinds)
    for (int group : program.ranks[kind.ranks.front().index()].groups)
      kind.groups.push_back(kinds.group_kinds[static_cast<std::size_t>(group)]);
}

/// The commonest kind of host, or uplink, among the ranks; of equally common ones the first.
Hash commonest(const std::vector<Rank>& ranks, const Refinement& refinement, Shared what) {
  std::unordered_map<Hash, std::size_t> places;
  std::vector<std::pair<Hash, int>> counts;
  std::size_t at = 0;
  for (Rank rank : ranks) {
    const Hash place = refinement.hash_of(what, rank);
    if (counts.empty() || counts[at].first != place) at = places.try_emplace(place, counts.size()).first->second;
    if (at == counts.size()) counts.emplace_back(place, 0);
    ++counts[at].second;
  }
  return std::ranges::max_element(counts, {}, &std::pair<Hash, int>::second)->first;
}

PlaceKind place_kind_of(const Refinement& refinement, Shared what, Rank rank, std::size_t kinds) {
  PlaceKind place{refinement.ranks_beside(what, rank), std::vector<int>(kinds, 0)};
  for (Rank beside : place.ranks) ++place.shares[static_cast<std::size_t>(refinement.colors()[beside.index()])];
  return place;
}

/// Kinds of places, and which of them is each kind of rank's `own`.
void add_places(const Refinement& refinement, Shared what, RankPartition& kinds, std::vector<PlaceKind>& places,
                int EquivalentRanks::*own) {
  std::unordered_map<Hash, int> ids;
  for (EquivalentRanks& kind : kinds.kinds) {
    const Hash hash = commonest(kind.ranks, refinement, what);
    if (hash == 0) continue;  // behind no uplink
    const auto [found, fresh] = ids.try_emplace(hash, static_cast<int>(places.size()));
    kind.*own = found->second;
    if (!fresh) continue;
    const auto stands_there = [&](Rank rank) { return refinement.hash_of(what, rank) == hash; };
    places.push_back(place_kind_of(refinement, what, *std::ranges::find_if(kind.ranks, stands_there), kinds.kinds.size()));
  }
}

}  // namespace

RankPartition partition_ranks(const Program& program, const InstructionCost& cost) {
  require_references(program);
  const Refinement refinement{program, cost};
  RankPartition kinds;
  kinds.kinds = kinds_of(program, refinement.colors());
  add_group_kinds(program, refinement, kinds);
  if (refinement.leaves(Shared::host)) add_places(refinement, Shared::host, kinds, kinds.hosts, &EquivalentRanks::host);
  if (refinement.leaves(Shared::uplink)) add_places(refinement, Shared::uplink, kinds, kinds.uplinks, &EquivalentRanks::uplink);
  return kinds;
}

}  // namespace flotilla::simulate
