#include "links.hpp"

#include <algorithm>
#include <cstring>

#include "flotilla/comm/agree.hpp"
#include "timed_all_gather.hpp"

namespace flotilla::probe {
namespace {

std::string pack(const std::vector<cluster::LinkSample>& samples) {
  return {reinterpret_cast<const char*>(samples.data()), samples.size() * sizeof(cluster::LinkSample)};
}

std::vector<cluster::LinkSample> unpack(const std::string& text) {
  std::vector<cluster::LinkSample> samples(text.size() / sizeof(cluster::LinkSample));
  std::memcpy(samples.data(), text.data(), samples.size() * sizeof(cluster::LinkSample));
  return samples;
}

class LinkMeasurement {
 public:
  LinkMeasurement(const comm::World& world, const std::vector<cluster::Device>& devices, Seconds budget, Seconds deadline)
      : world_{world},
        devices_{devices},
        pairs_{pairs(devices)},
        budget_{budget / static_cast<double>(std::max<std::size_t>(1, pairs_.size()))},
        deadline_{deadline},
        groups_{comm::connect(world, groups(pairs_))} {}

  std::vector<cluster::Link> run() {
    comm::PhaseOutcome outcome;
    for (std::size_t p = 0; p < pairs_.size() && everybody_well(outcome); ++p)
      if (concerns_me(pairs_[p])) outcome = comm::outcome_of("measuring a link", [&] { exchange(p); });
    everybody_well(outcome);
    comm::agree(world_, outcome, deadline_);
    return fit_all();
  }

 private:
  bool concerns_me(const Pair& pair) const { return pair.a == world_.rank() || pair.b == world_.rank(); }

  /// Pairs take turns here; whoever waits leaves the cores to the pair at work. False on every rank as soon as one has failed.
  bool everybody_well(const comm::PhaseOutcome& mine) {
    const auto answers = timed_all_gather(world_, mine, 0, 2 * deadline_ + 10 * budget_, deadline_);
    return std::ranges::all_of(answers, &Answer::well);
  }

  /// Samples stay on the asking side.
  void exchange(std::size_t p) {
    constexpr int first_channel = 0;  // of world.messages(), which nobody else uses before training
    const Pair& pair = pairs_[p];
    const bool asks = pair.a == world_.rank();
    LinkEnd end{world_, asks ? pair.b : pair.a, first_channel, groups_[p].get(), deadline_};
    if (asks)
      samples_.push_back(ask(end, budget_));
    else
      answer(end);
  }

  /// The samples of the k-th link that a rank asked for are the k-th that it sends.
  std::vector<cluster::Link> fit_all() {
    std::vector<cluster::Link> links;
    std::size_t taken = 0;
    for (const Pair& pair : pairs_)
      links.push_back(shared_link(world_, pair, pair.a == world_.rank() ? &samples_[taken++] : nullptr, deadline_));
    return links;
  }

  const comm::World& world_;
  const std::vector<cluster::Device>& devices_;
  const std::vector<Pair> pairs_;
  Seconds budget_, deadline_;
  comm::Groups groups_;               ///< by pair
  std::vector<LinkSamples> samples_;  ///< of the pairs that this rank asked, in order
};

}  // namespace

std::vector<program::Group> groups(const std::vector<Pair>& pairs) {
  std::vector<program::Group> all;
  for (const Pair& pair : pairs) all.push_back({program::Group::Kind::data, {pair.a, pair.b}});
  return all;
}

std::vector<cluster::LinkSample> shared(const comm::World& world, Rank owner, const std::vector<cluster::LinkSample>* mine,
                                        Seconds deadline) {
  return unpack(mpi::broadcast_string(world.control(), mine != nullptr ? pack(*mine) : "", owner.value, deadline));
}

cluster::Link shared_link(const comm::World& world, const Pair& pair, const LinkSamples* mine, Seconds deadline) {
  const auto messages = shared(world, pair.a, mine ? &mine->messages : nullptr, deadline);
  const auto sums = shared(world, pair.a, mine ? &mine->sums : nullptr, deadline);
  cluster::Link link{pair.level, pair.from, pair.to, cluster::fit_pieces(means(messages)), 0};
  link.relative_scatter = scatter_about(link, messages);
  link.sum_pieces = cluster::fit_pieces(means(sums));
  return link;
}

std::vector<cluster::Link> measure_links(const comm::World& world, const std::vector<cluster::Device>& devices, Seconds budget,
                                         Seconds deadline) {
  if (world.size() == 1) return {};
  return LinkMeasurement{world, devices, budget, deadline}.run();
}

}  // namespace flotilla::probe
