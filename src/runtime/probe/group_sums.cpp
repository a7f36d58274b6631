#include "group_sums.hpp"

#include <algorithm>
#include <array>
#include <functional>

#include "candidate_groups.hpp"
#include "comm_worker.hpp"
#include "flotilla/base/clock.hpp"
#include "flotilla/base/error.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/comm/device_groups.hpp"
#include "flotilla/compute/kernel_image.hpp"
#include "flotilla/program/hierarchical_all_reduce.hpp"
#include "flotilla/program/rank_locations.hpp"
#include "group_rounds.hpp"
#include "links.hpp"
#include "ping_pong.hpp"
#include "timed_all_gather.hpp"

namespace flotilla::probe {
namespace {

constexpr std::array<Bytes, 4> sizes{Bytes{8 << 10}, Bytes{128 << 10}, Bytes{1 << 20}, Bytes{8 << 20}};
constexpr Bytes always_summed{128 << 10};  // whatever it takes
constexpr auto summed_type = ElementType::fp32;

using cluster::Transport;
using Algorithm = program::Group::Algorithm;
using Samples = std::vector<cluster::LinkSample>;

/// As a plan would form them: hosts and zones sum inside first, or a library in its own way.
std::vector<program::Group> groups_of(const std::vector<std::vector<Rank>>& candidates, const std::vector<cluster::Device>& devices,
                                      Algorithm algorithm) {
  const auto placement = program::placement_of(devices);
  std::vector<program::Group> groups;
  for (const auto& members : candidates) {
    groups.push_back({program::Group::Kind::data, members, algorithm});
    groups.back().subgroups = program::subgroups_of({members}, placement);
  }
  return groups;
}

/// What is to be summed, and room for what comes.
class SumMemory {
 public:
  SumMemory(const gpu::DeviceContext& device, const program::Group& group, int index)
      : staging_size_{group.subgroups.empty() ? comm::all_reduce_staging(sizes.back(), summed_type, static_cast<int>(group.members.size()))
                                              : program::sum_staging(group, index, sizes.back(), element_size(summed_type))},
        arena_{device.make_buffer(sizes.back() + staging_size_)} {}

  gpu::DevicePointer data() const { return arena_.data(); }
  gpu::DevicePointer staging() const { return arena_.data() + sizes.back().count; }
  Bytes staging_size() const { return staging_size_; }
  const gpu::DeviceBuffer& arena() const { return arena_; }
  /// A device's memory is not zero; the sum of zeros stays in range.
  void clear(gpu::Stream& stream) const { stream.fill(arena_.data(), arena_.size(), 0); }

 private:
  Bytes staging_size_;
  gpu::DeviceBuffer arena_;
};

Samples time_sums(GroupRounds& rounds, Seconds budget, const std::function<void(Bytes)>& sum) {
  constexpr double whole = 1;
  const Seconds end = now() + budget;
  Samples samples;
  for (const Bytes size : sizes) {
    if (size > always_summed && !rounds.before(end)) break;
    rounds.sample(
        size, budget / static_cast<double>(sizes.size()), whole, [&] { sum(size); }, samples);
  }
  return samples;
}

/// The groups of some candidates that this rank is in, over one transport, proved.
class CandidateSums {
 public:
  virtual ~CandidateSums() = default;
  virtual bool joined(std::size_t candidate) const = 0;
  virtual Samples time(std::size_t candidate, Seconds budget) = 0;
  const std::string& refusal(std::size_t candidate) const { return refusals_[candidate]; }

 protected:
  std::vector<std::string> refusals_;  ///< by candidate: of this rank's
};

comm::OrderedSum ordered_sum_of(const gpu::DeviceContext* gpu) {
  return gpu == nullptr ? comm::OrderedSum{} : comm::make_ordered_sum(*gpu, compute::kernel_image(gpu->facts()));
}

class SumsOverNccl final : public CandidateSums {
 public:
  SumsOverNccl(const comm::World& world, const std::vector<program::Group>& groups, const gpu::DeviceContext* gpu, Seconds deadline)
      : gpu_{gpu},
        deadline_{deadline},
        over_hosts_{comm::connect(world, groups)},
        groups_{comm::form_device_groups(world, over_hosts_, std::vector<bool>(groups.size(), true), gpu, ordered_sum_of(gpu), deadline,
                                         &refusals_)} {}
  SumsOverNccl(const SumsOverNccl&) = delete;
  SumsOverNccl& operator=(const SumsOverNccl&) = delete;

  bool joined(std::size_t candidate) const override { return groups_[candidate] != nullptr; }
  Samples time(std::size_t candidate, Seconds budget) override {
    auto& group = *groups_[candidate];
    const SumMemory memory{*gpu_, group.value(), group.index()};
    EnqueuedRounds rounds{group, *over_hosts_[candidate], *gpu_, deadline_};
    memory.clear(rounds.stream());
    try {
      return time_sums(rounds, budget,
                       [&](Bytes size) { group.all_reduce(memory.data(), summed_type, size, memory.staging(), rounds.stream()); });
    } catch (const Error&) {
      give_up_exchanges(memory.arena(), deadline_);
      throw;
    }
  }
  /// Everybody has measured.
  void leave() {
    for (const auto& group : groups_)
      if (group) group->communicator().leave();
  }

