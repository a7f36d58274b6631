#include "app/bench/bench_network.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "app/bench/bench_rows.hpp"
#include "app/common/on_all_ranks.hpp"
#include "app/common/table.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/world.hpp"
#include "flotilla/fabric/collectives.hpp"
#include "flotilla/fabric/fabric.hpp"
#include "flotilla/files/bench_file.hpp"

namespace flotilla::app {
namespace {

constexpr std::size_t most_alone = 6;  // pairs whose whole curve is measured

/// Nodes of the report and the ranks on them.
class Nodes {
 public:
  Nodes(const bench::BenchReport& report, std::vector<std::string> host_of_rank) : hosts_{std::move(host_of_rank)} {
    for (const auto& node : report.nodes) {
      places_.push_back({node.host, node.partition, node.network_switch});
      std::vector<Rank> ranks;
      for (std::size_t r = 0; r < hosts_.size(); ++r)
        if (hosts_[r] == node.host) ranks.push_back(Rank{static_cast<int>(r)});
      FLOTILLA_REQUIRE(!ranks.empty(), ErrorKind::communication, node.host, " has tested itself, but no process of it is in MPI's world");
      ranks_.push_back(std::move(ranks));
    }
  }
  const std::vector<bench::NodePlace>& places() const { return places_; }
  /// By rank.
  const std::vector<std::string>& hosts() const { return hosts_; }
  fabric::LinkPair between(bench::NodePair pair) const { return {first(pair.a), first(pair.b)}; }
  /// Two processes of the first node that has two.
  std::vector<fabric::LinkPair> inside() const {
    for (const auto& ranks : ranks_)
      if (ranks.size() > 1) return {{ranks[0], ranks[1]}};
    return {};
  }
  const std::vector<Rank>& ranks(std::size_t node) const { return ranks_[node]; }
  int index(const std::string& host) const {
    return static_cast<int>(std::ranges::find(places_, host, &bench::NodePlace::host) - places_.begin());
  }

