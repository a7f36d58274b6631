#include "expense.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "flotilla/program/collectives.hpp"
#include "network/subgroup_shape.hpp"

namespace flotilla::simulate {
namespace {

using program::Collective;
using program::CollectiveKind;
using program::Program;

constexpr double seconds_in_an_hour = 3600;

/// What the instructions of a program send between zones in a step.
class TrafficSum {
 public:
  TrafficSum(const TrafficSum&) = delete;
  TrafficSum& operator=(const TrafficSum&) = delete;
  TrafficSum(const Program& program, const std::vector<cluster::Device>& devices) : program_{program} {
    std::map<std::string, int> numbers;
    for (std::size_t r = 0; r < program.ranks.size() && r < devices.size(); ++r) {
      const bool as_before = r > 0 && devices[r].zone == devices[r - 1].zone;
      zone_of_.push_back(as_before ? zone_of_.back()
                                   : numbers.try_emplace(devices[r].zone, static_cast<int>(numbers.size())).first->second);
    }
    names_.resize(numbers.size());
    for (const auto& [name, number] : numbers) names_[static_cast<std::size_t>(number)] = name;
    bytes_.resize(names_.size() * names_.size());
  }

  /// Whether anything leaves a zone.
  bool any() {
    if (names_.size() < 2) return false;
    for (std::size_t r = 0; r < zone_of_.size(); ++r) {
      add_rank(Rank{static_cast<int>(r)});
      if (std::ranges::any_of(bytes_, [](double bytes) { return bytes > 0; })) return true;
    }
    return false;
  }

  std::vector<ZoneTraffic> sum() {
    if (names_.size() > 1)
      for (std::size_t r = 0; r < zone_of_.size(); ++r) add_rank(Rank{static_cast<int>(r)});
    std::vector<ZoneTraffic> found;
    for (std::size_t from = 0; from < names_.size(); ++from)
      for (std::size_t to = 0; to < names_.size(); ++to)
        if (from != to && bytes_[from * names_.size() + to] > 0)
          found.push_back({names_[from], names_[to], bytes_[from * names_.size() + to]});
    std::ranges::sort(found, {}, [](const ZoneTraffic& t) { return std::pair{t.from, t.to}; });
    return found;
  }

 private:
  /// An instruction of a class that sends or sums, and what all its runs move in a step. One of both is null.
  struct ZoneMoves {
    const program::MessageEnd* message;
    const Collective* collective;
    double bytes;
  };
  const std::vector<ZoneMoves>& moves_of(int rank_class) {
    if (moves_.empty()) moves_.resize(program_.classes.size());
    auto& known = moves_[static_cast<std::size_t>(rank_class)];
    if (known) return *known;
    known.emplace();
    const auto& c = program_.classes[static_cast<std::size_t>(rank_class)];
    for (const auto& instruction : c.instructions)
      if (const auto* collective = instruction.as<Collective>())
        known->push_back({nullptr, collective, bytes_of(c, instruction.per_microbatch, collective->size, {})});
      else if (const auto* message = instruction.as<program::MessageEnd>(); message != nullptr && message->sends())
        known->push_back({message, nullptr, bytes_of(c, instruction.per_microbatch, message->size, message->runs)});
    return *known;
  }

  void add_rank(Rank rank) {
    const auto& binding = program_.ranks[rank.index()];
    if (binding.rank_class < 0 || !crosses_zones(rank, binding)) return;
    for (const auto& [message, collective, bytes] : moves_of(binding.rank_class)) {
      if (collective == nullptr) {
        const bool shared = message->once && binding.tensor_index > 0;  // the group's first member counts its one message
        if (!shared) add(zone(rank), zone(binding.peers.at(static_cast<std::size_t>(message->peer))), bytes);
        continue;
      }
      const auto& group = program_.groups.at(static_cast<std::size_t>(binding.groups.at(static_cast<std::size_t>(collective->group))));
      if (group.members.front() == rank && spans_zones(group)) add_collective(collective->kind, bytes, group);
    }
  }

  /// Whether a message of the rank may leave its zone, or a collective that is counted at it.
  bool crosses_zones(Rank rank, const program::RankBinding& binding) const {
    if (std::ranges::any_of(binding.peers, [&](Rank peer) { return zone(peer) != zone(rank); })) return true;
    return std::ranges::any_of(binding.groups, [&](int number) {
      const auto& group = program_.groups.at(static_cast<std::size_t>(number));
      return group.members.front() == rank && spans_zones(group);
    });
  }

