#include "sum_times.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace flotilla::search::bound {
namespace {

constexpr double gradient_bytes = 4;  // fp32
// As simulate/route: a published fit holds from its smallest message on, and never below a share of its highest rate.
constexpr double smallest_fitted = 65536, largest_fitted = 1073741824, least_share = 0.02;

double fitted(const cluster::LinkFit& fit, const MessageSize& size, int flows) {
  const double x = size.log, together = std::clamp(1e9 * ((fit.a * x + fit.b) * x + fit.c), least_share * fit.most.value, fit.most.value);
  return size.fitted * std::max(flows, fit.from_count) / together;
}

}  // namespace

MessageSize::MessageSize(double size)
    : bytes{size}, fitted{std::max(size, smallest_fitted)}, log{std::log2(std::min(fitted, largest_fitted) / 1e6)} {}

double SumTable::Link::seconds(const MessageSize& size, int flows) const {
  if (fit) return fitted(*fit, size, flows);
  const double whole = alone(size.bytes), least = std::min(whole, latency);
  return least + std::max(1.0, static_cast<double>(flows) / std::max(1, link->lanes)) * (whole - least);
}

/// Of a link, where nobody shares it.
double SumTable::Link::alone(double bytes) const {
  const Bytes size{static_cast<std::int64_t>(bytes)};
  return adds ? cluster::sum_time(*link, size).value : cluster::transfer_time(*link, size).value;
}

SumTable::SumTable(const pool::DevicePool& device_pool, const LeastLayerCosts& costs)
    : device_pool_{device_pool},
      costs_{costs},
      zones_{static_cast<int>(device_pool.zones.size())},
      between_(device_pool.types.size()),
      inside_(device_pool.types.size()),
      known_(costs.options.size()) {
  for (const pool::Place& place : device_pool.places) {
    const int per_node = device_pool.types[at(place.type)].per_node;
    hosts_ += (place.count + per_node - 1) / per_node;
  }
  for (int groups = 2; groups <= std::max(2, hosts_); groups *= 2) {
    groups_.push_back(groups);
    if (groups / 2 * 3 <= hosts_) groups_.push_back(groups / 2 * 3);
  }
  if (groups_.back() < hosts_) groups_.push_back(hosts_);
  if (!costs.is_ours) return;
  for (std::size_t t = 0; t < between_.size(); ++t) {
    const int type = static_cast<int>(t);
    for (const auto& link : device_pool.profile.links) {
      if (!touches(link.from, link.to, type)) continue;
      Links& links = link.level == cluster::LinkLevel::node ? inside_[t] : between_[t];
      links.push_back({&link, nullptr, false});
      if (!link.sum_pieces.empty()) links.push_back({&link, nullptr, true});
    }
    for (const auto& fit : device_pool.profile.link_fits)
      if (is_used(fit) && touches(fit.from_type, fit.to_type, type))
        (fit.inside_node() ? inside_[t] : between_[t]).push_back({nullptr, &fit, false});
    for (Links* links : {&inside_[t], &between_[t]}) {
      drop_twins(*links);
      for (Link& link : *links) {
        if (link.link) link.latency = link.alone(0);
        link.empty = link.seconds(MessageSize{0}, 1);
      }
    }
  }
}

/// Links of many zones take equally long: one of them is enough.
void SumTable::drop_twins(Links& links) {
  const auto same = [](const Link& a, const Link& b) {
    if (a.fit || b.fit)
      return a.fit && b.fit &&
             std::tie(a.fit->a, a.fit->b, a.fit->c, a.fit->most, a.fit->from_count) ==
                 std::tie(b.fit->a, b.fit->b, b.fit->c, b.fit->most, b.fit->from_count);
    return a.adds == b.adds && a.link->lanes == b.link->lanes && a.link->pieces == b.link->pieces &&
           a.link->sum_pieces == b.link->sum_pieces;
  };
  Links kept;
  for (const Link& link : links)
    if (std::ranges::none_of(kept, [&](const Link& other) { return same(link, other); })) kept.push_back(link);
  links = std::move(kept);
}

/// A link may be named by hosts, zones or types; it is another's only where it names types of the pool, and not this one.
bool SumTable::touches(const std::string& from, const std::string& to, int type) const {
  const auto& name = device_pool_.types[at(type)].name;
  const auto is_type = [&](const std::string& token_embedding) {
    return std::ranges::find(device_pool_.types, token_embedding, &pool::PoolType::name) != device_pool_.types.end();
  };
  return from == name || to == name || !is_type(from) || !is_type(to);
}

/// By the forecast (simulate/route): between zones their own fits, inside a zone another zone's too, and of as many senders as receivers.
bool SumTable::is_used(const cluster::LinkFit& fit) const {
  const auto is_there = [&](const std::string& zone) { return std::ranges::find(device_pool_.zones, zone) != device_pool_.zones.end(); };
  return fit.from_count == fit.to_count && (fit.from_zone == fit.to_zone || (is_there(fit.from_zone) && is_there(fit.to_zone)));
}

/// Everybody sends so many bytes to each of the other members; each further message adds what the bytes take.
double SumTable::exchange(const Links& links, double bytes, int members, int flows) {
  double least = 1e300;
  const MessageSize size{bytes};
  for (const Link& link : links) {
    const double one = link.seconds(size, flows), further = std::max(0.0, one - link.empty);
    least = std::min(least, one + (members - 2) * further);
  }
  return least < 1e300 ? least : 0;
}

/// All groups of a host's devices move their pieces over the same cards; inside a host every pair has a path of its own.
double SumTable::all_reduce(const ReplicaOption& option, double elements, int groups) const {
  if (!(elements > 0)) return 0;
  const int per_node = device_pool_.types[at(option.type)].per_node, on_host = std::min(option.tensor, per_node);
  const double shard = gradient_bytes * elements / option.tensor;
  double least = 1e300;
  for (int replicas = 1; replicas <= per_node / on_host; ++replicas) {
    const double within = replicas > 1 ? exchange(inside_[at(option.type)], shard / replicas, replicas, 1) : 0;
    least = std::min(least, within + exchange(between_[at(option.type)], shard / (replicas * groups), groups, replicas * on_host));
  }
  return 2 * least;
}

SumTimes SumTable::times(const ReplicaOption& option, int groups) const {
  SumTimes out;
  for (std::size_t k = 0; k < layer_kinds; ++k) out.own[k] = all_reduce(option, costs_.elements.own[k], groups);
  out.token_embedding = all_reduce(option, costs_.elements.token_embedding, groups);
  return out;
}

/// More hosts send more, but in smaller messages: whichever is least.
const std::vector<SumTimes>& SumTable::known(const ReplicaOption& option) {
  std::vector<SumTimes>& known = known_[static_cast<std::size_t>(&option - costs_.options.data())];
  if (!known.empty()) return known;
  for (const int groups : groups_) known.push_back(times(option, groups));
  for (std::size_t g = groups_.size() - 1; g-- > 0;) {
    SumTimes& here = known[g];
    const SumTimes& above = known[g + 1];
    for (std::size_t k = 0; k < layer_kinds; ++k) here.own[k] = std::min(here.own[k], above.own[k]);
    here.token_embedding = std::min(here.token_embedding, above.token_embedding);
  }
  return known;
}

std::size_t SumTable::number_of(int groups) const {
  const auto above = std::ranges::upper_bound(groups_, std::max(groups, groups_.front()));
  return static_cast<std::size_t>(above - groups_.begin()) - 1;
}

}  // namespace flotilla::search::bound