 private:
  Rank first(int node) const { return ranks_[static_cast<std::size_t>(node)].front(); }
  std::vector<std::string> hosts_;
  std::vector<bench::NodePlace> places_;
  std::vector<std::vector<Rank>> ranks_;
};

/// Pairs in rounds, at two sizes, by UCX's choice and by MPI.
std::vector<bench::LinkReport> in_rounds(const comm::World& world, const Nodes& nodes, const std::vector<bench::NodePair>& pairs,
                                         Seconds deadline) {
  std::vector<std::vector<fabric::LinkPair>> rounds;
  for (const auto& round : bench::rounds_of(pairs)) {
    auto& links = rounds.emplace_back();
    for (const auto& pair : round) links.push_back(nodes.between(pair));
  }
  return fabric::measure_in_rounds(world, rounds, nodes.hosts(), fabric::usual_slice, deadline);
}

std::vector<bench::MeasuredPair> measured(const Nodes& nodes, const std::vector<bench::LinkReport>& links) {
  std::vector<bench::MeasuredPair> all;
  for (const auto& link : links) {
    if (!link.transport.empty() || link.points.empty()) continue;
    const int a = nodes.index(link.from), b = nodes.index(link.to);
    all.push_back({{std::min(a, b), std::max(a, b)}, link.points.back().stream.value, link.points.front().latency});
  }
  return all;
}

/// One link inside a node, one within a group, one between each two groups: a few.
std::vector<std::vector<fabric::LinkPair>> alone_rounds(const Nodes& nodes, const std::vector<bench::NodePair>& pairs) {
  std::vector<std::vector<fabric::LinkPair>> rounds;
  for (const auto& pair : nodes.inside()) rounds.push_back({pair});
  std::set<std::string> kinds;
  for (const auto& pair : pairs) {
    const auto& a = nodes.places()[static_cast<std::size_t>(pair.a)];
    const auto& b = nodes.places()[static_cast<std::size_t>(pair.b)];
    const bool near = a.component == b.component && a.network_switch == b.network_switch;
    if (rounds.size() < most_alone && kinds.insert(text(a.component, ' ', b.component, ' ', near)).second)
      rounds.push_back({nodes.between(pair)});
  }
  return rounds;
}

/// First ranks of nodes by a name that places have, where more than one node has it.
template <class NameOf>
std::vector<fabric::CollectiveTest> first_ranks(const Nodes& nodes, const char* level, NameOf name_of) {
  std::map<std::string, std::vector<Rank>> members;
  for (std::size_t n = 0; n < nodes.places().size(); ++n) members[name_of(nodes.places()[n])].push_back(nodes.ranks(n).front());
  std::vector<fabric::CollectiveTest> tests;
  for (const auto& [name, ranks] : members)
    if (ranks.size() > 1 && !name.empty()) tests.push_back({level, name, ranks});
  return tests;
}

/// All ranks of each node; the first ranks of the nodes of each switch and of each partition; those of all.
std::vector<fabric::CollectiveTest> collective_tests(const Nodes& nodes) {
  std::vector<fabric::CollectiveTest> tests;
  for (std::size_t n = 0; n < nodes.places().size(); ++n)
    if (nodes.ranks(n).size() > 1) tests.push_back({"node", nodes.places()[n].host, nodes.ranks(n)});
  for (const auto& more : {first_ranks(nodes, "switch", [](const auto& place) { return place.network_switch; }),
                           first_ranks(nodes, "partition", [](const auto& place) { return place.component; }),
                           first_ranks(nodes, "all", [](const auto&) { return std::string{"nodes"}; })})
    tests.insert(tests.end(), more.begin(), more.end());
  return tests;
}

void append(std::vector<bench::LinkReport>& to, std::vector<bench::LinkReport> more) { to.insert(to.end(), more.begin(), more.end()); }

/// In rounds, those that are not measured yet.
void add_pairs(const comm::World& world, const Nodes& nodes, const std::vector<bench::NodePair>& pairs, Seconds deadline,
               bench::BenchReport& report) {
  const auto known = measured(nodes, report.links);
  std::vector<bench::NodePair> missing;
  for (const auto& pair : pairs)
    if (std::ranges::find(known, pair, &bench::MeasuredPair::pair) == known.end()) missing.push_back(pair);
  append(report.links, in_rounds(world, nodes, missing, deadline));
}

std::string in_words(const std::vector<Bytes>& sizes) {
  std::vector<std::string> words;
  for (const Bytes size : sizes) words.push_back(to_string(size));
  return joined(words);
}

/// "inside n1 by ucx: messages of 8 MiB, 64 MiB".
std::string left_out_of(const fabric::LinkResult& link, const Nodes& nodes) {
  bench::LinkReport named;
  named.from = nodes.hosts()[link.pair.a.index()], named.to = nodes.hosts()[link.pair.b.index()], named.transport = link.transport;
  const auto where = text(named.from == named.to ? "" : "link ", link_name(named), " by ", transport_name(named));
  if (link.points.empty()) return where;
  return text(where, ": messages of ", in_words(link.left_out));
}

void add_links(const comm::World& world, const Nodes& nodes, const NetworkTest& test, bench::BenchReport& report) {
  const Seconds end = test.next_time() + now();
  const auto first = bench::first_pairs(nodes.places());
  append(report.links, in_rounds(world, nodes, first, test.deadline));
  add_pairs(world, nodes, bench::further_pairs(nodes.places(), measured(nodes, report.links)), test.deadline, report);
  if (test.switches) {
    add_pairs(world, nodes, bench::wide_pairs(nodes.places()), test.deadline, report);
    add_pairs(world, nodes, bench::joining_pairs(nodes.places(), measured(nodes, report.links)), test.deadline, report);
  }
  std::vector<std::string> transports{"", bench::training_transport};
  transports.insert(transports.end(), test.transports.begin(), test.transports.end());
  const fabric::LinkTest whole{.sizes = fabric::all_sizes(), .deadline = test.deadline, .time = std::max(Seconds{}, end - now())};
  const auto alone = fabric::measure_links(world, alone_rounds(nodes, first), transports, whole);
  append(report.links, fabric::reports_of(alone, nodes.hosts(), true));
  for (const auto& link : alone)
    if (!link.left_out.empty()) report.left_out.push_back(left_out_of(link, nodes));
}

/// Where sums of nodes are wrong, smaller groups of these are proved until the node is found that makes them so.
void find_faulty(const comm::World& world, const Nodes& nodes, const std::vector<fabric::CollectiveTest>& tests, Seconds deadline,
                 bench::BenchReport& report) {
  const auto wrong = [&](std::size_t t) { return !report.collectives[t].refusal.empty() && tests[t].level != "node"; };
  std::vector<Rank> members;
  for (std::size_t t = 0; t < tests.size() && members.empty(); ++t)
    if (wrong(t)) members = tests[t].members;
  std::vector<int> places;
  for (std::size_t m = 0; m < members.size(); ++m) places.push_back(static_cast<int>(m));
  const auto faulty = bench::faulty_members(places, [&](const std::vector<int>& some) {
    fabric::CollectiveTest test{bench::faulty_member, "", {}};
    for (const int place : some) test.members.push_back(members[static_cast<std::size_t>(place)]);
    return fabric::measure_collectives(world, {test}, {{8}}, Seconds{}, deadline).front().refusal.empty();
  });
  for (const int place : faulty)
    report.collectives.push_back({bench::faulty_member,
                                  nodes.hosts()[members[static_cast<std::size_t>(place)].index()],
                                  1,
                                  {},
                                  "sums of known values come out wrong wherever it takes part"});
}

void add_collectives(const comm::World& world, const Nodes& nodes, const NetworkTest& test, bench::BenchReport& report) {
  const std::vector<Bytes> sizes{{8}, {32 << 10}, {1 << 20}, {16 << 20}};
  const auto tests = collective_tests(nodes);
  report.collectives = fabric::measure_collectives(world, tests, sizes, test.next_time(), test.deadline);
  for (const auto& c : report.collectives) {
    auto missing = sizes;
    std::erase_if(missing, [&](Bytes size) { return std::ranges::find(c.points, size, &bench::CollectivePoint::size) != c.points.end(); });
    if (c.refusal.empty() && !missing.empty())
      report.left_out.push_back(text(c.level, " ", c.name, ": all-reduces of ", in_words(missing)));
  }
  find_faulty(world, nodes, tests, test.deadline, report);
}

}  // namespace

bench::BenchReport test_network(const comm::World& world, const BenchLaunch& launch, const NetworkTest& test,
                                const bench::BenchReport& rank_0s) {
  auto report = files::bench_from_json(
      mpi::broadcast_string(world.control(), launch.rank == 0 ? files::bench_to_json(rank_0s) : "", 0, ranks_start_deadline),
      "rank 0's report");
  const auto mine = launch.host.empty() ? world.host(world.rank()) : launch.host;
  const Nodes nodes{report, mpi::all_gather_strings(world.control(), mine, ranks_start_deadline)};
  if (test.links) add_links(world, nodes, test, report);
  if (test.collectives) add_collectives(world, nodes, test, report);
  return report;
}

}  // namespace flotilla::app
