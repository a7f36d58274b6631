#include "kinds.hpp"

#include <algorithm>
#include <unordered_map>

#include "flotilla/base/error.hpp"
#include "flotilla/base/philox.hpp"

namespace flotilla::simulate {
namespace {

using program::Program;
using Hash = std::uint64_t;

Hash join(Hash seed, Hash value) { return Philox::mix(seed ^ Philox::mix(value)); }
Hash as_hash(int value) { return static_cast<Hash>(static_cast<std::int64_t>(value)); }

/// First slot of `binding` that names `peer`, or -1.
int slot_of(const program::RankBinding& binding, Rank peer) {
  const auto found = std::ranges::find(binding.peers, peer);
  return found == binding.peers.end() ? -1 : static_cast<int>(found - binding.peers.begin());
}

/// Colours by rank; -1 for ranks that idle.
class Refinement {
 public:
  Refinement(const Program& program, const InstructionCost& cost) : program_{program}, color_(program.ranks.size(), -1) {
    for (std::size_t r = 0; r < color_.size(); ++r) color_[r] = program.ranks[r].rank_class;
    for (const auto& group : program.groups) group_path_.push_back(group.members.size() > 1 ? cost.path(group) : 0);
    add_edges(cost);
  }

  std::vector<int> run() {
    for (int colors = -1;;) {
      const int found = refine();
      if (found == colors) return color_;
      colors = found;
    }
  }

 private:
  struct Edge {
    int peer = -1;
    Hash label = 0;  // both ends' slots and both directions' paths
  };

  void add_edges(const InstructionCost& cost) {
    first_edge_.push_back(0);
    for (std::size_t r = 0; r < program_.ranks.size(); ++r) {
      const auto& binding = program_.ranks[r];
      const Rank rank{static_cast<int>(r)};
      for (std::size_t slot = 0; binding.rank_class >= 0 && slot < binding.peers.size(); ++slot) {
        const Rank peer = binding.peers[slot];
        FLOTILLA_REQUIRE(peer.valid() && peer.index() < program_.ranks.size(), ErrorKind::internal, "rank ", rank,
                         " of the program names peer ", peer, "; the program has ", program_.ranks.size(), " ranks");
        Hash label = join(as_hash(slot_of(binding, peer)), as_hash(slot_of(program_.ranks[peer.index()], rank)));
        label = join(join(label, cost.path(rank, peer)), cost.path(peer, rank));
        edges_.push_back({peer.value, label});
      }
      first_edge_.push_back(edges_.size());
    }
  }

  std::vector<Hash> group_hashes() const {
    std::vector<Hash> hashes(program_.groups.size());
    for (std::size_t g = 0; g < hashes.size(); ++g)
      hashes[g] = join(join(as_hash(static_cast<int>(program_.groups[g].kind)), group_path_[g]), program_.groups[g].members.size());
    // A sum, because the order of the members does not matter to when a collective starts or ends.
    std::vector<Hash> members(hashes.size());
    for (std::size_t r = 0; r < color_.size(); ++r)
      for (std::size_t slot = 0; slot < groups_of(r).size(); ++slot)
        members[static_cast<std::size_t>(groups_of(r)[slot])] += join(as_hash(color_[r]), slot);
    for (std::size_t g = 0; g < hashes.size(); ++g) hashes[g] = join(hashes[g], members[g]);
    return hashes;
  }

  int refine() {
    const auto groups = group_hashes();
    std::unordered_map<Hash, int> ids;
    std::vector<int> next(color_.size(), -1);
    for (std::size_t r = 0; r < color_.size(); ++r) {
      if (color_[r] < 0) continue;
      Hash hash = as_hash(color_[r]);
      for (std::size_t e = first_edge_[r]; e < first_edge_[r + 1]; ++e)
        hash = join(join(hash, edges_[e].label), as_hash(color_[static_cast<std::size_t>(edges_[e].peer)]));
      for (int group : groups_of(r)) hash = join(hash, groups[static_cast<std::size_t>(group)]);
      next[r] = ids.try_emplace(hash, static_cast<int>(ids.size())).first->second;
    }
    color_ = std::move(next);
    return static_cast<int>(ids.size());
  }

