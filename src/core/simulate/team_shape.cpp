#include "team_shape.hpp"

#include <algorithm>
#include <map>

namespace flotilla::simulate {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr std::size_t most_remembered = 1 << 20;  // ranks

std::uint64_t hash_of(const program::Group& group) {
  constexpr std::uint64_t factor = 0x9E3779B97F4A7C15u;
  std::uint64_t hash = group.members.size();
  for (Rank rank : group.members) hash = hash * factor + static_cast<std::uint64_t>(rank.value);
  for (const auto& level : group.teams)
    for (int team : level) hash = hash * factor + static_cast<std::uint64_t>(team);
  return hash;
}

/// Members of one inner team.
TeamShape::Inner alike(const std::vector<Rank>& members, const std::function<int(Rank)>& host, const std::function<int(Rank)>& uplink) {
  std::map<int, int> on_host, at_uplink;
  TeamShape::Inner inner{static_cast<int>(members.size()), 0, 0};
  for (Rank rank : members) {
    inner.beside = std::max(inner.beside, ++on_host[host(rank)]);
    inner.behind = std::max(inner.behind, ++at_uplink[uplink(rank)]);
  }
  return inner;
}

}  // namespace

TeamShapes team_shapes(const program::Group& group, const std::function<int(Rank)>& host, const std::function<int(Rank)>& uplink) {
  const auto members = static_cast<int>(group.members.size());
  std::vector<int> below(at(members));
  for (int m = 0; m < members; ++m) below[at(m)] = m;
  auto teams = group.teams;
  teams.emplace_back(at(members), 0);
  TeamShapes levels;
  for (const auto& level : teams) {
    std::map<int, std::map<int, std::vector<Rank>>> made;  // by team and inner team
    for (int m = 0; m < members; ++m) made[level[at(m)]][below[at(m)]].push_back(group.members[at(m)]);
    auto& shapes = levels.emplace_back();
    for (const auto& [team, inner_teams] : made) {
      if (inner_teams.size() < 2) continue;
      TeamShape shape;
      for (const auto& [number, ranks] : inner_teams) {
        shape.firsts.push_back(ranks.front());
        shape.inner.push_back(alike(ranks, host, uplink));
      }
      std::ranges::sort(shape.inner);
      shape.inner.erase(std::ranges::unique(shape.inner).begin(), shape.inner.end());
      shapes.push_back(std::move(shape));
    }
    below = level;
  }
  return levels;
}

const TeamShapes& TeamShapeMemory::of(const program::Group& group, const std::function<int(Rank)>& host,
                                      const std::function<int(Rank)>& uplink) {
  const auto hash = hash_of(group);
  const auto found = known_.find(hash);
  if (found != known_.end() && found->second.members == group.members && found->second.teams == group.teams) return found->second.shapes;
  if (ranks_ > most_remembered) known_.clear(), ranks_ = 0;
  ranks_ += group.members.size();
  return (known_[hash] = {group.members, group.teams, team_shapes(group, host, uplink)}).shapes;
}

}  // namespace flotilla::simulate
