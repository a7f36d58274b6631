#include "refinement.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "flotilla/base/philox.hpp"

namespace flotilla::simulate {
namespace {

constexpr int spare_kinds = 16;  // that telling hosts apart may add to twice the kinds

constexpr Hash odd = 0x9E3779B97F4A7C15u;

Hash join(Hash seed, Hash value) { return Philox::mix(seed * odd + value); }
Hash as_hash(int value) { return static_cast<Hash>(static_cast<std::int64_t>(value)); }

}  // namespace

int slot_of(const program::RankBinding& binding, Rank peer) {
  const auto found = std::ranges::find(binding.peers, peer);
  return found == binding.peers.end() ? -1 : static_cast<int>(found - binding.peers.begin());
}

Refinement::Refinement(const program::Program& program, const InstructionCost& cost) : program_{program}, color_(program.ranks.size(), -1) {
  for (std::size_t r = 0; r < color_.size(); ++r) color_[r] = program.ranks[r].rank_class;
  find_hosts(cost);
  find_uplinks(cost);
  add_edges(cost);
  add_groups(cost);
  settle(false, std::numeric_limits<int>::max());
  if (leaves(Shared::host) || leaves(Shared::uplink)) {
    auto without = color_;
    const int kinds = *std::ranges::max_element(without) + 1;
    if (!settle(true, 2 * kinds + spare_kinds)) color_ = std::move(without);
    number_colors();
    hash_places();
  }
  hash_groups();
}

void Refinement::find_hosts(const InstructionCost& cost) {
  std::unordered_map<std::uint64_t, int> numbers;
  std::uint64_t before = 0;
  auto& host = places_[index(Shared::host)].of;
  host.assign(color_.size(), -1);
  for (std::size_t r = 0, last = 0; r < color_.size(); ++r) {
    if (color_[r] < 0) continue;
    const std::uint64_t here = cost.host(Rank{static_cast<int>(r)});
    if (numbers.empty() || here != before)
      host[r] = numbers.try_emplace(here, static_cast<int>(numbers.size())).first->second;
    else
      host[r] = host[last];
    before = here, last = r;
  }
  places_[index(Shared::host)].hash.assign(numbers.size(), 0);
}

void Refinement::find_uplinks(const InstructionCost& cost) {
  RefinedPlaces& uplinks = places_[index(Shared::uplink)];
  uplinks.of.assign(color_.size(), -1);
  int last = -1;
  for (std::size_t r = 0; r < color_.size(); ++r) {
    if (color_[r] < 0) continue;
    uplinks.of[r] = std::max(-1, cost.uplink(Rank{static_cast<int>(r)}));
    last = std::max(last, uplinks.of[r]);
  }
  uplinks.hash.assign(static_cast<std::size_t>(last + 1), 0);
}

Hash Refinement::label_of(Rank rank, Rank peer, const InstructionCost& cost) const {
  const auto &here = program_.ranks[rank.index()], &there = program_.ranks[peer.index()];
  const Hash slots = join(as_hash(slot_of(here, peer)), as_hash(slot_of(there, rank)));
  const Hash paths = join(join(slots, cost.path(rank, peer)), cost.path(peer, rank));
  Hash together = 0;
  for (const RefinedPlaces& places : places_) together = 2 * together + (places.of[rank.index()] == places.of[peer.index()] ? 1 : 0);
  return join(paths, together);
}

void Refinement::add_edges(const InstructionCost& cost) {
  std::size_t count = 0;
  for (const auto& binding : program_.ranks) count += binding.peers.size();
  edges_.reserve(count);
  first_edge_.reserve(program_.ranks.size() + 1);
  first_edge_.push_back(0);
  for (std::size_t r = 0; r < program_.ranks.size(); ++r) {
    const auto& binding = program_.ranks[r];
    if (binding.rank_class >= 0)
      for (Rank peer : binding.peers) {
        edges_.push_back({peer.value, label_of(Rank{static_cast<int>(r)}, peer, cost)});
        for (RefinedPlaces& places : places_) places.left = places.left || places.of[r] != places.of[peer.index()];
      }
    first_edge_.push_back(edges_.size());
  }
}

bool Refinement::spans(const RefinedPlaces& places, const program::Group& group) {
  return std::ranges::any_of(group.members, [&](Rank rank) { return places.of[rank.index()] != places.of[group.members.front().index()]; });
}

void Refinement::add_groups(const InstructionCost& cost) {
  for (const auto& group : program_.groups) {
    group_path_.push_back(group.members.size() > 1 ? cost.path(group) : 0);
    for (RefinedPlaces& places : places_) places.left = places.left || (group.kind != program::Group::Kind::world && spans(places, group));
  }
  first_group_.reserve(program_.ranks.size() + 1);
  first_group_.push_back(0);
  for (const auto& binding : program_.ranks) {
    if (binding.rank_class >= 0) groups_.insert(groups_.end(), binding.groups.begin(), binding.groups.end());
    first_group_.push_back(groups_.size());
  }
}

/// Says no, and leaves off, when there are more than `most` colours.
bool Refinement::settle(bool with_places, int most) {
  for (int colors = -1;;) {
    const int found = refine(with_places);
    if (found > most) return false;
    if (found == colors) return true;
    colors = found;
  }
}

int Refinement::refine(bool with_places) {
  number_colors();
  hash_groups();
  if (with_places) hash_places();
  std::unordered_map<Hash, int> ids;
  Hash before = 0;
  int id = -1;
  std::vector<int> next(color_.size(), -1);
  for (std::size_t r = 0; r < color_.size(); ++r) {
    if (color_[r] < 0) continue;
    Hash hash = keys_[static_cast<std::size_t>(color_[r])];
    for (std::size_t e = first_edge_[r]; e < first_edge_[r + 1]; ++e)
      hash = join(hash, edges_[e].label + key(color_[static_cast<std::size_t>(edges_[e].peer)]));
    for (std::size_t g = first_group_[r]; g < first_group_[r + 1]; ++g)
      hash = join(hash, group_hash_[static_cast<std::size_t>(groups_[g])]);
    for (const RefinedPlaces& places : places_)
      if (with_places && places.left) hash = join(hash, places.hash_of(r));
    if (id < 0 || hash != before) id = ids.try_emplace(hash, static_cast<int>(ids.size())).first->second;
    before = hash;
    next[r] = id;
  }
  color_ = std::move(next);
  return static_cast<int>(ids.size());
}

/// A number without pattern for each colour, so that sums of them tell sets apart.
void Refinement::number_colors() {
  const int colors = color_.empty() ? 0 : *std::ranges::max_element(color_) + 1;
  for (int c = static_cast<int>(keys_.size()); c < colors; ++c) keys_.push_back(Philox::mix(odd + as_hash(c)));
}

/// A sum over the members, because their order does not matter to when a collective starts or ends.
void Refinement::hash_groups() {
  group_hash_.assign(program_.groups.size(), 0);
  for (std::size_t r = 0; r < color_.size(); ++r)
    for (std::size_t g = first_group_[r]; g < first_group_[r + 1]; ++g)
      group_hash_[static_cast<std::size_t>(groups_[g])] += join(keys_[static_cast<std::size_t>(color_[r])], g - first_group_[r]);
  for (std::size_t g = 0; g < group_hash_.size(); ++g) {
    const auto& group = program_.groups[g];
    group_hash_[g] = join(join(join(as_hash(static_cast<int>(group.kind)), group_path_[g]), group.members.size()), group_hash_[g]);
  }
}

void Refinement::hash_places() {
  for (RefinedPlaces& places : places_) {
    std::ranges::fill(places.hash, 0);
    for (std::size_t r = 0; r < color_.size(); ++r)
      if (color_[r] >= 0 && places.of[r] >= 0)
        places.hash[static_cast<std::size_t>(places.of[r])] += keys_[static_cast<std::size_t>(color_[r])];
  }
}

std::vector<Rank> Refinement::ranks_beside(Shared what, Rank rank) const {
  const auto& place = places_[index(what)].of;
  std::vector<Rank> beside;
  for (std::size_t r = 0; r < place.size(); ++r)
    if (color_[r] >= 0 && place[r] == place[rank.index()]) beside.push_back(Rank{static_cast<int>(r)});
  return beside;
}

}  // namespace flotilla::simulate
