#include "device_links.hpp"

#include <algorithm>

#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/device_groups.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "group_rounds.hpp"
#include "links.hpp"
#include "pairs.hpp"
#include "ping_pong.hpp"
#include "timed_all_gather.hpp"

namespace flotilla::probe {
namespace {

constexpr Bytes always_measured{512 << 10};  // whatever it takes, as of links

/// One of two members that measure what NCCL makes of them.
class DevicePair {
 public:
  DevicePair(comm::DeviceGroup& group, comm::ProcessGroup& over_mpi, const gpu::DeviceContext& device, Seconds deadline)
      : group_{group},
        rounds_{group, over_mpi, device, deadline},
        deadline_{deadline},
        largest_{message_sizes().back()},
        memory_{device.make_buffer(3 * largest_)} {
    rounds_.stream().fill(memory_.data(), 3 * largest_, 0);
  }

  LinkSamples measure(Seconds budget) try {
    constexpr double half = 0.5;
    const auto sizes = message_sizes();
    const Seconds end = now() + budget, slice = budget / static_cast<double>(2 * sizes.size());
    LinkSamples samples;
    for (const Bytes size : sizes) {
      if (size > always_measured && !rounds_.before(end)) break;
      rounds_.sample(
          size, slice, half, [&] { there_and_back(size); }, samples.messages);
      rounds_.sample(
          size, slice, half, [&] { sum(size); }, samples.sums);
    }
    return samples;
  } catch (const Error&) {
    give_up_exchanges(memory_, deadline_);
    throw;
  }

 private:
  void there_and_back(Bytes size) {
    const int other = 1 - group_.index();
    const auto go = [&](bool sends) {
      sends ? group_.send(other, memory_.data(), size, rounds_.stream()) : group_.receive(other, memory_.data(), size, rounds_.stream());
    };
    go(group_.index() == 0);
    go(group_.index() != 0);
  }
  /// Both halves of an all-reduce in which each end sends `size` in either.
  void sum(Bytes size) {
    group_.all_reduce(memory_.data(), ElementType::fp32, 2 * size, memory_.data() + 2 * largest_.count, rounds_.stream());
  }

  comm::DeviceGroup& group_;
  EnqueuedRounds rounds_;
  const Seconds deadline_;
  const Bytes largest_;
  gpu::DeviceBuffer memory_;
};

/// What the first rank of each pair knows of it, to all ranks. `samples`: of the pairs whose first rank this is and that were not refused,
/// in order.
std::vector<cluster::DeviceLink> shared_device_links(const comm::World& world, cluster::Transport transport, const std::vector<Pair>& pairs,
                                                     const std::vector<std::string>& refusals, const std::vector<LinkSamples>& samples,
                                                     Seconds deadline) {
  std::vector<cluster::DeviceLink> links;
  std::size_t taken = 0;
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const bool mine = pairs[p].a == world.rank();
    const std::string refusal = mpi::broadcast_string(world.control(), mine ? refusals[p] : "", pairs[p].a.value, deadline);
    cluster::DeviceLink link;
    link.transport = transport;
    link.link.level = pairs[p].level, link.link.from = pairs[p].from, link.link.to = pairs[p].to;
    link.refusal = refusal;
    if (refusal.empty()) link.link = shared_link(world, pairs[p], mine ? &samples[taken++] : nullptr, deadline);
    links.push_back(std::move(link));
  }
  return links;
}

comm::OrderedSum ordered_sum_on(const gpu::DeviceContext* gpu) {
  return gpu == nullptr ? comm::OrderedSum{} : comm::make_ordered_sum(*gpu, compute::kernel_image(gpu->facts()));
}

class DeviceLinkMeasurement {
 public:
  DeviceLinkMeasurement(const comm::World& world, const std::vector<cluster::Device>& on_gpus, const gpu::DeviceContext* gpu,
                        Seconds budget, Seconds deadline)
      : world_{world},
        gpu_{gpu},
        pairs_{pairs(on_gpus)},
        budget_{budget / static_cast<double>(std::max<std::size_t>(1, pairs_.size()))},
        deadline_{deadline},
        groups_{comm::connect(world, groups(pairs_))} {}

  DeviceLinks run() {
    const Bytes memory = connect();
    comm::PhaseOutcome outcome;
    for (std::size_t p = 0; p < pairs_.size() && everybody_well(outcome); ++p)
      if (connected_[p]) outcome = comm::outcome_of("measuring a link between GPUs", [&] { measure(p); });
    everybody_well(outcome);
    comm::agree(world_, outcome, deadline_);
    for (const auto& group : connected_)
      if (group) group->communicator().leave();
    return {shared_device_links(world_, cluster::Transport::nccl, pairs_, refusals_, samples_, deadline_), memory};
  }

 private:
  /// -> what NCCL took of this device for each member that it met there.
  Bytes connect() {
    const auto ordered_sum = ordered_sum_on(gpu_);
    const Bytes before = gpu_ == nullptr ? Bytes{} : gpu_->free_memory();
    connected_ =
        comm::form_device_groups(world_, groups_, std::vector<bool>(pairs_.size(), true), gpu_, ordered_sum, deadline_, &refusals_);
    const auto met = std::ranges::count_if(connected_, [](const auto& group) { return group != nullptr; });
    if (met == 0) return {};
    return {std::max<std::int64_t>(0, (before - gpu_->free_memory()).count) / met};
  }