  const std::vector<int>& groups_of(std::size_t rank) const { return program_.ranks[rank].groups; }

  const Program& program_;
  std::vector<int> color_;
  std::vector<Hash> group_path_;
  std::vector<std::size_t> first_edge_;
  std::vector<Edge> edges_;
};

void require_references(const Program& program) {
  std::vector<std::size_t> listed(program.groups.size());
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const auto& binding = program.ranks[r];
    FLOTILLA_REQUIRE(binding.rank_class < static_cast<int>(program.classes.size()), ErrorKind::internal, "rank ", r,
                     " of the program is of class ", binding.rank_class, "; there are ", program.classes.size());
    for (int group : binding.groups) {
      FLOTILLA_REQUIRE(group >= 0 && group < static_cast<int>(program.groups.size()), ErrorKind::internal, "rank ", r,
                       " of the program names group ", group, "; there are ", program.groups.size());
      ++listed[static_cast<std::size_t>(group)];
    }
  }
  for (std::size_t g = 0; g < listed.size(); ++g)
    FLOTILLA_REQUIRE(listed[g] == program.groups[g].members.size(), ErrorKind::internal, "group ", g, " of the program (",
                     to_string(program.groups[g].kind), ") has ", program.groups[g].members.size(), " members, but ", listed[g],
                     " ranks name it");
}

Kind kind_of(const Program& program, const std::vector<int>& colors, std::size_t rank) {
  const auto& binding = program.ranks[rank];
  Kind kind;
  kind.rank_class = binding.rank_class;
  for (Rank peer : binding.peers) {
    kind.slots.push_back(slot_of(binding, peer));
    kind.peers.push_back({colors[peer.index()], slot_of(program.ranks[peer.index()], Rank{static_cast<int>(rank)})});
  }
  return kind;
}

/// Groups of equal kinds of members, in order of the first of them.
void add_group_kinds(const Program& program, const std::vector<int>& colors, Kinds& kinds, const InstructionCost& cost) {
  std::vector<std::vector<GroupKind::Member>> members(program.groups.size());
  for (std::size_t r = 0; r < colors.size(); ++r)
    for (std::size_t slot = 0; colors[r] >= 0 && slot < program.ranks[r].groups.size(); ++slot)
      members[static_cast<std::size_t>(program.ranks[r].groups[slot])].push_back({colors[r], static_cast<int>(slot)});
  std::unordered_map<Hash, int> ids;
  std::vector<int> id_of(program.groups.size(), -1);
  for (std::size_t g = 0; g < members.size(); ++g) {
    const auto key = [](const GroupKind::Member& m) { return std::pair{m.kind, m.slot}; };
    std::ranges::sort(members[g], {}, key);
    Hash hash = join(as_hash(static_cast<int>(program.groups[g].kind)), members[g].size() > 1 ? cost.path(program.groups[g]) : 0);
    for (const auto& m : members[g]) hash = join(join(hash, as_hash(m.kind)), as_hash(m.slot));
    const auto [found, fresh] = ids.try_emplace(hash, static_cast<int>(kinds.groups.size()));
    id_of[g] = found->second;
    if (!fresh) continue;
    members[g].erase(std::unique(members[g].begin(), members[g].end()), members[g].end());
    kinds.groups.push_back({static_cast<int>(g), members[g]});
  }
  for (Kind& kind : kinds.kinds)
    for (int group : program.ranks[kind.ranks.front().index()].groups) kind.groups.push_back(id_of[static_cast<std::size_t>(group)]);
}

}  // namespace

Kinds find_kinds(const Program& program, const InstructionCost& cost) {
  require_references(program);
  const auto colors = Refinement{program, cost}.run();
  Kinds kinds;
  for (std::size_t r = 0; r < colors.size(); ++r) {
    if (colors[r] < 0) continue;
    if (colors[r] == static_cast<int>(kinds.kinds.size())) kinds.kinds.push_back(kind_of(program, colors, r));
    kinds.kinds[static_cast<std::size_t>(colors[r])].ranks.push_back(Rank{static_cast<int>(r)});
  }
  add_group_kinds(program, colors, kinds, cost);
  return kinds;
}

}  // namespace flotilla::simulate
