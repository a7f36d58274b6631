#include <algorithm>
#include <exception>
#include <limits>
#include <optional>
#include <sstream>

#include "curve.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/fabric/fabric.hpp"
#include "sampling.hpp"
#include "tcp_segments.hpp"
#include "transport_end.hpp"

namespace flotilla::fabric {
namespace {

constexpr Seconds longest_round{120};
const std::vector<Bytes> rounds_sizes{{8}, {1 << 20}};
const std::vector<std::string> rounds_transports{"", bench::training_transport};

Bytes largest_of(const LinkTest& test) {
  Bytes largest = burst_size;
  for (const Bytes size : test.sizes) largest = std::max(largest, size);
  return largest;
}

std::string bytes_of(const ucx::Address& address) { return {reinterpret_cast<const char*>(address.data()), address.size()}; }

ucx::Address address_of(const std::string& bytes) {
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

std::uint64_t tag(Rank from, Rank to) { return static_cast<std::uint64_t>(from.value) << 32 | static_cast<std::uint64_t>(to.value); }

/// Numbers of points, or "!" and why there are none.
std::string to_text(const std::vector<bench::LinkPoint>& points) {
  std::ostringstream out;
  out.precision(std::numeric_limits<double>::max_digits10);
  for (const auto& p : points)
    out << p.size.count << ' ' << p.latency.value << ' ' << p.stream.value << ' ' << p.both.value << ' ' << p.put.value << ' ';
  return out.str();
}

void read(const std::string& words, LinkResult& result) {
  if (words.starts_with('!')) {
    result.refusal = words.substr(1);
    return;
  }
  std::istringstream in{words};
  for (bench::LinkPoint p; in >> p.size.count >> p.latency.value >> p.stream.value >> p.both.value >> p.put.value;)
    result.points.push_back(p);
}

/// One transport: the ends of this rank, and what they measure.
class Transport {
 public:
  Transport(const comm::World& world, const LinkTest& test) : world_{world}, test_{test} {}
  virtual ~Transport() = default;
  /// Collective. An end to that peer, or to nobody. Throws Error where this rank cannot reach it; the others come along all the same.
  virtual std::unique_ptr<TransportEnd> end_to(std::optional<Rank> peer) = 0;
  /// Of an end of a pair, until all ranks have come; what is under way moves on.
  virtual void rest(Seconds patience) { mpi::barrier(world_.control(), patience); }

 protected:
  const comm::World& world_;
  const LinkTest& test_;
};

class MpiTransport : public Transport {
 public:
  using Transport::Transport;
  std::unique_ptr<TransportEnd> end_to(std::optional<Rank> peer) override {
    return peer ? make_mpi_end(world_, *peer, largest_of(test_), test_.deadline) : nullptr;
  }
};

class UcxTransport : public Transport {
 public:
  UcxTransport(const comm::World& world, const LinkTest& test, const std::string& choice)
      : Transport{world, test}, worker_{world.size(), choice} {}

  std::unique_ptr<TransportEnd> end_to(std::optional<Rank> peer) override {
    const auto& control = world_.control();
    std::unique_ptr<UcxEnd> end;
    std::exception_ptr error;
    try {
      if (peer) end = std::make_unique<UcxEnd>(worker_, largest_of(test_), test_.deadline);
    } catch (const Error&) {
      error = std::current_exception();  // once the others have what they wait for
    }
    const auto addresses = mpi::all_gather_strings(control, bytes_of(worker_.address()), longest_round);
    const auto keys = mpi::all_gather_strings(control, end ? bytes_of(end->key()) : "", longest_round);
    if (error) std::rethrow_exception(error);
    if (end)
      end->connect(worker_, address_of(addresses[peer->index()]), address_of(keys[peer->index()]), world_.name(*peer),
                   tag(world_.rank(), *peer), tag(*peer, world_.rank()));
    return end;
  }

  void rest(Seconds patience) override {
    auto all = world_.control().barrier();
    const Seconds end = now() + patience;
    while (!all.test()) {
      worker_.progress();
      FLOTILLA_REQUIRE(now() < end, ErrorKind::communication, "a rank does not end its part of a fabric test within ", patience);
    }
  }

 private:
  ucx::Worker worker_;
};

/// Nothing on every rank where one of them lacks the transport, with the reason.
struct OpenTransport {
  std::string name;
  std::unique_ptr<Transport> transport;
  std::string refusal;
};

OpenTransport open(const comm::World& world, const LinkTest& test, const std::string& name) {
  std::unique_ptr<Transport> transport;
  std::string mine, refusal;
  try {
    if (name == bench::training_transport)
      transport = std::make_unique<MpiTransport>(world, test);
    else
      transport = std::make_unique<UcxTransport>(world, test, name);
  } catch (const Error& error) {
    mine = text(world.name(world.rank()), ": ", error.what());
  }
  for (const auto& theirs : mpi::all_gather_strings(world.control(), mine, longest_round))
    if (refusal.empty()) refusal = theirs;
  if (!refusal.empty()) transport.reset();
  return {name, std::move(transport), refusal};
}

const LinkPair* pair_of(const std::vector<LinkPair>& round, Rank rank) {
  const auto found = std::ranges::find_if(round, [&](const LinkPair& pair) { return pair.a == rank || pair.b == rank; });
  return found == round.end() ? nullptr : &*found;
}

/// What an Error of `body` says; "" where there is none.
template <class Body>
std::string refusal_of(Body body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// What both ends sent of TCP, in a line before what the first has measured.
void read_segments(const std::string& words, LinkResult& result) {
  std::istringstream in{words};
  std::int64_t sent = 0, resent = 0;
  in >> sent >> resent;
  result.segments += sent, result.resent += resent;
}

std::string behind_segments(const std::string& words) { return words.substr(words.find('\n') + 1); }

/// This rank's part of a round: the segments that its node sent, a line end, what it has measured, as text. Both ends are there before
/// either begins, or neither does.
std::string run_round(const comm::World& world, const LinkTest& test, Transport& transport, const LinkPair* pair) {
  const Seconds time = test.time.value_or(Seconds{}), until = now() + time;
  std::optional<Rank> peer;
  if (pair != nullptr) peer = pair->a == world.rank() ? pair->b : pair->a;
  std::unique_ptr<TransportEnd> end;
  const auto mine = refusal_of([&] { end = transport.end_to(peer); });
  const auto refusals = mpi::all_gather_strings(world.control(), mine, longest_round);
  std::string words, refusal;
  const auto before = segments_so_far();
  if (pair != nullptr) refusal = refusals[pair->a.index()].empty() ? refusals[pair->b.index()] : refusals[pair->a.index()];
  if (pair != nullptr && refusal.empty())
    refusal = refusal_of([&] {
      if (pair->a == world.rank())
        words = to_text(ask(*end, test, until));
      else
        answer(*end);
    });
  const auto after = segments_so_far();
  if (pair == nullptr)
    mpi::barrier(world.control(), longest_round + time);  // and sleeps: the pairs may need this core
  else
    transport.rest(longest_round + time);
  return text(after.sent - before.sent, ' ', after.resent - before.resent, '\n', refusal.empty() ? words : "!" + refusal);
}

std::vector<Bytes> sizes_without(const std::vector<bench::LinkPoint>& points, std::vector<Bytes> sizes) {
  std::erase_if(sizes, [&](Bytes size) { return std::ranges::find(points, size, &bench::LinkPoint::size) != points.end(); });
  return sizes;
}

/// The round's pairs by one transport, on every rank. A test without any time is left out.
std::vector<LinkResult> measure_round(const comm::World& world, const LinkTest& test, const OpenTransport& by,
                                      const std::vector<LinkPair>& round) {
  std::vector<LinkResult> results;
  for (const auto& pair : round) results.push_back({pair, by.name, {}, by.refusal});
  const bool measured = by.transport && (!test.time || test.time->value > 0);
  if (measured) {
    const auto words =
        mpi::all_gather_strings(world.control(), run_round(world, test, *by.transport, pair_of(round, world.rank())), longest_round);
    for (auto& result : results) {
      read(behind_segments(words[result.pair.a.index()]), result);
      for (const Rank end : {result.pair.a, result.pair.b}) read_segments(words[end.index()], result);
    }
  }
  for (auto& result : results)
    if (result.refusal.empty()) result.left_out = sizes_without(result.points, test.sizes);
  return results;
}

}  // namespace

std::vector<Bytes> all_sizes() {
  constexpr Bytes smallest{8}, largest{64 << 20};
  std::vector<Bytes> sizes;
  for (Bytes size = smallest; size < largest; size = size * 4) sizes.push_back(size);
  sizes.push_back(largest);
  return sizes;
}

std::vector<LinkResult> measure_links(const comm::World& world, const std::vector<std::vector<LinkPair>>& rounds,
                                      const std::vector<std::string>& transports, const LinkTest& test) {
  const Seconds end = now() + test.time.value_or(Seconds{});
  std::vector<OpenTransport> all;
  for (const auto& name : transports) all.push_back(open(world, test, name));
  std::vector<LinkResult> results;
  int links = static_cast<int>(rounds.size() * transports.size()), musts = static_cast<int>(transports.size());
  for (const auto& round : rounds)
    for (const auto& transport : all) {
      LinkTest here = test;
      if (test.time) here.time = mpi::broadcast_value(world.control(), time_of_link(end - now(), links--, musts--), 0, longest_round);
      const auto more = measure_round(world, here, transport, round);
      results.insert(results.end(), more.begin(), more.end());
    }
  return results;
}

std::vector<bench::LinkReport> reports_of(const std::vector<LinkResult>& results, const std::vector<std::string>& hosts, bool alone) {
  std::vector<bench::LinkReport> links;
  for (const auto& r : results)
    if (!r.points.empty() || !r.refusal.empty())
      links.push_back({hosts[r.pair.a.index()], hosts[r.pair.b.index()], r.transport, alone, r.points, r.refusal, r.segments, r.resent});
  return links;
}

std::vector<bench::LinkReport> measure_in_rounds(const comm::World& world, const std::vector<std::vector<LinkPair>>& rounds,
                                                 const std::vector<std::string>& hosts, Seconds slice, Seconds deadline) {
  const LinkTest test{rounds_sizes, false, false, slice, deadline};
  return reports_of(measure_links(world, rounds, rounds_transports, test), hosts, false);
}

Seconds slice_for(Seconds time, std::size_t rounds) {
  constexpr double series = 2, samples = 4;
  constexpr Seconds shortest{1e-4};
  const auto all = static_cast<double>(rounds * rounds_sizes.size() * rounds_transports.size());
  return std::clamp(time / std::max(1.0, all * series * samples), shortest, usual_slice);
}

}  // namespace flotilla::fabric