  /// Of all runs of an instruction in a step; `some`: those of the microbatches in which it runs, empty: in all.
  static double bytes_of(const program::RankClass& c, bool per_microbatch, const program::TransferSize& size,
                         const std::vector<program::Runs>& some) {
    if (!per_microbatch) return static_cast<double>(size.fixed.count);
    const double sequences = static_cast<double>(c.microbatches - 1) * c.shape.sequences + c.last_sequences;
    double runs = some.empty() ? c.microbatches : 0;
    for (const auto& range : some) runs += range.count;
    return static_cast<double>(size.per_sequence.count) * sequences + static_cast<double>(size.fixed.count) * runs;
  }

  bool spans_zones(const program::Group& group) const {
    return std::ranges::any_of(group.members, [&](Rank rank) { return zone(rank) != zone(group.members.front()); });
  }

  static bool is_half(CollectiveKind kind) {
    return kind == CollectiveKind::reduce_scatter_shards || kind == CollectiveKind::all_gather_shards;
  }

  /// A library's ring, members in order of zone: (G - 1) / G of the bytes go from each zone to the next, twice in an all-reduce.
  void add_ring(double bytes, const program::Group& group, int rounds) {
    std::vector<int> zones;
    for (Rank rank : group.members)
      if (std::ranges::find(zones, zone(rank)) == zones.end()) zones.push_back(zone(rank));
    const auto members = static_cast<double>(group.members.size());
    for (std::size_t z = 0; z < zones.size(); ++z) add(zones[z], zones[(z + 1) % zones.size()], rounds * (members - 1) / members * bytes);
  }

  /// Up to the sums, whose pieces or shares stay where they are.
  static bool halves_a_sum(CollectiveKind kind) {
    return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::reduce_scatter_shards;
  }

  /// With n(z) members in a zone and p(z) the bytes of their pieces: n(a) p(b) go to those who sum them, p(a) n(b) come back summed.
  void add_collective(CollectiveKind kind, double bytes, const program::Group& group) {
    if (program::by_library(group, kind) && kind == CollectiveKind::all_reduce) return add_ring(bytes, group, 2);
    if (program::by_library(group, kind) && is_half(kind)) return add_ring(bytes, group, 1);
    if (!group.subgroups.empty() && kind != CollectiveKind::reduce_scalars) return add_subgroups(bytes, kind, group);
    const auto members = static_cast<int>(group.members.size());
    std::vector<double> count(names_.size()), pieces(names_.size());
    for (int m = 0; m < members; ++m) {
      const auto z = static_cast<std::size_t>(zone(group.members[static_cast<std::size_t>(m)]));
      ++count[z];
      pieces[z] += piece_of(kind, bytes, members, m);
    }
    for (std::size_t a = 0; a < names_.size(); ++a)
      for (std::size_t b = 0; b < names_.size(); ++b)
        if (a != b) {
          const double there = count[a] * pieces[b], back = pieces[a] * count[b];
          add(static_cast<int>(a), static_cast<int>(b),
              kind == CollectiveKind::all_reduce ? there + back
              : halves_a_sum(kind)               ? there
                                                 : back);
        }
  }

  /// Level by level each inner subgroup of a subgroup gives each other one the k-th part of the bytes, once each way that the sum goes.
  void add_subgroups(double bytes, CollectiveKind kind, const program::Group& group) {
    const double ways = kind == CollectiveKind::all_reduce ? 2 : 1;
    for (const auto& level : shapes_.of(group))
      for (const SubgroupShape& subgroup : level) {
        const int home = zone(subgroup.firsts.front());  // most subgroups never leave it
        if (std::ranges::all_of(subgroup.firsts, [&](Rank rank) { return zone(rank) == home; })) continue;
        std::vector<double> count(names_.size());
        for (Rank rank : subgroup.firsts) ++count[static_cast<std::size_t>(zone(rank))];
        for (std::size_t a = 0; a < names_.size(); ++a)
          for (std::size_t b = 0; b < names_.size(); ++b)
            add(static_cast<int>(a), static_cast<int>(b), ways * bytes / subgroup.subgroups() * count[a] * count[b]);
      }
  }

