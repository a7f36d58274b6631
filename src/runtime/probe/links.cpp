#include "links.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/mpi/backoff.hpp"
#include "pairs.hpp"
#include "ping_pong.hpp"

namespace flotilla::probe {
namespace {

std::uint64_t tag(Rank from, Rank to) {
  return static_cast<std::uint64_t>(from.value) << 32 | static_cast<std::uint64_t>(static_cast<std::uint32_t>(to.value));
}

ucx::Address from_text(const std::string& text) {
  ucx::Address address(text.size());
  std::memcpy(address.data(), text.data(), text.size());
  return address;
}

std::string to_text(const ucx::Address& address) { return {reinterpret_cast<const char*>(address.data()), address.size()}; }

std::string pack(const std::vector<cluster::LinkSample>& samples) {
  return {reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(cluster::LinkSample)};
}

std::vector<cluster::LinkSample> unpack(const std::string& text) {
  std::vector<cluster::LinkSample> samples(text.size() / sizeof(cluster::LinkSample));
  std::memcpy(samples.data(), text.data(), samples.size() * sizeof(cluster::LinkSample));
  return samples;
}

/// Who is well, on its way to everybody.
struct Round {
  Round(bool well, int ranks) : mine{static_cast<unsigned char>(well)}, all(static_cast<std::size_t>(ranks)) {}
  std::byte mine;
  std::vector<std::byte> all;
  mpi::Request request;
};

class Measurement {
 public:
  Measurement(const comm::World& world, const std::vector<cluster::Device>& devices, Seconds budget, Seconds deadline)
      : world_{world},
        devices_{devices},
        pairs_{pairs(devices)},
        budget_{budget / static_cast<double>(std::max<std::size_t>(1, pairs_.size()))},
        deadline_{deadline},
        worker_{comm::agree_on(
            world, "opening UCX", [&] { return ucx::Worker{world.size()}; }, deadline)} {}

  std::vector<cluster::Link> run() {
    addresses_ = mpi::all_gather_strings(world_.control(), to_text(worker_.address()), deadline_);
    comm::Outcome outcome;
    for (std::size_t p = 0; p < pairs_.size() && everybody_well(outcome); ++p)
      if (concerns_me(pairs_[p])) outcome = comm::outcome_of("measuring a link", [&] { samples_.push_back(exchange(pairs_[p])); });
    everybody_well(outcome);
    comm::agree(world_, outcome, deadline_);
    disconnect();
    return fit_all();
  }

 private:
  bool concerns_me(const Pair& pair) const { return pair.a == world_.rank() || pair.b == world_.rank(); }

  /// Pairs take turns here. Whoever waits moves UCX on (a peer may still wait for the last of our bytes) but leaves the cores to the pair
  /// at work. False on every rank as soon as one has failed.
  bool everybody_well(const comm::Outcome& mine) {
    auto round = std::make_unique<Round>(mine.ok, world_.size());
    round->request = world_.control().all_gather({&round->mine, 1}, round->all);
    const Seconds end = now() + 2 * deadline_ + 10 * budget_;
    for (mpi::Backoff backoff; !round->request.test(); backoff.pause()) {
      worker_.progress();
      if (now() < end) continue;
      static_cast<void>(round.release());    // MPI may still write into it
      comm::agree(world_, mine, deadline_);  // names who is missing
      throw Error{ErrorKind::communication, "probe: the measurement of a link did not end"};
    }
    return std::ranges::all_of(round->all, [](std::byte b) { return b != std::byte{0}; });
  }

  /// Samples on the asking side, none on the other.
  std::vector<cluster::LinkSample> exchange(const Pair& pair) {
    const bool asks = pair.a == world_.rank();
    const Rank peer = asks ? pair.b : pair.a;
    const auto watch = pair.level == cluster::LinkLevel::node ? ucx::Watch::off : ucx::Watch::peer_failure;
    endpoints_.push_back(worker_.connect(from_text(addresses_[peer.index()]), world_.name(peer), watch));
    const PingPong ends{endpoints_.back(), tag(world_.rank(), peer), tag(peer, world_.rank()), deadline_};
    if (asks) return ask(ends, budget_);
    answer(ends);
    return {};
  }

  /// Everybody disconnects while everybody makes progress. What is measured is measured: a failure here is worth a word, not the profile.
  void disconnect() {
    for (auto& endpoint : endpoints_) {
      const auto outcome = comm::outcome_of("disconnecting", [&] { endpoint.close(Seconds{2}); });
      if (!outcome.ok) log::debug("probe: ", outcome.message);
    }
    endpoints_.clear();
    everybody_well({});
  }

  /// The samples of the k-th link that a rank asked for are the k-th that it sends.
  std::vector<cluster::Link> fit_all() {
    std::vector<cluster::Link> links;
    std::erase_if(samples_, [](const auto& s) { return s.empty(); });
    std::vector<std::size_t> taken(static_cast<std::size_t>(world_.size()), 0);
    for (const Pair& pair : pairs_) {
      const std::size_t mine = taken[pair.a.index()]++;
      const std::string packed =
          mpi::broadcast_string(world_.control(), pair.a == world_.rank() ? pack(samples_[mine]) : "", pair.a.value, deadline_);
      const auto samples = unpack(packed);
      cluster::Link link{pair.level, pair.from, pair.to, cluster::fit_pieces(samples), 0};
      link.relative_scatter = scatter_about(link, samples);
      links.push_back(std::move(link));
    }
    return links;
  }

  const comm::World& world_;
  const std::vector<cluster::Device>& devices_;
  const std::vector<Pair> pairs_;
  Seconds budget_, deadline_;
  ucx::Worker worker_;
  std::vector<std::string> addresses_;
  std::vector<ucx::Endpoint> endpoints_;
  std::vector<std::vector<cluster::LinkSample>> samples_;
};

}  // namespace

std::vector<cluster::Link> measure_links(const comm::World& world, const std::vector<cluster::Device>& devices, Seconds budget,
                                         Seconds deadline) {
  if (world.size() == 1) return {};
  return Measurement{world, devices, budget, deadline}.run();
}

}  // namespace flotilla::probe
