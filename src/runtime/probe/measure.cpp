#include <algorithm>
#include <cstring>
#include <optional>

#include "concurrent_pairs.hpp"
#include "coverage.hpp"
#include "device_links.hpp"
#include "flotilla/base/log.hpp"
#include "flotilla/base/time_shares.hpp"
#include "flotilla/base/utc.hpp"
#include "flotilla/cluster/transports.hpp"
#include "flotilla/comm/agree.hpp"
#include "flotilla/files/profile_file.hpp"
#include "freshness.hpp"
#include "group_sums.hpp"
#include "interference.hpp"
#include "links.hpp"
#include "merge.hpp"
#include "uplinks.hpp"

namespace flotilla::probe {
namespace {

// Weights of the parts in the budget. Operations come last: of these, more or fewer can be measured.
constexpr double for_rates = 0.15, for_interference = 0.05, for_links = 0.25, for_operations = 0.55;
constexpr double for_uplinks = 0.05, for_device_links = 0.1;  // of links' part, where there are some to measure
constexpr double tolerance = 0.2;                             // of the budget

/// What only the ranks' own numbers may differ in, whoever started them.
std::string common_part(const ProbeRequest& request) {
  std::string all = model_fingerprint(request.model, request.length);
  for (Precision p : request.precisions) all += ", " + to_string(p);
  for (int degree : request.tensor_parallel) all += text(", tp", degree);
  for (int sequences : request.sequences) all += text(", ", sequences, " sequences");
  if (request.largest_microbatch > 0) all += text(", up to ", request.largest_microbatch, " sequences");
  return all + text(", budget ", request.budget);
}

std::vector<RankMeasurements> everybodys(const comm::World& world, const RankMeasurements& mine, Seconds deadline) {
  const auto values = numbers(mine);
  const auto bytes = mpi::all_gather_bytes(world.control(), std::as_bytes(std::span{values}), deadline);
  std::vector<RankMeasurements> all;
  for (int r = 0; r < world.size(); ++r) {
    std::vector<double> theirs(values.size());
    std::memcpy(theirs.data(), bytes.data() + static_cast<std::size_t>(r) * values.size() * sizeof(double), values.size() * sizeof(double));
    all.push_back(with_numbers(mine, theirs));
  }
  return all;
}

std::vector<cluster::Device> gpus_over(const ProbeRequest& request, const Discovery& here, cluster::Transport transport) {
  std::vector<cluster::Device> devices;
  for (const Rank rank : ranks_to_measure(request, here, transport)) devices.push_back(here.devices[rank.index()]);
  return devices;
}

struct BetweenGpus {
  DeviceLinks over_nccl, over_device_mpi;
  std::vector<cluster::GroupSum> groups;
};

std::optional<gpu::DeviceContext> gpu_among(const comm::World& world, const ProbeRequest& request,
                                            const std::vector<cluster::Device>& gpus) {
  if (std::ranges::count(gpus, world.rank(), &cluster::Device::rank) == 0) return {};
  return gpu::DeviceContext::open(request.device.ordinal);
}

/// Equal parts of the budget for pairs and whole groups over each transport; NCCL's groups sum in two ways.
BetweenGpus between_gpus(const comm::World& world, const ProbeRequest& request, const Discovery& here, Seconds budget) {
  const auto over_nccl = gpus_over(request, here, cluster::Transport::nccl);
  const auto over_mpi = gpus_over(request, here, cluster::Transport::device_mpi);
  const Seconds part = budget / std::max(1, (over_nccl.empty() ? 0 : 3) + (over_mpi.empty() ? 0 : 2));
  BetweenGpus between;
  const auto add_groups = [&](cluster::Transport transport, const auto& gpus, const gpu::DeviceContext* mine, Seconds its_part) {
    const auto sums = measure_group_sums(world, transport, here.devices, gpus, mine, its_part, request.deadline);
    between.groups.insert(between.groups.end(), sums.begin(), sums.end());
  };
  if (!over_nccl.empty()) {
    report_progress(request, "links between GPUs");
    const auto gpu = gpu_among(world, request, over_nccl);
    const auto* const mine = gpu ? &*gpu : nullptr;
    between.over_nccl = measure_device_links(world, over_nccl, mine, part, request.deadline);
    add_groups(cluster::Transport::nccl, over_nccl, mine, 2.0 * part);
  }
  if (!over_mpi.empty()) {
    report_progress(request, "links between GPUs by MPI");
    const auto gpu = gpu_among(world, request, over_mpi);
    const auto* const mine = gpu ? &*gpu : nullptr;
    between.over_device_mpi = measure_device_memory_links(world, over_mpi, mine, part, request.deadline);
    add_groups(cluster::Transport::device_mpi, over_mpi, mine, part);
  }
  return between;
}

/// Everybody merged the same numbers, but clocks differ, and so may the last bit of sums on different machines: rank 0's copy counts.
cluster::Profile rank_0s(const comm::World& world, const cluster::Profile& profile, Seconds deadline) {
  const std::string json = comm::agree_on(
      world, "writing the profile", [&] { return world.rank() == Rank{0} ? files::profile_to_json(profile) : std::string{}; }, deadline);
  const std::string agreed = mpi::broadcast_string(world.control(), json, 0, deadline);
  return comm::agree_on(
      world, "reading the profile", [&] { return files::profile_from_json(agreed, "rank 0's profile"); }, deadline);
}

}  // namespace

cluster::Profile measure(const comm::World& world, const ProbeRequest& request, const Discovery& here) {
  const Seconds begin = now();
  comm::require_same(world, "the probe's request", common_part(request), request.deadline);
  const double uplinks_part = pair_sets(here.devices).empty() ? 0 : for_uplinks;
  const bool measures_devices = std::ranges::any_of(
      cluster::device_transports, [&](cluster::Transport transport) { return !ranks_to_measure(request, here, transport).empty(); });
  const double device_part = measures_devices ? for_device_links : 0;
  TimeShares shares{begin + request.budget, {for_rates, for_interference, for_links, for_operations}};
  const auto next = [&] { return mpi::broadcast_value(world.control(), shares.next(), 0, request.deadline); };  // everybody decides by it
  const std::size_t me = world.rank().index();
  const int threads = here.devices[me].threads;
  const auto clock = here.crowded[me] != 0 ? thread_time : now;
  RankMeasurements mine;
  report_progress(request, "device");
  const Seconds rates = next();
  mine.rates = comm::agree_on(
      world, "measuring this device",
      [&] {
        return here.gpus[me].empty() ? device_rates(request, threads, here.cache[me], here.memory[me], rates, clock)
                                     : gpu_rates(request, threads, here.sharers[me], here.memory[me], rates);
      },
      request.deadline + 10 * request.budget);
  report_progress(request, "interference");
  const auto interference = measure_interference(world, here, next(), request.deadline);
  report_progress(request, "links");
  const Seconds for_all = next();
  const auto links = measure_links(world, here.devices, for_all * (1 - (uplinks_part + device_part) / for_links), request.deadline);
  const auto uplinks = measure_uplinks(world, here.devices, for_all * (uplinks_part / for_links), request.deadline);
  const auto device_exchanges = between_gpus(world, request, here, for_all * (device_part / for_links));
  auto [shapes, throttling] = operation_times(world, request, here, next());
  mine.shapes = std::move(shapes);
  mine.rates = throttled(std::move(mine.rates), throttling);
  mine.rates.interference = interference;
  mine.rates.nccl_bytes = static_cast<double>(device_exchanges.over_nccl.memory.count);
  mine.rates.device_mpi_bytes = static_cast<double>(device_exchanges.over_device_mpi.memory.count);
  const auto all = everybodys(world, mine, request.deadline);
  cluster::Profile profile = merge(request, here, all);
  profile.model_fingerprint = here.model_fingerprint;
  profile.software = here.software;
  profile.measured_at = utc_now();
  profile.links = links;
  profile.uplinks = uplinks;
  for (const auto* known : {&device_exchanges.over_nccl, &device_exchanges.over_device_mpi})
    profile.device_links.insert(profile.device_links.end(), known->links.begin(), known->links.end());
  profile.group_sums = device_exchanges.groups;
  if (const Seconds took = now() - begin; world.rank() == Rank{0} && took > request.budget * (1 + tolerance))
    log::warning("probe: devices and links took ", took, " of ", request.budget, ": the least that is measured");
  return rank_0s(world, profile, request.deadline);
}

cluster::Profile measure(const comm::World& world, const ProbeRequest& request) {
  return measure(world, request, discover(world, request));
}

}  // namespace flotilla::probe