  /// What a member sums and sends to everybody; of a gather its contribution.
  static double piece_of(CollectiveKind kind, double bytes, int members, int index) {
    if (kind == CollectiveKind::all_gather_shards) return bytes / members;
    if (kind != CollectiveKind::all_reduce && !halves_a_sum(kind)) return bytes;
    constexpr std::int64_t fp32 = 4;
    return static_cast<double>(program::piece(static_cast<std::int64_t>(bytes) / fp32, members, index).count() * fp32);
  }

  int zone(Rank rank) const { return zone_of_.at(rank.index()); }
  void add(int from, int to, double bytes) {
    if (from != to) bytes_[static_cast<std::size_t>(from) * names_.size() + static_cast<std::size_t>(to)] += bytes;
  }

  const Program& program_;
  std::vector<int> zone_of_;                                  // by rank
  std::vector<std::string> names_;                            // by zone
  std::vector<double> bytes_;                                 // from zone x to zone
  std::vector<std::optional<std::vector<ZoneMoves>>> moves_;  // by class
  SubgroupShapeCache shapes_{{[this](Rank rank) { return zone(rank); }, [](Rank) { return -1; }}};
};

std::optional<double> egress_usd(const Program& program, const cluster::Profile& profile) {
  TrafficSum traffic{program, profile.devices};
  if (profile.egress_prices.empty()) return traffic.any() ? std::nullopt : std::optional{0.0};  // no need to count what has no price
  double usd = 0;
  for (const auto& flow : traffic.sum()) {
    const auto price =
        std::ranges::find_if(profile.egress_prices, [&](const auto& p) { return p.from_zone == flow.from && p.to_zone == flow.to; });
    if (price == profile.egress_prices.end()) return std::nullopt;
    usd += flow.bytes * price->usd_per_byte;
  }
  return usd;
}

/// Devices of the program by type and zone; all in zone "" where none has prices of its own.
std::map<cluster::TypeInZone, double> devices_by_place(const Program& program, const cluster::Profile& profile) {
  std::map<cluster::TypeInZone, double> count;
  const std::string anywhere;
  const auto zone_of = [&](std::size_t rank) -> const std::string& {
    return profile.zone_prices.empty() ? anywhere : profile.devices.at(rank).zone;
  };
  double* last = nullptr;
  int last_class = -1;
  std::string_view last_zone;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    const int rank_class = program.ranks[r].rank_class;
    if (rank_class < 0) continue;
    const std::string& zone = zone_of(r);
    if (rank_class != last_class || zone != last_zone) {
      last = &count[{program.classes[static_cast<std::size_t>(rank_class)].device_type, zone}];
      last_class = rank_class, last_zone = zone;
    }
    ++*last;
  }
  return count;
}

/// Sum over the devices of a figure of their type; absent where one has none.
template <class Figure>
std::optional<double> sum_over(const std::map<cluster::TypeInZone, double>& count, Figure figure) {
  double sum = 0;
  for (const auto& [place, devices] : count) {
    const double each = figure(place.type, place.zone);
    if (!(each > 0)) return std::nullopt;
    sum += devices * each;
  }
  return sum;
}

}  // namespace

std::vector<ZoneTraffic> traffic_between_zones(const Program& program, const std::vector<cluster::Device>& devices) {
  return TrafficSum{program, devices}.sum();
}

Expense expense_of(const Program& program, const cluster::Profile& profile, Seconds time) {
  const auto count = devices_by_place(program, profile);
  const auto times = [](std::optional<double> sum, double factor) { return sum ? std::optional{*sum * factor} : sum; };
  const double hours = time.value / seconds_in_an_hour;
  Expense expense;
  expense.device_usd =
      times(sum_over(count, [&](const auto& type, const auto& zone) { return cluster::usd_per_hour(profile, type, zone); }), hours);
  expense.billing_units =
      times(sum_over(count, [&](const auto& type, const auto& zone) { return cluster::billing_weight(profile, type, zone); }), hours);
  const auto watts = [&](const auto& name, const auto&) {
    const auto* type = cluster::find_type(profile, name);
    return type == nullptr ? 0 : type->power_watts;
  };
  expense.energy_joules = times(sum_over(count, watts), time.value);
  expense.egress_usd = egress_usd(program, profile);
  return expense;
}

}  // namespace flotilla::simulate
