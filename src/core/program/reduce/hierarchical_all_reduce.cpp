#include "flotilla/program/hierarchical_all_reduce.hpp"

#include <algorithm>

#include "flotilla/base/error.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

/// Who has a stretch of a subgroup's sum.
struct Held {
  RowRange row_range;
  int holder = -1;
};
using Segments = std::vector<Held>;  // ascending, without gaps

/// A subgroup and the subgroups of the level before, which it is made of.
struct Subgroup {
  std::vector<int> inner;  ///< in order of their first members
};

/// By level the subgroups; of level 0 those of single members; the last is everybody.
std::vector<std::vector<Subgroup>> levels_of(const Group& group) {
  const auto members = static_cast<int>(group.members.size());
  std::vector<int> below(at(members));  // subgroup of the level before, by member
  for (int m = 0; m < members; ++m) below[at(m)] = m;
  std::vector<std::vector<Subgroup>> levels;
  auto subgroups = group.subgroups;
  subgroups.emplace_back(at(members), 0);
  for (const auto& level : subgroups) {
    FLOTILLA_ASSERT(level.size() == at(members), level.size(), " subgroups for ", members, " members");
    auto& here = levels.emplace_back();
    std::vector<bool> seen(at(members));  // subgroups of the level before
    for (int m = 0; m < members; ++m) {
      if (level[at(m)] == static_cast<int>(here.size())) here.emplace_back();
      if (!seen[at(below[at(m)])]) here[at(level[at(m)])].inner.push_back(below[at(m)]);
      seen[at(below[at(m)])] = true;
    }
    below = level;
  }
  return levels;
}

/// What the subgroups of one level hold, put together along their common refinement: calls each(piece, owner's place in the subgroup,
/// holders by place) for every piece.
template <class Each>
void for_each_piece(const std::vector<const Segments*>& inner, const Each& each) {
  const auto subgroups = static_cast<std::int64_t>(inner.size());
  std::vector<std::size_t> place(inner.size(), 0);
  std::vector<int> holders(inner.size());
  for (std::int64_t begin = 0; begin < whole_row;) {
    std::int64_t end = whole_row;
    for (std::size_t t = 0; t < inner.size(); ++t) {
      while ((*inner[t])[place[t]].row_range.last <= begin) ++place[t];
      end = std::min(end, (*inner[t])[place[t]].row_range.last);
      holders[t] = (*inner[t])[place[t]].holder;
    }
    for (std::int64_t t = 0; t < subgroups; ++t) {
      const RowRange piece{begin + (end - begin) * t / subgroups, begin + (end - begin) * (t + 1) / subgroups};
      if (piece.first < piece.last) each(piece, static_cast<int>(t), holders);
    }
    begin = end;
  }
}

/// By level what each of its subgroups holds when it has summed. Calls each(level, subgroup, piece, owner's place, holders) for all pieces.
template <class Each>
void walk(const Group& group, const Each& each) {
  const auto levels = levels_of(group);
  std::vector<Segments> below;
  for (int m = 0; m < static_cast<int>(group.members.size()); ++m) below.push_back({{{0, whole_row}, m}});
  for (std::size_t l = 0; l < levels.size(); ++l) {
    std::vector<Segments> here;
    for (std::size_t t = 0; t < levels[l].size(); ++t) {
      std::vector<const Segments*> inner;
      for (int subgroup : levels[l][t].inner) inner.push_back(&below[at(subgroup)]);
      auto& holding = here.emplace_back();
      for_each_piece(inner, [&](const RowRange& piece, int owner, const std::vector<int>& holders) {
        each(l, piece, owner, holders);
        const int holder = holders[at(owner)];
        if (!holding.empty() && holding.back().holder == holder)
          holding.back().row_range.last = piece.last;
        else
          holding.push_back({piece, holder});
      });
    }
    below = std::move(here);
  }
}

/// Of the members' rooms those that differ by rounding become the largest of them.
void level_out(std::vector<ReductionBounds>& rooms, ReductionBound ReductionBounds::*which) {
  constexpr std::int64_t rounding = whole_row >> 10;  // of many members each adds a little
  std::vector<std::int64_t> values;
  for (const auto& room : rooms) values.push_back((room.*which).parts);
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  std::int64_t pieces = 0;
  for (const auto& room : rooms) pieces = std::max(pieces, (room.*which).pieces);
  for (auto& room : rooms) {
    auto& mine = (room.*which).parts;
    auto next = std::ranges::lower_bound(values, mine);
    while (next + 1 != values.end() && *(next + 1) - *next < rounding) ++next;
    mine = *next;
    (room.*which).pieces = pieces;
  }
}

}  // namespace

std::vector<ReductionLevel> reduction_levels(const Group& group, int member) {
  std::vector<ReductionLevel> levels(group.subgroups.size() + 1);
  walk(group, [&](std::size_t level, const RowRange& piece, int owner, const std::vector<int>& holders) {
    if (holders.size() < 2) return;
    const int adds = holders[at(owner)];
    if (adds == member)
      levels[level].adds.push_back({piece, holders});
    else if (std::ranges::find(holders, member) != holders.end())
      levels[level].gives.push_back({piece, adds});
  });
  return levels;
}

std::vector<RowRange> share_of(const Group& group, int member) {
  std::vector<RowRange> share;
  const std::size_t last = group.subgroups.size();
  walk(group, [&](std::size_t level, const RowRange& piece, int owner, const std::vector<int>& holders) {
    if (level != last || holders[at(owner)] != member) return;
    if (!share.empty() && share.back().last == piece.first)
      share.back().last = piece.last;
    else
      share.push_back(piece);
  });
  return share;
}

std::vector<ReductionBounds> reduction_bounds(const Group& group) {
  const std::size_t members = group.members.size(), last = group.subgroups.size();
  std::vector<ReductionBounds> rooms(members);
  std::vector<ReductionBound> staging(members);
  std::size_t before = 0;
  const auto close_level = [&] {
    for (std::size_t m = 0; m < members; ++m) {
      auto& most = rooms[m].staging;
      most = {std::max(most.parts, staging[m].parts), std::max(most.pieces, staging[m].pieces)};
      staging[m] = {};
    }
  };
  walk(group, [&](std::size_t level, const RowRange& piece, int owner, const std::vector<int>& holders) {
    if (level != before) close_level();
    before = level;
    const auto adds = at(holders[at(owner)]);
    const auto others = static_cast<std::int64_t>(holders.size()) - 1;
    staging[adds].parts += others * (piece.last - piece.first);
    staging[adds].pieces += others;
    if (level == last) rooms[adds].share = {rooms[adds].share.parts + piece.last - piece.first, rooms[adds].share.pieces + 1};
  });
  close_level();
  level_out(rooms, &ReductionBounds::staging);
  level_out(rooms, &ReductionBounds::share);
  return rooms;
}

Bytes sum_staging(const Group& group, int member, Bytes size, Bytes element) {
  const std::int64_t elements = size.count / element.count;
  std::int64_t most = 0;
  for (const auto& level : reduction_levels(group, member)) {
    std::int64_t staged = 0;
    for (const auto& adding : level.adds)
      staged += (static_cast<std::int64_t>(adding.from.size()) - 1) *
                (position(elements, adding.row_range.last) - position(elements, adding.row_range.first));
    most = std::max(most, staged);
  }
  return most * element;
}

}  // namespace flotilla::program