 private:
  const gpu::DeviceContext* gpu_;
  const Seconds deadline_;
  const comm::Groups over_hosts_;
  const comm::DeviceGroups groups_;
};

class SumsOverDeviceMemory final : public CandidateSums {
 public:
  SumsOverDeviceMemory(const comm::World& world, const std::vector<program::Group>& groups, const gpu::DeviceContext* gpu, Seconds deadline)
      : gpu_{gpu},
        deadline_{deadline},
        over_hosts_{comm::connect(world, groups)},
        groups_{comm::form_device_memory_groups(world, groups, over_hosts_, std::vector<bool>(groups.size(), true), gpu,
                                                ordered_sum_of(gpu), deadline, &refusals_)} {}

  bool joined(std::size_t candidate) const override { return groups_[candidate] != nullptr; }
  Samples time(std::size_t candidate, Seconds budget) override {
    auto& group = *groups_[candidate];
    const SumMemory memory{*gpu_, group.value(), group.index()};
    auto stream = gpu_->make_stream();
    memory.clear(stream);
    stream.wait(deadline_);
    const auto operation =
        group.make_all_reduce(memory.data().address, summed_type, sizes.back(), memory.staging().address, memory.staging_size());
    CommWorker comm_worker{deadline_};
    CompletedRounds rounds{*over_hosts_[candidate], deadline_};
    return time_sums(rounds, budget, [&](Bytes size) {
      const CommTask task{operation.get(), size};
      comm_worker.run({&task, 1});
    });
  }

 private:
  const gpu::DeviceContext* gpu_;
  const Seconds deadline_;
  const comm::Groups over_hosts_;
  const comm::Groups groups_;
};

/// What its first member knows of a candidate, to all ranks.
cluster::GroupSum shared_sum(const comm::World& world, const std::vector<Rank>& candidate, const std::vector<cluster::Device>& devices,
                             const std::string& refusal, const Samples& samples, Seconds deadline) {
  const Rank first = candidate.front();
  const bool mine = first == world.rank();
  cluster::GroupSum sum;
  for (const Rank rank : candidate) sum.members.push_back(cluster::place_of(devices[rank.index()]));
  sum.refusal = mpi::broadcast_string(world.control(), mine ? refusal : "", first.value, deadline);
  if (!sum.refusal.empty()) return sum;
  const auto measured = shared(world, first, mine ? &samples : nullptr, deadline);
  cluster::Link fit;
  fit.pieces = sum.pieces = cluster::fit_pieces(means(measured));
  sum.relative_scatter = scatter_about(fit, measured);
  return sum;
}

/// The candidates take turns. -> by candidate, the times of this rank's.
std::vector<Samples> time_all(const comm::World& world, CandidateSums& sums, std::size_t candidates, Seconds budget, Seconds deadline) {
  const Seconds each = budget / static_cast<double>(candidates);
  const auto everybody_well = [&](const comm::PhaseOutcome& mine) {  // false on every rank as soon as one has failed
    const auto answers = timed_all_gather(world, mine, 0, 2 * deadline + 10 * each, deadline);
    return std::ranges::all_of(answers, &Answer::well);
  };
  std::vector<Samples> samples(candidates);
  comm::PhaseOutcome outcome;
  for (std::size_t c = 0; c < candidates && everybody_well(outcome); ++c)
    if (sums.joined(c)) outcome = comm::outcome_of("measuring a group of GPUs", [&] { samples[c] = sums.time(c, each); });
  everybody_well(outcome);
  comm::agree(world, outcome, deadline);
  return samples;
}

}  // namespace

std::vector<cluster::GroupSum> measure_group_sums(const comm::World& world, Transport transport,
                                                  const std::vector<cluster::Device>& devices, const std::vector<cluster::Device>& on_gpus,
                                                  const gpu::DeviceContext* gpu, Seconds budget, Seconds deadline) {
  const auto whole = candidate_groups(on_gpus), pairs = transport == Transport::nccl ? candidate_pairs(on_gpus) : decltype(whole){};
  auto candidates = whole;
  auto groups = groups_of(whole, devices, Algorithm::direct);
  if (transport == Transport::nccl)
    for (const auto& more : {pairs, whole}) {
      candidates.insert(candidates.end(), more.begin(), more.end());
      const auto by_library = groups_of(more, devices, Algorithm::library_all_reduce);
      groups.insert(groups.end(), by_library.begin(), by_library.end());
    }
  if (candidates.empty()) return {};
  std::vector<Samples> samples;
  std::vector<std::string> refusals;
  const auto measure = [&](auto& sums) {
    samples = time_all(world, sums, candidates.size(), budget, deadline);
    for (std::size_t c = 0; c < candidates.size(); ++c) refusals.push_back(sums.refusal(c));
  };
  if (transport == Transport::nccl) {
    SumsOverNccl sums{world, groups, gpu, deadline};
    measure(sums);
    sums.leave();
  } else {
    SumsOverDeviceMemory sums{world, groups, gpu, deadline};
    measure(sums);
  }
  std::vector<cluster::GroupSum> known;
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    known.push_back(shared_sum(world, candidates[c], devices, refusals[c], samples[c], deadline));
    known.back().transport = transport;
    known.back().by_library = groups[c].algorithm == Algorithm::library_all_reduce;
  }
  return known;
}

}  // namespace flotilla::probe
