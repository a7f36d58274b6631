#include "subgroup_shape.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace flotilla::simulate {
namespace {

constexpr std::size_t most_remembered_ranks = 1 << 20;  // ranks

std::uint64_t hash_of(const program::Group& group) {
  constexpr std::uint64_t factor = 0x9E3779B97F4A7C15u;
  std::uint64_t hash = group.members.size();
  for (Rank rank : group.members) hash = hash * factor + static_cast<std::uint64_t>(rank.value);
  for (const auto& level : group.subgroups)
    for (int subgroup : level) hash = hash * factor + static_cast<std::uint64_t>(subgroup);
  return hash;
}

/// How often the most frequent of them is there.
int most_alike(std::vector<int> values) {
  std::ranges::sort(values);
  int most = 0;
  for (auto here = values.begin(); here != values.end();) {
    const auto end = std::find_if(here, values.end(), [&](int value) { return value != *here; });
    most = std::max(most, static_cast<int>(end - here));
    here = end;
  }
  return most;
}

/// Who is where, by member.
struct MemberPlaces {
  std::vector<int> hosts, uplinks;
};

/// Subgroups of one level, made of the `below` ones.
class SubgroupLevel {
 public:
  SubgroupLevel(const std::vector<Rank>& members, const MemberPlaces& places, const std::vector<int>& subgroups,
                const std::vector<int>& below)
      : members_{members}, places_{places}, subgroups_{subgroups}, below_{below}, order_(members.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    order_by(below_);
    order_by(subgroups_);
  }

  /// Of subgroups of two inner ones and more; of those that are alike one, where `links` tells lists of ranks by what joins them.
  std::vector<SubgroupShape> shapes(const SubgroupLinks& links) const {
    std::vector<SubgroupShape> all;
    std::vector<std::uint64_t> links_of;  // by shape
    SubgroupShape shape;                  // used again and again: most are alike
    for (std::size_t begin = 0; begin < order_.size();) {
      const auto end = end_of(begin, subgroups_);
      if (below_[order_[begin]] != below_[order_[end - 1]]) {
        fill(shape, begin, end);
        if (!links || is_new(shape, links(shape.firsts), all, links_of)) all.push_back(shape);
      }
      begin = end;
    }
    return all;
  }

 private:
  static bool is_new(const SubgroupShape& shape, std::uint64_t links, const std::vector<SubgroupShape>& all,
                     std::vector<std::uint64_t>& links_of) {
    for (std::size_t k = 0; k < all.size(); ++k)
      if (links_of[k] == links && all[k].subgroups() == shape.subgroups() && all[k].inner == shape.inner) return false;
    links_of.push_back(links);
    return true;
  }

  void fill(SubgroupShape& shape, std::size_t begin, std::size_t end) const {
    shape.firsts.clear(), shape.inner.clear();
    for (std::size_t here = begin; here < end;) {
      const auto next = std::min(end, end_of(here, below_));
      const auto inner = alike(here, next);
      shape.firsts.push_back(member(here));
      if (shape.inner.empty() || shape.inner.back() != inner) shape.inner.push_back(inner);
      here = next;
    }
    std::ranges::sort(shape.inner);
    shape.inner.erase(std::ranges::unique(shape.inner).begin(), shape.inner.end());
  }

  /// Members of one inner subgroup.
  SubgroupShape::Inner alike(std::size_t begin, std::size_t end) const {
    if (end - begin == 1) return {1, 1, 1};
    return {static_cast<int>(end - begin), most_at_one(places_.hosts, begin, end), most_at_one(places_.uplinks, begin, end)};
  }

  int most_at_one(const std::vector<int>& places, std::size_t begin, std::size_t end) const {
    const auto at = [&](std::size_t position) { return places[order_[position]]; };
    std::size_t same = begin + 1;
    while (same < end && at(same) == at(begin)) ++same;
    if (same == end) return static_cast<int>(end - begin);
    std::vector<int> all;
    all.reserve(end - begin);
    for (std::size_t m = begin; m < end; ++m) all.push_back(at(m));
    return most_alike(std::move(all));
  }

  /// Stable, by counting: subgroups are numbered from 0 without gaps.
  void order_by(const std::vector<int>& numbers) {
    const auto number = [&](std::size_t m) { return static_cast<std::size_t>(numbers[m]); };
    if (std::ranges::is_sorted(order_, {}, number)) return;
    std::vector<std::size_t> begin(static_cast<std::size_t>(*std::ranges::max_element(numbers)) + 2, 0);
    for (const std::size_t m : order_) ++begin[number(m) + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::size_t> ordered(order_.size());
    for (const std::size_t m : order_) ordered[begin[number(m)]++] = m;
    order_ = std::move(ordered);
  }
  Rank member(std::size_t position) const { return members_[order_[position]]; }
  /// Of those that are equal by `number`.
  std::size_t end_of(std::size_t begin, const std::vector<int>& number) const {
    std::size_t end = begin;
    while (end < order_.size() && number[order_[end]] == number[order_[begin]]) ++end;
    return end;
  }

  const std::vector<Rank>& members_;
  const MemberPlaces& places_;
  const std::vector<int>&subgroups_, &below_;
  std::vector<std::size_t> order_;  ///< of members: by subgroup, inner subgroup, as they stand in the group
};

}  // namespace

SubgroupShapes subgroup_shapes(const program::Group& group, const std::function<int(Rank)>& host, const std::function<int(Rank)>& uplink,
                               const SubgroupLinks& links) {
  std::vector<int> members(group.members.size());
  std::iota(members.begin(), members.end(), 0);
  const std::vector<int> all(group.members.size(), 0);
  MemberPlaces places;
  places.hosts.reserve(group.members.size()), places.uplinks.reserve(group.members.size());
  for (Rank rank : group.members) places.hosts.push_back(host(rank)), places.uplinks.push_back(uplink(rank));
  SubgroupShapes levels;
  const std::vector<int>* below = &members;
  for (const auto& level : group.subgroups) {
    levels.push_back(SubgroupLevel{group.members, places, level, *below}.shapes(links));
    below = &level;
  }
  levels.push_back(SubgroupLevel{group.members, places, all, *below}.shapes(links));
  return levels;
}

const SubgroupShapes& SubgroupShapeCache::of(const program::Group& group) {
  const auto hash = hash_of(group);
  const auto found = known_.find(hash);
  if (found != known_.end() && found->second.members == group.members && found->second.subgroups == group.subgroups)
    return found->second.shapes;
  if (ranks_ > most_remembered_ranks) known_.clear(), ranks_ = 0;
  ranks_ += group.members.size();
  auto shapes = subgroup_shapes(group, where_.host, where_.uplink, where_.links);
  return (known_[hash] = {group.members, group.subgroups, std::move(shapes)}).shapes;
}

}  // namespace flotilla::simulate