  bool everybody_well(const comm::PhaseOutcome& mine) {
    const auto answers = timed_all_gather(world_, mine, 0, 2 * deadline_ + 10 * budget_, deadline_);
    return std::ranges::all_of(answers, &Answer::well);
  }

  void measure(std::size_t p) {
    DevicePair pair{*connected_[p], *groups_[p], *gpu_, deadline_};
    auto samples = pair.measure(budget_);
    if (connected_[p]->index() == 0) samples_.push_back(std::move(samples));
  }

  const comm::World& world_;
  const gpu::DeviceContext* gpu_;
  const std::vector<Pair> pairs_;
  Seconds budget_, deadline_;
  comm::Groups groups_;                ///< by pair, over MPI
  comm::DeviceGroups connected_;       ///< by pair
  std::vector<std::string> refusals_;  ///< by pair: of this rank's
  std::vector<LinkSamples> samples_;   ///< of the pairs whose first rank this is, in order
};

class DeviceMemoryLinkMeasurement {
 public:
  DeviceMemoryLinkMeasurement(const comm::World& world, const std::vector<cluster::Device>& on_gpus, const gpu::DeviceContext* gpu,
                              Seconds budget, Seconds deadline)
      : world_{world},
        gpu_{gpu},
        pairs_{pairs(on_gpus)},
        budget_{budget / static_cast<double>(std::max<std::size_t>(1, pairs_.size()))},
        deadline_{deadline},
        over_hosts_{comm::connect(world, groups(pairs_))} {}

  DeviceLinks run() {
    const Bytes before = gpu_ == nullptr ? Bytes{} : gpu_->free_memory();
    std::vector<std::string> refusals;
    groups_ = comm::form_device_memory_groups(world_, groups(pairs_), over_hosts_, std::vector<bool>(pairs_.size(), true), gpu_,
                                              ordered_sum_on(gpu_), deadline_, &refusals);
    comm::PhaseOutcome outcome;
    for (std::size_t p = 0; p < pairs_.size() && everybody_well(outcome); ++p)
      if (groups_[p]) outcome = comm::outcome_of("measuring a link between GPUs by MPI", [&] { exchange(p); });
    everybody_well(outcome);
    comm::agree(world_, outcome, deadline_);
    return {shared_device_links(world_, cluster::Transport::device_mpi, pairs_, refusals, samples_, deadline_), of_each_peer(before)};
  }

 private:
  bool everybody_well(const comm::PhaseOutcome& mine) {
    const auto answers = timed_all_gather(world_, mine, 0, 2 * deadline_ + 10 * budget_, deadline_);
    return std::ranges::all_of(answers, &Answer::well);
  }

  /// What MPI has taken of this device since, for each GPU that it met.
  Bytes of_each_peer(Bytes before) const {
    const auto met = std::ranges::count_if(groups_, [](const auto& group) { return group != nullptr; });
    if (met == 0) return {};
    return {std::max<std::int64_t>(0, (before - gpu_->free_memory()).count) / met};
  }

  void exchange(std::size_t p) {
    constexpr int first_channel = 0;  // of world.messages(): links between hosts are measured
    const Pair& pair = pairs_[p];
    const bool asks = pair.a == world_.rank();
    LinkEnd end{world_, asks ? pair.b : pair.a, first_channel, groups_[p].get(), deadline_, gpu_};
    if (asks)
      samples_.push_back(ask(end, budget_));
    else
      answer(end);
  }

  const comm::World& world_;
  const gpu::DeviceContext* gpu_;
  const std::vector<Pair> pairs_;
  const Seconds budget_, deadline_;
  const comm::Groups over_hosts_;     ///< by pair
  comm::Groups groups_;               ///< by pair, on device memory
  std::vector<LinkSamples> samples_;  ///< of the pairs that this rank asked, in order
};

}  // namespace

std::vector<Rank> ranks_to_measure(const ProbeRequest& request, const Discovery& here, cluster::Transport transport) {
  const auto& have = transport == cluster::Transport::nccl ? here.nccl : here.device_mpi;
  return request.transport.value_or(transport) == transport && have.size() > 1 ? have : std::vector<Rank>{};
}

DeviceLinks measure_device_memory_links(const comm::World& world, const std::vector<cluster::Device>& on_gpus,
                                        const gpu::DeviceContext* gpu, Seconds budget, Seconds deadline) {
  if (on_gpus.size() < 2) return {};
  return DeviceMemoryLinkMeasurement{world, on_gpus, gpu, budget, deadline}.run();
}

DeviceLinks measure_device_links(const comm::World& world, const std::vector<cluster::Device>& on_gpus, const gpu::DeviceContext* gpu,
                                 Seconds budget, Seconds deadline) {
  if (on_gpus.size() < 2) return {};
  return DeviceLinkMeasurement{world, on_gpus, gpu, budget, deadline}.run();
}

}  // namespace flotilla::probe
