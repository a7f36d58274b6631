#include "flotilla/program/hierarchical_all_reduce.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "flotilla/base/error.hpp"
#include "index.hpp"

namespace flotilla::program {
namespace {

/// Who has a stretch of a subgroup's sum.
struct Held {
  RowRange row_range;
  int holder = -1;
};

/// Lists one after the other: list i holds items [begin[i], begin[i + 1]).
template <class Item>
struct Lists {
  std::vector<Item> items;
  std::vector<std::size_t> begin{0};

  std::size_t size() const { return begin.size() - 1; }
  std::span<const Item> operator[](std::size_t list) const { return std::span{items}.subspan(begin[list], begin[list + 1] - begin[list]); }
  void close() { begin.push_back(items.size()); }
};

/// By subgroup of a level, the subgroups of the level before that it is made of, in order of their first members.
Lists<int> inner_of(const std::vector<int>& level, const std::vector<int>& below) {
  const auto count_of = [](const std::vector<int>& subgroups) {
    return subgroups.empty() ? std::size_t{0} : at(*std::ranges::max_element(subgroups)) + 1;
  };
  std::vector<char> seen(count_of(below));  // subgroups of the level before
  std::vector<std::size_t> next(count_of(level) + 1);
  std::vector<std::size_t> firsts;  // a member of each inner subgroup
  for (std::size_t m = 0; m < level.size(); ++m)
    if (!std::exchange(seen[at(below[m])], 1)) firsts.push_back(m), ++next[at(level[m]) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  Lists<int> inner{std::vector<int>(firsts.size()), next};
  for (const std::size_t m : firsts) inner.items[next[at(level[m])]++] = below[m];
  return inner;
}

/// By level the subgroups; the first are made of single members; the last is everybody.
std::vector<Lists<int>> levels_of(const Group& group) {
  std::vector<int> below(group.members.size());  // subgroup of the level before, by member
  std::iota(below.begin(), below.end(), 0);
  std::vector<Lists<int>> levels;
  for (const auto& level : group.subgroups) {
    FLOTILLA_ASSERT(level.size() == below.size(), level.size(), " subgroups for ", below.size(), " members");
    levels.push_back(inner_of(level, below));
    below = level;
  }
  levels.push_back(inner_of(std::vector<int>(below.size(), 0), below));
  return levels;
}

/// What the inner ones of a subgroup hold: each ascending, without gaps.
using Segments = std::vector<std::span<const Held>>;

/// Puts them together along their common refinement: calls each(piece, owner's place in the subgroup, holders by place) for every piece.
template <class Each>
void for_each_piece(Segments& inner, std::vector<int>& holders, const Each& each) {
  const auto subgroups = static_cast<std::int64_t>(inner.size());
  holders.resize(inner.size());
  for (std::int64_t begin = 0; begin < whole_row;) {
    std::int64_t end = whole_row;
    for (std::size_t t = 0; t < inner.size(); ++t) {
      while (inner[t].front().row_range.last <= begin) inner[t] = inner[t].subspan(1);
      end = std::min(end, inner[t].front().row_range.last);
      holders[t] = inner[t].front().holder;
    }
    for (std::int64_t t = 0; t < subgroups; ++t) {
      const RowRange piece{begin + (end - begin) * t / subgroups, begin + (end - begin) * (t + 1) / subgroups};
      if (piece.first < piece.last) each(piece, static_cast<int>(t), holders);
    }
    begin = end;
  }
}

/// By level what each of its subgroups holds when it has summed. Calls each(level, piece, owner's place, holders) for all pieces.
template <class Each>
void walk(const Group& group, const Each& each) {
  const auto levels = levels_of(group);
  Lists<Held> below;
  for (int m = 0; m < static_cast<int>(group.members.size()); ++m) below.items.push_back({{0, whole_row}, m}), below.close();
  Segments inner;
  std::vector<int> holders;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    Lists<Held> here;
    for (std::size_t t = 0; t < levels[l].size(); ++t) {
      inner.clear();
      for (const int subgroup : levels[l][t]) inner.push_back(below[at(subgroup)]);
      for_each_piece(inner, holders, [&](const RowRange& piece, int owner, const std::vector<int>& by_place) {
        each(l, piece, owner, by_place);
        const int holder = by_place[at(owner)];
        const bool goes_on = here.items.size() > here.begin.back() && here.items.back().holder == holder;
        if (goes_on)
          here.items.back().row_range.last = piece.last;
        else
          here.items.push_back({piece, holder});
      });
      here.close();
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
