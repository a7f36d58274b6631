#include "sum_times.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla::search::bound {
namespace {

constexpr double gradient_bytes = 4;  // fp32
// As simulate/route: a published fit holds from its smallest message on, and never below a share of its highest rate.
constexpr double smallest_fitted = 65536, largest_fitted = 1073741824, least_share = 0.02;

double fitted(const cluster::LinkFit& fit, double bytes, int flows) {
  const double sent = std::max(bytes, smallest_fitted), x = std::log2(std::min(sent, largest_fitted) / 1e6);
  const double together = std::clamp(1e9 * ((fit.a * x + fit.b) * x + fit.c), least_share * fit.most.value, fit.most.value);
  return sent * std::max(flows, fit.from_count) / together;
}

Bytes whole(double bytes) { return {static_cast<std::int64_t>(bytes)}; }

}  // namespace

double SumTable::Link::seconds(double bytes, int flows) const {
  if (fit) return fitted(*fit, bytes, flows);
  const auto of = [&](double size) {
    return adds ? cluster::sum_time(*link, whole(size)).value : cluster::transfer_time(*link, whole(size)).value;
  };
  const double alone = of(bytes), latency = std::min(alone, of(0));
  return latency + std::max(1.0, static_cast<double>(flows) / std::max(1, link->lanes)) * (alone - latency);
}

SumTable::SumTable(const pool::DevicePool& device_pool, const LayerCosts& costs)
    : device_pool_{device_pool},
      costs_{costs},
      zones_{static_cast<int>(device_pool.zones.size())},
      between_(device_pool.types.size()),
      inside_(device_pool.types.size()) {
  for (const pool::Place& place : device_pool.places) {
    const int per_node = device_pool.types[at(place.type)].per_node;
    hosts_ += (place.count + per_node - 1) / per_node;
  }
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
      if (touches(fit.from_type, fit.to_type, type)) (fit.inside_node() ? inside_[t] : between_[t]).push_back({nullptr, &fit, false});
  }
}

/// A link may be named by hosts, zones or types; it is another's only where it names types of the pool, and not this one.
bool SumTable::touches(const std::string& from, const std::string& to, int type) const {
  const auto& name = device_pool_.types[at(type)].name;
  const auto is_type = [&](const std::string& token_embedding) {
    return std::ranges::find(device_pool_.types, token_embedding, &pool::PoolType::name) != device_pool_.types.end();
  };
  return from == name || to == name || !is_type(from) || !is_type(to);
}

/// Everybody sends so many bytes to each of the other members; each further message adds what the bytes take.
double SumTable::exchange(const Links& links, double bytes, int members, int flows) {
  double least = 1e300;
  for (const Link& link : links) {
    const double one = link.seconds(bytes, flows), further = std::max(0.0, one - link.seconds(0, 1));
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

const SumTimes& SumTable::between_hosts(const ReplicaOption& option, int groups) {
  for (const Known& known : known_)
    if (known.type == option.type && known.tensor == option.tensor && known.groups == groups) return known.times;
  // More hosts send more, but in smaller messages: whichever is least.
  SumTimes least = times(option, groups);
  for (int more = groups; more < hosts_;) {
    more = std::min(2 * more, hosts_);
    const SumTimes other = times(option, more);
    for (std::size_t k = 0; k < layer_kinds; ++k) least.own[k] = std::min(least.own[k], other.own[k]);
    least.token_embedding = std::min(least.token_embedding, other.token_embedding);
  }
  known_.push_back({option.type, option.tensor, groups, least});
  return known_.back().times;
}

}  // namespace flotilla::search::bound
