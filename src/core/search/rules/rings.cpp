#include "rings.hpp"

#include <algorithm>
#include <array>

namespace flotilla::search::rules {
namespace {

constexpr std::size_t few_entries = 8;  // whose rings are looked at link by link
constexpr std::size_t orderable = 5;    // all orders of so many are tried
constexpr double bucket = 5e8;          // of simulate::sailor_all_reduce

using Row = std::uint32_t;

/// Whether a way over these links has room for so many replicas. links[e]: the entries that e leads to.
bool has_room(std::array<Row, few_entries> reach, std::size_t size, const std::array<std::int64_t, few_entries>& room,
              std::int64_t members) {
  for (std::size_t k = 0; k < size; ++k)
    for (std::size_t e = 0; e < size; ++e)
      if ((reach[e] >> k & 1) != 0) reach[e] |= reach[k];
  // Entries that lead to each other count together, those that nothing leads back to count once; then the best way through them.
  std::array<std::int64_t, few_entries> own{}, best{};
  std::array<bool, few_entries> lead{};
  for (std::size_t e = 0; e < size; ++e) {
    lead[e] = true;
    const bool again = (reach[e] >> e & 1) != 0;
    if (!again) own[e] = std::min<std::int64_t>(1, room[e]);
    for (std::size_t f = 0; again && f < size; ++f) {
      const bool together = (reach[e] >> f & 1) != 0 && (reach[f] >> e & 1) != 0;
      if (together && f < e) lead[e] = false;
      if (together) own[e] += room[f];
    }
  }
  // As long as something grows: ways are no longer than there are entries.
  for (std::size_t round = 0; round < size; ++round)
    for (std::size_t e = 0; e < size; ++e) {
      if (!lead[e]) continue;
      std::int64_t after = 0;
      for (std::size_t f = 0; f < size; ++f)
        if (lead[f] && f != e && (reach[e] >> f & 1) != 0 && (reach[f] >> e & 1) == 0) after = std::max(after, best[f]);
      best[e] = own[e] + after;
      if (best[e] >= members) return true;
    }
  return false;
}

}  // namespace

Rings::Rings(const Problem& p) : p_{p}, size_{p.entries.size()} {
  for (const Entry& x : p.entries)
    for (const Entry& y : p.entries) links_.push_back(p.tables.single_link({x.type, x.zone, 1}, {y.type, y.zone, 1}));
}

double Rings::least(const std::vector<int>& entries, int tensor, int members, double bytes) const {
  struct Edge {
    double time;
    std::size_t from, to;
  };
  std::array<Edge, few_entries * few_entries> edges;
  std::size_t count = 0;
  double fastest = never;
  const bool few = entries.size() <= few_entries;
  for (std::size_t e = 0; e < entries.size(); ++e)
    for (std::size_t f = 0; f < entries.size(); ++f)
      if (const auto* fit = link(entries[e], entries[f])) {
        const double time = simulate::sailor_all_reduce(*fit, members, bytes).value;
        fastest = std::min(fastest, time);
        if (few) edges[count++] = {time, e, f};
      }
  if (!few) return fastest;
  std::sort(edges.begin(), edges.begin() + static_cast<std::ptrdiff_t>(count),
            [](const Edge& x, const Edge& y) { return x.time < y.time; });
  std::array<std::int64_t, few_entries> room{};
  for (std::size_t e = 0; e < entries.size(); ++e) room[e] = p_.entries[at(entries[e])].count / tensor;
  const auto enough = [&](std::size_t used) {
    std::array<Row, few_entries> reach{};
    for (std::size_t i = 0; i < used; ++i) reach[edges[i].from] |= Row{1} << edges[i].to;
    return has_room(reach, entries.size(), room, members);
  };
  std::size_t low = 1, high = count + 1;  // as many of the fastest edges
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (enough(std::min(middle, count)))
      high = middle;
    else
      low = middle + 1;
  }
  return low > count ? never : edges[low - 1].time;
}

