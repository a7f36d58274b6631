#include "flotilla/comm/process_group.hpp"

#include <algorithm>
#include <set>

#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "group_tags.hpp"
#include "group_text.hpp"

namespace flotilla::comm {
namespace {

constexpr int most_tags = 1 << 20;  // of a group, where MPI has plenty; two for each all-reduce of a program

void require_ranks(const World& world, const program::Group& group) {
  std::set<Rank> seen;
  for (const Rank member : group.members)
    FLOTILLA_REQUIRE(member.valid() && member.value < world.size() && seen.insert(member).second, ErrorKind::internal,
                     to_string(group.kind), " group: member ", member, " is listed twice or is no rank of this world of ", world.size());
}

}  // namespace

std::string describe(const World& world, const program::Group& group) {
  return text(to_string(group.kind), " group of ", world.names(group.members));
}

int index_in(const World& world, const program::Group& group) {
  require_ranks(world, group);
  const auto found = std::ranges::find(group.members, world.rank());
  FLOTILLA_REQUIRE(found != group.members.end(), ErrorKind::internal, world.name(world.rank()), " is not in the ", describe(world, group));
  return static_cast<int>(found - group.members.begin());
}

GroupTags group_tags(const World& world, const std::vector<program::Group>& groups) {
  for (const program::Group& group : groups) require_ranks(world, group);
  TagSlots tags = tag_slots(groups, world.size());
  const int places = ways_of_a_group * std::max(tags.slots, 1);
  return {std::move(tags.slot), std::min(world.largest_tag() / places, most_tags)};
}

Groups connect(const World& world, const std::vector<program::Group>& groups) {
  const GroupTags tags = group_tags(world, groups);
  Groups mine(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (std::ranges::find(groups[g].members, world.rank()) == groups[g].members.end()) continue;
    mine[g] = groups[g].members.size() == 1 ? make_local_group(world, groups[g])
                                            : make_mpi_group(world, groups[g], tags.first(g, GroupTags::host), tags.count);
  }
  return mine;
}

Groups form(const World& world, const std::vector<program::Group>& groups, Seconds deadline) {
  Groups mine = agree_on(
      world, "forming the groups", [&] { return connect(world, groups); }, deadline);
  verify(world, mine, deadline);
  return mine;
}

}  // namespace flotilla::comm
