#include "group_sums.hpp"

#include <algorithm>
#include <array>

#include "candidate_groups.hpp"
#include "device_rounds.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/device_groups.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/program/placement.hpp"
#include "links.hpp"
#include "ping_pong.hpp"
#include "timed_all_gather.hpp"

namespace flotilla::probe {
namespace {

constexpr std::array<Bytes, 4> sizes{Bytes{8 << 10}, Bytes{128 << 10}, Bytes{1 << 20}, Bytes{8 << 20}};
constexpr Bytes always_measured{128 << 10};  // whatever it takes

/// As a plan would form it: hosts and zones sum inside first.
program::Group group_of(const std::vector<Rank>& members, const program::Placement& placement) {
  program::Group group{program::Group::Kind::data, members};
  group.subgroups = program::subgroups_of({members}, placement);
  return group;
}

std::vector<program::Group> groups_of(const std::vector<std::vector<Rank>>& candidates, const std::vector<cluster::Device>& devices) {
  const auto placement = program::placement_of(devices);
  std::vector<program::Group> groups;
  for (const auto& members : candidates) groups.push_back(group_of(members, placement));
  return groups;
}

std::vector<cluster::LinkSample> time_sums(comm::DeviceGroup& group, comm::Group& over_mpi, const gpu::Device& device, Seconds budget,
                                           Seconds deadline) {
  constexpr double whole = 1;
  DeviceRounds rounds{group, over_mpi, device, deadline};
  const auto memory = device.make_arena(3 * sizes.back());
  rounds.stream().fill(memory.data(), 3 * sizes.back(), 0);
  const Seconds end = now() + budget;
  std::vector<cluster::LinkSample> samples;
  for (const Bytes size : sizes) {
    if (size > always_measured && !rounds.before(end)) break;
    const auto sum = [&] {
      group.all_reduce(memory.data(), comm::ElementType::fp32, size, memory.data() + sizes.back().count, rounds.stream());
    };
    rounds.sample(size, budget / static_cast<double>(sizes.size()), whole, sum, samples);
  }
  return samples;
}

class GroupSumMeasurement {
 public:
  GroupSumMeasurement(const comm::World& world, std::vector<std::vector<Rank>> candidates, const std::vector<cluster::Device>& devices,
                      const gpu::Device* gpu, Seconds budget, Seconds deadline)
      : world_{world},
        gpu_{gpu},
        candidates_{std::move(candidates)},
        devices_{devices},
        budget_{budget / static_cast<double>(candidates_.size())},
        deadline_{deadline},
        groups_{comm::connect(world, groups_of(candidates_, devices))} {}

  std::vector<cluster::GroupSum> run() {
    const auto ordered_sum = gpu_ == nullptr ? comm::OrderedSum{} : comm::make_ordered_sum(*gpu_, compute::kernel_image(gpu_->facts()));
    connected_ =
        comm::form_device_groups(world_, groups_, std::vector<bool>(candidates_.size(), true), gpu_, ordered_sum, deadline_, &refusals_);
    std::vector<std::vector<cluster::LinkSample>> samples(candidates_.size());
    comm::Outcome outcome;
    for (std::size_t c = 0; c < candidates_.size() && everybody_well(outcome); ++c)
      if (connected_[c])
        outcome = comm::outcome_of("measuring a group of GPUs",
                                   [&] { samples[c] = time_sums(*connected_[c], *groups_[c], *gpu_, budget_, deadline_); });
    everybody_well(outcome);
    comm::agree(world_, outcome, deadline_);
    for (const auto& group : connected_)
      if (group) group->communicator().leave();
    std::vector<cluster::GroupSum> sums;
    for (std::size_t c = 0; c < candidates_.size(); ++c) sums.push_back(shared_sum(c, samples[c]));
    return sums;
  }

 private:
  /// Groups take turns here. False on every rank as soon as one has failed.
  bool everybody_well(const comm::Outcome& mine) {
    const auto answers = timed_all_gather(world_, mine, 0, 2 * deadline_ + 10 * budget_, deadline_);
    return std::ranges::all_of(answers, &Answer::well);
  }

  /// What its first member knows of a candidate, to all ranks.
  cluster::GroupSum shared_sum(std::size_t c, const std::vector<cluster::LinkSample>& samples) const {
    const Rank first = candidates_[c].front();
    const bool mine = first == world_.rank();
    cluster::GroupSum sum;
    for (const Rank rank : candidates_[c]) sum.members.push_back(cluster::place_of(devices_[rank.index()]));
    sum.refusal = mpi::broadcast_string(world_.control(), mine ? refusals_[c] : "", first.value, deadline_);
    if (!sum.refusal.empty()) return sum;
    const auto measured = shared(world_, first, mine ? &samples : nullptr, deadline_);
    cluster::Link fit;
    fit.pieces = sum.pieces = cluster::fit_pieces(means(measured));
    sum.relative_scatter = scatter_about(fit, measured);
    return sum;
  }

  const comm::World& world_;
  const gpu::Device* gpu_;
  const std::vector<std::vector<Rank>> candidates_;
  const std::vector<cluster::Device>& devices_;  ///< by rank
  const Seconds budget_, deadline_;
  comm::Groups groups_;  ///< by candidate, over MPI
  comm::DeviceGroups connected_;
  std::vector<std::string> refusals_;
};

}  // namespace

std::vector<cluster::GroupSum> measure_group_sums(const comm::World& world, const std::vector<cluster::Device>& devices,
                                                  const std::vector<cluster::Device>& on_gpus, const gpu::Device* gpu, Seconds budget,
                                                  Seconds deadline) {
  auto candidates = candidate_groups(on_gpus);
  if (candidates.empty()) return {};
  return GroupSumMeasurement{world, std::move(candidates), devices, gpu, budget, deadline}.run();
}

}  // namespace flotilla::probe