double Rings::least_between(const std::vector<int>& entries, const std::vector<int>& others, int members, double bytes) const {
  double least = never;
  for (const int e : entries)
    for (const int f : others)
      for (const auto* fit : {link(e, f), link(f, e)})
        if (fit) least = std::min(least, simulate::sailor_all_reduce(*fit, members, bytes).value);
  return least;
}

double Rings::least_across(int members, double bytes) const {
  double least = never;
  for (std::size_t e = 0; e < size_; ++e)
    for (std::size_t f = 0; f < size_; ++f) {
      const auto* fit = links_[e * size_ + f];
      if (fit && p_.entries[e].region != p_.entries[f].region)
        least = std::min(least, simulate::sailor_all_reduce(*fit, members, bytes).value);
    }
  return least;
}

/// Of the links of an order; a later place of a pair has no links of its own but to the next.
double Rings::slowest(const Order& order, const std::vector<double>& times) const {
  const auto time = [&](const Part& x, const Part& y) { return times[at(x.entry) * size_ + at(y.entry)]; };
  double most = 0;
  const auto& parts = order.parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool in_turns = (order.in_turns >> i & 1) != 0;
    if (!in_turns && parts[i].count > 1) most = std::max(most, time(parts[i], parts[i]));
    std::size_t last = i;  // whose replica is the last
    if (in_turns) {
      const Part &x = parts[i], &y = parts[i + 1];
      most = std::max(most, time(x, y));
      if (y.count > 1 || x.count > 1) most = std::max(most, time(y, x));
      if (x.count > y.count + 1) most = std::max(most, time(x, x));
      if (y.count > x.count) most = std::max(most, time(y, y));
      last = x.count > y.count ? i : i + 1;
      ++i;
    }
    if (i + 1 < parts.size()) most = std::max(most, time(parts[last], parts[i + 1]));
  }
  return most;
}

std::vector<Rings::Part> Rings::lined_up(const Order& order) {
  std::vector<Part> line;
  const auto put = [&](int entry, int count) {
    if (count == 0) return;
    if (!line.empty() && line.back().entry == entry)
      line.back().count += count;
    else
      line.push_back({entry, count});
  };
  for (std::size_t i = 0; i < order.parts.size(); ++i) {
    const Part& x = order.parts[i];
    if ((order.in_turns >> i & 1) == 0) {
      put(x.entry, x.count);
      continue;
    }
    const Part& y = order.parts[++i];
    const int turns = std::min(x.count, y.count), again = x.count > y.count ? 1 : 0;
    put(x.entry, x.count - turns - again);
    for (int t = 0; t < turns; ++t) put(x.entry, 1), put(y.entry, 1);
    put(x.entry, again);
    put(y.entry, y.count - turns);
  }
  return line;
}

std::vector<Rings::Part> Rings::ordered(const std::vector<Part>& parts, double message_bytes) const {
  std::vector<double> times(size_ * size_, never);
  std::vector<Part> sums;
  for (const Part& part : parts) {
    const auto found = std::ranges::find(sums, part.entry, &Part::entry);
    if (found == sums.end())
      sums.push_back(part);
    else
      found->count += part.count;
  }
  if (sums.size() > orderable) return parts;
  for (const Part& x : sums)
    for (const Part& y : sums)
      if (const auto* fit = link(x.entry, y.entry))
        times[at(x.entry) * size_ + at(y.entry)] = simulate::sailor_message(*fit, std::min(message_bytes, bucket)).value;
  std::ranges::sort(sums, {}, &Part::entry);
  Order order{sums, 0}, best;
  double least = never;
  do {
    for (std::uint32_t turns = 0; turns < (std::uint32_t{1} << (sums.size() - 1)); ++turns) {
      if ((turns & (turns << 1)) != 0) continue;  // a place is in one pair
      order.in_turns = turns;
      const double time = slowest(order, times);
      if (time < least * (1 - 1e-12)) least = time, best = order;
    }
  } while (std::next_permutation(order.parts.begin(), order.parts.end(), [](const Part& x, const Part& y) { return x.entry < y.entry; }));
  return best.parts.empty() ? parts : lined_up(best);
}

}  // namespace flotilla::search::rules
