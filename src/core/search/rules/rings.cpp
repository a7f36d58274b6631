#include "rings.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace flotilla::search::rules {
namespace {

using Row = std::uint32_t;

/// Whether a way over these links has room for so many replicas. links[e]: the entries that e leads to.
bool has_room(std::array<Row, tuning::rules_entries_of_rings> reach, std::size_t size,
              const std::array<std::int64_t, tuning::rules_entries_of_rings>& room, std::int64_t members) {
  for (std::size_t k = 0; k < size; ++k)
    for (std::size_t e = 0; e < size; ++e)
      if ((reach[e] >> k & 1) != 0) reach[e] |= reach[k];
  // Entries that lead to each other count together, those that nothing leads back to count once; then the best way through them.
  std::array<std::int64_t, tuning::rules_entries_of_rings> own{}, best{};
  std::array<bool, tuning::rules_entries_of_rings> lead{};
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

constexpr double smallest = -60, largest = 40;  // log2 of MB: beyond all messages

double rate(const cluster::LinkFit& fit, double x) { return (fit.a * x + fit.b) * x + fit.c; }

/// Whether the one is as fast as the other at every size: their difference is a parabola.
bool as_fast(const cluster::LinkFit& fit, const cluster::LinkFit& other) {
  const double a = fit.a - other.a, b = fit.b - other.b;
  const auto no_less = [&](double x) { return rate(fit, x) >= rate(other, x); };
  if (!no_less(smallest) || !no_less(largest)) return false;
  const double bottom = a > 0 ? -b / (2 * a) : smallest;
  return bottom <= smallest || bottom >= largest || no_less(bottom);
}

void add_fast(std::vector<const cluster::LinkFit*>& fits, const cluster::LinkFit* fit) {
  if (std::ranges::any_of(fits, [&](const auto* known) { return as_fast(*known, *fit); })) return;
  std::erase_if(fits, [&](const auto* known) { return as_fast(*fit, *known); });
  fits.push_back(fit);
}

/// sailor::sailor_all_reduce of many links: what does not depend on the link is worked out once.
class Reduction {
 public:
  Reduction(int members, double bytes) : rounds_{2.0 * (members - 1)}, full_{std::floor(bytes / sailor::bucket)} {
    if (members < 2) return;
    rest_ = (bytes - full_ * sailor::bucket) / members;
    if (full_ > 0) full_size_ = sailor::bucket / members, full_log_ = std::log2(full_size_ / 1e6);
    if (rest_ > 0) rest_log_ = std::log2(rest_ / 1e6);
  }
  double time(const cluster::LinkFit& fit) const {
    double time = 0;
    if (full_ > 0) time += full_ * full_size_ / 1e9 / std::max(rate(fit, full_log_), sailor::slowest_rate);
    if (rest_ > 0) time += rest_ / 1e9 / std::max(rate(fit, rest_log_), sailor::slowest_rate);
    return rounds_ * time;
  }

 private:
  double rounds_, full_, rest_ = 0, full_size_ = 0, full_log_ = 0, rest_log_ = 0;
};

}  // namespace

Rings::Rings(const FormulaProblem& p) : p_{p}, size_{p.entries.size()}, between_(p.groups.size() * p.groups.size()) {
  for (const PoolSlot& x : p.entries)
    for (const PoolSlot& y : p.entries) {
      const auto* fit = p.tables.single_link({x.type, x.zone, 1}, {y.type, y.zone, 1});
      links_.push_back(fit);
      if (!fit) continue;
      add_fast(between_[at(x.group) * p.groups.size() + at(y.group)], fit);
      add_fast(all_, fit);
      if (x.region != y.region) add_fast(across_, fit);
    }
}

double Rings::fastest(const Curves& curves, int members, double bytes) {
  const Reduction reduction{members, bytes};
  double least = never;
  for (const auto* fit : curves) least = std::min(least, reduction.time(*fit));
  return least;
}

double Rings::least(const ReplicaKind& kind, int members, double bytes) const {
  if (members < 2) return 0;
  if (kind.entries.size() > tuning::rules_entries_of_rings)
    return fastest(between_[at(kind.group) * p_.groups.size() + at(kind.group)], members, bytes);
  struct RingEdge {
    double time;
    std::size_t from, to;
  };
  std::array<RingEdge, tuning::rules_entries_of_rings * tuning::rules_entries_of_rings> edges;
  std::size_t count = 0;
  const Reduction reduction{members, bytes};
  for (std::size_t e = 0; e < kind.entries.size(); ++e)
    for (std::size_t f = 0; f < kind.entries.size(); ++f)
      if (const auto* fit = link(kind.entries[e], kind.entries[f])) edges[count++] = {reduction.time(*fit), e, f};
  std::sort(edges.begin(), edges.begin() + static_cast<std::ptrdiff_t>(count),
            [](const RingEdge& x, const RingEdge& y) { return x.time < y.time; });
  std::array<std::int64_t, tuning::rules_entries_of_rings> room{};
  for (std::size_t e = 0; e < kind.entries.size(); ++e) room[e] = p_.entries[at(kind.entries[e])].count / kind.tensor;
  const auto enough = [&](std::size_t used) {
    std::array<Row, tuning::rules_entries_of_rings> reach{};
    for (std::size_t i = 0; i < used; ++i) reach[edges[i].from] |= Row{1} << edges[i].to;
    return has_room(reach, kind.entries.size(), room, members);
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

double Rings::least_between(int group, int other, int members, double bytes) const {
  const std::size_t groups = p_.groups.size();
  return std::min(fastest(between_[at(group) * groups + at(other)], members, bytes),
                  fastest(between_[at(other) * groups + at(group)], members, bytes));
}

/// Of the links of an order; a later place of a pair has no links of its own but to the next.
double Rings::slowest(const RingOrder& order, const std::vector<double>& times) const {
  const auto time = [&](const RingPart& x, const RingPart& y) { return times[at(x.entry) * size_ + at(y.entry)]; };
  double most = 0;
  const auto& parts = order.parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool in_turns = (order.in_turns >> i & 1) != 0;
    if (!in_turns && parts[i].count > 1) most = std::max(most, time(parts[i], parts[i]));
    std::size_t last = i;  // whose replica is the last
    if (in_turns) {
      const RingPart &x = parts[i], &y = parts[i + 1];
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

std::vector<Rings::RingPart> Rings::lined_up(const RingOrder& order) {
  std::vector<RingPart> line;
  const auto put = [&](int entry, int count) {
    if (count == 0) return;
    if (!line.empty() && line.back().entry == entry)
      line.back().count += count;
    else
      line.push_back({entry, count});
  };
  for (std::size_t i = 0; i < order.parts.size(); ++i) {
    const RingPart& x = order.parts[i];
    if ((order.in_turns >> i & 1) == 0) {
      put(x.entry, x.count);
      continue;
    }
    const RingPart& y = order.parts[++i];
    const int turns = std::min(x.count, y.count), again = x.count > y.count ? 1 : 0;
    put(x.entry, x.count - turns - again);
    for (int t = 0; t < turns; ++t) put(x.entry, 1), put(y.entry, 1);
    put(x.entry, again);
    put(y.entry, y.count - turns);
  }
  return line;
}

std::vector<Rings::RingPart> Rings::ordered(const std::vector<RingPart>& parts, double message_bytes) const {
  std::vector<double> times(size_ * size_, never);
  std::vector<RingPart> sums;
  for (const RingPart& part : parts) {
    const auto found = std::ranges::find(sums, part.entry, &RingPart::entry);
    if (found == sums.end())
      sums.push_back(part);
    else
      found->count += part.count;
  }
  if (sums.size() > tuning::rules_entries_of_orders) return parts;
  for (const RingPart& x : sums)
    for (const RingPart& y : sums)
      if (const auto* fit = link(x.entry, y.entry))
        times[at(x.entry) * size_ + at(y.entry)] = sailor::sailor_message(*fit, std::min(message_bytes, sailor::bucket)).value;
  std::ranges::sort(sums, {}, &RingPart::entry);
  RingOrder order{sums, 0}, best;
  double least = never;
  do {
    for (std::uint32_t turns = 0; turns < (std::uint32_t{1} << (sums.size() - 1)); ++turns) {
      if ((turns & (turns << 1)) != 0) continue;  // a place is in one pair
      order.in_turns = turns;
      const double time = slowest(order, times);
      if (time < least * (1 - 1e-12)) least = time, best = order;
    }
  } while (std::next_permutation(order.parts.begin(), order.parts.end(),
                                 [](const RingPart& x, const RingPart& y) { return x.entry < y.entry; }));
  return best.parts.empty() ? parts : lined_up(best);
}

}  // namespace flotilla::search::rules
