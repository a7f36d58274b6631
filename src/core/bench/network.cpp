#include "network.hpp"

#include <algorithm>
#include <utility>

#include "flotilla/base/text.hpp"
#include "flotilla/bench/fabric.hpp"
#include "flotilla/bench/fabric_links.hpp"
#include "losses.hpp"
#include "statistics.hpp"

namespace flotilla::bench {
namespace {

constexpr double half = 0.5;  // of what is usual

/// Nodes by index, and what their pairs reach by UCX's own choice, with others at work.
struct Network {
  std::vector<NodePlace> places;
  std::vector<bool> busy;  ///< by node: its times are not judged
  std::map<std::string, int> index;
  std::vector<MeasuredPair> measured;
};

Network network_of(const BenchReport& report) {
  Network network;
  for (const auto& node : report.nodes) {
    network.index[node.host] = static_cast<int>(network.places.size());
    network.places.push_back({node.host, node.partition, node.network_switch});
    network.busy.push_back(busy(node));
  }
  for (const auto& link : report.links) {
    const auto a = network.index.find(link.from), b = network.index.find(link.to);
    if (!link.transport.empty() || link.alone || link.points.empty() || a == network.index.end() || b == network.index.end()) continue;
    network.measured.push_back(
        {{std::min(a->second, b->second), std::max(a->second, b->second)}, link.points.back().stream.value, link.points.front().latency});
  }
  return network;
}

bool is_busy(const Network& network, int node) { return network.busy[static_cast<std::size_t>(node)]; }

/// Then what is low everywhere is no fault of the network.
bool mostly_busy(const Network& network) {
  return 2 * std::ranges::count(network.busy, true) > static_cast<std::ptrdiff_t>(network.busy.size());
}

const std::string& host(const Network& network, int node) { return network.places[static_cast<std::size_t>(node)].host; }

/// Of a node's pairs.
MeasuredPair usual_of(const Network& network, int node) {
  std::vector<double> bandwidths, latencies;
  for (const auto& m : network.measured)
    if (m.pair.a == node || m.pair.b == node) bandwidths.push_back(m.bandwidth), latencies.push_back(m.latency.value);
  return {{node, node}, median_of(bandwidths), {median_of(latencies)}};
}

void judge_nodes(const Network& network, const OddLinks& odd, NetworkReasons& reasons) {
  for (const int node : odd.nodes) {
    const auto usual = usual_of(network, node);
    // Who waits for a processor takes longer for small messages; few lose half of the rate of large ones by it.
    if (is_busy(network, node) && usual.bandwidth >= half * odd.bandwidth) continue;
    reasons.nodes[host(network, node)].push_back(
        {usual.bandwidth < half * odd.bandwidth ? Grade::drain : Grade::watch, "network",
         text("its links move ", BytesPerSecond{usual.bandwidth}, " and take ", usual.latency, " for 8 bytes, where ",
              BytesPerSecond{odd.bandwidth}, " and ", odd.latency, " are the medians within groups")});
  }
}

void judge_pairs(const Network& network, const OddLinks& odd, NetworkReasons& reasons) {
  for (const auto& pair : odd.pairs) {
    if (is_busy(network, pair.a) || is_busy(network, pair.b)) continue;
    for (const auto& [one, other] : {std::pair{pair.a, pair.b}, std::pair{pair.b, pair.a}})
      reasons.nodes[host(network, one)].push_back(
          {Grade::watch, "network", text("the link to ", host(network, other), " is slow, though other links of both are not")});
  }
}

/// A node's, or everybody's, share of MPI in what UCX moves.
void judge_shares(const BenchReport& report, const Network& network, NetworkReasons& reasons) {
  const auto low = low_shares(fabric_links(report.links));
  if (!low.everywhere.empty() && !mostly_busy(network))
    reasons.others.push_back({"network", Grade::watch, {{Grade::watch, "mpi", low.everywhere}}});
  for (const auto& [host, what] : low.hosts)
    if (const auto found = network.index.find(host); found == network.index.end() || !is_busy(network, found->second))
      reasons.nodes[host].push_back({Grade::watch, "mpi", what});
}

/// A proof that failed: its words name ranks and hosts.
void judge_collectives(const BenchReport& report, NetworkReasons& reasons) {
  for (const auto& collective : report.collectives)
    if (collective.level == faulty_member)
      reasons.nodes[collective.name].push_back({Grade::drain, "wrong sums", collective.refusal});
    else if (!collective.refusal.empty())
      reasons.others.push_back(
          {text(collective.level, " ", collective.name), Grade::watch, {{Grade::watch, "collectives", collective.refusal}}});
}

/// What another program found wrong by itself.
void judge_imported(const BenchReport& report, NetworkReasons& reasons) {
  for (const auto& series : report.imported)
    if (!series.fault.empty())
      reasons.others.push_back(
          {series.program, Grade::watch, {{Grade::watch, "import", text(series.quantity, ": ", series.fault, " (", series.source, ")")}}});
}

}  // namespace

std::vector<std::pair<std::string, std::vector<std::string>>> switches_of(const BenchReport& report) {
  const auto network = network_of(report);
  std::vector<std::pair<std::string, std::vector<std::string>>> switches;
  for (const auto& group : switch_groups(network.places, network.measured)) {
    auto& hosts = switches.emplace_back(group.name, std::vector<std::string>{}).second;
    for (const int node : group.nodes) hosts.push_back(host(network, node));
  }
  return switches;
}

NetworkReasons judge_network(const BenchReport& report) {
  NetworkReasons reasons;
  const auto network = network_of(report);
  const auto odd = odd_links(network.places, network.measured);
  judge_nodes(network, odd, reasons);
  judge_pairs(network, odd, reasons);
  for (const auto& group : odd.groups)
    if (!mostly_busy(network))
      reasons.others.push_back(
          {"switch " + group, Grade::watch, {{Grade::watch, "network", "links among its nodes are slow beside those of other switches"}}});
  judge_shares(report, network, reasons);
  judge_losses(report, reasons);
  judge_collectives(report, reasons);
  judge_imported(report, reasons);
  return reasons;
}

}  // namespace flotilla::bench
